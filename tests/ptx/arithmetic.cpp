// Arithmetic: every lane for itself. A table from the whole opcode to its handler; what is not in
// it is not known.
#include "tests/ptx/interpreter.h"
#include "tests/ptx/operations.h"

namespace ptx {

namespace {

// ---- all lanes of a warp ----

template <class T, class F> void unary(Warp &w, const Instruction &i, uint32_t lanes) {
    T *d = values<T>(w, i.results[0]), *a = values<T>(w, i.sources[0]);
    each(lanes, [=](unsigned l) { d[l] = F::of(a[l]); });
}
template <class T, class F> void binary(Warp &w, const Instruction &i, uint32_t lanes) {
    T *d = values<T>(w, i.results[0]);
    const T *a = values<T>(w, i.sources[0]), *b = values<T>(w, i.sources[1]);
    each(lanes, [=](unsigned l) { d[l] = F::of(a[l], b[l]); });
}
template <class T, class F> void ternary(Warp &w, const Instruction &i, uint32_t lanes) {
    T *d = values<T>(w, i.results[0]);
    const T *a = values<T>(w, i.sources[0]), *b = values<T>(w, i.sources[1]);
    const T *c = values<T>(w, i.sources[2]);
    each(lanes, [=](unsigned l) { d[l] = F::of(a[l], b[l], c[l]); });
}

// Shifts by the width or more leave 0, or the sign.
template <class T, bool LEFT> void shift(Warp &w, const Instruction &i, uint32_t lanes) {
    T *d = values<T>(w, i.results[0]), *a = values<T>(w, i.sources[0]);
    const uint32_t *by = values<uint32_t>(w, i.sources[1]);
    constexpr uint32_t BITS = 8 * sizeof(T);
    each(lanes, [=](unsigned l) {
        if (LEFT)
            d[l] = by[l] >= BITS ? 0 : (T)((uint64_t)a[l] << by[l]);
        else if (std::is_signed_v<T>)
            d[l] = (T)(a[l] >> (by[l] >= BITS ? BITS - 1 : by[l]));
        else
            d[l] = by[l] >= BITS ? 0 : (T)(a[l] >> by[l]);
    });
}

template <class T, bool REMAINDER> void divide(Warp &w, const Instruction &i, uint32_t lanes) {
    T *d = values<T>(w, i.results[0]);
    const T *a = values<T>(w, i.sources[0]), *b = values<T>(w, i.sources[1]);
    each(lanes, [&](unsigned l) {
        if (!b[l]) fail(w, i, l, "a division by 0");
        if (std::is_signed_v<T> && b[l] == (T)-1)
            d[l] = REMAINDER ? 0 : Negate::of(a[l]);
        else
            d[l] = (T)(REMAINDER ? a[l] % b[l] : a[l] / b[l]);
    });
}

// W has twice the bits of T.
template <class T, class W, bool ADD>
void multiply_wide(Warp &w, const Instruction &i, uint32_t lanes) {
    W *d = values<W>(w, i.results[0]), *c = ADD ? values<W>(w, i.sources[2]) : nullptr;
    const T *a = values<T>(w, i.sources[0]), *b = values<T>(w, i.sources[1]);
    each(lanes, [=](unsigned l) {
        uint64_t product = (uint64_t)((W)a[l] * (W)b[l]);
        d[l] = (W)(ADD ? product + (uint64_t)c[l] : product);
    });
}

// The low `length` bits of a, put into b from bit `from` on.
template <class T> void insert_bits(Warp &w, const Instruction &i, uint32_t lanes) {
    T *d = values<T>(w, i.results[0]);
    const T *a = values<T>(w, i.sources[0]), *b = values<T>(w, i.sources[1]);
    const uint32_t *from = values<uint32_t>(w, i.sources[2]);
    const uint32_t *length = values<uint32_t>(w, i.sources[3]);
    constexpr uint32_t BITS = 8 * sizeof(T);
    each(lanes, [=](unsigned l) {
        uint32_t at = from[l] & 255, n = length[l] & 255;
        T ones = n >= BITS ? (T) ~(T)0 : (T)(((T)1 << n) - 1);
        T mask = at >= BITS ? 0 : (T)(ones << at);
        d[l] = (T)((b[l] & ~mask) | ((at >= BITS ? 0 : a[l] << at) & mask));
    });
}

// The `length` bits of a from bit `from` on; signed ones are extended by their top bit.
template <class T> void extract_bits(Warp &w, const Instruction &i, uint32_t lanes) {
    T *d = values<T>(w, i.results[0]), *a = values<T>(w, i.sources[0]);
    const uint32_t *from = values<uint32_t>(w, i.sources[1]);
    const uint32_t *length = values<uint32_t>(w, i.sources[2]);
    constexpr uint32_t BITS = 8 * sizeof(T);
    each(lanes, [=](unsigned l) {
        uint32_t at = from[l] & 255, n = length[l] & 255, end = at + n < BITS ? at + n : BITS;
        bool sign = std::is_signed_v<T> && n && (uint64_t)a[l] >> (end - 1) & 1;
        Unsigned<T> bits = at >= BITS ? 0 : (Unsigned<T>)((Unsigned<T>)a[l] >> at);
        Unsigned<T> ones =
            n >= BITS ? (Unsigned<T>)~(Unsigned<T>)0 : (Unsigned<T>)(((Unsigned<T>)1 << n) - 1);
        d[l] = (T)(sign ? (bits & ones) | (Unsigned<T>)~ones : bits & ones);
    });
}

// Any function of three bits: bit 4 a + 2 b + c of the table.
void logic3(Warp &w, const Instruction &i, uint32_t lanes) {
    uint32_t *d = values<uint32_t>(w, i.results[0]);
    const uint32_t *a = values<uint32_t>(w, i.sources[0]), *b = values<uint32_t>(w, i.sources[1]);
    const uint32_t *c = values<uint32_t>(w, i.sources[2]);
    uint32_t table = values<uint32_t>(w, i.sources[3])[0];
    each(lanes, [=](unsigned l) {
        uint32_t found = 0;
        for (int k = 0; k < 8; k++)
            if (table >> k & 1)
                found |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]);
        d[l] = found;
    });
}

