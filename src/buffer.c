/* buffer.c: room for records, and the walk that indexes them.
 *
 * Room is granted in steps: a record of two bytes costs sixteen more in the index, so `end` stands
 * where the buffer's limit would be reached if only such records followed, and moves on when it is
 * reached. The common path so has one comparison to make. Segments double from FIRST_SEGMENT on,
 * so that a small buffer holds little and a large one has few.
 *
 * A record that does not fit what is left of a segment, and is large, gets a segment of its own,
 * and what was left is used by the records behind it (`spare`): large and small records may
 * alternate without waste. Extents list the stretches of records in collection order. */
#include "buffer.h"

enum {
    FIRST_SEGMENT = 16 * 1024,
    LARGEST_SEGMENT = 16 * 1024 * 1024,
    LEAST_SPARE = 1024,     /* of room left behind: less is not kept */
    WALK_AHEAD = 1024,      /* bytes of prefetch */
    WALK_POLL = 1 << 20,    /* bytes between two looks at the cancel flag */
    MOST_GRANT = 64 * 1024, /* in a pool, for others may want memory meanwhile */
    WORST_ORDER = 8         /* bytes of index that a byte of records may bring */
};

static size_t index_bytes(size_t entries) {
    return entries * sizeof(struct etl__entry);
}

void etl__buffer_drop_index(struct etl__buffer *buffer) {
    etl__free_large(buffer->arena->memory, buffer->index, index_bytes(buffer->index_capacity));
    buffer->index = NULL;
    buffer->index_capacity = 0;
}

void etl__buffer_set_limit(struct etl__buffer *buffer, size_t limit, size_t first_segment) {
    size_t page = etl__arena_segment_size(0);
    buffer->limit = limit;
    buffer->growth_most = limit / 8 < LARGEST_SEGMENT ? limit / 8 : LARGEST_SEGMENT;
    buffer->growth =
        etl__clamp(first_segment / page * page, FIRST_SEGMENT,
                   buffer->growth_most > FIRST_SEGMENT ? buffer->growth_most : FIRST_SEGMENT);
}

static void pledge(struct etl__buffer *buffer, size_t bytes) {
    if (buffer->arena->memory->pool == NULL)
        return;
    etl__memory_pledge(buffer->arena->memory, buffer->pledged, bytes);
    buffer->pledged = bytes;
}

void etl__buffer_init(struct etl__buffer *buffer, struct etl__arena *arena, size_t limit,
                      bool order_values) {
    memset(buffer, 0, sizeof *buffer);
    buffer->arena = arena;
    buffer->order_values = order_values;
    buffer->table.shift = ETL__BUFFER_SHIFT;
    etl__buffer_clear(buffer);
    etl__buffer_set_limit(buffer, limit, 0);
}

void etl__buffer_clear(struct etl__buffer *buffer) {
    if (buffer->pairs > buffer->round_pairs)
        buffer->round_pairs = buffer->pairs;
    etl__free(buffer->arena->memory, buffer->partition, sizeof *buffer->partition);
    buffer->partition = NULL;
    etl__arena_give(buffer->arena, buffer->segments);
    pledge(buffer, 0);
    buffer->segments = NULL;
    buffer->at = buffer->end = buffer->room_end = NULL;
    buffer->spare = buffer->spare_end = NULL;
    buffer->extent_count = 0;
    buffer->slots = 0;
    buffer->held = 0;
    buffer->growth = FIRST_SEGMENT;
    buffer->pairs = 0;
    buffer->order = ETL__ASCENDING | ETL__DESCENDING;
    buffer->sealed = false;
}

/* Everything but the segments. */
static void free_parts(struct etl__buffer *buffer) {
    struct etl__memory *memory = buffer->arena->memory;
    etl__buffer_drop_index(buffer);
    etl__free(memory, buffer->extents, buffer->extent_capacity * sizeof *buffer->extents);
    etl__free(memory, (void *)buffer->table.base,
              buffer->table_capacity * sizeof *buffer->table.base);
    buffer->extents = NULL;
    buffer->table.base = NULL;
    buffer->extent_capacity = buffer->table_capacity = 0;
}

