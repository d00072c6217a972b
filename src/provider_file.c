/* provider_file.c: a provider over a run file, mapped or read.
 *
 * Both ways show the same kind of window: whole blocks that have been checked, from the next
 * record on. A cursor is such a window and the place in the file that it stands for; one function,
 * fill_half(), joins blocks to it until the record at its start is whole.
 *
 * Mapped  The window is part of the map and its end moves on, a block at a time, so that the
 *         checksum brings the bytes into the cache that the records are then decoded from. Pairs
 *         are slices of the map: they live as long as the run does. Pages behind the reader are
 *         released, so that what is resident does not grow with the run.
 * Read    Two buffers take turns: a pair must outlive one refill. The record that the window cut
 *         is copied before the blocks that follow it, into the other buffer. A record larger than
 *         a buffer gets a larger one for as long as it is needed.
 *
 * Nothing in the file is trusted, right checksum or not: a record must end at or before data_end,
 * and memory is taken only for bytes which the file really has. The order of keys is the merge's
 * to check.
 *
 * Seek    Bisection over blocks, by the key of the first record that begins in or behind one (the
 *         table says where), then record by record: log2(blocks) block checks, and one block. Who
 *         goes on in about equal steps pays for two or three.
 * Memory  Mapped: the struct. Read: twice the buffer, 512 bytes of table, and a copy of the first
 *         and the last key once they were asked for. Nothing is allocated while reading but for
 *         records larger than a buffer.
 * Not chosen: MAP_POPULATE and MADV_WILLNEED (slower than faults with the kernel's read-ahead);
 *         one shared buffer with a copy of each pair. */
#include "key.h"
#include "provider_file.h"
#include <assert.h>

enum {
    BLOCK = ETL__RUN_BLOCK,
    CACHED = 64,            /* entries of the table */
    NARROWED = 4,           /* blocks, from a guess */
    RELEASE_ALIGN = 1 << 16 /* the largest page of today's systems */
};

/* Keys that were asked for by themselves. */
enum { FIRST_KEY, LAST_KEY, SAMPLE_KEY, KEYS };

struct half {
    uint8_t *data;  /* buffer_size bytes, or NULL */
    uint8_t *large; /* instead of data, for a record that does not fit it */
    size_t large_size;
};

/* A window of checked bytes that ends at end_offset of the file. */
struct cursor {
    const uint8_t *from;
    size_t size;
    uint64_t end_offset;
    uint64_t next_block; /* to be joined next; contains end_offset, or begins there */
    struct half *in;     /* where from points into; NULL: the map, or nowhere */
};

struct file_provider {
    struct etl__provider base; /* its window is that of the cursor, moved on by the reader */
    struct cursor cursor;
    const struct etl__run *run;
    struct etl__memory *memory;
    struct etl__ahead *ahead;
    struct etl__ahead_reader *reader; /* NULL: nobody checks ahead */

    uint64_t sought, step; /* the block found last, and how far behind the one before it was */
    size_t release_step;
    uint64_t released; /* the map's pages before this offset */

    struct half halves[2];
    size_t buffer_size;
    uint64_t cache_first, cache_count;
    uint8_t cache[CACHED * ETL__RUN_TABLE_ENTRY];

    struct etl__pair keys[KEYS]; /* only the keys; copies when the run is read */
    bool has_key[KEYS];
};

static struct cursor cursor_at(const struct file_provider *file, uint64_t offset) {
    const uint8_t *map = file->run->map;
    struct cursor cursor = {map != NULL ? map + offset : NULL, 0, offset, offset / BLOCK, NULL};
    return cursor;
}

static uint64_t cursor_offset(const struct cursor *cursor) {
    return cursor->end_offset - cursor->size;
}

/* Count `blocks` as joined; the window grows at its end. */
static void cursor_grow(const struct file_provider *file, struct cursor *cursor, uint64_t blocks) {
    uint64_t data_end = file->run->footer.data_end;
    cursor->next_block += blocks;
    uint64_t end =
        cursor->next_block < file->run->footer.blocks ? cursor->next_block * BLOCK : data_end;
    cursor->size += (size_t)(end - cursor->end_offset);
    cursor->end_offset = end;
}

/* ---- Mapped */

