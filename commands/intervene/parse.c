// The three options as text. Each piece becomes one Change for each layer that it names.
//
//   --ablate     item,item,..     item   = L layers [ . (H heads | N neurons | att | ffn) ]
//   --patch      name [ index ] = (number | file)
//   --steer      file [ :scale ] @ L layers
//   layers, heads, neurons         *, 3, or 3-5 (both ends included, as people count layers)
//   index                          3, -1, 2:5, :, 2:  (as in NumPy), separated by commas
#include "commands/intervene/intervene.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const Range WHOLE = {0, INT_MAX};

// Digits at *at, which moves behind them. False: there are none, or too many.
static bool take_number(const char **at, int *number) {
    *number = 0;
    const char *begin = *at;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (*number > (INT_MAX - 9) / 10) return false;
        *number = 10 * *number + **at - '0';
    }
    return *at > begin;
}

// "*", "3", "3-5": both ends included. A second "L" or "H" may stand behind the dash: "L3-L5".
static bool take_range(const char **at, Range *range) {
    char letter = *(*at)++;
    *range = WHOLE;
    if (**at == '*') return (*at)++, true;
    if (!take_number(at, &range->begin)) return false;
    range->end = range->begin;
    if (**at == '-') {
        ++*at;
        if (**at == letter) ++*at;
        if (!take_number(at, &range->end)) return false;
    }
    range->end++;
    return range->begin < range->end;
}

// ---- ablation ----

static bool ablation_error(const char *item, size_t length, Error *error) {
    char escaped[60];
    return error_set(error, ERROR_USAGE,
                     "--ablate: got \"%s\", wanted such as L3.H5, L4.H*, L0-2.ffn, L2.att, L7.N12",
                     escape_bytes(escaped, sizeof escaped, item, length));
}

// "H5", "N0-99", "att", "ffn": what of a layer, as a change of one layer.
static bool take_part(const char **at, Change *c) {
    if (**at == 'H' || **at == 'N') {
        c->place.id = **at == 'H' ? STAGE_ATT_HEADS : STAGE_FFN_ACTIVATED;
        c->n_index = 1;
        return take_range(at, &c->index[0]);
    }
    c->place.id = !strncmp(*at, "ffn", 3) ? STAGE_FFN_OUT : STAGE_ATT_OUT;
    bool known = !strncmp(*at, "ffn", 3) || !strncmp(*at, "att", 3);
    *at += known ? 3 : 0;
    return known;
}

// The change for each of the layers, which are checked here, since "*" means those that there are.
static bool add_layers(Interventions *all, Change *c, Range layers, Error *error) {
    int n_layers = checkpoint_config(all->checkpoint)->n_layers;
    if (layers.end == INT_MAX) layers.end = n_layers;
    if (layers.end > n_layers)
        return error_set(error, ERROR_USAGE, "%s: the model's layers are 0 to %d", c->text,
                         n_layers - 1);
    for (int l = layers.begin; l < layers.end; l++) {
        c->place.layer = l;
        if (!interventions_add(all, c, error)) return false;
    }
    return true;
}

static bool parse_ablations(Interventions *all, const Options *options, Error *error) {
    for (const char *at = options->ablate;; at++) {
        const char *item = at;
        size_t length = strcspn(item, ",");
        Change c = {.kind = options->ablate_to ? CHANGE_TO_MEAN : CHANGE_TO_VALUE,
                    .sequence = -1,
                    .positions = WHOLE,
                    .index = {WHOLE, WHOLE},
                    .text = options->ablate};
        Range layers;
        if (*at != 'L' || !take_range(&at, &layers) || *at++ != '.' || !take_part(&at, &c) ||
            at != item + length)
            return ablation_error(item, length, error);
        if (!add_layers(all, &c, layers, error)) return false;
        if (!*at) return true;
    }
}

bool interventions_ablate_head(Interventions *all, int layer, int head, int sequence,
                               Error *error) {
    return interventions_add(all,
                             &(Change){.place = {STAGE_ATT_HEADS, layer},
                                       .sequence = sequence,
                                       .positions = WHOLE,
                                       .index = {{head, head + 1}, WHOLE},
                                       .n_index = 1,
                                       .text = "--ablate-each"},
                             error);
}

