// The lanes of a warp run in lockstep. Where a branch divides them, the group at the lowest address
// runs and the others wait, so that they meet again where their ways join; at the latest at an
// instruction that needs them all. Barriers stop whole warps. Blocks run one after another, but for
// those of a cooperative launch: a warp that finds it has to wait makes room for all others.
#include "tests/ptx/interpreter.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace ptx {

void fail(const Warp &w, const Instruction &i, unsigned lane, const char *format, ...) {
    char message[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    unsigned thread = w.number * LANES + lane;
    const Place &size = w.block->size, &at = w.block->at;
    auto file = w.kernel->module->files.find(i.source_file);
    fprintf(
        stderr,
        "ptx: kernel %s, thread (%u,%u,%u) of block (%u,%u,%u): %s\n  %s:%u: %s\n  from %s:%u\n",
        w.kernel->name.c_str(), thread % size.x, thread / size.x % size.y, thread / size.x / size.y,
        at.x, at.y, at.z, message, w.kernel->module->path.c_str(), i.line, i.text.c_str(),
        file == w.kernel->module->files.end() ? "no file" : file->second.c_str(), i.source_line);
    fflush(stderr);
    abort();
}

namespace {

constexpr uint32_t NOWHERE = 0xffffffffu;
constexpr unsigned MOST_IDLE = 10000; // rounds over warps that all poll

unsigned first_lane(uint32_t lanes) {
    return (unsigned)__builtin_ctz(lanes);
}

// ---- groups of lanes ----

// Joins the groups at this instruction; then the lowest that can run is the one that does.
void meet(Warp &w) {
    for (size_t k = 0; k < w.others.size();) {
        if (w.others[k].pc != w.pc) {
            k++;
            continue;
        }
        w.lanes |= w.others[k].lanes;
        w.others[k] = w.others.back();
        w.others.pop_back();
    }
    Group *lowest = nullptr;
    for (Group &g : w.others)
        if (!g.waits && g.pc < w.pc && (!lowest || g.pc < lowest->pc)) lowest = &g;
    if (!lowest) return;
    Group mine = {w.pc, w.lanes, false};
    w.pc = lowest->pc, w.lanes = lowest->lanes;
    *lowest = mine;
}

// The running group has ended, or waits: another one. false: there is none, or none that can run.
bool run_another(Warp &w) {
    Group *lowest = nullptr;
    for (Group &g : w.others)
        if (!g.waits && (!lowest || g.pc < lowest->pc)) lowest = &g;
    w.lanes = 0;
    if (!lowest) return false;
    w.pc = lowest->pc, w.lanes = lowest->lanes;
    *lowest = w.others.back();
    w.others.pop_back();
    return true;
}

// The lanes that wait are in `others`; none of them will ever be joined.
[[noreturn]] void fail_waiting(const Warp &w) {
    for (const Group &o : w.others)
        fprintf(stderr, "  lanes %08x wait at line %u of the PTX\n", o.lanes,
                w.kernel->code[o.pc].line);
    const Group &g = w.others[0];
    fail(w, w.kernel->code[g.pc], first_lane(g.lanes), "waits for lanes that never come");
}

void wait_for_others(Warp &w) {
    w.others.push_back({w.pc, w.lanes, true});
    if (!run_another(w)) fail_waiting(w);
}

// ---- undefined values ----

void check_defined(const Warp &w, const Instruction &i, const Operand &o, uint32_t lanes) {
    if (o.kind != Operand::REGISTER) return;
    uint32_t undefined = lanes & ~w.defined[o.number];
    if (undefined) fail(w, i, first_lane(undefined), "a register is read that was never set");
}

uint32_t defined_lanes(const Warp &w, const Operand &o) {
    return o.kind == Operand::REGISTER ? w.defined[o.number] : ALL;
}

// A move, or a selection by sources[2].
uint32_t defined_copies(const Warp &w, const Instruction &i, uint32_t lanes) {
    uint32_t defined = defined_lanes(w, i.sources[0]);
    if (i.sources.size() == 3) {
        check_defined(w, i, i.sources[2], lanes);
        uint32_t first = *values<uint32_t>(w, i.sources[2]);
        return (first & defined) | (~first & defined_lanes(w, i.sources[1]));
    }
    for (const Operand &o : i.sources) // parts of a word
        defined &= defined_lanes(w, o);
    return defined;
}

// Which lanes of the results are set afterwards.
uint32_t check_sources(const Warp &w, const Instruction &i, uint32_t lanes) {
    if (i.copies) return defined_copies(w, i, lanes);
    for (const Operand &o : i.sources)
        check_defined(w, i, o, lanes);
    return ALL;
}

void execute(Warp &w, const Instruction &i, uint32_t lanes) {
    uint32_t defined = check_sources(w, i, lanes);
    i.run(w, i, lanes);
    for (const Operand &o : i.results)
        if (o.kind == Operand::REGISTER)
            w.defined[o.number] = (w.defined[o.number] & ~lanes) | (defined & lanes);
}

// ---- control ----

void branch(Warp &w, const Instruction &i, uint32_t taken) {
    if (taken == w.lanes) {
        w.pc = i.target;
        return;
    }
    if (taken) {
        w.others.push_back({i.target, taken, false});
        w.lanes &= ~taken;
    }
    w.pc++;
}

void leave(Warp &w, uint32_t lanes) {
    w.live &= ~lanes;
    w.lanes &= ~lanes;
    w.pc++;
    if (!w.lanes && !run_another(w) && !w.others.empty()) fail_waiting(w);
}

// false: the group waits, another one runs.
bool collective(Warp &w, const Instruction &i, uint32_t lanes) {
    uint32_t members = ALL;
    if (i.members.kind != Operand::NONE) {
        check_defined(w, i, i.members, lanes);
        unsigned first = first_lane(lanes);
        members = values<uint32_t>(w, i.members)[first];
        each(lanes, [&](unsigned l) {
            if (values<uint32_t>(w, i.members)[l] != members) fail(w, i, l, "another mask");
            if (!(members >> l & 1)) fail(w, i, l, "the mask 0x%x leaves it out", members);
        });
    }
    if (members & ~w.live) fail(w, i, first_lane(lanes), "a lane of 0x%x has returned", members);
    if (members & ~lanes) {
        wait_for_others(w);
        return false;
    }
    execute(w, i, lanes);
    return true;
}

// Whether the loop around it may have to go round again.
bool has_to_wait(const Warp &w, const Instruction &i, uint32_t lanes) {
    if (!lanes) return false;
    bool is_predicate = i.results[0].width == PREDICATE;
    return !is_predicate || (*values<uint32_t>(w, i.results[0]) & lanes) != lanes;
}

// One instruction; false: the warp is at a barrier, or has polled.
bool step(Warp &w) {
    const Instruction &i = w.kernel->code[w.pc];
    uint32_t lanes = w.lanes;
    if (i.guard.kind != Operand::NONE) {
        check_defined(w, i, i.guard, lanes);
        uint32_t yes = *values<uint32_t>(w, i.guard);
        lanes &= i.guard_negated ? ~yes : yes;
    }
    i.executed = i.executed || lanes;
    switch (i.control) {
    case Control::NONE:
        if (lanes) execute(w, i, lanes);
        w.pc++;
        return true;
    case Control::POLL:
        if (lanes) execute(w, i, lanes);
        w.pc++;
        return !has_to_wait(w, i, lanes);
    case Control::BRANCH: branch(w, i, lanes); return true;
    case Control::EXIT:
        if (lanes)
            leave(w, lanes);
        else
            w.pc++;
        return true;
    case Control::COLLECTIVE:
        if (!lanes || collective(w, i, lanes)) w.pc++;
        return true;
    case Control::BARRIER:
        if (!lanes) {
            w.pc++;
            return true;
        }
        if (lanes != w.live) { // all lanes of a warp arrive together
            wait_for_others(w);
            return true;
        }
        w.at_barrier = true;
        return false;
    }
    return true;
}

// Until it ends, is at a barrier, or polls. false: it has only polled again what it polled last.
bool run_warp(Warp &w) {
    while (w.live) {
        if (!w.others.empty()) meet(w);
        if (step(w)) continue;
        bool again = !w.at_barrier && w.polled_at == w.pc;
        w.polled_at = w.at_barrier ? NOWHERE : w.pc;
        return !again;
    }
    return true;
}

// ---- blocks ----

// %tid.x and the like, of all lanes.
void set_special(const Warp &w, const std::string &name, uint32_t *lanes) {
    const Block &b = *w.block;
    bool is_lane = name == "%laneid", is_warp = name == "%warpid", is_thread = name[1] == 't';
    const Place &same = name[1] == 'c' ? b.at : !name.find("%ntid") ? b.size : b.grid;
    for (unsigned l = 0; l < LANES; l++) {
        unsigned thread = w.number * LANES + l;
        Place tid = {thread % b.size.x, thread / b.size.x % b.size.y, thread / b.size.x / b.size.y};
        const Place &of = is_thread ? tid : same;
        lanes[l] = is_lane              ? l
                   : is_warp            ? w.number
                   : name.back() == 'x' ? of.x
                   : name.back() == 'y' ? of.y
                                        : of.z;
    }
}

void start_warp(Warp &w, unsigned threads) {
    const Kernel &kernel = *w.kernel;
    unsigned here = threads - w.number * LANES;
    w.live = w.lanes = here >= LANES ? ALL : (1u << here) - 1;
    w.pc = 0;
    w.others.clear();
    w.copies.clear();
    w.at_barrier = false;
    w.polled_at = NOWHERE;
    memset(w.copy_groups, 0, sizeof w.copy_groups);
    memset(w.defined, 0, kernel.register_count * sizeof *w.defined);
    if (kernel.local_bytes) memset(w.local, 0xff, LANES * kernel.local_bytes);
    for (const auto &[name, at] : kernel.special) {
        w.defined[at.number] = ALL;
        set_special(w, name, values<uint32_t>(w, at));
    }
}

uint32_t barrier_of(const Warp &w) {
    return values<uint32_t>(w, w.kernel->code[w.pc].sources[0])[0];
}

// All warps that have not ended are at a barrier: on they go.
void open_barrier(std::vector<Warp> &warps) {
    const Warp *first = nullptr;
    for (Warp &w : warps) {
        if (!w.live) continue;
        if (!first) first = &w;
        if (barrier_of(w) != barrier_of(*first))
            fail(w, w.kernel->code[w.pc], first_lane(w.live), "warps are at different barriers");
    }
    for (Warp &w : warps) {
        if (!w.live) continue;
        w.at_barrier = false;
        w.pc++;
    }
}

// A block that runs, and its warps.
struct Running {
    Block block;
    std::vector<Warp> warps;
};

void start_block(Running &r, Place at, unsigned threads) {
    r.block.at = at;
    if (r.block.shared_bytes) memset(r.block.shared, 0xff, r.block.shared_bytes); // NaN
    for (Warp &w : r.warps)
        start_warp(w, threads);
}

void end_block(Running &r) {
    const char *wrong = r.block.bulk_copies.end();
    const Warp &w = r.warps[0];
    if (wrong) fail(w, w.kernel->code.back(), 0, "%s", wrong);
}

// Each warp once, as far as it goes. false: all of them have ended.
bool run_round(Running &r, bool *moved) {
    bool live = false, all_at_barrier = true;
    for (Warp &w : r.warps) {
        if (!w.live) continue;
        if (!w.at_barrier) *moved |= run_warp(w);
        live |= w.live != 0;
        all_at_barrier &= w.at_barrier || !w.live;
    }
    if (live && all_at_barrier) {
        open_barrier(r.warps);
        *moved = true;
    }
    return live;
}

[[noreturn]] void fail_polling(const std::vector<Running> &running) {
    for (const Running &r : running)
        for (const Warp &w : r.warps)
            if (w.live && !w.at_barrier)
                fail(w, w.kernel->code[w.pc - 1], first_lane(w.lanes),
                     "waits for what no other thread will do");
    abort();
}

void run_blocks(std::vector<Running> &running) {
    unsigned idle = 0;
    for (bool live = true; live;) {
        bool moved = false;
        live = false;
        for (Running &r : running)
            live |= run_round(r, &moved);
        idle = moved ? 0 : idle + 1;
        if (live && idle > MOST_IDLE) fail_polling(running);
    }
    for (Running &r : running)
        end_block(r);
}

} // namespace

// Kept from launch to launch: fresh pages cost more than most kernels. What a kernel sees of it,
// each block sets anew.
static uint8_t *memory_of_launch(size_t bytes) {
    static uint8_t *memory;
    static size_t most;
    if (bytes <= most) return memory;
    free(memory);
    memory = (uint8_t *)aligned_alloc(128, bytes);
    if (!memory) abort();
    most = bytes;
    return memory;
}

// So many blocks' shared memory, registers and local memory.
static void place_memory(std::vector<Running> &running, const Kernel &kernel,
                         const Launch &launch) {
    auto lines = [](size_t bytes) { return (bytes + 127) / 128 * 128; };
    size_t shared = kernel.shared_bytes + (kernel.uses_launched ? launch.memory : 0);
    size_t registers = lines(kernel.register_bytes), local = lines(LANES * kernel.local_bytes);
    size_t each_warp = registers + local + lines(kernel.register_count * sizeof(uint32_t));
    size_t n_warps = running[0].warps.size(), each_block = lines(shared) + n_warps * each_warp;
    uint8_t *memory = memory_of_launch(running.size() * each_block + 128);
    for (Running &r : running) {
        r.block = {{}, launch.size, launch.grid, memory, shared, {}};
        memory += lines(shared);
        for (unsigned k = 0; k < n_warps; k++, memory += each_warp) {
            Warp &w = r.warps[k];
            w.kernel = &kernel, w.block = &r.block, w.number = k;
            w.registers = memory;
            w.local = w.registers + registers;
            w.defined = (uint32_t *)(w.local + local);
        }
    }
}

void run_grid(Kernel &kernel, const Launch &launch) {
    parse(kernel);
    for (const Instruction &i : kernel.code)
        i.block_begin = 1, i.block_end = 0;
    Place grid = launch.grid, size = launch.size;
    unsigned threads = size.x * size.y * size.z;
    size_t count = (size_t)grid.x * grid.y * grid.z, at_once = launch.cooperative ? count : 1;
    std::vector<Running> running(at_once);
    for (Running &r : running)
        r.warps.resize((threads + LANES - 1) / LANES);
    place_memory(running, kernel, launch);
    for (size_t b = 0; b < count; b++) {
        Place at = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                    (unsigned)(b / grid.x / grid.y)};
        start_block(running[b % at_once], at, threads);
        if (b % at_once == at_once - 1) run_blocks(running);
    }
}

} // namespace ptx