/* While nothing was sought, blocks may have been checked ahead; not where one peeks elsewhere. */
static int join_mapped(struct file_provider *file, struct cursor *cursor, uint64_t blocks,
                       bool peek, struct etl__error *error) {
    for (; blocks != 0; blocks--) {
        const uint8_t *entry;
        uint64_t block = cursor->next_block;
        if (peek || file->reader == NULL || !etl__ahead_take(file->ahead, file->reader, block)) {
            ETL__TRY(etl__run_table(file->run, block, 1, NULL, &entry, error));
            ETL__TRY(etl__run_check_block(file->run, block, file->run->map + block * BLOCK, entry,
                                          error));
        }
        cursor_grow(file, cursor, 1);
    }
    return ETL_OK;
}

/* Let go of the pages that lie a step or more behind `at`, once they are a step long. */
static void release_behind(struct file_provider *file, uint64_t at) {
    if (at - file->released < 2 * (uint64_t)file->release_step)
        return;
    uint64_t to = (at - file->release_step) / RELEASE_ALIGN * RELEASE_ALIGN;
    etl__os_release_pages(file->run->map + file->released, (size_t)(to - file->released));
    file->released = to;
}

/* ---- Read */

/* A buffer of `half` with room for `blocks` behind the window, and the window in it so that they
 * begin on a block's boundary. Gives the room's start and its size. */
static int make_room(struct file_provider *file, struct half *half, struct cursor *cursor,
                     uint64_t blocks, uint8_t **room, size_t *room_size,
                     struct etl__error *error) {
    size_t before = cursor->size / BLOCK + (cursor->size % BLOCK != 0 ? 1 : 0);
    if (blocks > SIZE_MAX / BLOCK - before)
        return etl__fail_memory(error, SIZE_MAX, "a record of a run");
    size_t needed = (before + (size_t)blocks) * BLOCK, capacity = file->buffer_size;
    uint8_t *data = half->data, *outgrown = NULL;
    size_t outgrown_size = half->large_size;
    if (needed > capacity || data == NULL) {
        data = half->large;
        capacity = half->large_size;
        if (needed > capacity) {
            outgrown = half->large;
            capacity = needed;
            data = etl__alloc(file->memory, capacity);
            if (data == NULL)
                return etl__fail_memory(error, capacity, "a record of a run");
            half->large = data;
            half->large_size = capacity;
        }
    } else if (half->large != NULL) { /* no longer needed */
        outgrown = half->large;
        half->large = NULL;
        half->large_size = 0;
    }
    uint8_t *from = data + before * BLOCK - cursor->size;
    if (cursor->size != 0 && from != cursor->from)
        memmove(from, cursor->from, cursor->size);
    if (outgrown != NULL)
        etl__free(file->memory, outgrown, outgrown_size);
    cursor->from = from;
    cursor->in = half;
    *room = data + before * BLOCK;
    *room_size = capacity - before * BLOCK;
    return ETL_OK;
}

static int cached_entry(struct file_provider *file, uint64_t block, const uint8_t **entry,
                        struct etl__error *error) {
    if (block - file->cache_first >= file->cache_count) {
        const uint8_t *entries;
        uint64_t count = file->run->footer.blocks - block;
        count = count < CACHED ? count : CACHED;
        file->cache_count = 0;
        ETL__TRY(etl__run_table(file->run, block, count, file->cache, &entries, error));
        file->cache_first = block;
        file->cache_count = count;
    }
    *entry = file->cache + (block - file->cache_first) * ETL__RUN_TABLE_ENTRY;
    return ETL_OK;
}

/* Join at least `blocks`, and when not peeking as many as there is room for. */
static int join_read(struct file_provider *file, struct half *half, struct cursor *cursor,
                     uint64_t blocks, bool peek, struct etl__error *error) {
    const struct etl__run *run = file->run;
    uint8_t *room = NULL;
    size_t room_size = 0;
    ETL__TRY(make_room(file, half, cursor, blocks, &room, &room_size, error));
    uint64_t left = run->footer.blocks - cursor->next_block;
    if (!peek)
        blocks = room_size / BLOCK < left ? room_size / BLOCK : left;
    uint64_t start = cursor->next_block * BLOCK;
    size_t size = blocks < left ? (size_t)blocks * BLOCK : (size_t)(run->footer.data_end - start);
    ETL__TRY(etl__run_read(run, start, room, size, error));
    for (uint64_t i = 0; i < blocks; i++) {
        const uint8_t *entry;
        uint64_t block = cursor->next_block + i;
        ETL__TRY(cached_entry(file, block, &entry, error));
        ETL__TRY(etl__run_check_block(run, block, room + i * BLOCK, entry, error));
    }
    cursor_grow(file, cursor, blocks);
    cursor->from = room + size - cursor->size;
    return ETL_OK;
}

/* ---- Records */

