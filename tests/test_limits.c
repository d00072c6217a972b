/* test_limits.c: the limits as the system sees them: anonymous resident memory while collecting,
 * spilling, merging, loading and iterating; mappings; address space.
 *
 * Memory is RssAnon of a child process, looked at by a thread all the time and at each write. */
#include "oracle.h"
#include "pwrite_support.h"
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- What is resident */

static _Atomic(size_t) resident_most;
static atomic_bool watching;

/* RssAnon in bytes; without a buffer of stdio's. */
static size_t resident(void) {
    char text[4096];
    int descriptor = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return 0;
    ssize_t size = read(descriptor, text, sizeof text - 1);
    close(descriptor);
    text[size > 0 ? size : 0] = '\0';
    const char *line = strstr(text, "RssAnon:");
    return line != NULL ? (size_t)strtoull(line + strlen("RssAnon:"), NULL, 10) * KIB : 0;
}

static void look(void) {
    size_t now = resident(), most = atomic_load(&resident_most);
    while (now > most && !atomic_compare_exchange_weak(&resident_most, &most, now))
        ;
}

static void *watch(void *argument) {
    while (atomic_load(&watching)) {
        look();
        usleep(500);
    }
    return argument;
}

static ssize_t look_and_write(int descriptor, size_t size) {
    (void)descriptor;
    look();
    return (ssize_t)size;
}

static ssize_t look_and_write_slowly(int descriptor, size_t size) {
    usleep(4000);
    return look_and_write(descriptor, size);
}

/* ---- One setting */

static struct {
    size_t limit, pair_size, bytes;
    int threads;
    etl_access access;
    unsigned merge_width;
    bool slow;
    size_t beside; /* what may be held beside the limit */
} now;

static unsigned char *value; /* of the largest pair: nobody else's memory is counted */

static void collect_pairs(etl_collector *collector, uint64_t pairs) {
    for (uint64_t i = 0; i < pairs; i++) {
        unsigned char key[8];
        uint64_t scattered = (i * UINT64_C(0x9E3779B97F4A7C15)) & UINT64_C(0xFFFFFFFF);
        scattered = scattered << 32 | i;
        for (unsigned byte = 0; byte < 8; byte++)
            key[byte] = (unsigned char)(scattered >> (56 - 8 * byte));
        CHILD_CHECK(etl_collect(collector, etl_slice_of(key, sizeof key),
                                etl_slice_of(value, now.pair_size - sizeof key)) == ETL_OK);
    }
}

struct ascending {
    uint64_t pairs, wrong;
    unsigned char last[8];
};

static int check_ascending(void *context, etl_slice key, etl_slice found) {
    struct ascending *ascending = context;
    bool right = key.size == 8 && found.size == now.pair_size - 8 &&
                 memcmp(ascending->last, key.data, 8) <= 0 &&
                 memcmp(found.data, value, found.size) == 0;
    ascending->wrong += !right;
    if (key.size == 8)
        memcpy(ascending->last, key.data, 8);
    ascending->pairs++;
    return 0;
}

/* What was held at most since the last time, above the base; checked. */
static size_t check_most(const char *when, size_t base) {
    look();
    size_t most = atomic_exchange(&resident_most, 0), held = most > base ? most - base : 0;
    const size_t allowed = now.limit + now.limit / 10 + 4 * MIB + now.beside;
    if (held > allowed)
        fprintf(stderr, "%s: %zu KiB held, %zu allowed\n", when, held / KIB, allowed / KIB);
    CHILD_CHECK(held <= allowed);
    return held / KIB;
}

static void measure(void) {
    value = malloc(now.pair_size);
    CHILD_CHECK(value != NULL);
    for (size_t i = 0; i < now.pair_size; i++)
        value[i] = (unsigned char)(i * 7 >> 3);
    etl_options options = support_options(now.limit);
    options.threads = now.threads;
    options.access = now.access;
    options.merge_width = now.merge_width;
    size_t base = resident();
    if (base == 0)
        support_child_leave(SUPPORT_CHILD_SKIP);
    pthread_t watcher;
    atomic_store(&watching, true);
    CHILD_CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
    atomic_store(&before_pwrite, now.slow ? look_and_write_slowly : look_and_write);
    etl_collector *collector;
    CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    const uint64_t pairs = support_scaled(now.bytes / now.pair_size);
    size_t held[3];
    for (unsigned round = 0; round < (now.slow ? 1 : 2); round++) {
        collect_pairs(collector, pairs);
        held[0] = check_most("collecting", base);
        struct ascending ascending = {0};
        etl_slice key, found;
        etl_iter *iter;
        int status = etl_iter_open(&iter, collector, NULL);
        if (status != ETL_OK)
            fprintf(stderr, "%s\n", etl_collector_message(collector));
        CHILD_CHECK(status == ETL_OK);
        while ((status = etl_iter_next(iter, &key, &found)) == ETL_OK)
            check_ascending(&ascending, key, found);
        CHILD_CHECK(status == ETL_END && ascending.pairs == pairs && ascending.wrong == 0);
        etl_iter_close(iter);
        held[1] = check_most("iterating", base);
        ascending = (struct ascending){0};
        CHILD_CHECK(etl_load(collector, check_ascending, &ascending) == ETL_OK);
        CHILD_CHECK(ascending.pairs == pairs && ascending.wrong == 0);
        held[2] = check_most("loading", base);
    }
    printf("limit %zu KiB, pairs of %zu, threads %d, %s, width %u%s: %zu, %zu, %zu KiB held\n",
           now.limit / KIB, now.pair_size, now.threads,
           now.access == ETL_ACCESS_READ ? "read" : "mapped", now.merge_width,
           now.slow ? ", slow" : "", held[0], held[1], held[2]);
    etl_collector_destroy(collector);
    atomic_store(&watching, false);
    pthread_join(watcher, NULL);
}

