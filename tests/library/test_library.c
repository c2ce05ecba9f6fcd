// limpid.h against the program: the same ids, the same bits. And what a library owes its caller:
// errors returned, nothing printed, no signal handled, two models in two threads.
#include "base/hash.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/opened.h"
#include "tests/support/program.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONTEXT = 64 };

static uint64_t row_hash(const Opened *o, int i) {
    const float *logits = limpid_logits(o->context, i);
    CHECK(logits, "row %d", i);
    return fnv1a(FNV_START, logits, (size_t)o->info.vocab_size * sizeof *logits);
}

// The hash of all rows of logits that tokens were sampled from, as generate --json prints it.
static uint64_t generate(Opened *o, const limpid_sampling *sampling, int count, int32_t *out) {
    limpid_error error = {0};
    limpid_sampler *sampler = limpid_sampler_open(o->context, sampling, &error);
    CHECK(sampler, "%s", error.message);
    CHECK(limpid_sampler_begin(sampler, o->ids, (size_t)o->n, 0, &error), "%s", error.message);
    test_eval(o, &(limpid_batch){.n = o->n, .tokens = o->ids});
    uint64_t hash = FNV_START;
    for (int i = 0; i < count; i++) {
        const float *logits = limpid_logits(o->context, 0);
        hash = fnv1a(hash, logits, (size_t)o->info.vocab_size * sizeof *logits);
        out[i] = limpid_sample(sampler, logits, &error);
        CHECK(out[i] >= 0, "%s", error.message);
        CHECK(limpid_sampler_accept(sampler, out[i], &error), "%s", error.message);
        test_eval(o, &(limpid_batch){.n = 1, .tokens = &out[i]});
    }
    limpid_sampler_close(sampler);
    return hash;
}

// ---- the program's numbers ----

static void check_like_program(const limpid_options *options, const limpid_sampling *sampling,
                               const char *arguments) {
    enum { COUNT = 40 };
    int32_t out[COUNT];
    char wanted[4000], got[24];
    Opened o = test_opened(options);
    uint64_t hash = generate(&o, sampling, COUNT, out);
    snprintf(got, sizeof got, "\"%016llx\"", (unsigned long long)hash);
    TestRun run = program("generate|%s|-i|%s|--max-tokens|40|--ignore-eos|--json|-q|%s",
                          small_model(), TEST_PROMPT, arguments);
    check_status(&run, 0);
    CHECK_STRING(json_value(wanted, run.out, "logits_hash"), got);
    json_value(wanted, run.out, "ids"); // "[1, 2", up to the bracket
    const char *at = wanted;
    for (int i = 0; i < COUNT; i++) {
        at += strcspn(at, "0123456789");
        CHECK_INT(strtol(at, (char **)&at, 10), out[i]);
    }
    test_run_free(&run);
    test_opened_close(&o);
}

Test(library, has_the_bits_of_generate_at_temperature_0) {
    check_like_program(&(limpid_options){.context = 128}, NULL, "-t|0");
}

Test(library, has_the_bits_of_generate_with_a_seed_and_penalties) {
    check_like_program(
        &(limpid_options){.threads = 2, .precision = LIMPID_F32},
        &(limpid_sampling){
            .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .repeat_penalty = 1.2f, .seed = 7},
        "--precision|f32|-t|0.8|--top-k|40|-p|0.95|--repeat-penalty|1.2|-s|7");
}

Test(library, has_the_bits_of_generate_with_biases_and_a_pattern) {
    static const limpid_bias BIASES[] = {{260, -INFINITY}, {5, 1.5f}, {300, -2}};
    check_like_program(
        &(limpid_options){.pattern = "local:4+global:3"},
        &(limpid_sampling){
            .temperature = 1, .top_p = 0.9f, .biases = BIASES, .n_biases = 3, .seed = 5},
        "--pattern|local:4+global:3|-s|5|--logit-bias|260:-inf,5:+1.5|--logit-bias|"
        "300:-2");
}

Test(library, has_the_bits_of_generate_with_dry_and_xtc) {
    static const char *const BREAKERS[] = {",", " the"};
    check_like_program(NULL,
                       &(limpid_sampling){.temperature = 0.7f,
                                          .xtc_probability = 0.5f,
                                          .xtc_threshold = 0.1f,
                                          .dry_multiplier = 0.8f,
                                          .dry_base = 1.75f,
                                          .dry_allowed_length = 1,
                                          .dry_breakers = BREAKERS,
                                          .n_dry_breakers = 2,
                                          .seed = 3},
                       "-t|0.7|-p|1|-s|3|--xtc-probability|0.5|--xtc-threshold|0.1|"
                       "--dry-multiplier|0.8|--dry-allowed-length|1|--dry-sequence-breaker|,|"
                       "--dry-sequence-breaker| the");
}

Test(library, has_the_bits_of_generate_with_mirostat_and_frequency_penalties) {
    check_like_program(NULL,
                       &(limpid_sampling){.temperature = 1.2f,
                                          .mirostat_tau = 3,
                                          .mirostat_eta = 0.2f,
                                          .presence_penalty = 0.3f,
                                          .frequency_penalty = 0.1f,
                                          .repeat_last = 12,
                                          .seed = 8},
                       "-t|1.2|-s|8|--mirostat|2|--mirostat-ent|3|--mirostat-lr|0.2|"
                       "--presence-penalty|0.3|--frequency-penalty|0.1|--repeat-last-n|12");
}

