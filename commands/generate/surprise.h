// Surprise: a text in which the background of every token says how surprising the token was:
//
//   surprise = -log2 p(token)      bits; p: the model's own distribution, that is temperature 1,
//                                  before penalties and cuts, whatever the sampler did with it
//
//     Surprise s = {.colors = COLORS_256, .vocab_size = 2048};
//     surprise_push(&s, surprise_bits(&s, logits, id), length);   // a token of `length` bytes
//     surprise_show(&s, bytes, count);                            // what of them can be shown
//     surprise_end(&s);
//     surprise_free(&s);
//
// A character whose bytes come from several tokens has the colour of the first. Every call leaves
// the terminal with its own colours, so that nothing is left behind however the program ends; a
// newline has no colour, since some terminals would paint the rest of the line.
#pragma once

#include "base/error.h"
#include "commands/shared/options.h"
#include "pictures/picture.h"
#include "tokenizer/tokenizer.h"

typedef struct SurpriseSpan { // of a token whose bytes have not all been shown
    size_t length;            // bytes left
    int shade;                // -1: no prediction
} SurpriseSpan;

typedef struct Surprise {
    ColorDepth colors; // COLORS_NONE: nothing is coloured, and nothing else of this is used
    int vocab_size;

    SurpriseSpan *spans; // owned: first .. count - 1 are waiting
    size_t first, count, capacity;
    Utf8Stream characters; // bytes of a character that is not complete
    double bits;           // the sum over the tokens with a prediction
    size_t tokens;         // and their number
} Surprise;

// What --color surprise does not go with. False: exit code 2.
bool surprise_check(const Options *options, Error *error);

double surprise_bits(const Surprise *surprise, const float *logits, int32_t id);

// Appends a token. bits NaN: nothing predicted it. False: exit code 5.
bool surprise_push(Surprise *surprise, double bits, size_t length, Error *error);

// Prints text of the tokens pushed, in order, with their colours; flushes. False: exit code 5.
bool surprise_show(Surprise *surprise, const char *bytes, size_t length, Error *error);
// The end of the text: bytes that were held back as the beginning of a character.
void surprise_end(Surprise *surprise);

// What the colours mean, in two lines on standard error.
void surprise_print_legend(const Surprise *surprise);
void surprise_free(Surprise *surprise); // zeroed is fine
