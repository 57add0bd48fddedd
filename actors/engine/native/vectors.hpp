// Sixteen numbers at a time: element types, vectors, and the few functions of them that the kernels need.
//
// Vectors are the compiler's own extension (GCC, Clang), so the same source serves every instruction set.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int LANES = 16;

typedef float Vector __attribute__((vector_size(64)));
typedef int32_t Integers __attribute__((vector_size(64)));  // also masks: all bits of a lane set, or none
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));

// ---- Element types: how numbers lie in memory. Arithmetic is float throughout.

struct BFloat16 {
    uint16_t bits;
};

inline float widen(float number) { return number; }

inline float widen(BFloat16 number) {
    const uint32_t bits = uint32_t(number.bits) << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

// ---- Loading and storing. The forms with a `count` touch only that many elements; the other lanes are zero.

inline Vector splat(float number) { return number - Vector{}; }

inline Vector load(const float* from) {
    Vector vector;
    memcpy(&vector, from, sizeof vector);
    return vector;
}

inline Vector load(const BFloat16* from) {
    Halves halves;
    memcpy(&halves, from, sizeof halves);
    return (Vector)(__builtin_convertvector(halves, Words) << 16);
}

inline void store(Vector vector, float* to) { memcpy(to, &vector, sizeof vector); }

inline void store(Vector vector, BFloat16* to) {  // rounds to nearest, ties to even; NaN stays NaN
    const Words bits = (Words)vector;
    const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const Words quiet = (bits >> 16) | 0x40u;
    const Integers not_a_number = vector != vector;
    const Halves halves = __builtin_convertvector(not_a_number ? quiet : rounded, Halves);
    memcpy(to, &halves, sizeof halves);
}

template <typename T>
inline Vector load(const T* from, int count) {
    if (count >= LANES) return load(from);
    T part[LANES] = {};
    memcpy(part, from, count * sizeof(T));
    return load(part);
}

template <typename T>
inline void store(Vector vector, T* to, int count) {
    if (count >= LANES) return store(vector, to);
    T part[LANES];
    store(vector, part);
    memcpy(to, part, count * sizeof(T));
}

// ---- Across lanes, always in the same order.

inline Integers lane_numbers() {
    return Integers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

inline float sum(Vector vector) {
    float total[LANES];
    memcpy(total, &vector, sizeof vector);
    for (int width = LANES / 2; width; width /= 2)
        for (int lane = 0; lane < width; lane++) total[lane] += total[lane + width];
    return total[0];
}

inline float largest(Vector vector) {
    float best = vector[0];
    for (int lane = 1; lane < LANES; lane++) best = vector[lane] > best ? vector[lane] : best;
    return best;
}

// ---- Functions. Polynomials are minimax fits of this project (error below 4e-9 before rounding).

// e^x for x <= 0 to a relative error of 2e-7; 0 below -87. x = n log(2) + r with |r| <= log(2) / 2.
inline Vector exponential(Vector x) {
    const Vector lowest = splat(-87.0f);
    const Integers vanishing = x < lowest;
    const Vector clamped = vanishing ? lowest : x;
    const Integers whole = __builtin_convertvector(clamped * 1.44269504088896341f - 0.5f, Integers);  // truncates
    const Vector n = __builtin_convertvector(whole, Vector);
    const Vector r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;  // log(2) in two parts, the first one exact
    Vector p = splat(1.3813144760e-3f);
    p = p * r + 8.3694187924e-3f;
    p = p * r + 4.1668456048e-2f;
    p = p * r + 1.6666515172e-1f;
    p = p * r + 4.9999994040e-1f;
    p = p * (r * r) + r + 1.0f;
    const Vector power = (Vector)((whole + 127) << 23);
    return vanishing ? Vector{} : p * power;
}

inline Vector hyperbolic_tangent(Vector x) {
    const Vector size = x < Vector{} ? -x : x;
    const Vector e = exponential(size * -2.0f);
    const Vector square = x * x;
    Vector p = splat(-5.8951582760e-3f);
    p = p * square + 2.0795971155e-2f;
    p = p * square - 5.3783830255e-2f;
    p = p * square + 1.3331924379e-1f;
    p = p * square - 3.3333298564e-1f;
    const Vector small = x + x * square * p;
    const Vector large = (1.0f - e) / (1.0f + e);
    return size < 0.6f ? small : (x < Vector{} ? -large : large);
}

// ---- Scratch memory, aligned for vectors. What it held is lost when it grows.

template <typename Number>
struct Scratch {
    Number* numbers = nullptr;
    int64_t size = 0;

    Scratch() = default;
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { free(numbers); }

    void reserve(int64_t count) {
        if (count <= size) return;
        free(numbers);
        size = (count + LANES - 1) / LANES * LANES;
        numbers = static_cast<Number*>(aligned_alloc(sizeof(Vector), size * sizeof(Number)));
        if (!numbers) abort();
    }
};

}  // namespace
