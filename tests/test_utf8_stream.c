// Utf8Stream and utf8_length, held against a decoder that works by code points.
#include "tests/test.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

// U+0041, U+00E9, U+4E2D, U+1F600, U+07FF, U+0800, U+FFFF, U+10000, U+10FFFF, U+0000
static const char TEXT[] = "A\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\xdf\xbf\xe0\xa0\x80"
                           "\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\0z";
enum { TEXT_LENGTH = sizeof TEXT - 1 };

static bool continuation(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

// Pushes `text` cut at the bits of `cuts` and checks that each release is whole characters.
static void push_in_pieces(const char *text, size_t length, uint64_t cuts) {
    Utf8Stream stream = {0};
    Error error = {0};
    char got[64];
    size_t used = 0, start = 0;
    for (size_t end = 1; end <= length; end++) {
        if (end < length && !(cuts >> (end - 1) & 1)) continue;
        const char *out;
        size_t count;
        CHECK(utf8_stream_push(&stream, text + start, end - start, &out, &count, &error));
        CHECK(!count || !continuation(out[0]), "a release begins inside a character");
        memcpy(got + used, out, count);
        used += count;
        CHECK(used == length || !continuation(text[used]), "a release ends inside a character");
        // Nothing that is whole is held back: what waits is less than one character.
        CHECK(end - used < 4);
        start = end;
    }
    const char *rest;
    size_t count;
    utf8_stream_flush(&stream, &rest, &count);
    CHECK_INT(count, 0);
    CHECK(used == length && !memcmp(got, text, length));
    utf8_stream_free(&stream);
}

Test(utf8_stream, releases_whole_characters_at_every_split) {
    // every way to cut any window of 12 bytes that begins and ends at a character
    for (size_t start = 0; start < TEXT_LENGTH; start++) {
        if (continuation(TEXT[start])) continue;
        size_t end = start + 12 < TEXT_LENGTH ? start + 12 : TEXT_LENGTH;
        while (end < TEXT_LENGTH && continuation(TEXT[end]))
            end--;
        for (uint64_t cuts = 0; cuts < 1u << (end - start - 1); cuts++)
            push_in_pieces(TEXT + start, end - start, cuts);
    }
    push_in_pieces(TEXT, TEXT_LENGTH, 0);
    push_in_pieces(TEXT, TEXT_LENGTH, UINT64_MAX);
}

Test(utf8_stream, an_invalid_byte_goes_out_as_soon_as_it_is_known) {
    Utf8Stream stream = {0};
    Error error = {0};
    const char *out;
    size_t count;
    CHECK(utf8_stream_push(&stream, "\xe4\xb8", 2, &out, &count, &error));
    CHECK_INT(count, 0); // may still become a character
    CHECK(utf8_stream_push(&stream, "x", 1, &out, &count, &error));
    CHECK(count == 3 && !memcmp(out, "\xe4\xb8x", 3));
    CHECK(utf8_stream_push(&stream, "\x80", 1, &out, &count, &error));
    CHECK(count == 1 && !memcmp(out, "\x80", 1));
    CHECK(utf8_stream_push(&stream, "\xed\xa0", 2, &out, &count, &error)); // a surrogate
    CHECK(count == 2 && !memcmp(out, "\xed\xa0", 2));
    CHECK(utf8_stream_push(&stream, "a\xf0\x9f", 3, &out, &count, &error));
    CHECK(count == 1 && out[0] == 'a');
    CHECK(utf8_stream_push(&stream, "", 0, &out, &count, &error));
    CHECK_INT(count, 0);
    utf8_stream_flush(&stream, &out, &count); // half a character at the end
    CHECK(count == 2 && !memcmp(out, "\xf0\x9f", 2));
    utf8_stream_flush(&stream, &out, &count);
    CHECK_INT(count, 0);
    CHECK(utf8_stream_push(&stream, "b", 1, &out, &count, &error));
    CHECK(count == 1 && out[0] == 'b');
    utf8_stream_free(&stream);
}

// The oracle works the other way round: it encodes code points.
static size_t encode_code_point(uint32_t c, char *out) {
    if (c < 0x80) return out[0] = (char)c, 1;
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00 >> n) | c);
    return n;
}

Test(utf8_length, knows_every_code_point_and_its_prefixes) {
    for (uint32_t c = 0; c < 0x110000; c++) {
        char bytes[8] = {0};
        size_t n = encode_code_point(c, bytes);
        int wanted = c >= 0xd800 && c < 0xe000 ? -1 : (int)n;
        if (utf8_length(bytes, n) != wanted) TEST_FAIL("U+%04X: wanted %d", c, wanted);
        if (wanted < 0) continue;
        for (size_t cut = 1; cut < n; cut++) {
            if (utf8_length(bytes, cut)) TEST_FAIL("U+%04X cut to %zu bytes", c, cut);
        }
    }
}

Test(utf8_length, counts_exactly_the_well_formed_sequences) {
    // Over all pairs and triples of bytes: as many characters as Unicode has of that length.
    long two = 0, three = 0, four = 0;
    for (uint32_t i = 0; i < 1u << 24; i++) {
        char b[4] = {(char)(i >> 16), (char)(i >> 8), (char)i, (char)0x80};
        three += utf8_length(b, 3) == 3;
        if (i < 1u << 16) two += utf8_length(b + 1, 2) == 2;
        four += utf8_length(b, 4) == 4; // with one of the 64 possible last bytes
    }
    CHECK_INT(two, 0x800 - 0x80);
    CHECK_INT(three, 0x10000 - 0x800 - 0x800);
    CHECK_INT(four * 64, 0x110000 - 0x10000);
}

Test(utf8_length, refuses_overlong_forms_and_more) {
    static const char *const BAD[] = {"\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xfe",
                                      "\x80",
                                      "\xbf",
                                      "\xe4\xb8\x41",
                                      "\xf0\x9f\x98\x41"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        CHECK_INT(utf8_length(BAD[i], strlen(BAD[i])), -1);
}
