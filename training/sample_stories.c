// Stories that a model tells, many at a time: more text for training/train_builtin_model.py.
//
//     sample_stories MODEL TEXT --seed 1 --count 20000 --temperature 0.9 --top-p 0.95 >stories.txt
//
// TEXT holds stories that end in <|endoftext|>. A third of the new stories begin with nothing; the
// others continue some words of TEXT, from the start of a story or from any sentence of it. A story
// depends on --seed and its own number alone (numbers begin at --from), since a row's result does
// not depend on the rows beside it. A story is followed by a line <|endoftext|>, one that reached
// the end of the context by <|cut|>.
#include "base/hash.h"
#include "model/model.h"
#include "model/sampler.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 32, CONTEXT = 448, MOST_WORDS = 40, TEXT_ROOM = 8 * CONTEXT };

static const char END[] = "<|endoftext|>";

typedef struct Plan {
    const char *model, *text;
    uint64_t seed, from, count;
    double temperature, top_p;
} Plan;

// Where a sentence of the text begins, and whether a story begins there.
typedef struct Opening {
    size_t at;
    bool of_story;
} Opening;

typedef struct Source {
    char *text;
    size_t length;
    Opening *openings;
    size_t count;
} Source;

// One unfinished story: a sequence of the model.
typedef struct Slot {
    Sampler *sampler; // NULL: idle
    IdList prompt;
    size_t fed;
    int32_t next; // the token that was sampled last
    char text[TEXT_ROOM];
    size_t length;
} Slot;

typedef struct Teller {
    Checkpoint *checkpoint;
    Tokenizer *tokenizer;
    Model *model;
    Source source;
    Slot slots[SLOTS];
    uint64_t next, end; // numbers of the stories
    int tenths;         // of the stories begun, as last printed
} Teller;

static _Noreturn void stop(const char *what, const char *which) {
    fprintf(stderr, "sample_stories: %s%s\n", what, which);
    exit(2);
}

// ---- the openings ----

static char *read_text(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) stop("cannot open ", path);
    long size = ftell(file);
    rewind(file);
    char *text = size > 0 ? malloc((size_t)size + 1) : NULL;
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size) stop("cannot read ", path);
    text[size] = 0;
    fclose(file);
    *length = (size_t)size;
    return text;
}

static void find_openings(Source *s) {
    s->openings = malloc((s->length + 1) * sizeof *s->openings);
    if (!s->openings) stop("no memory", "");
    bool of_story = true, of_sentence = true;
    for (size_t i = 0; i < s->length; i++) {
        if (!strncmp(s->text + i, END, sizeof END - 1)) {
            i += sizeof END - 2;
            of_story = true;
        } else if ((of_story || of_sentence) && isupper((unsigned char)s->text[i])) {
            s->openings[s->count++] = (Opening){i, of_story};
            of_story = of_sentence = false;
        } else if (!isspace((unsigned char)s->text[i])) {
            of_sentence = strchr(".!?", s->text[i]);
        }
    }
    if (!s->count) stop("no sentence in the text", "");
}

// The words that a story continues; length 0: none.
static TextSpan choose_opening(const Source *s, uint64_t *state) {
    uint64_t kind = splitmix64(state) % 3, words = 1 + splitmix64(state) % MOST_WORDS;
    if (!kind) return (TextSpan){s->text, 0};
    size_t i = splitmix64(state) % s->count;
    while (kind == 1 && !s->openings[i].of_story)
        i = (i + 1) % s->count;
    size_t begin = s->openings[i].at, end = begin;
    while (words-- && end < s->length && s->text[end] != '<') {
        while (isspace((unsigned char)s->text[end]))
            end++;
        while (s->text[end] && !isspace((unsigned char)s->text[end]) && s->text[end] != '<')
            end++;
    }
    return (TextSpan){s->text + begin, end - begin};
}

// ---- generating ----

static void begin_story(Teller *t, Slot *slot, const Plan *plan, Error *error) {
    uint64_t state = plan->seed ^ (t->next * 0xd1342543de82ef95u);
    TextSpan opening = choose_opening(&t->source, &state);
    SamplerOptions options = sampler_defaults();
    options.rule.temperature = (float)plan->temperature;
    options.rule.top_p = (float)plan->top_p;
    options.seed = splitmix64(&state);
    int vocab_size = checkpoint_config(t->checkpoint)->vocab_size;
    slot->prompt.count = slot->fed = 0;
    slot->length = opening.length < TEXT_ROOM / 2 ? opening.length : 0;
    memcpy(slot->text, opening.text, slot->length);
    if (!id_list_push(&slot->prompt, tokenizer_bos(t->tokenizer), error) ||
        !tokenizer_encode(t->tokenizer, &slot->prompt, opening.text, slot->length, false, error))
        return;
    slot->sampler = sampler_open(t->model->device, vocab_size, CONTEXT, &options, error);
    kv_cache_reset(&t->model->cache, (int)(slot - t->slots));
    t->next++;
}

// A story that was cut ends with its last whole sentence. Spaces before the end of a line are
// removed.
static void end_story(Slot *slot, bool whole) {
    while (!whole && slot->length && !strchr(".!?\"", slot->text[slot->length - 1]))
        slot->length--;
    for (size_t i = 0; i < slot->length; i++) {
        size_t next = i;
        while (next < slot->length && slot->text[next] == ' ')
            next++;
        if (next > i && (next == slot->length || slot->text[next] == '\n')) i = next;
        if (i < slot->length) putchar(slot->text[i]);
    }
    printf("\n%s\n", whole ? END : "<|cut|>");
    sampler_close(slot->sampler);
    slot->sampler = NULL;
}