Test(library, a_model_in_memory_has_the_bits_of_its_file) {
    limpid_error error = {0};
    size_t size = 0;
    char *bytes = test_read_file(small_model(), &size);
    Opened file = test_opened(NULL), memory = file;
    memory.model = limpid_open_memory(bytes, size, NULL, &error);
    CHECK(memory.model, "%s", error.message);
    memory.context = limpid_context_open(memory.model, NULL, &error);
    CHECK(memory.context, "%s", error.message);
    test_eval(&file, &(limpid_batch){.n = file.n, .tokens = file.ids});
    test_eval(&memory, &(limpid_batch){.n = file.n, .tokens = file.ids});
    CHECK(row_hash(&file, 0) == row_hash(&memory, 0));
    test_opened_close(&file);
    test_opened_close(&memory);
    free(bytes);
}

// It would have its config.json in the working directory.
// Weights are read with the context: by then they are of two versions, where somebody writes into
// the file. A file that is put in its place leaves the one that is open as it was.
Test(library, weights_of_a_file_that_was_written_to_are_refused) {
    const char *path = test_temporary("written.gguf"), *other = test_temporary("new.gguf");
    size_t size;
    char *bytes = test_read_file(small_model(), &size);
    limpid_error error = {0};
    for (int in_place = 0; in_place < 2; in_place++) {
        test_write_file(path, bytes, size);
        limpid_model *model = limpid_open(path, NULL, &error);
        CHECK(model, "%s", error.message);
        usleep(20000); // a file system tells times apart by clock ticks
        test_write_file(in_place ? path : other, bytes, size);
        if (!in_place) CHECK_INT(rename(other, path), 0);
        limpid_context *context =
            limpid_context_open(model, &(limpid_options){.context = CONTEXT}, &error);
        CHECK((context == NULL) == in_place, "%s", error.message);
        if (in_place) CHECK_INT(error.code, ERROR_IO);
        limpid_context_close(context);
        limpid_close(model);
    }
    CHECK(strstr(error.message, "was written to while it was read"), "%s", error.message);
    free(bytes);
}

Test(library, safetensors_in_memory_are_refused) {
    static const char BYTES[] = "\2\0\0\0\0\0\0\0{}      ";
    limpid_error error = {0};
    CHECK(!limpid_open_memory(BYTES, sizeof BYTES - 1, NULL, &error));
    CHECK_INT(error.code, 3);
    CHECK(strstr(error.message, "have their config.json beside them"), "%s", error.message);
}

// Whatever lies in the working directory.
Test(library, a_model_in_memory_without_a_vocabulary_looks_at_no_file) {
    BinShape shape = bin_shape_blocks();
    limpid_error error = {0};
    size_t size;
    char *bytes = bin_bytes(&size, &shape, 1), before[500];
    const char *directory = test_temporary("beside");
    CHECK(getcwd(before, sizeof before) && !mkdir(directory, 0700) && !chdir(directory));
    test_write_file("tokenizer.bin", "no tokenizer", 12);
    limpid_model *model = limpid_open_memory(bytes, size, NULL, &error);
    CHECK(model, "%s", error.message);
    CHECK(!limpid_describe(model).tokenizer);
    CHECK_INT(limpid_tokenize(model, "a", 1, 0, NULL, 0, &error), -1);
    CHECK_STRING(error.message, "the bytes have no vocabulary: give a tokenizer");
    limpid_close(model);
    CHECK(!chdir(before));
    free(bytes);
}

Test(library, a_chat_template_that_is_not_known_is_called_so) {
    limpid_error error = {0};
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "tokenizer.chat_template", "{% for m in messages %}{{ m }}{% endfor %}");
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    limpid_model *model = limpid_open_memory(bytes, size, NULL, &error);
    CHECK(model, "%s", error.message);
    CHECK(!limpid_describe(model).chat);
    CHECK_INT(limpid_chat(model, &(limpid_message){"user", "a"}, 1, NULL, 0, &error), -1);
    CHECK_INT(error.code, 2);
    CHECK(strstr(error.message, "its chat template is none that limpid knows"), "%s",
          error.message);
    limpid_close(model);
    free(bytes);
}

// An empty text would be in every token.
Test(library, an_empty_sequence_breaker_is_refused) {
    limpid_error error = {0};
    Opened o = test_opened(NULL);
    limpid_sampling sampling = {
        .dry_multiplier = 1, .dry_breakers = (const char *const[]){"a", ""}, .n_dry_breakers = 2};
    CHECK(!limpid_sampler_open(o.context, &sampling, &error));
    CHECK_STRING(error.message, "dry_breakers: number 1 is empty");
    test_opened_close(&o);
}

// ---- text ----

