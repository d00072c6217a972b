/* bench_varint.c: writing and reading variable-length integers, the heads of all records.
 *
 * Values that take 1, 2, 5 and 10 bytes, the lengths of real records in a random mix, and whole
 * record heads. Compared with the textbook loop, kept here so that it stays what it is, and with
 * fixed eight bytes, the least that can be done. The arrays fit the first-level cache: this is
 * about instructions and branches. */
#include "bench.h"
#include "record.h"

enum { VALUES = 2048, PASSES = 64, ROOM = VALUES * ETL__VARINT_MAX + 8 };

struct numbers {
    uint64_t value[VALUES];
    uint8_t bytes[ROOM]; /* encoded by the textbook loop */
    size_t size;
    uint64_t sum; /* of the values */
    uint64_t fixed[VALUES];
    uint8_t out[ROOM];
};

static uint8_t *textbook_write(uint8_t *at, uint64_t value) {
    do {
        uint8_t more = value >= 128 ? 128 : 0;
        *at++ = (uint8_t)((value & 127) | more);
        value >>= 7;
    } while (value != 0);
    return at;
}

static const uint8_t *textbook_read(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    uint64_t result = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
        uint64_t byte = *at++;
        result |= (byte & 127) << shift;
        if ((byte & 128) == 0) {
            *value = result;
            return at;
        }
    }
    return NULL;
}

/* Keeps the compiler from doing one pass instead of PASSES. */
static void touch(void *memory) {
    __asm__ volatile("" : : "r"(memory) : "memory");
}

static uint64_t run_write(void *context) {
    struct numbers *numbers = context;
    uint8_t *at = numbers->out;
    for (int pass = 0; pass < PASSES; pass++) {
        at = numbers->out;
        for (size_t i = 0; i < VALUES; i++)
            at = etl__varint_write(at, numbers->value[i]);
        touch(numbers);
    }
    return bench_fold(0, numbers->out, (size_t)(at - numbers->out));
}

static uint64_t run_textbook_write(void *context) {
    struct numbers *numbers = context;
    uint8_t *at = numbers->out;
    for (int pass = 0; pass < PASSES; pass++) {
        at = numbers->out;
        for (size_t i = 0; i < VALUES; i++)
            at = textbook_write(at, numbers->value[i]);
        touch(numbers);
    }
    return bench_fold(0, numbers->out, (size_t)(at - numbers->out));
}

static uint64_t run_fixed_write(void *context) {
    struct numbers *numbers = context;
    for (int pass = 0; pass < PASSES; pass++) {
        for (size_t i = 0; i < VALUES; i++) {
            numbers->fixed[i] = numbers->value[i];
            touch(&numbers->fixed[i]); /* one store a value, no wide copies */
        }
    }
    return bench_fold(0, numbers->fixed, sizeof numbers->fixed);
}

static uint64_t run_read(void *context) {
    struct numbers *numbers = context;
    uint64_t sum = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        const uint8_t *at = numbers->bytes, *end = at + numbers->size;
        uint64_t value = 0;
        while (at != NULL && at < end) {
            at = etl__varint_read(at, end, &value);
            sum += value;
        }
        touch(numbers);
    }
    return sum;
}

static uint64_t run_textbook_read(void *context) {
    struct numbers *numbers = context;
    uint64_t sum = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        const uint8_t *at = numbers->bytes, *end = at + numbers->size;
        uint64_t value = 0;
        while (at != NULL && at < end) {
            at = textbook_read(at, end, &value);
            sum += value;
        }
        touch(numbers);
    }
    return sum;
}

static uint64_t run_fixed_read(void *context) {
    struct numbers *numbers = context;
    uint64_t sum = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        for (size_t i = 0; i < VALUES; i++) {
            sum += numbers->value[i];
            touch(&numbers->value[i]);
        }
    }
    return sum;
}

/* Pairs of lengths as record heads: value[2 i] is a key's size, value[2 i + 1] a value's code. */
static uint64_t run_head_write(void *context) {
    struct numbers *numbers = context;
    uint8_t *at = numbers->out;
    for (int pass = 0; pass < PASSES; pass++) {
        at = numbers->out;
        for (size_t i = 0; i < VALUES; i += 2)
            at = etl__record_write_head(at, numbers->value[i], numbers->value[i + 1]);
        touch(numbers);
    }
    return bench_fold(0, numbers->out, (size_t)(at - numbers->out));
}

/* The pairs' keys and values are empty here, so that heads follow each other: what is read of a
 * head is the pointer to the key. */
