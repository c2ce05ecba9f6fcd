// What arithmetic instructions do to one lane, as types with a function `of`: arithmetic.cpp
// applies them to a warp.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace ptx {

template <class T> using Unsigned = std::make_unsigned_t<T>;

// Integers wrap around; floats round to nearest, which is the compiler's arithmetic.
#define OPERATION_OF_TWO(name, of_integers, of_floats)                                             \
    struct name {                                                                                  \
        template <class T> static T of(T a, T b) {                                                 \
            if constexpr (std::is_integral_v<T>) {                                                 \
                uint64_t x = (uint64_t)a, y = (uint64_t)b;                                         \
                return (T)(of_integers);                                                           \
            } else {                                                                               \
                T x = a, y = b;                                                                    \
                return (T)(of_floats);                                                             \
            }                                                                                      \
        }                                                                                          \
    }
OPERATION_OF_TWO(Add, x + y, x + y);
OPERATION_OF_TWO(Subtract, x - y, x - y);
OPERATION_OF_TWO(Multiply, x *y, x *y);
OPERATION_OF_TWO(And, x &y, 0 * x * y);
OPERATION_OF_TWO(Or, x | y, 0 * x * y);
OPERATION_OF_TWO(Xor, x ^ y, 0 * x * y);
OPERATION_OF_TWO(CopySign, 0 * x * y, std::copysign(y, x)); // PTX names the sign first

// The other one of a NaN; -0 is below 0.
struct Least {
    template <class T> static T of(T a, T b) {
        if (a != a) return b;
        if constexpr (!std::is_integral_v<T>)
            if (a == b) return std::signbit(a) ? a : b;
        return b < a ? b : a;
    }
};
struct Largest {
    template <class T> static T of(T a, T b) {
        if (a != a) return b;
        if constexpr (!std::is_integral_v<T>)
            if (a == b) return std::signbit(a) ? b : a;
        return b > a ? b : a;
    }
};
struct MultiplyHigh {
    template <class T> static T of(T a, T b) {
        typedef std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128> Wide;
        return (T)((Wide)a * (Wide)b >> (8 * sizeof(T)));
    }
};

struct Negate {
    template <class T> static T of(T a) {
        if constexpr (std::is_integral_v<T>) return (T)(0 - (Unsigned<T>)a);
        return -a;
    }
};
struct Absolute {
    template <class T> static T of(T a) {
        if constexpr (std::is_integral_v<T>) return a < 0 ? Negate::of(a) : a;
        return std::fabs(a);
    }
};
struct Not {
    template <class T> static T of(T a) {
        return (T)~a;
    }
};
struct Same {
    template <class T> static T of(T a) {
        return a;
    }
};

template <class T> T flushed(T a) { // .ftz
    return std::fabs(a) < std::numeric_limits<T>::min() ? std::copysign((T)0, a) : a;
}
// The GPU's approximations have a small error of their own; here is the nearest value.
struct Exp2Flushed {
    static float of(float a) {
        return flushed(std::exp2(flushed(a)));
    }
};
struct Exp2 {
    static float of(float a) {
        return std::exp2(a);
    }
};
struct Log2Flushed {
    static float of(float a) {
        return std::log2(flushed(a));
    }
};
struct Log2 {
    static float of(float a) {
        return std::log2(a);
    }
};
struct Reciprocal {
    template <class T> static T of(T a) {
        return 1 / a;
    }
};
struct ReciprocalFlushed {
    static float of(float a) {
        return flushed(1 / flushed(a));
    }
    static double of(double a) { // the upper word alone
        double d = flushed(1 / flushed(a));
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        bits &= 0xffffffff00000000u;
        memcpy(&d, &bits, sizeof d);
        return d;
    }
};
struct Root {
    template <class T> static T of(T a) {
        return std::sqrt(a);
    }
};
struct ReciprocalRoot {
    template <class T> static T of(T a) {
        return 1 / std::sqrt(a);
    }
};
struct Tanh {
    static float of(float a) {
        return std::tanh(a);
    }
};

