/* portable.c: one program for every machine and C library, without a test library.
 *
 *     portable [SEED [SAVE [ATTACH]]]
 *
 * Random pairs under each rule for equal keys, several memory limits, threads and ways to read,
 * in memory and spilled, beside the oracle. Prints a checksum of each output, of the bytes of
 * run files and of encoded keys; the same seed prints the same lines on every machine, whatever
 * its byte order and the size of its pointers. Then saves a run as the file SAVE, and attaches what
 * some machine saved with this seed, ATTACH or else SAVE. Exit status 1 when something is wrong. */
#include "oracle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum { PAIRS = 24000, DISTINCT = 9000, KEY_MOST = 40, VALUE_MOST = 120, FIRST_FILE = 3 };

static uint64_t seed;
static uint64_t state;

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "portable %" PRIu64 ": line %d: %s\n", seed, __LINE__, #condition); \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

/* splitmix64 (Steele, Lea and Flood 2014) */
static uint64_t draw(void) {
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static size_t draw_below(size_t bound) {
    return (size_t)(draw() % bound);
}

/* FNV-1a of 64 bits, over bytes alone. */
static const uint64_t hash_start = 0xCBF29CE484222325u;

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return hash;
}

static uint64_t hash_slice(uint64_t hash, etl_slice slice) {
    unsigned char head[9];
    for (int i = 0; i < 8; i++)
        head[i] = (unsigned char)((uint64_t)slice.size >> 8 * i);
    head[8] = slice.data != NULL;
    return hash_bytes(hash_bytes(hash, head, sizeof head), slice.data, slice.size);
}

/* ---- Pairs */

static size_t draw_key(unsigned char key[KEY_MOST]) {
    uint64_t number = draw_below(DISTINCT);
    uint64_t kept = state;
    state = seed ^ number << 20; /* a key is a function of its number */
    size_t size = draw_below(KEY_MOST + 1);
    for (size_t i = 0; i < size; i++)
        key[i] = (unsigned char)(i < 4 ? draw_below(3) * 127 : draw());
    state = kept;
    return size;
}

static void draw_pairs(struct oracle *pairs) {
    unsigned char key[KEY_MOST], value[VALUE_MOST];
    for (int i = 0; i < PAIRS; i++) {
        size_t key_size = draw_key(key), value_size = draw_below(VALUE_MOST + 1);
        for (size_t j = 0; j < value_size; j++)
            value[j] = (unsigned char)draw();
        bool is_nil = draw_below(20) == 0;
        oracle_add(pairs, etl_slice_of(key, key_size),
                   is_nil ? etl_slice_of(NULL, 0) : etl_slice_of(value, value_size));
    }
}

static void collect(etl_collector *collector, const struct oracle *pairs, int flush_every) {
    for (size_t i = 0; i < pairs->count; i++) {
        CHECK(etl_collect(collector, oracle_key(&pairs->pairs[i]),
                          oracle_value(&pairs->pairs[i])) == ETL_OK);
        if (flush_every != 0 && (i + 1) % (size_t)flush_every == 0)
            CHECK(etl_flush(collector) == ETL_OK);
    }
}

/* ---- The same output under every limit */

struct setting {
    size_t memory_limit;
    int threads;
    etl_access access;
    int flush_every;
};

static const struct setting settings[] = {
    {64 * MIB, ETL_THREADS_NONE, ETL_ACCESS_MMAP, 0},
    {1 * MIB, 0, ETL_ACCESS_MMAP, 0},
    {1 * MIB, ETL_THREADS_NONE, ETL_ACCESS_READ, 0},
    {SIZE_MAX, 2, ETL_ACCESS_MMAP, PAIRS / 5},
};

static const char *const rule_names[] = {"keep_all", "keep_first", "keep_last",
                                         "append",   "reduce",     "reject"};

static void check_iterators(etl_collector *collector, const struct oracle *expected) {
    unsigned char from[KEY_MOST], to[KEY_MOST];
    for (int round = 0; round < 5; round++) {
        etl_range range = {etl_slice_of(from, draw_key(from)), etl_slice_of(to, draw_key(to))};
        size_t at = oracle_lower_bound(expected, range.from);
        size_t end = oracle_lower_bound(expected, range.to);
        etl_iter *iter = NULL;
        etl_slice key, value;
        CHECK(etl_iter_open(&iter, collector, &range) == ETL_OK);
        for (; at < end; at++) {
            CHECK(etl_iter_next(iter, &key, &value) == ETL_OK);
            CHECK(oracle_same(&expected->pairs[at], key, value));
        }
        CHECK(etl_iter_next(iter, &key, &value) == ETL_END);
        etl_iter_close(iter);
    }
}