template <class T, class F> void count_bits(Warp &w, const Instruction &i, uint32_t lanes) {
    uint32_t *d = values<uint32_t>(w, i.results[0]);
    const T *a = values<T>(w, i.sources[0]);
    each(lanes, [=](unsigned l) { d[l] = (uint32_t)F::of(a[l]); });
}
template <class T> void select(Warp &w, const Instruction &i, uint32_t lanes) {
    T *d = values<T>(w, i.results[0]);
    const T *a = values<T>(w, i.sources[0]), *b = values<T>(w, i.sources[1]);
    uint32_t first = *values<uint32_t>(w, i.sources[2]);
    each(lanes, [=](unsigned l) { d[l] = first >> l & 1 ? a[l] : b[l]; });
}

// ---- predicates ----

void set_predicate(Warp &w, const Operand &o, uint32_t lanes, uint32_t bits) {
    uint32_t *d = values<uint32_t>(w, o);
    *d = (*d & ~lanes) | (bits & lanes);
}
template <class F> void predicates(Warp &w, const Instruction &i, uint32_t lanes) {
    uint32_t a = *values<uint32_t>(w, i.sources[0]), b = *values<uint32_t>(w, i.sources.back());
    set_predicate(w, i.results[0], lanes, F::of(a, b));
}
// The second predicate, where there is one, is joined by F.
template <class T, class Compare, class F>
void compare(Warp &w, const Instruction &i, uint32_t lanes) {
    const T *a = values<T>(w, i.sources[0]), *b = values<T>(w, i.sources[1]);
    uint32_t bits = 0;
    for (unsigned l = 0; l < LANES; l++)
        bits |= (uint32_t)Compare::of(a[l], b[l]) << l;
    if (i.sources.size() == 3) bits = F::of(bits, *values<uint32_t>(w, i.sources[2]));
    set_predicate(w, i.results[0], lanes, bits);
}
// ---- the table ----

// Widths of the result and the sources in bytes, "8=44"; p is a predicate.
struct Entry {
    Handler *run;
    std::string shape;
    bool copies;
};
typedef std::map<std::string, Entry> Table;

