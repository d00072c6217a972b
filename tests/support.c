/* support.c: see support.h. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- Statuses */

void support_assert_status(int expected, int status, const etl_collector *collector,
                           const char *call, const char *file, int line) {
    if (status == expected)
        return;
    print_error("%s\n  gave %d (%s), expected %d (%s)\n", call, status, etl_status_string(status),
                expected, etl_status_string(expected));
    if (collector != NULL)
        print_error("  message: \"%s\"\n", etl_collector_message(collector));
    _fail(file, line);
}

/* ---- How much work */

bool support_light(void) {
    const char *light = getenv("LIBETL_TEST_LIGHT");
    return light != NULL && light[0] != '\0' && strcmp(light, "0") != 0;
}

size_t support_scaled(size_t count) {
    if (!support_light())
        return count;
    return count < 10 ? 1 : count / 10;
}

/* ---- Numbers */

uint64_t support_seed(void) {
    static uint64_t seed;
    static bool known;
    if (!known) {
        const char *given = getenv("LIBETL_TEST_SEED");
        if (given != NULL && given[0] != '\0') {
            seed = strtoull(given, NULL, 0);
        } else {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            seed =
                (uint64_t)now.tv_sec * 1000003 ^ (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 40;
        }
        known = true;
        print_message("LIBETL_TEST_SEED=%llu\n", (unsigned long long)seed);
    }
    return seed;
}

uint64_t prng_next(struct prng *prng) {
    uint64_t z = prng->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

void prng_start(struct prng *prng, uint64_t stream) {
    prng->state = support_seed() ^ stream * 0xD6E8FEB86659FD93u;
    prng->state = prng_next(prng);
}

size_t prng_below(struct prng *prng, size_t bound) {
    return (size_t)(prng_next(prng) % bound);
}

size_t prng_between(struct prng *prng, size_t least, size_t most) {
    return least + prng_below(prng, most - least + 1);
}

bool prng_permille(struct prng *prng, unsigned chance) {
    return prng_below(prng, 1000) < chance;
}

/* ---- The temporary directory */

static char directory[256];
static char fast_directory[64];

int support_setup(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/libetl-test-XXXXXX",
             base != NULL && base[0] == '/' ? base : "/tmp");
    snprintf(fast_directory, sizeof fast_directory, "/dev/shm/libetl-test-XXXXXX");
    if (mkdtemp(fast_directory) == NULL)
        fast_directory[0] = '\0';
    support_seed();
    return mkdtemp(directory) != NULL ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *walk) {
    (void)stat, (void)type, (void)walk;
    return remove(path);
}

int support_teardown(void **state) {
    (void)state;
    if (fast_directory[0] != '\0')
        nftw(fast_directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *support_directory(void) {
    return directory;
}

const char *support_path(const char *name) {
    static char paths[4][512];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

etl_options support_options(size_t memory_limit) {
    static const char *const directories[] = {directory, NULL};
    etl_options options = LIBETL_OPTIONS_INIT;
    options.memory_limit = memory_limit;
    options.temp_dirs = directories;
    options.label = "test";
    return options;
}

void support_make_fast(etl_options *options) {
    static const char *const directories[] = {fast_directory, NULL};
    if (fast_directory[0] != '\0')
        options->temp_dirs = directories;
}

const char *support_fast_path(const char *name) {
    static char paths[4][512];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    etl_options options = support_options(MIB);
    support_make_fast(&options);
    snprintf(path, sizeof paths[0], "%s/%s", options.temp_dirs[0], name);
    return path;
}

size_t support_entries(const char *path) {
    DIR *stream = opendir(path);
    if (stream == NULL)
        return SIZE_MAX;
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(stream);
    return count;
}

/* ---- What the process holds */

size_t support_descriptors(void) {
    size_t count = support_entries("/proc/self/fd");
    return count == SIZE_MAX ? SIZE_MAX : count - 1; /* the directory's own */
}

size_t support_threads(void) {
    return support_entries("/proc/self/task");
}

/* Lines of /proc/self/maps that have this text in them. */
static size_t mappings_with(const char *text) {
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL)
        return SIZE_MAX;
    size_t count = 0;
    char line[4096];
    while (fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, text) != NULL;
    fclose(maps);
    return count;
}

size_t support_mappings(void) {
    return mappings_with("-");
}

size_t support_files_held(const char *path) {
    size_t held = mappings_with(path);
    DIR *stream = opendir("/proc/self/fd");
    if (stream == NULL || held == SIZE_MAX)
        return SIZE_MAX;
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        char link[300], target[1024];
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        ssize_t size = readlink(link, target, sizeof target - 1);
        if (size > 0) {
            target[size] = '\0';
            held += strstr(target, path) != NULL;
        }
    }
    closedir(stream);
    return held;
}

/* ---- The allocator: [head][block][tail], the tail being bytes that must stay as they are */

enum { HEAD_SIZE = 32, TAIL_SIZE = 16, FRESH = 0xA5, FREED = 0xDD, TAIL = 0x5C };

struct head {
    uint64_t magic;
    size_t size;
};

static const uint64_t HEAD_MAGIC = 0x6c69626574682121u;

static struct head *head_of(void *block) {
    return (struct head *)((unsigned char *)block - HEAD_SIZE);
}

static void block_free(struct support_memory *memory, void *block, size_t size) {
    struct head *head = head_of(block);
    if (head->magic != HEAD_MAGIC || head->size != size) {
        atomic_fetch_add(&memory->mistakes, 1);
        return; /* better leaked than wrecked: the mistake fails the test anyway */
    }
    const unsigned char *tail = (const unsigned char *)block + size;
    for (size_t i = 0; i < TAIL_SIZE; i++)
        if (tail[i] != TAIL) {
            atomic_fetch_add(&memory->mistakes, 1);
            break;
        }
    head->magic = 0;
    memset(block, FREED, size);
    atomic_fetch_sub(&memory->blocks, 1);
    atomic_fetch_sub(&memory->bytes, size);
    free(head);
}

static bool is_refused(struct support_memory *memory, size_t call) {
    size_t from = atomic_load(&memory->refuse_from), count = atomic_load(&memory->refuse_count);
    return from != 0 && call >= from && (count == 0 || call - from < count);
}

static void *block_make(struct support_memory *memory, size_t size) {
    size_t call = atomic_fetch_add(&memory->calls, 1) + 1;
    if (is_refused(memory, call) || size > SIZE_MAX / 2)
        return NULL;
    struct head *head = malloc(HEAD_SIZE + size + TAIL_SIZE);
    if (head == NULL)
        return NULL;
    head->magic = HEAD_MAGIC;
    head->size = size;
    unsigned char *block = (unsigned char *)head + HEAD_SIZE;
    memset(block, FRESH, size);
    memset(block + size, TAIL, TAIL_SIZE);
    atomic_fetch_add(&memory->blocks, 1);
    size_t bytes = atomic_fetch_add(&memory->bytes, size) + size;
    size_t peak = atomic_load(&memory->bytes_peak);
    while (bytes > peak && !atomic_compare_exchange_weak(&memory->bytes_peak, &peak, bytes))
        ;
    return block;
}

static void *resize(void *context, void *block, size_t old_size, size_t new_size) {
    struct support_memory *memory = context;
    void *moved = NULL;
    if (new_size != 0) {
        moved = block_make(memory, new_size);
        if (moved == NULL)
            return NULL;
        if (block != NULL)
            memcpy(moved, block, old_size < new_size ? old_size : new_size);
    }
    if (block != NULL)
        block_free(memory, block, old_size);
    else if (old_size != 0)
        atomic_fetch_add(&memory->mistakes, 1);
    return moved;
}

etl_allocator support_allocator(struct support_memory *memory) {
    etl_allocator allocator = {resize, memory};
    return allocator;
}

void support_memory_check(const struct support_memory *memory) {
    assert_int_equal(atomic_load(&memory->mistakes), 0);
    assert_int_equal(atomic_load(&memory->blocks), 0);
    assert_int_equal(atomic_load(&memory->bytes), 0);
}

/* ---- Child processes */

/* gcc and clang both have these in what --coverage links. */
#ifdef SUPPORT_COVERAGE
void __gcov_dump(void);
void __gcov_reset(void);

static void begin_counts(void) {
    __gcov_reset();
}

static void write_counts(void) {
    __gcov_dump();
}
#else
static void begin_counts(void) {
}
static void write_counts(void) {
}
#endif

pid_t support_fork(void) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        begin_counts();
    return child;
}

/* By another program: a leak check at the end of this one would ask for what only its parent's
 * threads know. */
void support_child_leave(int code) {
    char command[16];
    snprintf(command, sizeof command, "exit %d", code);
    fflush(NULL);
    write_counts();
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(code); /* a limit on processes may forbid programs too */
}

void support_child_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: in a child: not true: %s\n", file, line, condition);
    support_child_leave(1);
}

