// Matrix products in bfloat16 by the processor's tile unit (Intel AMX), with weights packed for it.
//
// A tile register holds 16 rows of 64 bytes. One instruction adds to 16 x 16 float sums the products of 16 rows and 16
// columns over 32 numbers. A sum goes through its numbers in one order whatever rows are multiplied together, so a
// row's result does not depend on its neighbours.
//
// Packed weights are a sequence of panels, 32 outputs each; a panel is a sequence of steps, 32 inputs each; a step is
// two tiles of 16 outputs. A tile has a row for every two inputs, with the pair of each output side by side. Outputs
// and inputs that are not there are zero.

#pragma once

#include <algorithm>
#include <atomic>

#include "threads.hpp"
#include "vectors.hpp"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#define HAS_TILES 1
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#define HAS_TILES 0
#endif

namespace {

constexpr int SIDE = 16;          // rows of a tile
constexpr int PANEL = 2 * SIDE;   // outputs
constexpr int STEP = 32;          // inputs
constexpr int TILE_SIZE = 512;    // numbers
constexpr int BLOCK_ROWS = 2 * SIDE;
constexpr int64_t CACHED = 1 << 19;  // input numbers that stay in the second-level cache while panels go by
constexpr int TILE_GAIN = 256;       // multiplications that take as long as going through one number elsewhere

inline int64_t ceiling(int64_t number, int64_t unit) { return (number + unit - 1) / unit; }

inline int64_t packed_size(int64_t outputs, int64_t inputs) {
    return ceiling(outputs, PANEL) * ceiling(inputs, STEP) * 2 * TILE_SIZE;
}

// Writes `weight` (rows, inputs) into a packed matrix as its outputs from `first` on.
inline void pack(const BFloat16* weight, BFloat16* packed, int64_t first, int64_t rows, int64_t inputs) {
    const int64_t steps = ceiling(inputs, STEP);
    for_each(rows, rows * inputs, [&](int64_t row) {
        const int64_t output = first + row;
        BFloat16* tiles = packed + (output / PANEL * steps * 2 + output % PANEL / SIDE) * TILE_SIZE;
        for (int64_t i = 0; i < inputs; i++)
            tiles[i / STEP * 2 * TILE_SIZE + i % STEP / 2 * STEP + output % SIDE * 2 + i % 2] = weight[row * inputs + i];
    });
}

#if HAS_TILES

// The operating system hands the tile registers out on request, once a process.
inline bool may_use_tiles() {
    constexpr int REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

// Shapes of the tile registers. What another library had set up for this thread comes back at the end.
class TileShapes {
  public:
    TileShapes() {
        _tile_storeconfig(&before);
        Shapes full{};
        full.palette = 1;
        for (int tile = 0; tile < 8; tile++) full.row_bytes[tile] = 64, full.rows[tile] = SIDE;
        _tile_loadconfig(&full);
    }
    ~TileShapes() {
        if (before.palette)
            _tile_loadconfig(&before);
        else
            _tile_release();
    }

  private:
    struct alignas(64) Shapes {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } before;
};

// Memory that a later block will read, asked for little by little while this one is multiplied.
struct Ahead {
    const char *at, *end;
    void ask(int64_t lines) {
        for (; lines > 0 && at < end; lines--, at += 64) _mm_prefetch(at, _MM_HINT_T1);
    }
};

// 16 R rows times one panel into `sums` (16 R, 32). Rows lie `stride` numbers apart.
template <int R>
inline void multiply(const BFloat16* rows, int64_t stride, const BFloat16* panel, int64_t steps, Ahead ahead,
                     float* sums) {
    const int64_t lines = ceiling((ahead.end - ahead.at) / 64, steps);
    _tile_zero(0);
    _tile_zero(1);
    if (R == 2) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t step = 0; step < steps; step++, rows += STEP, panel += 2 * TILE_SIZE) {
        _tile_loadd(4, rows, stride * 2);
        if (R == 2) _tile_loadd(5, rows + SIDE * stride, stride * 2);
        _tile_loadd(6, panel, 64);
        _tile_loadd(7, panel + TILE_SIZE, 64);
        ahead.ask(lines);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (R == 2) {
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, PANEL * 4);
    _tile_stored(1, sums + SIDE, PANEL * 4);
    if (R == 2) {
        _tile_stored(2, sums + SIDE * PANEL, PANEL * 4);
        _tile_stored(3, sums + SIDE * PANEL + SIDE, PANEL * 4);
    }
}

// A row of sums, with `bias` where there is one, rounded into `out`.
inline void finish_row(const float* sums, const BFloat16* bias, BFloat16* out, int64_t width) {
    for (int64_t d = 0; d < width && d < PANEL; d += LANES) {
        const int count = int(width - d);
        Vector total = load(sums + d);
        if (bias) total += load(bias + d, count);
        if (count < LANES)
            store(total, out + d, count);
        else
            _mm256_storeu_si256((__m256i*)(out + d), (__m256i)_mm512_cvtneps_pbh((__m512)total));
    }
}

// Rows that can be read in whole blocks and steps: `direct` of them where they are, the others in a copy with zeros
// behind them.
struct Blocks {
    const BFloat16 *own, *copied;
    int64_t own_stride, copied_stride, direct;

    const BFloat16* at(int64_t row) const {
        return row < direct ? own + row * own_stride : copied + (row - direct) * copied_stride;
    }
    int64_t stride(int64_t row) const { return row < direct ? own_stride : copied_stride; }
};

inline Blocks whole_blocks(const BFloat16* rows, int64_t stride, int64_t count, int64_t inputs,
                           Scratch<BFloat16>& scratch) {
    const int64_t width = ceiling(inputs, STEP) * STEP;
    const int64_t direct = width == inputs ? count / BLOCK_ROWS * BLOCK_ROWS : 0;
    const int64_t padded = ceiling(count - direct, SIDE) * SIDE;
    scratch.reserve(padded * width);
    for (int64_t row = 0; row < padded; row++) {
        BFloat16* target = scratch.numbers + row * width;
        const int64_t known = direct + row < count ? inputs : 0;
        memcpy(target, rows + (direct + row) * stride, known * sizeof(BFloat16));
        memset(target + known, 0, (width - known) * sizeof(BFloat16));
    }
    return {rows, scratch.numbers, stride, width, direct};
}

// out (count, outputs) = rows (count, inputs), `stride` numbers apart, times the packed weights, plus `bias` or null.
inline void linear(const BFloat16* rows, int64_t stride, const BFloat16* packed, const BFloat16* bias, BFloat16* out,
                   int64_t count, int64_t inputs, int64_t outputs) {
    static thread_local Scratch<BFloat16> scratch;
    const Blocks blocks = whole_blocks(rows, stride, count, inputs, scratch);
    const int64_t steps = ceiling(inputs, STEP), panels = ceiling(outputs, PANEL), panel_size = steps * 2 * TILE_SIZE;
    const int64_t cached = std::max<int64_t>(1, CACHED / (inputs * BLOCK_ROWS)) * BLOCK_ROWS;
    const int64_t items = panels * ceiling(count, cached);
    std::atomic<int64_t> next{0};
#pragma omp parallel if (count * inputs * outputs / TILE_GAIN > WORTH_A_THREAD)
    {
        const TileShapes shapes;
        alignas(64) float sums[BLOCK_ROWS * PANEL];
        for (int64_t item = next++; item < items;) {
            const int64_t following = next++, panel = item % panels;
            const int64_t first = item / panels * cached, last = std::min(count, first + cached);
            const int64_t width = outputs - panel * PANEL;
            const char* coming = (const char*)(packed + following % panels * panel_size);
            const int64_t bytes = following < items ? panel_size * int64_t(sizeof(BFloat16)) : 0;
            const int64_t share = ceiling(bytes, ceiling(last - first, BLOCK_ROWS) * 64) * 64;
            int64_t asked = 0;
            for (int64_t row = first; row < last; row += BLOCK_ROWS, asked += share) {
                const Ahead ahead{coming + std::min(asked, bytes), coming + std::min(asked + share, bytes)};
                const int64_t together = std::min<int64_t>(BLOCK_ROWS, last - row);
                const auto product = together > SIDE ? multiply<2> : multiply<1>;
                product(blocks.at(row), blocks.stride(row), packed + panel * panel_size, steps, ahead, sums);
                for (int64_t r = 0; r < together; r++)
                    finish_row(sums + r * PANEL, bias ? bias + panel * PANEL : nullptr,
                               out + (row + r) * outputs + panel * PANEL, width);
            }
            item = following;
        }
    }
}

#else

inline bool may_use_tiles() { return false; }

inline void linear(const BFloat16*, int64_t, const BFloat16*, const BFloat16*, BFloat16*, int64_t, int64_t, int64_t) {
    abort();  // nobody packs weights where `may_use_tiles` is false
}

#endif

}  // namespace
