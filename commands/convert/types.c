// Which types convert is asked for, and what it says of those that come out.
//
// The rules themselves are in weights/out/types.c: what embedding and head get, what a mix is, what
// rows get that are no whole blocks.
#include "commands/convert/convert.h"

#include "base/text.h"
#include "commands/shared/output.h"
#include "weights/quant.h"

#include <stdio.h>
#include <string.h>

// ---- what is asked for ----

// PATTERN=TYPE; a name of a tensor has no '='.
static bool read_choice(TypesWanted *wanted, const char *text, Error *error) {
    size_t i = wanted->type.n_choices++;
    const char *equals = strrchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0;
    int type = 0;
    if (!length || length >= sizeof wanted->patterns[i])
        return error_set(error, ERROR_USAGE, "--tensor-type: got \"%.100s\", wanted PATTERN=TYPE",
                         text);
    if (!parse_choice(&type, OPTION_TYPES, equals + 1))
        return error_set(error, ERROR_USAGE, "--tensor-type: got type \"%.40s\", wanted one of %s",
                         equals + 1, OPTION_TYPES);
    snprintf(wanted->patterns[i], sizeof wanted->patterns[i], "%.*s", (int)length, text);
    wanted->choices[i] = (OutgoingChoice){wanted->patterns[i], OPTION_DTYPES[type], 0};
    return true;
}

// A .bin has one type: float32, or with --type q8_0 the int8 groups of version 2. Its tensors are
// planned in float32, since groups are made when they are written. Version 0 is what run.c reads.
static bool read_version(TypesWanted *wanted, const Options *o, Error *error) {
    OutgoingType *type = &wanted->type;
    bool groups = type->given && type->dtype == DTYPE_Q8_0, given = option_given(o, OPTION_BIN);
    wanted->version = given ? (int)o->bin_version : groups ? 2 : 0;
    if (type->head_given || type->n_choices)
        return error_set(error, ERROR_USAGE, "a .bin has one type for all: no --%s",
                         type->head_given ? "head-type" : "tensor-type");
    if (type->given && type->dtype != (wanted->version == 2 ? DTYPE_Q8_0 : DTYPE_F32))
        return error_set(error, ERROR_USAGE, "--type: a .bin of version %d has %s", wanted->version,
                         wanted->version == 2 ? "q8_0" : "f32 (version 2: q8_0)");
    *type = (OutgoingType){.given = true, .dtype = DTYPE_F32};
    return true;
}

// The groups of a .bin are made without weights.
static bool rounds_to_blocks(const TypesWanted *wanted, OutKind kind) {
    const OutgoingType *type = &wanted->type;
    bool rounds = (type->given && !dtype_is_float(type->dtype)) ||
                  (type->head_given && !dtype_is_float(type->head));
    for (size_t i = 0; i < type->n_choices; i++)
        rounds = rounds || !dtype_is_float(type->choices[i].dtype);
    return rounds && kind != OUT_BIN;
}

bool types_read(TypesWanted *wanted, const Options *o, OutKind kind, Error *error) {
    static const DType MIXES[] = {DTYPE_Q4_K, DTYPE_Q5_K}; // q4_k_m, q5_k_m
    bool mixed = o->type >= N_OPTION_DTYPES;
    wanted->type = (OutgoingType){
        .given = option_given(o, OPTION_TYPE),
        .dtype = mixed ? MIXES[o->type - N_OPTION_DTYPES] : OPTION_DTYPES[o->type],
        .mixed = mixed,
        .head_given = option_given(o, OPTION_HEAD_TYPE),
        .head = OPTION_DTYPES[o->head_type],
        .choices = wanted->choices,
    };
    for (int i = 0; i < o->tensor_types.count; i++)
        if (!read_choice(wanted, o->tensor_types.texts[i], error)) return false;
    if (o->importance && !rounds_to_blocks(wanted, kind))
        return error_set(
            error, ERROR_USAGE,
            "--importance weighs the errors of quantised types, and none is asked for");
    if (kind == OUT_BIN) return read_version(wanted, o, error);
    return !option_given(o, OPTION_BIN) ||
           error_set(error, ERROR_USAGE, "--bin-version: the output is no .bin");
}

// A pattern that is misspelt, or that a later one leaves nothing to do.
bool types_check(const TypesWanted *wanted, Error *error) {
    for (size_t i = 0; i < wanted->type.n_choices; i++)
        if (!wanted->choices[i].used)
            return error_set(error, ERROR_USAGE,
                             "--tensor-type %s: no matrix gets its type from it (inspect shows "
                             "the names)",
                             wanted->choices[i].pattern);
    return true;
}

// ---- what became of it ----

// Rows that are no whole blocks: "12 tensors have ... written as F16, the first is x".
static void tell_other(const Outgoing *out) {
    char types[200] = "";
    size_t n = 0, most = 0, used = 0;
    for (size_t t = 0; t < DTYPE_COUNT; t++) {
        if (!out->n_other[t]) continue;
        if (out->n_other[t] > out->n_other[most]) most = t;
        n += out->n_other[t];
        used += (size_t)snprintf(types + used, sizeof types - used, "%s%s", used ? ", " : "",
                                 dtype_info((DType)t)->name);
    }
    if (n)
        note("%zu tensors have rows that are no whole blocks and are written as %s, the first is "
             "%s",
             n, types, out->first_other[most]);
}

// A second rounding adds its error to that of the first, which only the original does not have.
static void tell_again(const Outgoing *out, const char *name) {
    char original[300] = "";
    if (!out->n_again) return;
    if (name)
        snprintf(original, sizeof original,
                 "; the original of %.200s, in F16 or BF16, is the better source", name);
    note("%zu matrices are quantised already (the first is %s) and are rounded a second time%s",
         out->n_again, dtype_info(out->again)->name, original);
}

void types_tell(const Outgoing *out, OutKind kind, const char *name) {
    if (out->n_exact)
        note("%zu quantised tensors are written as F32, which is exact (--type %s is smaller)",
             out->n_exact, kind == OUT_GGUF ? "q8_0" : "f16");
    tell_other(out);
    tell_again(out, name);
}
