// The parts of the PTX interpreter and what they share. A kernel's text becomes instructions once
// (text.cpp, opcodes.cpp); a warp executes one instruction after another for all of its lanes
// (warp.cpp). A lane is a thread of a warp.
#pragma once

#include "tests/ptx/copy_barriers.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

constexpr unsigned LANES = 32;
constexpr uint32_t ALL = 0xffffffffu;

// ---- a kernel as it is executed ----

// A register of the warp: 32 values of 2, 4 or 8 bytes beside each other; of a predicate one word,
// a bit for each lane. A constant is laid out like a register.
struct Operand {
    enum Kind : uint8_t { NONE, REGISTER, CONSTANT } kind;
    uint8_t width;   // bytes of a lane; 0: predicate
    uint32_t at;     // where, in bytes, in the warp's registers or the kernel's constants
    uint32_t number; // of the register: the word of Warp::defined
};

struct Warp;
struct Instruction;
// Executes the instruction for the lanes whose bits are in `lanes`.
typedef void Handler(Warp &warp, const Instruction &instruction, uint32_t lanes);

enum class Control : uint8_t {
    NONE,
    BRANCH,
    EXIT,
    BARRIER,    // of the block
    POLL,       // what a loop asks that waits: the warp makes room for others
    COLLECTIVE, // lanes of the warp that must be here together
};
enum class Space : uint8_t { GENERIC, GLOBAL, SHARED, LOCAL, PARAMETER };

struct Instruction {
    Handler *run;
    std::vector<Operand> results, sources;
    Operand guard; // NONE: it is always executed
    bool guard_negated;
    bool copies; // undefined values too: their first use in a computation is the error
    Control control;
    Operand members;     // COLLECTIVE: mask of the lanes; NONE: all 32
    uint32_t target;     // of a branch
    int64_t offset;      // added to the address in sources[0]
    int64_t offset_from; // and of a copy to the one in sources[1]
    Space space;
    uint8_t variant;  // what distinguishes instructions with the same handler
    uint8_t elements; // of a vector
    uint32_t line;    // in the PTX
    uint32_t source_file, source_line;
    std::string text;
    mutable bool executed;
    mutable uint64_t block_begin, block_end; // memory that was last accessed
};

struct Parameter {
    size_t at, bytes;
};

struct Module {
    std::string path, text;
    std::map<unsigned, std::string> files;           // .file
    std::map<std::string, std::pair<size_t, size_t>> // .shared: bytes, alignment
        shared;
    std::map<std::string, size_t> launched; // .extern .shared: alignment
};

struct Kernel {
    std::string name;
    std::shared_ptr<const Module> module;
    size_t header, body, end; // offsets in the module's text
    uint32_t header_line, body_line;
    bool parsed;

    std::vector<Instruction> code;
    std::vector<Parameter> parameters;
    std::map<std::string, Operand> registers;
    std::map<std::string, size_t> parameter_at, shared_at, local_at;
    std::vector<std::pair<std::string, Operand>> special; // %tid.x and the like
    std::vector<uint8_t> parameter_bytes, constants;
    std::map<std::pair<unsigned, uint64_t>, Operand> known_constants; // by width and bits
    size_t register_bytes, register_count, shared_bytes, local_bytes;
    bool uses_launched; // shared memory whose size the launch says, from shared_bytes on
};

// The kernels in all files *.ptx of the directory and the folders in it, by name.
typedef std::map<std::string, Kernel> Kernels;
void read_directory(const char *directory, Kernels &kernels);
void read_module(const std::string &path, std::string text, Kernels &kernels);

// Fills kernel.code and what it needs.
void parse(Kernel &kernel);

// One statement, split: the decoder makes an instruction of it (opcodes.cpp).
struct Statement {
    std::string opcode;
    std::vector<std::string> operands;
};
void decode(Kernel &kernel, Instruction &instruction, const Statement &statement);

// What decoders use. Aborts, with the instruction's text, where the operand cannot be understood.
enum { PREDICATE = 0 };
Operand operand(Kernel &kernel, const Instruction &at, const std::string &text, unsigned width);
// {%r1, %r2}: its parts; anything else: itself.
std::vector<std::string> parts(const std::string &text);
// [%rd1+8]: fills offset and appends the address to the sources.
void address(Kernel &kernel, Instruction &instruction, const std::string &text);
[[noreturn]] void reject(const Kernel &kernel, const Instruction &at, const std::string &why);

