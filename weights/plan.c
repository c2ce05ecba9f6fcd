// The plan: what is checked about tensors whatever the container. Sizes by division and checked
// products, names and ranges by sorting, so that no file makes it quadratic.
//
// This file owns no format. A reader calls it in three steps: plan_reserve, then plan_measure for
// each tensor, then plan_finish once all of them have an address. What may lie between two tensors
// differs from format to format, so gaps are the reader's to check (gguf.c, safetensors.c).
#include "base/bytes.h"
#include "weights/container.h"
#include "weights/quant.h"

#include <stdlib.h>
#include <string.h>

// The count comes from the file, so it is compared with the limit before anything is allocated. The
// entries are zeroed: a field that a reader does not set is 0 or NULL.
bool plan_reserve(Checkpoint *c, uint64_t n, Error *error) {
    if (n > LIMIT_TENSORS)
        return error_set(error, ERROR_FILE, "%llu tensors, at most %d are read",
                         (unsigned long long)n, LIMIT_TENSORS);
    c->tensors = arena_alloc(&c->arena, n, sizeof *c->tensors, error);
    c->used = arena_alloc(&c->arena, n, sizeof *c->used, error);
    if (!c->tensors || !c->used) return false;
    c->n_tensors = (size_t)n;
    return true;
}

// elements is the product of the shape, checked at every factor. A dimension of 0 makes an empty
// tensor, which safetensors allows; a rank of 0 makes a scalar of one element.
bool plan_measure(TensorPlan *tensor, Error *error) {
    const DTypeInfo *info = dtype_info(tensor->dtype);
    uint64_t elements = 1, bytes;
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        if (!mul_ok(elements, tensor->shape[i], &elements))
            return error_set(error, ERROR_FILE, "tensor \"%s\": its size overflows", tensor->name);
    }
    // Blocks run along the last dimension and never cross the end of a row, so it is the row and
    // not the tensor that has to consist of whole blocks.
    uint64_t row = tensor->n_dims ? tensor->shape[tensor->n_dims - 1] : 1;
    if (row % info->block)
        return error_set(error, ERROR_FILE,
                         "tensor \"%s\": rows of %llu elements, wanted a multiple of %u for %s",
                         tensor->name, (unsigned long long)row, info->block, info->name);
    // 63 bits, so that sums of two sizes and signed offsets of the operating system cannot
    // overflow.
    if (!mul_ok(elements / info->block, info->block_bytes, &bytes) || bytes > INT64_MAX)
        return error_set(error, ERROR_FILE, "tensor \"%s\": its size overflows", tensor->name);
    tensor->bytes = bytes;
    return true;
}

uint64_t plan_elements(const TensorPlan *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        count *= tensor->shape[i];
    return count;
}

// By address; of two at the same one, the empty one first, so that it does not seem to overlap.
static int by_address(const void *a, const void *b, void *tensors) {
    const TensorPlan *left = (const TensorPlan *)tensors + *(const uint32_t *)a;
    const TensorPlan *right = (const TensorPlan *)tensors + *(const uint32_t *)b;
    int order = ((uintptr_t)left->data > (uintptr_t)right->data) -
                ((uintptr_t)left->data < (uintptr_t)right->data);
    return order ? order : (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

// Builds c->names (name -> index in c->tensors) and refuses a name that occurs twice: two readers
// of such a file could take different tensors for the same weight.
static bool index_names(Checkpoint *c, Error *error) {
    NameEntry *entries = arena_alloc(&c->arena, c->n_tensors, sizeof *entries, error);
    if (!entries) return false;
    for (size_t i = 0; i < c->n_tensors; i++) {
        size_t length = strlen(c->tensors[i].name);
        if (!length || length > LIMIT_NAME_LENGTH)
            return error_set(error, ERROR_FILE, "a tensor's name has %zu bytes, wanted 1 to %d",
                             length, LIMIT_NAME_LENGTH);
        entries[i] = (NameEntry){{c->tensors[i].name, length}, (uint32_t)i};
    }
    return names_index(&c->names, entries, c->n_tensors, "tensor", error);
}

// Ranges are compared after sorting by address, each with its predecessor only: n log n for any
// file. Where no tensor overlaps the next one, no two of them overlap.
bool plan_finish(Checkpoint *c, Error *error) {
    if (!index_names(c, error)) return false;
    c->plan_order = arena_alloc(&c->arena, c->n_tensors, sizeof *c->plan_order, error);
    if (!c->plan_order) return false;
    for (size_t i = 0; i < c->n_tensors; i++)
        c->plan_order[i] = (uint32_t)i;
    // Addresses and not file offsets: the tensors of a sharded model lie in several mappings.
    qsort_r(c->plan_order, c->n_tensors, sizeof *c->plan_order, by_address, c->tensors);
    for (size_t i = 1; i < c->n_tensors; i++) {
        const TensorPlan *before = &c->tensors[c->plan_order[i - 1]];
        const TensorPlan *tensor = &c->tensors[c->plan_order[i]];
        // Sorted, so the difference is not negative.
        if ((uintptr_t)tensor->data - (uintptr_t)before->data < before->bytes)
            return error_set(error, ERROR_FILE, "tensors \"%s\" and \"%s\" overlap at offset %llu",
                             before->name, tensor->name, (unsigned long long)tensor->offset);
    }
    return true;
}