void etl__buffer_end_round(struct etl__buffer *buffer) {
    if (buffer->arena->memory->pool != NULL)
        free_parts(buffer);
    else if (buffer->index_capacity / 16 > buffer->round_pairs)
        etl__buffer_drop_index(buffer);
    buffer->round_pairs = 0;
}

void etl__buffer_end(struct etl__buffer *buffer) {
    etl__buffer_clear(buffer);
    free_parts(buffer);
}

/* Slots that an extent takes: one for each MiB in which a record starts. */
static size_t slots_of(const uint8_t *data, const uint8_t *last_record) {
    return ((size_t)(last_record - data) >> ETL__BUFFER_SHIFT) + 1;
}

/* No record is added to the open extent any more. */
static void close_extent(struct etl__buffer *buffer) {
    if (buffer->extent_count == 0)
        return;
    struct etl__extent *open = &buffer->extents[buffer->extent_count - 1];
    open->size = (size_t)(buffer->at - open->data);
    if (open->size == 0)
        buffer->extent_count--;
    else
        buffer->slots += slots_of(open->data, buffer->last_record);
}

/* Records go to [from, to) from now on. */
static void open_extent(struct etl__buffer *buffer, uint8_t *from, uint8_t *to) {
    close_extent(buffer);
    buffer->extents[buffer->extent_count++] = (struct etl__extent){.data = from};
    buffer->at = buffer->end = from;
    buffer->room_end = to;
}

static bool reserve_extent(struct etl__buffer *buffer) {
    return etl__grow(buffer->arena->memory, (void **)&buffer->extents, &buffer->extent_capacity,
                     buffer->extent_count + 2, sizeof *buffer->extents);
}

/* What ordering the pairs so far, and one more, will take. */
static size_t order_bytes(const struct etl__buffer *buffer) {
    if (buffer->partition != NULL)
        return etl__partition_order_bytes(buffer->partition) + index_bytes(buffer->index_capacity);
    return etl__large_cost(buffer->arena->memory, index_bytes((size_t)buffer->pairs + 1));
}

/* What of the buffer's limit neither segments nor that take. */
size_t etl__buffer_unused_limit(const struct etl__buffer *buffer) {
    size_t used = buffer->held + order_bytes(buffer);
    return used < buffer->limit ? buffer->limit - used : 0;
}

/* What the collector as a whole may still take, once that is taken. */
size_t etl__buffer_unused_memory(const struct etl__buffer *buffer) {
    const struct etl__arena *arena = buffer->arena;
    size_t ordering = order_bytes(buffer), wanted = ordering + arena->reserve;
    size_t left = etl__memory_left(arena->memory) + arena->waiting_bytes +
                  index_bytes(buffer->index_capacity) + buffer->pledged;
    size_t unused = left > wanted ? left - wanted : 0, owed = etl__arena_owed(arena, ordering);
    return unused > owed ? unused : owed;
}

/* In a pool: what ordering these pairs and those that come may take is gone for others. */
void etl__buffer_pledge(struct etl__buffer *buffer, size_t coming) {
    size_t has = index_bytes(buffer->index_capacity), wanted = order_bytes(buffer) + coming;
    pledge(buffer, wanted > has ? wanted - has : 0);
}

/* Move `end` on inside the room, as far as the limit allows whatever the records' size: 2 bytes of
 * record may bring 16 of index. */
static bool grant(struct etl__buffer *buffer, size_t size) {
    size_t room = (size_t)(buffer->room_end - buffer->at);
    size_t limit = etl__buffer_unused_limit(buffer), memory = etl__buffer_unused_memory(buffer);
    size_t unused = limit < memory ? limit : memory;
    if (room < size || unused < ETL__LEAST_GRANT)
        return false;
    size_t granted = unused / WORST_ORDER;
    if (buffer->arena->memory->pool != NULL)
        granted = granted < MOST_GRANT ? granted : MOST_GRANT;
    granted = granted > size ? granted : size;
    etl__buffer_pledge(buffer, WORST_ORDER * granted);
    buffer->end = buffer->at + (granted < room ? granted : room);
    return true;
}

static void add_segment(struct etl__buffer *buffer, struct etl__segment *segment) {
    segment->next = buffer->segments;
    buffer->segments = segment;
    buffer->held += segment->size;
    uint8_t *data = etl__segment_data(segment);
    open_extent(buffer, data, data + (segment->size - sizeof *segment));
}

