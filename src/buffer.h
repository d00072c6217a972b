/* buffer.h: pairs being collected: records in an arena, and the index over them once it is wanted.
 *
 * Collecting only appends: a record goes behind the last one, and nothing else is written. The
 * index (16 bytes a pair) is made when the buffer is sealed, by one walk over the records:
 * sequential reads, and no stores while collecting; none at all when the keys came in ascending
 * order. What the index will take is held back from the buffer's limit from the start. */
#ifndef LIBETL_BUFFER_H
#define LIBETL_BUFFER_H

#include "arena.h"
#include "copy.h"
#include "partition.h"
#include "record.h"
#include "sort.h"

/* References have 32 bits: 4096 slots of 1 MiB. Extents begin a slot each. */
enum { ETL__BUFFER_SHIFT = 20, ETL__BUFFER_SLOTS = 1 << (32 - ETL__BUFFER_SHIFT) };

/* Records back to back. */
struct etl__extent {
    uint8_t *data;
    size_t size;
};

/* Bytes of a limit: with less left a buffer counts as full. */
enum { ETL__LEAST_GRANT = 4 * 1024 };

enum { ETL__ASCENDING = 1, ETL__DESCENDING = 2 };

struct etl__buffer {
    uint8_t *at, *end;          /* where the next record goes; granted up to here */
    const uint8_t *last_record; /* where the last record begins */
    const uint8_t *last_key;    /* while `order` is not 0 and pairs != 0 */
    uint64_t last_prefix;
    uint32_t last_key_size;
    unsigned
        order; /* how all keys so far came: ETL__ASCENDING, ETL__DESCENDING (strictly), bits */
    bool order_values; /* then equal keys are in no order */
    bool sealed;
    uint64_t pairs;
    uint64_t round_pairs; /* the most since etl__buffer_end_round */

    struct etl__partition
        *partition; /* not NULL: the records lie in its buckets, not in extents */
    struct etl__arena *arena;
    struct etl__segment *segments;
    uint8_t *room_end;          /* the end of the room that at runs in */
    uint8_t *spare, *spare_end; /* room left behind by a record that needed a segment of its own */
    struct etl__extent *extents; /* the last one is open: its size counts when it is closed */
    size_t extent_count, extent_capacity;
    size_t filled; /* extents that have records, once sealed */
    size_t slots;  /* of the closed extents */
    size_t held;   /* bytes of segments */
    size_t limit;  /* of segments and index together */
    size_t growth; /* what the next segment takes */
    size_t growth_most;
    size_t pledged; /* in a pool: for ordering */

    struct etl__entry *index;
    size_t index_capacity;
    struct etl__slots table;
    size_t table_capacity;
};

void etl__buffer_init(struct etl__buffer *buffer, struct etl__arena *arena, size_t limit,
                      bool order_values);
void etl__buffer_end(struct etl__buffer *buffer);

/* The limit of an empty buffer, and how large its first segment is to be, if it may. */
void etl__buffer_set_limit(struct etl__buffer *buffer, size_t limit, size_t first_segment);

/* Forget all pairs; the segments go back to the arena, the index is kept. */
void etl__buffer_clear(struct etl__buffer *buffer);

/* A round is over: drop the index of a much larger one; in a pool, hold nothing. */
void etl__buffer_end_round(struct etl__buffer *buffer);

/* Make room for one record of `size` bytes: ETL_OK, ETL_END when that would pass the buffer's
 * limit, or ETL_E_NOMEM when memory is short before that. */
int etl__buffer_extend(struct etl__buffer *buffer, size_t size);

/* What the buffer's limit, and what the collector's, have left beside what ordering the pairs will
 * take. */
size_t etl__buffer_unused_limit(const struct etl__buffer *buffer);
size_t etl__buffer_unused_memory(const struct etl__buffer *buffer);

/* In a pool: pledge what ordering will take, and `coming` bytes beside it. */
void etl__buffer_pledge(struct etl__buffer *buffer, size_t coming);

/* Room for one record above the limit. */
bool etl__buffer_extend_over_limit(struct etl__buffer *buffer, size_t size);

/* How many bytes of records it holds, heads included. */
uint64_t etl__buffer_record_bytes(const struct etl__buffer *buffer);

/* Free the index of a buffer that is not sealed. */
void etl__buffer_drop_index(struct etl__buffer *buffer);

/* Sort: afterwards providers can be opened over it, from any thread. Appending unseals it again.
 * `sort` brings scratch and cancel; on failure (ETL_E_NOMEM, ETL_E_CANCELLED) the buffer is as
 * before. */
