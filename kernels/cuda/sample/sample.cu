// argmax, and the next token from the logits, as kernels.h defines it. Several blocks share a row:
// one block would take as long over a large vocabulary as a small model over its layers. The last
// block of a row to finish merges the results of all, and the next step starts from them:
//
//   argmax_kernel       the largest logit, which all weights are relative to
//   count_kernel        \ top_k and top_p: the key of the last token that
//   select_kernel       / is kept (cuts.cu); not launched without them
//   categorical_kernel  the token, by the weights of those that are kept (categorical.cu), or
//   sorted_kernel       the same with typical_p or xtc (typical.cu)
//
// Nothing is sorted but for these two. Every token has a 64-bit key, larger for those that come
// first in order. Weights are integers, so the order of adding them changes nothing: every
// backend returns the same token.
#include "kernels/cuda/sample/sample.h"

// ---- the largest ----

static constexpr unsigned long long NO_NUMBER = ~0ull; // a key above all others: some logit is NaN

struct ArgmaxMemory {
    unsigned long long parts[SAMPLE_WARPS];
    bool last; // of the blocks of a row
};

// Grid: shares of the row, rows. The last block of a row has the answer; +infinity is no
// answer, and neither is a NaN.
static __global__ void __launch_bounds__(SAMPLE_THREADS)
    argmax_kernel(int32_t *out, const float *logits, int vocab_size, SampleScratch scratch,
                  Sent sent) {
    ArgmaxMemory &m = block_memory<ArgmaxMemory>();
    wait_for_earlier_kernels();
    let_next_kernel_start();
    const float *row = logits + (size_t)blockIdx.y * vocab_size;
    unsigned long long key = 0;
    for (int t = (int)(blockIdx.x * SAMPLE_THREADS + threadIdx.x); t < vocab_size;
         t += (int)gridDim.x * SAMPLE_THREADS)
        key = larger(key, isnan(row[t]) ? NO_NUMBER : order_key(row[t], t));
    key = block_largest(m.parts, key);
    // Each block has written the largest key of its share; the last one to arrive merges them, one
    // per thread.
    if (gridDim.x > 1) {
        unsigned long long *keys = scratch.shares + (size_t)blockIdx.y * SAMPLE_BLOCKS;
        if (!threadIdx.x) keys[blockIdx.x] = key;
        if (!arrives_last(scratch.arrived + blockIdx.y, gridDim.x, m.last)) return;
        key = block_largest(m.parts, threadIdx.x < gridDim.x ? keys[threadIdx.x] : 0);
    }
    if (threadIdx.x) return;
    int best = key == NO_NUMBER ? -1 : id_of_key(key);
    if (best >= 0 && row[best] == INFINITY) best = -1;
    out[blockIdx.y] = best;
    if (!blockIdx.y) send_token(sent, best);
}

// ---- scratch: parts with the largest alignment first ----

static size_t room_for(const Device *device) {
    size_t room = 1; // typical_p sorts a power of two
    while (room < device->max_matrix_rows)
        room *= 2;
    return room;
}

// Where the parts of the scratch lie in `memory`; the bytes of all of them.
static size_t lay_out(SampleScratch *s, uint8_t *memory, size_t room) {
    size_t used = 0;
    auto take = [&](size_t bytes) {
        uint8_t *at = memory ? memory + used : NULL;
        used += bytes;
        return at;
    };
    s->room = room;
    s->candidates = (Candidate *)take(room * sizeof(Candidate));
    s->shares = (unsigned long long *)take(ARGMAX_ROWS * SAMPLE_BLOCKS * sizeof *s->shares);
    s->sums = (unsigned long long *)take(SAMPLE_ROWS * MEASURES * BUCKETS * sizeof *s->sums);
    s->cuts = (Cut *)take(SAMPLE_ROWS * sizeof(Cut));
    s->arrived = (unsigned *)take(ARGMAX_ROWS * sizeof(unsigned));
    return used;
}

size_t sample_bytes(const Device *device) {
    SampleScratch s;
    return lay_out(&s, NULL, room_for(device));
}

void sample_reserve(Device *device) {
    SampleScratch *s = (SampleScratch *)host_alloc(device, sizeof *s);
    uint8_t *memory = (uint8_t *)device_alloc(device, sample_bytes(device));
    if (!s || !memory) return;
    lay_out(s, memory, room_for(device));
    device->sampling = s;
}

// ---- the operations; they are not part of a recorded pass ----

// Blocks that share a row, with two logits or more per thread; without scratch one block.
static unsigned blocks_of_row(const Device *device, int vocab_size) {
    unsigned blocks = blocks_for((size_t)vocab_size, 2 * SAMPLE_THREADS);
    if (!device->sampling || !blocks) return 1;
    return blocks < (unsigned)SAMPLE_BLOCKS ? blocks : (unsigned)SAMPLE_BLOCKS;
}

// sent: of the first row, where this is the whole answer.
static void launch_argmax(Device *device, int32_t *out, const float *logits, int n, int vocab_size,
                          Sent sent) {
    SampleScratch scratch = {};
    if (device->sampling) scratch = *device->sampling;
    unsigned blocks = blocks_of_row(device, vocab_size);
    for (int i = 0, rows; i < n; i += rows) {
        rows = n - i < ARGMAX_ROWS ? n - i : ARGMAX_ROWS;
        LAUNCH_OVERLAPPED(device, argmax_kernel, dim3(blocks, (unsigned)rows), SAMPLE_THREADS,
                          out + i, logits + (size_t)i * vocab_size, vocab_size, scratch,
                          i ? Sent{} : sent);
    }
}

void sample(Device *device, int32_t *out, const float *logits, int n, int vocab_size,
            const SampleRule *rule, const float *uniform) {
    device_sync(device);
    if (!device_ok(device) || !n) return;
    if ((size_t)vocab_size > device->max_matrix_rows || !device->sampling) {
        device_fail(device, ERROR_DEVICE, "sample: room for %zu logits, got %d",
                    device->max_matrix_rows, vocab_size);
        return;
    }
    bool greedy = rule->temperature == 0.0f;
    Sent sent = sends_draw(device, out);
    launch_argmax(device, out, logits, n, vocab_size, greedy ? sent : Sent{});
    if (greedy) return;
    bool sorted =
        rule->typical_p < 1.0f || rule->xtc > 0.0f; // its candidates take several rows' room
    unsigned blocks = blocks_of_row(device, vocab_size);
    for (int i = 0, rows; i < n; i += rows) {
        rows = sorted ? 1 : n - i < SAMPLE_ROWS ? n - i : SAMPLE_ROWS;
        SampleWork work = {out + i,          logits + (size_t)i * vocab_size,
                           vocab_size,       *rule,
                           uniform + i,      *device->sampling,
                           i ? Sent{} : sent};
        find_cuts(device, &work, (unsigned)rows, blocks);
        if (sorted)
            sample_sorted(device, &work);
        else
            sample_categorical(device, &work, (unsigned)rows, blocks);
    }
}
