// A proof for all inputs, by Frama-C's WP, that the bounded reader and the checked arithmetic have
// no undefined behaviour, never read outside the bytes that they were given, and say so where a
// number does not fit. tests/proofs/prove runs it.
//
// The contracts (ACSL) stand in front of the code itself, base/bytes.c, which is included as it is.
// Taken as given: what bytes_fail, error_set and mapping_load may write, and that the memory of the
// reader, its Error, its Mapping and its bytes are apart. Not here: bytes_f32 and load_f32, which
// copy a number's bits.
#include "tests/proofs/builtins.h"

#include "base/bytes.h"

/*@ requires \valid(out); assigns *out;
    ensures \result <==> a + b <= 0xffffffffffffffff;
    ensures \result ==> *out == a + b; */
static inline bool add_ok(uint64_t a, uint64_t b, uint64_t *out);

/*@ requires \valid(out); assigns *out;
    ensures \result <==> a * b <= 0xffffffffffffffff;
    ensures \result ==> *out == a * b; */
static inline bool mul_ok(uint64_t a, uint64_t b, uint64_t *out);

/*@ requires \valid_read(b) && b->pos <= b->size;
    assigns \nothing;
    ensures \result == b->size - b->pos; */
static inline size_t bytes_left(const Bytes *b);

/*@ predicate bytes_valid(Bytes *b) =
      \valid(b) && b->pos <= b->size && b->size <= 0x7fffffffffffffff &&
      \valid_read(b->base + (0 .. b->size - 1)) && \separated(b, b->base + (0 .. b->size - 1)) &&
      (b->file == \null || (\valid(b->file) && \separated(b, b->file) &&
        \separated(b->file, b->base + (0 .. b->size - 1)) && b->file->size == b->size)) &&
      (b->error == \null || (\valid(b->error) && \separated(b, b->error) &&
        \separated(b->error, b->base + (0 .. b->size - 1)) &&
        (b->file == \null || \separated(b->error, b->file))));
*/

// What is assumed of functions that are not proved here: what they may write.
/*@ assigns *error; ensures \result == \false; */
bool error_set(Error *error, ErrorCode code, const char *format, ...);

/*@ requires \valid(mapping) && end <= mapping->size;
    assigns mapping->loaded, *error;
    ensures \result ==> mapping->loaded >= end; */
bool mapping_load(Mapping *mapping, size_t end, Error *error);

/*@ requires bytes_valid(b);
    assigns b->failed, *b->error;
    ensures b->failed == \true && \result == \false && bytes_valid(b); */
bool bytes_fail(Bytes *b, size_t offset, const char *format, ...);

/*@ requires bytes_valid(b) && end <= b->size && !b->failed;
    assigns b->failed, *b->error, b->file->loaded;
    ensures bytes_valid(b) && b->failed == !\result;
    ensures \result && b->file != \null ==> b->file->loaded >= end; */
static bool load(Bytes *b, size_t end);

/*@ requires bytes_valid(b);
    assigns b->wanted;
    ensures bytes_valid(b); */
void bytes_lack(Bytes *b, uint64_t count);

// Either it fails and the position stays, or the bytes are inside.
/*@ requires bytes_valid(b);
    assigns b->failed, b->pos, b->wanted, *b->error, b->file->loaded;
    ensures bytes_valid(b);
    ensures \result == \null ==> b->pos == \old(b->pos);
    ensures \result != \null ==> \result == b->base + \old(b->pos) &&
            b->pos == \old(b->pos) + count && \valid_read(\result + (0 .. count - 1));
    ensures \old(b->failed) ==> \result == \null; */
const uint8_t *bytes_take(Bytes *b, uint64_t count, const char *what);

/*@ requires bytes_valid(b);
    assigns b->failed, b->pos, b->wanted, *b->error, b->file->loaded;
    ensures bytes_valid(b); */
uint8_t bytes_u8(Bytes *b, const char *what);
/*@ requires bytes_valid(b);
    assigns b->failed, b->pos, b->wanted, *b->error, b->file->loaded;
    ensures bytes_valid(b); */
uint16_t bytes_u16(Bytes *b, const char *what);
/*@ requires bytes_valid(b);
    assigns b->failed, b->pos, b->wanted, *b->error, b->file->loaded;
    ensures bytes_valid(b); */
uint32_t bytes_u32(Bytes *b, const char *what);
/*@ requires bytes_valid(b);
    assigns b->failed, b->pos, b->wanted, *b->error, b->file->loaded;
    ensures bytes_valid(b); */
uint64_t bytes_u64(Bytes *b, const char *what);
/*@ requires bytes_valid(b);
    assigns b->failed, b->pos, b->wanted, *b->error, b->file->loaded;
    ensures bytes_valid(b);
    ensures \result.text != \null ==> \valid_read(\result.text + (0 .. \result.length - 1));
    ensures \result.text == \null ==> \result.length == 0; */
TextSpan bytes_string(Bytes *b, const char *what);
/*@ requires bytes_valid(b) && alignment > 0;
    assigns b->failed, b->pos, b->wanted, *b->error, b->file->loaded;
    ensures bytes_valid(b); */
bool bytes_align(Bytes *b, size_t alignment, const char *what);

/*@ requires \valid_read((uint8_t *)p + (0 .. 1)); assigns \nothing; */
uint16_t load_u16(const void *p);
/*@ requires \valid_read((uint8_t *)p + (0 .. 3)); assigns \nothing; */
uint32_t load_u32(const void *p);
/*@ requires \valid_read((uint8_t *)p + (0 .. 7)); assigns \nothing; */
uint64_t load_u64(const void *p);

// The smallest multiple that is not below a.
/*@ requires alignment > 0 && \valid(out);
    assigns *out;
    ensures \result ==> *out >= a && *out - a < alignment;
    ensures \result == \false <==> a + alignment - 1 > 0xffffffffffffffff; */
bool align_ok(uint64_t a, uint64_t alignment, uint64_t *out);

#include "base/bytes.c"
