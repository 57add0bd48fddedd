// Log-probabilities and entropy of a softmax over a row of logits, and their gradient, without the row in float32.
//
// Sums are taken in float over short pieces and in double over those, in one order.

#pragma once

#include <algorithm>

#include "threads.hpp"
#include "vectors.hpp"

namespace {

constexpr int PIECE = 1024;      // logits
constexpr float LEAST = -87.0f;  // of a logarithm whose exponential counts

// Logit j of the row, divided by the temperature, less `shift`; lanes beyond the row vanish.
template <typename T>
inline Vector shifted(const T* logits, int count, float scale, float shift) {
    const Vector z = load(logits, count) * scale - shift;
    const Vector nothing = splat(LEAST - 1);
    return larger(nothing, count >= LANES ? z : (lane_numbers() < count ? z : nothing));  // in this order NaN stays
}

// `ids` (rows, per_row); `normaliser` (rows) is log(sum(exp(logits / temperature))), for the gradient.
template <typename T>
void score(const T* logits, int64_t stride, int64_t rows, int size, float temperature, const int64_t* ids, int per_row,
           float* logprobs, float* entropy, float* normaliser) {
    const float scale = 1.0f / temperature;
    for_each(rows, rows * size * 4, [&](int64_t r) {
        const T* row = logits + r * stride;
        Vector most = splat(-INFINITY);
        for (int j = 0; j < size; j += LANES) {
            const Vector x = load(row + j, size - j);
            most = larger(most, size - j >= LANES ? x : (lane_numbers() < size - j ? x : splat(-INFINITY)));
        }
        const float top = largest(most) * scale;
        double total = 0, weighted = 0;
        for (int start = 0; start < size; start += PIECE) {
            const int end = std::min(size, start + PIECE);
            Vector part = Vector{}, part_weighted = Vector{};
            for (int j = start; j < end; j += LANES) {
                const Vector z = shifted(row + j, end - j, scale, top), e = exponential(z);
                part += e;
                part_weighted += e * z;
            }
            total += sum(part);
            weighted += sum(part_weighted);
        }
        const float log_total = logf(float(total));
        for (int k = 0; k < per_row; k++)
            logprobs[r * per_row + k] = widen(row[ids[r * per_row + k]]) * scale - top - log_total;
        entropy[r] = log_total - float(weighted / total);
        normaliser[r] = top + log_total;
    });
}

// With p the probabilities: d log p_k / d z_j = [j = k] - p_j and d H / d z_j = -p_j (log p_j + H).
template <typename T>
void score_gradient(const T* logits, int64_t stride, int64_t rows, int size, float temperature, const int64_t* ids,
                    int per_row, const float* entropy, const float* normaliser, const float* for_logprobs,
                    const float* for_entropy, T* gradient) {
    const float scale = 1.0f / temperature;
    for_each(rows, rows * size * 4, [&](int64_t r) {
        const T* row = logits + r * stride;
        const int64_t* own = ids + r * per_row;
        T* out = gradient + r * size;
        float from_logprobs = 0;
        for (int k = 0; for_logprobs && k < per_row; k++) from_logprobs += for_logprobs[r * per_row + k];
        const float from_entropy = for_entropy ? for_entropy[r] : 0;
        const auto smooth = [&](const T* at, int count) {
            const Vector z = shifted(at, count, scale, normaliser[r]);
            return exponential(z) * ((z + entropy[r]) * -from_entropy - from_logprobs);
        };
        for (int j = 0; j < size; j += LANES) store(smooth(row + j, size - j) * scale, out + j, size - j);
        for (int k = 0; for_logprobs && k < per_row; k++) {
            float total = smooth(row + own[k], 1)[0];
            for (int other = 0; other < per_row; other++)
                if (own[other] == own[k]) total += for_logprobs[r * per_row + other];
            store(splat(total * scale), out + own[k], 1);
        }
    });
}

}  // namespace