static void measure_all_threads(void) {
    static const int threads[] = {ETL_THREADS_NONE, 1, 2};
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        now.threads = threads[i];
        support_in_child(measure);
    }
}

/* Sanitizers and valgrind have memory of their own beside that of the program. */
#define SKIP_WHERE_MEMORY_IS_NOT_OURS()        \
    do {                                       \
        if (TEST_SANITIZED || support_light()) \
            skip();                            \
    } while (0)

static void begin(size_t limit, size_t pair_size, size_t bytes) {
    memset(&now, 0, sizeof now);
    now.limit = limit;
    now.pair_size = pair_size;
    now.bytes = bytes;
}

static void memory_of_pairs_of_16_bytes(void **state) {
    (void)state;
    SKIP_WHERE_MEMORY_IS_NOT_OURS();
    begin(12 * MIB, 16, 20 * MIB);
    measure_all_threads();
}

static void memory_of_pairs_of_100_bytes(void **state) {
    (void)state;
    SKIP_WHERE_MEMORY_IS_NOT_OURS();
    begin(16 * MIB, 100, 48 * MIB);
    measure_all_threads();
    now.access = ETL_ACCESS_READ;
    measure_all_threads();
}

static void memory_of_pairs_of_4_kib(void **state) {
    (void)state;
    SKIP_WHERE_MEMORY_IS_NOT_OURS();
    begin(16 * MIB, 4 * KIB, 48 * MIB);
    measure_all_threads();
    now.access = ETL_ACCESS_READ;
    now.threads = 1;
    support_in_child(measure);
}

static void memory_of_pairs_of_1_mib(void **state) {
    (void)state;
    SKIP_WHERE_MEMORY_IS_NOT_OURS();
    begin(16 * MIB, MIB, 64 * MIB);
    measure_all_threads();
    now.access = ETL_ACCESS_READ;
    now.threads = 1;
    support_in_child(measure);
}

static void memory_of_pairs_of_64_mib(void **state) {
    (void)state;
    SKIP_WHERE_MEMORY_IS_NOT_OURS();
    begin(16 * MIB, 64 * MIB, 128 * MIB); /* each is above the limit */
    measure_all_threads();
}

static void memory_of_merge_passes(void **state) {
    (void)state;
    SKIP_WHERE_MEMORY_IS_NOT_OURS();
    begin(12 * MIB, 100, 40 * MIB);
    now.merge_width = 2;
    measure_all_threads();
    now.access = ETL_ACCESS_READ;
    now.threads = 1;
    support_in_child(measure);
}

static void memory_when_the_disk_is_slower_than_the_producer(void **state) {
    (void)state;
    SKIP_WHERE_MEMORY_IS_NOT_OURS();
    static const size_t sizes[] = {100, 4 * KIB, MIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        begin(12 * MIB, sizes[i], 36 * MIB);
        now.slow = true;
        for (now.threads = 1; now.threads <= 2; now.threads++)
            support_in_child(measure);
    }
}

/* ---- Many small ones */

static void five_hundred(void) {
    enum { COLLECTORS = 500, SPILLING = 40 };
    static etl_collector *collectors[COLLECTORS];
    etl_options options = support_options(MIB);
    size_t base = resident();
    if (base == 0)
        support_child_leave(SUPPORT_CHILD_SKIP);
    for (size_t i = 0; i < COLLECTORS; i++) {
        CHILD_CHECK(etl_collector_create(&collectors[i], &options) == ETL_OK);
        CHILD_CHECK(counted_collect_all(collectors[i], 100) == ETL_OK);
    }
    size_t held = resident() - base;
    printf("%zu KiB held by each of 500\n", held / COLLECTORS / KIB);
    CHILD_CHECK(held < COLLECTORS * 256 * KIB);
    for (size_t i = 0; i < SPILLING; i++) {
        CHILD_CHECK(etl_reset(collectors[i]) == ETL_OK);
        CHILD_CHECK(counted_collect_all(collectors[i], 40000) == ETL_OK);
    }
    size_t more = resident() - base;
    more = more > held ? (more - held) / SPILLING : 0;
    printf("%zu KiB more by each that spills\n", more / KIB);
    CHILD_CHECK(more <= MIB + 100 * KIB);
    for (size_t i = 0; i < COLLECTORS; i++) {
        CHILD_CHECK(counted_load_matches(collectors[i], i < SPILLING ? 40000 : 100));
        etl_collector_destroy(collectors[i]);
    }
}

