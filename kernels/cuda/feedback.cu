// Sampled tokens stay on the GPU as the input of the next pass. The host has them from words of its
// own pinned memory, into which the kernel that draws a token writes it:
//
//   word:   number of the draw (32 bits) | token (32 bits)
//
// A word is one store, so the host, which waits for the number, never sees half of it; and there is
// neither a copy nor an event between the kernels of two passes.
#include "kernels/cuda/device.h"

#include <string.h>

// A sampled token is -1 where no number could be drawn (kernels.h, sample). The pass that follows
// gets token 0 instead, which exists; the host still receives the -1.
static __global__ void advance_kernel(int32_t *tokens, int32_t *positions, const int32_t *sampled,
                                      int n) {
    int i = (int)(blockIdx.x * WARP + threadIdx.x);
    if (i >= n) return;
    wait_for_earlier_kernels();
    tokens[i] = sampled[i] > 0 ? sampled[i] : 0;
    positions[i]++;
}

// For a token that no kernel of ours has just drawn.
static __global__ void send_kernel(const int32_t *from, Sent sent) {
    wait_for_earlier_kernels();
    send_token(sent, *from);
}

// One word more than slots: that of the next draw, which has no slot yet.
bool sends_open(Device *device) {
    Sends *s = &device->sends;
    constexpr size_t bytes = (SEND_SLOTS + 1) * sizeof *s->words;
    if (!BYTES_CHECK(device, cudaMallocHost((void **)&s->words, bytes), bytes)) return false;
    memset(s->words, 0, bytes);
    for (int slot = 0; slot < SEND_SLOTS; slot++)
        s->slots[slot].word = s->words + slot;
    s->next.word = s->words + SEND_SLOTS;
    return true;
}

void sends_close(Device *device) {
    cudaFreeHost(device->sends.words);
}

Sent sends_draw(Device *device, const int32_t *out) {
    Sends *s = &device->sends;
    s->next.number++;
    s->drawn = out;
    return s->next;
}

void advance(Device *device, int32_t *tokens, int32_t *positions, const int32_t *sampled, int n) {
    device_sync(device);
    clock_begin(device);
    LAUNCH_OVERLAPPED(device, advance_kernel, blocks_for((size_t)n, WARP), WARP, tokens, positions,
                      sampled, n);
}

// The token is in the next word already where *from was drawn last. The slot takes that word and
// gives its own for the next draw. Kernels that still write to it come before that draw, and with
// another number.
void device_send(Device *device, int slot, const int32_t *from) {
    Sends *s = &device->sends;
    device_sync(device);
    clock_extend(device); // by what drew the number
    if (!device_ok(device)) return;
    if (s->drawn != from)
        LAUNCH_OVERLAPPED(device, send_kernel, 1, 1, from, sends_draw(device, from));
    Sent sent = s->next;
    s->next.word = s->slots[slot].word;
    s->slots[slot] = sent;
    s->drawn = NULL;
}

// False while the stream has work, and after a failure.
static bool stream_ended(Device *device) {
    cudaError_t status = cudaStreamQuery(device->stream);
    if (status != cudaErrorNotReady) return cuda_check(device, status, "cudaStreamQuery");
    (void)cudaGetLastError();
    return false;
}

// Waits for this token alone, not for the stream, in which later passes may already run. A look is
// a read of the processor's own cache; now and then the stream is asked whether it has failed.
int32_t device_receive(Device *device, int slot) {
    enum { LOOKS = 4096 }; // some ten microseconds
    const Sent *sent = &device->sends.slots[slot];
    for (bool ended = false; device_ok(device); ended = stream_ended(device)) {
        for (int i = 0; i < LOOKS; i++) {
            uint64_t word = __atomic_load_n(sent->word, __ATOMIC_ACQUIRE);
            if (word >> 32 == sent->number) return (int32_t)(uint32_t)word;
        }
        if (ended) device_fail(device, ERROR_DEVICE, "GPU: a sampled token has not arrived");
    }
    return -1;
}
