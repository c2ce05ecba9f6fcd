// Lines of prompts and of answers: any line is a request within the limits of its options, or an
// error; what request_id finds is what request_read finds.
// Exercises: commands/prompts/request.c commands/prompts/answers.c commands/prompts/ids.c
// base/json.c
#include "commands/prompts/prompts.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

static const char BASE[] =
    "{\"id\":\"a\",\"prompt\":\"Once upon a time\",\"prompt_ids\":[1,403],\"max_tokens\":20,"
    "\"temperature\":0.5,\"top_k\":7,\"top_p\":0.9,\"min_p\":0.1,\"seed\":\"18446744073709551615\","
    "\"stop\":[\".\",\"end\"],\"samples\":3,\"continuation\":\" there\",\"continuation_ids\":[283],"
    "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"error\":\"x\",\"end\":true,"
    "\"limpid\":\"limpid-answers 2\",\"shard\":\"1/4\"}";

static Session session;
static Options options;

// Aborts where a request is accepted that no run could answer.
static void check_request(const Request *r) {
    if (!r->prompt || r->prompt > r->ids.count || !r->n_samples || !r->samples) abort();
    if (r->scores != (r->ids.count > r->prompt) || r->n_samples > MOST_SAMPLES) abort();
    if (r->ids.count - r->scores > (size_t)options.context) abort();
    for (size_t i = 0; i < r->ids.count; i++)
        if (r->ids.ids[i] < 0 || r->ids.ids[i] >= session.config->vocab_size) abort();
    if (!(r->options.temperature >= 0) || !(r->options.top_p <= 1) || r->options.max_tokens < 0)
        abort();
}

static bool read_line(const char *bytes, size_t size) {
    IdSet sets[2] = {0};
    Buffer id = {0}, common = {0};
    Error error = {0};
    Line line = {.bytes = bytes, .length = size};
    Request *r = request_read(&line, 7, &session, &sets[0], &error);
    if (!r || error.code || !request_id(&id, &line, 7, &sets[1], &error)) abort();
    if (id.size != r->id.size || memcmp(id.bytes, r->id.bytes, id.size) != 0) abort();
    bool good = !r->error.code;
    AnswerKey key;
    if (good) check_request(r);
    answer_key(&key, &line, NULL);
    int index, count;
    if (answers_read_header(&line, &common, &index, &count, NULL) && index >= count) abort();
    request_free(r);
    buffer_free(&id);
    buffer_free(&key.id);
    buffer_free(&common);
    id_set_free(&sets[0]);
    id_set_free(&sets[1]);
    return good;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    static const char GOOD[] = "{\"prompt\":\"a\",\"samples\":2}";
    char name[] = "run", quiet[] = "-q", *arguments[] = {name, quiet, NULL};
    (void)argc, (void)argv;
    if (!options_parse(&options, FOR_GENERATE, 2, arguments, NULL)) abort();
    options.context = 64;
    if (!session_open(&session, &options, NULL) || !read_line(GOOD, sizeof GOOD - 1)) abort();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, fuzz_walk_json, BASE, sizeof BASE - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    size_t size;
    uint8_t *text = fuzz_patched(&size, data, count, BASE, sizeof BASE - 1);
    if (text) read_line((const char *)text, size);
    free(text);
    return 0;
}
