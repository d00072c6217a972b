/* api_readers.c: the iterators of api_machine.h. */
#include "api_machine.h"

#include <string.h>

/* All that the collectors of a mask give. With ETL_REJECT an iterator may seek past what load
 * would stop at: there all pairs are kept, and which to refuse is decided pair by pair. */
static void settle(const struct machine *machine, struct reader *reader) {
    struct oracle view = machine_view(machine, reader->mask);
    struct oracle_rules rules = machine->rules;
    if (rules.duplicates == ETL_REJECT)
        rules.duplicates = ETL_KEEP_ALL;
    (void)oracle_settle(&view, &rules, &reader->all);
    free(view.pairs);
}

void machine_open(struct machine *machine, unsigned slot, unsigned mask, const etl_range *range) {
    struct reader *reader = &machine->readers[slot];
    etl_collector *collectors[COLLECTORS];
    size_t count = machine_collectors(machine, mask, collectors);
    machine_close(machine, slot);
    int status = count == 1 ? etl_iter_open(&reader->iter, collectors[0], range)
                            : etl_iter_open_many(&reader->iter, collectors, count, range);
    FUZZ_CHECK((status == ETL_OK) == (reader->iter != NULL));
    if (!machine_accept(machine, mask, true, status))
        return;
    for (unsigned i = 0; i < COLLECTORS; i++)
        machine->models[i].iterators += mask >> i & 1;
    reader->mask = mask;
    settle(machine, reader);
    reader->low = range != NULL ? oracle_lower_bound(&reader->all, range->from) : 0;
    reader->high = range != NULL && range->to.data != NULL
                       ? oracle_lower_bound(&reader->all, range->to)
                       : reader->all.count;
    if (reader->high < reader->low)
        reader->high = reader->low;
    reader->at = reader->sought = reader->low;
}

void machine_close(struct machine *machine, unsigned slot) {
    struct reader *reader = &machine->readers[slot];
    etl_iter_close(reader->iter);
    for (unsigned i = 0; i < COLLECTORS && reader->iter != NULL; i++)
        machine->models[i].iterators -= reader->mask >> i & 1;
    oracle_clear(&reader->all);
    memset(reader, 0, sizeof *reader);
}

/* A call on an iterator whose collector is gone or cancelled. */
static bool is_refused(const struct machine *machine, const struct reader *reader, int status) {
    bool cancelled = false;
    for (unsigned i = 0; i < COLLECTORS; i++)
        cancelled |= (reader->mask >> i & 1) != 0 && machine->models[i].cancelled;
    if (reader->mask == 0)
        FUZZ_CHECK(status == ETL_E_STATE);
    else if (cancelled)
        FUZZ_CHECK(status == ETL_E_CANCELLED);
    return reader->mask == 0 || cancelled;
}

static bool is_duplicate(const struct machine *machine, const struct reader *reader) {
    if (machine->rules.duplicates != ETL_REJECT || reader->at == reader->sought ||
        reader->at >= reader->high)
        return false;
    const struct oracle_pair *now = &reader->all.pairs[reader->at];
    return now->key_size == now[-1].key_size && memcmp(now->key, now[-1].key, now->key_size) == 0;
}

static void next(const struct machine *machine, struct reader *reader) {
    int status = etl_iter_next(reader->iter, &reader->key, &reader->value);
    reader->has_pair = status == ETL_OK;
    if (is_refused(machine, reader, status))
        return;
    if (status == ETL_OK) {
        FUZZ_CHECK(!reader->ended && reader->at < reader->high);
        FUZZ_CHECK(!is_duplicate(machine, reader));
        FUZZ_CHECK(machine_is_pair(&reader->all, reader->at, reader->key, reader->value));
        reader->at++;
    } else if (status == ETL_END) {
        FUZZ_CHECK(reader->ended || reader->at == reader->high);
        reader->ended = true;
    } else {
        FUZZ_CHECK((status == ETL_E_DUPLICATE && is_duplicate(machine, reader)) ||
                   machine_excuses(machine, status));
        FUZZ_CHECK(!reader->ended || reader->broken);
        reader->broken = true;
    }
}

void machine_next(struct machine *machine, unsigned slot, size_t count) {
    struct reader *reader = &machine->readers[slot];
    for (size_t i = 0; i < count && reader->iter != NULL; i++) {
        next(machine, reader);
        if (!reader->has_pair)
            break;
    }
}

void machine_seek(struct machine *machine, unsigned slot, etl_slice key) {
    struct reader *reader = &machine->readers[slot];
    if (reader->iter == NULL)
        return;
    size_t at = oracle_lower_bound(&reader->all, key);
    int status = etl_iter_seek(reader->iter, key);
    reader->has_pair = false;
    if (is_refused(machine, reader, status))
        return;
    if (status != ETL_OK) {
        FUZZ_CHECK(machine_excuses(machine, status));
        reader->broken = true;
        return;
    }
    at = at < reader->low ? reader->low : at;
    at = at > reader->high ? reader->high : at;
    reader->at = reader->sought = at;
    reader->ended = reader->broken = false;
}
