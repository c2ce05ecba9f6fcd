// limpid_listen: an Intervention of model/ at the stages that the caller has named, which hands
// them on in the public form. A listener that only watches is one that changes nothing.
#include "library/handles.h"

#include <string.h>

static bool hand_on(void *context, const Model *run, Stage *stage) {
    limpid_context *c = context;
    limpid_stage seen = {.name = stage_name(stage->id),
                         .layer = stage->layer,
                         .n = stage->rows.n,
                         .tokens = stage->rows.tokens,
                         .positions = stage->rows.positions,
                         .sequences = stage->rows.sequences,
                         .data = stage->data};
    memcpy(seen.shape, stage->shape, sizeof seen.shape);
    // What it has changed is a copy, which is dropped where the model has no norm of its own.
    return c->listener(c->user, &seen) && !stage_is_residual(run, stage);
}

// The bit of the stage with that name; 0: none has it.
static uint32_t stage_bit(const char *name, size_t length) {
    for (int id = 0; id < STAGE_COUNT; id++)
        if (strlen(stage_name((StageId)id)) == length &&
            !memcmp(stage_name((StageId)id), name, length))
            return 1u << id;
    return 0;
}

// Words with spaces between them. NULL: every stage but the attention weights, which take memory
// that grows with the context. False: exit code 2.
static bool parse_stages(uint32_t *bits, const char *names, Error *error) {
    *bits = names ? 0 : ((1u << STAGE_COUNT) - 1) & ~(1u << STAGE_ATT_WEIGHTS);
    for (const char *at = names; at && *at;) {
        size_t length = strcspn(at, " ");
        uint32_t bit = stage_bit(at, length);
        if (!bit && length)
            return error_set(error, ERROR_USAGE, "no stage is called \"%.*s\"",
                             length < 60 ? (int)length : 60, at);
        *bits |= bit;
        at += length;
        at += strspn(at, " ");
    }
    return true;
}

bool limpid_listen(limpid_context *c, const char *stages, limpid_listener *listener, void *user,
                   limpid_error *error) {
    Error cause = {0};
    uint32_t bits = 0;
    bool valid = context_given(c, &cause) && parse_stages(&bits, stages, &cause);
    if (!library_result(error, valid, &cause)) return false;
    bool wants_weights = listener && bits >> STAGE_ATT_WEIGHTS & 1;
    c->listener = listener;
    c->user = user;
    bool good = model_intervene(c->run, NULL, NULL, 0, &cause) &&
                model_listen(c->run, NULL, NULL, wants_weights, &cause) &&
                (!listener || model_intervene(c->run, hand_on, c, bits, &cause));
    return library_result(error, good, &cause);
}
