// Changes a file by its structure: fields get values that matter, strings change together with
// their lengths, entries are doubled, dropped and swapped together with their counts, and what is
// behind them moves along. So a changed file gets past the checks that random bytes fail.
//
//     size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
//         return fuzz_mutate(data, size, room, seed, fuzz_walk_gguf, base, base_size);
//     }
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum SpanKind {
    SPAN_NUMBER, // little-endian, 1 .. 8 bytes
    SPAN_DIGITS, // a number as text
    SPAN_STRING, // with what is around it: quotes, or its length in front
    SPAN_ENTRY,  // of a list
} SpanKind;

typedef struct Span {
    size_t begin, end;
    SpanKind kind;
    size_t count_at; // of an entry: where the u64 is that counts its list; 0: nowhere
    int length_size; // of a string: bytes of the length in front; 0: quotes around it
    size_t outer_at; // of a string: the byte with the length of what it is in; 0: nowhere
} Span;

enum { MOST_SPANS = 2048 };

// The structure of a file: its spans, all of them in the head, and how the rest hangs on it.
typedef struct Layout {
    int count;
    size_t head;       // bytes of the head
    size_t alignment;  // of what follows it; 0: nothing is moved to one
    bool length_first; // the file begins with a u64 that is head - 8
    char separator;    // between entries; 0: none
    Span spans[MOST_SPANS];
} Layout;

// Fills `layout` (zeroed, but for the spans). False: the file has no such structure.
typedef bool Walk(Layout *layout, const uint8_t *file, size_t size);
Walk fuzz_walk_gguf, fuzz_walk_json, fuzz_walk_safetensors, fuzz_walk_tokenizer_bin,
    fuzz_walk_protobuf, fuzz_walk_llama2c;

void layout_add(Layout *layout, Span span); // beyond MOST_SPANS: left out

// The new size of data[size], an input of fuzz_patched, changed inside room. An input without this
// structure becomes `base`, or is changed as libFuzzer does.
size_t fuzz_mutate(uint8_t *data, size_t size, size_t room, unsigned seed, Walk *walk,
                   const void *base, size_t base_size);
