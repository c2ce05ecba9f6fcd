// A large model's distribution at every token of a text, in the tokens of a small one: soft targets
// for training/train_builtin_model.py --taught (Hinton et al. 2015, arXiv 1503.02531).
//
//     teach_stories TEACHER STUDENT <stories.txt >stories.taught
//
// The two models split text differently. Where a token of each begins at the same byte, the
// teacher's distribution there becomes one of the student: each of the teacher's tokens counts for
// the token with which the student would begin it. Elsewhere (inside a word, at the beginning of a
// story) there is none. Stories end in <|endoftext|>; the teacher reads several of them one after
// the other, so that it adapts to their style.
//
// Written for each story, in the machine's byte order: int32 n, int32 ids[n], then for each id
// CHOICES uint16 pieces and CHOICES uint16 shares of 65535; all are 0 where there is none.
// Piece 0 (<unk>) is never a target.
#include "model/model.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 1024, CHOICES = 12, CANDIDATES = 24, UNKNOWN = -1 };

static const char END[] = "<|endoftext|>", BREAK[] = "\n\n";

typedef struct Side {
    Checkpoint *checkpoint;
    Tokenizer *tokenizer;
} Side;

// One story, split by both.
typedef struct Story {
    IdList own, teachers;
    size_t row;                      // of the first of the teacher's tokens in the pass
    uint16_t (*targets)[2][CHOICES]; // of own.count pieces; owned
    const char *text;
    size_t length;
} Story;

typedef struct Class {
    Side teacher, student;
    Model *model;
    int32_t *first_piece; // (teacher's vocabulary) UNKNOWN: not looked up yet
    Story stories[CONTEXT];
    int n_stories;
    IdList rows;
} Class;

static _Noreturn void stop(const char *what, const char *which) {
    fprintf(stderr, "teach_stories: %s%s\n", what, which);
    exit(2);
}

static void check(const Error *error) {
    if (error->code) stop(error->message, "");
}

static void *room(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (!memory) stop("no memory", "");
    return memory;
}

static void open_side(Side *side, const char *path, Error *error) {
    if (!checkpoint_open(&side->checkpoint, path, error)) check(error);
    TokenizerSource source = {.vocabulary = checkpoint_vocabulary(side->checkpoint)};
    side->tokenizer = tokenizer_open(&source, error);
    check(error);
}

static void close_side(Side *side) {
    tokenizer_close(side->tokenizer);
    checkpoint_close(side->checkpoint);
}

// ---- from the teacher's tokens to the student's pieces ----

// The student's first token of these bytes inside a text. A control character is part of no token,
// so the bytes after it are split as in the middle of a text.
static int32_t begins_with(Class *c, const char *bytes, size_t length) {
    Error error = {0};
    IdList ids = {0};
    char text[256] = "\x01";
    if (!length || length > sizeof text - 2) return UNKNOWN;
    memcpy(text + 1, bytes, length);
    tokenizer_encode(c->student.tokenizer, &ids, text, length + 1, false, &error);
    check(&error);
    size_t i = 0;
    for (size_t n = 0; i < ids.count; i++) {
        const char *piece = tokenizer_piece(c->student.tokenizer, ids.ids[i], i == 0, false, &n);
        if (n && piece[n - 1] == 1) break;
    }
    int32_t found = i + 1 < ids.count ? ids.ids[i + 1] : UNKNOWN;
    id_list_free(&ids);
    return found;
}

static int32_t first_piece(Class *c, int32_t token) {
    int32_t *known = c->first_piece + token;
    if (*known == UNKNOWN) {
        size_t length = 0;
        const char *piece = tokenizer_piece(c->teacher.tokenizer, token, false, false, &length);
        *known = begins_with(c, piece, length);
        if (*known == UNKNOWN) *known = 0;
    }
    return *known;
}

typedef struct Choice {
    int32_t id;
    float weight;
} Choice;

// Inserts in order of falling weight into a list of at most `most`; returns its new length.
static int insert(Choice *list, int n, int most, Choice new) {
    if (n == most && new.weight <= list[n - 1].weight) return n;
    int i = n < most ? n++ : n - 1;
    for (; i > 0 && list[i - 1].weight < new.weight; i--)
        list[i] = list[i - 1];
    list[i] = new;
    return n;
}

static void take_targets(Class *c, uint16_t target[2][CHOICES], const float *logits) {
    Choice tokens[CANDIDATES], pieces[CANDIDATES], best[CHOICES];
    int vocab_size = checkpoint_config(c->teacher.checkpoint)->vocab_size;
    int n = 0, n_pieces = 0, n_best = 0;
    for (int32_t t = 0; t < vocab_size; t++)
        if (n < CANDIDATES || logits[t] > tokens[n - 1].weight)
            n = insert(tokens, n, CANDIDATES, (Choice){t, logits[t]});
    for (int i = 0; i < n; i++) {
        int32_t piece = first_piece(c, tokens[i].id);
        float weight = expf(tokens[i].weight - tokens[0].weight);
        int j = 0;
        while (j < n_pieces && pieces[j].id != piece)
            j++;
        if (j == n_pieces) pieces[n_pieces++] = (Choice){piece, 0};
        pieces[j].weight += weight;
    }
    float sum = 0;
    for (int j = 0; j < n_pieces; j++)
        if (pieces[j].id) n_best = insert(best, n_best, CHOICES, pieces[j]);
    for (int j = 0; j < n_best; j++)
        sum += best[j].weight;
    for (int j = 0; j < n_best; j++) {
        target[0][j] = (uint16_t)best[j].id;
        target[1][j] = (uint16_t)lroundf(best[j].weight / sum * 65535);
    }
}

// ---- stories ----

