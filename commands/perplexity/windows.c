// Windows of a text, chunk by chunk. Which tokens a window feeds and scores is decided in
// scoring.c.
//
// Row t of the logits predicts token t + 1. So a window is fed from `begin` to `end`, and the rows
// that want logits are those in front of a scored token.
#include "commands/perplexity/windows.h"

#include "commands/shared/output.h"

enum { DEFAULT_WINDOW = 1024 };

size_t windows_default(int context) {
    return context < DEFAULT_WINDOW ? (size_t)context : DEFAULT_WINDOW;
}

static bool feed_window(const WindowedText *text, const TextWindow *w, ChunkFunction *function,
                        void *context, Error *error) {
    bool wants[CHUNK_ROWS];
    for (size_t at = w->begin; at < w->end;) {
        // Within the batch row i is token at + i and predicts token at + i + 1.
        int n = w->end - at < CHUNK_ROWS ? (int)(w->end - at) : CHUNK_ROWS;
        for (int i = 0; i < n; i++)
            wants[i] = at + (size_t)i + 1 >= w->first && at + (size_t)i + 1 < w->after;
        TextChunk chunk = {n, text->ids + at, wants, at == w->begin};
        if (!function(context, &chunk, error)) return false;
        at += (size_t)n;
    }
    return true;
}

bool windows_feed(const WindowedText *text, ChunkFunction *function, void *context,
                  const WindowsShow *show, Error *error) {
    Progress progress;
    TextWindow w;
    size_t used;
    bool good = true;
    text_windows_scored(text->windows, text->count, &used);
    progress_begin(&progress, show->label, show->quiet);
    for (size_t i = 0; good && text_window(&w, text->windows, text->count, i); i++) {
        int32_t *first = &text->ids[w.begin], id = *first;
        // llama.cpp replaces the first token of each window by BOS; the id is put back for the next
        // window, which may begin with another one.
        if (text->windows->second_half && text->bos >= 0) *first = text->bos;
        good = feed_window(text, &w, function, context, error);
        *first = id;
        progress_update(&progress, (double)w.after / (double)used);
    }
    progress_end(&progress);
    return good;
}

void windows_begin(const Session *s, const TextChunk *chunk) {
    for (int i = 0; chunk->begins && i < s->model->options.n_sequences; i++)
        kv_cache_reset(&s->model->cache, i);
}

bool windows_forward(const Session *s, const TextChunk *chunk, Error *error) {
    windows_begin(s, chunk);
    return session_forward(
        s, &(Batch){.n = chunk->n, .tokens = chunk->ids, .wants_logits = chunk->wants}, error);
}
