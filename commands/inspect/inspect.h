// What inspect reports, apart from its outputs: names for the enums of a Config, counts over its
// layers, totals over the tensors, and Facts: the lines above the list of tensors, which the text
// and the page show alike.
//
//     Facts facts = {0};
//     facts_collect(&facts, &session);       // facts.text.failed: out of memory
//     ... facts.rows[i].name, fact_text(&facts, i), facts.rows[i].length ...
//     buffer_free(&facts.text);
#pragma once

#include "base/buffer.h"
#include "base/file_writer.h"
#include "commands/shared/session.h"
#include "tokenizer/template/template.h"

// The names are part of the JSON output: scripts compare them.
const char *norm_name(NormKind kind);
const char *qk_norm_name(const Config *config);
const char *activation_name(Activation activation);
const char *scaling_name(RopeScaling scaling);

// How many layers have a window, a RoPE table of their own, no RoPE.
typedef struct LayerCounts {
    int windowed, local_rope, rope_less;
} LayerCounts;
LayerCounts count_layers(const Config *config);
int largest_window(const Config *config); // 0: no layer has one

bool scale_by_layer(const Config *config); // scores are scaled differently in different layers
bool head_is_tied(const Session *session); // logits come from the embedding

// NULL: no tokenizer, or no format that is known.
const ChatTemplate *known_template(const Session *session);

typedef struct Totals {
    uint64_t tensors, parameters, bytes;
} Totals;
Totals inspect_totals(const Session *session);
// Appends "11 tensors, 60 parameters, 240 bytes; F32 100.0 %": the share of a type is by bytes,
// what it costs to store and to read.
void totals_text(Buffer *out, const Session *session);

// What a model takes, from the table that `cost` prints: with the default precision and cache,
// every thread, one sequence.
typedef struct MemoryFigures {
    bool known;                 // the model could be planned
    double kv_bytes_per_token;  // in all layers
    double short_peak, peak;    // of short_context and of context tokens
    int short_context, context; // at most 2048; the model's own
} MemoryFigures;

// layers.c: the table of tensors, equal layers in one row. At most that many rows: the largest, and
// in the last one what the others are; 0: a row for each tensor. False: exit code 5.
bool inspect_print_tensors(const TensorPlan *tensors, size_t count, int most_rows, Error *error);

enum { FACTS_MOST = 40 };
typedef struct Facts {
    Buffer text; // owned: all values, one after the other
    struct {
        const char *name;
        size_t begin, length; // of its value in `text`, any bytes of the file
        bool is_text;         // an author's, of any length
        bool joins;           // in the short form it may be put behind the row before it
    } rows[FACTS_MOST];
    int count;
    MemoryFigures memory;
} Facts; // zero it first

void facts_collect(Facts *facts, const Session *session);
static inline const char *fact_text(const Facts *facts, int i) {
    return (const char *)facts->text.bytes + facts->rows[i].begin;
}

// screen.c: the facts as text, short or all of them. Returns the number of lines; short, authors'
// texts are left out where there would be more than `most`.
int facts_print(const Facts *facts, bool all, int most);
// What totals_text appends, in lines of 80 columns, whose number is returned.
int totals_print(const char *text, bool show);

// The page, html.c: one file without anything fetched. False: exit code 2, 4 or 5.
bool inspect_write_html(const Session *session, const Facts *facts, const OutputFile *place,
                        Error *error);
