// The only C++ in tokenizer/: calls into the sentencepiece library.
//
// Where `new` fails inside the library, the destructors of its half-built messages crash. So during
// a call a failed allocation is served from a reserve, and the call ends as out of memory when the
// library returns.
//
//     call      reserves memory, runs the library, cleans up where memory ran out
//     allocate  malloc; where that fails during a call, a piece of the reserve
#include "tokenizer/sentencepiece/sentencepiece_c.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
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

// ---- memory ----

struct Reserve {
    char *bytes; // nullptr: no call is under way
    std::size_t size, used, live; // bytes, bytes, blocks that were not released
    bool in_use;                  // memory has run out
};

thread_local Reserve reserve;

// A reserve in which something stays alive after the call: objects that the library makes once for
// the whole program. Never freed; the record is at its beginning.
struct Kept {
    Kept *next;
    std::size_t size;
};
constexpr std::size_t KEPT_BYTES = (sizeof(Kept) + 15) & ~static_cast<std::size_t>(15);

std::atomic<Kept *> kept;

bool is_inside(const void *memory, const void *bytes, std::size_t size) noexcept {
    auto at = reinterpret_cast<std::uintptr_t>(memory);
    auto begin = reinterpret_cast<std::uintptr_t>(bytes);
    return begin && at >= begin && at - begin < size;
}

void keep_reserve() noexcept {
    Kept *record = new (reserve.bytes) Kept{kept.load(), reserve.size};
    while (!kept.compare_exchange_weak(record->next, record)) {
    }
}

// 16 bytes of alignment, as malloc has. nullptr only where the reserve is used up too.
void *allocate(std::size_t size) noexcept {
    void *memory = reserve.in_use ? nullptr : std::malloc(size ? size : 1);
    if (memory || !reserve.bytes) return memory;
    reserve.in_use = true;
    std::size_t room = (size + 15) & ~static_cast<std::size_t>(15);
    if (room < size || room > reserve.size - reserve.used) return nullptr;
    reserve.used += room;
    reserve.live++;
    return reserve.bytes + reserve.used - room;
}

// Blocks of the reserve are all freed with it.
void release(void *memory) noexcept {
    if (is_inside(memory, reserve.bytes, reserve.size)) {
        reserve.live--;
        return;
    }
    for (const Kept *k = kept.load(); k; k = k->next)
        if (is_inside(memory, k, k->size)) return;
    std::free(memory);
}

// ---- calls ----

SentencePieceStatus refuse(char *reason, const char *why) noexcept {
    std::snprintf(reason, SENTENCEPIECE_REASON_SIZE, "%s", why);
    return SENTENCEPIECE_REFUSED;
}

// Runs `body` and turns exceptions into a status.
template <class Body> SentencePieceStatus catch_exceptions(char *reason, Body &&body) noexcept {
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

// Bytes that the library takes for each byte of a model or a text, more than was ever measured; and
// what it takes for the smallest.
constexpr std::size_t LIBRARY_FACTOR = 64, LIBRARY_LEAST = 4 << 20;

// Runs `body`, then `discard`, which frees what the library holds, if memory ran out.
template <class Body, class Discard>
SentencePieceStatus call(std::size_t size, char *reason, Body &&body, Discard &&discard) noexcept {
    std::size_t room = size > SIZE_MAX / 2 / LIBRARY_FACTOR ? SIZE_MAX / 2 : size * LIBRARY_FACTOR;
    // Taken before the call: a machine without that much memory is noticed here.
    reserve = {nullptr, LIBRARY_LEAST + room, KEPT_BYTES, 0, false};
    reserve.bytes = static_cast<char *>(std::malloc(reserve.size));
    if (!reserve.bytes) return SENTENCEPIECE_MEMORY;
    SentencePieceStatus status = catch_exceptions(reason, body);
    if (reserve.in_use) {
        status = SENTENCEPIECE_MEMORY;
        discard();
    }
    if (reserve.live)
        keep_reserve();
    else
        std::free(reserve.bytes);
    reserve = {};
    return status;
}

} // namespace

// For the whole program; outside a call of the library they are malloc and free.
void *operator new(std::size_t size) {
    void *memory = allocate(size);
    if (!memory) throw std::bad_alloc();
    return memory;
}

void operator delete(void *memory) noexcept {
    release(memory);
}

void operator delete(void *memory, std::size_t) noexcept {
    release(memory);
}

extern "C" {

bool sentencepiece_available(void) {
    return true;
}

SentencePieceStatus sentencepiece_load(SentencePiece **out, const void *bytes, size_t size,
                                       char *reason) {
    *out = nullptr;
    SentencePiece *model = nullptr;
    auto load = [&] {
        model = new SentencePiece;
        auto loaded =
            model->processor.LoadFromSerializedProto({static_cast<const char *>(bytes), size});
        return loaded.ok() ? SENTENCEPIECE_OK : refuse(reason, loaded.error_message());
    };
    // What was built with memory of the reserve has to go before the reserve does.
    auto discard = [&] {
        sentencepiece_free(model);
        model = nullptr;
    };
    SentencePieceStatus status = call(size, reason, load, discard);
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
    auto encode = [&] {
        auto status = model->processor.Encode({text, length}, &model->ids);
        if (!status.ok()) return refuse(reason, status.error_message());
        int size = model->processor.GetPieceSize();
        // The library trusts its file; callers index the vocabulary with these.
        for (int id : model->ids)
            if (id < 0 || id >= size) return refuse(reason, "an id outside the vocabulary");
        *ids = model->ids.data();
        *count = model->ids.size();
        return SENTENCEPIECE_OK;
    };
    return call(length, reason, encode, [&] { std::vector<int>().swap(model->ids); });
}

} // extern "C"
