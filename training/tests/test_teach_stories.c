// The teach_stories program: its targets are the tokens that generate finds likeliest. The built-in
// model is its own teacher, so there is a target at every token but the first.
#include "base/error.h"
#include "tests/support/program.h"

enum { MOST = 100, CHOICES = 12, WHOLE = 65535 };

static const char STORY[] = "Once there was a dog named Max. He liked to run in the park with Sue.";
static const char OTHER[] = "Tom had a red kite. It flew over the trees.";

typedef struct Taught {
    int32_t n, ids[MOST];
    uint16_t targets[MOST][2][CHOICES]; // pieces, and their shares
} Taught;

static TestRun teach(const char *teacher, const char *student, const char *stories) {
    const char *argv[] = {TEST_BUILD "/tests/teach_stories", teacher, student, NULL};
    return test_run(argv, stories, strlen(stories));
}

// The stories of a run one after the other, and nothing after them.
static size_t take_story(Taught *story, const TestRun *r, size_t at) {
    memset(story, 0, sizeof *story);
    CHECK(at + sizeof story->n <= r->out_size, "%zu bytes; %s", r->out_size, r->err);
    memcpy(&story->n, r->out + at, sizeof story->n);
    at += sizeof story->n;
    CHECK(story->n > 0 && story->n <= MOST, "%d pieces", story->n);
    size_t n = (size_t)story->n;
    CHECK(at + n * (sizeof *story->ids + sizeof *story->targets) <= r->out_size);
    memcpy(story->ids, r->out + at, n * sizeof *story->ids);
    at += n * sizeof *story->ids;
    memcpy(story->targets, r->out + at, n * sizeof *story->targets);
    return at + n * sizeof *story->targets;
}

// The ids before a story, and its own up to token k, as --prompt-ids wants them.
static char *prompt_ids(const char *before, const Taught *story, int k) {
    size_t size = strlen(before) + 12 * (size_t)k + 1;
    char *line = malloc(size);
    CHECK(line);
    int length = snprintf(line, size, "%s", before);
    for (int i = 0; i < k; i++)
        length += snprintf(line + length, size - (size_t)length, "%s%d", length ? "," : "",
                           story->ids[i]);
    return line;
}

// The two likeliest tokens after these ids, without control tokens, according to generate.
static void say(int pieces[2], double logs[2], const char *ids) {
    enum { CONTROL = 4 }; // <unk>, <s>, </s>, <sampled>: no bytes of a text
    TestRun r =
        program("--prompt-ids|%s|--max-tokens|1|-t|0|--logprobs|8|--precision|a8|--kv|f32", ids);
    check_status(&r, 0);
    int found = 0;
    const char *at = strstr(r.out, "\"top\":");
    CHECK(at, "%s", r.out);
    while (found < 2 && (at = strstr(at + 1, "\"id\":"))) {
        CHECK(sscanf(at, "\"id\":%d", pieces + found) == 1, "%s", at);
        CHECK(sscanf(strstr(at, "\"logprob\":"), "\"logprob\":%lf", logs + found) == 1, "%s", at);
        found += pieces[found] >= CONTROL;
    }
    CHECK(found == 2, "%s", r.out);
    test_run_free(&r);
}

// The two best targets at token k, and their ratio.
static void check_expected(const Taught *story, int k, const char *before) {
    int wanted[2], sum = 0;
    double logs[2];
    char *ids = prompt_ids(before, story, k);
    say(wanted, logs, ids);
    const uint16_t *pieces = story->targets[k][0], *shares = story->targets[k][1];
    CHECK(pieces[0] == wanted[0], "piece %d: %d, not %d", k, pieces[0], wanted[0]);
    for (int j = 0; j < CHOICES; j++)
        sum += shares[j];
    CHECK(abs(sum - WHOLE) <= CHOICES, "piece %d: %d in all", k, sum);
    if (exp(logs[1]) > 0.01) {
        CHECK(pieces[1] == wanted[1], "piece %d: then %d, not %d", k, pieces[1], wanted[1]);
        CHECK_NEAR(log((double)shares[0] / shares[1]), logs[0] - logs[1], 2e-3);
    }
    free(ids);
}

static char *builtin_file(void) {
    char *path = strdup(test_temporary("builtin.gguf"));
    TestRun r = program("convert|builtin|%s|--force|-q", path);
    check_status(&r, 0);
    test_run_free(&r);
    return path;
}

