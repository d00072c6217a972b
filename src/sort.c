/* sort.c: the index into key order.
 *
 * Nearly all of a key's order is decided by numbers: entries are sorted by the eight bytes of the
 * key that stand in them (radix.c), and only entries whose eight bytes are equal, a group, have
 * their keys read again, for the next eight. What costs there is the random read, so a group is
 * read once a level, with prefetch, and the bytes that all its keys share are skipped at once: the
 * length of that common prefix is guessed from four samples and verified by the same pass that
 * loads the bytes behind it. Groups of up to 4 are finished by comparing (multikey quicksort and
 * MSD radix sort with cached characters: Bentley and Sedgewick, 1997; Ng and Kakehi, 2007).
 *
 * Padding: a key that ends inside the eight bytes is padded with zeros, so "a" and "a\0" are one
 * group; keys that end inside come first, ordered by length, and of the same length they are
 * equal.
 *
 * Ties: where all entries fit the scratch and came in the order of their references, every step is
 * stable and nothing is left to do. Otherwise equal keys are sorted by reference, as numbers. With
 * order_values they are sorted as if their values were their keys, by the same functions.
 *
 * Cost: every byte of a key is looked at twice at most, plus one pass over the entries for every
 * eight bytes by which the longest group goes deeper. Memory: the scratch. Stack: sort_range goes
 * on with the range that holds more than half of its entries, if there is one, and calls itself
 * only for ranges of at most half, so there are log2 n levels of about 550 bytes at most: 12 KiB
 * for a million entries, however the keys are made.
 * Not chosen: quicksort on (prefix, key), as in AlphaSort (5 times the time where prefixes decide,
 * 3 times where they do not), and comparing through pointers (qsort: 25 times). */
#include "sort.h"
#include "radix.h"

enum {
    PREFETCH_AHEAD = 16, /* entries; the same from 12 to 32 */
    HEAD_APART = 28,     /* bytes from a record's head, from which on it gets its own prefetch */
    SMALL_GROUP = 4,     /* up to which comparing beats loading */
    POLL_WORK = 1 << 20, /* entries' work between two looks at the cancel flag */
};

struct context {
    struct etl__slots slots;
    struct etl__radix radix;
    bool stable;       /* equal keys are in order already */
    bool order_values; /* equal keys are to be ordered by their values */
    bool values;       /* this is being done: the texts are values, and entries hold their sizes */
    uint32_t value_from; /* then: the size of the key that all have */
    size_t work;
};

/* Entries whose texts have their first `depth` bytes in common; the prefixes are what follows. */
struct range {
    struct etl__entry *entries;
    size_t count, depth;
};

static int sort_range(struct context *context, struct range range);

static inline int poll(struct context *context, size_t work) {
    context->work += work;
    if (ETL__LIKELY(context->work < POLL_WORK))
        return ETL_OK;
    context->work = 0;
    return etl__radix_cancelled(&context->radix) ? ETL_E_CANCELLED : ETL_OK;
}

/* What is being sorted by: the key, or the value of a pair that has one. */
static inline const uint8_t *text_of(const struct context *context,
                                     const struct etl__entry *entry) {
    const uint8_t *key = etl__entry_key(&context->slots, entry);
    return context->values ? key + context->value_from : key;
}

/* The line in which a text's bytes from depth on begin, and, where that is rarely the same, that
 * of the record's head. A macro: a function with no effect but a prefetch is one whose calls gcc
 * drops. */
#define PREFETCH_TEXT(context, entry, depth)                                               \
    do {                                                                                   \
        const uint8_t *record_ = etl__slots_record(&(context)->slots, (entry)->reference); \
        size_t offset_ = (context)->value_from + (depth) + 9;                              \
        if (offset_ > HEAD_APART)                                                          \
            ETL__PREFETCH(record_);                                                        \
        ETL__PREFETCH((const void *)((uintptr_t)record_ + offset_));                       \
    } while (0)

/* Sort entries whose prefixes differ from each other, whatever they stand for. */
static int sort_numbers(struct context *context, struct etl__entry *entries, size_t count) {
    return sort_range(context, (struct range){entries, count, 0});
}

static int sort_references(struct context *context, struct etl__entry *entries, size_t count) {
    unsigned descents = 0;
    for (size_t i = 1; i < count; i++)
        descents |= entries[i].reference < entries[i - 1].reference;
    if (descents == 0)
        return ETL_OK;
    for (size_t i = 0; i < count; i++)
        entries[i].prefix = entries[i].reference;
    return sort_numbers(context, entries, count);
}

static int compare_values(const struct context *context, uint32_t a, uint32_t b) {
    struct etl__pair left, right;
    etl__record_view(etl__slots_record(&context->slots, a), &left);
    etl__record_view(etl__slots_record(&context->slots, b), &right);
    if (left.value == NULL || right.value == NULL)
        return (left.value != NULL) - (right.value != NULL);
    return etl__key_compare(left.value, left.value_size, right.value, right.value_size);
}