Test(library, a_text_comes_back_from_its_ids) {
    char text[64];
    int32_t few[2] = {-1, -1};
    limpid_error error = {0};
    Opened o = test_opened(NULL);
    CHECK_INT(o.ids[0], o.info.bos);
    CHECK_INT(
        limpid_tokenize(o.model, TEST_PROMPT, strlen(TEST_PROMPT), LIMPID_BEGIN, few, 1, &error),
        o.n);
    CHECK(few[0] == o.ids[0] && few[1] == -1, "it wrote behind the capacity");
    CHECK_INT(limpid_tokenize(o.model, TEST_PROMPT, strlen(TEST_PROMPT), 0, NULL, 0, &error),
              o.n - 1);
    int length = limpid_detokenize(o.model, o.ids, (size_t)o.n, LIMPID_BEGIN, text, 64, &error);
    CHECK_INT(length, strlen(TEST_PROMPT));
    CHECK(!memcmp(text, TEST_PROMPT, strlen(TEST_PROMPT)), "%.*s", length, text);
    // In the middle of a text the space is the text's own.
    CHECK_INT(limpid_detokenize(o.model, o.ids + 1, 1, 0, text, 64, &error), strlen(" Once"));
    CHECK(!memcmp(text, " Once", 5), "%.5s", text);
    CHECK_INT(limpid_detokenize(o.model, o.ids + 1, 1, LIMPID_BEGIN, text, 64, &error), 4);
    CHECK(!memcmp(text, "Once", 4), "%.4s", text);
    CHECK_INT(limpid_detokenize(o.model, o.ids, 1, LIMPID_SPECIAL, text, 64, &error), 3);
    CHECK(!memcmp(text, "<s>", 3), "%.3s", text);
    CHECK_INT(limpid_tokenize(o.model, "x", 1, 8, NULL, 0, &error), -1);
    CHECK_INT(error.code, 2);
    test_opened_close(&o);
}

Test(library, a_conversation_is_in_the_models_own_format) {
    static const char WANTED[] = "<|im_start|>system\nBe short.<|im_end|>\n"
                                 "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    limpid_message messages[] = {{"system", "Be short."}, {"user", "Hi"}};
    int32_t ids[TEST_MOST_IDS];
    char text[400];
    limpid_error error = {0};
    limpid_model *model =
        limpid_open(test_model_file("SmolLM2-135M-Instruct.Q4_1.gguf"), NULL, &error);
    CHECK(model, "%s", error.message);
    if (!limpid_describe(model).tokenizer) SKIP("this build has no byte-level BPE");
    CHECK_STRING(limpid_describe(model).chat, "smollm2");
    int n = limpid_chat(model, messages, 2, ids, TEST_MOST_IDS, &error);
    CHECK(n > 0 && n < TEST_MOST_IDS, "%s", error.message);
    CHECK_INT(limpid_chat(model, messages, 2, NULL, 0, &error), n);
    int length = limpid_detokenize(model, ids, (size_t)n, LIMPID_BEGIN | LIMPID_SPECIAL, text,
                                   sizeof text, &error);
    CHECK(length == (int)strlen(WANTED) && !memcmp(text, WANTED, strlen(WANTED)), "%.*s", length,
          text);
    messages[1].role = "robot";
    CHECK_INT(limpid_chat(model, messages, 2, ids, TEST_MOST_IDS, &error), -1);
    CHECK_STRING(error.message, "role: got \"robot\", wanted system, user or assistant");
    messages[1].role = NULL;
    CHECK_INT(limpid_chat(model, messages, 2, ids, TEST_MOST_IDS, &error), -1);
    CHECK_STRING(error.message, "role is NULL");
    messages[0].text = NULL;
    CHECK_INT(limpid_chat(model, messages, 2, ids, TEST_MOST_IDS, &error), -1);
    CHECK_STRING(error.message, "text is NULL");
    CHECK_INT(limpid_chat(model, NULL, 2, ids, TEST_MOST_IDS, &error), -1);
    CHECK_STRING(error.message, "messages is NULL");
    limpid_close(model);
}

// ---- the cache ----

Test(library, a_cache_that_was_truncated_goes_on_as_if_nothing_had_been_there) {
    Opened o = test_opened(&(limpid_options){.context = CONTEXT});
    test_eval(&o, &(limpid_batch){.n = o.n, .tokens = o.ids});
    uint64_t before = row_hash(&o, 0);
    test_eval(&o, &(limpid_batch){.n = 2, .tokens = o.ids + 1});
    CHECK(row_hash(&o, 0) != before);
    CHECK_INT(limpid_length(o.context, 0), o.n + 2);
    CHECK(limpid_truncate(o.context, 0, o.n - 1));
    CHECK_INT(limpid_length(o.context, 0), o.n - 1);
    test_eval(&o, &(limpid_batch){.n = 1, .tokens = o.ids + o.n - 1});
    CHECK(row_hash(&o, 0) == before);
    test_opened_close(&o);
}

