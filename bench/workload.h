/* workload.h: the pairs of workloads A to F and U, from a seed, a few nanoseconds each.
 *
 *     A  10-byte random key, 90-byte value
 *     B  32-byte random key, 32-byte value
 *     C  60-byte key: a 20-byte address out of 10,000, 8 constant bytes, 32 random; 32-byte value
 *     D  8-byte key, one in a hundred distinct, 8-byte value
 *     E  B, already sorted
 *     F  32-byte random key, 1024-byte value
 *     U  a web address of 40 to 80 bytes, some hosts far more frequent than others; 16-byte value
 *
 * Values hold the pair's number, so that no two pairs are equal. */
#ifndef LIBETL_BENCH_WORKLOAD_H
#define LIBETL_BENCH_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct workload_pair {
    const void *key;
    size_t key_size;
    const void *value;
    size_t value_size;
};

struct workload;

/* letter: one of "ABCDEFU". data_size is the bytes of keys and values that will be taken, 0 for
 * 256 MiB: D takes the number of its distinct keys from it, E the width of its steps. The same
 * arguments give the same pairs everywhere. Leaves the program when memory is out or the letter is
 * none of these. */
struct workload *workload_open(char letter, uint64_t seed, uint64_t data_size);
void workload_close(struct workload *workload);

/* The next pair; it lives until the next call. There is always one more. */
void workload_next(struct workload *workload, struct workload_pair *pair);

/* About this many pairs make up data_size. */
uint64_t workload_pairs(char letter, uint64_t data_size);

#ifdef __cplusplus
}
#endif

#endif
