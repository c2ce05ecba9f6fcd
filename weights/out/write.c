// What the writers of safetensors and GGUF share: a file of known size whose header is written
// first and whose tensors are written in any order, in parts. The formats are in safetensors.c and
// gguf.c beside this file; FileWriter (base/file_writer.h) writes to a temporary file and puts it
// in place at the end.
#include "weights/out/write.h"

#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

// calloc and not the arena for the writer itself: the arena is inside it.
TensorWriter *tensor_writer_new(size_t n, Error *error) {
    TensorWriter *w = calloc(1, sizeof *w);
    if (w) w->tensors = arena_alloc(&w->arena, n, sizeof *w->tensors, error);
    if (w && w->tensors) {
        w->n = n;
        return w;
    }
    error_set(error, ERROR_MEMORY, "out of memory for %zu tensors", n);
    tensor_writer_close(w);
    return NULL;
}

bool tensor_writer_name(TensorWriter *w, size_t tensor, const char *name, Error *error) {
    w->tensors[tensor].name = arena_text(&w->arena, name, strlen(name), error);
    return w->tensors[tensor].name != NULL;
}

// The size is known here, so that a full disk is noticed before anything is computed.
bool tensor_writer_begin(TensorWriter *w, const OutputFile *out, const Buffer *header,
                         uint64_t data_bytes, Error *error) {
    uint64_t size;
    if (header->failed) return error_set(error, ERROR_MEMORY, "out of memory for the header");
    if (!add_ok(header->size, data_bytes, &size))
        return error_set(error, ERROR_IO, "no file can hold all this");
    w->data_start = header->size;
    w->file = file_writer_open(out, size, error);
    return w->file && file_writer_put(w->file, 0, header->bytes, header->size, error);
}

// Counts bytes, not which ones: the caller writes every byte once (write.h). A caller that would
// write more than the tensor has is stopped here.
bool tensor_writer_put(TensorWriter *w, size_t tensor, uint64_t offset, const void *data,
                       uint64_t bytes, Error *error) {
    if (tensor >= w->n) return error_set(error, ERROR_USAGE, "tensor %zu of %zu", tensor, w->n);
    PlacedTensor *t = &w->tensors[tensor];
    if (offset > t->bytes || bytes > t->bytes - offset || bytes > t->bytes - t->written)
        return error_set(error, ERROR_USAGE, "tensor \"%.100s\": more than its %llu bytes", t->name,
                         (unsigned long long)t->bytes);
    t->written += bytes;
    return file_writer_put(w->file, w->data_start + t->begin + offset, data, bytes, error);
}

// A tensor that is not complete would be a file with holes that read as zeros.
bool tensor_writer_finish(TensorWriter *w, Error *error) {
    for (size_t i = 0; i < w->n; i++) {
        const PlacedTensor *t = &w->tensors[i];
        if (t->written == t->bytes) continue;
        error_set(error, ERROR_USAGE,
                  "tensor \"%.100s\": %llu of its %llu bytes were never written", t->name,
                  (unsigned long long)(t->bytes - t->written), (unsigned long long)t->bytes);
        return error_prefix(error, file_writer_path(w->file));
    }
    return file_writer_finish(w->file, error);
}

void tensor_writer_close(TensorWriter *w) {
    if (!w) return;
    file_writer_close(w->file);
    arena_free(&w->arena);
    free(w);
}