/* The record at the window's start: how many bytes of it are needed, more than the window has
 * when its head is cut. *pair is right when they are there. */
static int measure_record(const struct file_provider *file, const struct cursor *cursor, bool peek,
                          struct etl__pair *pair, uint64_t *need, struct etl__error *error) {
    const struct etl__run *run = file->run;
    const uint8_t *at = cursor->from, *end = at + cursor->size;
    uint64_t offset = cursor_offset(cursor), left = run->footer.data_end - offset;
    uint64_t key_size, code;
    const uint8_t *data = etl__varint_read(at, end, &key_size);
    if (data != NULL)
        data = etl__varint_read(data, end, &code);
    if (data == NULL && cursor->size < 2 * ETL__VARINT_MAX && cursor->size < left) {
        *need = cursor->size + 1;
        return ETL_OK;
    }
    if (data == NULL || key_size > ETL_SIZE_MAX || code > ETL_SIZE_MAX + 1)
        return etl__run_corrupt(run, offset, "lengths of a record", error);
    uint64_t value_size = code - (code != 0), head_size = (uint64_t)(data - at);
    if (key_size + value_size > left - head_size)
        return etl__run_corrupt(run, offset, "a record that passes the end of the data", error);
    *need = head_size + key_size + (peek ? 0 : value_size);
    pair->key = data;
    pair->key_size = (uint32_t)key_size;
    pair->value = peek || code == 0 || *need > cursor->size ? NULL : data + key_size;
    pair->value_size = (uint32_t)value_size;
    return ETL_OK;
}

/* Make the record at the cursor whole, or when peeking its head and key, with blocks read into
 * half. ETL_END at the end of the data. */
static int fill_half(struct file_provider *file, struct half *half, struct cursor *cursor,
                     bool peek, struct etl__pair *pair, struct etl__error *error) {
    uint64_t offset = cursor_offset(cursor), need = 1;
    if (offset == file->run->footer.data_end)
        return ETL_END;
    for (;;) {
        if (cursor->size != 0)
            ETL__TRY(measure_record(file, cursor, peek, pair, &need, error));
        if (need <= cursor->size)
            return ETL_OK;
        uint64_t blocks = (offset + need - 1) / BLOCK - cursor->next_block + 1;
        if (file->run->map != NULL)
            ETL__TRY(join_mapped(file, cursor, blocks, peek, error));
        else
            ETL__TRY(join_read(file, half, cursor, blocks, peek, error));
    }
}

/* The buffer to read into: not the one that holds the pairs handed out last. */
static struct half *other_half(struct file_provider *file, const struct cursor *cursor) {
    return cursor->in == &file->halves[0] ? &file->halves[1] : &file->halves[0];
}

static struct cursor cursor_now(const struct file_provider *file) {
    struct cursor cursor = file->cursor;
    cursor.from = file->base.at;
    cursor.size = (size_t)(file->base.end - file->base.at);
    return cursor;
}

static void show_window(struct file_provider *file, const struct cursor *cursor) {
    file->cursor = *cursor;
    file->base.at = cursor->from;
    file->base.end = cursor->size != 0 ? cursor->from + cursor->size : cursor->from;
}

/* ---- The provider */

static int file_refill(struct etl__provider *provider, uint64_t need, struct etl__error *error) {
    struct file_provider *file = (struct file_provider *)provider;
    struct cursor cursor = cursor_now(file);
    struct etl__pair pair;
    (void)need; /* measured here, against what the file has */
    ETL__TRY(fill_half(file, other_half(file, &cursor), &cursor, false, &pair, error));
    show_window(file, &cursor);
    if (file->run->map != NULL)
        release_behind(file, cursor_offset(&cursor));
    return ETL_OK;
}

/* Is the first record at or behind a block's start below the key? */
static int is_below(struct file_provider *file, uint64_t block, const uint8_t *key, size_t size,
                    bool *below, struct etl__error *error) {
    uint64_t offset;
    *below = false;
    ETL__TRY(etl__run_record_at_block(file->run, block, &offset, error));
    if (offset == file->run->footer.data_end)
        return ETL_OK;
    struct cursor cursor = cursor_at(file, offset);
    struct etl__pair pair;
    ETL__TRY(fill_half(file, &file->halves[0], &cursor, true, &pair, error));
    *below = etl__key_compare(pair.key, pair.key_size, key, size) < 0;
    return ETL_OK;
}

/* Narrow (*below, *above) around where another step as long as the last one leads: who reads a
 * range here and there seeks in about equal steps. */
