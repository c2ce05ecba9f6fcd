#include "tests/support/traces.h"

#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/safetensors_writer.h"

char *write_trace(const char *model, const char *options, const char *name) {
    char line[16000];
    char *path = strdup(test_temporary(name));
    snprintf(line, sizeof line, "trace|%s|%s|--out|%s|--force|-q", model, options, path);
    TestRun r = program_input(line, NULL, 0);
    check_status(&r, 0);
    CHECK(strstr(r.out, name), "%s", r.out);
    CHECK_INT(r.err_size, 0);
    test_run_free(&r);
    return path;
}

static char *made_bytes(size_t *size) {
    BinShape shape = bin_shape_tiny(0, false);
    shape.dim = 24;
    shape.hidden_dim = 44;
    shape.n_layers = 4;
    shape.n_heads = 6;
    shape.n_kv_heads = 2;
    shape.vocab_size = 60;
    shape.seq_len = 320;
    return bin_bytes(size, &shape, 11);
}

char *made_model(void) {
    size_t size = 0;
    char *bytes = made_bytes(&size), *path = strdup(test_temporary("made.bin"));
    test_write_file(path, bytes, size);
    free(bytes);
    return path;
}

char *made_hugging_face(const char *name) {
    size_t size = 0;
    char *bytes = made_bytes(&size), *path = strdup(test_temporary(name));
    write_hugging_face(path, bytes, size);
    free(bytes);
    return path;
}

SafetensorsFile open_trace(const char *path) {
    SafetensorsFile file;
    Error error = {0};
    CHECK(safetensors_open(&file, path, &error), "%s", error.message);
    return file;
}

float *trace_values(const SafetensorsFile *file, const char *name, size_t rows, size_t width) {
    const SafetensorsTensor *tensor = safetensors_find(file, name);
    CHECK(tensor, "no %s", name);
    const TensorPlan *plan = &tensor->plan;
    CHECK_STRING(tensor->type->name, "F32");
    if (rows) CHECK_INT(plan->shape[0], rows);
    if (width) CHECK_INT(plan->shape[plan->n_dims - 1], width);
    float *values = malloc(plan->bytes + 1);
    memcpy(values, plan->data, plan->bytes);
    return values;
}

void check_says(TestRun *r, int status, const char *answer) {
    check_status(r, status);
    CHECK(strstr(r->out, answer), "\"%s\" is not in:\n%s", answer, r->out);
    CHECK(status || !r->err_size, "%s", r->err);
    test_run_free(r);
}