Test(library, sequences_of_one_batch_do_not_see_each_other_and_can_be_copied) {
    Opened o =
        test_opened(&(limpid_options){.context = CONTEXT, .sequences = 3, .max_logit_rows = 2});
    int n = o.n;
    test_eval(&o, &(limpid_batch){.n = n, .tokens = o.ids});
    uint64_t alone = row_hash(&o, 0);
    int32_t tokens[TEST_MOST_IDS], sequences[TEST_MOST_IDS];
    bool wants[TEST_MOST_IDS] = {false};
    for (int i = 0; i < 2 * n; i++) { // the prompt, and the prompt from behind
        tokens[i] = i < n ? o.ids[i] : o.ids[2 * n - 1 - i];
        sequences[i] = 1 + i / n;
        wants[i] = i % n == n - 1;
    }
    test_eval(&o, &(limpid_batch){
                      .n = 2 * n, .tokens = tokens, .sequences = sequences, .wants_logits = wants});
    CHECK(row_hash(&o, 0) == alone);
    CHECK(row_hash(&o, 1) != alone);
    CHECK(limpid_copy(o.context, 2, 1) && limpid_truncate(o.context, 2, n - 1));
    int32_t last = 2;
    test_eval(&o, &(limpid_batch){.n = 1, .tokens = o.ids + n - 1, .sequences = &last});
    CHECK(row_hash(&o, 0) == alone);
    CHECK_INT(limpid_length(o.context, 1), n);
    test_opened_close(&o);
}

// Saved in one context and put back into another, a sequence goes on with the bits it had.
Test(library, saves_and_restores_a_sequence) {
    limpid_error error = {0};
    Opened o = test_opened(NULL), other = test_opened(NULL);
    test_eval(&o, &(limpid_batch){.n = o.n - 1, .tokens = o.ids});
    size_t size = limpid_state_size(o.context, o.n - 1);
    char *state = malloc(size);
    CHECK(size && state && limpid_state_size(o.context, 1 << 20) == 0, "%zu bytes", size);
    CHECK(limpid_save(o.context, 0, state, &error), "%s", error.message);
    test_eval(&o, &(limpid_batch){.n = 1, .tokens = o.ids + o.n - 1});
    CHECK(limpid_restore(other.context, 0, o.n - 1, state, size, &error), "%s", error.message);
    CHECK_INT(limpid_length(other.context, 0), o.n - 1);
    test_eval(&other, &(limpid_batch){.n = 1, .tokens = o.ids + o.n - 1});
    CHECK(row_hash(&o, 0) == row_hash(&other, 0), "other bits");
    CHECK(!limpid_save(o.context, 1, state, &error) && error.code == 2, "%d", error.code);
    CHECK(!limpid_restore(other.context, 1, o.n - 1, state, size, &error), "sequence 1");
    CHECK(!limpid_restore(other.context, 0, o.n - 1, state, size - 1, &error), "a byte less");
    CHECK(!limpid_restore(other.context, 0, -1, state, size, &error), "length -1");
    CHECK(!limpid_restore(other.context, 0, 1 << 20, state, size, &error), "too long");
    CHECK_INT(limpid_length(other.context, 0), o.n); // as it was
    free(state);
    test_opened_close(&o);
    test_opened_close(&other);
}

// ---- stages ----

typedef struct Seen {
    int calls, layers;
    double worst; // of the sums of attention weights
    int n_heads, context;
} Seen;

static bool sum_weights(void *user, limpid_stage *s) {
    Seen *seen = user;
    CHECK_STRING(s->name, "att_weights");
    CHECK_INT(s->shape[0], s->n);
    CHECK_INT(s->shape[1], seen->n_heads);
    CHECK_INT(s->shape[2], seen->context);
    CHECK_INT(s->shape[3], 0);
    CHECK_INT(s->positions[s->n - 1], s->n - 1);
    for (int i = 0; i < s->n * s->shape[1]; i++) {
        double sum = 0;
        for (int t = 0; t < s->shape[2]; t++)
            sum += (double)s->data[(size_t)i * (size_t)s->shape[2] + (size_t)t];
        if (fabs(sum - 1) > seen->worst) seen->worst = fabs(sum - 1);
    }
    seen->calls++;
    if (s->layer >= seen->layers) seen->layers = s->layer + 1;
    return false;
}

Test(library, a_listener_sees_the_weights_of_every_head_sum_to_1) {
    Opened o = test_opened(&(limpid_options){.context = CONTEXT});
    Seen seen = {.n_heads = o.info.n_heads, .context = CONTEXT};
    CHECK(limpid_listen(o.context, "att_weights", sum_weights, &seen, NULL));
    test_eval(&o, &(limpid_batch){.n = o.n, .tokens = o.ids});
    CHECK_INT(seen.calls, o.info.n_layers);
    CHECK_INT(seen.layers, o.info.n_layers);
    CHECK(seen.worst < 1e-5, "off by %g", seen.worst);
    test_opened_close(&o);
}

// Silences what the last layer's feed-forward adds.
static bool silence(void *user, limpid_stage *s) {
    if (s->layer != *(int *)user - 1) return false;
    memset(s->data, 0, (size_t)s->shape[0] * (size_t)s->shape[1] * sizeof *s->data);
    return true;
}

static bool count_stages(void *user, limpid_stage *s) {
    CHECK(strcmp(s->name, "att_weights") != 0);
    ++*(int *)user;
    return false;
}

