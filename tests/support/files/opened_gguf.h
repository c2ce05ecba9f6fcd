// A described GGUF file, written and opened from memory.
#pragma once

#include "tests/support/files/gguf_writer.h"
#include "weights/checkpoint.h"

typedef struct OpenedGguf {
    uint8_t *bytes;
    Checkpoint *checkpoint;
} OpenedGguf;

// Frees the description. Fails the test where the file does not open.
OpenedGguf opened_gguf(GgufFile *file);
void opened_gguf_close(OpenedGguf *opened);
