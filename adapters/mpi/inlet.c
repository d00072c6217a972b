/* inlet.c: the blocks of one rank as a provider.
 *
 * A block of whole records is a window as it is; the pieces of a large record are joined in memory
 * of its size, which is then the window. A pair outlives one refill, so what the window before
 * this one stood in is given back with the next. */
#include "inlet.h"

/* What a window stands in: a slot, or the memory of a large record, or neither. */
struct held {
    bool is_slot;
    unsigned slot;
    uint8_t *joined;
    size_t joined_size;
};

struct inlet {
    struct etl__provider base;
    struct etl__exchange *exchange;
    int source;
    struct held now, before;
};

static void free_joined(const struct inlet *inlet, const struct held *held) {
    if (held->joined != NULL)
        etl__free_large(inlet->exchange->memory, held->joined, held->joined_size);
}

static int release(struct inlet *inlet, struct held *held, struct etl__error *error) {
    struct held was = *held;
    *held = (struct held){.joined = NULL};
    free_joined(inlet, &was);
    return was.is_slot ? etl__exchange_give(inlet->exchange, inlet->source, was.slot, error)
                       : ETL_OK;
}

static int fail_join(const struct inlet *inlet, struct etl__error *error) {
    return etl__fail(error, ETL_E_CORRUPT, "receiving from rank %d: a piece is of no record",
                     inlet->source);
}

/* Join the pieces of a record, of which the first has been taken. */
static int join(struct inlet *inlet, unsigned slot, const uint8_t *block, size_t size,
                struct etl__error *error) {
    struct etl__block_head head;
    memcpy(&head, block, sizeof head);
    uint64_t whole = head.whole;
    if (whole > 2 * ETL_SIZE_MAX + 2 * ETL__VARINT_MAX || whole > SIZE_MAX)
        return fail_join(inlet, error);
    inlet->now.joined = etl__alloc_large(inlet->exchange->memory, (size_t)whole);
    inlet->now.joined_size = (size_t)whole;
    if (inlet->now.joined == NULL) {
        inlet->now.joined_size = 0;
        return etl__fail_memory(error, (size_t)whole, "a pair that is larger than a block");
    }
    for (size_t filled = 0;;) {
        size_t piece = size - sizeof head;
        if (head.kind != ETL__BLOCK_PIECE || head.whole != whole || piece > whole - filled)
            return fail_join(inlet, error);
        memcpy(inlet->now.joined + filled, block + sizeof head, piece);
        filled += piece;
        ETL__TRY(etl__exchange_give(inlet->exchange, inlet->source, slot, error));
        if (filled == whole)
            return ETL_OK;
        ETL__TRY(etl__exchange_take(inlet->exchange, inlet->source, &slot, &block, &size, error));
        memcpy(&head, block, sizeof head);
    }
}

static int show_next(struct inlet *inlet, struct etl__error *error) {
    struct etl__provider *base = &inlet->base;
    struct etl__block_head head;
    unsigned slot;
    const uint8_t *block;
    size_t size;
    ETL__TRY(etl__exchange_take(inlet->exchange, inlet->source, &slot, &block, &size, error));
    memcpy(&head, block, sizeof head);
    if (head.is_last)
        base->pairs = head.pairs;
    if (head.kind == ETL__BLOCK_PIECE) {
        ETL__TRY(join(inlet, slot, block, size, error));
        base->at = inlet->now.joined;
        base->end = base->at + inlet->now.joined_size;
        return ETL_OK;
    }
    inlet->now = (struct held){.is_slot = true, .slot = slot};
    base->at = block + sizeof head;
    base->end = block + size;
    return base->at < base->end ? ETL_OK : ETL_END;
}

static int refill(struct etl__provider *base, uint64_t need, struct etl__error *error) {
    struct inlet *inlet = (struct inlet *)base;
    (void)need;
    if (base->at < base->end)
        return etl__fail(error, ETL_E_CORRUPT, "receiving from rank %d: a record is cut",
                         inlet->source);
    if (inlet->exchange->receiving[inlet->source].ended)
        return ETL_END;
    ETL__TRY(release(inlet, &inlet->before, error));
    inlet->before = inlet->now;
    inlet->now = (struct held){.joined = NULL};
    return show_next(inlet, error);
}

/* All inlets may hold any key: no two of them are chained. */
static int bounds(struct etl__provider *base, etl_slice *first, etl_slice *last,
                  struct etl__error *error) {
    (void)base, (void)error;
    *first = *last = etl_slice_of("", 0);
    return ETL_OK;
}

static void close_inlet(struct etl__provider *base) {
    struct inlet *inlet = (struct inlet *)base;
    free_joined(inlet, &inlet->before);
    free_joined(inlet, &inlet->now);
    etl__free(inlet->exchange->memory, inlet, sizeof *inlet);
}

int etl__inlet_open(struct etl__provider **out, struct etl__exchange *exchange, int source,
                    struct etl__error *error) {
    struct inlet *inlet = etl__alloc_zeroed(exchange->memory, sizeof *inlet);
    if (inlet == NULL)
        return etl__fail_memory(error, sizeof *inlet, "receiving");
    inlet->exchange = exchange;
    inlet->source = source;
    /* A merge that goes from first to last neither seeks nor samples. */
    inlet->base = (struct etl__provider){.refill = refill, .bounds = bounds, .close = close_inlet};
    *out = &inlet->base;
    return ETL_OK;
}