/* A record larger than half a segment does not end the room that is left: it comes back behind it.
 */
static void keep_spare(struct etl__buffer *buffer) {
    if ((size_t)(buffer->room_end - buffer->at) > (size_t)(buffer->spare_end - buffer->spare) &&
        buffer->room_end - buffer->at >= LEAST_SPARE) {
        buffer->spare = buffer->at;
        buffer->spare_end = buffer->room_end;
    }
}

static bool use_spare(struct etl__buffer *buffer, size_t size) {
    if ((size_t)(buffer->spare_end - buffer->spare) < size)
        return false;
    uint8_t *from = buffer->spare, *to = buffer->spare_end;
    buffer->spare = buffer->spare_end = NULL;
    open_extent(buffer, from, to);
    return true;
}

/* Slots taken once the open extent is closed. */
static size_t slots_with_open(const struct etl__buffer *buffer) {
    if (buffer->extent_count == 0)
        return 0;
    const struct etl__extent *open = &buffer->extents[buffer->extent_count - 1];
    return buffer->slots +
           (buffer->at == open->data ? 0 : slots_of(open->data, buffer->last_record));
}

/* Could references not name a further segment's records? */
static bool is_numbered_full(const struct etl__buffer *buffer) {
    return buffer->pairs >= UINT32_MAX ||
           slots_with_open(buffer) + (LARGEST_SEGMENT >> ETL__BUFFER_SHIFT) + 1 >
               ETL__BUFFER_SLOTS;
}

int etl__buffer_extend(struct etl__buffer *buffer, size_t size) {
    if (grant(buffer, size))
        return ETL_OK;
    size_t limit = etl__buffer_unused_limit(buffer), memory = etl__buffer_unused_memory(buffer);
    if (limit < ETL__LEAST_GRANT || is_numbered_full(buffer))
        return ETL_END;
    if (memory < ETL__LEAST_GRANT || !reserve_extent(buffer))
        return ETL_E_NOMEM;
    if (use_spare(buffer, size) && grant(buffer, size))
        return ETL_OK;
    bool own = size > buffer->growth / 2;
    size_t least = etl__arena_segment_size(size);
    if (least > limit - ETL__LEAST_GRANT / 2)
        return ETL_END;
    size_t most = (limit < memory ? limit : memory) - ETL__LEAST_GRANT / 2;
    /* A segment that waits may be larger than any that is made: it would take more slots than are
     * left for it. */
    size_t largest = least > LARGEST_SEGMENT ? least : LARGEST_SEGMENT;
    most = most < largest ? most : largest;
    struct etl__segment *segment =
        etl__arena_take(buffer->arena, size, own ? 0 : buffer->growth, most);
    if (segment == NULL)
        return ETL_E_NOMEM;
    if (own)
        keep_spare(buffer);
    else if (buffer->growth < buffer->growth_most)
        buffer->growth *= 2;
    add_segment(buffer, segment);
    buffer->end = buffer->at + size;
    (void)grant(buffer, size);
    return ETL_OK;
}

bool etl__buffer_extend_over_limit(struct etl__buffer *buffer, size_t size) {
    struct etl__segment *segment;
    if (!reserve_extent(buffer) ||
        (segment = etl__arena_take_over_limit(buffer->arena, size)) == NULL)
        return false;
    keep_spare(buffer);
    add_segment(buffer, segment);
    buffer->end = buffer->at + size;
    return true;
}

uint64_t etl__buffer_record_bytes(const struct etl__buffer *buffer) {
    if (buffer->partition != NULL)
        return etl__partition_bytes(buffer->partition);
    if (buffer->extent_count == 0)
        return 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i + 1 < buffer->extent_count; i++)
        bytes += buffer->extents[i].size;
    return bytes + (uint64_t)(buffer->at - buffer->extents[buffer->extent_count - 1].data);
}