// Each looks at its family of opcodes: false where it knows none of that name.
bool decode_arithmetic(Kernel &, Instruction &, const Statement &);
bool decode_convert(Kernel &, Instruction &, const Statement &);
bool decode_memory(Kernel &, Instruction &, const Statement &);
bool decode_bulk(Kernel &, Instruction &, const Statement &);
bool decode_collective(Kernel &, Instruction &, const Statement &);

// ---- execution ----

struct Place {
    unsigned x, y, z;
};

struct Block {
    Place at, size, grid;
    uint8_t *shared;
    size_t shared_bytes;
    CopyBarriers bulk_copies;
};

// Lanes that stand at the same instruction.
struct Group {
    uint32_t pc, lanes;
    bool waits; // for lanes of another group
};

// A copy to shared memory that has been asked for and not yet waited for.
struct Copy {
    unsigned lane, group;
    uint8_t *to;
    const uint8_t *from;
    unsigned bytes, zeros;
};

struct Warp {
    const Kernel *kernel;
    Block *block;
    unsigned number;           // in the block
    uint8_t *registers;        // kernel->register_bytes
    uint32_t *defined;         // of each register the lanes that have set it
    uint8_t *local;            // (32, kernel->local_bytes)
    uint32_t live;             // lanes that have not returned
    uint32_t pc, lanes;        // the group that runs
    std::vector<Group> others; // the groups that do not
    bool at_barrier;
    uint32_t polled_at; // pc behind the last poll that made room for others
    std::vector<Copy> copies;
    unsigned copy_groups[LANES]; // committed by each lane
};

// Prints the kernel, the lines, the thread and the message, and aborts.
[[noreturn]] void fail(const Warp &warp, const Instruction &at, unsigned lane, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));

// Memory that a kernel may access; false: there is none at that address.
typedef bool Memory(uint64_t address, uint64_t *begin, uint64_t *end);
extern Memory *memory_at;

struct Launch {
    Place grid, size;
    size_t memory;    // bytes of shared memory that the launch gives each block
    bool cooperative; // all blocks run, a warp of each after another; or one block after another
};
// The parameters' bytes are in the kernel.
void run_grid(Kernel &kernel, const Launch &launch);

// The host's memory behind an access of one lane to so many bytes: fails where there is none.
uint8_t *locate(const Warp &warp, const Instruction &at, unsigned lane, uint64_t address,
                size_t bytes);

// ---- in place of the emulator's own way to run a kernel (launch.cpp) ----

// LIMPID_PTX names a directory of PTX. LIMPID_PTX_SEEN: another, where every process leaves a file:
// a line for each kernel with the number of its instructions and of those that were executed.
bool enabled();
// The kernel whose host function that is, called with those arguments, byte for byte.
void launch(const void *function, const std::vector<std::string> &arguments, const Launch &launch);

// ---- registers ----

template <class T> T *values(const Warp &w, const Operand &o) {
    const uint8_t *base = o.kind == Operand::CONSTANT ? w.kernel->constants.data() : w.registers;
    return (T *)(base + o.at);
}

// Calls what(lane) for each lane; a loop without branches where all take part.
template <class What> inline __attribute__((always_inline)) void each(uint32_t lanes, What what) {
    if (lanes == ALL) {
        for (unsigned l = 0; l < LANES; l++)
            what(l);
    } else {
        for (unsigned l = 0; l < LANES; l++)
            if (lanes >> l & 1) what(l);
    }
}

// One lane of a register of any width, zero-extended.
inline uint64_t lane_bits(const Warp &w, const Operand &o, unsigned lane) {
    if (o.width == 8) return values<uint64_t>(w, o)[lane];
    return o.width == 4 ? values<uint32_t>(w, o)[lane] : values<uint16_t>(w, o)[lane];
}
inline void set_lane(const Warp &w, const Operand &o, unsigned lane, uint64_t bits) {
    if (o.width == 8)
        values<uint64_t>(w, o)[lane] = bits;
    else if (o.width == 4)
        values<uint32_t>(w, o)[lane] = (uint32_t)bits;
    else
        values<uint16_t>(w, o)[lane] = (uint16_t)bits;
}

} // namespace ptx