int etl__buffer_seal(struct etl__buffer *buffer, const struct etl__sort *sort,
                     struct etl__error *error);

/* ---- Buckets: deal.c */

/* Worth dealing to buckets: large enough, of small records, in no order? */
bool etl__buffer_is_sample(const struct etl__buffer *buffer);

/* Take what was collected so far as a sample, and deal it and all that follows to buckets; the
 * splitters are kept in *splitters for the next buffer. ETL_END, with nothing changed, where the
 * keys are too much alike or memory is short; ETL_E_CANCELLED. */
int etl__buffer_deal(struct etl__buffer *buffer, const struct etl__sort *sort,
                     struct etl__splitters *splitters, struct etl__error *error);

/* Deal an empty buffer's pairs by splitters chosen before; false, and it is a plain one, without
 * memory. */
bool etl__buffer_deal_as_before(struct etl__buffer *buffer,
                                const struct etl__splitters *splitters);

/* As etl__buffer_extend, for a dealt buffer's bucket. */
int etl__buffer_extend_bucket(struct etl__buffer *buffer, uint32_t bucket, size_t size);

/* ---- Placing records */

/* A key came to stand at `key` behind all others. */
static inline void etl__buffer_note_order(struct etl__buffer *buffer, const uint8_t *key,
                                          size_t size) {
    uint64_t prefix = etl__key_prefix(key, size);
    if (ETL__LIKELY(buffer->pairs != 0)) {
        int order = (prefix > buffer->last_prefix) - (prefix < buffer->last_prefix);
        if (order == 0)
            order = etl__key_compare(key, size, buffer->last_key, buffer->last_key_size);
        if (order > 0)
            buffer->order &= ETL__ASCENDING;
        else if (order < 0)
            buffer->order &= ETL__DESCENDING;
        else
            buffer->order &= buffer->order_values ? 0u : (unsigned)ETL__ASCENDING;
    }
    buffer->last_prefix = prefix;
    buffer->last_key = key;
    buffer->last_key_size = (uint32_t)size;
}

/* Append where etl__record_head_size + sizes fit before `end`. Returns where the key stands. */
static inline uint8_t *etl__buffer_place(struct etl__buffer *buffer, size_t key_size,
                                         uint64_t value_code, size_t value_size) {
    buffer->last_record = buffer->at;
    uint8_t *key = etl__record_write_head(buffer->at, key_size, value_code);
    buffer->at = key + key_size + value_size;
    buffer->sealed = false;
    return key;
}

/* Where a record of `size` bytes with this key goes: at bucket->at, where bucket is not NULL, else
 * at buffer->at. False when there is no room. */
static inline bool etl__buffer_has_room(struct etl__buffer *buffer, const uint8_t *key,
                                        size_t key_size, size_t size,
                                        struct etl__bucket **bucket) {
    struct etl__partition *partition = buffer->partition;
    if (partition == NULL) {
        *bucket = NULL;
        return size <= (size_t)(buffer->end - buffer->at);
    }
    *bucket = &partition->buckets[etl__splitters_find(&partition->splitters, key, key_size)];
    return size <= (size_t)((*bucket)->end - (*bucket)->at);
}

/* The bucket of a key that is as expected, in a dealt buffer; NULL: to be looked for. */
static inline struct etl__bucket *etl__buffer_find_bucket(struct etl__buffer *buffer,
                                                          const uint8_t *key, size_t size) {
    struct etl__partition *partition = buffer->partition;
    if (!etl__splitters_expect(&partition->splitters, key, size))
        return NULL;
    uint64_t part = etl__load_be64(key + partition->splitters.common);
    return &partition->buckets[etl__splitters_find_part(&partition->splitters, part)];
}

/* Append to a bucket with room, and count. Returns where the key stands. */
static inline uint8_t *etl__bucket_place(struct etl__buffer *buffer, struct etl__bucket *bucket,
                                         size_t key_size, uint64_t value_code, size_t value_size) {
    uint8_t *key = etl__record_write_head(bucket->at, key_size, value_code);
    bucket->at = key + key_size + value_size;
    ETL__PREFETCH_WRITE(bucket->at + 64);
    ETL__PREFETCH_WRITE(bucket->at + 128);
    bucket->pairs++;
    buffer->pairs++;
    if (ETL__UNLIKELY(buffer->sealed))
        buffer->sealed = false;
    return key;
}

/* The pair placed last is complete: it counts. */
static inline void etl__buffer_commit(struct etl__buffer *buffer, const uint8_t *key,
                                      size_t key_size) {
    if (buffer->order != 0)
        etl__buffer_note_order(buffer, key, key_size);
    buffer->pairs++;
}

#endif