static int narrow(struct file_provider *file, const uint8_t *key, size_t size, uint64_t *below,
                  uint64_t *above, struct etl__error *error) {
    uint64_t at = file->sought + file->step;
    bool first = true, upwards = false;
    for (uint64_t width = 1; width <= NARROWED && *below < at && at < *above; width *= 2) {
        bool is;
        ETL__TRY(is_below(file, at, key, size, &is, error));
        *(is ? below : above) = at;
        if (first)
            upwards = is;
        if (is != upwards)
            break;
        first = false;
        at = is ? at + width : at - width;
    }
    return ETL_OK;
}

/* The first record of the last block whose first record is below the key; the first of all when
 * there is none. */
static int bisect(struct file_provider *file, const uint8_t *key, size_t size, uint64_t *offset,
                  struct etl__error *error) {
    uint64_t below = 0, above = file->run->footer.blocks;
    if (file->step != 0)
        ETL__TRY(narrow(file, key, size, &below, &above, error));
    while (above - below > 1) {
        uint64_t middle = below + (above - below) / 2;
        bool is;
        ETL__TRY(is_below(file, middle, key, size, &is, error));
        *(is ? &below : &above) = middle;
    }
    file->step = below > file->sought ? below - file->sought : 0;
    file->sought = below;
    return etl__run_record_at_block(file->run, below, offset, error);
}

static int seek_from(struct file_provider *file, struct cursor *cursor, const uint8_t *key,
                     size_t size, struct etl__error *error) {
    uint64_t offset;
    ETL__TRY(bisect(file, key, size, &offset, error));
    *cursor = cursor_at(file, offset);
    for (;;) {
        struct etl__pair pair;
        int status = fill_half(file, other_half(file, cursor), cursor, false, &pair, error);
        if (status == ETL_END)
            return ETL_OK;
        if (status != ETL_OK || etl__key_compare(pair.key, pair.key_size, key, size) >= 0)
            return status;
        const uint8_t *next = pair.key + pair.key_size + pair.value_size;
        cursor->size -= (size_t)(next - cursor->from);
        cursor->from = next;
    }
}

static int file_seek(struct etl__provider *provider, const uint8_t *key, size_t size,
                     struct etl__error *error) {
    struct file_provider *file = (struct file_provider *)provider;
    struct cursor before = cursor_now(file), cursor;
    file->reader = NULL;
    int status = seek_from(file, &cursor, key, size, error);
    if (status != ETL_OK) /* back to where it was, to be read again: the buffers were used */
        cursor = cursor_at(file, cursor_offset(&before));
    if (file->run->map != NULL && cursor_offset(&cursor) < file->released) {
        etl__os_release_pages(file->run->map + file->released,
                              (size_t)(before.end_offset - file->released));
        file->released = cursor_offset(&cursor) / RELEASE_ALIGN * RELEASE_ALIGN;
    }
    show_window(file, &cursor);
    return status;
}

/* The key of the record at offset, to stay. */
static int load_key(struct file_provider *file, int which, uint64_t offset,
                    struct etl__error *error) {
    struct half apart = {NULL, NULL, 0};
    struct cursor cursor = cursor_at(file, offset);
    struct etl__pair pair;
    int status = fill_half(file, &apart, &cursor, true, &pair, error);
    if (status == ETL_OK && which == LAST_KEY) {
        uint64_t head_size = (uint64_t)(pair.key - cursor.from);
        if (offset + head_size + pair.key_size + pair.value_size != file->run->footer.data_end)
            status = etl__run_corrupt(file->run, offset, "the last record", error);
    }
    if (status == ETL_OK && file->run->map == NULL) {
        size_t size = pair.key_size != 0 ? pair.key_size : 1;
        uint8_t *copy = etl__alloc(file->memory, size);
        if (copy != NULL) {
            memcpy(copy, pair.key, pair.key_size);
            pair.key = copy;
        } else {
            status = etl__fail_memory(error, size, "a key of a run");
        }
    }
    if (apart.large != NULL)
        etl__free(file->memory, apart.large, apart.large_size);
    if (status == ETL_OK) {
        file->keys[which] = pair;
        file->has_key[which] = true;
    }
    return status;
}

static int file_bounds(struct etl__provider *provider, etl_slice *first, etl_slice *last,
                       struct etl__error *error) {
    struct file_provider *file = (struct file_provider *)provider;
    const struct etl__run_footer *footer = &file->run->footer;
    if (footer->pairs == 0)
        return ETL_END;
    if (!file->has_key[FIRST_KEY])
        ETL__TRY(load_key(file, FIRST_KEY, footer->first_record, error));
    if (!file->has_key[LAST_KEY])
        ETL__TRY(load_key(file, LAST_KEY, footer->last_record, error));
    *first = etl_slice_of(file->keys[FIRST_KEY].key, file->keys[FIRST_KEY].key_size);
    *last = etl_slice_of(file->keys[LAST_KEY].key, file->keys[LAST_KEY].key_size);
    return ETL_OK;
}

