/* peers.h: a peer of bench_peers: another sorter that does the library's work, in one file of its
 * own, peer_NAME.c or .cpp.
 *
 * Each pass runs in a process of its own, so that memory that a peer keeps, threads and settings
 * that it leaves behind touch nobody else, and so that memory and processor time can be told
 * apart. A peer takes the workload's pairs, sorts them with about pass->limit bytes of memory and
 * its temporary files in pass->directory, which is empty and its own, hands each pair in order to
 * output_take(), and gives everything back before it returns. */
#ifndef LIBETL_BENCH_PEERS_H
#define LIBETL_BENCH_PEERS_H

#include "apart.h"
#include "workload.h"
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct peer_report { /* shared by the process of the pass and the one that watches it */
    struct output output;
    double wall, user, system; /* seconds */
    uint64_t base;             /* anonymous memory at the start */
    volatile pid_t helper;     /* a process of the peer's whose memory counts too; 0: none */
    volatile bool done;
};

struct peer {
    const char *name;
    bool stable; /* equal keys come out in the order of collection */
    bool slow;   /* one round is enough where the data exceeds the limit */
    void (*run)(const struct pass *pass, struct peer_report *report);
};

extern const struct peer peer_libetl, peer_libetl_alone, peer_mtbl, peer_gnu_sort, peer_sqlite,
    peer_stxxl, peer_rocksdb, peer_lmdb;

/* For stores that keep one value a key: the key and, in the workloads that repeat keys, D and U,
 * the pair's number behind it in five bytes, big-endian. These keep the order of collection, and
 * the order of keys too: D's have one length, and no byte of U's is as small as the first of
 * them. */
enum { PEER_NUMBER_SIZE = 5 };

struct peer_key {
    unsigned char bytes[PASS_KEY_ROOM + PEER_NUMBER_SIZE];
    size_t size;
};

size_t peer_number_size(const struct pass *pass); /* 0 or PEER_NUMBER_SIZE */
void peer_key_make(struct peer_key *key, const struct workload_pair *pair, size_t number_size,
                   uint64_t number);

#ifdef __cplusplus
}
#endif

#endif