// ---- patching ----

static bool take_signed(const char **at, int *number) {
    bool negative = **at == '-';
    *at += negative;
    bool good = take_number(at, number);
    if (negative) *number = -*number;
    return good;
}

// One dimension: "3", "-1", "2:5", "2:", ":5", ":". An end of 0 is written here only, for -1 alone.
static bool take_index(const char **at, Range *range) {
    *range = WHOLE;
    bool begins = **at != ':';
    if (begins && !take_signed(at, &range->begin)) return false;
    if (**at != ':') {
        range->end = range->begin + 1;
        return begins;
    }
    ++*at;
    return **at == ',' || **at == ']' || (take_signed(at, &range->end) && range->end);
}

// "[2:5,17]": positions, then the dimensions of a row.
static bool take_indices(const char **at, Change *c) {
    Range *const dimensions[] = {&c->positions, &c->index[0], &c->index[1]};
    int n = 0;
    ++*at;
    do {
        if (n == 3 || !take_index(at, dimensions[n++])) return false;
    } while (*(*at)++ == ',');
    c->n_index = n - 1;
    return (*at)[-1] == ']';
}

static bool patch_error(const char *text, Error *error) {
    return error_set(error, ERROR_USAGE,
                     "--patch: got \"%.100s\", wanted NAME=VALUE, NAME[POSITION,..]=VALUE or "
                     "NAME[POSITION]=FILE, such as layers.3.att_out[5]=0",
                     text);
}

// A number, NaN and infinity too: a planted one shows how it spreads. False: it is a file.
static bool patch_value(const char *text, float *value) {
    static const struct {
        const char *text;
        float value;
    } OTHERS[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};
    double number = 0;
    bool is = parse_number(&number, text);
    *value = (float)number;
    for (int i = 0; i < 3 && !is; i++) {
        is = !strcmp(text, OTHERS[i].text);
        *value = OTHERS[i].value;
    }
    return is;
}

// Whole rows of a trace, by its name of the stage.
static bool patch_from_file(Change *c, const Interventions *all, const char *path, Error *error) {
    char name[TRACE_NAME_SIZE];
    if (c->n_index)
        return error_set(error, ERROR_USAGE, "%s: a file patches whole rows: give positions only",
                         c->text);
    if (!trace_stage_name(name, all->checkpoint, c->place.id, c->place.layer))
        return error_set(error, ERROR_USAGE, "%s: no trace has this stage", c->text);
    c->kind = CHANGE_TO_ROWS;
    return intervention_rows(c, path, name, error);
}

static bool parse_patch(Interventions *all, const char *text, Error *error) {
    size_t length = strcspn(text, "[=");
    const char *at = text + length;
    Change c = {.sequence = -1, .positions = WHOLE, .index = {WHOLE, WHOLE}, .text = text};
    if (!length || (*at == '[' && !take_indices(&at, &c)) || *at++ != '=' || !*at)
        return patch_error(text, error);
    if (!stage_place_find(&c.place, all->checkpoint, text, length, error))
        return error_prefix(error, "--patch");
    if (c.place.id == STAGE_ATT_WEIGHTS)
        return error_set(error, ERROR_USAGE,
                         "%s: when attention weights are seen the values are already summed; "
                         "att_heads has the sums",
                         text);
    if (!patch_value(at, &c.value) && !patch_from_file(&c, all, at, error)) return false;
    return interventions_add(all, &c, error);
}

// ---- steering ----

// "FILE:0.5@L4-L8". A colon may be part of the path: what follows the last one is the scale where
// it is a number. The caller frees *path. False: exit code 2 or 5.
static bool split_steering(const char *text, char **path, float *scale, Range *layers,
                           Error *error) {
    const char *mark = strrchr(text, '@'), *at = mark ? mark + 1 : text;
    size_t length = (size_t)(mark ? mark - text : 0);
    if (!length || length >= PATH_MAX || *at != 'L' || !take_range(&at, layers) || *at)
        return error_set(error, ERROR_USAGE,
                         "--steer: got \"%.100s\", wanted FILE[:SCALE]@L4-L8 or FILE@L*", text);
    *path = text_print(error, "%.*s", (int)length, text);
    if (!*path) return false;
    char *colon = strrchr(*path, ':');
    double number = 1;
    if (colon && colon > *path && parse_number(&number, colon + 1)) *colon = '\0';
    *scale = (float)number;
    return true;
}

