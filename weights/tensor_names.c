// Names of tensors as the family tables have them: patterns in which '~' stands for a prefix and
// '#' for the number of a layer.
//
//     pattern "~layers.#.mlp.up_proj.weight", prefix "model.", layer 3
//        ->   "model.layers.3.mlp.up_proj.weight"
//
// The first half turns patterns into names and decides what a name outside the table means. The
// second half makes names of modules out of the Hugging Face patterns. Which tensors a family has
// is in families.c, what is done with them in roles.c.
#include "weights/container.h"
#include "weights/roles.h"

#include <stdio.h>
#include <string.h>

// A pattern longer than the buffer is cut, never written past it; the patterns of the tables and
// the prefixes are constants that fit. 16 bytes stay free for the number of a layer.
void tensor_name_text(TensorNameText out, const char *pattern, const char *prefix, int layer) {
    size_t used = 0;
    for (; *pattern && used < sizeof(TensorNameText) - 16; pattern++) {
        char *at = out + used;
        size_t room = sizeof(TensorNameText) - used;
        if (*pattern == '~')
            used += (size_t)snprintf(at, room, "%s", prefix);
        else if (*pattern == '#')
            used += (size_t)snprintf(at, room, "%d", layer);
        else
            out[used++] = *pattern;
    }
    out[used] = '\0';
}

// The first row of a family's first list is its embedding, which every model has, so its presence
// decides. Where no prefix fits, the first one is used: the message about the missing tensor then
// has the usual name.
const char *tensor_name_prefix(const Checkpoint *c) {
    const char *const *prefixes = c->family->prefixes[c->naming];
    TensorNameText text;
    for (int i = 0; i < N_PREFIXES && prefixes[i]; i++) {
        tensor_name_text(text, c->family->tensors[c->naming][0]->pattern, prefixes[i], 0);
        if (names_find(&c->names, text) >= 0) return prefixes[i];
    }
    return prefixes[0] ? prefixes[0] : "";
}

// The name stands beside the row's tensor: its bias, for one.
// True where `name` and the row's tensor differ only behind the last dot: "output.bias" beside
// "output.weight". Used for tensors outside the layers.
static bool stands_beside(const TensorName *row, const char *name, const char *prefix) {
    const char *last = strrchr(name, '.');
    size_t stem = last ? (size_t)(last - name) + 1 : 0;
    TensorNameText text;
    tensor_name_text(text, row->pattern, prefix, 0);
    return stem && !strncmp(text, name, stem) && !strchr(text + stem, '.');
}

// The number of the layer that the name is in; -1: in none. The row's pattern shows where the
// number stands: what comes before it in the row's name has to be the same in `name`, and a dot
// follows the digits.
static int layer_of(const TensorName *row, const char *name, const char *prefix) {
    TensorNameText text;
    tensor_name_text(text, row->pattern, prefix, 0);
    size_t before = (size_t)(strchr(text, '0') - text); // prefixes hold no digit
    if (strncmp(text, name, before) != 0) return -1;
    int layer = 0;
    const char *digit = name + before;
    // Stops once the number is past every model's layers, so that no length of digits overflows.
    for (; *digit >= '0' && *digit <= '9' && layer < LIMIT_LAYERS; digit++)
        layer = layer * 10 + (*digit - '0');
    return digit > name + before && *digit == '.' ? layer : -1;
}

// Decides between a warning and a refusal for a tensor that no row takes. It belongs to the model
// if it is inside an existing layer, or in the one that would come next (the config then has too
// few layers), or stands beside a tensor that is used, or changes the frequencies of positions, as
// rope_* in a GGUF. Anything else, such as the weights of an image encoder, may be left out of a
// text model.
bool tensor_name_belongs(const Checkpoint *c, const char *name, const char *prefix) {
    if (c->family->complete) return true;
    if (c->naming == NAMES_GGUF && !strncmp(name, "rope_", 5)) return true;
    for (int i = 0; i < N_LISTS && c->family->tensors[c->naming][i]; i++) {
        for (const TensorName *row = c->family->tensors[c->naming][i]; row->pattern; row++) {
            if (!strchr(row->pattern, '#')) {
                if (stands_beside(row, name, prefix)) return true;
                continue;
            }
            int layer = layer_of(row, name, prefix);
            if (layer >= 0) return layer <= c->config.n_layers;
        }
    }
    return false;
}

// Whether `name` is the row's tensor in some layer, or the tensor itself where the row has no '#'.
static bool fits_any_layer(const TensorName *row, const char *name, const char *prefix) {
    TensorNameText text;
    int layer = strchr(row->pattern, '#') ? layer_of(row, name, prefix) : 0;
    if (layer < 0) return false;
    tensor_name_text(text, row->pattern, prefix, layer);
    return !strcmp(text, name);
}

// Called before the plan is complete, so the prefix is not known yet: all of the family's are
// tried.
bool tensor_name_ignored(const Family *family, Naming naming, const char *name) {
    for (int i = 0; i < N_LISTS && family->tensors[naming][i]; i++)
        for (const TensorName *row = family->tensors[naming][i]; row->pattern; row++)
            // A family without any prefix is tried once with the empty one.
            for (int j = 0; row->need == IGNORED && j < N_PREFIXES; j++) {
                const char *prefix = family->prefixes[naming][j];
                if (!prefix && j > 0) break;
                if (fits_any_layer(row, name, prefix ? prefix : "")) return true;
            }
    return false;
}

// ---- names of modules ----

// What follows the name of a matrix that holds several.
static const char *part(Role role) {
    switch (role) {
    case ROLE_WQ: return ".q";
    case ROLE_WK: return ".k";
    case ROLE_WV: return ".v";
    case ROLE_W_GATE: return ".gate";
    case ROLE_W_UP: return ".up";
    default: return "";
    }
}

static bool brings(const TensorName *row, Role role) {
    return row->roles[0] == role || row->roles[1] == role || row->roles[2] == role;
}

// NULL: no row of the family, stored or UNSTORED, brings the role.
static const TensorName *find_row(const Family *family, Role role) {
    for (int i = 0; i < N_LISTS && family->tensors[NAMES_HF][i]; i++)
        for (const TensorName *row = family->tensors[NAMES_HF][i]; row->pattern; row++)
            if (brings(row, role)) return row;
    return NULL;
}

// The Hugging Face table is used for every container: traces and `diff` compare with transformers,
// whose modules have these names (docs/trace.md).
bool module_name(ModuleName out, const Checkpoint *checkpoint, Role role, int layer) {
    const Family *family = checkpoint->family;
    const TensorName *row = role == ROLE_NONE ? NULL : find_row(family, role);
    if (!row) return false;
    TensorNameText text;
    tensor_name_text(text, row->pattern, family->prefixes[NAMES_HF][0], layer);
    const char *end = strrchr(text, '.'); // of "weight"
    int length = end ? (int)(end - text) : (int)strlen(text);
    snprintf(out, sizeof(ModuleName), "%.*s%s", length, text, row->roles[1] ? part(role) : "");
    return true;
}