Test(library, a_listener_changes_what_it_says_it_has_changed) {
    limpid_error error = {0};
    Opened o = test_opened(&(limpid_options){.context = CONTEXT});
    test_eval(&o, &(limpid_batch){.n = o.n, .tokens = o.ids});
    uint64_t plain = row_hash(&o, 0);
    int stages = 0;
    CHECK(limpid_listen(o.context, NULL, count_stages, &stages, &error), "%s", error.message);
    CHECK(limpid_truncate(o.context, 0, 0));
    test_eval(&o, &(limpid_batch){.n = o.n, .tokens = o.ids});
    CHECK(stages > 10 * o.info.n_layers, "%d stages", stages);
    CHECK(row_hash(&o, 0) == plain, "looking changed the numbers");
    CHECK(limpid_listen(o.context, " q  ffn_out", silence, &o.info.n_layers, &error));
    CHECK(limpid_truncate(o.context, 0, 0));
    test_eval(&o, &(limpid_batch){.n = o.n, .tokens = o.ids});
    CHECK(row_hash(&o, 0) != plain, "the change did not reach the logits");
    char wanted[4000], got[24];
    snprintf(got, sizeof got, "\"%016llx\"", (unsigned long long)row_hash(&o, 0));
    TestRun run = program("generate|%s|-i|%s|--max-tokens|1|--json|-q|-t|0|--ablate|L%d.ffn",
                          small_model(), TEST_PROMPT, o.info.n_layers - 1);
    check_status(&run, 0);
    CHECK_STRING(json_value(wanted, run.out, "logits_hash"), got);
    test_run_free(&run);
    CHECK(limpid_listen(o.context, NULL, NULL, NULL, &error));
    CHECK(limpid_truncate(o.context, 0, 0));
    test_eval(&o, &(limpid_batch){.n = o.n, .tokens = o.ids});
    CHECK(row_hash(&o, 0) == plain);
    CHECK(!limpid_listen(o.context, "q qq", silence, &o, &error));
    CHECK_STRING(error.message, "no stage is called \"qq\"");
    test_opened_close(&o);
}

// ---- what a library owes ----

static bool spoil(void *user, limpid_stage *stage) {
    (void)user;
    for (int i = 0; i < stage->n; i++) // a window may hide any of them from the last
        stage->data[(size_t)i * (size_t)stage->shape[1]] = NAN;
    return true;
}

// Nothing of a batch whose numbers are not finite stays, and what follows has the bits of a context
// that has never seen it.
Test(library, a_batch_that_is_not_finite_leaves_the_cache_as_it_was) {
    limpid_error error = {0};
    Opened o = test_opened(NULL), fresh = test_opened(NULL);
    test_eval(&o, &(limpid_batch){.n = 3, .tokens = o.ids});
    CHECK(limpid_listen(o.context, "layer_out", spoil, NULL, &error), "%s", error.message);
    CHECK(!limpid_eval(o.context, &(limpid_batch){.n = o.n - 3, .tokens = o.ids + 3}, &error));
    CHECK_INT(error.code, 7);
    CHECK_INT(limpid_length(o.context, 0), 3);
    CHECK(limpid_listen(o.context, NULL, NULL, NULL, &error));
    test_eval(&o, &(limpid_batch){.n = o.n - 3, .tokens = o.ids + 3});
    test_eval(&fresh, &(limpid_batch){.n = o.n, .tokens = o.ids});
    CHECK(row_hash(&o, 0) == row_hash(&fresh, 0));
    test_opened_close(&o);
    test_opened_close(&fresh);
}

// More rows than the rings of its windows can take back: what limpid_length says is there.
Test(library, a_long_batch_that_is_not_finite_leaves_what_is_told) {
    enum { BEFORE = 60, BAD = 60, MORE = 20, VOCAB = 200 };
    limpid_error error = {0};
    int32_t ids[BEFORE + BAD];
    for (int i = 0; i < BEFORE + BAD; i++)
        ids[i] = 1 + i * 7 % VOCAB;
    limpid_model *model = limpid_open(test_reference_model("mistral-window8"), NULL, &error);
    if (!model && strstr(error.message, "it has no JSON")) SKIP("this build reads no config.json");
    CHECK(model, "%s", error.message);
    limpid_options options = {.max_rows = 16, .threads = 1};
    limpid_context *c = limpid_context_open(model, &options, &error);
    limpid_context *fresh = limpid_context_open(model, &options, &error);
    CHECK(c && fresh, "%s", error.message);
    CHECK(limpid_eval(c, &(limpid_batch){.n = BEFORE, .tokens = ids}, &error));
    CHECK(limpid_listen(c, "layer_out", spoil, NULL, &error), "%s", error.message);
    CHECK(!limpid_eval(c, &(limpid_batch){.n = BAD, .tokens = ids + BEFORE}, &error));
    CHECK_INT(error.code, 7);
    CHECK(limpid_listen(c, NULL, NULL, NULL, &error));
    int n = limpid_length(c, 0);
    CHECK(n >= 0 && n <= BEFORE, "%d", n);
    CHECK(limpid_eval(c, &(limpid_batch){.n = MORE, .tokens = ids + n}, &error), "%s",
          error.message);
    CHECK(limpid_eval(fresh, &(limpid_batch){.n = n + MORE, .tokens = ids}, &error));
    size_t bytes = (size_t)limpid_describe(model).vocab_size * sizeof(float);
    CHECK(!memcmp(limpid_logits(c, 0), limpid_logits(fresh, 0), bytes), "%d tokens were told", n);
    limpid_context_close(c);
    limpid_context_close(fresh);
    limpid_close(model);
}

