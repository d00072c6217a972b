// std_sort.cpp: what a C++ program would do: std::sort over (prefix, position), which reads the
// keys where the prefixes are equal. A peer of bench_sort.
#include "std_sort.h"
#include <algorithm>

extern "C" void std_sort(const struct bench_records *records, struct bench_entry *entries,
                         size_t count) {
    std::sort(entries, entries + count, [records](const bench_entry &a, const bench_entry &b) {
        return bench_entry_compare(records, &a, &b) < 0;
    });
}
