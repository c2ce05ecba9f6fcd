// The alphabet in which byte-level vocabularies are spelt: one visible character for each byte.
// 188 bytes stand for themselves (33-126, 161-172, 174-255); the other 68, in order, are U+0100 on:
// a space is "Ġ", a newline "Ċ".
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { ALPHABET_MAX = 2 }; // bytes of UTF-8 that one letter takes at most

// Writes the letter of a byte to out[ALPHABET_MAX] and returns its length.
size_t alphabet_letter(char *out, uint8_t byte);

// The byte that a character stands for, or -1: it is no letter of the alphabet.
int alphabet_byte(uint32_t codepoint);

// Length of a spelling's bytes, written to out[length], or -1 where it has another character in it.
// out may be NULL.
ptrdiff_t alphabet_decode(char *out, const char *spelling, size_t length);