// Rows at earlier positions have taken the place of keys that the first of them sees: the cause
// cannot be looked for again, and nothing is left.
Test(library, a_batch_at_earlier_positions_that_is_not_finite_leaves_nothing) {
    enum { BEFORE = 30, BAD = 40 };
    limpid_error error = {0};
    int32_t ids[BAD] = {0}, positions[BAD];
    for (int i = 0; i < BAD; i++)
        positions[i] = 1 + i;
    limpid_model *model = limpid_open(test_reference_model("mistral-window8"), NULL, &error);
    if (!model && strstr(error.message, "it has no JSON")) SKIP("this build reads no config.json");
    CHECK(model, "%s", error.message);
    limpid_options options = {.context = 60, .max_rows = 24, .threads = 1};
    limpid_context *c = limpid_context_open(model, &options, &error);
    CHECK(c, "%s", error.message);
    CHECK(limpid_eval(c, &(limpid_batch){.n = BEFORE, .tokens = ids}, &error), "%s", error.message);
    CHECK(limpid_listen(c, "layer_out", spoil, NULL, &error), "%s", error.message);
    CHECK(
        !limpid_eval(c, &(limpid_batch){.n = BAD, .tokens = ids, .positions = positions}, &error));
    CHECK_INT(error.code, 7);
    CHECK_INT(limpid_length(c, 0), 0);
    CHECK(limpid_listen(c, NULL, NULL, NULL, &error));
    CHECK(limpid_eval(c, &(limpid_batch){.n = BAD, .tokens = ids}, &error), "%s", error.message);
    limpid_context_close(c);
    limpid_close(model);
}

static bool zero(void *user, limpid_stage *s) {
    (void)user;
    memset(s->data, 0, (size_t)s->n * (size_t)s->shape[1] * sizeof *s->data);
    return true;
}

// OLMo 2 has no norm in front of its blocks: there the stage is the residual stream itself.
Test(library, a_norm_that_a_family_has_not_cannot_be_changed) {
    limpid_error error = {0};
    const int32_t ids[] = {1, 5, 9, 12};
    limpid_model *model = limpid_open(test_reference_model("olmo2"), NULL, &error);
    if (!model && strstr(error.message, "it has no JSON")) SKIP("this build reads no config.json");
    CHECK(model, "%s", error.message);
    limpid_context *c = limpid_context_open(model, NULL, &error);
    CHECK(c, "%s", error.message);
    size_t bytes = (size_t)limpid_describe(model).vocab_size * sizeof(float);
    CHECK(limpid_eval(c, &(limpid_batch){.n = 4, .tokens = ids}, &error), "%s", error.message);
    float *plain = malloc(bytes);
    memcpy(plain, limpid_logits(c, 0), bytes);
    CHECK(limpid_truncate(c, 0, 0));
    CHECK(limpid_listen(c, "att_norm ffn_norm", zero, NULL, &error), "%s", error.message);
    CHECK(limpid_eval(c, &(limpid_batch){.n = 4, .tokens = ids}, &error), "%s", error.message);
    CHECK(!memcmp(plain, limpid_logits(c, 0), bytes), "the residual stream was changed");
    free(plain);
    limpid_context_close(c);
    limpid_close(model);
}

// Where there is no memory for something new, what was there goes on.
Test(library, a_listener_without_memory_leaves_the_context_usable) {
    if (TEST_OWN_ALLOCATOR) SKIP("sanitizers bring their own allocator");
    limpid_error error = {0};
    limpid_options options = {.max_rows = 1 << 16};
    Opened o = test_opened(&options);
    struct rlimit limit, before;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld", &pages) == 1 && !getrlimit(RLIMIT_AS, &before));
    fclose(file);
    limit = before;
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (64 << 20);
    CHECK(!setrlimit(RLIMIT_AS, &limit));
    bool listens = limpid_listen(o.context, "att_weights", spoil, NULL, &error);
    CHECK(!setrlimit(RLIMIT_AS, &before));
    CHECK(!listens);
    CHECK_INT(error.code, 5);
    test_eval(&o, &(limpid_batch){.n = o.n, .tokens = o.ids});
    CHECK_INT(limpid_length(o.context, 0), o.n);
    test_opened_close(&o);
}

