// Sharing rows among the threads of torch, whose OpenMP runtime this library uses.

#pragma once

#include <cstdint>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

constexpr int64_t WORTH_A_THREAD = 1 << 14;  // numbers to go through; waking a second thread costs as much

inline int available_threads() {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

// Calls body(n) for n below `count`, in any order and on any thread; on this one where the work is small.
template <typename Body>
void for_each(int64_t count, int64_t work, const Body& body) {
    if (work <= WORTH_A_THREAD || count < 2 || available_threads() < 2) {
        for (int64_t n = 0; n < count; n++) body(n);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t n = 0; n < count; n++) body(n);
}

}  // namespace
