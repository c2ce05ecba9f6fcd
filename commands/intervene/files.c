// Rows and vectors from safetensors files: traces of other runs, and vectors that other programs
// have made. They are copied, so that a file that changes later changes nothing.
#include "commands/intervene/intervene.h"
#include "weights/quant.h"

#include <inttypes.h>
#include <stdlib.h>

// `count` elements from element `begin` on, as float32; owned. NULL: exit code 4 or 5.
static float *copy_elements(const SafetensorsFile *file, const SafetensorsTensor *t, size_t begin,
                            size_t count, Error *error) {
    float *copy = malloc(count * sizeof *copy);
    if (!copy) {
        error_set(error, ERROR_MEMORY, "no memory for %zu elements of %s", count, t->plan.name);
        return NULL;
    }
    dequantise(copy, t->plan.dtype, t->plan.data + begin * dtype_row_bytes(t->plan.dtype, 1),
               count);
    if (!mapping_damaged(&file->mapping)) return copy;
    error_set(error, ERROR_IO, "%s: the file was cut short while it was read", file->mapping.path);
    free(copy);
    return NULL;
}

// ---- rows of a trace ----

static bool is_usable(const SafetensorsTensor *t) {
    return dtype_is_float(t->plan.dtype) && t->plan.n_dims >= 2 && plan_elements(&t->plan) > 0;
}

static bool take_rows(Change *c, const SafetensorsFile *file, const char *name, Error *error) {
    const SafetensorsTensor *t = safetensors_find(file, name);
    if (!t) return error_set(error, ERROR_FILE, "has no tensor %s", name);
    if (!is_usable(t))
        return error_set(error, ERROR_FILE,
                         "%s: wanted F32, F16 or BF16 of two or more dimensions, got %s of %u",
                         name, t->type->name, t->plan.n_dims);
    size_t count = (size_t)plan_elements(&t->plan);
    c->n_rows = (size_t)t->plan.shape[0];
    c->row_size = count / c->n_rows;
    c->rows = copy_elements(file, t, 0, count, error);
    return c->rows;
}

bool intervention_rows(Change *c, const char *path, const char *name, Error *error) {
    SafetensorsFile file;
    if (!safetensors_open(&file, path, error)) return false;
    bool good = take_rows(c, &file, name, error) || error_prefix(error, path);
    safetensors_close(&file);
    return good;
}

// ---- vectors ----

static bool has_shape_of_vectors(const SafetensorsTensor *t, const Config *config) {
    const TensorPlan *p = &t->plan;
    if (!dtype_is_float(p->dtype)) return false;
    if (p->n_dims == 1) return p->shape[0] == (uint64_t)config->dim;
    return p->n_dims == 2 && p->shape[0] == (uint64_t)config->n_layers &&
           p->shape[1] == (uint64_t)config->dim;
}

bool steering_open(SteeringFile *f, const char *path, const Config *config, Error *error) {
    *f = (SteeringFile){.dim = (size_t)config->dim};
    if (!safetensors_open(&f->file, path, error)) return false;
    f->tensor = f->file.count == 1 ? f->file.tensors : NULL;
    if (f->tensor && has_shape_of_vectors(f->tensor, config)) return true;
    error_set(
        error, ERROR_FILE,
        "%zu tensors, the first of %s; wanted one, of F32, F16 or BF16 and the shape (%d), or "
        "(%d, %d) with a row for each layer",
        f->file.count, f->file.count ? f->file.tensors[0].type->name : "nothing", config->dim,
        config->n_layers, config->dim);
    error_prefix(error, path);
    safetensors_close(&f->file);
    f->tensor = NULL;
    return false;
}

float *steering_vector(const SteeringFile *f, int layer, Error *error) {
    size_t row = f->tensor->plan.n_dims == 2 ? (size_t)layer : 0;
    return copy_elements(&f->file, f->tensor, row * f->dim, f->dim, error);
}

void steering_close(SteeringFile *f) {
    if (f->tensor) safetensors_close(&f->file);
    f->tensor = NULL;
}
