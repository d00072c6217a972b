/* peer_gnu_sort.c: sort(1) of the GNU coreutils by pipes, LC_ALL=C, stable, two threads.
 *
 * A record is key, 0x02, value, NUL (sort -z). What a text tool cannot hold is escaped so that the
 * order stays: 0, 1 and 2 become 01 01, 01 03 and 01 04, which still lie below 03. Random bytes
 * grow by 1.2 percent, where hexadecimal digits would double them. Values are complemented first,
 * so that F's zeros do not grow. Escaping goes by eight bytes where none of them needs it. */
#include "bench.h"
#include "peers.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ESCAPE = 1, SEPARATOR = 2, SPECIAL = 3, ROOM = 256 << 10, RECORD_MOST = 8 << 10 };

static const uint64_t low_bits = 0x0101010101010101u, high_bits = 0x8080808080808080u;

struct pipes {
    int to, from;
    pid_t sort;
};

static void exec_sort(const struct pass *pass, const int in[2], const int out[2]) {
    char size[32];
    char separator[2] = {SEPARATOR, '\0'};
    snprintf(size, sizeof size, "%zuK", pass->limit >> 10);
    setenv("LC_ALL", "C", 1);
    if (dup2(in[0], 0) == 0 && dup2(out[1], 1) == 1)
        execlp("sort", "sort", "-z", "-s", "-t", separator, "-k1,1", "-S", size, "--parallel=2",
               "-T", pass->directory, (char *)NULL);
    apart_fail("sort", NULL);
}

static struct pipes start(const struct pass *pass) {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0)
        apart_fail("pipe", NULL);
    fcntl(in[1], F_SETFD, FD_CLOEXEC);
    fcntl(out[0], F_SETFD, FD_CLOEXEC);
    pid_t sort = fork();
    if (sort < 0)
        apart_fail("fork", NULL);
    if (sort == 0)
        exec_sort(pass, in, out);
    close(in[0]);
    close(out[1]);
#ifdef F_SETPIPE_SZ
    fcntl(in[1], F_SETPIPE_SZ, 1 << 20);
    fcntl(out[0], F_SETPIPE_SZ, 1 << 20);
#endif
    return (struct pipes){.to = in[1], .from = out[0], .sort = sort};
}

/* ---- Into sort. */

static unsigned char *escape(unsigned char *to, const unsigned char *from, size_t size,
                             uint64_t flip) {
    while (size > 0) {
        uint64_t word;
        size_t step = size < 8 ? size : 8;
        if (step == 8) {
            memcpy(&word, from, 8);
            word ^= flip;
            if (((word - low_bits * SPECIAL) & ~word & high_bits) == 0) { /* none below 3 */
                memcpy(to, &word, 8);
                to += 8, from += 8, size -= 8;
                continue;
            }
        }
        for (size_t i = 0; i < step; i++) {
            unsigned char byte = from[i] ^ (unsigned char)flip;
            if (byte < SPECIAL) {
                *to++ = ESCAPE;
                byte = byte == 0 ? 1 : (unsigned char)(byte + 2);
            }
            *to++ = byte;
        }
        from += step, size -= step;
    }
    return to;
}

static void write_all(int to, const unsigned char *at, size_t size) {
    while (size > 0) {
        ssize_t written = write(to, at, size);
        if (written < 0 && errno != EINTR)
            apart_fail("write to sort", NULL);
        if (written > 0)
            at += written, size -= (size_t)written;
    }
}

static void feed(const struct pass *pass, int to) {
    struct workload *workload = workload_open(pass->letter, PASS_SEED, pass->size);
    unsigned char *buffer = bench_alloc(ROOM), *at = buffer;
    for (uint64_t i = 0; i < pass->pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        if (ROOM - (size_t)(at - buffer) < RECORD_MOST) {
            write_all(to, buffer, (size_t)(at - buffer));
            at = buffer;
        }
        at = escape(at, pair.key, pair.key_size, 0);
        *at++ = SEPARATOR;
        at = escape(at, pair.value, pair.value_size, UINT64_MAX);
        *at++ = '\0';
    }
    write_all(to, buffer, (size_t)(at - buffer));
    free(buffer);
    workload_close(workload);
    close(to);
}

/* ---- Out of sort. */

/* Returns the size. */
static size_t unescape(unsigned char *to, const unsigned char *from, size_t size, uint64_t flip) {
    unsigned char *start = to;
    const unsigned char *end = from + size;
    while (from < end) {
        uint64_t word;
        if (end - from >= 8) {
            memcpy(&word, from, 8);
            uint64_t escapes = word ^ low_bits * ESCAPE;
            if (((escapes - low_bits) & ~escapes & high_bits) == 0) {
                word ^= flip;
                memcpy(to, &word, 8);
                to += 8, from += 8;
                continue;
            }
        }
        for (int i = 0; i < 8 && from < end; i++) {
            unsigned char byte = *from++;
            if (byte == ESCAPE && from < end) {
                byte = *from++;
                byte = byte == 1 ? 0 : (unsigned char)(byte - 2);
            }
            *to++ = byte ^ (unsigned char)flip;
        }
    }
    return (size_t)(to - start);
}

static void take(struct output *output, const unsigned char *record, size_t size) {
    unsigned char key[RECORD_MOST], value[RECORD_MOST];
    const unsigned char *separator = memchr(record, SEPARATOR, size);
    if (separator == NULL || size > RECORD_MOST)
        apart_fail("sort", "an unknown record");
    size_t key_size = unescape(key, record, (size_t)(separator - record), 0);
    size_t value_size =
        unescape(value, separator + 1, (size_t)(record + size - separator) - 1, UINT64_MAX);
    output_take(output, key, key_size, value, value_size);
}

static void drain(int from, struct output *output) {
    unsigned char *buffer = bench_alloc(ROOM);
    size_t used = 0;
    for (;;) {
        ssize_t got = read(from, buffer + used, ROOM - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
        unsigned char *at = buffer, *end;
        while ((end = memchr(at, '\0', used)) != NULL) {
            take(output, at, (size_t)(end - at));
            used -= (size_t)(end + 1 - at);
            at = end + 1;
        }
        memmove(buffer, at, used);
    }
    if (used != 0)
        apart_fail("sort", "half a record");
    free(buffer);
    close(from);
}

static void run(const struct pass *pass, struct peer_report *report) {
    int status;
    struct pipes pipes = start(pass);
    report->helper = pipes.sort;
    feed(pass, pipes.to);
    drain(pipes.from, &report->output);
    if (waitpid(pipes.sort, &status, 0) != pipes.sort || status != 0)
        apart_fail("sort", "did not end well");
}

const struct peer peer_gnu_sort = {"GNU sort", true, false, run};
