/* workload.c: see workload.h. */
#include "workload.h"

#include <stdlib.h>
#include <string.h>

/* ---- Inputs */

static size_t pick(struct prng *prng, const size_t *choices, size_t count) {
    return choices[prng_below(prng, count)];
}

#define PICK(prng, ...) \
    pick((prng), (const size_t[]){__VA_ARGS__}, COUNT_OF(((const size_t[]){__VA_ARGS__})))

static void draw_shape(struct workload *workload, struct prng *prng) {
    workload->alphabet = (unsigned)PICK(prng, 1, 2, 2, 4, 26, 256, 256);
    workload->key_max = PICK(prng, 0, 1, 2, 4, 7, 8, 9, 16, 17, 40, 40);
    workload->prefix = PICK(prng, 0, 0, 0, 1, 7, 8, 9, 30);
    workload->nil_values = (unsigned)PICK(prng, 0, 0, 100, 500, 1000);
    workload->empty_values = (unsigned)PICK(prng, 0, 0, 100, 500, 1000);
    workload->value_max = PICK(prng, 1, 8, 30, 120);
    workload->maps = prng_permille(prng, 250);
    workload->order = (enum workload_order)PICK(prng, ORDER_RANDOM, ORDER_RANDOM, ORDER_SORTED,
                                                ORDER_REVERSE, ORDER_ALMOST, ORDER_CLUSTERED);
}

void workload_draw_small(struct workload *workload, struct prng *prng) {
    memset(workload, 0, sizeof *workload);
    draw_shape(workload, prng);
    workload->count = prng_below(prng, PICK(prng, 3, 20, 200, 1500));
    workload->distinct = PICK(prng, 0, 0, 1, 3, 10, 50, 300);
    workload->long_keys = (unsigned)PICK(prng, 0, 0, 0, 5, 30);
    workload->long_values = (unsigned)PICK(prng, 0, 0, 0, 5, 30);
}

void workload_draw_large(struct workload *workload, struct prng *prng, size_t bytes) {
    memset(workload, 0, sizeof *workload);
    draw_shape(workload, prng);
    if (workload->key_max < 4)
        workload->key_max = 4;
    workload->distinct = PICK(prng, 0, 0, 0, 2, 1000, 20000);
    workload->long_keys = (unsigned)PICK(prng, 0, 0, 0, 2);
    workload->long_values = (unsigned)PICK(prng, 0, 0, 5);
    size_t value = workload->maps ? 16 : workload->value_max / 2;
    size_t long_bytes = 10 * (workload->long_keys + workload->long_values);
    workload->count =
        bytes / (workload->prefix + workload->key_max / 2 + value + 2 + long_bytes) + 1;
    if (workload->count > 60000)
        workload->count = 60000;
}

static size_t draw_key(const struct workload *workload, struct prng *prng, unsigned char *key) {
    size_t size = prng_between(prng, 0, workload->key_max);
    if (prng_permille(prng, workload->long_keys))
        size = prng_between(prng, 1000, 20000);
    memset(key, 'p', workload->prefix);
    for (size_t i = 0; i < size; i++) {
        size_t letter = prng_below(prng, workload->alphabet);
        /* small alphabets have the zero byte and the highest in them */
        key[workload->prefix + i] = (unsigned char)(letter == 1 ? 255 : letter);
    }
    return workload->prefix + size;
}

static etl_slice draw_value(const struct workload *workload, struct prng *prng,
                            unsigned char *value) {
    size_t size = prng_between(prng, 1, workload->value_max);
    if (workload->maps)
        size = 16;
    else if (prng_permille(prng, workload->nil_values))
        return etl_slice_of(NULL, 0);
    else if (prng_permille(prng, workload->empty_values))
        size = 0;
    else if (prng_permille(prng, workload->long_values))
        size = prng_between(prng, 1000, 20000);
    for (size_t i = 0; i < size; i++)
        value[i] = (unsigned char)prng_next(prng);
    if (workload->maps)
        value[0] |= 1; /* an odd factor: no product forgets what came before */
    return etl_slice_of(value, size);
}

static void swap_pairs(struct oracle *pairs, size_t a, size_t b) {
    struct oracle_pair pair = pairs->pairs[a];
    pairs->pairs[a] = pairs->pairs[b];
    pairs->pairs[b] = pair;
}

static void sort_part(struct oracle *pairs, size_t from, size_t to) {
    struct oracle part = {pairs->pairs + from, to - from, 0};
    oracle_sort(&part, false);
}

static void put_in_order(const struct workload *workload, struct prng *prng,
                         struct oracle *pairs) {
    if (workload->order == ORDER_RANDOM || pairs->count < 2)
        return;
    if (workload->order == ORDER_CLUSTERED) {
        for (size_t from = 0, to; from < pairs->count; from = to) {
            to = from + prng_between(prng, 1, 1 + pairs->count / 7);
            to = to < pairs->count ? to : pairs->count;
            sort_part(pairs, from, to);
        }
    } else {
        sort_part(pairs, 0, pairs->count);
    }
    if (workload->order == ORDER_REVERSE)
        for (size_t i = 0; i < pairs->count / 2; i++)
            swap_pairs(pairs, i, pairs->count - 1 - i);
    if (workload->order == ORDER_ALMOST)
        for (size_t i = 0; i < 1 + pairs->count / 500; i++)
            swap_pairs(pairs, prng_below(prng, pairs->count), prng_below(prng, pairs->count));
    oracle_renumber(pairs);
}

