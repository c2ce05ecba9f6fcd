// What diff says: a table of tensors and one sentence, or one JSON object.
#pragma once

#include "commands/trace/comparison.h"

typedef struct DiffReport {
    const TraceDiff *diff;
    const Budget *budget;
    const char *path_a, *path_b;
    bool all; // every tensor, not those around the answer
} DiffReport;

void diff_report_print(const DiffReport *report);
void diff_report_json(const DiffReport *report);

// The tokens of the two differ from `position` on, so nothing was compared.
void diff_report_tokens(const DiffReport *report, uint64_t position, bool json);
