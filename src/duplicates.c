/* duplicates.c: the duplicate rules.
 *
 * The merge says for free whether a pair has the key of the one before it, and for a look at its
 * path whether the next one has the same: so first and last are kept by reference, and a pair
 * whose key is its own passes through as it is in every mode. Only groups of two and more are
 * copied, to be joined or folded.
 *
 * A group is folded in parts of about fold_bytes, of values or of slices that name them: the first
 * value that reduce sees may be what it made of earlier ones. */
#include "duplicates.h"

enum { SHOWN_KEY = 48 };

struct etl__rules etl__rules_for_runs(const struct etl__rules *rules) {
    struct etl__rules early = *rules;
    bool joins = rules->duplicates == ETL_APPEND || rules->duplicates == ETL_REDUCE;
    if (rules->duplicates == ETL_REJECT || (rules->order_values && joins))
        early.duplicates = ETL_KEEP_ALL;
    return early;
}

void etl__output_open(struct etl__output *output, struct etl__memory *memory,
                      struct etl__merge *merge, const struct etl__rules *rules) {
    memset(output, 0, sizeof *output);
    output->merge = merge;
    output->rules = *rules;
    etl__bytes_init(&output->key, memory);
    etl__bytes_init(&output->values, memory);
    etl__bytes_init(&output->folded, memory);
}

void etl__output_close(struct etl__output *output) {
    struct etl__memory *memory = output->key.memory;
    etl__free(memory, output->slices, output->slice_capacity * sizeof *output->slices);
    etl__bytes_end(&output->folded);
    etl__bytes_end(&output->values);
    etl__bytes_end(&output->key);
}

static int append(struct etl_bytes *bytes, const void *data, size_t size,
                  struct etl__error *error) {
    int status = etl_bytes_append(bytes, data, size);
    if (status == ETL_E_TOO_LARGE)
        return etl__fail(error, status, "joining values: above %llu bytes",
                         (unsigned long long)ETL_SIZE_MAX);
    return status == ETL_OK ? ETL_OK : etl__fail_memory(error, size, "a group of values");
}

static int keep_key(struct etl__output *output, const struct etl__pair *pair,
                    struct etl__error *error) {
    output->key.size = 0;
    return append(&output->key, pair->key, pair->key_size, error);
}

static void show_group(struct etl__output *output, etl_slice value,
                       const struct etl__pair **pair) {
    etl_slice key = etl__bytes_slice(&output->key);
    output->pair = (struct etl__pair){.key = key.data,
                                      .key_size = (uint32_t)key.size,
                                      .value = value.data,
                                      .value_size = (uint32_t)value.size};
    *pair = &output->pair;
}

static int join_group(struct etl__output *output, const struct etl__pair *first,
                      const struct etl__pair **pair, struct etl__error *error) {
    bool nil = true, more;
    output->values.size = 0;
    do {
        nil &= first->value == NULL;
        ETL__TRY(append(&output->values, first->value, first->value_size, error));
        more = etl__merge_same_as_next(output->merge);
        if (more)
            ETL__TRY(etl__merge_next(output->merge, &first, error));
    } while (more);
    show_group(output, nil ? etl_slice_of(NULL, 0) : etl__bytes_slice(&output->values), pair);
    return ETL_OK;
}

static int keep_value(struct etl__output *output, const struct etl__pair *pair,
                      struct etl__error *error) {
    struct etl_bytes *values = &output->values;
    if (!etl__grow(values->memory, (void **)&output->slices, &output->slice_capacity,
                   output->slice_count + 1, sizeof *output->slices))
        return etl__fail_memory(error, output->slice_count * sizeof *output->slices, "a group");
    /* Values move while the group grows: until it is folded, data only says whether there is one.
     */
    output->slices[output->slice_count++] =
        etl_slice_of(pair->value != NULL ? "" : NULL, pair->value_size);
    return append(values, pair->value, pair->value_size, error);
}

/* Reduce what was kept to one value, which is what is kept then. */
static int fold(struct etl__output *output, struct etl__error *error) {
    const uint8_t *at = output->values.data;
    for (size_t i = 0; i < output->slice_count; i++) {
        if (output->slices[i].size == 0)
            continue;
        output->slices[i].data = at;
        at += output->slices[i].size;
    }
    output->folded.size = 0;
    int status = output->rules.reduce(output->rules.reduce_ctx, etl__bytes_slice(&output->key),
                                      output->slices, output->slice_count, &output->folded);
    if (status != 0)
        return etl__fail_callback(error, status, "reduce");
    struct etl_bytes swap = output->values;
    output->values = output->folded;
    output->folded = swap;
    output->slices[0] = etl__bytes_slice(&output->values);
    output->slice_count = 1;
    return ETL_OK;
}