template <class T, class Compare> void add_comparison(Table &t, const std::string &name) {
    std::string type = name.substr(name.rfind('.')), stem = name.substr(0, name.rfind('.'));
    std::string shape = "p=" + std::string(2, (char)('0' + sizeof(T)));
    t[name] = {compare<T, Compare, First>, shape, false};
    t[stem + ".and" + type] = {compare<T, Compare, And>, shape + "p", false};
    t[stem + ".or" + type] = {compare<T, Compare, Or>, shape + "p", false};
    t[stem + ".xor" + type] = {compare<T, Compare, Xor>, shape + "p", false};
}

// T as it is signed or not: what both have.
template <class T> void add_integer(Table &t, const std::string &type) {
    std::string w(1, (char)('0' + sizeof(T))), one = w + "=" + w, two = one + w;
    t["add" + type] = {binary<T, Add>, two, false};
    t["sub" + type] = {binary<T, Subtract>, two, false};
    t["mul.lo" + type] = {binary<T, Multiply>, two, false};
    t["mul.hi" + type] = {binary<T, MultiplyHigh>, two, false};
    t["mad.lo" + type] = {ternary<T, MultiplyAdd>, two + w, false};
    t["min" + type] = {binary<T, Least>, two, false};
    t["max" + type] = {binary<T, Largest>, two, false};
    t["div" + type] = {divide<T, false>, two, false};
    t["rem" + type] = {divide<T, true>, two, false};
    t["shr" + type] = {shift<T, false>, one + "4", false};
    t["neg" + type] = {unary<T, Negate>, one, false};
    t["abs" + type] = {unary<T, Absolute>, one, false};
    t["bfe" + type] = {extract_bits<T>, one + "44", false};
    add_comparison<T, Equal>(t, "setp.eq" + type);
    add_comparison<T, Unequal>(t, "setp.ne" + type);
    add_comparison<T, Less>(t, "setp.lt" + type);
    add_comparison<T, LessEqual>(t, "setp.le" + type);
    add_comparison<T, Greater>(t, "setp.gt" + type);
    add_comparison<T, GreaterEqual>(t, "setp.ge" + type);
}

template <class T> void add_bits(Table &t, const std::string &bits) {
    std::string w(1, (char)('0' + sizeof(T))), one = w + "=" + w, two = one + w;
    t["and.b" + bits] = {binary<T, And>, two, false};
    t["or.b" + bits] = {binary<T, Or>, two, false};
    t["xor.b" + bits] = {binary<T, Xor>, two, false};
    t["not.b" + bits] = {unary<T, Not>, one, false};
    t["shl.b" + bits] = {shift<T, true>, one + "4", false};
    t["shr.b" + bits] = {shift<T, false>, one + "4", false};
    add_comparison<T, Equal>(t, "setp.eq.b" + bits);
    add_comparison<T, Unequal>(t, "setp.ne.b" + bits);
    for (const char *kind : {"b", "u", "s", "f"}) {
        t["mov." + (kind + bits)] = {unary<T, Same>, one, true};
        t["selp." + (kind + bits)] = {select<T>, two + "p", true};
    }
}

