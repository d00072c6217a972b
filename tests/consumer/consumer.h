/* consumer.h: a program that uses an installed libetl, written in what C11 and C++11 share.
 *
 *     consumer [pairs]
 *
 * Collects pairs (10 million unless told otherwise) in a scattered order under a limit of 32 MiB,
 * takes them in order from an iterator and prints them, takes them again from etl_load, and checks
 * the order, the values and the count both times. The summary goes to standard error. */
#ifndef CONSUMER_H
#define CONSUMER_H

#include <etl.h>

#include <stdio.h>
#include <stdlib.h>

#define CONSUMER_MEMORY_LIMIT ((size_t)32 * 1024 * 1024)

/* What one pass over the pairs has seen. */
struct consumer {
    unsigned long seen;
    FILE *out; /* NULL: print nothing */
};

static void consumer_put(unsigned char *bytes, unsigned long number) {
    for (int i = 7; i >= 0; i--) {
        bytes[i] = (unsigned char)(number & 0xff);
        number >>= 8;
    }
}

static unsigned long consumer_get(etl_slice slice) {
    const unsigned char *bytes = (const unsigned char *)slice.data;
    unsigned long number = 0;
    for (size_t i = 0; i < slice.size; i++)
        number = number << 8 | bytes[i];
    return number;
}

static unsigned long consumer_value(unsigned long key) {
    return (key * 2654435761ul) & 0xffffffff;
}

static unsigned long consumer_gcd(unsigned long a, unsigned long b) {
    return b == 0 ? a : consumer_gcd(b, a % b);
}

static int consumer_collect(etl_collector *collector, unsigned long pairs) {
    /* A step without a factor in common with the count visits every key once. */
    unsigned long step = 7368787, key = 0;
    while (pairs > 0 && consumer_gcd(step, pairs) != 1)
        step++;
    for (unsigned long i = 0; i < pairs; i++) {
        unsigned char bytes[8], value[8];
        key = (key + step) % pairs;
        consumer_put(bytes, key);
        consumer_put(value, consumer_value(key));
        int status = etl_collect(collector, etl_slice_of(bytes, 8), etl_slice_of(value, 8));
        if (status != ETL_OK)
            return status;
    }
    return ETL_OK;
}

/* An etl_load_fn: the keys are 0, 1, 2 and so on. */
static int consumer_take(void *context, etl_slice key, etl_slice value) {
    struct consumer *consumer = (struct consumer *)context;
    unsigned long number = consumer_get(key);
    if (key.size != 8 || value.size != 8 || number != consumer->seen ||
        consumer_get(value) != consumer_value(number))
        return 1;
    consumer->seen++;
    if (consumer->out != NULL)
        fprintf(consumer->out, "%010lu %lu\n", number, consumer_get(value));
    return 0;
}

static int consumer_iterate(etl_collector *collector, struct consumer *consumer) {
    etl_iter *iter = NULL;
    etl_slice key, value;
    int status = etl_iter_open(&iter, collector, NULL);
    while (status == ETL_OK && (status = etl_iter_next(iter, &key, &value)) == ETL_OK)
        status = consumer_take(consumer, key, value);
    etl_iter_close(iter);
    return status == ETL_END ? ETL_OK : status;
}

static int consumer_fail(const char *what, int status, const char *message) {
    fprintf(stderr, "consumer: %s: status %d (%s) %s\n", what, status, etl_status_string(status),
            message);
    return 1;
}

static int consumer_run(etl_collector *collector, unsigned long pairs) {
    struct consumer iterated = {0, stdout}, loaded = {0, NULL};
    etl_stats stats;
    stats.struct_size = sizeof(stats);

    int status = consumer_collect(collector, pairs);
    if (status != ETL_OK)
        return consumer_fail("collect", status, etl_collector_message(collector));
    status = consumer_iterate(collector, &iterated);
    if (status != ETL_OK || iterated.seen != pairs)
        return consumer_fail("iterate", status, etl_collector_message(collector));
    status = etl_load(collector, consumer_take, &loaded);
    if (status != ETL_OK || loaded.seen != pairs)
        return consumer_fail("load", status, etl_collector_message(collector));
    status = etl_collector_stats(collector, &stats);
    if (status != ETL_OK)
        return consumer_fail("stats", status, etl_collector_message(collector));
    fprintf(stderr, "libetl %s: %lu pairs twice in order, %lu runs, peak memory %lu bytes\n",
            etl_version(), loaded.seen, (unsigned long)stats.runs,
            (unsigned long)stats.memory_bytes_peak);
    if (stats.memory_bytes_peak > CONSUMER_MEMORY_LIMIT)
        return consumer_fail("memory limit", ETL_OK, "exceeded");
    return fflush(stdout) == 0 ? 0 : consumer_fail("print", ETL_OK, "");
}

static int consumer_main(int argc, char **argv) {
    unsigned long pairs = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000000;
    etl_options options = LIBETL_OPTIONS_INIT;
    etl_collector *collector = NULL;
    options.memory_limit = CONSUMER_MEMORY_LIMIT;
    int status = etl_collector_create(&collector, &options);
    if (status != ETL_OK)
        return consumer_fail("create", status, "");
    int result = consumer_run(collector, pairs);
    etl_collector_destroy(collector);
    return result;
}

#endif
