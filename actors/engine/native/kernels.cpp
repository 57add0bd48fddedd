// The decoder's operations on a CPU, for one step of the engine.
//
// Every row is computed alone and in one fixed order, so a result depends on that row's own tokens, never on its
// neighbours, on how a prompt was cut into pieces or on the number of threads. Arithmetic is float32 throughout;
// rounding to bfloat16 happens once, where a value is stored. What Python calls stands at the end of the file.

#include "attention.hpp"
#include "matmul.hpp"
#include "pool.hpp"
#include "sampling.hpp"
#include "scoring.hpp"
#include "threads.hpp"
#include "vectors.hpp"

namespace {

constexpr int LARGEST_HEAD = 1024;

// ---- Keys and values into the pool.

template <typename T>
struct Strided {
    const T* numbers;
    int64_t token_stride, head_stride;
    const T* at(int64_t token, int head) const { return numbers + token * token_stride + head * head_stride; }
};

template <typename T>
void store_kv(const Strided<T>& keys, const Strided<T>& values, const Pool<T>& pool, const int32_t* slots, int tokens) {
    for_each(tokens, int64_t(tokens) * pool.kv_heads * pool.key_size, [&](int64_t t) {
        if (slots[t] < 0) return;
        for (int h = 0; h < pool.kv_heads; h++) store_token(pool, h, slots[t], keys.at(t, h), values.at(t, h));
    });
}

// ---- Norms.

// 1 / sqrt(mean(x^2) + eps)
template <typename T>
inline float normaliser(const T* x, int size, float eps) {
    Vector squares = Vector{};
    for (int d = 0; d < size; d += LANES) {
        const Vector part = load(x + d, size - d);
        squares += part * part;
    }
    return 1.0f / sqrtf(sum(squares) / float(size) + eps);
}

template <typename T>
void add_rms_norm(const T* x, T* residual, const T* weight, T* out, int tokens, int size, float eps) {
    for_each(tokens, int64_t(tokens) * size, [&](int64_t t) {
        T *kept = residual + t * size, *target = out + t * size;
        if (x) {
            const T* row = x + t * size;
            for (int d = 0; d < size; d += LANES)
                store(load(row + d, size - d) + load(kept + d, size - d), kept + d, size - d);
        }
        const float factor = normaliser(kept, size, eps);
        for (int d = 0; d < size; d += LANES)
            store(load(kept + d, size - d) * factor * load(weight + d, size - d), target + d, size - d);
    });
}

// ---- Rotary embedding, the first half of a head against its second half, with an optional norm of each head before.

template <typename T>
inline void rotate(const T* head, const T* weight, float eps, const T* cosine, const T* sine, T* out, int size) {
    float x[LARGEST_HEAD];
    for (int d = 0; d < size; d += LANES) store(load(head + d, size - d), x + d, size - d);
    if (weight) {
        const float factor = normaliser(x, size, eps);
        for (int d = 0; d < size; d += LANES)
            store(load(x + d, size - d) * factor * load(weight + d, size - d), x + d, size - d);
    }
    const int half = size / 2;
    for (int d = 0; d < half; d += LANES) {
        const int count = half - d;
        const Vector a = load(x + d, count), b = load(x + half + d, count);
        store(a * load(cosine + d, count) - b * load(sine + d, count), out + d, count);
        store(b * load(cosine + half + d, count) + a * load(sine + half + d, count), out + half + d, count);
    }
}

template <typename T>
struct HeadNorms {
    const T *query, *key;  // weights, or null
    float eps;
};

template <typename T>
void rope_store(const T* qkv, T* query, const Pool<T>& pool, const T* cosine, const T* sine, const HeadNorms<T>& norms,
                const int32_t* slots, int tokens, int heads) {
    const int size = pool.key_size;
    const int64_t width = int64_t(heads + 2 * pool.kv_heads) * size;
    for_each(tokens, tokens * width, [&](int64_t t) {
        const T *row = qkv + t * width, *c = cosine + t * size, *s = sine + t * size;
        for (int h = 0; h < heads; h++)
            rotate(row + h * size, norms.query, norms.eps, c, s, query + (t * heads + h) * size, size);
        if (slots[t] < 0) return;
        const T *keys = row + heads * size, *values = keys + pool.kv_heads * size;
        for (int h = 0; h < pool.kv_heads; h++) {
            T key[LARGEST_HEAD];
            rotate(keys + h * size, norms.key, norms.eps, c, s, key, size);
            store_token(pool, h, slots[t], key, values + h * size);
        }
    });
}

// ---- Activation: silu(gate) * up.

template <typename T>
void silu_mul(const T* gate_up, T* out, int tokens, int size) {
    for_each(tokens, int64_t(tokens) * size, [&](int64_t t) {
        const T *gate = gate_up + t * 2 * size, *up = gate + size;
        T* target = out + t * size;
        for (int d = 0; d < size; d += LANES) {
            const int count = size - d;
            const Vector g = load(gate + d, count);
            const Integers positive = g > Vector{};
            const Vector e = exponential(positive ? -g : g);
            const Vector sigmoid = (positive ? splat(1.0f) : e) / (e + 1.0f);
            store(g * sigmoid * load(up + d, count), target + d, count);
        }
    });
}

}  // namespace

