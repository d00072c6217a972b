/* console.h: what the example programs share with their terminal: sizes for people, complaints, a
 * progress line, Ctrl-C, and how much memory the process really holds.
 *
 * A header alone, so that each example stays one file to compile. console_progress is an
 * etl_progress_fn: give it to etl_options.progress with a struct console as its context. */
#ifndef CONSOLE_H
#define CONSOLE_H

#include "etl.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct console {
    volatile sig_atomic_t interrupted; /* by this signal; 0: not */
    etl_collector *volatile collector; /* to be cancelled by it, or NULL */
    const char *program;               /* stands before every complaint */
    const char *unit;                  /* what a pair is in this program: "lines" */
    bool terminal;                     /* show progress */
    bool shown;                        /* a progress line stands there and must be wiped */
    uint64_t memory_peak; /* the most anonymous memory seen by console_sample_memory */
};

static inline uint64_t console_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- Text for people; each returns its buffer. */

struct console_text {
    char text[32];
};

/* 1536 -> "1.5 KiB" */
static inline const char *console_bytes(struct console_text *out, uint64_t bytes) {
    static const char units[][4] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double size = (double)bytes;
    for (; size >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        size /= 1024;
    snprintf(out->text, sizeof out->text, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
    return out->text;
}

/* 1234567 -> "1,234,567" */
static inline const char *console_count(struct console_text *out, uint64_t count) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
    char *to = out->text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out->text;
}

/* "64M" -> 67108864. As sort(1) reads it: b is bytes; K, M, G and T are powers of 1024; a number
 * alone counts KiB. What does not fit is "as much as there is". */
static inline bool console_parse_size(const char *text, size_t *size) {
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long number = strtoull(text, &end, 10);
    static const char units[] = "bKMGT";
    const char *unit = *end == '\0' ? &units[1] : strchr(units, *end == 'k' ? 'K' : *end);
    if (unit == NULL || (*end != '\0' && end[1] != '\0'))
        return false;
    unsigned shift = 10 * (unsigned)(unit - units);
    *size = number > (SIZE_MAX >> shift) ? SIZE_MAX : (size_t)number << shift;
    return true;
}

/* ---- Memory */

/* Anonymous memory of this process now: heap, stacks and mapped memory, but not the pages of run
 * files, which the system can drop at any time. Where the system does not say, all of it at its
 * peak. */
static inline uint64_t console_anonymous_memory(void) {
    uint64_t kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    if (status != NULL) {
        char line[256];
        while (kib == 0 && fgets(line, sizeof line, status) != NULL)
            if (sscanf(line, "RssAnon: %" SCNu64, &kib) != 1)
                kib = 0;
        fclose(status);
    }
    if (kib != 0)
        return kib * 1024;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
    return (uint64_t)usage.ru_maxrss;
#else
    return (uint64_t)usage.ru_maxrss * 1024;
#endif
}

/* To be called wherever memory may be at its highest. */
static inline void console_sample_memory(struct console *console) {
    uint64_t now = console_anonymous_memory();
    if (now > console->memory_peak)
        console->memory_peak = now;
}

/* ---- Progress and complaints */

static inline void console_clear(struct console *console) {
    if (console->shown)
        fputs("\r\033[K", stderr);
    console->shown = false;
}

/* "program: message" on standard error. */
#ifdef __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
static inline void
console_complain(struct console *console, const char *format, ...) {
    va_list arguments;
    console_clear(console);
    fprintf(stderr, "%s: ", console->program);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* The same for a system call that failed, with errno's text. */
static inline void console_trouble(struct console *console, const char *what, const char *name) {
    console_complain(console, "%s: %s: %s", what, name, strerror(errno));
}

/* An etl_progress_fn. */
static inline int console_progress(void *context, const etl_progress *progress) {
    static const char *const phases[] = {"collecting", "spilling", "merging", "loading"};
    struct console *console = context;
    struct console_text pairs, bytes;
    console_sample_memory(console);
    if (!console->terminal)
        return 0;
    fprintf(stderr, "\r\033[K%s: %s %s %s, %s", console->program,
            (size_t)progress->phase < 4 ? phases[progress->phase] : "working on",
            console_count(&pairs, progress->pairs_done), console->unit,
            console_bytes(&bytes, progress->bytes_done));
    if (progress->pairs_all != 0)
        fprintf(stderr, ", %.0f %%",
                100.0 * (double)progress->pairs_done / (double)progress->pairs_all);
    fprintf(stderr, ", %.0f s", (double)progress->elapsed_ns / 1e9);
    fflush(stderr);
    console->shown = true;
    return 0;
}

/* ---- Signals: SIGINT and its like cancel console->collector, so that the program comes to its
 * end and cleans up; console_exit then ends it by that signal, as its caller expects. SIGPIPE is
 * ignored: a reader who left is EPIPE. */

static struct console *console_of_signals;

static inline void console_interrupt(int number) {
    console_of_signals->interrupted = number;
    if (console_of_signals->collector != NULL)
        etl_cancel(console_of_signals->collector);
}

static inline void console_catch_signals(struct console *console) {
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
    console_of_signals = console;
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction old, action = {.sa_handler = console_interrupt}; /* no SA_RESTART */
        sigemptyset(&action.sa_mask);
        sigaction(numbers[i], NULL, &old);
        if (old.sa_handler != SIG_IGN) /* as nohup(1) wants it */
            sigaction(numbers[i], &action, NULL);
    }
}

static inline int console_exit(struct console *console, int status) {
    console_clear(console);
    if (console->interrupted) {
        signal((int)console->interrupted, SIG_DFL);
        raise((int)console->interrupted);
    }
    return status;
}

#endif