template <class T> void add_float(Table &t, const std::string &type) {
    std::string w(1, (char)('0' + sizeof(T))), one = w + "=" + w, two = one + w;
    for (const char *rounding : {".rn", ""}) {
        t["add" + (rounding + type)] = {binary<T, Add>, two, false};
        t["sub" + (rounding + type)] = {binary<T, Subtract>, two, false};
        t["mul" + (rounding + type)] = {binary<T, Multiply>, two, false};
    }
    t["div.rn" + type] = {binary<T, Divide>, two, false};
    t["fma.rn" + type] = {ternary<T, MultiplyAdd>, two + w, false};
    t["min" + type] = {binary<T, Least>, two, false};
    t["max" + type] = {binary<T, Largest>, two, false};
    t["copysign" + type] = {binary<T, CopySign>, two, false};
    t["neg" + type] = {unary<T, Negate>, one, false};
    t["abs" + type] = {unary<T, Absolute>, one, false};
    t["sqrt.rn" + type] = {unary<T, Root>, one, false};
    t["rcp.rn" + type] = {unary<T, Reciprocal>, one, false};
    add_comparison<T, Equal>(t, "setp.eq" + type);
    add_comparison<T, Unequal>(t, "setp.ne" + type);
    add_comparison<T, Less>(t, "setp.lt" + type);
    add_comparison<T, LessEqual>(t, "setp.le" + type);
    add_comparison<T, Greater>(t, "setp.gt" + type);
    add_comparison<T, GreaterEqual>(t, "setp.ge" + type);
    add_comparison<T, EqualOrNan>(t, "setp.equ" + type);
    add_comparison<T, UnequalOrNan>(t, "setp.neu" + type);
    add_comparison<T, LessOrNan>(t, "setp.ltu" + type);
    add_comparison<T, LessEqualOrNan>(t, "setp.leu" + type);
    add_comparison<T, GreaterOrNan>(t, "setp.gtu" + type);
    add_comparison<T, GreaterEqualOrNan>(t, "setp.geu" + type);
    add_comparison<T, NoNan>(t, "setp.num" + type);
    add_comparison<T, AnyNan>(t, "setp.nan" + type);
}

void add_words(Table &t) { // of 32 and 64 bits
    t["mul.wide.u16"] = {multiply_wide<uint16_t, uint32_t, false>, "4=22", false};
    t["mul.wide.s16"] = {multiply_wide<int16_t, int32_t, false>, "4=22", false};
    t["mul.wide.u32"] = {multiply_wide<uint32_t, uint64_t, false>, "8=44", false};
    t["mul.wide.s32"] = {multiply_wide<int32_t, int64_t, false>, "8=44", false};
    t["mad.wide.u32"] = {multiply_wide<uint32_t, uint64_t, true>, "8=448", false};
    t["mad.wide.s32"] = {multiply_wide<int32_t, int64_t, true>, "8=448", false};
    t["bfi.b32"] = {insert_bits<uint32_t>, "4=4444", false};
    t["bfi.b64"] = {insert_bits<uint64_t>, "8=8844", false};
    t["dp4a.s32.s32"] = {ternary<uint32_t, Dot4<true, true>>, "4=444", false};
    t["dp4a.u32.u32"] = {ternary<uint32_t, Dot4<false, false>>, "4=444", false};
    t["dp4a.s32.u32"] = {ternary<uint32_t, Dot4<true, false>>, "4=444", false};
    t["dp4a.u32.s32"] = {ternary<uint32_t, Dot4<false, true>>, "4=444", false};
    t["prmt.b32"] = {ternary<uint32_t, Permute>, "4=444", false};
    t["shf.l.wrap.b32"] = {ternary<uint32_t, FunnelLeft>, "4=444", false};
    t["shf.r.wrap.b32"] = {ternary<uint32_t, FunnelRight>, "4=444", false};
    t["lop3.b32"] = {logic3, "4=4444", false};
    t["popc.b32"] = {count_bits<uint32_t, Population>, "4=4", false};
    t["popc.b64"] = {count_bits<uint64_t, Population>, "4=8", false};
    t["clz.b32"] = {count_bits<uint32_t, LeadingZeros>, "4=4", false};
    t["clz.b64"] = {count_bits<uint64_t, LeadingZeros>, "4=8", false};
    t["brev.b32"] = {unary<uint32_t, Reversed>, "4=4", false};
}