// ---- What Python calls: one function an operation and element type. Functions that return int return -1, or the
// index of the first sequence or slot that lies outside its tensors; then nothing was written.

extern "C" int thread_count() { return available_threads(); }

extern "C" int has_tiles() { return may_use_tiles(); }

extern "C" int64_t packed_numbers(int64_t outputs, int64_t inputs) { return packed_size(outputs, inputs); }

extern "C" void pack_bf16(const BFloat16* weight, BFloat16* packed, int64_t first, int64_t rows, int64_t inputs) {
    pack(weight, packed, first, rows, inputs);
}

extern "C" void linear_bf16(const BFloat16* rows, int64_t stride, const BFloat16* packed, const BFloat16* bias,
                            BFloat16* out, int64_t count, int64_t inputs, int64_t outputs) {
    linear(rows, stride, packed, bias, out, count, inputs, outputs);
}

#define EXPORT(T, SUFFIX)                                                                                              \
    extern "C" int attend_##SUFFIX(const T* query, int64_t token_stride, int64_t head_stride, T* keys, T* values,      \
                                   T* out, const Sequence* sequences, int count, int64_t rows, int heads,              \
                                   int kv_heads, int key_size, int value_size, int64_t capacity, float scale,          \
                                   float softcap, int window, const float* sinks) {                                    \
        const int bad = first_bad_sequence(sequences, count, rows, capacity);                                          \
        if (bad < 0)                                                                                                   \
            attend<T>({query, token_stride, head_stride, heads}, {keys, values, kv_heads, key_size, value_size,        \
                      capacity}, out, sequences, count, {scale, softcap, window, sinks});                              \
        return bad;                                                                                                    \
    }                                                                                                                  \
    extern "C" int store_kv_##SUFFIX(const T* k, int64_t k_token, int64_t k_head, const T* v, int64_t v_token,         \
                                     int64_t v_head, T* keys, T* values, const int32_t* slots, int tokens,             \
                                     int kv_heads, int key_size, int value_size, int64_t capacity) {                   \
        const int bad = first_bad_slot(slots, tokens, capacity);                                                       \
        if (bad < 0)                                                                                                   \
            store_kv<T>({k, k_token, k_head}, {v, v_token, v_head},                                                    \
                        {keys, values, kv_heads, key_size, value_size, capacity}, slots, tokens);                      \
        return bad;                                                                                                    \
    }                                                                                                                  \
    extern "C" int rope_store_##SUFFIX(const T* qkv, T* query, T* keys, T* values, const T* cosine, const T* sine,     \
                                       const T* q_norm, const T* k_norm, float eps, const int32_t* slots, int tokens,  \
                                       int heads, int kv_heads, int size, int64_t capacity) {                          \
        const int bad = first_bad_slot(slots, tokens, capacity);                                                       \
        if (bad < 0)                                                                                                   \
            rope_store<T>(qkv, query, {keys, values, kv_heads, size, size, capacity}, cosine, sine,                    \
                          {q_norm, k_norm, eps}, slots, tokens, heads);                                                \
        return bad;                                                                                                    \
    }                                                                                                                  \
    extern "C" void add_rms_norm_##SUFFIX(const T* x, T* residual, const T* weight, T* out, int tokens, int size,      \
                                          float eps) {                                                                 \
        add_rms_norm<T>(x, residual, weight, out, tokens, size, eps);                                                  \
    }                                                                                                                  \
    extern "C" void silu_mul_##SUFFIX(const T* gate_up, T* out, int tokens, int size) {                                \
        silu_mul<T>(gate_up, out, tokens, size);                                                                       \
    }                                                                                                                  \
    extern "C" void sample_##SUFFIX(const T* logits, int64_t row_stride, int rows, int size, int limit,                \
                                    float temperature, int top_k, double top_p, float min_p, const double* uniforms,   \
                                    int64_t* ids, float* logprobs, float* sampling_logprobs) {                         \
        sample<T>(logits, row_stride, rows, size, limit, {temperature, top_k, top_p, min_p}, uniforms, ids, logprobs,  \
                  sampling_logprobs);                                                                                  \
    }                                                                                                                  \
    extern "C" void score_##SUFFIX(const T* logits, int64_t stride, int64_t rows, int size, float temperature,         \
                                   const int64_t* ids, int per_row, float* logprobs, float* entropy,                   \
                                   float* normaliser) {                                                                \
        score<T>(logits, stride, rows, size, temperature, ids, per_row, logprobs, entropy, normaliser);                \
    }                                                                                                                  \
    extern "C" void score_gradient_##SUFFIX(                                                                           \
        const T* logits, int64_t stride, int64_t rows, int size, float temperature, const int64_t* ids, int per_row,   \
        const float* entropy, const float* normaliser, const float* for_logprobs, const float* for_entropy,            \
        T* gradient) {                                                                                                 \
        score_gradient<T>(logits, stride, rows, size, temperature, ids, per_row, entropy, normaliser, for_logprobs,    \
                          for_entropy, gradient);                                                                      \
    }

EXPORT(float, f32)
EXPORT(BFloat16, bf16)
