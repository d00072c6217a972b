/* oracle.c: see oracle.h. Slow on purpose: every step is the shortest that is plainly right. */
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIM_KEPT = 24 };

static void *must(void *block) {
    if (block == NULL) {
        fprintf(stderr, "oracle: no memory\n");
        exit(2);
    }
    return block;
}

/* At least one byte, so that an empty value is told from nil by its pointer. */
static unsigned char *copy_of(const void *data, size_t size) {
    unsigned char *copy = must(malloc(size != 0 ? size : 1));
    if (size != 0)
        memcpy(copy, data, size);
    return copy;
}

void oracle_add(struct oracle *oracle, etl_slice key, etl_slice value) {
    if (oracle->count == oracle->capacity) {
        oracle->capacity = oracle->capacity * 2 + 16;
        oracle->pairs = must(realloc(oracle->pairs, oracle->capacity * sizeof *oracle->pairs));
    }
    struct oracle_pair *pair = &oracle->pairs[oracle->count];
    pair->key = copy_of(key.data, key.size);
    pair->key_size = key.size;
    pair->value = value.data != NULL ? copy_of(value.data, value.size) : NULL;
    pair->value_size = value.data != NULL ? value.size : 0;
    pair->index = oracle->count++;
}

void oracle_clear(struct oracle *oracle) {
    for (size_t i = 0; i < oracle->count; i++) {
        free(oracle->pairs[i].key);
        free(oracle->pairs[i].value);
    }
    free(oracle->pairs);
    memset(oracle, 0, sizeof *oracle);
}

