// One row of the table that `make fidelity` prints: how far this backend is off a reference.
//
//     fidelity REFERENCE.safetensors MODEL
//
// A JSON line: largest error of a logit, of a row of the residual stream (a share of its tensor's
// largest value), of an attention weight; greedy ids, and how many of them are the reference's.
// scripts/fidelity has the budgets.
#include "tests/support/reference_errors.h"

#include <stdio.h>

// JSON has no infinity; no error is that large.
static double bounded(double error) {
    return error <= 1e30 ? error : 1e30;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: fidelity REFERENCE.safetensors MODEL\n");
        return ERROR_USAGE;
    }
    ReferenceRun run;
    Error error = {0};
    if (!reference_open(&run, argv[1], argv[2], &error)) {
        fprintf(stderr, "fidelity: %s\n", error.message);
        return error.code;
    }
    if (reference_measure(&run, "p0", &error) && reference_measure(&run, "p1", &error))
        printf("{\"backend\":\"%s\",\"logits\":%.9g,\"rows\":%.9g,\"weights\":%.9g,\"greedy\":%d,"
               "\"greedy_equal\":%d}\n",
               device_info(run.model->device)->description, bounded(run.worst.logits),
               bounded(run.worst.rows), bounded(run.worst.weights), run.greedy, run.greedy_equal);
    else
        fprintf(stderr, "fidelity: %s\n", error.message);
    reference_close(&run);
    return error.code;
}