Test(library, errors_are_returned_and_nothing_is_printed) {
    const char *path = test_temporary("no model"), *said = test_temporary("said");
    test_write_file(path, "no model at all", 15);
    int output = dup(1), errors = dup(2);
    CHECK(freopen(said, "w", stdout) && dup2(1, 2) == 2);
    limpid_error missing = {0}, bad = {0}, unknown = {0}, row = {0}, size = {0}, far = {0};
    bool opened_none = !limpid_open("/no/such/file", NULL, &missing) &&
                       !limpid_open(path, NULL, &bad) && !limpid_open(path, NULL, NULL);
    Opened o = test_opened(&(limpid_options){.context = 8});
    opened_none =
        opened_none && !limpid_context_open(o.model, &(limpid_options){.context = 1 << 20}, &size);
    int32_t ids[9] = {o.info.vocab_size};
    bool evaluated = limpid_eval(o.context, &(limpid_batch){.n = 1, .tokens = ids}, &unknown) ||
                     limpid_eval(o.context, &(limpid_batch){.n = 9, .tokens = o.ids}, &far);
    bool sampled = limpid_logits(o.context, 0) || limpid_logits(o.context, -1);
    limpid_sampler *sampler = limpid_sampler_open(o.context, NULL, NULL);
    bool refused = limpid_sample(sampler, NULL, &row) == -1 &&
                   !limpid_sampler_accept(sampler, o.info.vocab_size, NULL) &&
                   !limpid_sampler_accept(sampler, -1, NULL) && limpid_length(o.context, 1) == -1 &&
                   !limpid_truncate(o.context, 0, 1) && !limpid_truncate(o.context, 0, -1) &&
                   !limpid_truncate(o.context, 1, 0) && !limpid_copy(o.context, 0, 1) &&
                   !limpid_sampler_open(o.context, &(limpid_sampling){.temperature = -1}, NULL);
    int length = limpid_length(o.context, 0);
    limpid_sampler_close(sampler);
    test_opened_close(&o);
    fflush(NULL);
    dup2(output, 1), dup2(errors, 2);
    size_t printed = 0;
    free(test_read_file(said, &printed));
    CHECK_INT(printed, 0);
    CHECK(opened_none && !evaluated && !sampled && refused);
    CHECK_INT(length, 0);
    CHECK_INT(missing.code, 4);
    CHECK_INT(bad.code, 3);
    CHECK(strstr(bad.message, path), "%s", bad.message);
    CHECK_INT(size.code, 2);
    CHECK_INT(unknown.code, 2);
    CHECK_INT(far.code, 2);
    CHECK_STRING(far.message, "9 tokens do not fit the context of 8");
    CHECK_INT(row.code, 2);
}

static void check_null(bool refused, const limpid_error *error, const char *message) {
    CHECK(refused, "accepted: %s", message);
    CHECK_INT(error->code, 2);
    CHECK_STRING(error->message, message);
}
#define CHECK_NULL(refused, message)                                                               \
    do {                                                                                           \
        limpid_error error = {0};                                                                  \
        check_null(refused, &error, message);                                                      \
    } while (0)

// So the example at the top of limpid.h comes to its end where limpid_open fails.
Test(library, a_handle_that_is_null_is_an_error) {
    static const char MODEL[] = "model is NULL: see the error of limpid_open";
    static const char CONTEXT_[] = "context is NULL: see the error of limpid_context_open";
    static const char SAMPLER[] = "sampler is NULL: see the error of limpid_sampler_open";
    int32_t ids[4] = {1};
    char bytes[4];
    CHECK_NULL(!limpid_context_open(NULL, NULL, &error), MODEL);
    CHECK_NULL(limpid_tokenize(NULL, "a", 1, 0, ids, 4, &error) == -1, MODEL);
    CHECK_NULL(limpid_detokenize(NULL, ids, 1, 0, bytes, 4, &error) == -1, MODEL);
    CHECK_NULL(limpid_chat(NULL, NULL, 0, ids, 4, &error) == -1, MODEL);
    CHECK_NULL(!limpid_grammar_open(NULL, LIMPID_GBNF, "root ::= \"a\"", 12, &error), MODEL);
    CHECK_NULL(!limpid_sampler_open(NULL, NULL, &error), CONTEXT_);
    CHECK_NULL(!limpid_eval(NULL, &(limpid_batch){.n = 1, .tokens = ids}, &error), CONTEXT_);
    CHECK_NULL(!limpid_save(NULL, 0, bytes, &error), CONTEXT_);
    CHECK_NULL(!limpid_restore(NULL, 0, 1, bytes, 4, &error), CONTEXT_);
    CHECK_NULL(!limpid_listen(NULL, NULL, NULL, NULL, &error), CONTEXT_);
    CHECK_NULL(!limpid_sampler_begin(NULL, ids, 1, 0, &error), SAMPLER);
    CHECK_NULL(limpid_sample(NULL, (float[]){1}, &error) == -1, SAMPLER);
    CHECK_NULL(!limpid_sampler_accept(NULL, 1, &error), SAMPLER);
    CHECK_NULL(limpid_sampler_ending(NULL, &error) == -1, SAMPLER);
    CHECK(!limpid_ends(NULL, 1) && limpid_describe(NULL).bos == -1 && !limpid_logits(NULL, 0));
    CHECK(limpid_length(NULL, 0) == -1 && !limpid_truncate(NULL, 0, 0) && !limpid_copy(NULL, 0, 0));
    CHECK(!limpid_state_size(NULL, 1) && !limpid_sampler_forget(NULL, 0) &&
          limpid_sampler_number(NULL) == 0.0f);
}

