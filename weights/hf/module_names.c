#include "weights/hf/module_names.h"

#include "weights/container.h"
#include "weights/roles.h"

#include <stdio.h>
#include <string.h>

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
