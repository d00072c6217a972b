/* radix.c: entries into the order of their 64-bit prefixes, most significant digit first.
 *
 * What does not fit the scratch is split in place: count digits, then swap every entry into its
 * part (McIlroy, Bostic and McIlroy, "Engineering Radix Sort", 1993; the loop over all open parts
 * is Skarupke's ska_sort, whose swaps do not wait for one another). The digit begins at the
 * highest bit in which two prefixes differ and is as wide as it takes to leave parts an eighth to
 * a quarter of the scratch in size, which is what the second-level cache holds.
 *
 * What fits is spread by interpolation, (prefix - min) * bins / range, into about as many bins as
 * there are entries, and one insertion pass carries all back: two moves an entry for evenly
 * distributed prefixes, whatever their range. Bins may be uneven; so the insertion pass has a
 * budget of moves, and when it is spent the part is sorted by digits instead: stable, back and
 * forth between the part and the scratch, clamp(log2 n - 3, 1, 10) bits at a time, so that bins
 * average 8 entries, and runs of small bins by one insertion pass.
 *
 * Cost: a part takes at most ceil(64 / bits) passes, adversary or not. Memory: the scratch; its
 * last sixteenth (1 to 16 KiB) holds every counter, so stack frames are small, and recursion goes
 * only into bins of at most half, so there are at most 12 of them.
 * Not chosen: least significant digit first (8 passes, and a scratch as large as the index), and
 * quicksort on the prefix, branchless or not (5 to 9 times the time: bench_sort). */
#include "radix.h"

enum {
    MAX_BITS = 10,          /* of a digit: more parts than that lose the translation cache */
    MAX_BINS = 8192,        /* of spreading: 16 KiB of counters, half of a first-level cache */
    MIN_SPREAD = 64,        /* entries: below, digits cost no more */
    MOVES_AN_ENTRY = 4,     /* the budget of an insertion pass */
    MAX_MISSES = 4,         /* in a row, after which spreading is left for a while: */
    REST = 1 << 20,         /* entries */
    POLL_ENTRIES = 1 << 20, /* entries between two looks at the cancel flag */
};

/* What one pass over a part finds out. */
struct extent {
    uint64_t min, max;
    bool ascending;
};

static inline unsigned bit_width(uint64_t x) {
#if defined(__GNUC__)
    return x == 0 ? 0 : 64u - (unsigned)__builtin_clzll(x);
#else
    unsigned width = 0;
    for (; x != 0; x >>= 1)
        width++;
    return width;
#endif
}

static inline unsigned floor_log2(uint64_t x) {
    return bit_width(x) - 1;
}

void etl__radix_init(struct etl__radix *radix, struct etl__entry *scratch, size_t scratch_count,
                     const atomic_int *cancel) {
    size_t tail = scratch_count / 16;
    if (tail < 64)
        tail = 64;
    if (tail > MAX_BINS * sizeof(uint16_t) / sizeof *scratch)
        tail = MAX_BINS * sizeof(uint16_t) / sizeof *scratch;
    radix->scratch = scratch;
    radix->capacity = scratch_count - tail;
    if (radix->capacity > UINT16_MAX) /* positions in a part are 16-bit numbers */
        radix->capacity = UINT16_MAX;
    radix->counters = scratch + (scratch_count - tail);
    radix->counter_bytes = tail * sizeof *scratch;
    radix->misses = 0;
    radix->rest = 0;
    radix->cancel = cancel;
}

static struct extent find_extent(const struct etl__entry *entries, size_t count) {
    struct extent extent = {UINT64_MAX, 0, true};
    uint64_t previous = 0;
    unsigned descents = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t prefix = entries[i].prefix;
        extent.min = prefix < extent.min ? prefix : extent.min;
        extent.max = prefix > extent.max ? prefix : extent.max;
        descents |= prefix < previous;
        previous = prefix;
    }
    extent.ascending = descents == 0;
    return extent;
}

/* Sort from[0..count) into to, which may be the same; stable. Stops when `budget` moves beyond one
 * an entry are spent; what has not been sorted by then stands in its old order. */
