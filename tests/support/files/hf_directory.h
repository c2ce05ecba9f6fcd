// A tiny Llama as a Hugging Face directory, functions that change its files, and checks of what
// checkpoint_open says of it.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

// In a fresh directory of this name inside the temporary directory.
const char *hf_tiny_model(const char *name, bool tied);

#define HF_SHARD "shard-1.safetensors"
// A tied model of one layer becomes one shard of that name, under an index that says `shard` for
// every tensor.
void hf_make_shard(const char *directory, const char *shard);
const char *hf_sharded_model(const char *name, const char *shard);

void hf_path(char path[700], const char *directory, const char *name);
void hf_write(const char *directory, const char *name, const char *text);
char *hf_read(const char *directory, const char *name, size_t *size); // malloced

// `old` replaced by `new` (of the same length where it stands in the header) in a file.
void hf_patch(const char *directory, const char *name, const char *old, const char *new);

// checkpoint_open of a path, and its error: the path in front, the message in it.
void hf_check_opens(const char *path);
void hf_check_refused(const char *path, ErrorCode code, const char *message);
