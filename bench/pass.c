/* pass.c: a pass and its check, see pass.h. The sum of each pair is computed once and then mixed
 * into the sums, so that three of them cost hardly more than one. */
#include "pass.h"
#include "bench.h"
#include "workload.h"

void pass_check(int status, const etl_collector *collector) {
    if (status != ETL_OK)
        bench_check(status, "pass", collector != NULL ? etl_collector_message(collector) : NULL);
}

etl_collector *pass_create(const struct pass *pass) {
    const char *directories[] = {pass->directory, NULL};
    etl_options options = LIBETL_OPTIONS_INIT;
    options.memory_limit = pass->limit;
    options.threads = pass->threads;
    options.pool = pass->pool;
    options.temp_dirs = directories;
    char message[512] = "";
    etl_collector *collector;
    bench_check(etl_collector_create_message(&collector, &options, message, sizeof message),
                "create", message);
    return collector;
}

void pass_collect(const struct pass *pass, etl_collector *collector) {
    struct workload *workload = workload_open(pass->letter, PASS_SEED, pass->size);
    for (uint64_t i = 0; i < pass->pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        int status = etl_collect(collector, etl_slice_of(pair.key, pair.key_size),
                                 etl_slice_of(pair.value, pair.value_size));
        if (status != ETL_OK)
            pass_check(status, collector);
    }
    workload_close(workload);
}

uint64_t pass_input_sum(const struct pass *pass) {
    uint64_t sum = 0;
    struct workload *workload = workload_open(pass->letter, PASS_SEED, pass->size);
    for (uint64_t i = 0; i < pass->pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        sum += bench_fold_pair(0, etl_slice_of(pair.key, pair.key_size),
                               etl_slice_of(pair.value, pair.value_size));
    }
    workload_close(workload);
    return sum;
}

static uint64_t mix(uint64_t sum, uint64_t next) {
    return bench_rotate(sum ^ next, 29) * 0x9E3779B97F4A7C15u;
}

static int compare_with_last(const struct output *output, const void *key, size_t size) {
    size_t shared = size < output->last_size ? size : output->last_size;
    int order = memcmp(output->last_key, key, shared);
    return order != 0 ? order : (output->last_size > size) - (output->last_size < size);
}

void output_take(struct output *output, const void *key, size_t key_size, const void *value,
                 size_t value_size) {
    uint64_t sum =
        bench_fold_pair(0, etl_slice_of(key, key_size), etl_slice_of(value, value_size));
    uint64_t number = 0;
    memcpy(&number, value, value_size < sizeof number ? value_size : sizeof number);
    int order = output->has_last ? compare_with_last(output, key, key_size) : -1;
    if (order != 0) {
        output->grouped = mix(output->grouped, output->group);
        output->group = 0;
        output->descents += order > 0;
        output->last_size = key_size < PASS_KEY_ROOM ? key_size : PASS_KEY_ROOM;
        memcpy(output->last_key, key, output->last_size);
    } else {
        output->misplaced += number <= output->last_number;
    }
    output->has_last = true;
    output->pairs++;
    output->group += sum;
    output->unordered += sum;
    output->ordered = mix(output->ordered, sum);
    output->last_number = number;
}

int output_load(void *context, etl_slice key, etl_slice value) {
    output_take(context, key.data, key.size, value.data, value.size);
    return 0;
}

void output_end(struct output *output) {
    output->grouped = mix(output->grouped, output->group);
    output->group = 0;
    output->has_last = false;
}