static bool insert_all(struct etl__entry *to, const struct etl__entry *from, size_t count,
                       size_t budget) {
    size_t moves = 0;
    to[0] = from[0];
    uint64_t last = to[0].prefix;
    for (size_t i = 1; i < count; i++) {
        struct etl__entry entry = from[i];
        if (entry.prefix >= last) {
            to[i] = entry;
            last = entry.prefix;
            continue;
        }
        size_t j = i;
        do {
            to[j] = to[j - 1];
            j--;
        } while (j > 0 && entry.prefix < to[j - 1].prefix);
        to[j] = entry;
        moves += i - j;
        if (ETL__UNLIKELY(moves > budget)) {
            if (to != from)
                memcpy(to + i + 1, from + i + 1, (count - i - 1) * sizeof *to);
            return false;
        }
    }
    return true;
}

/* Counts into positions. */
static void accumulate(uint16_t *counters, size_t bins) {
    unsigned position = 0;
    for (size_t i = 0; i < bins; i++) {
        unsigned count = counters[i];
        counters[i] = (uint16_t)position;
        position += count;
    }
}

/* Sort by one multiplication. False when that did not go well: then the entries are in some order
 * in which equal ones have not passed each other. */
static bool spread(const struct etl__radix *radix, struct etl__entry *entries, size_t count,
                   const struct extent *extent) {
    uint16_t *counters = radix->counters;
    uint64_t min = extent->min, range = extent->max - min;
    size_t bins = radix->counter_bytes / sizeof *counters;
    if (bins > count)
        bins = count;
    unsigned width = bit_width(range), shift = width > 32 ? width - 32 : 0;
    /* The largest product is below bins << 32, so the last bin is bins - 1 at most. */
    uint64_t factor = ((uint64_t)bins << 32) / ((range >> shift) + 1);
    memset(counters, 0, bins * sizeof *counters);
    for (size_t i = 0; i < count; i++)
        counters[(((entries[i].prefix - min) >> shift) * factor) >> 32]++;
    accumulate(counters, bins);
    for (size_t i = 0; i < count; i++)
        radix->scratch[counters[(((entries[i].prefix - min) >> shift) * factor) >> 32]++] =
            entries[i];
    return insert_all(entries, radix->scratch, count, MOVES_AN_ENTRY * count);
}

/* Sort `from` by its low `width` bits, the others being equal, with `to` as the other place; the
 * result is in `to` when `cross`, else in `from`. counters: room for count / 4 + 2 numbers, or
 * 4 << MAX_BITS where that is less. */
static void sort_digits(struct etl__entry *from, struct etl__entry *to, size_t count,
                        unsigned width, bool cross, uint16_t *counters) {
    for (;;) {
        if (count <= ETL__RADIX_SMALL) {
            if (count > 0)
                (void)insert_all(cross ? to : from, from, count, SIZE_MAX);
            return;
        }
        struct extent extent = {0, 0, false};
        unsigned bits = floor_log2(count) - 3;
        bits = bits > MAX_BITS ? MAX_BITS : bits;
        bits = bits > width ? width : bits;
        unsigned shift = width - bits;
        size_t bins = (size_t)1 << bits, mask = bins - 1;
        memset(counters, 0, bins * sizeof *counters);
        for (size_t i = 0; i < count; i++)
            counters[from[i].prefix >> shift & mask]++;
        if (counters[from[0].prefix >> shift & mask] == count) {
            extent = find_extent(from, count);
            width = bit_width(extent.min ^ extent.max);
            if (width != 0 && !extent.ascending)
                continue;
            if (cross)
                memcpy(to, from, count * sizeof *to);
            return;
        }
        accumulate(counters, bins);
        for (size_t i = 0; i < count; i++)
            to[counters[from[i].prefix >> shift & mask]++] = from[i];
        /* Now counters are the bins' ends. */
        size_t begin = 0, large = 0, large_count = 0, small = 0;
        struct etl__entry *home = cross ? to : from;
        for (size_t i = 0; i <= bins; i++) {
            size_t end = i < bins ? counters[i] : count;
            if (i < bins && end - begin <= ETL__RADIX_SMALL) {
                begin = end;
                continue;
            }
            if (begin > small)
                (void)insert_all(home + small, to + small, begin - small, SIZE_MAX);
            if (end - begin > count / 2) {
                large = begin;
                large_count = end - begin;
            } else if (end > begin) {
                sort_digits(to + begin, from + begin, end - begin, shift, !cross, counters + bins);
            }
            begin = small = end;
        }
        if (large_count == 0)
            return;
        struct etl__entry *other = from + large;
        from = to + large;
        to = other;
        count = large_count;
        width = shift;
        cross = !cross;
    }
}

