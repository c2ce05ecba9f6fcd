// JSONTestSuite (https://github.com/nst/JSONTestSuite): what is in a file y_ is JSON, what is in a
// file n_ is not, and files i_ hold what RFC 8259 leaves to the reader. `scripts/setup test` puts
// them into build/json-suite/; without them these tests are skipped.
#include "base/json.h"
#include "tests/test.h"

#include <dirent.h>

static const char SUITE[] = "build/json-suite";

// Reads every file of a letter. The files of `odd`, a name each with a part of the message where it
// is refused, are answered as they say, all others as `accepted`. There are `count` in all.
typedef struct Letter {
    char letter;
    bool accepted;
    int count;
    const char *const (*odd)[2]; // (n_odd) name, message
    size_t n_odd;
} Letter;

static void check_file(const Letter *l, const char *name, size_t *n_odd) {
    size_t size, odd = 0;
    char *text = test_read_file(test_text("%s/%s", SUITE, name), &size);
    Error error = {0};
    json_t *root = json_parse(text, size, &JSON_CONFIG_LIMITS, &error);
    bool good = root;
    json_decref(root);
    free(text);
    while (odd < l->n_odd && strcmp(l->odd[odd][0], name))
        odd++;
    bool is_odd = odd < l->n_odd;
    *n_odd += is_odd;
    CHECK(good == (l->accepted != is_odd), "%s: %s", name, good ? "accepted" : error.message);
    CHECK_INT(error.code, good ? ERROR_NONE : ERROR_FILE);
    const char *wanted = is_odd && !good ? l->odd[odd][1] : "";
    CHECK(good || (*error.message && strstr(error.message, wanted)), "%s: %s", name, error.message);
}

static void check_files(const Letter *l) {
    DIR *suite = opendir(SUITE);
    if (!suite) SKIP("no %s: scripts/setup test puts it there", SUITE);
    int count = 0;
    size_t n_odd = 0;
    for (struct dirent *e; (e = readdir(suite));) {
        if (e->d_name[0] != l->letter || e->d_name[1] != '_') continue;
        check_file(l, e->d_name, &n_odd);
        count++;
    }
    closedir(suite);
    CHECK_INT(count, l->count);
    CHECK_INT(n_odd, l->n_odd);
}

static const char NO_OBJECT[] = "'[' or '{' expected"; // every file of limpid's is one or a list
static const char TWICE[] = "duplicate object key";    // two readers would see two values
static const char NUL[] = "\\u0000 is not allowed";    // limpid's texts end at a NUL
static const char NUL_IN_KEY[] = "NUL byte in object key";

Test(json_suite, json_is_read_but_for_twelve_files_with_their_reasons) {
    static const char *const REFUSED[][2] = {
        {"y_object_duplicated_key.json", TWICE},
        {"y_object_duplicated_key_and_value.json", TWICE},
        {"y_object_escaped_null_in_key.json", NUL_IN_KEY},
        {"y_string_null_escape.json", NUL},
        {"y_string_space.json", NO_OBJECT},
        {"y_structure_lonely_false.json", NO_OBJECT},
        {"y_structure_lonely_int.json", NO_OBJECT},
        {"y_structure_lonely_negative_real.json", NO_OBJECT},
        {"y_structure_lonely_null.json", NO_OBJECT},
        {"y_structure_lonely_string.json", NO_OBJECT},
        {"y_structure_lonely_true.json", NO_OBJECT},
        {"y_structure_string_empty.json", NO_OBJECT},
    };
    check_files(&(Letter){'y', true, 95, REFUSED, sizeof REFUSED / sizeof *REFUSED});
}

Test(json_suite, what_is_no_json_is_refused) {
    check_files(&(Letter){'n', false, 188, NULL, 0});
}

// Of what may be read or refused, numbers that are nearly 0 are read as 0, and integers beyond 64
// bits as real numbers. Those too large for a double, halves of surrogate pairs, other encodings
// and deep nesting are refused.
Test(json_suite, of_what_is_left_to_the_reader_tiny_numbers_and_long_integers_are_read) {
    static const char *const READ[][2] = {
        {"i_number_double_huge_neg_exp.json", NULL},   {"i_number_real_underflow.json", NULL},
        {"i_number_too_big_neg_int.json", NULL},       {"i_number_too_big_pos_int.json", NULL},
        {"i_number_very_big_negative_int.json", NULL},
    };
    check_files(&(Letter){'i', false, 35, READ, sizeof READ / sizeof *READ});
}
