// The only C++ in tokenizer/: calls into the sentencepiece library.
#include "tokenizer/sentencepiece/sentencepiece_c.h"

#include <cstdio>
#include <exception>
#include <new>
#include <sentencepiece_processor.h>
#include <string>
#include <vector>

struct SentencePiece {
    sentencepiece::SentencePieceProcessor processor;
    std::vector<int> ids; // of the last call
};

namespace {

SentencePieceStatus refuse(char *reason, const char *why) noexcept {
    std::snprintf(reason, SENTENCEPIECE_REASON_SIZE, "%s", why);
    return SENTENCEPIECE_REFUSED;
}

// Runs `body` and turns exceptions into a status.
template <class Body> SentencePieceStatus catch_all(char *reason, Body &&body) noexcept {
    try {
        return body();
    } catch (const std::bad_alloc &) {
        return SENTENCEPIECE_MEMORY;
    } catch (const std::exception &e) {
        return refuse(reason, e.what());
    } catch (...) {
        return refuse(reason, "an unknown C++ exception");
    }
}

} // namespace

extern "C" {

bool sentencepiece_available(void) {
    return true;
}

SentencePieceStatus sentencepiece_load(SentencePiece **out, const void *bytes, size_t size,
                                       char *reason) {
    *out = nullptr;
    SentencePiece *model = nullptr;
    SentencePieceStatus status = catch_all(reason, [&] {
        model = new SentencePiece;
        auto loaded =
            model->processor.LoadFromSerializedProto({static_cast<const char *>(bytes), size});
        return loaded.ok() ? SENTENCEPIECE_OK : refuse(reason, loaded.error_message());
    });
    if (status == SENTENCEPIECE_OK)
        *out = model;
    else
        sentencepiece_free(model);
    return status;
}

void sentencepiece_free(SentencePiece *model) {
    delete model;
}

size_t sentencepiece_size(const SentencePiece *model) {
    int size = model->processor.GetPieceSize();
    return size > 0 ? static_cast<size_t>(size) : 0;
}

SentencePieceStatus sentencepiece_encode(SentencePiece *model, const char *text, size_t length,
                                         const int **ids, size_t *count, char *reason) {
    *ids = nullptr;
    *count = 0;
    return catch_all(reason, [&] {
        auto status = model->processor.Encode({text, length}, &model->ids);
        if (!status.ok()) return refuse(reason, status.error_message());
        int size = model->processor.GetPieceSize();
        for (int id : model->ids)
            if (id < 0 || id >= size) return refuse(reason, "an id outside the vocabulary");
        *ids = model->ids.data();
        *count = model->ids.size();
        return SENTENCEPIECE_OK;
    });
}

} // extern "C"
