// Text windows: how a long text is cut into pieces that fit the model, and what of each is scored.
//
// Windows of `window` tokens begin at 0, stride, 2 stride ...; the one that begins at b is fed
// tokens b .. b+window-1 and predicts b+1 .. b+window, of which it scores those that no earlier
// window has:
//
//   stride = window      |bbbb|          every token but the text's first is scored once
//                             |bbbb|
//   stride < window      |bbbb|
//                           |..bb|       . fed again as context, b scored
//
// second_half is what llama.cpp's perplexity does: whole windows side by side, of which the tokens
// behind the middle are scored, each with at least half a window of context.
//
//   second_half          |..bb|..bb|     b+window/2+1 .. b+window-1; a last part is left out
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct TextWindows {
    size_t window, stride; // stride = window where second_half
    size_t most;           // windows; 0: as many as the text has
    bool second_half;
} TextWindows;

typedef struct TextWindow {
    size_t begin, end; // fed: ids[begin .. end)
    size_t first,
        after; // scored: the predictions of ids[first .. after); the row before feeds each
} TextWindow;

// The i-th window of a text of `count` tokens; false after the last.
bool text_window(TextWindow *window, const TextWindows *windows, size_t count, size_t i);

// How many tokens all windows score, and in *used how many of the text's they look at.
size_t text_windows_scored(const TextWindows *windows, size_t count, size_t *used);
