// The bounded reader, which every binary file format is read through; and checked arithmetic.
//
//     Bytes in = bytes_over(data, size, &error);
//     uint32_t version = bytes_u32(&in, "version");
//     uint64_t count = bytes_u64(&in, "tensor count");
//     if (in.failed) return false;          // sticky: one check after several reads is enough
//
// A read past the end gives zeros, marks the reader as failed and fills the Error once with the
// place and the cause ("offset 16: truncated: tensor count wants 8 bytes, 3 are left").
//
// Over a mapped file (bytes_of_file) it loads what it reads: a pointer that it gives is into memory
// of our own, which does not change when the file does.
#pragma once

#include "base/mapping.h"
#include "base/text.h"

// Limits on what a file or a prompt may ask for, each tested on both sides. `run --limits` prints
// them. They lie well above what models have of the size that this program is for. A hostile file
// is refused, with its number and the limit, before memory is taken for it.
enum {
    // hyper-parameters
    LIMIT_LAYERS = 1024,
    LIMIT_DIM = 65536, // dim, hidden_dim, head_dim, q_dim, kv_dim
    LIMIT_HEADS = 1024,
    LIMIT_VOCAB = 1 << 22,
    LIMIT_CONTEXT = 1 << 22,
    LIMIT_EOS_IDS = 16,
    // containers
    LIMIT_TENSORS = 65536,
    LIMIT_KEYS = 65536,         // key-value pairs of a GGUF
    LIMIT_KEY_LENGTH = 1024,    // bytes
    LIMIT_NAME_LENGTH = 256,    // bytes of a tensor's name (GGUF itself says 64)
    LIMIT_TOKEN_LENGTH = 65536, // bytes of one vocabulary entry
    LIMIT_MERGES = 1 << 22,
    LIMIT_TEMPLATE = 1 << 20,      // bytes of a chat template that is kept
    LIMIT_ALIGNMENT = 65536,       // GGUF: a power of two from 8 up
    LIMIT_FILES = 512,             // shards of one model
    LIMIT_JSON_HEADER = 100000000, // bytes, as the safetensors format says
    LIMIT_JSON_DEPTH = 64,
    LIMIT_METADATA = 256 << 20,    // bytes of a file's header, of a tokenizer: they are copied
    LIMIT_SENTENCEPIECE = 8 << 20, // bytes of a .model; that of XLM-R has 5 million
    LIMIT_PIECES = 1 << 19,        // of a .model; Gemma 3 has 262,144
    LIMIT_PIECE = 1024,            // bytes of a piece, if it is user-defined or of a unigram model
    LIMIT_TRIE_DEPTH = 256,        // nodes on a path in the trie of such pieces
    LIMIT_NORMALISED = 96 << 20,   // bytes of a normalised text,
    LIMIT_EXPANSION = 16,          // and for each byte of the text itself; NFKC: 11
    // texts, in bytes
    LIMIT_TEXT = 32 << 20,        // of any input
    LIMIT_PROMPT = 1 << 20,       // of a prompt, and for each token of the context
    LIMIT_PROMPT_TOKEN = 128,     // so many more
    LIMIT_PROMPT_LINE = 16 << 20, // of a line of a file of prompts
    LIMIT_ANSWER_LINE = 64 << 20, // and of one of answers
};

typedef struct Bytes {
    const uint8_t *base; // borrowed
    size_t size, pos;    // pos <= size
    bool failed;
    Error *error;
    Mapping *file;   // whose bytes these are; NULL: plain memory
    uint64_t wanted; // bytes that the whole file has at least, where these are not all; 0: unknown
} Bytes;

Bytes bytes_over(const void *base, size_t size, Error *error);
// What is taken is loaded, LIMIT_METADATA bytes at most: so only for the header in front of
// weights.
Bytes bytes_of_file(Mapping *file, Error *error);
static inline size_t bytes_left(const Bytes *b) {
    return b->size - b->pos;
}

// Little-endian numbers. `what` names the thing in the message.
uint8_t bytes_u8(Bytes *b, const char *what);
uint16_t bytes_u16(Bytes *b, const char *what);
uint32_t bytes_u32(Bytes *b, const char *what);
uint64_t bytes_u64(Bytes *b, const char *what);
float bytes_f32(Bytes *b, const char *what);

// A pointer to the next `count` bytes, which are skipped; NULL where they are not there, or cannot
// be loaded (exit code 4, 5).
const uint8_t *bytes_take(Bytes *b, uint64_t count, const char *what);
// A string with its length, a u64, in front of it; text NULL on a failure.
TextSpan bytes_string(Bytes *b, const char *what);
// Moves forward to the next multiple of `alignment` (at least 1) from `base`.
bool bytes_align(Bytes *b, size_t alignment, const char *what);

// Fails with "offset N: ...", exit code 3. Returns false.
bool bytes_fail(Bytes *b, size_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The reader is about to fail, since `count` bytes should follow and do not: sets `wanted`, unless
// that is more than any header has. Such a count is wrong, and no sign of a file that was cut off.
void bytes_lack(Bytes *b, uint64_t count);
// Says so in front of the message where the reader failed over the beginning of a file. Returns
// false.
bool bytes_incomplete(const Bytes *b);

// Loads from memory that is known to be there; any alignment.
uint16_t load_u16(const void *p);
uint32_t load_u32(const void *p);
uint64_t load_u64(const void *p);
float load_f32(const void *p);

// *out = a op b; false where it does not fit 64 bits. align_ok: a rounded up to a multiple.
static inline bool mul_ok(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool add_ok(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
bool align_ok(uint64_t a, uint64_t alignment, uint64_t *out);