static void match(Class *c, Story *s) {
    int32_t *own_at = room(s->length + 1, sizeof *own_at); // byte -> the student's piece + 1
    size_t at = 0, length;
    for (size_t i = 0; i < s->own.count && at <= s->length; i++, at += length) {
        own_at[at] = (int32_t)i + 1;
        tokenizer_piece(c->student.tokenizer, s->own.ids[i], i == 0, false, &length);
    }
    if (at != s->length) stop("the student's pieces are not the text: ", s->text);
    at = 0;
    for (size_t i = 0; i < s->teachers.count && at <= s->length; i++, at += length) {
        if (at && own_at[at])
            take_targets(c, s->targets[own_at[at] - 1],
                         model_logits(c->model, (int)(s->row + i - 1)));
        tokenizer_piece(c->teacher.tokenizer, s->teachers.ids[i], i == 0, false, &length);
    }
    if (at > s->length) stop("the teacher's tokens are not the text: ", s->text);
    free(own_at);
}

static void write_story(const Story *s) {
    int32_t n = (int32_t)s->own.count;
    fwrite(&n, sizeof n, 1, stdout);
    fwrite(s->own.ids, sizeof *s->own.ids, s->own.count, stdout);
    fwrite(s->targets, sizeof *s->targets, s->own.count, stdout);
}

// All stories collected so far, in one pass.
static void teach(Class *c) {
    Error error = {0};
    if (!c->n_stories) return;
    bool *wants = room(c->rows.count, sizeof *wants);
    memset(wants, true, c->rows.count);
    kv_cache_reset(&c->model->cache, 0);
    Batch batch = {.n = (int)c->rows.count, .tokens = c->rows.ids, .wants_logits = wants};
    model_forward(c->model, &batch, &error);
    check(&error);
    for (int i = 0; i < c->n_stories; i++) {
        Story *s = c->stories + i;
        match(c, s);
        write_story(s);
        id_list_free(&s->own);
        id_list_free(&s->teachers);
        free(s->targets);
    }
    if (ferror(stdout)) stop("cannot write", "");
    free(wants);
    c->n_stories = 0;
    c->rows.count = 0;
}

static void append(IdList *list, const IdList *more, Error *error) {
    for (size_t i = 0; i < more->count; i++)
        id_list_push(list, more->ids[i], error);
}

static void add_story(Class *c, const char *text, size_t length) {
    Error error = {0};
    IdList between = {0};
    Story s = {.text = text, .length = length};
    tokenizer_encode(c->student.tokenizer, &s.own, text, length, false, &error);
    tokenizer_encode(c->teacher.tokenizer, &s.teachers, text, length, false, &error);
    tokenizer_encode(c->teacher.tokenizer, &between, BREAK, sizeof BREAK - 1, false, &error);
    check(&error);
    if (s.teachers.count > CONTEXT) s.teachers.count = CONTEXT;
    if (c->rows.count + between.count + s.teachers.count > CONTEXT) teach(c);
    if (c->n_stories) append(&c->rows, &between, &error);
    s.row = c->rows.count;
    s.targets = room(s.own.count, sizeof *s.targets);
    append(&c->rows, &s.teachers, &error);
    check(&error);
    c->stories[c->n_stories++] = s;
    id_list_free(&between);
}

// Reads standard input to its end, where the last story must end in END.
static char *read_stories(void) {
    size_t capacity = 1 << 20, length = 0;
    char *text = room(capacity, 1);
    for (size_t got; (got = fread(text + length, 1, capacity - length, stdin)) > 0;) {
        length += got;
        if (length < capacity) continue;
        text = realloc(text, 1 + (capacity *= 2));
        if (!text) stop("no memory", "");
    }
    text[length] = 0;
    if (ferror(stdin)) stop("cannot read standard input", "");
    while (length && strchr("\n ", text[length - 1]))
        length--;
    size_t end = sizeof END - 1;
    if (length < end || memcmp(text + length - end, END, end) || strlen(text) < length)
        stop("no stories, each followed by <|endoftext|>, are in standard input", "");
    return text;
}

int main(int argc, char **argv) {
    static Class class;
    Error error = {0};
    if (argc != 3) stop("usage: teach_stories TEACHER STUDENT <stories.txt >stories.taught", "");
    open_side(&class.teacher, argv[1], &error);
    open_side(&class.student, argv[2], &error);
    const Config *config = checkpoint_config(class.teacher.checkpoint);
    ModelOptions options = {
        .precision = PRECISION_A8, .context = CONTEXT, .max_logit_rows = CONTEXT};
    class.model =
        model_open(config, checkpoint_weights(class.teacher.checkpoint), &options, &error);
    check(&error);
    if (checkpoint_config(class.student.checkpoint)->vocab_size > UINT16_MAX)
        stop("a vocabulary of more than 65,535 pieces: ", argv[2]);
    class.first_piece = room((size_t)config->vocab_size, sizeof *class.first_piece);
    memset(class.first_piece, UNKNOWN, (size_t)config->vocab_size * sizeof *class.first_piece);

    char *text = read_stories();
    size_t length = strlen(text);
    int tenths = 0;
    for (char *at = text, *end; (end = strstr(at, END)); at = end + sizeof END - 1) {
        int now = (int)(10.0 * (double)(at - text) / (double)length);
        if (now > tenths) fprintf(stderr, "%d %% of the text\n", 10 * now);
        tenths = now;
        *end = 0;
        char *begin = at + strspn(at, "\n ");
        if (begin < end) add_story(&class, begin, (size_t)(end - begin));
    }
    teach(&class);
    model_close(class.model);
    id_list_free(&class.rows);
    free(class.first_piece);
    free(text);
    close_side(&class.teacher);
    close_side(&class.student);
    if (fflush(stdout) || ferror(stdout)) stop("cannot write", "");
    return 0;
}