Test(library, an_argument_that_is_null_is_an_error) {
    int32_t ids[8];
    Opened o = test_opened(NULL);
    CHECK_NULL(!limpid_open(NULL, NULL, &error), "path is NULL");
    CHECK_NULL(!limpid_open_memory(NULL, 9, NULL, &error), "bytes is NULL");
    CHECK_NULL(limpid_tokenize(o.model, NULL, 5, 0, ids, 8, &error) == -1, "text is NULL");
    CHECK_NULL(limpid_tokenize(o.model, "a", 1, 0, NULL, 8, &error) == -1, "ids is NULL");
    CHECK_NULL(limpid_detokenize(o.model, NULL, 1, 0, NULL, 0, &error) == -1, "ids is NULL");
    CHECK_NULL(limpid_detokenize(o.model, o.ids, 1, 0, NULL, 1, &error) == -1, "text is NULL");
    CHECK_NULL(!limpid_eval(o.context, NULL, &error), "batch is NULL");
    CHECK_NULL(!limpid_eval(o.context, &(limpid_batch){.n = 1}, &error), "tokens is NULL");
    test_eval(&o, &(limpid_batch){.n = 2, .tokens = o.ids});
    CHECK_NULL(!limpid_save(o.context, 0, NULL, &error), "bytes is NULL");
    CHECK_NULL(!limpid_restore(o.context, 0, 2, NULL, limpid_state_size(o.context, 2), &error),
               "bytes is NULL");
    CHECK_INT(limpid_tokenize(o.model, NULL, 0, 0, NULL, 0, NULL), 0); // no text at all
    test_opened_close(&o);
}

Test(library, an_id_outside_the_vocabulary_has_no_bytes) {
    limpid_error error = {0};
    Opened o = test_opened(NULL);
    int32_t ids[] = {o.ids[0], o.info.vocab_size, -1};
    CHECK_INT(limpid_detokenize(o.model, ids, 2, 0, NULL, 0, &error), -1);
    CHECK_INT(error.code, 2);
    CHECK(strstr(error.message, "is not below the vocabulary size"), "%s", error.message);
    CHECK_INT(limpid_detokenize(o.model, ids + 2, 1, 0, NULL, 0, NULL), -1);
    test_opened_close(&o);
}

Test(library, no_signal_is_handled) {
    struct sigaction before[NSIG], after;
    for (int i = 1; i < NSIG; i++)
        sigaction(i, NULL, &before[i]);
    Opened o = test_opened(NULL);
    test_eval(&o, &(limpid_batch){.n = o.n, .tokens = o.ids});
    for (int i = 1; i < NSIG; i++)
        CHECK(sigaction(i, NULL, &after) || after.sa_handler == before[i].sa_handler, "signal %d",
              i);
    test_opened_close(&o);
}

static int workers_without_signals(void) {
    TestRun run =
        test_run((const char *[]){"/bin/sh", "-c",
                                  "sed -n 's/^SigBlk:.//p' /proc/$PPID/task/*/status", NULL},
                 NULL, 0);
    int workers = 0;
    for (char *line = strtok(run.out, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long long blocked = strtoull(line, NULL, 16);
        if (blocked >> (SIGTERM - 1) & blocked >> (SIGINT - 1) & ~(blocked >> (SIGBUS - 1)) & 1)
            workers++;
    }
    test_run_free(&run);
    return workers;
}

// Of the threads that were started: a signal to the process is for the program's own. A thread that
// has just been made has all signals blocked for a moment, SIGBUS too.
Test(library, its_threads_take_no_signals_but_their_own_faults) {
    if (strcmp(TEST_BACKEND, "cpu") != 0) SKIP("the %s backend starts no threads", TEST_BACKEND);
    Opened o = test_opened(&(limpid_options){.threads = 3});
    int workers = 0;
    for (int i = 0; i < 100 && (workers = workers_without_signals()) < 2; i++)
        usleep(10000);
    CHECK_INT(workers, 2);
    test_opened_close(&o);
}

Test(library, a_pass_that_was_stopped_leaves_the_cache_as_it_was) {
    int stop = 0;
    limpid_error error = {0};
    Opened o = test_opened(&(limpid_options){.context = CONTEXT, .stop = &stop});
    test_eval(&o, &(limpid_batch){.n = 2, .tokens = o.ids});
    stop = 1;
    CHECK(!limpid_eval(o.context, &(limpid_batch){.n = 2, .tokens = o.ids + 2}, &error));
    CHECK_INT(error.code, 130);
    CHECK_INT(limpid_length(o.context, 0), 2);
    test_opened_close(&o);
}

typedef struct Talk {
    limpid_options options;
    limpid_sampling sampling;
    uint64_t hash;
    int32_t ids[60];
} Talk;

static void *talk(void *talk) {
    Talk *t = talk;
    Opened o = test_opened(&t->options);
    t->hash = generate(&o, &t->sampling, 60, t->ids);
    test_opened_close(&o);
    return NULL;
}

Test(library, two_models_in_two_threads_do_not_touch_each_other) {
    Talk talks[2] = {
        {.options = {.context = 128, .threads = 2}, .sampling = {.temperature = 1, .seed = 1}},
        {.options = {.context = 100, .threads = 2, .precision = LIMPID_A8},
         .sampling = {.temperature = 0.5f, .seed = 2}}};
    Talk alone[2] = {talks[0], talks[1]};
    pthread_t threads[2];
    small_model(); // is written once, before
    for (int i = 0; i < 2; i++)
        talk(&alone[i]);
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&threads[i], NULL, talk, &talks[i]));
    for (int i = 0; i < 2; i++) {
        CHECK(!pthread_join(threads[i], NULL));
        CHECK(talks[i].hash == alone[i].hash, "thread %d", i);
        CHECK(!memcmp(talks[i].ids, alone[i].ids, sizeof alone[i].ids), "thread %d", i);
    }
    CHECK(talks[0].hash != talks[1].hash);
}
