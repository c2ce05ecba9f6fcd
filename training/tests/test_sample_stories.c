// The sample_stories program: a story depends on its seed and its number alone, and with top-p near
// 0 it is the greedy text of generate.
#include "tests/support/program.h"

static const char END[] = "\n<|endoftext|>\n";
static const char TEXT[] = "Tom had a red kite. It flew over the trees.<|endoftext|>\n"
                           "Sue lost her hat in the park.<|endoftext|>\n";

// Under a sanitizer the reference kernels take minutes for the built-in model.
static const char *model(void) {
    return TEST_SANITIZED ? public_model() : small_model();
}

// The caller frees the path. Skips the test where there is no model.
static char *text_file(const char *text) {
    model();
    char *path = strdup(test_temporary("stories.txt"));
    CHECK(path);
    test_write_file(path, text, strlen(text));
    return path;
}

static TestRun sample(const char *text, const char *from, const char *count, const char *top_p) {
    const char *argv[] = {TEST_BUILD "/tests/sample_stories",
                          model(),
                          text,
                          "--seed",
                          "3",
                          "--from",
                          from,
                          "--count",
                          count,
                          "--top-p",
                          top_p,
                          NULL};
    return test_run(argv, NULL, 0);
}

static int count_stories(const char *told) {
    int n = 0;
    for (const char *at = told; (at = strstr(at, "\n<|")); at++)
        n++;
    return n;
}

// 40 stories share fewer sequences.
Test(sample_stories, a_story_does_not_depend_on_those_beside_it) {
    char *path = text_file(TEXT);
    TestRun many = sample(path, "0", "40", "1");
    check_status(&many, 0);
    CHECK_INT(count_stories(many.out), 40);
    CHECK(strstr(many.err, "of 40 stories are begun\n"), "%s", many.err); // its progress
    static const char *const NUMBERS[] = {"0", "17", "38"};
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        TestRun one = sample(path, NUMBERS[i], "1", "1");
        check_status(&one, 0);
        CHECK_INT(count_stories(one.out), 1);
        CHECK(strlen(one.out) > 100 && strstr(many.out, one.out), "story %s: %s", NUMBERS[i],
              one.out);
        test_run_free(&one);
    }
    test_run_free(&many);
    free(path);
}

// With only the likeliest token to sample from there are two stories, from nothing and from "Sue".
// A story that was cut at the end of the context has no incomplete sentence.
Test(sample_stories, tells_what_generate_tells) {
    char *path = text_file("Sue<|endoftext|>\n");
    TestRun told = sample(path, "0", "12", "0.000001");
    check_status(&told, 0);
    char *wanted[2];
    for (int i = 0; i < 2; i++) {
        TestRun r = program("%s|-t|0|--precision|a8|--kv|f32|--max-tokens|448|-q%s", model(),
                            i ? "|-i|Sue" : "");
        check_status(&r, 0);
        size_t length = strlen(r.out);
        while (length && r.out[length - 1] == '\n')
            length--;
        wanted[i] = strndup(r.out, length);
        test_run_free(&r);
    }
    int n[2] = {0, 0};
    for (char *story = told.out, *end; (end = strstr(story, "\n<|"));
         story = strchr(end + 1, '\n') + 1) {
        size_t length = (size_t)(end - story);
        bool whole = !strncmp(end, END, strlen(END)), of_sue = !strncmp(story, "Sue", 3);
        const char *want = wanted[of_sue];
        CHECK(length > 100 && !strncmp(story, want, length), "%s\n---\n%s", story, want);
        CHECK(!whole || TEST_SANITIZED || length == strlen(want), "%zu of %zu bytes", length,
              strlen(want)); // stories260K begins another
        n[of_sue]++;
    }
    CHECK(n[0] > 0 && n[1] > 0 && n[0] + n[1] == 12, "%d and %d", n[0], n[1]);
    free(path);
    free(wanted[0]);
    free(wanted[1]);
    test_run_free(&told);
}

static void check_stops(const char *const argv[], const char *because) {
    TestRun r = test_run(argv, NULL, 0);
    check_refused_by("sample_stories", &r, 2, because);
}

Test(sample_stories, says_what_it_cannot_use) {
    static const char PROGRAM[] = TEST_BUILD "/tests/sample_stories";
    char *path = text_file("...");
    check_stops((const char *[]){PROGRAM, NULL}, "usage: ");
    check_stops((const char *[]){PROGRAM, model(), "no-such.txt", NULL}, "no-such.txt");
    check_stops((const char *[]){PROGRAM, model(), path, NULL}, "no sentence");
    check_stops((const char *[]){PROGRAM, model(), path, "--count", "ten", NULL}, "ten");
    check_stops((const char *[]){PROGRAM, model(), path, "--count", NULL}, "--count");
    check_stops((const char *[]){PROGRAM, model(), path, "--top-p", "", NULL}, "not a number");
    check_stops((const char *[]){PROGRAM, model(), path, "--count", "-1", NULL}, "-1");
    check_stops((const char *[]){PROGRAM, model(), path, "--colour", "1", NULL}, "--colour");
    test_write_file(path, TEXT, strlen(TEXT));
    check_stops((const char *[]){PROGRAM, "no-such.gguf", path, NULL}, "no-such.gguf");
    char full[2000];
    snprintf(full, sizeof full, "exec '%s' '%s' '%s' --count 1 >/dev/full", PROGRAM, model(), path);
    check_stops((const char *[]){"/bin/sh", "-c", full, NULL}, "cannot write");
    free(path);
}