/* Enough for one call of reduce: of slices or of bytes. */
static bool is_part(const struct etl__output *output) {
    size_t most = output->rules.fold_bytes, count = output->slice_count;
    return count > 1 && (count >= most / sizeof *output->slices || output->values.size >= most);
}

static int fold_group(struct etl__output *output, const struct etl__pair *first,
                      const struct etl__pair **pair, struct etl__error *error) {
    bool more;
    output->values.size = 0;
    output->slice_count = 0;
    do {
        ETL__TRY(keep_value(output, first, error));
        if (is_part(output))
            ETL__TRY(fold(output, error));
        more = etl__merge_same_as_next(output->merge);
        if (more)
            ETL__TRY(etl__merge_next(output->merge, &first, error));
    } while (more);
    if (output->slice_count > 1)
        ETL__TRY(fold(output, error));
    show_group(output, etl__bytes_slice(&output->values), pair);
    return ETL_OK;
}

/* A group that could not be completed begins anew with the next call: nothing of it is lost. */
static int gather_group(struct etl__output *output, const struct etl__pair *first,
                        const struct etl__pair **pair, struct etl__error *error) {
    ETL__TRY(keep_key(output, first, error));
    int status = output->rules.duplicates == ETL_APPEND ? join_group(output, first, pair, error)
                                                        : fold_group(output, first, pair, error);
    output->restart = status != ETL_OK;
    return status;
}

/* A key as text, for a message: what is not printable as \xNN. */
static int refuse(const struct etl__pair *pair, struct etl__error *error) {
    char text[SHOWN_KEY * 4 + 4], *to = text;
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < pair->key_size && i < SHOWN_KEY; i++) {
        uint8_t byte = pair->key[i];
        if (byte >= ' ' && byte < 127 && byte != '\\') {
            *to++ = (char)byte;
        } else {
            *to++ = '\\';
            *to++ = 'x';
            *to++ = digits[byte >> 4];
            *to++ = digits[byte & 15];
        }
    }
    *to = '\0';
    return etl__fail(error, ETL_E_DUPLICATE, "duplicate key \"%s\"%s (%u bytes)", text,
                     pair->key_size > SHOWN_KEY ? "..." : "", (unsigned)pair->key_size);
}

int etl__output_seek(struct etl__output *output, const uint8_t *key, size_t size,
                     struct etl__error *error) {
    output->restart = false;
    output->bound.reached = false;
    output->given = output->taken = 0;
    return etl__merge_seek(output->merge, key, size, error);
}

void etl__output_bound(struct etl__output *output, etl_slice to) {
    output->bound = etl__bound_at(to);
}

void etl__output_share(struct etl__output *output, struct etl__ranges *ranges) {
    output->ranges = ranges;
}

/* Pairs that are handed out as they are. */
static int take_batch(struct etl__output *output, const struct etl__pair **pair,
                      struct etl__error *error) {
    output->given = output->taken = 0;
    output->batch = output->own;
    ETL__TRY(output->ranges != NULL
                 ? etl__ranges_take(output->ranges, &output->batch, &output->taken, error)
                 : etl__merge_take_before(output->merge, &output->bound, output->own,
                                          ETL__OUTPUT_BATCH, &output->taken, error));
    output->received += output->taken;
    *pair = &output->batch[output->given++];
    return ETL_OK;
}

int etl__output_more(struct etl__output *output, const struct etl__pair **pair,
                     struct etl__error *error) {
    struct etl__merge *merge = output->merge;
    if (output->rules.duplicates == ETL_KEEP_ALL)
        return take_batch(output, pair, error);
    if (ETL__UNLIKELY(output->restart)) {
        etl_slice key = etl__bytes_slice(&output->key);
        ETL__TRY(etl__merge_seek(merge, key.data, key.size, error));
        output->restart = false;
    }
    for (;;) {
        ETL__TRY(etl__merge_next(merge, pair, error));
        output->received = merge->delivered;
        if (etl__bound_is_before(&output->bound, *pair))
            return ETL_END;
        switch (output->rules.duplicates) {
        case ETL_KEEP_FIRST:
            if (etl__merge_same_as_before(merge))
                continue;
            return ETL_OK;
        case ETL_KEEP_LAST:
            if (etl__merge_same_as_next(merge))
                continue;
            return ETL_OK;
        case ETL_APPEND:
        case ETL_REDUCE:
            if (etl__merge_same_as_next(merge))
                ETL__TRY(gather_group(output, *pair, pair, error));
            output->received = merge->delivered;
            return ETL_OK;
        case ETL_REJECT:
            if (!etl__merge_same_as_before(merge))
                return ETL_OK;
            merge->failed = refuse(*pair, error);
            return merge->failed;
        default:
            return ETL_OK;
        }
    }
}