void add_others(Table &t) {
    t["ex2.approx.ftz.f32"] = {unary<float, Exp2Flushed>, "4=4", false};
    t["ex2.approx.f32"] = {unary<float, Exp2>, "4=4", false};
    t["lg2.approx.ftz.f32"] = {unary<float, Log2Flushed>, "4=4", false};
    t["lg2.approx.f32"] = {unary<float, Log2>, "4=4", false};
    t["rcp.approx.ftz.f32"] = {unary<float, ReciprocalFlushed>, "4=4", false};
    t["rcp.approx.ftz.f64"] = {unary<double, ReciprocalFlushed>, "8=8", false};
    t["rsqrt.approx.f32"] = {unary<float, ReciprocalRoot>, "4=4", false};
    t["tanh.approx.f32"] = {unary<float, Tanh>, "4=4", false};
    t["fma.rm.f32"] = {ternary<float, MultiplyAddDown>, "4=444", false};
    t["and.pred"] = {predicates<And>, "p=pp", false};
    t["or.pred"] = {predicates<Or>, "p=pp", false};
    t["xor.pred"] = {predicates<Xor>, "p=pp", false};
    t["not.pred"] = {predicates<NotFirst>, "p=p", false};
    t["mov.pred"] = {predicates<First>, "p=p", true};
    // Addresses of all spaces but shared and local ones are those of the host (memory.cpp).
    for (const char *name : {"cvta.global.u64", "cvta.to.global.u64", "cvta.param.u64",
                             "cvta.to.param.u64", "cvta.const.u64", "cvta.to.const.u64"})
        t[name] = {unary<uint64_t, Same>, "8=8", true};
}

const Table &table() {
    static Table t;
    if (!t.empty()) return t;
    add_integer<uint16_t>(t, ".u16"), add_integer<int16_t>(t, ".s16");
    add_integer<uint32_t>(t, ".u32"), add_integer<int32_t>(t, ".s32");
    add_integer<uint64_t>(t, ".u64"), add_integer<int64_t>(t, ".s64");
    add_bits<uint16_t>(t, "16"), add_bits<uint32_t>(t, "32"), add_bits<uint64_t>(t, "64");
    add_float<float>(t, ".f32"), add_float<double>(t, ".f64");
    add_words(t);
    add_others(t);
    return t;
}

// ---- words of parts ----

// mov.b32 %r1, {%rs1, %rs2} and back; the first part has the low bits.
void pack(Warp &w, const Instruction &i, uint32_t lanes) {
    unsigned bits = 8 * i.sources[0].width;
    each(lanes, [&](unsigned l) {
        uint64_t word = 0;
        for (size_t k = 0; k < i.sources.size(); k++)
            word |= lane_bits(w, i.sources[k], l) << (bits * k);
        set_lane(w, i.results[0], l, word);
    });
}
void unpack(Warp &w, const Instruction &i, uint32_t lanes) {
    each(lanes, [&](unsigned l) {
        uint64_t word = lane_bits(w, i.sources[0], l);
        for (size_t k = 0; k < i.results.size(); k++)
            if (i.results[k].kind != Operand::NONE)
                set_lane(w, i.results[k], l, word >> (8 * i.results[k].width * k));
    });
}

bool decode_parts(Kernel &kernel, Instruction &i, const Statement &s) {
    if (s.operands[0][0] != '{' && s.operands[1][0] != '{') return false;
    unsigned width = (unsigned)atoi(s.opcode.c_str() + strlen("mov.b")) / 8;
    std::vector<std::string> to = parts(s.operands[0]), from = parts(s.operands[1]);
    for (const std::string &one : to)
        i.results.push_back(operand(kernel, i, one, width / (unsigned)to.size()));
    for (const std::string &one : from)
        i.sources.push_back(operand(kernel, i, one, width / (unsigned)from.size()));
    i.run = from.size() > 1 ? pack : unpack;
    return true;
}

} // namespace

bool decode_arithmetic(Kernel &kernel, Instruction &i, const Statement &s) {
    auto found = table().find(s.opcode);
    if (found == table().end()) return false;
    if (found->second.copies && s.operands.size() == 2 && decode_parts(kernel, i, s)) return true;
    const std::string &shape = found->second.shape;
    if (s.operands.size() != shape.size() - 1) reject(kernel, i, "not so many operands");
    for (size_t k = 0; k < s.operands.size(); k++) {
        char c = k ? shape[k + 1] : shape[0];
        unsigned width = c == 'p' ? (unsigned)PREDICATE : (unsigned)(c - '0');
        Operand o = operand(kernel, i, s.operands[k], width);
        if (o.width != width) reject(kernel, i, "another width: " + s.operands[k]);
        (k ? i.sources : i.results).push_back(o);
    }
    i.run = found->second.run;
    i.copies = found->second.copies;
    return true;
}

} // namespace ptx