void etl__radix_sort(struct etl__radix *radix, struct etl__entry *entries, size_t count) {
    if (count <= ETL__RADIX_SMALL) {
        if (count > 1)
            (void)insert_all(entries, entries, count, SIZE_MAX);
        return;
    }
    struct extent extent = find_extent(entries, count);
    if (extent.ascending)
        return;
    if (radix->rest > count) {
        radix->rest -= count;
    } else if (count >= MIN_SPREAD) {
        radix->rest = 0;
        if (spread(radix, entries, count, &extent)) {
            radix->misses = 0;
            return;
        }
        if (++radix->misses >= MAX_MISSES)
            radix->rest = REST;
    }
    sort_digits(entries, radix->scratch, count, bit_width(extent.min ^ extent.max), false,
                radix->counters);
}

/* Counters of a split. */
struct parts {
    uint32_t *begin, *end;
    uint16_t *open; /* the parts that are not yet all in place */
    size_t count, open_count;
};

static int count_parts(const struct etl__radix *radix, const struct etl__entry *entries,
                       size_t count, unsigned shift, struct parts *parts) {
    size_t mask = parts->count - 1;
    memset(parts->end, 0, parts->count * sizeof *parts->end);
    for (size_t i = 0; i < count;) {
        size_t stop = count - i > POLL_ENTRIES ? i + POLL_ENTRIES : count;
        for (; i < stop; i++)
            parts->end[entries[i].prefix >> shift & mask]++;
        if (etl__radix_cancelled(radix))
            return ETL_E_CANCELLED;
    }
    uint32_t position = 0;
    parts->open_count = 0;
    for (size_t i = 0; i < parts->count; i++) {
        parts->begin[i] = position;
        if (parts->end[i] != 0)
            parts->open[parts->open_count++] = (uint16_t)i;
        position += parts->end[i];
        parts->end[i] = position;
    }
    return ETL_OK;
}

/* Every entry looked at is swapped to where it belongs, and what was there is looked at in the
 * next round, or is looked at when its turn comes. */
static int permute(const struct etl__radix *radix, struct etl__entry *entries, unsigned shift,
                   struct parts *parts) {
    size_t mask = parts->count - 1, done = 0;
    uint32_t *begin = parts->begin;
    while (parts->open_count > 1) {
        size_t still_open = 0;
        for (size_t o = 0; o < parts->open_count; o++) {
            size_t part = parts->open[o], end = parts->end[part];
            size_t i = begin[part];
            while (i < end) {
                size_t stop = end - i > POLL_ENTRIES ? i + POLL_ENTRIES : end;
                done += stop - i;
                for (; i < stop; i++) {
                    struct etl__entry entry = entries[i];
                    size_t target = begin[entry.prefix >> shift & mask]++;
                    entries[i] = entries[target];
                    entries[target] = entry;
                }
                if (done >= POLL_ENTRIES) {
                    done = 0;
                    if (etl__radix_cancelled(radix))
                        return ETL_E_CANCELLED;
                }
            }
            if (begin[part] != end)
                parts->open[still_open++] = (uint16_t)part;
        }
        parts->open_count = still_open;
    }
    return ETL_OK;
}

int etl__radix_split(struct etl__radix *radix, struct etl__entry *entries, size_t count,
                     unsigned *shift) {
    struct extent extent = {UINT64_MAX, 0, true};
    for (size_t i = 0; i < count; i += POLL_ENTRIES) {
        size_t size = count - i > POLL_ENTRIES ? POLL_ENTRIES : count - i;
        struct extent piece = find_extent(entries + i, size);
        extent.ascending &= piece.ascending && piece.min >= extent.max;
        extent.min = piece.min < extent.min ? piece.min : extent.min;
        extent.max = piece.max > extent.max ? piece.max : extent.max;
        if (etl__radix_cancelled(radix))
            return ETL_E_CANCELLED;
    }
    *shift = 0;
    if (extent.ascending)
        return ETL_OK;
    unsigned width = bit_width(extent.min ^ extent.max);
    unsigned bits = floor_log2(count) - (floor_log2(radix->capacity) - 2);
    bits = bits > MAX_BITS ? MAX_BITS : bits;
    bits = bits > width ? width : bits;
    while (bits > 1 && ((size_t)10 << bits) > radix->counter_bytes)
        bits--;
    *shift = width - bits;
    struct parts parts = {.count = (size_t)1 << bits};
    parts.begin = radix->counters;
    parts.end = parts.begin + parts.count;
    parts.open = (uint16_t *)(parts.end + parts.count);
    ETL__TRY(count_parts(radix, entries, count, *shift, &parts));
    return permute(radix, entries, *shift, &parts);
}
