/* outlet.c: the pairs of one range of a collector, as blocks.
 *
 * A merge of its own over the collector's runs and buffers, bounded by the range; through the
 * duplicate rules that hold while runs are written: what later pairs of other ranks cannot bring
 * back is dropped or folded here, before it travels. */
#include "outlet.h"
#include "copy.h"

static int open_merge(struct etl__outlet *outlet, struct etl__store *store, size_t merges,
                      struct etl__error *error) {
    size_t size = (etl__store_sources(store) + 1) * sizeof(struct etl__provider *), opened = 0;
    struct etl__provider **providers = etl__alloc(&store->memory, size);
    if (providers == NULL)
        return etl__fail_memory(error, size, "sending a range");
    int status = etl__store_open_providers(store, merges, providers, &opened, NULL, error);
    if (status == ETL_OK)
        status = etl__merge_open(&outlet->merge, &store->memory, providers, opened,
                                 store->rules.order_values, &store->cancel, error);
    else
        for (size_t i = 0; i < opened; i++)
            providers[i]->close(providers[i]);
    etl__free(&store->memory, (void *)providers, size);
    return status;
}

int etl__outlet_open(struct etl__outlet *outlet, struct etl__store *store, size_t merges,
                     etl_slice from, etl_slice to, struct etl__error *error) {
    ETL__TRY(open_merge(outlet, store, merges, error));
    struct etl__rules rules = etl__rules_for_runs(&store->rules);
    etl__output_open(&outlet->output, &store->memory, &outlet->merge, &rules);
    outlet->is_open = true;
    if (to.data != NULL)
        etl__output_bound(&outlet->output, to);
    outlet->merge.counting = false; /* the exchange counts over all ranges */
    for (size_t i = 0; i < outlet->merge.provider_count; i++)
        outlet->held += outlet->merge.providers[i]->pairs;
    return from.size == 0 ? ETL_OK
                          : etl__output_seek(&outlet->output, from.data, from.size, error);
}

void etl__outlet_close(struct etl__outlet *outlet) {
    if (!outlet->is_open)
        return;
    etl__output_close(&outlet->output);
    etl__merge_close(&outlet->merge);
    outlet->is_open = false;
}

/* Copy bytes [from, to) of a record, which is `head`, key and value. */
static void copy_piece(uint8_t *out, const struct etl__pair *pair, const uint8_t *head,
                       size_t head_size, uint64_t from, uint64_t to) {
    const uint8_t *parts[] = {head, pair->key, pair->value};
    const uint64_t sizes[] = {head_size, pair->key_size, pair->value_size};
    uint64_t begin = 0;
    for (int i = 0; i < 3; begin += sizes[i++]) {
        uint64_t low = from > begin ? from - begin : 0;
        uint64_t high = to < begin + sizes[i] ? (to > begin ? to - begin : 0) : sizes[i];
        if (low >= high)
            continue;
        memcpy(out, parts[i] + low, (size_t)(high - low));
        out += high - low;
    }
}

static uint64_t record_size(const struct etl__pair *pair) {
    uint64_t code = etl__value_code(pair->value == NULL, pair->value_size);
    return etl__record_head_size(pair->key_size, code) + (uint64_t)pair->key_size +
           pair->value_size;
}

/* The next piece of the pending record. */
static void fill_piece(struct etl__outlet *outlet, uint8_t *at, size_t room,
                       struct etl__block_head *head, size_t *filled) {
    const struct etl__pair *pair = outlet->pending;
    uint8_t record_head[2 * ETL__VARINT_MAX];
    uint64_t code = etl__value_code(pair->value == NULL, pair->value_size);
    size_t head_size =
        (size_t)(etl__record_write_head(record_head, pair->key_size, code) - record_head);
    uint64_t whole = record_size(pair), left = whole - outlet->sent;
    *filled = left < room ? (size_t)left : room;
    copy_piece(at, pair, record_head, head_size, outlet->sent, outlet->sent + *filled);
    head->kind = ETL__BLOCK_PIECE;
    head->whole = whole;
    outlet->sent += *filled;
    outlet->bytes += *filled;
    if (outlet->sent < whole)
        return;
    outlet->sent = 0;
    outlet->pending = NULL;
    outlet->pairs++;
}

static uint8_t *write_record(uint8_t *at, const struct etl__pair *pair) {
    at = etl__record_write_head(at, pair->key_size,
                                etl__value_code(pair->value == NULL, pair->value_size));
    etl__copy(at, pair->key, pair->key_size);
    at += pair->key_size;
    if (pair->value_size != 0)
        etl__copy(at, pair->value, pair->value_size);
    return at + pair->value_size;
}

/* Whole records, until one does not fit any more or there are no more. */
static int fill_records(struct etl__outlet *outlet, uint8_t *from, size_t room, size_t *filled,
                        struct etl__error *error) {
    uint8_t *at = from;
    *filled = 0;
    for (;;) {
        if (outlet->pending == NULL) {
            int status = outlet->is_open
                             ? etl__output_next(&outlet->output, &outlet->pending, error)
                             : ETL_END;
            if (status != ETL_OK)
                outlet->pending = NULL;
            outlet->ended = status == ETL_END;
            if (outlet->ended)
                return ETL_OK;
            ETL__TRY(status);
        }
        if (record_size(outlet->pending) > room - *filled)
            return ETL_OK;
        at = write_record(at, outlet->pending);
        *filled = (size_t)(at - from);
        outlet->pending = NULL;
        outlet->pairs++;
    }
}

int etl__outlet_fill(struct etl__outlet *outlet, uint8_t *block, size_t capacity, size_t *size,
                     struct etl__error *error) {
    struct etl__block_head head = {.kind = ETL__BLOCK_RECORDS};
    size_t room = capacity - ETL__BLOCK_HEAD, filled = 0;
    uint8_t *at = block + ETL__BLOCK_HEAD;
    if (outlet->sent == 0) {
        ETL__TRY(fill_records(outlet, at, room, &filled, error));
        head.whole = filled;
        outlet->bytes += filled;
    }
    if (filled == 0 && outlet->pending != NULL)
        fill_piece(outlet, at, room, &head, &filled);
    head.is_last = outlet->ended;
    head.pairs = outlet->pairs;
    memcpy(block, &head, sizeof head);
    *size = ETL__BLOCK_HEAD + filled;
    return ETL_OK;
}