static bool ends_text(const Teller *t, int32_t id) {
    return id == tokenizer_bos(t->tokenizer) || id == checkpoint_config(t->checkpoint)->eos_ids[0];
}

static void draw(Teller *t, Slot *slot, const float *logits, Error *error) {
    slot->next = sampler_next(slot->sampler, logits, error);
    if (slot->next < 0) return;
    size_t length = 0;
    const char *piece =
        tokenizer_piece(t->tokenizer, slot->next, slot->length == 0, false, &length);
    bool ended = ends_text(t, slot->next);
    int used = kv_cache_length(&t->model->cache, (int)(slot - t->slots));
    if (ended || used == CONTEXT || slot->length + length > TEXT_ROOM) {
        end_story(slot, ended);
        return;
    }
    memcpy(slot->text + slot->length, piece, length);
    slot->length += length;
}

// A line on standard error for every tenth of the stories that is begun: all take many minutes.
static void tell_progress(Teller *t, const Plan *plan) {
    uint64_t begun = t->next - plan->from;
    int tenths = (int)(10.0 * (double)begun / (double)plan->count);
    if (tenths == t->tenths || tenths == 10) return;
    t->tenths = tenths;
    fprintf(stderr, "seed %" PRIu64 ": %" PRIu64 " of %" PRIu64 " stories are begun\n", plan->seed,
            begun, plan->count);
}

// One pass: a row for every story, which first reads its prompt token by token. False: all are
// done.
static bool step(Teller *t, const Plan *plan, Error *error) {
    int32_t tokens[SLOTS], sequences[SLOTS];
    bool wants[SLOTS];
    int n = 0;
    for (int i = 0; i < SLOTS && !error->code; i++) {
        Slot *slot = &t->slots[i];
        if (!slot->sampler && t->next < t->end) begin_story(t, slot, plan, error);
        if (!slot->sampler) continue;
        bool prompt = slot->fed < slot->prompt.count;
        tokens[n] = prompt ? slot->prompt.ids[slot->fed++] : slot->next;
        wants[n] = slot->fed == slot->prompt.count;
        sequences[n++] = i;
    }
    if (!n || error->code) return false;
    Batch batch = {.n = n, .tokens = tokens, .sequences = sequences, .wants_logits = wants};
    if (!model_forward(t->model, &batch, error)) return false;
    for (int i = 0, row = 0; i < n && !error->code; i++)
        if (wants[i]) draw(t, &t->slots[sequences[i]], model_logits(t->model, row++), error);
    return !error->code;
}

static void run(Teller *t, const Plan *plan, Error *error) {
    if (!checkpoint_open(&t->checkpoint, plan->model, error)) return;
    TokenizerSource source = {.vocabulary = checkpoint_vocabulary(t->checkpoint)};
    t->tokenizer = tokenizer_open(&source, error);
    if (!t->tokenizer) return;
    // a8: its rounding is small beside the randomness of sampling
    ModelOptions options = {.precision = PRECISION_A8,
                            .threads = 1,
                            .context = CONTEXT,
                            .n_sequences = SLOTS,
                            .max_rows = SLOTS,
                            .max_logit_rows = SLOTS};
    t->model = model_open(checkpoint_config(t->checkpoint), checkpoint_weights(t->checkpoint),
                          &options, error);
    while (t->model && step(t, plan, error))
        tell_progress(t, plan);
}

static void parse(Plan *plan, int argc, char **argv) {
    for (int i = 3; i < argc; i += 2) {
        char *end = argv[i];
        if (i + 1 == argc)
            stop("a value is missing after ", argv[i]);
        else if (!strcmp(argv[i], "--seed"))
            plan->seed = strtoull(argv[i + 1], &end, 10);
        else if (!strcmp(argv[i], "--from"))
            plan->from = strtoull(argv[i + 1], &end, 10);
        else if (!strcmp(argv[i], "--count"))
            plan->count = strtoull(argv[i + 1], &end, 10);
        else if (!strcmp(argv[i], "--temperature"))
            plan->temperature = strtod(argv[i + 1], &end);
        else if (!strcmp(argv[i], "--top-p"))
            plan->top_p = strtod(argv[i + 1], &end);
        else
            stop("no such option: ", argv[i]);
        // strtoull takes "-1" for a huge number: a run of that many stories never ends.
        if (*end || end == argv[i + 1] || *argv[i + 1] == '-')
            stop("not a number of 0 or more: ", argv[i + 1]);
    }
}

int main(int argc, char **argv) {
    if (argc < 3)
        stop("usage: sample_stories MODEL.gguf TEXT [--seed N --from N --count N "
             "--temperature T --top-p P]",
             "");
    Plan plan = {
        .model = argv[1], .text = argv[2], .seed = 1, .count = 100, .temperature = 0.9, .top_p = 1};
    parse(&plan, argc, argv);
    static Teller teller;
    Error error = {0};
    teller.next = plan.from;
    teller.end = plan.from + plan.count;
    teller.source.text = read_text(plan.text, &teller.source.length);
    find_openings(&teller.source);
    run(&teller, &plan, &error);
    if (error.code) stop(error.message, "");
    for (int i = 0; i < SLOTS; i++)
        id_list_free(&teller.slots[i].prompt);
    model_close(teller.model);
    tokenizer_close(teller.tokenizer);
    checkpoint_close(teller.checkpoint);
    free(teller.source.openings);
    free(teller.source.text);
    if (fflush(stdout) || ferror(stdout)) stop("cannot write the stories", "");
    return 0;
}