static void check_split(etl_collector *collector, const struct oracle *expected) {
    etl_slice keys[3];
    size_t count = 0, before = 0;
    CHECK(etl_split(&collector, 1, 4, keys, &count) == ETL_OK && count == 3);
    for (size_t i = 0; i < count; i++) {
        size_t at = oracle_lower_bound(expected, keys[i]);
        CHECK(at > before && at < expected->count);
        before = at;
    }
}

static void check_setting(const struct setting *setting, const struct oracle_rules *rules,
                          const struct oracle *pairs, const struct oracle *expected, bool whole) {
    etl_options options = LIBETL_OPTIONS_INIT;
    options.memory_limit = setting->memory_limit;
    options.threads = setting->threads;
    options.access = setting->access;
    oracle_apply(rules, &options);
    etl_collector *collector = NULL;
    CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    collect(collector, pairs, setting->flush_every);
    etl_stats stats = {.struct_size = sizeof stats};
    CHECK(etl_collector_stats(collector, &stats) == ETL_OK);
    CHECK(stats.pairs == pairs->count);
    CHECK((stats.runs > 0) == (setting->memory_limit != 64 * MIB));
    if (whole) {
        check_iterators(collector, expected);
        check_split(collector, expected);
    }
    struct oracle_check check = {.expected = expected};
    int status = etl_load(collector, oracle_load, &check);
    CHECK(status == (whole ? ETL_OK : ETL_E_DUPLICATE));
    CHECK(check.at == expected->count);
    etl_collector_destroy(collector);
}

static void check_rules(const struct oracle_rules *rules, const struct oracle *pairs) {
    struct oracle expected = {0};
    bool whole = oracle_settle(pairs, rules, &expected);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        check_setting(&settings[i], rules, pairs, &expected, whole);
    uint64_t hash = hash_start;
    for (size_t i = 0; i < expected.count; i++) {
        hash = hash_slice(hash, oracle_key(&expected.pairs[i]));
        hash = hash_slice(hash, oracle_value(&expected.pairs[i]));
    }
    printf("%s%s: %zu pairs %016" PRIx64 "\n", rule_names[rules->duplicates],
           rules->order_values ? " by value" : "", expected.count, hash);
    oracle_clear(&expected);
}

/* ---- The bytes of run files. They have no names, but with ETL_ACCESS_READ stay open. */

static uint64_t hash_file(int file, uint64_t size) {
    unsigned char block[4096];
    uint64_t hash = hash_start, at = 0;
    while (at < size) {
        ssize_t got = pread(file, block, sizeof block, (off_t)at);
        CHECK(got > 0);
        hash = hash_bytes(hash, block, (size_t)got);
        at += (uint64_t)got;
    }
    return hash;
}

static void check_run_files(const struct oracle *pairs) {
    etl_options options = LIBETL_OPTIONS_INIT;
    options.access = ETL_ACCESS_READ;
    etl_collector *collector = NULL;
    CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    collect(collector, pairs, PAIRS / 2);
    int files = 0;
    uint64_t sum = 0, bytes = 0; /* whatever their descriptors' order is */
    for (int file = FIRST_FILE; file < 64; file++) {
        struct stat status;
        if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 0)
            continue;
        files++;
        bytes += (uint64_t)status.st_size;
        sum += hash_file(file, (uint64_t)status.st_size);
    }
    CHECK(files == 2);
    etl_collector_destroy(collector);
    printf("2 run files: %" PRIu64 " bytes %016" PRIx64 "\n", bytes, sum);
}

/* ---- Saved runs */

static void check_save(const struct oracle *pairs, const char *path) {
    etl_options options = LIBETL_OPTIONS_INIT;
    options.memory_limit = 1 * MIB;
    options.duplicates = ETL_KEEP_LAST;
    etl_collector *collector = NULL;
    CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    collect(collector, pairs, 0);
    CHECK(etl_save(collector, path) == ETL_OK);
    etl_collector_destroy(collector);
    int file = open(path, O_RDONLY);
    struct stat status;
    CHECK(file >= 0 && fstat(file, &status) == 0);
    printf("saved run: %" PRIu64 " bytes %016" PRIx64 "\n", (uint64_t)status.st_size,
           hash_file(file, (uint64_t)status.st_size));
    close(file);
}

static void check_attach(const struct oracle *pairs, const char *path) {
    static const etl_access accesses[] = {ETL_ACCESS_MMAP, ETL_ACCESS_READ, ETL_ACCESS_MMAP_ALL};
    struct oracle expected = {0};
    struct oracle_rules rules = {ETL_KEEP_LAST, false, ORACLE_TRIM};
    CHECK(oracle_settle(pairs, &rules, &expected));
    for (size_t i = 0; i < sizeof accesses / sizeof accesses[0]; i++) {
        etl_options options = LIBETL_OPTIONS_INIT;
        options.access = accesses[i];
        etl_collector *collector = NULL;
        struct oracle_check check = {.expected = &expected};
        CHECK(etl_collector_create(&collector, &options) == ETL_OK);
        CHECK(etl_attach_run(collector, path) == ETL_OK);
        check_iterators(collector, &expected);
        CHECK(etl_load(collector, oracle_load, &check) == ETL_OK && check.at == expected.count);
        etl_collector_destroy(collector);
    }
    oracle_clear(&expected);
}