// A change for every layer, with its own vector.
static bool parse_steering(Interventions *all, const char *text, Error *error) {
    const Config *config = checkpoint_config(all->checkpoint);
    char *path = NULL;
    SteeringFile file = {0};
    Range layers;
    Change c = {.kind = CHANGE_ADDS,
                .place = {.id = STAGE_LAYER_OUT},
                .sequence = -1,
                .positions = WHOLE,
                .index = {WHOLE, WHOLE},
                .n_rows = 1,
                .row_size = (size_t)config->dim,
                .text = text};
    if (!split_steering(text, &path, &c.value, &layers, error)) return false;
    if (layers.end == INT_MAX) layers.end = config->n_layers;
    bool good = layers.end <= config->n_layers ||
                error_set(error, ERROR_USAGE, "%s: the model's layers are 0 to %d", text,
                          config->n_layers - 1);
    good = good && steering_open(&file, path, config, error);
    for (int l = layers.begin; good && l < layers.end; l++) {
        c.place.layer = l;
        c.rows = steering_vector(&file, l, error);
        good = c.rows && interventions_add(all, &c, error);
    }
    steering_close(&file);
    free(path);
    return good;
}

// ---- all of them ----

static bool parse_all(Interventions *all, const Options *o, Error *error) {
    for (int i = 0; i < o->steers.count; i++)
        if (!parse_steering(all, o->steers.texts[i], error)) return false;
    for (int i = 0; i < o->patches.count; i++)
        if (!parse_patch(all, o->patches.texts[i], error)) return false;
    return !o->ablate || parse_ablations(all, o, error);
}

bool interventions_asked(const Options *o) {
    return o->ablate || o->patches.count || o->steers.count;
}

bool interventions_open(Interventions **out, const Options *o, const Checkpoint *checkpoint,
                        Error *error) {
    *out = NULL;
    if (!interventions_asked(o))
        return !option_given(o, OPTION_ABLATE_TO) ||
               error_set(error, ERROR_USAGE, "--ablate-to says what --ablate sets: give that too");
    Interventions *all = calloc(1, sizeof *all);
    if (!all) return error_set(error, ERROR_MEMORY, "no memory for interventions");
    all->checkpoint = checkpoint;
    if (parse_all(all, o, error)) {
        *out = all;
        return true;
    }
    interventions_close(all);
    return false;
}

bool interventions_inputs(FileSet *inputs, const Options *o, Error *error) {
    char *path = NULL;
    float number;
    Range layers;
    for (int i = 0; i < o->steers.count; i++) {
        Error cause = {0};
        bool split = split_steering(o->steers.texts[i], &path, &number, &layers, &cause);
        if (!split && cause.code == ERROR_MEMORY) return error_copy(error, &cause);
        if (!split) continue; // told when it is parsed
        bool good = file_set_add(inputs, path, error);
        free(path);
        if (!good) return false;
    }
    for (int i = 0; i < o->patches.count; i++) {
        const char *equals = strchr(o->patches.texts[i], '=');
        if (equals && equals[1] && !patch_value(equals + 1, &number) &&
            !file_set_add(inputs, equals + 1, error))
            return false;
    }
    return true;
}

void interventions_describe(Buffer *out, const Options *o) {
    const struct {
        const char *option;
        const char *const *texts;
        int count;
    } LISTS[] = {
        {"--steer", o->steers.texts, o->steers.count},
        {"--patch", o->patches.texts, o->patches.count},
        {o->ablate_to ? "--ablate-to mean --ablate" : "--ablate", &o->ablate, o->ablate != NULL}};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < LISTS[k].count; i++) {
            const char *text = LISTS[k].texts[i];
            buffer_print(out, "%s%s ", out->size ? " " : "", LISTS[k].option);
            buffer_put_text(out, text, strlen(text));
        }
}
