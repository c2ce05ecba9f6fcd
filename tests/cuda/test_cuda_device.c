// Opening a GPU where there is none, or one that will not do: each cause in a line of its own, exit
// code 6, nothing left behind.
#include "kernels/kernels.h"
#include "tests/cuda/emulator.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/program.h"

enum { DRIVER = 13000, CAPABILITY = 90 }; // of the emulator

// What opening says on such a machine whose host call number `call` fails with `code`.
static void check_line(int driver, int gpus, int capability, long call, int code,
                       const char *wanted) {
    emulator_machine(driver, gpus, capability);
    emulator_fail_call(call, code);
    Device *device = device_open(1, PRECISION_A16);
    const Error *error = device_error(device);
    CHECK_INT(error->code, 6);
    CHECK_STRING(error->message, wanted);
    CHECK(!device_alloc(device, 64), "a device that is not there has memory");
    device_close(device);
    CHECK_INT(emulator_live_objects(), 0);
    emulator_fail_call(0, 0);
    emulator_machine(DRIVER, 1, CAPABILITY);
}

Test(cuda_device, no_driver) {
    check_line(0, 0, CAPABILITY, 0, 0,
               "no NVIDIA driver on this machine (libcuda.so.1 not found); make BACKEND=cpu builds "
               "for the CPU");
}

Test(cuda_device, a_driver_too_old_is_told_with_both_versions) {
    check_line(12080, 1, CAPABILITY, 0, 0,
               "the NVIDIA driver supports CUDA 12.8, this program needs 13.0");
    check_line(11040, 1, CAPABILITY, 0, 0,
               "the NVIDIA driver supports CUDA 11.4, this program needs 13.0");
}

Test(cuda_device, no_gpu) {
    static const char WANTED[] = "an NVIDIA driver, but no GPU to be seen (CUDA_VISIBLE_DEVICES?)";
    check_line(DRIVER, 0, CAPABILITY, 0, 0, WANTED);
    check_line(DRIVER, 1, CAPABILITY, 1, 100, WANTED);
}

Test(cuda_device, a_stub_in_place_of_the_driver) {
    check_line(DRIVER, 1, CAPABILITY, 1, 34,
               "libcuda.so.1 is the CUDA toolkit's stub, not a driver (LD_LIBRARY_PATH?)");
}

// The message cannot name the GPU: its name is not known yet.
Test(cuda_device, a_gpu_that_others_have_to_themselves) {
    check_line(DRIVER, 1, CAPABILITY, 1, 46,
               "GPU: cudaGetDeviceCount: an error made by a test (46 cudaErrorDevicesUnavailable)");
    check_line(DRIVER, 1, CAPABILITY, 2, 46,
               "GPU: cudaSetDevice: an error made by a test (46 cudaErrorDevicesUnavailable)");
}

Test(cuda_device, a_gpu_too_old) {
    check_line(DRIVER, 1, 75, 0, 0,
               "GPU: emulated is an sm_75, this program has code for sm_80 and later");
    for (int capability = 80; capability <= 121; capability++) {
        emulator_machine(DRIVER, 1, capability);
        Device *device = device_open(1, PRECISION_A16);
        CHECK_INT(device_error(device)->code, ERROR_NONE);
        device_close(device);
    }
    emulator_machine(DRIVER, 1, CAPABILITY);
}

// ---- the program, as a child ----

// What every command that runs a model says on a machine that the environment describes: one line
// with `because`.
static void check_program(const char *variable, const char *value, const char *because) {
    static const char *const LINES[] = {
        "%s|--prompt-ids|1,2|-n|4%s", "bench|%s|--pp|2|--tg|2|-r|1|--no-limits%s",
        "perplexity|%s|-f|README.md%s", "trace|%s|--prompt-ids|1,2|--out|%s"};
    char *model = strdup(test_temporary("tiny.gguf")), *out = strdup(test_temporary("out"));
    GgufFile *file = gguf_tiny_llama();
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    test_write_file(model, bytes, size);
    setenv(variable, value, 1);
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        TestRun run = program(LINES[i], model, i == 3 ? out : "");
        check_refused(&run, ERROR_DEVICE, because);
    }
    unsetenv(variable);
    free(bytes), free(model), free(out);
    gguf_file_free(file);
}

Test(cuda_device, the_program_says_it_in_one_line) {
    check_program("EMULATOR_MACHINE", "0 0 90", "no NVIDIA driver on this machine");
    check_program("EMULATOR_MACHINE", "12080 1 90",
                  "the NVIDIA driver supports CUDA 12.8, this program needs 13.0");
    check_program("EMULATOR_MACHINE", "13000 0 90", "an NVIDIA driver, but no GPU to be seen");
    check_program("EMULATOR_MACHINE", "13000 1 75", "emulated is an sm_75");
    check_program("EMULATOR_MACHINE", "13000 1 90 10000", "free");
}

Test(cuda_device, so_it_does_where_a_call_fails) {
    check_program("EMULATOR_FAIL", "1 34", "the CUDA toolkit's stub");
    check_program("EMULATOR_FAIL", "30 719", "(719 cudaErrorLaunchFailure)");
    check_program("EMULATOR_FAIL", "30 2", "out of memory (2 cudaErrorMemoryAllocation)");
}

// ---- failures of an open device ----

// The number of a call of an open device, which `operate` makes first.
static void check_operation(void (*operate)(Device *), int code, const char *wanted) {
    Device *device = device_open(1, PRECISION_A16);
    emulator_fail_call(0, 0);
    operate(device);
    long calls = emulator_calls();
    CHECK_INT(device_error(device)->code, ERROR_NONE);
    bool told = false;
    device_close(device);
    for (long i = 1; i <= calls && !told; i++) {
        device = device_open(1, PRECISION_A16);
        emulator_fail_call(i, code);
        operate(device);
        CHECK_INT(device_error(device)->code, 6);
        told = !strcmp(device_error(device)->message, wanted);
        device_close(device);
    }
    emulator_fail_call(0, 0);
    CHECK(told, "no call says \"%s\"", wanted);
    CHECK_INT(emulator_live_objects(), 0);
}

static void allocate(Device *device) {
    device_free(device, device_alloc(device, 12345));
}

static void add_floats(Device *device) {
    float *x = device_alloc(device, 3000 * sizeof *x);
    if (x) add(device, x, x, 3000);
    device_free(device, x);
}

Test(cuda_device, failures_name_the_device_and_the_sizes) {
    check_operation(allocate, 2,
                    "GPU: cudaMalloc of 12345 bytes on emulated: out of memory (2 "
                    "cudaErrorMemoryAllocation)");
    check_operation(allocate, 719,
                    "GPU: cudaStreamSynchronize on emulated: an error made by a test (719 "
                    "cudaErrorLaunchFailure)");
    check_operation(
        add_floats, 719,
        "GPU: add_kernel, grid (12, 1, 1) of 256 threads, on emulated: an error made by "
        "a test (719 cudaErrorLaunchFailure)");
}