/* ---- Encoded keys */

static void check_keys(void) {
    uint64_t hash = hash_start;
    for (int i = 0; i < 3000; i++) {
        uint64_t bits = draw();
        bits >>= draw_below(64);
        double number = (double)(int64_t)bits / 3;
        etl_key_order order = i % 2 == 0 ? ETL_KEY_ASCENDING : ETL_KEY_DESCENDING;
        unsigned char text[] = {(unsigned char)bits, 0, (unsigned char)(bits >> 8)}, back[3];
        uint8_t key[128], *end = key;
        end = etl_key_put_u16(end, (uint16_t)bits, order);
        end = etl_key_put_i32(end, (int32_t)(bits & 0x7FFFFFFF) - 0x40000000, order);
        end = etl_key_put_u64(end, bits, order);
        end = etl_key_put_double(end, number, order);
        end = etl_key_put_float(end, (float)number, order);
        end = etl_key_put_bytes(end, etl_slice_of(text, sizeof text), order);
        hash = hash_bytes(hash, key, (size_t)(end - key));
        etl_slice rest = etl_slice_of(key, (size_t)(end - key));
        uint16_t u16;
        int32_t i32;
        uint64_t u64;
        double d;
        float f;
        size_t size;
        CHECK(etl_key_get_u16(&rest, &u16, order) == ETL_OK && u16 == (uint16_t)bits);
        CHECK(etl_key_get_i32(&rest, &i32, order) == ETL_OK &&
              i32 == (int32_t)(bits & 0x7FFFFFFF) - 0x40000000);
        CHECK(etl_key_get_u64(&rest, &u64, order) == ETL_OK && u64 == bits);
        CHECK(etl_key_get_double(&rest, &d, order) == ETL_OK &&
              memcmp(&d, &number, sizeof d) == 0);
        CHECK(etl_key_get_float(&rest, &f, order) == ETL_OK);
        CHECK(etl_key_get_bytes(&rest, back, sizeof back, &size, order) == ETL_OK);
        CHECK(size == sizeof text && memcmp(back, text, size) == 0 && rest.size == 0);
    }
    printf("encoded keys: %016" PRIx64 "\n", hash);
}

/* ---- Sizes that do not fit, or fit a size_t alone */

static void check_sizes(void) {
    etl_collector *collector = NULL;
    void *key = NULL, *value = NULL;
    CHECK(etl_collector_create(&collector, NULL) == ETL_OK);
    CHECK(etl_collect(collector, etl_slice_of("k", SIZE_MAX), etl_slice_str("")) ==
          ETL_E_TOO_LARGE);
    CHECK(etl_collect(collector, etl_slice_str("k"), etl_slice_of("v", SIZE_MAX)) ==
          ETL_E_TOO_LARGE);
    if (sizeof(size_t) == 4) { /* each is allowed, and their sum is none that can be had */
        size_t most = (size_t)ETL_SIZE_MAX;
        CHECK(etl_reserve(collector, most, most, &key, &value) == ETL_E_NOMEM);
        CHECK(etl_reserve(collector, most, 0, &key, &value) == ETL_E_NOMEM);
        CHECK(etl_reserve(collector, 1, most, &key, &value) == ETL_E_NOMEM);
        CHECK(etl_reserve(collector, most / 2, most / 2, &key, &value) == ETL_E_NOMEM);
    }
    CHECK(etl_collect(collector, etl_slice_str("k"), etl_slice_str("v")) == ETL_OK);
    struct oracle one = {0};
    oracle_add(&one, etl_slice_str("k"), etl_slice_str("v"));
    struct oracle_check check = {.expected = &one};
    CHECK(etl_load(collector, oracle_load, &check) == ETL_OK && check.at == 1);
    oracle_clear(&one);
    etl_collector_destroy(collector);
}

int main(int argc, char **argv) {
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    state = seed;
    struct oracle pairs = {0};
    printf("seed %" PRIu64 "\n", seed);
    check_keys();
    check_sizes();
    draw_pairs(&pairs);
    for (int rule = ETL_KEEP_ALL; rule <= ETL_REJECT; rule++) {
        struct oracle_rules rules = {(etl_duplicates)rule, false, ORACLE_TRIM};
        check_rules(&rules, &pairs);
    }
    struct oracle_rules by_value = {ETL_KEEP_ALL, true, ORACLE_TRIM};
    check_rules(&by_value, &pairs);
    check_run_files(&pairs);
    if (argc > 2) {
        check_save(&pairs, argv[2]);
        check_attach(&pairs, argv[argc > 3 ? 3 : 2]);
    }
    oracle_clear(&pairs);
    return 0;
}