void workload_make(const struct workload *workload, struct prng *prng, struct oracle *pairs) {
    static unsigned char key[32 * 1024], value[32 * 1024];
    struct oracle keys = {NULL, 0, 0};
    for (size_t i = 0; i < workload->distinct; i++)
        oracle_add(&keys, etl_slice_of(key, draw_key(workload, prng, key)), etl_slice_of(NULL, 0));
    for (size_t i = 0; i < workload->count; i++) {
        etl_slice chosen = workload->distinct != 0
                               ? oracle_key(&keys.pairs[prng_below(prng, workload->distinct)])
                               : etl_slice_of(key, draw_key(workload, prng, key));
        oracle_add(pairs, chosen, draw_value(workload, prng, value));
    }
    oracle_clear(&keys);
    put_in_order(workload, prng, pairs);
}

etl_slice workload_probe(struct prng *prng, const struct oracle *pairs, unsigned char buffer[64]) {
    size_t kind = prng_below(prng, 4);
    if (pairs->count == 0 || kind == 3) {
        size_t size = prng_below(prng, 5);
        for (size_t i = 0; i < size; i++)
            buffer[i] = (unsigned char)prng_next(prng);
        return etl_slice_of(buffer, size);
    }
    etl_slice key = oracle_key(&pairs->pairs[prng_below(prng, pairs->count)]);
    if (kind <= 1 || key.size == 0 || key.size > 63)
        return key;
    memcpy(buffer, key.data, key.size);
    if (prng_permille(prng, 500)) /* just behind it */
        buffer[key.size++] = 0;
    else
        buffer[prng_below(prng, key.size)] ^= (unsigned char)(1u << prng_below(prng, 8));
    return etl_slice_of(buffer, key.size);
}

/* ---- Settings */

void setting_draw(struct setting *setting, struct prng *prng) {
    memset(setting, 0, sizeof *setting);
    setting->rules.duplicates = (etl_duplicates)prng_below(prng, ETL_REJECT + 1);
    setting->rules.order_values = prng_permille(prng, 300);
    setting->memory_limit = PICK(prng, 1, 2, 64) * MIB;
    setting->threads = (int)PICK(prng, 0, 1, 2, 3, 4) - 1;
    setting->access = (etl_access)PICK(prng, ETL_ACCESS_MMAP, ETL_ACCESS_READ);
    setting->merge_width = (unsigned)PICK(prng, 0, 0, 2, 3, 7);
    setting->flushes = (unsigned)PICK(prng, 0, 5, 50, 300);
    setting->reserves = (unsigned)PICK(prng, 0, 300, 1000);
    setting->hooked = prng_permille(prng, 300);
}

void setting_print(const struct setting *setting, const struct workload *workload,
                   uint64_t number) {
    print_message(
        "case %llu: pairs %zu alphabet %u key %zu prefix %zu distinct %zu long %u/%u "
        "nil %u empty %u value %zu maps %d order %d\n  duplicates %d order_values %d "
        "fold %d memory %zu threads %d access %d width %u flushes %u reserves %u "
        "hooked %d\n",
        (unsigned long long)number, workload->count, workload->alphabet, workload->key_max,
        workload->prefix, workload->distinct, workload->long_keys, workload->long_values,
        workload->nil_values, workload->empty_values, workload->value_max, workload->maps,
        (int)workload->order, (int)setting->rules.duplicates, setting->rules.order_values,
        (int)setting->rules.fold, setting->memory_limit, setting->threads, (int)setting->access,
        setting->merge_width, setting->flushes, setting->reserves, setting->hooked);
}

etl_options setting_options(const struct setting *setting, struct support_memory *memory) {
    etl_options options = support_options(setting->memory_limit);
    oracle_apply(&setting->rules, &options);
    options.threads = setting->threads;
    options.access = setting->access;
    options.merge_width = setting->merge_width;
    if (setting->hooked)
        options.allocator = support_allocator(memory);
    return options;
}

static void reserve_pair(etl_collector *collector, const struct oracle_pair *pair) {
    void *key = NULL, *value = NULL;
    ASSERT_OK(collector, etl_reserve(collector, pair->key_size, pair->value_size, &key,
                                     pair->value != NULL ? &value : NULL));
    if (pair->key_size != 0)
        memcpy(key, pair->key, pair->key_size);
    if (pair->value_size != 0)
        memcpy(value, pair->value, pair->value_size);
}

void setting_feed(const struct setting *setting, struct prng *prng, etl_collector *collector,
                  const struct oracle *pairs, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        const struct oracle_pair *pair = &pairs->pairs[i];
        if (prng_permille(prng, setting->reserves))
            reserve_pair(collector, pair);
        else
            ASSERT_OK(collector, etl_collect(collector, oracle_key(pair), oracle_value(pair)));
        if (setting->flushes != 0 && prng_permille(prng, setting->flushes))
            ASSERT_OK(collector, etl_flush(collector));
    }
}
