// The loop of generation without the host in it.
#include "model/feedback.h"

#include "model/forward.h"

#include <assert.h>

void feedback_begin(Feedback *f, Model *m, Sampler *sampler, size_t max_tokens) {
    assert(m->n_logit_rows == 1 && !m->listener && sampler_is_plain(sampler));
    int start = kv_cache_length(&m->cache, 0), room = m->options.context - start + 1;
    *f = (Feedback){.model = m, .sampler = sampler, .start = start};
    f->most = max_tokens < (size_t)room ? (int)max_tokens : room; // the last needs no place
    f->ahead = device_info(m->device)->pipeline_depth;
    forward_drawn_begin(m, 1);
}

int feedback_left(const Feedback *f) {
    return f->most - f->taken;
}

// The pass of the token before, unless there is none, then one token more from its logits.
static void draw_one(Feedback *f) {
    Model *m = f->model;
    if (f->drawn) forward_drawn(m, sampler_drawn(f->sampler), 1);
    sampler_draw(f->sampler, m->scratch.logits, f->drawn - f->taken);
    device_send(m->device, f->drawn % SEND_SLOTS, sampler_drawn(f->sampler));
    f->drawn++;
}

// No token could be drawn: the pass that gave these logits, once more and with all its checks, says
// why.
static bool find_cause(Feedback *f, Error *error) {
    Model *m = f->model;
    const Error *failure = device_error(m->device);
    if (failure->code) return error_set(error, failure->code, "%s", failure->message);
    feedback_end(f);
    if (f->taken && !model_forward(m, &(Batch){.n = 1, .tokens = &f->last}, error)) return false;
    return error_set(error, ERROR_NONFINITE, "a logit is NaN or +infinity");
}

int feedback_next(Feedback *f, Error *error) {
    assert(feedback_left(f) > 0 && f->ahead < SEND_SLOTS);
    while (f->drawn < f->most && f->drawn - f->taken <= f->ahead)
        draw_one(f);
    int32_t token = device_receive(f->model->device, f->taken % SEND_SLOTS);
    if (token < 0) {
        find_cause(f, error);
        return -1;
    }
    sampler_uniform(f->sampler); // that it was drawn with
    f->taken++;
    f->last = token;
    return token;
}

void feedback_end(Feedback *f) {
    int fed = f->taken > 1 ? f->taken - 1 : 0;
    kv_cache_truncate(&f->model->cache, 0, f->start + fed);
}