static void five_hundred_collectors_of_1_mib_hold_less_than_that_each(void **state) {
    (void)state;
    SKIP_WHERE_MEMORY_IS_NOT_OURS();
    support_in_child(five_hundred);
}

/* ---- Mappings: the kernel's limit on them, all but a few taken by others */

static void few_mappings(void) {
    enum { MOST = 70000, LEFT = 24 };
    static void *pages[MOST];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), taken = 0;
    etl_options options = support_options(MIB);
    etl_collector *collector;
    CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    for (; taken < MOST; taken++) { /* neighbours of different protection stay apart */
        pages[taken] = mmap(NULL, page, taken % 2 ? PROT_READ : PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages[taken] == MAP_FAILED)
            break;
    }
    if (taken == MOST)
        support_child_leave(SUPPORT_CHILD_SKIP); /* the limit is higher here */
    for (size_t i = 0; i < LEFT; i++)
        munmap(pages[--taken], page);
    int status = counted_collect_all(collector, 200000);
    if (status != ETL_OK)
        fprintf(stderr, "%s\n", etl_collector_message(collector));
    CHILD_CHECK(status == ETL_OK);
    struct counted counted = {0, 200000, 0};
    status = etl_load(collector, counted_load, &counted);
    if (status != ETL_OK) { /* not even the heap can grow: it is told, and there is more again */
        CHILD_CHECK(status == ETL_E_NOMEM && counted.next == 0);
        for (size_t i = 0; i < 4 * LEFT; i++)
            munmap(pages[--taken], page);
        counted = (struct counted){0, 200000, 0};
        status = etl_load(collector, counted_load, &counted);
    }
    CHILD_CHECK(status == ETL_OK && counted.next == 200000 && counted.wrong == 0);
    CHILD_CHECK(support_files_held(support_directory()) == 0);
    etl_collector_destroy(collector);
}

static void few_mappings_are_enough(void **state) {
    (void)state;
    SKIP_WHERE_MEMORY_IS_NOT_OURS();
    support_in_child(few_mappings);
}

/* ---- Address space */

static void set_address_space(size_t more) {
    struct rlimit limit;
    CHILD_CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%llu", &pages) != 1)
        support_child_leave(SUPPORT_CHILD_SKIP);
    fclose(file);
    limit.rlim_cur =
        more == SIZE_MAX ? limit.rlim_max : (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    CHILD_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* More data than the address space has; what memory does not take goes to the disk, or is refused
 * until there is more, and then nothing is missing. */
static void no_limit_of_its_own(void) {
    enum { PAIRS = 1600000 };
    etl_options options = support_options(now.limit);
    options.threads = now.threads;
    etl_collector *collector;
    set_address_space(48 * MIB);
    CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    CHILD_CHECK(counted_collect_all(collector, 10) == ETL_OK);
    CHILD_CHECK(counted_load_matches(collector, 10));
    uint64_t collected = 0;
    int status = ETL_OK;
    while (collected < PAIRS && (status = counted_collect(collector, collected)) == ETL_OK)
        collected++;
    printf("limit %zu, threads %d: %llu pairs fit, %s\n", now.limit, now.threads,
           (unsigned long long)collected, etl_collector_message(collector));
    CHILD_CHECK(status == ETL_OK || status == ETL_E_NOMEM);
    CHILD_CHECK(collected >= 500000);
    if (status == ETL_E_NOMEM) {
        CHILD_CHECK(counted_collect(collector, collected) == ETL_E_NOMEM);
        set_address_space(SIZE_MAX);
    }
    for (; collected < PAIRS; collected++)
        CHILD_CHECK(counted_collect(collector, collected) == ETL_OK);
    set_address_space(SIZE_MAX);
    CHILD_CHECK(counted_load_matches(collector, PAIRS));
    etl_collector_destroy(collector);
}

static void a_limit_above_the_address_space_loses_nothing(void **state) {
    (void)state;
    SKIP_WHERE_MEMORY_IS_NOT_OURS();
    static const size_t limits[] = {256 * MIB, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        for (int threads = ETL_THREADS_NONE; threads <= 1; threads += 2) {
            begin(limits[i], 0, 0);
            now.threads = threads;
            support_in_child(no_limit_of_its_own);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_pairs_of_16_bytes),
        cmocka_unit_test(memory_of_pairs_of_100_bytes),
        cmocka_unit_test(memory_of_pairs_of_4_kib),
        cmocka_unit_test(memory_of_pairs_of_1_mib),
        cmocka_unit_test(memory_of_pairs_of_64_mib),
        cmocka_unit_test(memory_of_merge_passes),
        cmocka_unit_test(memory_when_the_disk_is_slower_than_the_producer),
        cmocka_unit_test(five_hundred_collectors_of_1_mib_hold_less_than_that_each),
        cmocka_unit_test(few_mappings_are_enough),
        cmocka_unit_test(a_limit_above_the_address_space_loses_nothing),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