/* Room for the index and the table of slots. */
static bool reserve_index(struct etl__buffer *buffer) {
    struct etl__memory *memory = buffer->arena->memory;
    size_t pairs = (size_t)buffer->pairs;
    if (!etl__grow(memory, (void **)&buffer->table.base, &buffer->table_capacity,
                   slots_with_open(buffer), sizeof *buffer->table.base))
        return false;
    if (buffer->index_capacity < pairs) {
        etl__buffer_drop_index(buffer);
        size_t size = index_bytes(pairs);
        etl__arena_make_room(buffer->arena, size);
        if (memory->pool != NULL)
            buffer->index = etl__alloc_between(memory, size, size, size + size / 4, &size);
        else
            buffer->index = etl__alloc_large(memory, size);
        if (buffer->index == NULL)
            return false;
        buffer->index_capacity = size / sizeof *buffer->index;
    }
    return true;
}

static bool is_cancelled(const struct etl__sort *sort) {
    return sort->cancel != NULL && atomic_load_explicit(sort->cancel, memory_order_relaxed) != 0;
}

/* Index the records of one extent, which begins at slot *slot, at `entry` and on by `step`. NULL
 * when cancelled. */
static struct etl__entry *walk_extent(struct etl__buffer *buffer, const struct etl__extent *extent,
                                      size_t *slot, struct etl__entry *entry, ptrdiff_t step,
                                      const struct etl__sort *sort) {
    const uint8_t *at = extent->data, *end = at + extent->size, *last = at;
    const uint8_t *poll = at;
    uint32_t base = (uint32_t)*slot << ETL__BUFFER_SHIFT;
    while (at < end) {
        struct etl__pair pair;
        if (ETL__UNLIKELY(at >= poll)) {
            if (is_cancelled(sort))
                return NULL;
            poll = end - at > WALK_POLL ? at + WALK_POLL : end;
        }
        etl__record_view(at, &pair);
        ETL__PREFETCH(at + WALK_AHEAD);
        entry->prefix = etl__key_prefix(pair.key, pair.key_size);
        entry->reference = base + (uint32_t)(at - extent->data);
        entry->key_size = pair.key_size;
        entry += step;
        last = at;
        at = pair.key + pair.key_size + pair.value_size;
    }
    for (size_t i = 0; i < slots_of(extent->data, last); i++)
        buffer->table.base[(*slot)++] = extent->data + (i << ETL__BUFFER_SHIFT);
    return entry;
}

/* False when cancelled. */
static bool build_index(struct etl__buffer *buffer, bool reversed, const struct etl__sort *sort) {
    struct etl__entry *entry = buffer->index + (reversed ? buffer->pairs - 1 : 0);
    size_t slot = 0;
    for (size_t i = 0; i < buffer->filled && entry != NULL; i++)
        entry = walk_extent(buffer, &buffer->extents[i], &slot, entry, reversed ? -1 : 1, sort);
    return entry != NULL;
}

int etl__buffer_seal(struct etl__buffer *buffer, const struct etl__sort *sort,
                     struct etl__error *error) {
    if (buffer->sealed)
        return ETL_OK;
    if (buffer->partition != NULL) { /* whoever reads it orders bucket by bucket */
        etl__partition_close(buffer->partition);
        etl__arena_make_room(buffer->arena, etl__partition_order_bytes(buffer->partition));
        etl__buffer_pledge(buffer, 0);
        buffer->sealed = true;
        return ETL_OK;
    }
    buffer->filled = buffer->extent_count;
    if (buffer->extent_count != 0) {
        struct etl__extent *open = &buffer->extents[buffer->extent_count - 1];
        open->size = (size_t)(buffer->at - open->data);
        buffer->filled -= open->size == 0; /* room that was made and not used */
    }
    if ((buffer->order & ETL__ASCENDING) == 0) {
        bool descending = (buffer->order & ETL__DESCENDING) != 0;
        if (!reserve_index(buffer))
            return etl__fail_memory(error, index_bytes((size_t)buffer->pairs), "the index");
        bool built = build_index(buffer, descending, sort);
        struct etl__sort job = *sort;
        job.slots = buffer->table;
        job.order_values = buffer->order_values;
        if (!built ||
            (!descending && etl__sort_index(&job, buffer->index, (size_t)buffer->pairs) != ETL_OK))
            return etl__fail(error, ETL_E_CANCELLED, "sorting %llu pairs: cancelled",
                             (unsigned long long)buffer->pairs);
    }
    pledge(buffer, 0);
    buffer->sealed = true;
    return ETL_OK;
}