// The output of `tokenize` for a text, with commas.
static char *ids_of(const char *text) {
    TestRun r = program("tokenize|-i|%s", text);
    check_status(&r, 0);
    char *ids = strdup(r.out);
    CHECK(ids);
    for (char *at = ids; *at; at++)
        if (*at == ' ') *at = ',';
    ids[strcspn(ids, "\n")] = 0;
    test_run_free(&r);
    return ids;
}

Test(teach_stories, expects_what_the_model_would_go_on_with) {
    need_builtin();
    Taught story;
    char text[300], *model = builtin_file();
    snprintf(text, sizeof text, "%s<|endoftext|>\n%s<|endoftext|>", STORY, OTHER);
    TestRun r = teach(model, model, text);
    check_status(&r, 0);
    size_t at = take_story(&story, &r, 0);
    char *ids = prompt_ids("", &story, story.n), *wanted = ids_of(STORY);
    CHECK_STRING(ids, wanted);
    CHECK(!story.targets[0][1][0], "nothing is expected before a text begins");
    for (int k = 1; k < story.n; k++)
        check_expected(&story, k, "");

    at = take_story(&story, &r, at); // read after the first one
    CHECK(at == r.out_size, "%zu of %zu bytes", at, r.out_size);
    char before[600], *first = ids_of(STORY), *parting = ids_of("\n\n");
    snprintf(before, sizeof before, "%s,%s", first, parting);
    for (int k = 1; k < story.n; k++)
        check_expected(&story, k, before);
    test_run_free(&r);
    free(parting);
    free(first);
    free(wanted);
    free(ids);
    free(model);
}

// Sets begins[i] where a piece of a model's begins at byte i of STORY, by the spelling that
// tokenize prints, in which a space is U+2581; the one in front of all is not in the text.
static void find_pieces(bool begins[sizeof STORY], const char *model) {
    TestRun r = program("tokenize|%s|-i|%s|--pieces", model, STORY);
    check_status(&r, 0);
    memset(begins, 0, sizeof STORY);
    size_t at = 0;
    for (char *line = strtok(r.out, "\n"); line; line = strtok(NULL, "\n")) {
        char spelling[40];
        CHECK(sscanf(line, "%*d %*s %39s", spelling) == 1, "%s", line);
        bool space = !strncmp(spelling, "\xe2\x96\x81", 3);
        begins[at] = true;
        at += strlen(spelling) - (space ? 2 : 0) - (space && !at ? 1 : 0);
        CHECK(at < sizeof STORY, "%zu", at);
    }
    CHECK(at == strlen(STORY), "%zu", at);
    test_run_free(&r);
}

// A teacher with another vocabulary: there are targets where a token of both begins, and nowhere
// else.
Test(teach_stories, knows_only_where_a_token_of_the_teacher_begins) {
    need_builtin();
    Taught story;
    const char *teacher = public_model();
    char text[300], *model = builtin_file();
    snprintf(text, sizeof text, "%s<|endoftext|>", STORY);
    TestRun r = teach(teacher, model, text);
    check_status(&r, 0);
    CHECK(take_story(&story, &r, 0) == r.out_size);

    bool teachers[sizeof STORY], own[sizeof STORY];
    find_pieces(teachers, teacher);
    find_pieces(own, model);
    int k = 0, known = 0, apart = 0;
    for (size_t at = 0; at < strlen(STORY); at++) {
        if (own[at]) {
            bool wanted = at > 0 && teachers[at];
            CHECK(wanted == (story.targets[k][1][0] > 0), "piece %d at byte %zu", k, at);
            known += wanted;
            k++;
        }
        apart += own[at] != teachers[at];
    }
    CHECK(k == story.n && known > k / 2 && apart > 0, "%d of %d, %d apart", known, k, apart);
    test_run_free(&r);
    free(model);
}

static void check_stops(const char *model, const char *stories, const char *because) {
    TestRun r = teach(model, model, stories);
    check_refused_by("teach_stories", &r, 2, because);
}

Test(teach_stories, says_what_it_cannot_read) {
    check_stops("no-such.gguf", "", "no-such.gguf");
    check_stops(NULL, "", "usage: ");
    need_builtin();
    char *model = builtin_file();
    check_stops(model, "", "no stories");
    check_stops(model, STORY, "no stories");
    check_stops(model, "One.<|endoftext|>Two", "no stories");
    free(model);
}
