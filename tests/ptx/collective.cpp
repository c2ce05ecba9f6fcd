// What the lanes of a warp do together: shuffles, votes, reductions, matrix products.
#include "tests/ptx/interpreter.h"

#include <cmath>

extern "C" {
#include "weights/quant.h"
}

namespace ptx {

namespace {

bool begins(const std::string &text, const char *with) {
    return !text.compare(0, strlen(with), with);
}
bool has(const std::string &text, const char *word) {
    return text.find(word) != std::string::npos;
}

// ---- shuffles ----

enum Shuffle : uint8_t { INDEX, BUTTERFLY, BY_UP, BY_DOWN };

// sources: value, lane or distance, clamp and segments.
void shuffle(Warp &w, const Instruction &i, uint32_t lanes) {
    uint32_t before[LANES], there = 0;
    memcpy(before, values<uint32_t>(w, i.sources[0]), sizeof before);
    const uint32_t *by = values<uint32_t>(w, i.sources[1]), *c = values<uint32_t>(w, i.sources[2]);
    uint32_t *d = values<uint32_t>(w, i.results[0]);
    each(lanes, [&](unsigned l) {
        int clamp = (int)(c[l] & 31), segment = (int)(c[l] >> 8 & 31), lane = (int)l;
        int most = (lane & segment) | (clamp & ~segment), from = lane, step = (int)(by[l] & 31);
        switch ((Shuffle)i.variant) {
        case INDEX: from = (lane & segment) | (step & ~segment); break;
        case BUTTERFLY: from = lane ^ step; break;
        case BY_UP: from = lane - step; break;
        case BY_DOWN: from = lane + step; break;
        }
        bool good = i.variant == BY_UP ? from >= most : from <= most;
        if (!good) from = lane;
        if (!(lanes >> from & 1)) fail(w, i, l, "lane %d does not take part", from);
        d[l] = before[from];
        there |= (uint32_t)good << l;
    });
    if (i.results.size() < 2) return;
    uint32_t *p = values<uint32_t>(w, i.results[1]);
    *p = (*p & ~lanes) | (there & lanes);
}

bool decode_shuffle(Kernel &kernel, Instruction &i, const Statement &s) {
    static const std::map<std::string, Shuffle> KINDS = {{"shfl.sync.idx.b32", INDEX},
                                                         {"shfl.sync.bfly.b32", BUTTERFLY},
                                                         {"shfl.sync.up.b32", BY_UP},
                                                         {"shfl.sync.down.b32", BY_DOWN}};
    auto kind = KINDS.find(s.opcode);
    if (kind == KINDS.end() || s.operands.size() != 5) return false;
    size_t bar = s.operands[0].find('|');
    i.results.push_back(operand(kernel, i, s.operands[0].substr(0, bar), 4));
    if (bar != std::string::npos)
        i.results.push_back(operand(kernel, i, s.operands[0].substr(bar + 1), PREDICATE));
    for (int k = 1; k < 5; k++)
        i.sources.push_back(operand(kernel, i, s.operands[k], 4));
    i.members = i.sources[3];
    i.variant = kind->second;
    i.run = shuffle;
    return true;
}

// ---- votes and reductions ----

enum Vote : uint8_t { BALLOT, ANY, EVERY };

void vote(Warp &w, const Instruction &i, uint32_t lanes) {
    uint32_t yes = *values<uint32_t>(w, i.sources[0]) & lanes;
    if (i.variant == BALLOT) {
        uint32_t *d = values<uint32_t>(w, i.results[0]);
        each(lanes, [=](unsigned l) { d[l] = yes; });
        return;
    }
    uint32_t *d = values<uint32_t>(w, i.results[0]);
    bool all = i.variant == EVERY ? yes == lanes : yes != 0;
    *d = (*d & ~lanes) | (all ? lanes : 0);
}

template <class T, class Join> void reduce(Warp &w, const Instruction &i, uint32_t lanes) {
    T *d = values<T>(w, i.results[0]);
    const T *a = values<T>(w, i.sources[0]);
    bool any = false;
    T joined = 0;
    each(lanes, [&](unsigned l) {
        joined = any ? Join::of(joined, a[l]) : a[l];
        any = true;
    });
    each(lanes, [=](unsigned l) { d[l] = joined; });
}
#define JOIN(name, result)                                                                         \
    struct name {                                                                                  \
        template <class T> static T of(T a, T b) {                                                 \
            return (T)(result);                                                                    \
        }                                                                                          \
    }
JOIN(Sum, (uint32_t)a + (uint32_t)b);
JOIN(Least, a < b ? a : b);
JOIN(Most, a > b ? a : b);
JOIN(And, a &b);
JOIN(Or, a | b);
JOIN(Xor, a ^ b);

bool decode_reduction(Kernel &kernel, Instruction &i, const Statement &s) {
    static const std::map<std::string, Handler *> KNOWN = {
        {"redux.sync.add.u32", reduce<uint32_t, Sum>},
        {"redux.sync.add.s32", reduce<int32_t, Sum>},
        {"redux.sync.min.u32", reduce<uint32_t, Least>},
        {"redux.sync.min.s32", reduce<int32_t, Least>},
        {"redux.sync.max.u32", reduce<uint32_t, Most>},
        {"redux.sync.max.s32", reduce<int32_t, Most>},
        {"redux.sync.and.b32", reduce<uint32_t, And>},
        {"redux.sync.or.b32", reduce<uint32_t, Or>},
        {"redux.sync.xor.b32", reduce<uint32_t, Xor>}};
    static const std::map<std::string, Vote> VOTES = {{"vote.sync.ballot.b32", BALLOT},
                                                      {"vote.sync.any.pred", ANY},
                                                      {"vote.sync.all.pred", EVERY}};
    auto known = KNOWN.find(s.opcode);
    auto votes = VOTES.find(s.opcode);
    if ((known == KNOWN.end() && votes == VOTES.end()) || s.operands.size() != 3) return false;
    bool is_vote = votes != VOTES.end();
    unsigned width = is_vote && votes->second != BALLOT ? PREDICATE : 4;
    i.results.push_back(operand(kernel, i, s.operands[0], width));
    i.sources.push_back(operand(kernel, i, s.operands[1], is_vote ? PREDICATE : 4));
    i.sources.push_back(operand(kernel, i, s.operands[2], 4));
    i.members = i.sources[1];
    i.variant = is_vote ? votes->second : 0;
    i.run = is_vote ? vote : known->second;
    return true;
}

// ---- products on the tensor cores: D (16 by 8) = A (16 by K) B (K by 8) + C ----
//
// Lane l has, with g = l / 4 and t = l % 4, words of E elements (2 of 16 bits, 4 of 8):
//   a[w]  row g + 8 (w % 2), from column E t + 4 E (w / 2) on
//   b[w]  column g, from row E t + 4 E w on
//   c[e]  row g + 8 (e / 2), column 2 t + e % 2        d the same

enum Element : uint8_t { F16, BF16, S8, U8 };

double element(Element type, uint32_t word, unsigned k) {
    if (type == S8) return (int8_t)(word >> (8 * k));
    if (type == U8) return (uint8_t)(word >> (8 * k));
    uint16_t bits = (uint16_t)(word >> (16 * k));
    if (type == F16) return half_to_float(bits);
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return f;
}

// To zero: tensor cores cut what does not fit.
float truncated(double value) {
    float f = (float)value;
    return std::fabs((double)f) > std::fabs(value) ? std::nextafter(f, 0.0f) : f;
}

struct Fragments {
    unsigned per_word, a_words, b_words;
    Element type;
    double a[16][32], b[32][8]; // at most
};

void read_fragments(const Warp &w, const Instruction &i, Fragments &f) {
    unsigned e = f.per_word;
    for (unsigned l = 0; l < LANES; l++) {
        unsigned g = l / 4, t = l % 4;
        for (unsigned word = 0; word < f.a_words + f.b_words; word++) {
            uint32_t bits = values<uint32_t>(w, i.sources[word])[l];
            unsigned b = word - f.a_words;
            for (unsigned k = 0; k < e; k++) {
                double value = element(f.type, bits, k);
                if (word < f.a_words)
                    f.a[g + 8 * (word % 2)][e * t + 4 * e * (word / 2) + k] = value;
                else
                    f.b[e * t + 4 * e * b + k][g] = value;
            }
        }
    }
}

// elements: of K. The sum is exact in double, but for floats far apart, and cut once.
void multiply(Warp &w, const Instruction &i, uint32_t) {
    Fragments f = {};
    f.type = (Element)i.variant;
    f.per_word = f.type == F16 || f.type == BF16 ? 2 : 4;
    f.b_words = i.elements / (4 * f.per_word), f.a_words = 2 * f.b_words;
    read_fragments(w, i, f);
    const Operand *c = &i.sources[f.a_words + f.b_words];
    for (unsigned l = 0; l < LANES; l++) {
        for (unsigned e = 0; e < 4; e++) {
            unsigned row = l / 4 + 8 * (e / 2), column = l % 4 * 2 + e % 2;
            double sum = 0;
            for (unsigned k = 0; k < i.elements; k++)
                sum += f.a[row][k] * f.b[k][column];
            if (f.per_word == 2)
                values<float>(w, i.results[e])[l] =
                    truncated(sum + (double)values<float>(w, c[e])[l]);
            else
                values<uint32_t>(w, i.results[e])[l] =
                    (uint32_t)(int64_t)sum + values<uint32_t>(w, c[e])[l];
        }
    }
}

bool decode_multiply(Kernel &kernel, Instruction &i, const Statement &s) {
    struct Known {
        const char *opcode;
        Element type;
        uint8_t k;
    };
    static const Known KNOWN[] = {
        {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", F16, 16},
        {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", BF16, 16},
        {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", F16, 8},
        {"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", BF16, 8},
        {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", S8, 32},
        {"mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", S8, 16},
        {"mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32", U8, 32},
    };
    for (const Known &known : KNOWN) {
        if (s.opcode != known.opcode || s.operands.size() != 4) continue;
        for (const std::string &one : parts(s.operands[0]))
            i.results.push_back(operand(kernel, i, one, 4));
        for (int k = 1; k < 4; k++)
            for (const std::string &one : parts(s.operands[k]))
                i.sources.push_back(operand(kernel, i, one, 4));
        unsigned b_words = known.k / (known.type <= BF16 ? 8 : 16);
        i.variant = known.type, i.elements = known.k;
        i.run = multiply;
        return i.results.size() == 4 && i.sources.size() == 3 * b_words + 4;
    }
    return false;
}

// ---- ldmatrix: 8 by 8 matrices of 16 bits ----

// Lane 8 m + r has the address of row r of matrix m; lane l gets elements 2 (l % 4) and the next
// of row l / 4; transposed: of column l / 4.
void load_matrices(Warp &w, const Instruction &i, uint32_t) {
    uint16_t rows[4][8][8];
    for (unsigned m = 0; m < i.elements; m++) {
        for (unsigned r = 0; r < 8; r++) {
            unsigned lane = 8 * m + r;
            uint64_t at = lane_bits(w, i.sources[0], lane) + (uint64_t)i.offset;
            if (i.space == Space::GENERIC) at -= (uint64_t)(uintptr_t)w.block->shared;
            if (at % 16 || at + 16 > w.block->shared_bytes)
                fail(w, i, lane, "a row at 0x%llx of %zu bytes", (unsigned long long)at,
                     w.block->shared_bytes);
            memcpy(rows[m][r], w.block->shared + at, 16);
        }
    }
    for (unsigned m = 0; m < i.elements; m++) {
        uint32_t *d = values<uint32_t>(w, i.results[m]);
        for (unsigned l = 0; l < LANES; l++) {
            unsigned r = l / 4, c = l % 4 * 2;
            uint32_t low = i.variant ? rows[m][c][r] : rows[m][r][c];
            uint32_t high = i.variant ? rows[m][c + 1][r] : rows[m][r][c + 1];
            d[l] = high << 16 | low;
        }
    }
}

bool decode_matrices(Kernel &kernel, Instruction &i, const Statement &s) {
    if (!begins(s.opcode, "ldmatrix.sync.aligned.m8n8.") || !has(s.opcode, ".b16")) return false;
    for (const std::string &one : parts(s.operands.at(0)))
        i.results.push_back(operand(kernel, i, one, 4));
    address(kernel, i, s.operands.at(1));
    i.elements = (uint8_t)i.results.size();
    i.variant = has(s.opcode, ".trans");
    if (has(s.opcode, ".shared")) i.space = Space::SHARED;
    i.run = load_matrices;
    return has(s.opcode, (".x" + std::to_string(i.elements)).c_str());
}

void nothing(Warp &, const Instruction &, uint32_t) {}

void trap(Warp &w, const Instruction &i, uint32_t lanes) {
    fail(w, i, (unsigned)__builtin_ctz(lanes), "trap");
}

} // namespace

bool decode_collective(Kernel &kernel, Instruction &i, const Statement &s) {
    if (s.opcode == "ret" || s.opcode == "exit") {
        i.control = Control::EXIT;
        return true;
    }
    if (s.opcode == "bar.sync" || s.opcode == "barrier.sync") {
        i.control = Control::BARRIER;
        i.sources.push_back(operand(kernel, i, s.operands.at(0), 4));
        return s.operands.size() == 1;
    }
    if (s.opcode == "trap") {
        i.run = trap;
        return true;
    }
    i.control = Control::COLLECTIVE;
    if (s.opcode == "bar.warp.sync") {
        i.sources.push_back(operand(kernel, i, s.operands.at(0), 4));
        i.members = i.sources[0];
        i.run = nothing;
        return true;
    }
    if (decode_shuffle(kernel, i, s) || decode_reduction(kernel, i, s) ||
        decode_multiply(kernel, i, s) || decode_matrices(kernel, i, s))
        return true;
    i.control = Control::NONE;
    return false;
}

void decode(Kernel &kernel, Instruction &i, const Statement &s) {
    if (!decode_collective(kernel, i, s) && !decode_arithmetic(kernel, i, s) &&
        !decode_convert(kernel, i, s) && !decode_bulk(kernel, i, s) && !decode_memory(kernel, i, s))
        reject(kernel, i, "not a known instruction");
}

} // namespace ptx
