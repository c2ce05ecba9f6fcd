// LensCapture: what the model would predict after each half of each layer (the logit lens,
// nostalgebraist 2020): the residual stream there through the final norm and the head.
//
//     LensCapture c = {.session = &s, .tokens = &tokens, .count = tokens.count, .top = 3};
//     good = session_open_model(&s, &(SessionModel){... lens_sizes(&c) ...}, &error) &&
//            lens_capture(&c, &error);
//     const LensCell *cell = lens_cell(&c, 7, 5);       // position 7 after the FFN of layer 2
//     lens_capture_free(&c);
//
// Depths count half-layers: depth 2 l is after the attention of layer l, depth 2 l + 1 after its
// FFN. The last depth has the model's own prediction.
#pragma once

#include "commands/lens/distribution.h"
#include "commands/shared/drawing.h"
#include "commands/shared/session.h"

typedef struct LensCapture {
    Session *session;
    const IdList *tokens;
    size_t first, count; // positions that are looked at: first .. first + count - 1
    int top;             // how many of the likeliest tokens are kept

    int32_t *winners;      // (count) the likeliest token at the last depth
    LensCell *cells;       // (count, depths)
    LensToken *top_tokens; // (count, depths, top), the likeliest first
} LensCapture;

int lens_depths(const LensCapture *capture); // 2 n_layers
static inline const char *lens_half(int depth) {
    return depth % 2 ? "ffn" : "attention";
}

// Rows of a forward pass and of model_unembed that suit the model, whose vocabulary may need far
// more memory than a residual stream: max_rows and max_logit_rows of the SessionModel.
typedef struct LensSizes {
    int rows; // of the prompt that go through the layers together
    int unembedded;
} LensSizes;
LensSizes lens_sizes(const LensCapture *capture);

// What all cells and tokens may take: a long prompt times layers times --top.
static const uint64_t LENS_BYTES = (uint64_t)1 << 30;

// Runs the prompt up to the last position that is looked at. In memory are the residual streams
// of one pass, the logits of a few rows, and the results. False: exit code 2 (more than
// LENS_BYTES), 5, 130, or what the model said; nothing is left to free then.
bool lens_capture(LensCapture *capture, Error *error);
void lens_capture_free(LensCapture *capture);

const LensCell *lens_cell(const LensCapture *capture, size_t position, int depth);
// (top)
const LensToken *lens_top(const LensCapture *capture, size_t position, int depth);

// ---- what is printed of it: report.c ----

// The grid positions x depths in the terminal, then a table of the half-layers at `position`.
bool lens_print(const LensCapture *capture, size_t position, Error *error);
// "layer,half,position,rank,id,logit,probability"; one JSON object.
void lens_print_csv(const LensCapture *capture);
void lens_print_json(const LensCapture *capture);
// The grid as files of --svg and --png.
bool lens_write_files(const LensCapture *capture, const PictureFiles *files, Error *error);
