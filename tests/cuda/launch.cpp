// Launches of kernels and what the runtime knows of one before them.
#include "tests/cuda/emulator.h"

#include "tests/cuda/fibers.h"
#include "tests/ptx/interpreter.h"

#include <map>
#include <set>

namespace {

constexpr size_t PLAIN_MEMORY = 48 << 10; // of a launch without cudaFuncSetAttribute

long kernels;
std::set<const void *> loaded;                    // whose code the driver has loaded
std::map<const void *, size_t> most_memory_asked; // with cudaFuncSetAttribute

// Shared memory that a block can have: CUDA C++ Programming Guide, technical specifications per
// compute capability.
size_t most_block_memory() {
    switch (emulator::compute_capability()) {
    case 80:
    case 87: return 163 << 10;
    case 86:
    case 89:
    case 120:
    case 121: return 99 << 10;
    default: return emulator::MAX_BLOCK_MEMORY;
    }
}

bool sizes_are_possible(dim3 grid, dim3 size) {
    unsigned threads = size.x * size.y * size.z;
    return threads && threads <= emulator::MAX_THREADS && grid.x && grid.y && grid.z &&
           grid.y <= 65535 && grid.z <= 65535;
}

size_t most_launched_memory(const void *kernel) {
    auto asked = most_memory_asked.find(kernel);
    return asked == most_memory_asked.end() ? PLAIN_MEMORY : asked->second;
}

void take_attribute(emulator::Launch *launch, const cudaLaunchAttribute &attribute) {
    switch (attribute.id) {
    case cudaLaunchAttributeCooperative: launch->cooperative = attribute.val.cooperative; break;
    case cudaLaunchAttributeProgrammaticStreamSerialization:
        launch->overlaps = attribute.val.programmaticStreamSerializationAllowed;
        break;
    }
}

} // namespace

extern "C" long emulator_kernels(void) {
    emulator::finish();
    return kernels;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *kernel) {
    cudaError_t error;
    if (emulator::call_fails(&error)) return error;
    loaded.insert(kernel);
    attributes->ptxVersion = emulator::compute_capability();
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int value) {
    cudaError_t error;
    if (emulator::call_fails(&error)) return error;
    if (value < 0 || (size_t)value > most_block_memory()) return cudaErrorInvalidValue;
    most_memory_asked[kernel] = (size_t)value;
    return cudaSuccess;
}

cudaError_t emulator::launch(const cudaLaunchConfig_t *config, std::function<void()> body,
                             const void *kernel, const std::vector<std::string> &arguments) {
    cudaError_t error;
    if (call_fails(&error)) return error;
    Launch launch = {config->gridDim, config->blockDim, config->dynamicSmemBytes, false, false};
    for (unsigned i = 0; i < config->numAttrs; i++)
        take_attribute(&launch, config->attrs[i]);
    dim3 grid = launch.grid, size = launch.size;
    if (!sizes_are_possible(grid, size) || launch.memory > most_launched_memory(kernel))
        return cudaErrorInvalidValue;
    if (launch.cooperative && (uint64_t)grid.x * grid.y * grid.z > processors())
        return cudaErrorCooperativeLaunchTooLarge;
    bool is_new = loaded.insert(kernel).second;
    if (is_new && is_capturing(config->stream)) return cudaErrorStreamCaptureUnsupported;
    run_in(config->stream, [=] {
        kernels++;
        if (ptx::enabled())
            ptx::launch(kernel, arguments,
                        {{grid.x, grid.y, grid.z},
                         {size.x, size.y, size.z},
                         launch.memory,
                         launch.cooperative});
        else
            run_grid(launch, body);
    });
    return cudaSuccess;
}
