#include "tests/support/opened.h"

#include "tests/support/program.h"

Opened test_opened(const limpid_options *options) {
    limpid_error error = {0};
    Opened o = {.model = limpid_open(small_model(), NULL, &error)};
    CHECK(o.model, "%s", error.message);
    o.context = limpid_context_open(o.model, options, &error);
    CHECK(o.context, "%s", error.message);
    o.info = limpid_describe(o.model);
    o.n = limpid_tokenize(o.model, TEST_PROMPT, strlen(TEST_PROMPT), LIMPID_BEGIN, o.ids,
                          TEST_MOST_IDS, &error);
    CHECK(o.n > 3, "%s", error.message);
    return o;
}

void test_opened_close(Opened *o) {
    limpid_context_close(o->context);
    limpid_close(o->model);
}

void test_eval(Opened *o, const limpid_batch *batch) {
    limpid_error error = {0};
    CHECK(limpid_eval(o->context, batch, &error), "%s", error.message);
}