struct MultiplyAdd {
    template <class T> static T of(T a, T b, T c) {
        if constexpr (std::is_integral_v<T>)
            return (T)((uint64_t)a * (uint64_t)b + (uint64_t)c);
        else
            return std::fma(a, b, c);
    }
};
// Rounded down. The product of two floats is exact in double; the sum may not be, so its error
// (Knuth's two-sum) decides.
struct MultiplyAddDown {
    static float of(float a, float b, float c) {
        double p = (double)a * b, s = p + c, back = s - p;
        double error = (p - (s - back)) + (c - back);
        float f = (float)s;
        bool above = (double)f > s || ((double)f == s && error < 0);
        return above ? std::nextafter(f, -INFINITY) : f;
    }
};
template <bool SIGNED_A, bool SIGNED_B> struct Dot4 {
    static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
        for (int i = 0; i < 32; i += 8) {
            int x = SIGNED_A ? (int8_t)(a >> i) : (uint8_t)(a >> i);
            int y = SIGNED_B ? (int8_t)(b >> i) : (uint8_t)(b >> i);
            c += (uint32_t)(x * y);
        }
        return c;
    }
};
// Byte i of the result is the one of b:a that the nibble i of c names; its top bit: the byte's
// sign.
struct Permute {
    static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
        uint64_t both = (uint64_t)b << 32 | a;
        uint32_t found = 0;
        for (int i = 0; i < 4; i++) {
            uint32_t which = c >> (4 * i) & 15, byte = (uint32_t)(both >> (8 * (which & 7))) & 255;
            if (which & 8) byte = byte & 128 ? 255 : 0;
            found |= byte << (8 * i);
        }
        return found;
    }
};
struct FunnelLeft {
    static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
        return (uint32_t)((((uint64_t)b << 32 | a) << (c & 31)) >> 32);
    }
};
struct FunnelRight {
    static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
        return (uint32_t)(((uint64_t)b << 32 | a) >> (c & 31));
    }
};

struct Divide {
    template <class T> static T of(T a, T b) {
        return a / b;
    }
};

struct Population {
    static int of(uint32_t a) {
        return __builtin_popcount(a);
    }
    static int of(uint64_t a) {
        return __builtin_popcountll(a);
    }
};
struct LeadingZeros {
    static int of(uint32_t a) {
        return a ? __builtin_clz(a) : 32;
    }
    static int of(uint64_t a) {
        return a ? __builtin_clzll(a) : 64;
    }
};
struct Reversed {
    static uint32_t of(uint32_t a) {
        uint32_t b = 0;
        for (int k = 0; k < 32; k++)
            b |= (a >> k & 1) << (31 - k);
        return b;
    }
};

struct First {
    static uint32_t of(uint32_t a, uint32_t) {
        return a;
    }
};
struct NotFirst {
    static uint32_t of(uint32_t a, uint32_t) {
        return ~a;
    }
};

// ---- comparisons: false where one is a NaN, or true ----

#define COMPARISON(name, condition)                                                                \
    struct name {                                                                                  \
        template <class T> static bool of(T a, T b) {                                              \
            return condition;                                                                      \
        }                                                                                          \
    }
COMPARISON(Equal, a == b);
COMPARISON(Unequal, a<b || a> b);
COMPARISON(Less, a < b);
COMPARISON(LessEqual, a <= b);
COMPARISON(Greater, a > b);
COMPARISON(GreaterEqual, a >= b);
COMPARISON(EqualOrNan, !(a < b || a > b));
COMPARISON(UnequalOrNan, !(a == b));
COMPARISON(LessOrNan, !(a >= b));
COMPARISON(LessEqualOrNan, !(a > b));
COMPARISON(GreaterOrNan, !(a <= b));
COMPARISON(GreaterEqualOrNan, !(a < b));
COMPARISON(NoNan, a == a && b == b);
COMPARISON(AnyNan, a != a || b != b);

} // namespace ptx
