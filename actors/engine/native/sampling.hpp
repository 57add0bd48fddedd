// Drawing a token from each row of logits: temperature, top-k, top-p and min-p, then the inverse of the cumulative
// distribution. Semantics are those of `sample` in actors/engine/sampling.py.
//
// A token's place in the order of probabilities is a key: the bits of the distance of its scaled logit below the row's
// largest, which rise as the probability falls. Filters find a key as boundary, so equal logits are kept together.

#pragma once

#include <algorithm>

#include "threads.hpp"
#include "vectors.hpp"

namespace {

constexpr int STRETCH = 512;  // ids whose weights are summed in float before they join a sum in double
constexpr double NUCLEUS_TOLERANCE = 1e-6;
constexpr uint32_t FARTHEST_KEY = 0x7f800000u;  // of a logit of -inf

struct Filters {
    float temperature;
    int top_k;
    double top_p;
    float min_p;
};

struct Drawn {
    int64_t id;
    float logprob, sampling_logprob;
};

inline Words load_words(const uint32_t* from) {
    Words words;
    memcpy(&words, from, sizeof words);
    return words;
}

// ---- Going through a row. Lanes past the end hold -inf, which weighs nothing.

template <typename T, typename Body>
inline void go_through(const T* logits, int begin, int end, const Body& body) {
    int at = begin;
    for (; at + LANES <= end; at += LANES) body(at, load(logits + at));
    if (at < end) body(at, lane_numbers() + at < end ? load(logits + at, end - at) : splat(-INFINITY));
}

template <typename T>
float maximum(const T* logits, int begin, int end) {
    Vector best = splat(-INFINITY);
    go_through(logits, begin, end, [&](int, Vector x) { best = larger(best, x); });
    return largest(best);
}

// The sum of weight(at, x), in double over stretches.
template <typename T, typename Weight>
inline double total_weight(const T* logits, int begin, int end, const Weight& weight) {
    double total = 0;
    for (int from = begin; from < end; from += STRETCH) {
        Vector part = Vector{};
        go_through(logits, from, end - from < STRETCH ? end : from + STRETCH,
                   [&](int at, Vector x) { part += weight(at, x); });
        total += sum(part);
    }
    return total;
}

// ---- The boundary of a filter: the smallest key up to which tokens reach a target together. Each counts with its
// weight, or with 1 for top-k. Tokens that cannot matter leave first, so that few are left to search.

struct Search {  // its tokens
    uint32_t* keys;
    float* weights;
    int count;
};

template <typename Weight, typename Matters>
inline void fill(Search& search, int count, const uint32_t* keys, const Weight& weight, const Matters& matters) {
    search.count = 0;
    for (int i = 0; i < count; i++) {  // without a branch: half of them would be guessed wrong
        search.keys[search.count] = keys[i];
        search.weights[search.count] = weight(i);
        search.count += matters(i);
    }
}

inline double weight_up_to(uint32_t last_key, const Search& search) {
    double total = 0;
    for (int from = 0; from < search.count; from += STRETCH) {
        Vector part = Vector{};
        for (int at = from; at < from + STRETCH && at < search.count; at += LANES) {
            const Integers held = (load_words(search.keys + at) <= last_key) & (lane_numbers() + at < search.count);
            part += held ? load(search.weights + at) : Vector{};
        }
        total += sum(part);
    }
    return total;
}

inline uint32_t boundary(const Search& search, double target) {
    uint32_t low = 0, high = FARTHEST_KEY;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (weight_up_to(middle, search) >= target)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// A key that is not below the k-th smallest: the k-th of the smallest keys of many groups. Keys stand up to a whole
// stretch.
inline uint32_t bound_of_top(int k, const uint32_t* keys, int count, uint32_t* smallest) {
    const int groups = (count + STRETCH - 1) / STRETCH * LANES;
    if (k > groups) return FARTHEST_KEY;
    for (int from = 0; from < count; from += STRETCH) {
        Words least = Words{} + FARTHEST_KEY;
        for (int at = from; at < from + STRETCH; at += LANES) {
            const Words key = load_words(keys + at);
            least = key < least ? key : least;
        }
        memcpy(smallest + from / STRETCH * LANES, &least, sizeof least);
    }
    std::nth_element(smallest, smallest + k - 1, smallest + groups);
    return smallest[k - 1];
}

// ---- The inverse of the cumulative distribution, in order of ids. `weights` holds zeros up to a whole stretch.

// The first index at which the running sum of part(index) exceeds `target`, and the sum before it. An index without
// weight is never chosen: where rounding runs past the end, it is the last one with weight.
template <typename Part>
inline int first_above(int count, double target, const Part& part, double* before) {
    int last = 0;
    double running = 0;
    *before = 0;
    for (int n = 0; n < count; n++) {
        const double weight = part(n);
        if (!(weight > 0)) continue;
        last = n;
        *before = running;
        running += weight;
        if (running > target) break;
    }
    return last;
}

// The weight of every stretch into `sums`; returns that of all.
inline double stretch_sums(const float* weights, int count, float* sums) {
    double total = 0;
    for (int from = 0; from < count; from += STRETCH) {
        Vector part = Vector{};
        for (int at = from; at < from + STRETCH; at += LANES) part += load(weights + at);
        total += sums[from / STRETCH] = sum(part);
    }
    return total;
}

inline int inverse_distribution(const float* weights, int count, double uniform, float* sums) {
    const double target = uniform * stretch_sums(weights, count, sums);
    double before, unused;
    const int stretches = (count + STRETCH - 1) / STRETCH;
    const int stretch = first_above(stretches, target, [&](int n) { return sums[n]; }, &before);
    const float* inside = weights + stretch * STRETCH;
    return stretch * STRETCH + first_above(STRETCH, target - before, [&](int n) { return inside[n]; }, &unused);
}

// ---- One row.

struct Workspace {  // of one thread, in whole stretches; what lies past the row weighs nothing
    Scratch<float> weights, search_weights, sums;
    Scratch<uint32_t> keys, search_keys, smallest;

    void reserve(int count) {
        const int64_t stretches = (int64_t(count) + STRETCH - 1) / STRETCH;
        weights.reserve(stretches * STRETCH);
        keys.reserve(stretches * STRETCH);
        search_weights.reserve(stretches * STRETCH);
        search_keys.reserve(stretches * STRETCH);
        sums.reserve(stretches);
        smallest.reserve(stretches * LANES);
        for (int64_t i = stretches ? (stretches - 1) * STRETCH : 0; i < stretches * STRETCH; i++) {
            weights.numbers[i] = 0;
            keys.numbers[i] = FARTHEST_KEY;
        }
    }
};

inline void keep(uint32_t last_key, float least_weight, int count, Workspace& space) {
    for (int at = 0; at < count; at += LANES) {
        const Vector weight = load(space.weights.numbers + at);
        const Integers kept = (load_words(space.keys.numbers + at) <= last_key) & (weight >= least_weight);
        store(kept ? weight : Vector{}, space.weights.numbers + at);
    }
}

inline void apply_filters(const Filters& filters, int count, Workspace& space) {
    const float* weights = space.weights.numbers;
    const uint32_t* keys = space.keys.numbers;
    Search search{space.search_keys.numbers, space.search_weights.numbers, 0};
    if (filters.top_k > 0 && filters.top_k < count) {
        const uint32_t bound = bound_of_top(filters.top_k, keys, count, space.smallest.numbers);
        fill(search, count, keys, [](int) { return 1.0f; }, [&](int i) { return keys[i] <= bound; });
        keep(boundary(search, filters.top_k), 0, count, space);
    }
    if (filters.top_p < 1) {
        const double total = stretch_sums(weights, count, space.sums.numbers);
        // Tokens this light have together less than the mass outside the nucleus; half of it, for rounding.
        const float lightest = float((1 - filters.top_p) * total / count / 2);
        fill(search, count, keys, [&](int i) { return weights[i]; }, [&](int i) { return weights[i] >= lightest; });
        keep(boundary(search, (filters.top_p - NUCLEUS_TOLERANCE) * total), 0, count, space);
    }
    if (filters.min_p > 0) keep(FARTHEST_KEY, filters.min_p, count, space);
}

template <typename T>
struct Row {
    const T* logits;
    int size, limit;  // ids below the limit may be drawn
    float best;       // of the allowed logits
    float largest;    // of all
};

template <typename T>
int first_best(const Row<T>& row) {
    int stretch = 0;
    for (; stretch + STRETCH < row.limit; stretch += STRETCH)
        if (maximum(row.logits, stretch, stretch + STRETCH) == row.best) break;
    int id = stretch;
    while (id < row.limit - 1 && widen(row.logits[id]) != row.best) id++;
    return id;
}

// Fills in weights and keys; returns the sum of weights.
template <typename T>
double weigh_allowed(const Row<T>& row, float temperature, float shift, Workspace& space) {
    space.reserve(row.limit);
    float* weights = space.weights.numbers;
    uint32_t* keys = space.keys.numbers;
    // Captured by value: what the loop stores could otherwise be these numbers, as far as the compiler knows.
    return total_weight(row.logits, 0, row.limit, [=, largest = row.largest](int at, Vector x) {
        const Vector distance = (x - largest) / temperature - shift;
        const Vector weight = exponential(distance);
        const Words key = (Words)distance & 0x7fffffffu;
        store(weight, weights + at);
        memcpy(keys + at, &key, sizeof key);
        return weight;
    });
}

template <typename T>
Drawn draw(const Row<T>& row, const Filters& filters, double uniform, Workspace& space) {
    const Drawn unusable{0, NAN, NAN};
    const double raw_total =
        total_weight(row.logits, 0, row.size, [&](int, Vector x) { return exponential(x - row.largest); });
    // NaN and infinity among the logits, or nothing but -inf, make the sum NaN.
    if (!(raw_total > 0)) return unusable;
    const auto logprob_of = [&](float logit) { return float(double(logit) - row.largest - log(raw_total)); };
    if (filters.temperature == 0) {
        const float logprob = logprob_of(row.best);
        return {first_best(row), logprob, logprob};
    }

    // The best allowed token is taken as the origin, so that weights below a better one do not vanish.
    const float shift = (row.best - row.largest) / filters.temperature;
    const double allowed = weigh_allowed(row, filters.temperature, shift, space);
    if (!(allowed > 0)) return unusable;
    const double beyond = total_weight(row.logits, row.limit, row.size, [&](int, Vector x) {
        return exponential((x - row.largest) / filters.temperature);
    });
    const double total = allowed * exp(double(shift)) + beyond;

    if (filters.top_k > 0 || filters.top_p < 1 || filters.min_p > 0) apply_filters(filters, row.limit, space);
    const int id = inverse_distribution(space.weights.numbers, row.limit, uniform, space.sums.numbers);
    const float chosen = widen(row.logits[id]);
    const float scaled = (chosen - row.largest) / filters.temperature;
    return {id, logprob_of(chosen), float(scaled - log(total))};
}

// ---- All rows.

template <typename T>
void sample(const T* logits, int64_t row_stride, int rows, int size, int limit, const Filters& filters,
            const double* uniforms, int64_t* ids, float* logprobs, float* sampling_logprobs) {
    for_each(rows, int64_t(rows) * size, [&](int64_t row) {
        static thread_local Workspace space;
        const T* numbers = logits + row * row_stride;
        const float best = maximum(numbers, 0, limit), beyond = maximum(numbers, limit, size);
        const Row<T> described{numbers, size, limit, best, best > beyond ? best : beyond};
        const Drawn drawn = draw(described, filters, uniforms ? uniforms[row] : 0, space);
        ids[row] = drawn.id;
        logprobs[row] = drawn.logprob;
        sampling_logprobs[row] = drawn.sampling_logprob;
    });
}

}  // namespace
