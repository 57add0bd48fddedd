// Attention of query rows over the pool.
//
// A tile is up to 8 rows that read the same keys: the query heads of one key-value head, and neighbouring tokens of
// one sequence. Every row of it goes through the same operations in the same order as if it were alone, over keys in
// the order of their positions, so that its result does not depend on the tile.

#pragma once

#include <algorithm>
#include <vector>

#include "pool.hpp"
#include "threads.hpp"

namespace {

constexpr int TILE = 8;              // rows
constexpr int MULTIPLICATIONS = 16;  // that take as long as going through one number in the other kernels

struct Softmax {
    float scale, softcap;  // softcap 0: none
    int window;            // in tokens; 0: none
    const float* sinks;    // one a query head, or null
};

// The rows of one tile. Row r sees the positions from begins[r] to ends[r] - 1.
template <typename T>
struct Rows {
    const float* query[TILE];
    T* out[TILE];
    int begins[TILE], ends[TILE], head[TILE];
};

// ---- Scores of `R` rows for the 16 keys of a block.

inline void load_pair(const float* keys, Vector* even, Vector* odd) {
    *even = load(keys);
    *odd = load(keys + BLOCK);
}

inline void load_pair(const BFloat16* keys, Vector* even, Vector* odd) {
    Words pair;
    memcpy(&pair, keys, sizeof pair);
    *even = (Vector)(pair << 16);
    *odd = (Vector)(pair & 0xffff0000u);
}

template <typename T, int R>
inline void score_block(const T* keys, const float* const* query, int size, Vector* scores) {
    Vector even[R], odd[R];
    for (int r = 0; r < R; r++) even[r] = odd[r] = Vector{};
    for (int d = 0; d < size; d += 2) {
        Vector a, b;
        load_pair(keys + d * BLOCK, &a, &b);
        for (int r = 0; r < R; r++) {
            even[r] += a * query[r][d];
            odd[r] += b * query[r][d + 1];
        }
    }
    for (int r = 0; r < R; r++) scores[r] = even[r] + odd[r];
}

// ---- The weighted sum of values: components d to d + width - 1, in C vectors. `weights` holds `stride` floats a row,
// from position `start` on.

template <typename T, int R, int C, bool SEEN_BY_ALL>
inline void add_values(const T* block, int size, const Rows<T>& rows, int at, int end, const float* weights,
                       int64_t stride, int width, Vector (&total)[R][C]) {
    for (int i = 0; i < end; i++) {
        Vector value[C];
        for (int c = 0; c < C; c++) {
            const T* part = block + int64_t(i) * size + c * LANES;
            value[c] = C == 1 ? load(part, width) : load(part);
        }
        for (int r = 0; r < R; r++) {
            // A weight of zero would not do: it turns a value that is not finite into NaN.
            if (!SEEN_BY_ALL && (at + i < rows.begins[r] || at + i >= rows.ends[r])) continue;
            for (int c = 0; c < C; c++) total[r][c] += value[c] * weights[r * stride + i];
        }
    }
}

template <typename T, int R, int C>
inline void weigh(const T* values, int size, const Sequence& sequence, const Rows<T>& rows, int start, int last,
                  const float* weights, int64_t stride, const float* factors, int d, int width) {
    int common_begin = rows.begins[0], common_end = rows.ends[0];
    for (int r = 1; r < R; r++) {
        common_begin = rows.begins[r] > common_begin ? rows.begins[r] : common_begin;
        common_end = rows.ends[r] < common_end ? rows.ends[r] : common_end;
    }
    Vector total[R][C];
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) total[r][c] = Vector{};
    for (int at = start; at < last; at += BLOCK) {
        const T* block = values + place(sequence, at) * size + d;
        const float* here = weights + (at - start);
        const int end = last - at < BLOCK ? last - at : BLOCK;
        if (at >= common_begin && at + end <= common_end)
            add_values<T, R, C, true>(block, size, rows, at, end, here, stride, width, total);
        else
            add_values<T, R, C, false>(block, size, rows, at, end, here, stride, width, total);
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) store(total[r][c] * factors[r], rows.out[r] + d + c * LANES, width - c * LANES);
}

// ---- One tile: scores, softmax, weighted values. `scores` is scratch of `stride` floats a row.

