// Utf8Stream: releases complete characters and invalid bytes only.
#include "base/text.h"
#include "tests/test.h"
#include "tokenizer/tokenizer.h"

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
        // No complete character is held back: less than one character is pending.
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
    CHECK_INT(count, 0); // may still be completed
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
    utf8_stream_flush(&stream, &out, &count); // an incomplete character at the end
    CHECK(count == 2 && !memcmp(out, "\xf0\x9f", 2));
    utf8_stream_flush(&stream, &out, &count);
    CHECK_INT(count, 0);
    CHECK(utf8_stream_push(&stream, "b", 1, &out, &count, &error));
    CHECK(count == 1 && out[0] == 'b');
    utf8_stream_free(&stream);
}

static size_t released(Utf8Stream *stream, const char *bytes, size_t length) {
    const char *out;
    size_t count;
    Error error = {0};
    CHECK(utf8_stream_push(stream, bytes, length, &out, &count, &error));
    return count;
}

Test(utf8_stream, waits_for_the_last_byte_of_every_code_point) {
    Utf8Stream stream = {0};
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        char bytes[4];
        size_t n = utf8_encode(bytes, c);
        for (size_t i = 0; i < n; i++) {
            size_t wanted = i + 1 == n ? n : 0;
            if (released(&stream, bytes + i, 1) != wanted) TEST_FAIL("U+%04X, byte %zu", c, i);
        }
    }
    utf8_stream_free(&stream);
}

Test(utf8_stream, holds_back_only_what_can_become_a_character) {
    // Over all sequences of two and three bytes, counted: how many leave something pending. That
    // many prefixes of well-formed characters there are, by the table of RFC 3629, section 4.
    long waits1 = 0, waits2 = 0, waits3 = 0;
    Utf8Stream stream = {0};
    for (uint32_t i = 0; i < 1u << 24; i += i < 1u << 16 ? 1 : 16) {
        char b[3] = {(char)(i >> 16), (char)(i >> 8), (char)i};
        if (i < 1u << 8) {
            released(&stream, b + 2, 1);
            waits1 += stream.pending == 1;
            stream.pending = 0;
        }
        if (i < 1u << 16) {
            released(&stream, b + 1, 2);
            waits2 += stream.pending == 2;
            stream.pending = 0;
        }
        if (i % 16) continue;
        released(&stream, b, 3);
        waits3 += stream.pending == 3;
        stream.pending = 0;
    }
    utf8_stream_free(&stream);
    CHECK_INT(waits1, 30 + 16 + 5); // c2-df, e0-ef, f0-f4
    CHECK_INT(waits2,
              32 + 12 * 64 + 32 + 2 * 64 + 48 + 3 * 64 + 16); // e0, e1-ec, ed, ee-ef, f0, ...
    CHECK_INT(waits3 * 16, (48 + 3 * 64 + 16) * 64);
}
