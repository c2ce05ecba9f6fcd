// Memory: where an address lies and whether it may be accessed; loads, stores, atomics, and copies
// to shared memory that run asynchronously.
//
// Addresses of global memory and of parameters are those of the host. Shared and local ones count
// from 0, as they do in PTX; as generic addresses they are the host's too.
#include "tests/ptx/interpreter.h"

#include <cstdlib>
#include <set>

namespace ptx {

Memory *memory_at;

namespace {

typedef std::vector<std::string> Words;

Words words_of(const std::string &opcode) {
    Words found;
    for (size_t at = 0, dot; at <= opcode.size(); at = dot + 1) {
        dot = opcode.find('.', at);
        if (dot == std::string::npos) dot = opcode.size();
        found.push_back(opcode.substr(at, dot - at));
    }
    return found;
}

uint8_t *local_of(const Warp &w, unsigned lane) {
    return w.local + lane * w.kernel->local_bytes;
}

bool within(uint64_t address, size_t bytes, const uint8_t *block, size_t block_bytes) {
    uint64_t begin = (uint64_t)(uintptr_t)block;
    return address >= begin && address + bytes <= begin + block_bytes;
}

// Global memory, parameters; of a generic address also the others.
bool exists(const Warp &w, const Instruction &i, unsigned lane, uint64_t address, size_t bytes) {
    const std::vector<uint8_t> &parameters = w.kernel->parameter_bytes;
    if (i.space == Space::PARAMETER || i.space == Space::GENERIC)
        if (within(address, bytes, parameters.data(), parameters.size())) return true;
    if (i.space == Space::GENERIC &&
        (within(address, bytes, w.block->shared, w.block->shared_bytes) ||
         within(address, bytes, local_of(w, lane), w.kernel->local_bytes)))
        return true;
    return i.space != Space::PARAMETER && memory_at(address, &i.block_begin, &i.block_end) &&
           address + bytes <= i.block_end;
}

} // namespace

uint8_t *locate(const Warp &w, const Instruction &i, unsigned lane, uint64_t address,
                size_t bytes) {
    uint8_t *found = (uint8_t *)(uintptr_t)address;
    bool inside;
    if (address % bytes)
        fail(w, i, lane, "address 0x%llx is not a multiple of %zu", (unsigned long long)address,
             bytes);
    if (i.space == Space::SHARED) {
        inside = address + bytes <= w.block->shared_bytes && address + bytes >= bytes;
        found = w.block->shared + address;
    } else if (i.space == Space::LOCAL) {
        inside = address + bytes <= w.kernel->local_bytes && address + bytes >= bytes;
        found = local_of(w, lane) + address;
    } else {
        inside = (address >= i.block_begin && address + bytes <= i.block_end) ||
                 exists(w, i, lane, address, bytes);
    }
    if (!inside)
        fail(w, i, lane, "%zu bytes at 0x%llx are outside of all memory", bytes,
             (unsigned long long)address);
    return found;
}

namespace {

uint64_t lane_address(const Warp &w, const Instruction &i, unsigned lane) {
    return lane_bits(w, i.sources[0], lane) + (uint64_t)i.offset;
}

// ---- loads and stores: elements of type T in memory, registers of type R ----

template <class T, class R> void load(Warp &w, const Instruction &i, uint32_t lanes) {
    unsigned n = i.elements;
    R *to[8];
    for (unsigned k = 0; k < n; k++)
        to[k] = i.results[k].kind == Operand::NONE ? nullptr : values<R>(w, i.results[k]);
    each(lanes, [&](unsigned l) {
        const uint8_t *from = locate(w, i, l, lane_address(w, i, l), n * sizeof(T));
        for (unsigned k = 0; k < n; k++) {
            T value;
            memcpy(&value, from + k * sizeof value, sizeof value);
            if (to[k]) to[k][l] = (R)value;
        }
    });
}

template <class T, class R> void store(Warp &w, const Instruction &i, uint32_t lanes) {
    unsigned n = i.elements;
    const R *from[8];
    for (unsigned k = 0; k < n; k++)
        from[k] = values<R>(w, i.sources[1 + k]);
    each(lanes, [&](unsigned l) {
        uint8_t *to = locate(w, i, l, lane_address(w, i, l), n * sizeof(T));
        for (unsigned k = 0; k < n; k++) {
            T value = (T)from[k][l];
            memcpy(to + k * sizeof value, &value, sizeof value);
        }
    });
}

template <class T> Handler *access(bool loads, unsigned width) {
    if constexpr (sizeof(T) <= 2)
        if (width == 2) return loads ? load<T, uint16_t> : store<T, uint16_t>;
    if constexpr (sizeof(T) <= 4)
        if (width == 4) return loads ? load<T, uint32_t> : store<T, uint32_t>;
    if (width == 8) return loads ? load<T, uint64_t> : store<T, uint64_t>;
    return nullptr;
}

Handler *access_of(bool loads, const std::string &type, unsigned width) {
    bool is_signed = type[0] == 's';
    switch (atoi(type.c_str() + 1)) {
    case 8: return is_signed ? access<int8_t>(loads, width) : access<uint8_t>(loads, width);
    case 16: return is_signed ? access<int16_t>(loads, width) : access<uint16_t>(loads, width);
    case 32: return is_signed ? access<int32_t>(loads, width) : access<uint32_t>(loads, width);
    case 64: return access<uint64_t>(loads, width);
    }
    return nullptr;
}

// How caches are used and in which order others see it: nothing to do, blocks run one at a time.
bool is_hint(const std::string &word) {
    static const std::set<std::string> HINTS = {
        "ca",  "cg",       "cs",      "lu",      "cv",      "wb",   "wt",
        "nc",  "weak",     "relaxed", "acquire", "release", "cta",  "gpu",
        "sys", "volatile", "acq_rel", "cluster", "unified", "mmio", "async"};
    return HINTS.count(word) || !word.compare(0, 4, "L1::") || !word.compare(0, 4, "L2::");
}

bool take_space(const std::string &word, Instruction &i) {
    static const std::map<std::string, Space> SPACES = {
        {"global", Space::GLOBAL},      {"shared", Space::SHARED},   {"local", Space::LOCAL},
        {"shared::cta", Space::SHARED}, {"param", Space::PARAMETER}, {"const", Space::PARAMETER}};
    auto found = SPACES.find(word);
    if (found == SPACES.end()) return false;
    i.space = found->second;
    return true;
}

bool decode_access(Kernel &kernel, Instruction &i, const Statement &s, const Words &words) {
    bool loads = words[0] == "ld";
    i.elements = 1;
    for (size_t k = 1; k + 1 < words.size(); k++) {
        if (loads && words[k] == "acquire") i.control = Control::POLL;
        if (words[k] == "v2" || words[k] == "v4" || words[k] == "v8")
            i.elements = (uint8_t)(words[k][1] - '0');
        else if (!is_hint(words[k]) && !take_space(words[k], i))
            return false;
    }
    unsigned width = (unsigned)atoi(words.back().c_str() + 1) / 8;
    if (width == 1) width = 2; // of the narrowest registers
    address(kernel, i, s.operands.at(loads ? 1 : 0));
    std::vector<Operand> &list = loads ? i.results : i.sources;
    for (const std::string &one : parts(s.operands.at(loads ? 0 : 1)))
        list.push_back(operand(kernel, i, one, width));
    for (size_t k = loads ? 0 : 1; k < list.size(); k++)
        if (list[k].width != list.back().width) reject(kernel, i, "registers of two widths");
    if (list.size() != i.elements + (loads ? 0u : 1u)) return false;
    i.run = access_of(loads, words.back(), list.back().width);
    return i.run;
}

// ---- atomics: lane after lane ----

enum Atomic : uint8_t { ADD, LEAST, MOST, EXCHANGE, COMPARE, AND, OR, XOR };

template <class T> T changed(Atomic kind, T old, T a, T b) {
    switch (kind) {
    case ADD: return (T)(old + a);
    case LEAST: return a < old ? a : old;
    case MOST: return a > old ? a : old;
    case EXCHANGE: return a;
    case COMPARE: return old == a ? b : old;
    default: break;
    }
    if constexpr (std::is_integral_v<T>)
        return kind == AND ? old & a : kind == OR ? old | a : old ^ a;
    return old;
}

template <class T> void atomic(Warp &w, const Instruction &i, uint32_t lanes) {
    each(lanes, [&](unsigned l) {
        uint8_t *at = locate(w, i, l, lane_address(w, i, l), sizeof(T));
        T old, a = values<T>(w, i.sources[1])[l];
        T b = i.sources.size() > 2 ? values<T>(w, i.sources[2])[l] : a;
        memcpy(&old, at, sizeof old);
        T now = changed((Atomic)i.variant, old, a, b);
        memcpy(at, &now, sizeof now);
        if (!i.results.empty() && i.results[0].kind != Operand::NONE)
            values<T>(w, i.results[0])[l] = old;
    });
}

bool decode_atomic(Kernel &kernel, Instruction &i, const Statement &s, const Words &words) {
    static const std::map<std::string, Atomic> KINDS = {
        {"add", ADD},     {"min", LEAST}, {"max", MOST}, {"exch", EXCHANGE},
        {"cas", COMPARE}, {"and", AND},   {"or", OR},    {"xor", XOR}};
    static const std::map<std::string, Handler *> TYPES = {
        {"u32", atomic<uint32_t>}, {"s32", atomic<int32_t>},  {"b32", atomic<uint32_t>},
        {"u64", atomic<uint64_t>}, {"b64", atomic<uint64_t>}, {"f32", atomic<float>}};
    bool known = false;
    for (size_t k = 1; k + 1 < words.size(); k++) {
        auto kind = KINDS.find(words[k]);
        if (kind != KINDS.end())
            i.variant = kind->second, known = true;
        else if (!is_hint(words[k]) && !take_space(words[k], i))
            return false;
    }
    auto type = TYPES.find(words.back());
    if (type == TYPES.end() || !known) return false;
    unsigned width = (unsigned)atoi(words.back().c_str() + 1) / 8;
    size_t at = words[0] == "red" ? 0 : 1;
    if (at) i.results.push_back(operand(kernel, i, s.operands.at(0), width));
    address(kernel, i, s.operands.at(at));
    for (size_t k = at + 1; k < s.operands.size(); k++)
        i.sources.push_back(operand(kernel, i, s.operands[k], width));
    i.run = type->second;
    return true;
}

// ---- generic addresses of shared and local memory ----

template <bool SHARED, bool BACK> void cast(Warp &w, const Instruction &i, uint32_t lanes) {
    uint64_t *d = values<uint64_t>(w, i.results[0]), *a = values<uint64_t>(w, i.sources[0]);
    each(lanes, [&](unsigned l) {
        uint64_t base = (uint64_t)(uintptr_t)(SHARED ? w.block->shared : local_of(w, l));
        d[l] = BACK ? a[l] - base : a[l] + base;
    });
}

bool decode_cast(Kernel &kernel, Instruction &i, const Statement &s) {
    static const std::map<std::string, Handler *> KNOWN = {
        {"cvta.shared.u64", cast<true, false>},
        {"cvta.to.shared.u64", cast<true, true>},
        {"cvta.local.u64", cast<false, false>},
        {"cvta.to.local.u64", cast<false, true>}};
    auto found = KNOWN.find(s.opcode);
    if (found == KNOWN.end()) return false;
    i.results.push_back(operand(kernel, i, s.operands.at(0), 8));
    i.sources.push_back(operand(kernel, i, s.operands.at(1), 8));
    i.run = found->second;
    return true;
}

// ---- cp.async: a copy happens as late as it may, when it is waited for ----

void copy(Warp &w, const Instruction &i, uint32_t lanes) {
    unsigned bytes = (unsigned)values<uint32_t>(w, i.sources[2])[0];
    each(lanes, [&](unsigned l) {
        unsigned taken = i.sources.size() > 3 ? (unsigned)lane_bits(w, i.sources[3], l) : bytes;
        Instruction place = i; // the one end, then the other
        place.space = Space::SHARED;
        uint8_t *to = locate(w, place, l, lane_address(w, i, l), bytes);
        place.space = Space::GLOBAL;
        uint64_t from = lane_bits(w, i.sources[1], l) + (uint64_t)i.offset_from;
        if (taken) locate(w, place, l, from, bytes);
        w.copies.push_back(
            {l, w.copy_groups[l], to, (const uint8_t *)(uintptr_t)from, taken, bytes - taken});
    });
}

// Whole 16 bytes to the L2 cache: all there is to check is that they are there.
void prefetch(Warp &w, const Instruction &i, uint32_t lanes) {
    each(lanes, [&](unsigned l) {
        uint64_t from = lane_address(w, i, l), bytes = lane_bits(w, i.sources[1], l);
        if (!bytes || bytes % 16) fail(w, i, l, "%llu bytes", (unsigned long long)bytes);
        locate(w, i, l, from, 16);
        locate(w, i, l, from + bytes - 16, 16);
    });
}

void commit_copies(Warp &w, const Instruction &, uint32_t lanes) {
    each(lanes, [&](unsigned l) { w.copy_groups[l]++; });
}

// All but the latest groups; variant: also what is not committed.
void wait_for_copies(Warp &w, const Instruction &i, uint32_t lanes) {
    uint32_t latest = i.sources.empty() ? 0 : values<uint32_t>(w, i.sources[0])[0];
    std::vector<Copy> left;
    for (const Copy &c : w.copies) {
        bool ends = i.variant || c.group + latest < w.copy_groups[c.lane];
        if (!(lanes >> c.lane & 1) || !ends) {
            left.push_back(c);
            continue;
        }
        memcpy(c.to, c.from, c.bytes);
        memset(c.to + c.bytes, 0, c.zeros);
    }
    w.copies.swap(left);
}

bool decode_copy(Kernel &kernel, Instruction &i, const Statement &s, const Words &words) {
    if (words.size() < 3 || words[1] != "async") return false;
    if (words[2] == "bulk" && words.size() == 6 && words[3] == "prefetch") {
        address(kernel, i, s.operands.at(0));
        i.sources.push_back(operand(kernel, i, s.operands.at(1), 4));
        i.space = Space::GLOBAL;
        i.run = prefetch;
        return true;
    }
    if (words[2] == "commit_group") {
        i.run = commit_copies;
        return true;
    }
    if (words[2] == "wait_group" || words[2] == "wait_all") {
        i.variant = words[2] == "wait_all";
        if (!i.variant) i.sources.push_back(operand(kernel, i, s.operands.at(0), 4));
        i.run = wait_for_copies;
        return true;
    }
    if (words[2] != "ca" && words[2] != "cg") return false;
    address(kernel, i, s.operands.at(1));
    i.offset_from = i.offset;
    address(kernel, i, s.operands.at(0));
    std::swap(i.sources[0], i.sources[1]);
    for (size_t k = 2; k < s.operands.size(); k++)
        i.sources.push_back(operand(kernel, i, s.operands[k], 4));
    i.run = copy;
    return i.sources.size() > 2;
}

void nothing(Warp &, const Instruction &, uint32_t) {}

} // namespace

bool decode_memory(Kernel &kernel, Instruction &i, const Statement &s) {
    Words words = words_of(s.opcode);
    const std::string &name = words[0];
    if (name == "membar" || name == "fence" || name == "griddepcontrol" || name == "prefetch") {
        i.run = nothing;
        return true;
    }
    if (name == "ld" || name == "st") return decode_access(kernel, i, s, words);
    if (name == "atom" || name == "red") return decode_atomic(kernel, i, s, words);
    if (name == "cp") return decode_copy(kernel, i, s, words);
    return decode_cast(kernel, i, s);
}

} // namespace ptx
