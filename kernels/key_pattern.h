// KeyPattern: which keys a query attends to. kernels.h includes this file; its definition is
// key_visible. A kernel walks the runs of visible keys, and neither computes nor reads the others:
//
//     KeyPattern sparse = {.n_parts = 2, .parts = {{PATTERN_LOCAL, 64}, {PATTERN_GLOBAL, 4}}};
//     KeyReach reach = key_reach(&sparse, 2000);
//     for (KeyRun run = key_run(&reach, 0); run.first < run.end; run = key_run(&reach, run.end))
//         ... the keys run.first .. run.end - 1: 0 .. 3, then 1968 .. 2000 ...
#pragma once

#include <stdbool.h>

// nvcc must be told which functions a GPU runs too: cuda/ defines this before it includes
// kernels.h.
#ifndef DEVICE_FUNCTION
#define DEVICE_FUNCTION
#endif

// The keys t that a part of a pattern shows to the query at position p. Every part shows t = p, so
// that no query is without keys. Child et al. 2019, arXiv 1904.10509; Beltagy et al. 2020, arXiv
// 2004.05150.
typedef enum PatternKind {
    PATTERN_WINDOW,  // |p - t| < a
    PATTERN_LOCAL,   // |p - t| <= a / 2
    PATTERN_STRIDED, // t = p or t % a = 0
    PATTERN_GLOBAL,  // t < a, or p < a, or t = p
    PATTERN_BLOCK,   // |t / a - p / a| <= 1: its own block of a keys and those beside it
} PatternKind;

typedef struct PatternPart {
    PatternKind kind;
    int a; // >= 1
} PatternPart;

enum { PATTERN_MAX_PARTS = 4 };

// The query at position p sees the keys t <= p with p - t < window (0: all of them) that some part
// shows (no parts: all of them). Zeroed it is the causal mask. Models have windows; parts are for
// experiments with sparse attention.
typedef struct KeyPattern {
    int window, n_parts;
    PatternPart parts[PATTERN_MAX_PARTS]; // zeroed from n_parts on
} KeyPattern;

DEVICE_FUNCTION static inline bool part_shows(PatternPart part, int p, int t) {
    int a = part.a, distance = p < t ? t - p : p - t;
    switch (part.kind) {
    case PATTERN_WINDOW: return distance < a;
    case PATTERN_LOCAL: return distance <= a / 2;
    case PATTERN_STRIDED: return t == p || t % a == 0;
    case PATTERN_GLOBAL: return t < a || p < a || t == p;
    case PATTERN_BLOCK: return t / a - p / a <= 1 && p / a - t / a <= 1;
    }
    return false;
}

// The pattern without its causal cut: keys after the query too.
DEVICE_FUNCTION static inline bool pattern_shows(const KeyPattern *pattern, int p, int t) {
    int distance = p < t ? t - p : p - t;
    if (pattern->window && distance >= pattern->window) return false;
    bool shows = !pattern->n_parts;
    for (int i = 0; i < pattern->n_parts; i++)
        shows |= part_shows(pattern->parts[i], p, t);
    return shows;
}

DEVICE_FUNCTION static inline bool key_visible(const KeyPattern *pattern, int p, int t) {
    return t <= p && pattern_shows(pattern, p, t);
}

// ---- runs ----

// What one query sees, whatever the parts:
//
//     0 .. low-1   low .. prefix-1   prefix .. suffix-1          suffix .. last
//     nothing      all               multiples of some stride    all
typedef struct KeyReach {
    int low, prefix, suffix, last; // prefix may be below low
    int n_strides, strides[PATTERN_MAX_PARTS];
} KeyReach;

DEVICE_FUNCTION static inline KeyReach key_reach(const KeyPattern *pattern, int p) {
    KeyReach r = {0, 0, p, p, 0, {0}};
    if (pattern->window && p >= pattern->window) r.low = p - pattern->window + 1;
    if (!pattern->n_parts) r.suffix = r.low;
    for (int i = 0; i < pattern->n_parts; i++) {
        int a = pattern->parts[i].a, from = p;
        switch (pattern->parts[i].kind) {
        case PATTERN_WINDOW: from = p - a + 1; break;
        case PATTERN_LOCAL: from = p - a / 2; break;
        case PATTERN_BLOCK: from = (p / a - 1) * a; break;
        case PATTERN_STRIDED:
            if (a == 1) from = 0;
            r.strides[r.n_strides++] = a;
            break;
        case PATTERN_GLOBAL:
            if (p < a) from = 0;
            if (r.prefix < a) r.prefix = a;
            break;
        }
        if (from < r.suffix) r.suffix = from;
    }
    if (r.suffix < r.low || r.suffix <= r.prefix) r.suffix = r.low;
    return r;
}

// Keys first .. end - 1; empty where first = end.
typedef struct KeyRun {
    int first, end;
} KeyRun;

// The first multiple of a stride from `t` on, but at most the suffix.
DEVICE_FUNCTION static inline int next_multiple(const KeyReach *r, int t) {
    int next = r->suffix;
    for (int i = 0; i < r->n_strides; i++) {
        int multiple = (t + r->strides[i] - 1) / r->strides[i] * r->strides[i];
        if (multiple < next) next = multiple;
    }
    return next;
}

// The first run of visible keys from `from` on, as long as possible; empty, at last + 1, where
// there is none.
DEVICE_FUNCTION static inline KeyRun key_run(const KeyReach *r, int from) {
    KeyRun run = {from > r->low ? from : r->low, r->last + 1};
    if (run.first > r->last) run.first = run.end;
    if (run.first >= r->suffix) return run;
    if (run.first >= r->prefix) run.first = next_multiple(r, run.first);
    if (run.first == r->suffix) return run;
    int end = run.first < r->prefix ? r->prefix : run.first + 1;
    while (end < r->suffix && next_multiple(r, end) == end)
        end++;
    if (end < r->suffix) run.end = end;
    return run;
}