static uint64_t run_head_read(void *context) {
    struct numbers *numbers = context;
    uint64_t sum = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        const uint8_t *at = numbers->bytes, *end = at + numbers->size;
        struct etl__pair pair;
        while (at < end) {
            etl__record_view(at, &pair);
            at = pair.key;
            sum += pair.key_size + (uint64_t)pair.value_size + (pair.value != NULL);
        }
        touch(numbers);
    }
    return sum;
}

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Sizes of real records: keys of 8 to 60 bytes, values of 8, 32, 90, 1 KiB, now and then 64 KiB,
 * in no order that a branch predictor could learn. */
static uint64_t real_length(uint64_t random) {
    static const uint16_t common[] = {8, 10, 20, 32, 32, 32, 60, 8, 32, 90, 90, 128, 1024, 300};
    return random % 256 == 0 ? 65536 : common[random / 256 % (sizeof common / sizeof common[0])];
}

static void fill(struct numbers *numbers, unsigned bytes) {
    uint64_t state = 88172645463325252u;
    uint8_t *at = numbers->bytes;
    numbers->sum = 0;
    for (size_t i = 0; i < VALUES; i++) {
        uint64_t random = next_random(&state);
        if (bytes == 0)
            numbers->value[i] = real_length(random);
        else if (bytes == 10)
            numbers->value[i] = random | (uint64_t)1 << 63;
        else
            numbers->value[i] =
                (random & (((uint64_t)1 << (7 * bytes)) - 1)) | (uint64_t)1 << (7 * bytes - 1);
        at = textbook_write(at, numbers->value[i]);
        numbers->sum += numbers->value[i];
    }
    numbers->size = (size_t)(at - numbers->bytes);
}

static void compare(struct bench *bench, struct numbers *numbers, const char *set,
                    unsigned bytes) {
    fill(numbers, bytes);
    double work = (double)VALUES * PASSES;
    uint64_t encoded = bench_fold(0, numbers->bytes, numbers->size);
    uint64_t decoded = numbers->sum * PASSES;
    uint64_t fixed = bench_fold(0, numbers->value, sizeof numbers->value);
    struct bench_case cases[] = {
        {.name = "write",
         .run = run_write,
         .expected = encoded,
         .compared_with = "write, textbook"},
        {.name = "write, textbook",
         .run = run_textbook_write,
         .expected = encoded,
         .compared_with = "write, fixed 8 bytes"},
        {.name = "write, fixed 8 bytes", .run = run_fixed_write, .expected = fixed},
        {.name = "read", .run = run_read, .expected = decoded, .compared_with = "read, textbook"},
        {.name = "read, textbook",
         .run = run_textbook_read,
         .expected = decoded,
         .compared_with = "read, fixed 8 bytes"},
        {.name = "read, fixed 8 bytes", .run = run_fixed_read, .expected = decoded},
    };
    size_t count = sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < count; i++) {
        cases[i].context = numbers;
        cases[i].work = work;
        cases[i].unit = "ns/int";
    }
    bench_compare(bench, set, cases, count);
}

static void compare_heads(struct bench *bench, struct numbers *numbers, const char *set,
                          unsigned bytes) {
    fill(numbers, bytes);
    double work = (double)VALUES / 2 * PASSES;
    uint64_t encoded = bench_fold(0, numbers->bytes, numbers->size);
    struct bench_case cases[] = {
        {.name = "head write",
         .run = run_head_write,
         .expected = encoded,
         .compared_with = "two ints, textbook"},
        {.name = "two ints, textbook", .run = run_textbook_write, .expected = encoded},
        {.name = "head read",
         .run = run_head_read,
         .expected = numbers->sum * PASSES,
         .compared_with = "two ints read, textbook"},
        {.name = "two ints read, textbook",
         .run = run_textbook_read,
         .expected = numbers->sum * PASSES},
    };
    size_t count = sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < count; i++) {
        cases[i].context = numbers;
        cases[i].work = work;
        cases[i].unit = "ns/pair";
    }
    bench_compare(bench, set, cases, count);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_start(&bench, "bench_varint", argc, argv, NULL, 0);
    struct numbers *numbers = bench_alloc(sizeof *numbers);
    compare(&bench, numbers, "1 byte", 1);
    compare(&bench, numbers, "2 bytes", 2);
    compare(&bench, numbers, "5 bytes", 5);
    compare(&bench, numbers, "10 bytes", 10);
    compare(&bench, numbers, "real lengths", 0);
    compare_heads(&bench, numbers, "record heads of two bytes", 1);
    compare_heads(&bench, numbers, "record heads of real lengths", 0);
    free(numbers);
    return bench_end(&bench);
}
