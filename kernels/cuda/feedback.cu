// Sampled tokens stay on the GPU as the input of the next pass. The host reads them later, from
// pinned memory with an event for each slot.
#include "kernels/cuda/device.h"

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

// Pinned memory: from other memory a copy would make the host wait. Events without a time are
// cheaper.
bool sends_open(Device *device) {
    for (cudaEvent_t &arrived : device->arrived)
        if (!CUDA_CHECK(device, cudaEventCreateWithFlags(&arrived, cudaEventDisableTiming)))
            return false;
    constexpr size_t bytes = SEND_SLOTS * sizeof *device->sent;
    return BYTES_CHECK(device, cudaMallocHost((void **)&device->sent, bytes), bytes);
}

void sends_close(Device *device) {
    for (cudaEvent_t arrived : device->arrived)
        if (arrived) cudaEventDestroy(arrived);
    cudaFreeHost(device->sent);
}

void advance(Device *device, int32_t *tokens, int32_t *positions, const int32_t *sampled, int n) {
    device_sync(device);
    clock_begin(device);
    LAUNCH_OVERLAPPED(device, advance_kernel, blocks_for((size_t)n, WARP), WARP, tokens, positions,
                      sampled, n);
}

// The copy and its event go behind what is in the stream; the host goes on at once and asks for the
// number later, after it has launched further passes.
void device_send(Device *device, int slot, const int32_t *from) {
    device_sync(device);
    clock_extend(device); // by what drew the number
    if (!device_ok(device)) return;
    CUDA_CHECK(device, cudaMemcpyAsync(device->sent + slot, from, sizeof *from,
                                       cudaMemcpyDeviceToHost, device->stream)) &&
        CUDA_CHECK(device, cudaEventRecord(device->arrived[slot], device->stream));
}

// Waits for this slot alone, not for the stream, in which later passes may already run.
int32_t device_receive(Device *device, int slot) {
    if (!device_ok(device) || !CUDA_CHECK(device, cudaEventSynchronize(device->arrived[slot])))
        return -1;
    return device->sent[slot];
}
