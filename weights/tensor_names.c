// Names of tensors as the family tables have them: patterns in which '~' stands for a prefix and
// '#' for the number of a layer.
#include "weights/container.h"
#include "weights/roles.h"

#include <stdio.h>
#include <string.h>

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
static bool stands_beside(const TensorName *row, const char *name, const char *prefix) {
    const char *last = strrchr(name, '.');
    size_t stem = last ? (size_t)(last - name) + 1 : 0;
    TensorNameText text;
    tensor_name_text(text, row->pattern, prefix, 0);
    return stem && !strncmp(text, name, stem) && !strchr(text + stem, '.');
}

// The number of the layer that the name is in, by the pattern of a layer's row; -1: in none.
static int layer_of(const TensorName *row, const char *name, const char *prefix) {
    TensorNameText text;
    tensor_name_text(text, row->pattern, prefix, 0);
    size_t before = (size_t)(strchr(text, '0') - text); // prefixes hold no digit
    if (strncmp(text, name, before) != 0) return -1;
    int layer = 0;
    const char *digit = name + before;
    for (; *digit >= '0' && *digit <= '9' && layer < LIMIT_LAYERS; digit++)
        layer = layer * 10 + (*digit - '0');
    return digit > name + before && *digit == '.' ? layer : -1;
}

// A tensor inside an existing layer or in the one that would come next (so the number of layers is
// wrong), or one beside a tensor that is used.
bool tensor_name_belongs(const Checkpoint *c, const char *name, const char *prefix) {
    if (c->family->complete) return true;
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

static bool fits_any_layer(const TensorName *row, const char *name, const char *prefix) {
    TensorNameText text;
    int layer = strchr(row->pattern, '#') ? layer_of(row, name, prefix) : 0;
    if (layer < 0) return false;
    tensor_name_text(text, row->pattern, prefix, layer);
    return !strcmp(text, name);
}

bool tensor_name_ignored(const Family *family, Naming naming, const char *name) {
    for (int i = 0; i < N_LISTS && family->tensors[naming][i]; i++)
        for (const TensorName *row = family->tensors[naming][i]; row->pattern; row++)
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

static const TensorName *find_row(const Family *family, Role role) {
    for (int i = 0; i < N_LISTS && family->tensors[NAMES_HF][i]; i++)
        for (const TensorName *row = family->tensors[NAMES_HF][i]; row->pattern; row++)
            if (brings(row, role)) return row;
    return NULL;
}

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
