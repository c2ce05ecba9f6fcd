// From a launch of the emulated CUDA runtime to the kernel in nvcc's PTX: both compilers mangle
// names alike, so the host function's name, which the program's own symbol table has, is the
// kernel's.
#include "tests/ptx/interpreter.h"
#include "tests/ptx/ptx.h"

#include "tests/cuda/cuda_runtime.h"

#include <cstdio>
#include <cstdlib>
#include <elf.h>
#include <fstream>
#include <link.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace ptx {

namespace {

Kernels kernels;
std::map<const void *, Kernel *> by_function;

// ---- names ----

int first_base(struct dl_phdr_info *info, size_t, void *to) { // of the program itself
    *(uint64_t *)to = info->dlpi_addr;
    return 1;
}

// Of static functions in this program: address and name.
void read_symbols(std::multimap<uint64_t, std::string> &names) {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    const std::string elf = bytes.str();
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)elf.data();
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(elf.data() + header->e_shoff);
    uint64_t base = 0;
    dl_iterate_phdr(first_base, &base);
    for (int s = 0; s < header->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB) continue;
        const Elf64_Sym *symbols = (const Elf64_Sym *)(elf.data() + sections[s].sh_offset);
        const char *text = elf.data() + sections[sections[s].sh_link].sh_offset;
        for (size_t k = 0; k < sections[s].sh_size / sizeof *symbols; k++)
            if (ELF64_ST_TYPE(symbols[k].st_info) == STT_FUNC)
                names.insert({base + symbols[k].st_value, text + symbols[k].st_name});
    }
}

// nvcc leaves out the L of a static function.
std::string kernel_name(const std::string &symbol) {
    return symbol.compare(0, 3, "_ZL") ? symbol : "_Z" + symbol.substr(3);
}

Kernel *kernel_of(const void *function) {
    static std::multimap<uint64_t, std::string> names;
    auto known = by_function.find(function);
    if (known != by_function.end()) return known->second;
    if (names.empty()) read_symbols(names);
    auto range = names.equal_range((uint64_t)(uintptr_t)function);
    for (auto at = range.first; at != range.second; ++at) {
        auto kernel = kernels.find(kernel_name(at->second));
        if (kernel != kernels.end()) return by_function[function] = &kernel->second;
    }
    fprintf(stderr, "ptx: no PTX for the kernel %s\n",
            range.first == range.second ? "without a symbol" : range.first->second.c_str());
    abort();
}

// ---- what was executed ----

void write_seen() {
    const char *directory = getenv("LIMPID_PTX_SEEN");
    if (!directory || by_function.empty()) return;
    std::ofstream file(std::string(directory) + "/" + std::to_string(getpid()));
    for (const auto &[function, kernel] : by_function) {
        size_t executed = 0;
        for (const Instruction &i : kernel->code)
            executed += i.executed;
        file << kernel->name << ' ' << kernel->code.size() << ' ' << executed << '\n';
    }
}

void set_parameter(Kernel &kernel, size_t k, const void *bytes, size_t size) {
    if (kernel.parameters[k].bytes != size) {
        fprintf(stderr, "ptx: kernel %s: parameter %zu has %zu bytes here, %zu in PTX\n",
                kernel.name.c_str(), k, size, kernel.parameters[k].bytes);
        abort();
    }
    memcpy(kernel.parameter_bytes.data() + kernel.parameters[k].at, bytes, size);
}

void check_count(const Kernel &kernel, size_t count) {
    if (kernel.parameters.size() == count) return;
    fprintf(stderr, "ptx: kernel %s: %zu arguments here, %zu parameters in PTX\n",
            kernel.name.c_str(), count, kernel.parameters.size());
    abort();
}

} // namespace

bool enabled() {
    static const char *directory = getenv("LIMPID_PTX");
    return directory;
}

void launch(const void *function, const std::vector<std::string> &arguments, const Launch &launch) {
    if (kernels.empty()) {
        read_directory(getenv("LIMPID_PTX"), kernels);
        atexit(write_seen);
    }
    Kernel &kernel = *kernel_of(function);
    parse(kernel);
    check_count(kernel, arguments.size());
    for (size_t k = 0; k < arguments.size(); k++)
        set_parameter(kernel, k, arguments[k].data(), arguments[k].size());
    memory_at = emulator::memory_at;
    run_grid(kernel, launch);
}

// ---- for tests ----

namespace {

const PtxBuffer *test_buffers;
unsigned n_test_buffers;

bool test_memory(uint64_t address, uint64_t *begin, uint64_t *end) {
    for (unsigned k = 0; k < n_test_buffers; k++) {
        *begin = (uint64_t)(uintptr_t)test_buffers[k].data;
        *end = *begin + test_buffers[k].bytes;
        if (address >= *begin && address < *end) return true;
    }
    return false;
}

} // namespace

extern "C" void ptx_launch(const char *text, const char *name, PtxLaunch launch,
                           const PtxBuffer *buffers, unsigned count) {
    Kernels here;
    read_module("test.ptx", text, here);
    auto found = here.find(name);
    if (found == here.end()) abort();
    parse(found->second);
    check_count(found->second, count);
    for (unsigned k = 0; k < count; k++)
        set_parameter(found->second, k, &buffers[k].data, sizeof buffers[k].data);
    test_buffers = buffers, n_test_buffers = count;
    memory_at = test_memory;
    run_grid(found->second,
             {{launch.blocks, 1, 1}, {launch.threads, 1, 1}, launch.memory, launch.cooperative});
}

extern "C" const char *ptx_complaint(const char *text, const char *name, PtxLaunch launch,
                                     const PtxBuffer *buffers, unsigned count) {
    static char said[2000];
    int ends[2];
    fflush(nullptr);
    pid_t child = pipe(ends) ? -1 : fork();
    if (child < 0) abort();
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        ptx_launch(text, name, launch, buffers, count);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0;)
        n += (size_t)got;
    said[n] = '\0';
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (!status != !n)
        snprintf(said, sizeof said, "it ends with status %d and says nothing", status);
    return said;
}

} // namespace ptx