template <typename T, int R>
void attend_tile(const T* keys, const T* values, int key_size, int value_size, const Sequence& sequence,
                 const Rows<T>& rows, const Softmax& softmax, float* scores, int64_t stride) {
    int first = rows.begins[0], last = 0;
    for (int r = 0; r < R; r++) {
        first = rows.begins[r] < first ? rows.begins[r] : first;
        last = rows.ends[r] > last ? rows.ends[r] : last;
    }
    const int start = first / BLOCK * BLOCK;
    const Vector nothing = splat(-INFINITY);
    Vector best[R];
    for (int r = 0; r < R; r++) best[r] = nothing;

    for (int at = start; at < last; at += BLOCK) {
        Vector found[R];
        score_block<T, R>(keys + place(sequence, at) * key_size, rows.query, key_size, found);
        for (int r = 0; r < R; r++) {
            Vector score = found[r] * softmax.scale;
            if (softmax.softcap > 0) score = hyperbolic_tangent(score / softmax.softcap) * softmax.softcap;
            if (at < rows.begins[r] || at + BLOCK > rows.ends[r]) {
                const Integers position = lane_numbers() + at;
                score = ((position >= rows.begins[r]) & (position < rows.ends[r])) ? score : nothing;
            }
            best[r] = larger(best[r], score);
            store(score, scores + r * stride + (at - start));
        }
    }

    float factors[R];
    for (int r = 0; r < R; r++) {
        float top = largest(best[r]);
        if (softmax.sinks && softmax.sinks[rows.head[r]] > top) top = softmax.sinks[rows.head[r]];
        float* row = scores + r * stride;
        Vector total = Vector{};
        for (int at = 0; at < last - start; at += BLOCK) {
            const Vector weight = exponential(load(row + at) - top);
            total += weight;
            store(weight, row + at);
        }
        float denominator = sum(total);
        if (softmax.sinks) denominator += expf(softmax.sinks[rows.head[r]] - top);
        factors[r] = 1.0f / denominator;
    }

    int d = 0;
    // As many vectors of components as leave the sums in registers.
    if (R <= 4)
        for (; d + 4 * LANES <= value_size; d += 4 * LANES)
            weigh<T, R, 4>(values, value_size, sequence, rows, start, last, scores, stride, factors, d, 4 * LANES);
    for (; d + 2 * LANES <= value_size; d += 2 * LANES)
        weigh<T, R, 2>(values, value_size, sequence, rows, start, last, scores, stride, factors, d, 2 * LANES);
    for (; d < value_size; d += LANES)
        weigh<T, R, 1>(values, value_size, sequence, rows, start, last, scores, stride, factors, d, value_size - d);
}

template <typename T>
void attend_tile(int count, const T* keys, const T* values, int key_size, int value_size, const Sequence& sequence,
                 const Rows<T>& rows, const Softmax& softmax, float* scores, int64_t stride) {
    switch (count) {
#define CASE(R) \
    case R: return attend_tile<T, R>(keys, values, key_size, value_size, sequence, rows, softmax, scores, stride);
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
#undef CASE
    }
}

// ---- All sequences, cut into items of work: some tokens of a sequence with the query heads of one key-value head.

template <typename T>
struct Query {
    const T* numbers;
    int64_t token_stride, head_stride;
    int heads;
};

template <typename T>
void attend(const Query<T>& query, const Pool<T>& pool, T* out, const Sequence* sequences, int count,
            const Softmax& softmax) {
    const int group = query.heads / pool.kv_heads;
    const int tokens = group >= TILE ? 1 : TILE / group;  // of one item
    int longest = 0;
    int64_t seen = 0;  // pairs of a row and a key
    std::vector<int64_t> first_item(count + 1);
    for (int n = 0; n < count; n++) {
        first_item[n + 1] = first_item[n] + (sequences[n].rows + tokens - 1) / tokens;
        seen += int64_t(sequences[n].rows) * sequences[n].length;
        longest = sequences[n].length > longest ? sequences[n].length : longest;
    }
    const int64_t stride = (int64_t(longest) + 2 * BLOCK) / BLOCK * BLOCK;
    const int64_t work = seen * query.heads * (pool.key_size + pool.value_size) / MULTIPLICATIONS;

    for_each(first_item[count] * pool.kv_heads, work, [&](int64_t item) {
        static thread_local Scratch<float> scores, wide;
        scores.reserve(TILE * stride);
        wide.reserve(int64_t(TILE) * pool.key_size);
        const int64_t piece = item / pool.kv_heads;
        const int kv_head = int(item % pool.kv_heads);
        const int n = int(std::upper_bound(first_item.begin(), first_item.end(), piece) - first_item.begin()) - 1;
        const Sequence& s = sequences[n];
        const int from = int(piece - first_item[n]) * tokens;
        const int until = from + tokens < s.rows ? from + tokens : s.rows;
        const int total = (until - from) * group;
        Rows<T> rows;
        int held = 0;
        for (int i = 0; i < total; i++) {
            const int token = from + i / group, head = kv_head * group + i % group;
            const int64_t row = int64_t(s.first_row) + token;
            const T* source = query.numbers + row * query.token_stride + head * query.head_stride;
            float* target = wide.numbers + held * pool.key_size;
            for (int d = 0; d < pool.key_size; d++) target[d] = widen(source[d]);
            const int end = s.length - s.rows + token + 1;
            rows.query[held] = target;
            rows.out[held] = out + (row * query.heads + head) * pool.value_size;
            rows.head[held] = head;
            rows.ends[held] = end;
            rows.begins[held] = softmax.window && end > softmax.window ? end - softmax.window : 0;
            if (++held < TILE && i + 1 < total) continue;
            attend_tile<T>(held, pool.keys_of(kv_head), pool.values_of(kv_head), pool.key_size, pool.value_size, s,
                           rows, softmax, scores.numbers, stride);
            held = 0;
        }
    });
}

}  // namespace
