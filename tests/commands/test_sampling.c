// What the options of sampling become: --logit-bias as numbers.
#include "commands/shared/generation.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>

Test(sampling, biases_are_read_as_written) {
    static const limpid_bias WANTED[] = {{5, 1.5f},  {0, -INFINITY},     {15043, -1},
                                         {7, 0.25f}, {15043, -INFINITY}, {9, 2}};
    static const Options OPTIONS = {
        .logit_biases = {{"5:+1.5,0:-inf,15043-1", "7:.25", "15043-inf,9+2"}, 3}};
    limpid_bias *biases = NULL;
    size_t count = 0;
    Error error = {0};
    CHECK(sampling_biases(&biases, &count, &OPTIONS, &error), "%s", error.message);
    CHECK_INT(count, 6);
    for (size_t i = 0; i < 6; i++) {
        CHECK_INT(biases[i].id, WANTED[i].id);
        CHECK(biases[i].bias == WANTED[i].bias, "%zu", i);
    }
    free(biases);
}

Test(sampling, what_is_no_bias_is_refused) {
    static const char *const TEXTS[] = {
        "",       "5",      "5:",   ":1",           "5:nan",
        "5:inf",  "5:+inf", "5:1,", "5:1,,6:1",     "x:1",
        "5:1e7",  "-5:1",   "5x1",  "5 :1",         "5:1 ",
        "51",     "5:0x1",  "5--1", "4294967296:1", "99999999999999999999:1",
        "5:-inf1"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        Options o = {.logit_biases = {{TEXTS[i]}, 1}};
        Error error = {0};
        CHECK(!sampling_check(&o, &error), "\"%s\"", TEXTS[i]);
        CHECK_INT(error.code, ERROR_USAGE);
    }
}
