// The key-value pool of one layer: P tokens, P a multiple of 16, for each of the key-value heads.
//
// Keys lie in blocks of 16 tokens, transposed inside, so that one vector holds the same component of 16 keys:
//     float32     block | component | token
//     bfloat16    block | pair of components | token | component of the pair
// Values lie token by token. A whole block, of keys or of values, is one contiguous piece of memory.
//
// A sequence's tokens are two runs of the pool: a prefix of whole blocks, which it may share with others, and its own.

#pragma once

#include "vectors.hpp"

namespace {

constexpr int BLOCK = LANES;  // tokens

struct Sequence {  // one row of the table that Python builds once a step
    int32_t first_row, rows, length, prefix_start, prefix_length, own_start;
};

template <typename T>
struct Pool {
    T *keys, *values;
    int kv_heads, key_size, value_size;
    int64_t capacity;

    T* keys_of(int head) const { return keys + head * capacity * key_size; }
    T* values_of(int head) const { return values + head * capacity * value_size; }
};

// Pool token where the block that holds `position`, a multiple of 16, begins.
inline int64_t place(const Sequence& sequence, int position) {
    return position < sequence.prefix_length ? int64_t(sequence.prefix_start) + position
                                             : int64_t(sequence.own_start) + (position - sequence.prefix_length);
}

inline bool is_run(int64_t start, int64_t tokens, int64_t capacity) {
    return start >= 0 && start % BLOCK == 0 && start + (tokens + BLOCK - 1) / BLOCK * BLOCK <= capacity;
}

// The first sequence that reaches outside its tensors, or -1.
inline int first_bad_sequence(const Sequence* sequences, int count, int64_t rows, int64_t capacity) {
    for (int n = 0; n < count; n++) {
        const Sequence& s = sequences[n];
        const bool has_rows = s.first_row >= 0 && s.rows >= 0 && int64_t(s.first_row) + s.rows <= rows;
        const int shared = s.prefix_length < s.length ? s.prefix_length : s.length;
        if (!has_rows || s.rows > s.length || s.prefix_length < 0 || s.prefix_length % BLOCK) return n;
        if (shared > 0 && !is_run(s.prefix_start, shared, capacity)) return n;
        if (s.length > shared && !is_run(s.own_start, s.length - shared, capacity)) return n;
    }
    return -1;
}

// The first slot that lies outside the pool, or -1. Slot -1 is no slot: its token is not stored.
inline int first_bad_slot(const int32_t* slots, int count, int64_t capacity) {
    for (int n = 0; n < count; n++)
        if (slots[n] < -1 || slots[n] >= capacity) return n;
    return -1;
}

inline void store_key(const float* key, float* block, int lane, int size) {
    for (int d = 0; d < size; d++) block[d * BLOCK + lane] = key[d];
}

inline void store_key(const BFloat16* key, BFloat16* block, int lane, int size) {
    for (int d = 0; d < size; d += 2) memcpy(block + d * BLOCK + 2 * lane, key + d, 2 * sizeof(BFloat16));
}

template <typename T>
inline void store_token(const Pool<T>& pool, int head, int64_t slot, const T* key, const T* value) {
    store_key(key, pool.keys_of(head) + slot / BLOCK * BLOCK * pool.key_size, int(slot % BLOCK), pool.key_size);
    memcpy(pool.values_of(head) + slot * pool.value_size, value, pool.value_size * sizeof(T));
}

}  // namespace