static int compare_bytes(const unsigned char *a, size_t a_size, const unsigned char *b,
                         size_t b_size) {
    for (size_t i = 0; i < a_size && i < b_size; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return a_size == b_size ? 0 : a_size < b_size ? -1 : 1;
}

static int compare_keys(const struct oracle_pair *a, const struct oracle_pair *b) {
    return compare_bytes(a->key, a->key_size, b->key, b->key_size);
}

static int by_key(const void *left, const void *right) {
    const struct oracle_pair *a = left, *b = right;
    int order = compare_keys(a, b);
    return order != 0 ? order : a->index < b->index ? -1 : a->index > b->index;
}

static int by_key_and_value(const void *left, const void *right) {
    const struct oracle_pair *a = left, *b = right;
    int order = compare_keys(a, b);
    if (order == 0 && (a->value == NULL) != (b->value == NULL))
        return a->value == NULL ? -1 : 1;
    if (order == 0 && a->value != NULL)
        order = compare_bytes(a->value, a->value_size, b->value, b->value_size);
    return order != 0 ? order : a->index < b->index ? -1 : a->index > b->index;
}

void oracle_sort(struct oracle *oracle, bool order_values) {
    if (oracle->count > 1)
        qsort(oracle->pairs, oracle->count, sizeof *oracle->pairs,
              order_values ? by_key_and_value : by_key);
}

void oracle_renumber(struct oracle *oracle) {
    for (size_t i = 0; i < oracle->count; i++)
        oracle->pairs[i].index = i;
}

etl_slice oracle_key(const struct oracle_pair *pair) {
    return etl_slice_of(pair->key, pair->key_size);
}

etl_slice oracle_value(const struct oracle_pair *pair) {
    return etl_slice_of(pair->value, pair->value_size);
}

bool oracle_same(const struct oracle_pair *pair, etl_slice key, etl_slice value) {
    return compare_bytes(pair->key, pair->key_size, key.data, key.size) == 0 &&
           (pair->value == NULL) == (value.data == NULL) &&
           compare_bytes(pair->value, pair->value_size, value.data, value.size) == 0;
}

/* ---- Folds */

static size_t total_size(const etl_slice *values, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += values[i].data != NULL ? values[i].size : 0;
    return size;
}

/* All values one after the other; NULL when all are nil. */
static unsigned char *concatenation(const etl_slice *values, size_t count, size_t *size) {
    unsigned char *all = NULL;
    *size = 0;
    for (size_t i = 0; i < count; i++) {
        if (values[i].data == NULL)
            continue;
        if (all == NULL)
            all = must(malloc(total_size(values, count) + 1));
        if (values[i].size != 0)
            memcpy(all + *size, values[i].data, values[i].size);
        *size += values[i].size;
    }
    return all;
}

static unsigned char *trimmed(const etl_slice *values, size_t count, size_t *size) {
    unsigned char *all = concatenation(values, count, size);
    if (all == NULL)
        return must(malloc(1));
    if (*size > 2 * TRIM_KEPT) {
        memmove(all + TRIM_KEPT, all + *size - TRIM_KEPT, TRIM_KEPT);
        *size = 2 * TRIM_KEPT;
    }
    return all;
}

static unsigned char *composed(const etl_slice *values, size_t count, size_t *size) {
    uint64_t map[2] = {1, 0}, next[2];
    for (size_t i = 0; i < count; i++) {
        memset(next, 0, sizeof next);
        if (values[i].data != NULL && values[i].size != 0)
            memcpy(next, values[i].data,
                   values[i].size < sizeof next ? values[i].size : sizeof next);
        map[0] = map[0] * next[0];
        map[1] = map[1] * next[0] + next[1];
    }
    *size = sizeof map;
    return copy_of(map, sizeof map);
}

/* In two pieces, since a callback may append as often as it likes. */
static int append_result(etl_bytes *result, unsigned char *folded, size_t size) {
    int status = etl_bytes_append(result, folded, size / 2);
    if (status == ETL_OK)
        status = etl_bytes_append(result, folded + size / 2, size - size / 2);
    free(folded);
    return status;
}

int oracle_reduce_trim(void *context, etl_slice key, const etl_slice *values, size_t count,
                       etl_bytes *result) {
    (void)context, (void)key;
    size_t size;
    unsigned char *folded = trimmed(values, count, &size);
    return append_result(result, folded, size);
}

int oracle_reduce_affine(void *context, etl_slice key, const etl_slice *values, size_t count,
                         etl_bytes *result) {
    (void)context, (void)key;
    size_t size;
    unsigned char *folded = composed(values, count, &size);
    return append_result(result, folded, size);
}

void oracle_apply(const struct oracle_rules *rules, etl_options *options) {
    options->duplicates = rules->duplicates;
    options->order_values = rules->order_values;
    if (rules->duplicates == ETL_REDUCE)
        options->reduce = rules->fold == ORACLE_TRIM ? oracle_reduce_trim : oracle_reduce_affine;
}

/* ---- Duplicates */

/* One group of pairs with equal keys, in order, as one pair. */
static void settle_group(const struct oracle_pair *group, size_t count,
                         const struct oracle_rules *rules, struct oracle *out) {
    etl_slice *values = must(malloc(count * sizeof *values));
    for (size_t i = 0; i < count; i++)
        values[i] = oracle_value(&group[i]);
    unsigned char *made = NULL;
    etl_slice value = values[0];
    if (rules->duplicates == ETL_KEEP_LAST) {
        value = values[count - 1];
    } else if (rules->duplicates == ETL_APPEND) {
        made = concatenation(values, count, &value.size);
        value.data = made;
    } else if (rules->duplicates == ETL_REDUCE && count > 1) {
        made = rules->fold == ORACLE_TRIM ? trimmed(values, count, &value.size)
                                          : composed(values, count, &value.size);
        value.data = made;
    }
    oracle_add(out, oracle_key(group), value);
    free(made);
    free(values);
}

bool oracle_settle(const struct oracle *input, const struct oracle_rules *rules,
                   struct oracle *out) {
    oracle_clear(out);
    struct oracle sorted = {must(malloc((input->count + 1) * sizeof *sorted.pairs)), input->count,
                            0};
    if (input->count != 0)
        memcpy(sorted.pairs, input->pairs, input->count * sizeof *sorted.pairs);
    oracle_sort(&sorted, rules->order_values);
    bool accepted = true;
    for (size_t from = 0, to; accepted && from < sorted.count; from = to) {
        for (to = from + 1; to < sorted.count; to++)
            if (compare_keys(&sorted.pairs[from], &sorted.pairs[to]) != 0)
                break;
        accepted = rules->duplicates != ETL_REJECT || to - from == 1;
        if (rules->duplicates != ETL_KEEP_ALL)
            settle_group(&sorted.pairs[from], to - from, rules, out);
        else
            for (size_t i = from; i < to; i++)
                oracle_add(out, oracle_key(&sorted.pairs[i]), oracle_value(&sorted.pairs[i]));
    }
    free(sorted.pairs);
    return accepted;
}

size_t oracle_lower_bound(const struct oracle *sorted, etl_slice key) {
    size_t low = 0, high = sorted->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct oracle_pair *pair = &sorted->pairs[middle];
        if (compare_bytes(pair->key, pair->key_size, key.data, key.size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int oracle_load(void *context, etl_slice key, etl_slice value) {
    struct oracle_check *check = context;
    if (check->stop_value != 0 && check->at == check->stop_at)
        return check->stop_value;
    if (check->at >= check->expected->count ||
        !oracle_same(&check->expected->pairs[check->at], key, value)) {
        fprintf(stderr, "pair %zu of %zu differs: key of %zu bytes, value of %zu%s\n", check->at,
                check->expected->count, key.size, value.size, value.data == NULL ? " (nil)" : "");
        return ORACLE_MISMATCH;
    }
    check->at++;
    return 0;
}
