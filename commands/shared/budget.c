// The table of budgets, chosen by name or by what two traces say of themselves.
#include "commands/shared/budget.h"

#include "commands/shared/options.h"

#include <math.h>
#include <string.h>

// f32 is for two correct implementations that sum in another order: three times the differences
// between float32 and float64 on the reference models, which are 8.5e-6 in layers, 9e-5 in logits
// and 4.8e-5 in attention weights. The others are about three times the largest differences from
// f32 that were measured on real models with ordinary prose. docs/trace.md has the measurements,
// and a text that exceeds them. Each budget includes those before it. Columns: name, relative,
// logits, weights, as budget.h defines them; from narrow to wide.
static const Budget BUDGETS[] = {
    {"f32", 3e-5, 2.5e-4, 1e-4},
    {"a16", 1e-3, 1e-2, 1e-3},
    {"f16", 1e-2, 1e-2, 1e-2}, // a cache in f16
    {"a8", 3e-1, 3e-1, 3e-1},
};
enum { N_BUDGETS = sizeof BUDGETS / sizeof *BUDGETS, F32 = 0, F16 = 2, A8 = 3 };

// The row of a name, NULL allowed; -1: unknown.
static int find(const char *name) {
    for (int i = 0; i < N_BUDGETS; i++)
        if (name && !strcmp(BUDGETS[i].name, name)) return i;
    return -1;
}

bool budget_parse(Budget *budget, const char *text, Error *error) {
    int known = find(text);
    double number = 0;
    if (known >= 0)
        *budget = BUDGETS[known];
    else if (parse_number(&number, text) && number >= 0 && number <= 1e9)
        *budget = (Budget){text, number, 0, number};
    else
        return error_set(
            error, ERROR_USAGE,
            "--budget: got \"%.60s\", wanted f32, a16, f16, a8 or a share of the largest "
            "value such as 1e-4",
            text);
    return true;
}

const Budget *budget_of_runs(const char *const precisions[2], const char *const caches[2]) {
    // A cache counts like the budget with its name; bf16 keeps 8 significant bits, so it counts as
    // the widest.
    int widest = F32;
    for (int i = 0; i < 2; i++) {
        int own = find(precisions[i]);
        if (caches[i] && !strcmp(caches[i], "f16") && own < F16) own = F16;
        if (caches[i] && !strcmp(caches[i], "bf16")) own = A8;
        if (own > widest) widest = own;
    }
    return &BUDGETS[widest];
}

double budget_allows(const Budget *budget, const char *name, double largest) {
    // The last part of a module's name says what the tensor is: see docs/trace.md.
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    if (!strcmp(last, "attn_weights")) return budget->weights;
    bool logits = !strcmp(last, "lm_head") || !strcmp(last, "logits");
    // Attention weights multiply values, of which a few may be far larger than the sum.
    if (!strcmp(last, "heads")) return budget->weights * largest;
    double share = budget->relative * largest;
    return logits && budget->logits > share ? budget->logits : share;
}

double largest_magnitude(const float *values, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)values[i]));
    return largest;
}