void support_in_child(void (*body)(void)) {
    pid_t child = support_fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        body();
        support_child_leave(0);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    if (WIFSIGNALED(status))
        fail_msg("the child was killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) == SUPPORT_CHILD_SKIP)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- Counted pairs */

static void counted_pair(uint64_t i, unsigned char key[8], unsigned char value[]) {
    for (unsigned byte = 0; byte < 8; byte++)
        key[byte] = (unsigned char)(i >> (56 - 8 * byte));
    for (unsigned byte = 0; byte < COUNTED_VALUE_SIZE; byte++)
        value[byte] = (unsigned char)(i >> (8 * (byte % 4)) ^ byte);
}

int counted_collect(etl_collector *collector, uint64_t i) {
    unsigned char key[8], value[COUNTED_VALUE_SIZE];
    counted_pair(i, key, value);
    return etl_collect(collector, etl_slice_of(key, sizeof key),
                       etl_slice_of(value, sizeof value));
}

/* A step that has no factor in common with count visits every pair once. */
static uint64_t scattering_step(uint64_t count) {
    for (uint64_t step = count * 5 / 8 + 1;; step++) {
        uint64_t a = step, b = count;
        while (b != 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return step;
    }
}

int counted_collect_all(etl_collector *collector, uint64_t count) {
    uint64_t step = scattering_step(count), at = 0;
    for (uint64_t i = 0; i < count; i++, at = (at + step) % count) {
        int status = counted_collect(collector, at);
        if (status != ETL_OK)
            return status;
    }
    return ETL_OK;
}

int counted_load(void *context, etl_slice key, etl_slice value) {
    struct counted *counted = context;
    unsigned char expected_key[8], expected_value[COUNTED_VALUE_SIZE];
    counted_pair(counted->next++, expected_key, expected_value);
    if (key.size != sizeof expected_key || memcmp(key.data, expected_key, key.size) != 0 ||
        value.size != sizeof expected_value || value.data == NULL ||
        memcmp(value.data, expected_value, value.size) != 0)
        counted->wrong++;
    return 0;
}

bool counted_load_matches(etl_collector *collector, uint64_t count) {
    struct counted counted = {0, count, 0};
    return etl_load(collector, counted_load, &counted) == ETL_OK && counted.next == count &&
           counted.wrong == 0;
}

void counted_assert_load(etl_collector *collector, uint64_t count) {
    struct counted counted = {0, count, 0};
    ASSERT_OK(collector, etl_load(collector, counted_load, &counted));
    assert_int_equal(counted.next, count);
    assert_int_equal(counted.wrong, 0);
}