static void drop_key(struct file_provider *file, int which) {
    struct etl__pair *pair = &file->keys[which];
    if (file->has_key[which] && file->run->map == NULL)
        etl__free(file->memory, (void *)(uintptr_t)pair->key,
                  pair->key_size != 0 ? pair->key_size : 1);
    file->has_key[which] = false;
}

static int file_sample(struct etl__provider *provider, uint64_t part, uint64_t parts,
                       etl_slice *key, struct etl__error *error) {
    struct file_provider *file = (struct file_provider *)provider;
    const struct etl__run_footer *footer = &file->run->footer;
    uint64_t offset;
    if (footer->pairs == 0)
        return ETL_END;
    uint64_t block = (uint64_t)((double)part / (double)parts * (double)footer->blocks);
    ETL__TRY(etl__run_record_at_block(file->run, block, &offset, error));
    drop_key(file, SAMPLE_KEY);
    offset = offset < footer->data_end ? offset : footer->last_record;
    ETL__TRY(load_key(file, SAMPLE_KEY, offset, error));
    *key = etl_slice_of(file->keys[SAMPLE_KEY].key, file->keys[SAMPLE_KEY].key_size);
    return ETL_OK;
}

static void file_close(struct etl__provider *provider) {
    struct file_provider *file = (struct file_provider *)provider;
    for (int i = 0; i < 2; i++) {
        struct half *half = &file->halves[i];
        if (half->data != NULL)
            etl__free(file->memory, half->data, file->buffer_size);
        if (half->large != NULL)
            etl__free(file->memory, half->large, half->large_size);
    }
    for (int i = 0; i < KEYS; i++)
        drop_key(file, i);
    etl__free(file->memory, file, sizeof *file);
}

/* Two buffers of at least two blocks each; one is enough for a run that fits it. Of few sizes, so
 * that those of the merge before serve again. */
static int open_buffers(struct file_provider *file, size_t buffer_size, struct etl__error *error) {
    uint64_t most = buffer_size / BLOCK, blocks = 2;
    while (2 * blocks <= most && blocks < file->run->footer.blocks)
        blocks *= 2;
    int count = blocks < file->run->footer.blocks ? 2 : 1;
    file->buffer_size = (size_t)blocks * BLOCK;
    for (int i = 0; i < count; i++) {
        file->halves[i].data = etl__alloc(file->memory, file->buffer_size);
        if (file->halves[i].data == NULL)
            return etl__fail_memory(error, file->buffer_size, "a read buffer");
    }
    return ETL_OK;
}

int etl__provider_file_open(struct etl__provider **out, const struct etl__run *run,
                            struct etl__memory *memory, size_t buffer_size, size_t release_step,
                            struct etl__error *error) {
    *out = NULL;
    struct file_provider *file = etl__alloc_zeroed(memory, sizeof *file);
    if (file == NULL)
        return etl__fail_memory(error, sizeof *file, "a reader of a run");
    file->run = run;
    file->memory = memory;
    file->release_step = release_step > RELEASE_ALIGN ? release_step : RELEASE_ALIGN;
    file->base.refill = file_refill;
    file->base.seek = file_seek;
    file->base.bounds = file_bounds;
    file->base.sample = file_sample;
    file->base.close = file_close;
    file->base.stays = run->map != NULL;
    file->base.pairs = run->footer.pairs;
    file->base.bytes = run->footer.data_end - run->footer.first_record;
    if (run->map == NULL) {
        int status = open_buffers(file, buffer_size, error);
        if (status != ETL_OK) {
            file_close(&file->base);
            return status;
        }
    }
    struct cursor start = cursor_at(file, run->footer.first_record);
    show_window(file, &start);
    *out = &file->base;
    return ETL_OK;
}

void etl__provider_file_check_ahead(struct etl__provider *provider, struct etl__ahead *ahead) {
    struct file_provider *file = (struct file_provider *)provider;
    file->ahead = ahead;
    file->reader = etl__ahead_add(ahead, file->run);
}

uint64_t etl__provider_file_offset(const struct etl__provider *provider) {
    struct cursor cursor = cursor_now((const struct file_provider *)provider);
    return cursor_offset(&cursor);
}