/* The whole order of two entries whose texts are equal up to depth. */
static int compare(const struct context *context, const struct etl__entry *a,
                   const struct etl__entry *b, size_t depth) {
    int order = etl__key_compare(text_of(context, a) + depth, a->key_size - depth,
                                 text_of(context, b) + depth, b->key_size - depth);
    if (order == 0 && context->order_values && !context->values)
        order = compare_values(context, a->reference, b->reference);
    return order != 0 ? order : (a->reference > b->reference) - (a->reference < b->reference);
}

static void sort_small_group(const struct context *context, const struct range *group) {
    struct etl__entry *entries = group->entries;
    for (size_t i = 1; i < group->count; i++) {
        struct etl__entry entry = entries[i];
        size_t j = i;
        for (; j > 0 && compare(context, &entries[j - 1], &entry, group->depth) > 0; j--)
            entries[j] = entries[j - 1];
        entries[j] = entry;
    }
}

/* Pairs with nil for a value to the front; the others are loaded with their values' heads. Returns
 * the number of the former. */
static size_t load_values(const struct context *context, struct etl__entry *entries,
                          size_t count) {
    size_t nils = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + PREFETCH_AHEAD < count)
            PREFETCH_TEXT(context, &entries[i + PREFETCH_AHEAD], 0);
        struct etl__pair pair;
        etl__record_view(etl__slots_record(&context->slots, entries[i].reference), &pair);
        if (pair.value == NULL) {
            struct etl__entry nil = entries[i];
            entries[i] = entries[nils];
            entries[nils++] = nil;
        } else {
            entries[i].prefix = etl__key_prefix(pair.value, pair.value_size);
            entries[i].key_size = pair.value_size;
        }
    }
    return nils;
}

/* Sort pairs with one key by (value, reference). */
static int sort_values(struct context *context, struct etl__entry *entries, size_t count) {
    uint32_t key_size = entries[0].key_size;
    bool stable = context->stable;
    context->stable = false; /* load_values is not */
    context->values = true;
    context->value_from = key_size;
    size_t nils = load_values(context, entries, count);
    int status = poll(context, count);
    if (status == ETL_OK)
        status = sort_references(context, entries, nils);
    if (status == ETL_OK)
        status = sort_range(context, (struct range){entries + nils, count - nils, 0});
    for (size_t i = 0; i < count; i++)
        entries[i].key_size = key_size;
    context->stable = stable;
    context->values = false;
    context->value_from = 0;
    return status;
}

/* Entries with equal texts, two or more. */
static int sort_ties(struct context *context, struct etl__entry *entries, size_t count) {
    if (context->order_values && !context->values)
        return sort_values(context, entries, count);
    return context->stable ? ETL_OK : sort_references(context, entries, count);
}

/* The first texts of a group, those that end at `end` or before, into order; the others behind
 * them in the order of their references. Returns how many there are through *ended. */
static int sort_ended(struct context *context, const struct range *group, size_t end, bool uniform,
                      size_t *ended) {
    struct etl__entry *entries = group->entries;
    size_t count = group->count;
    if (!uniform) {
        for (size_t i = 0; i < count; i++) {
            uint64_t size = entries[i].key_size <= end ? entries[i].key_size : end + 1;
            entries[i].prefix = size << 32 | entries[i].reference;
        }
        ETL__TRY(sort_numbers(context, entries, count));
    }
    size_t i = 0;
    while (i < count && entries[i].key_size <= end) {
        size_t next = i + 1;
        while (next < count && entries[next].key_size == entries[i].key_size)
            next++;
        if (next - i > 1)
            ETL__TRY(sort_ties(context, entries + i, next - i));
        i = next;
    }
    *ended = i;
    return ETL_OK;
}

/* A guess at how many bytes all texts of a range have in common from its depth on. */
static size_t guess_common(const struct context *context, const struct range *range) {
    const struct etl__entry *entries = range->entries;
    const uint8_t *first = text_of(context, &entries[0]) + range->depth;
    size_t common = entries[0].key_size - range->depth;
    const size_t samples[3] = {range->count / 4, range->count / 2, range->count - 1};
    for (int i = 0; i < 3; i++) {
        const struct etl__entry *sample = &entries[samples[i]];
        size_t size = sample->key_size - range->depth;
        common = etl__key_common(first, text_of(context, sample) + range->depth, 0,
                                 size < common ? size : common);
    }
    return common;
}

/* Load the eight bytes at depth + common, and return how many bytes are common in truth; where
 * that is less, the loads are worth nothing, and a second call is right. Never a third: what is
 * compared would add up to the square of the data. A text's bytes decide only a branch that is
 * foreseen, so that one text's cache miss does not wait for another's. */
static int load_texts(struct context *context, const struct range *range, size_t *common) {
    struct etl__entry *entries = range->entries;
    size_t count = range->count, depth = range->depth, guess = *common, least = guess;
    const uint8_t *first = text_of(context, &entries[0]) + depth;
    for (size_t i = 0; i < count; i++) {
        if (i + PREFETCH_AHEAD < count)
            PREFETCH_TEXT(context, &entries[i + PREFETCH_AHEAD], depth);
        const uint8_t *text = text_of(context, &entries[i]) + depth;
        size_t size = entries[i].key_size - depth;
        if (ETL__LIKELY(size >= guess && memcmp(first, text, guess) == 0))
            entries[i].prefix = etl__key_prefix(text + guess, size - guess);
        else
            least = etl__key_common(first, text, 0, size < least ? size : least);
        ETL__TRY(poll(context, 1 + guess / 16));
    }
    *common = least;
    return ETL_OK;
}

