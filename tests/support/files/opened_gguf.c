#include "tests/support/files/opened_gguf.h"

#include "tests/test.h"

OpenedGguf opened_gguf(GgufFile *file) {
    OpenedGguf o;
    size_t size;
    Error error = {0};
    o.bytes = gguf_write(file, &size);
    gguf_file_free(file);
    if (!checkpoint_open_memory(&o.checkpoint, "test.gguf", o.bytes, size, &error)) {
        free(o.bytes);
        TEST_FAIL("%s", error.message);
    }
    return o;
}

void opened_gguf_close(OpenedGguf *opened) {
    checkpoint_close(opened->checkpoint);
    free(opened->bytes);
}
