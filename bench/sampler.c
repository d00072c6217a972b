/* sampler.c: anonymous memory over time, for bench.h. A thread reads RssAnon every 5 ms and keeps
 * the peak and a coarse series: the maximum of each of up to BENCH_SERIES_MAX steps, which double
 * when there are too many. Linux; elsewhere all is 0. */
#include "bench.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

struct bench_sampler {
    pthread_t thread;
    atomic_bool stop;
    uint64_t base, peak;
    int descriptor;
    uint64_t start, step_ns;
    struct bench_series series;
};

static uint64_t read_anonymous(int descriptor) {
    char text[4096];
    ssize_t size = pread(descriptor, text, sizeof text - 1, 0);
    if (size <= 0)
        return 0;
    text[size] = '\0';
    const char *line = strstr(text, "RssAnon:");
    return line != NULL ? strtoull(line + 8, NULL, 10) * 1024 : 0;
}

uint64_t bench_anonymous(int process) {
    char path[64] = "/proc/self/status";
    if (process != 0)
        snprintf(path, sizeof path, "/proc/%d/status", process);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return 0;
    uint64_t bytes = read_anonymous(descriptor);
    close(descriptor);
    return bytes;
}

/* Half as many steps, twice as long. */
static void coarsen(struct bench_sampler *sampler) {
    uint64_t *bytes = sampler->series.bytes;
    for (size_t i = 0; i < BENCH_SERIES_MAX / 2; i++)
        bytes[i] = bytes[2 * i] > bytes[2 * i + 1] ? bytes[2 * i] : bytes[2 * i + 1];
    sampler->series.count = BENCH_SERIES_MAX / 2;
    sampler->step_ns *= 2;
}

static void take(struct bench_sampler *sampler) {
    uint64_t now = read_anonymous(sampler->descriptor);
    if (now > sampler->peak)
        sampler->peak = now;
    uint64_t above = now > sampler->base ? now - sampler->base : 0;
    size_t step = (size_t)((bench_now_ns() - sampler->start) / sampler->step_ns);
    while (step >= BENCH_SERIES_MAX) {
        coarsen(sampler);
        step /= 2;
    }
    struct bench_series *series = &sampler->series;
    for (; series->count <= step; series->count++) /* steps without a sample are as this one */
        series->bytes[series->count] = above;
    if (above > series->bytes[step])
        series->bytes[step] = above;
}

static void *sample(void *argument) {
    struct bench_sampler *sampler = argument;
    const struct timespec step = {.tv_nsec = 5000000};
    while (!atomic_load(&sampler->stop)) {
        take(sampler);
        nanosleep(&step, NULL);
    }
    return NULL;
}

struct bench_sampler *bench_sampler_start(void) {
    struct bench_sampler *sampler = bench_alloc(sizeof *sampler);
    sampler->descriptor = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    sampler->base = sampler->peak = read_anonymous(sampler->descriptor);
    sampler->start = bench_now_ns();
    sampler->step_ns = 5000000;
    bench_check(pthread_create(&sampler->thread, NULL, sample, sampler) == 0 ? ETL_OK : ETL_E_IO,
                "sampler", NULL);
    return sampler;
}

uint64_t bench_sampler_stop_series(struct bench_sampler *sampler, struct bench_series *series) {
    atomic_store(&sampler->stop, true);
    pthread_join(sampler->thread, NULL);
    if (sampler->descriptor >= 0)
        close(sampler->descriptor);
    uint64_t above = sampler->peak - sampler->base;
    sampler->series.step_seconds = (double)sampler->step_ns / 1e9;
    if (series != NULL)
        *series = sampler->series;
    free(sampler);
    return above;
}

uint64_t bench_sampler_stop(struct bench_sampler *sampler) {
    return bench_sampler_stop_series(sampler, NULL);
}