/* Order what the eight bytes that a group has in common decide; what they do not is left in *rest,
 * loaded with other bytes. */
static int descend(struct context *context, struct range group, struct range *rest) {
    rest->count = 0;
    uint32_t least = UINT32_MAX, most = 0;
    for (size_t i = 0; i < group.count; i++) {
        uint32_t size = group.entries[i].key_size;
        least = size < least ? size : least;
        most = size > most ? size : most;
    }
    size_t end = group.depth + 8, ended = 0;
    if (group.count <= SMALL_GROUP && (most > end || context->order_values)) {
        sort_small_group(context, &group);
        return ETL_OK;
    }
    if (least <= end) {
        ETL__TRY(poll(context, group.count));
        ETL__TRY(sort_ended(context, &group, end, least == most, &ended));
    }
    group = (struct range){group.entries + ended, group.count - ended, end};
    if (group.count <= SMALL_GROUP) {
        sort_small_group(context, &group);
        return ETL_OK;
    }
    for (size_t i = 0; i < PREFETCH_AHEAD && i < group.count; i++)
        PREFETCH_TEXT(context, &group.entries[i], end);
    size_t guess = guess_common(context, &group), common = guess;
    ETL__TRY(load_texts(context, &group, &common));
    if (common < guess)
        ETL__TRY(load_texts(context, &group, &common));
    *rest = (struct range){group.entries, group.count, end + common};
    return ETL_OK;
}

/* Sort now what is at most half of the range it comes from, and leave the one that may be larger
 * for the caller's loop. */
static int sort_now_or_later(struct context *context, const struct range *range, size_t half,
                             struct range *later) {
    if (range->count < 2)
        return ETL_OK;
    if (range->count <= half)
        return sort_range(context, *range);
    *later = *range;
    return ETL_OK;
}

/* Finish a range that is in the order of its prefixes. */
static int sort_groups(struct context *context, const struct range *range, struct range *later) {
    struct etl__entry *entries = range->entries;
    size_t count = range->count;
    for (size_t i = 0; i + 1 < count; i++) {
        uint64_t prefix = entries[i].prefix;
        if (i + PREFETCH_AHEAD + 1 < count &&
            entries[i + PREFETCH_AHEAD].prefix == entries[i + PREFETCH_AHEAD + 1].prefix) {
            PREFETCH_TEXT(context, &entries[i + PREFETCH_AHEAD], range->depth + 8);
            PREFETCH_TEXT(context, &entries[i + PREFETCH_AHEAD + 1], range->depth + 8);
        }
        if (ETL__LIKELY(prefix != entries[i + 1].prefix))
            continue;
        size_t next = i + 2;
        while (next < count && entries[next].prefix == prefix)
            next++;
        struct range rest;
        ETL__TRY(descend(context, (struct range){entries + i, next - i, range->depth}, &rest));
        ETL__TRY(sort_now_or_later(context, &rest, count / 2, later));
        i = next - 1;
    }
    return ETL_OK;
}

/* One level in place of a range larger than the scratch. */
static int sort_parts(struct context *context, const struct range *range, struct range *later) {
    unsigned shift;
    ETL__TRY(etl__radix_split(&context->radix, range->entries, range->count, &shift));
    if (shift == 0)
        return sort_groups(context, range, later);
    struct etl__entry *entries = range->entries, *end = entries + range->count;
    while (entries < end) {
        uint64_t digits = entries->prefix >> shift;
        struct etl__entry *next = entries + 1;
        while (next < end && next->prefix >> shift == digits)
            next++;
        struct range part = {entries, (size_t)(next - entries), range->depth};
        ETL__TRY(sort_now_or_later(context, &part, range->count / 2, later));
        entries = next;
    }
    return ETL_OK;
}

static int sort_range(struct context *context, struct range range) {
    while (range.count > 1) {
        struct range later = {NULL, 0, 0};
        ETL__TRY(poll(context, range.count));
        if (range.count <= context->radix.capacity) {
            etl__radix_sort(&context->radix, range.entries, range.count);
            ETL__TRY(sort_groups(context, &range, &later));
        } else {
            ETL__TRY(sort_parts(context, &range, &later));
        }
        range = later;
    }
    return ETL_OK;
}

int etl__sort_index(const struct etl__sort *sort, struct etl__entry *entries, size_t count) {
    struct context context = {.slots = sort->slots, .order_values = sort->order_values};
    etl__radix_init(&context.radix, sort->scratch, sort->scratch_count, sort->cancel);
    if (count <= context.radix.capacity) {
        context.stable = true;
        for (size_t i = 1; i < count; i++)
            context.stable &= entries[i - 1].reference < entries[i].reference;
    }
    return sort_range(&context, (struct range){entries, count, 0});
}
