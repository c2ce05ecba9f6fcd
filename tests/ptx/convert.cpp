// cvt: between integers of all widths, floats, half and bfloat16.
#include "tests/ptx/interpreter.h"

#include <cfenv>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>

extern "C" {
#include "weights/quant.h"
}

namespace ptx {

namespace {

enum Rounding : uint8_t { NEAREST, ZERO, DOWN, UP };

// Stored as their bits.
struct Half {
    uint16_t bits;
};
struct Bfloat {
    uint16_t bits;
};

uint16_t bfloat_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (f != f) return 0x7fff;
    uint32_t rest = bits & 0xffff, kept = bits >> 16;
    return (uint16_t)(kept + (rest > 0x8000 || (rest == 0x8000 && (kept & 1))));
}

float value_of(Half h) {
    return half_to_float(h.bits);
}
float value_of(Bfloat b) {
    uint32_t bits = (uint32_t)b.bits << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
template <class T> T value_of(T value) {
    return value;
}

template <class T> T whole(T value, Rounding rounding) {
    switch (rounding) {
    case ZERO: return std::trunc(value);
    case DOWN: return std::floor(value);
    case UP: return std::ceil(value);
    default: return std::nearbyint(value);
    }
}

// A NaN is 0, what is too large the largest.
template <class D, class S> D to_integer(S value, Rounding rounding) {
    if (value != value) return 0;
    S rounded = whole(value, rounding);
    if (rounded <= (S)std::numeric_limits<D>::min()) return std::numeric_limits<D>::min();
    if (rounded >= (S)std::numeric_limits<D>::max()) return std::numeric_limits<D>::max();
    return (D)rounded;
}

// Variant: the rounding, and flags.
enum { ROUNDING = 3, SATURATE = 4, TO_WHOLE = 8 };

template <class D, class S> D converted(S from, uint8_t variant) {
    Rounding rounding = (Rounding)(variant & ROUNDING);
    auto value = value_of(from);
    typedef decltype(value) V;
    if constexpr (std::is_same_v<D, Half>) {
        return {float_to_half((float)value)};
    } else if constexpr (std::is_same_v<D, Bfloat>) {
        return {bfloat_bits((float)value)};
    } else if constexpr (std::is_integral_v<D> && std::is_floating_point_v<V>) {
        return to_integer<D>(value, rounding);
    } else if constexpr (std::is_integral_v<D>) {
        if (!(variant & SATURATE)) return (D)value;
        __int128 wide = value, least = std::numeric_limits<D>::min();
        __int128 most = std::numeric_limits<D>::max();
        return (D)(wide < least ? least : wide > most ? most : wide);
    } else {
        if constexpr (std::is_floating_point_v<V>)
            if (variant & TO_WHOLE) value = whole(value, rounding);
        D result = (D)value;
        if (variant & SATURATE) result = result > 0 ? result < 1 ? result : 1 : 0; // NaN: 0
        return result;
    }
}

// A narrow value in a wide register is extended as its type says.
template <class D> uint64_t extended(D value) {
    if constexpr (std::is_integral_v<D> && std::is_signed_v<D>) return (uint64_t)(int64_t)value;
    if constexpr (std::is_integral_v<D>) return value;
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class D, class S> void convert(Warp &w, const Instruction &i, uint32_t lanes) {
    const Operand &to = i.results[0], &from = i.sources[0];
    if (to.width == sizeof(D) && from.width == sizeof(S)) {
        D *d = values<D>(w, to);
        const S *s = values<S>(w, from);
        uint8_t variant = i.variant;
        each(lanes, [=](unsigned l) { d[l] = converted<D, S>(s[l], variant); });
        return;
    }
    each(lanes, [&](unsigned l) {
        uint64_t bits = lane_bits(w, from, l);
        S value;
        memcpy(&value, &bits, sizeof value);
        set_lane(w, to, l, extended(converted<D, S>(value, i.variant)));
    });
}

// The first operand goes to the upper half.
template <class D> void convert_pair(Warp &w, const Instruction &i, uint32_t lanes) {
    uint32_t *d = values<uint32_t>(w, i.results[0]);
    const float *high = values<float>(w, i.sources[0]), *low = values<float>(w, i.sources[1]);
    each(lanes, [=](unsigned l) {
        d[l] = (uint32_t)converted<D, float>(high[l], 0).bits << 16 |
               converted<D, float>(low[l], 0).bits;
    });
}

template <class D> Handler *from_type(const std::string &s) {
    if (s == "u8") return convert<D, uint8_t>;
    if (s == "s8") return convert<D, int8_t>;
    if (s == "u16") return convert<D, uint16_t>;
    if (s == "s16") return convert<D, int16_t>;
    if (s == "u32") return convert<D, uint32_t>;
    if (s == "s32") return convert<D, int32_t>;
    if (s == "u64") return convert<D, uint64_t>;
    if (s == "s64") return convert<D, int64_t>;
    if (s == "f16") return convert<D, Half>;
    if (s == "bf16") return convert<D, Bfloat>;
    if (s == "f32") return convert<D, float>;
    if (s == "f64") return convert<D, double>;
    return nullptr;
}

Handler *handler_of(const std::string &d, const std::string &s) {
    if (d == "u8") return from_type<uint8_t>(s);
    if (d == "s8") return from_type<int8_t>(s);
    if (d == "u16") return from_type<uint16_t>(s);
    if (d == "s16") return from_type<int16_t>(s);
    if (d == "u32") return from_type<uint32_t>(s);
    if (d == "s32") return from_type<int32_t>(s);
    if (d == "u64") return from_type<uint64_t>(s);
    if (d == "s64") return from_type<int64_t>(s);
    if (d == "f16") return from_type<Half>(s);
    if (d == "bf16") return from_type<Bfloat>(s);
    if (d == "f32") return from_type<float>(s);
    if (d == "f64") return from_type<double>(s);
    if (d == "f16x2" && s == "f32") return convert_pair<Half>;
    if (d == "bf16x2" && s == "f32") return convert_pair<Bfloat>;
    return nullptr;
}

// Other roundings than to nearest exist where the result is an integer, or a whole float.
bool take_modifier(const std::string &m, uint8_t *variant) {
    static const std::map<std::string, uint8_t> KNOWN = {
        {"rn", NEAREST},          {"sat", SATURATE},        {"rni", NEAREST | TO_WHOLE},
        {"rzi", ZERO | TO_WHOLE}, {"rmi", DOWN | TO_WHOLE}, {"rpi", UP | TO_WHOLE}};
    auto found = KNOWN.find(m);
    if (found == KNOWN.end()) return false;
    *variant |= found->second;
    return true;
}

} // namespace

bool decode_convert(Kernel &kernel, Instruction &i, const Statement &s) {
    if (s.opcode.compare(0, 4, "cvt.")) return false;
    std::vector<std::string> words;
    for (size_t at = 4, dot; at <= s.opcode.size(); at = dot + 1) {
        dot = s.opcode.find('.', at);
        if (dot == std::string::npos) dot = s.opcode.size();
        words.push_back(s.opcode.substr(at, dot - at));
    }
    if (words.size() < 2) return false;
    std::string from = words.back(), to = words[words.size() - 2];
    for (size_t k = 0; k + 2 < words.size(); k++)
        if (!take_modifier(words[k], &i.variant)) return false;
    i.run = handler_of(to, from);
    if (!i.run) return false;
    i.results.push_back(operand(kernel, i, s.operands.at(0), 4));
    for (size_t k = 1; k < s.operands.size(); k++)
        i.sources.push_back(operand(kernel, i, s.operands[k], 4));
    bool pair = to.find("x2") != std::string::npos;
    if (i.sources.size() != (pair ? 2 : 1)) reject(kernel, i, "not so many operands");
    return true;
}

} // namespace ptx
