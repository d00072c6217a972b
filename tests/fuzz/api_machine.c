/* api_machine.c: see api_machine.h. Iterators are in api_readers.c. */
#include "api_machine.h"

#include <string.h>

/* ---- Hooks */

static void *resize(void *context, void *block, size_t old_size, size_t new_size) {
    struct hook *hook = context;
    FUZZ_CHECK((block == NULL) == (old_size == 0));
    if (new_size != 0 && atomic_load(&hook->until_refusal) >= 0 &&
        atomic_fetch_sub(&hook->until_refusal, 1) == 0) {
        atomic_store(&hook->refused, true);
        return NULL;
    }
    void *moved = NULL;
    if (new_size != 0) {
        moved = realloc(block, new_size);
        FUZZ_CHECK(moved != NULL);
    } else {
        free(block);
    }
    atomic_fetch_add(&hook->blocks, (size_t)(block == NULL && new_size != 0));
    atomic_fetch_sub(&hook->blocks, (size_t)(block != NULL && new_size == 0));
    atomic_fetch_add(&hook->bytes, new_size - old_size);
    return moved;
}

static int reduce(void *context, etl_slice key, const etl_slice *values, size_t count,
                  etl_bytes *result) {
    struct machine *machine = context;
    FUZZ_CHECK(count >= 2);
    if (machine->until_reduce_stops >= 0 && machine->until_reduce_stops-- == 0) {
        machine->reduce_stopped = true;
        return STOPPED_REDUCE;
    }
    return machine->rules.fold == ORACLE_TRIM
               ? oracle_reduce_trim(NULL, key, values, count, result)
               : oracle_reduce_affine(NULL, key, values, count, result);
}

static int progress(void *context, const etl_progress *now) {
    (void)context;
    FUZZ_CHECK(now->pairs_all == 0 || now->pairs_done <= now->pairs_all);
    FUZZ_CHECK(now->bytes_all == 0 || now->bytes_done <= now->bytes_all);
    return 0;
}

/* ---- What is right */

bool machine_excuses(const struct machine *machine, int status) {
    return (status == ETL_E_NOMEM && atomic_load(&machine->hook.refused)) ||
           (status == ETL_E_NOSPACE && machine->options.disk_limit != 0) ||
           (status == STOPPED_REDUCE && machine->reduce_stopped);
}

bool machine_accept(const struct machine *machine, unsigned mask, bool iterating, int status) {
    bool busy = false, cancelled = false;
    const etl_collector *first = NULL;
    for (unsigned i = 0; i < COLLECTORS; i++) {
        const struct model *model = &machine->models[i];
        if ((mask >> i & 1) == 0)
            continue;
        first = first == NULL ? model->collector : first;
        busy |= model->iterators != 0 && !iterating;
        cancelled |= model->cancelled;
    }
    if (status != ETL_OK)
        FUZZ_CHECK(etl_collector_message(first)[0] != '\0');
    if (busy || cancelled)
        FUZZ_CHECK((busy && status == ETL_E_STATE) || (cancelled && status == ETL_E_CANCELLED));
    else
        FUZZ_CHECK(status == ETL_OK || machine_excuses(machine, status));
    return status == ETL_OK;
}

struct oracle machine_view(const struct machine *machine, unsigned mask) {
    struct oracle view = {NULL, 0, 0};
    for (unsigned i = 0; i < COLLECTORS; i++)
        if ((mask >> i & 1) != 0)
            view.capacity += machine->models[i].input.count;
    view.pairs = malloc((view.capacity + 1) * sizeof *view.pairs);
    FUZZ_CHECK(view.pairs != NULL);
    for (unsigned i = 0; i < COLLECTORS; i++) {
        const struct oracle *input = &machine->models[i].input;
        if ((mask >> i & 1) == 0 || input->count == 0)
            continue;
        memcpy(view.pairs + view.count, input->pairs, input->count * sizeof *view.pairs);
        view.count += input->count;
    }
    oracle_renumber(&view);
    return view;
}

size_t machine_collectors(const struct machine *machine, unsigned mask,
                          etl_collector *collectors[COLLECTORS]) {
    size_t count = 0;
    for (unsigned i = 0; i < COLLECTORS; i++)
        if ((mask >> i & 1) != 0)
            collectors[count++] = machine->models[i].collector;
    return count;
}

bool machine_is_pair(const struct oracle *expected, size_t at, etl_slice key, etl_slice value) {
    if (at >= expected->count)
        return false;
    const struct oracle_pair *pair = &expected->pairs[at];
    return pair->key_size == key.size && pair->value_size == value.size &&
           (pair->value == NULL) == (value.data == NULL) && key.data != NULL &&
           memcmp(pair->key, key.data, key.size) == 0 &&
           (value.data == NULL || memcmp(pair->value, value.data, value.size) == 0);
}

/* The keys of the last split have stayed what they were; a round may end now. */
static void forget_splits(struct machine *machine) {
    for (size_t i = 0; i < machine->splits_kept.count; i++)
        FUZZ_CHECK(oracle_same(&machine->splits_kept.pairs[i], machine->splits[i],
                               etl_slice_of(NULL, 0)));
    oracle_clear(&machine->splits_kept);
}

/* ---- Beginning and end */

static void create(struct machine *machine, struct model *model) {
    int status = etl_collector_create(&model->collector, &machine->options);
    if (status != ETL_OK) { /* a refusal is over once it was told */
        FUZZ_CHECK(machine_excuses(machine, status) && model->collector == NULL);
        status = etl_collector_create(&model->collector, &machine->options);
    }
    FUZZ_CHECK(status == ETL_OK);
    model->cancelled = false;
    model->iterators = 0;
}

void machine_start(struct machine *machine) {
    machine->until_reduce_stops = -1;
    atomic_store(&machine->hook.until_refusal, -1);
    oracle_apply(&machine->rules, &machine->options);
    if (machine->options.reduce != NULL)
        machine->options.reduce = reduce;
    machine->options.reduce_ctx = machine;
    machine->options.progress = progress;
    if (machine->options.allocator.context != NULL)
        machine->options.allocator = (etl_allocator){resize, &machine->hook};
    for (unsigned i = 0; i < COLLECTORS; i++)
        create(machine, &machine->models[i]);
}

void machine_end(struct machine *machine) {
    for (unsigned i = 0; i < READERS; i++)
        machine_close(machine, i);
    machine->until_reduce_stops = -1;
    atomic_store(&machine->hook.until_refusal, -1);
    atomic_store(&machine->hook.refused, false); /* nothing is excused by it any more */
    machine->reduce_stopped = false;
    for (unsigned i = 0; i < COLLECTORS; i++)
        machine_resume(machine, i);
    machine_load(machine, (1u << COLLECTORS) - 1, SIZE_MAX, SIZE_MAX);
    for (unsigned i = 0; i < COLLECTORS; i++) {
        machine_load(machine, 1u << i, SIZE_MAX, SIZE_MAX);
        etl_collector_destroy(machine->models[i].collector);
        oracle_clear(&machine->models[i].input);
    }
    FUZZ_CHECK(atomic_load(&machine->hook.blocks) == 0);
    FUZZ_CHECK(atomic_load(&machine->hook.bytes) == 0);
}

/* Its iterators end, also for the other collectors that they read. */
void machine_replace(struct machine *machine, unsigned which) {
    struct model *model = &machine->models[which];
    forget_splits(machine);
    for (unsigned i = 0; i < READERS; i++) {
        struct reader *reader = &machine->readers[i];
        if (reader->iter == NULL || (reader->mask >> which & 1) == 0)
            continue;
        for (unsigned k = 0; k < COLLECTORS; k++)
            machine->models[k].iterators -= reader->mask >> k & 1;
        reader->mask = 0;
        reader->has_pair = false;
    }
    etl_collector_destroy(model->collector);
    oracle_clear(&model->input);
    create(machine, model);
}

/* ---- Collecting */

void machine_collect(struct machine *machine, unsigned which, etl_slice key, etl_slice value) {
    struct model *model = &machine->models[which];
    int status = etl_collect(model->collector, key, value);
    if (machine_accept(machine, 1u << which, false, status))
        oracle_add(&model->input, key, value);
}

void machine_reserve(struct machine *machine, unsigned which, etl_slice key, etl_slice value) {
    struct model *model = &machine->models[which];
    void *key_at = NULL, *value_at = NULL;
    int status = etl_reserve(model->collector, key.size, value.size, &key_at,
                             value.data != NULL ? &value_at : NULL);
    if (!machine_accept(machine, 1u << which, false, status))
        return;
    if (key.size != 0)
        memcpy(key_at, key.data, key.size);
    if (value.size != 0)
        memcpy(value_at, value.data, value.size);
    oracle_add(&model->input, key, value);
}

void machine_flush(struct machine *machine, unsigned which) {
    int status = etl_flush(machine->models[which].collector);
    (void)machine_accept(machine, 1u << which, false, status);
}

void machine_reset(struct machine *machine, unsigned which) {
    struct model *model = &machine->models[which];
    forget_splits(machine);
    int status = etl_reset(model->collector);
    FUZZ_CHECK(status == (model->iterators != 0 ? ETL_E_STATE : ETL_OK));
    if (status == ETL_OK) {
        oracle_clear(&model->input);
        model->cancelled = false;
    }
}

void machine_cancel(struct machine *machine, unsigned which) {
    etl_cancel(machine->models[which].collector);
    machine->models[which].cancelled = true;
}

void machine_resume(struct machine *machine, unsigned which) {
    etl_resume(machine->models[which].collector);
    machine->models[which].cancelled = false;
}

void machine_invalid(struct machine *machine, unsigned which) {
    etl_collector *collector = machine->models[which].collector, *twice[] = {collector, collector};
    etl_slice good = etl_slice_str("key"), bad = etl_slice_of(NULL, 3);
    etl_range range = {bad, good};
    etl_iter *iter = NULL;
    void *at;
    size_t count;
    FUZZ_CHECK(etl_collect(collector, bad, good) == ETL_E_INVALID);
    FUZZ_CHECK(etl_collect(collector, good, bad) == ETL_E_INVALID);
    FUZZ_CHECK(etl_collect(collector, etl_slice_of("", ETL_SIZE_MAX + 1), good) ==
               ETL_E_TOO_LARGE);
    FUZZ_CHECK(etl_reserve(collector, 1, 1, NULL, &at) == ETL_E_INVALID);
    FUZZ_CHECK(etl_reserve(collector, 1, 1, &at, NULL) == ETL_E_INVALID);
    FUZZ_CHECK(etl_load(collector, NULL, NULL) == ETL_E_INVALID);
    FUZZ_CHECK(etl_iter_open(&iter, collector, &range) == ETL_E_INVALID && iter == NULL);
    FUZZ_CHECK(etl_iter_open_many(&iter, twice, 2, NULL) == ETL_E_INVALID && iter == NULL);
    FUZZ_CHECK(etl_split(&collector, 1, 0, NULL, &count) == ETL_E_INVALID && count == 0);
}

void machine_stats(struct machine *machine, unsigned which) {
    const struct model *model = &machine->models[which];
    etl_stats stats = {.struct_size = sizeof stats};
    uint64_t key_bytes = 0, value_bytes = 0;
    FUZZ_CHECK(etl_collector_stats(model->collector, &stats) == ETL_OK);
    if (model->input.count == 0) /* the round that ended can still be read */
        return;
    for (size_t i = 0; i < model->input.count; i++) {
        key_bytes += model->input.pairs[i].key_size;
        value_bytes += model->input.pairs[i].value_size;
    }
    FUZZ_CHECK(stats.pairs == model->input.count);
    FUZZ_CHECK(stats.key_bytes == key_bytes && stats.value_bytes == value_bytes);
    FUZZ_CHECK(stats.memory_bytes <= stats.memory_bytes_peak);
    FUZZ_CHECK(stats.disk_bytes <= stats.disk_bytes_peak);
}

/* ---- Loading */

struct loading {
    struct machine *machine;
    unsigned mask;
    struct oracle_check check;
    size_t cancel_at;
};

/* As oracle_load. */
static int stop_or_go_on(struct oracle_check *check) {
    if (check->stop_value != 0 && check->at == check->stop_at)
        return check->stop_value;
    check->at++;
    return 0;
}

static int load_pair(void *context, etl_slice key, etl_slice value) {
    struct loading *loading = context;
    for (unsigned i = 0; i < COLLECTORS; i++) {
        etl_collector *collector = loading->machine->models[i].collector;
        if ((loading->mask >> i & 1) == 0)
            continue;
        if (loading->check.at == 0) {
            FUZZ_CHECK(etl_collect(collector, key, value) == ETL_E_STATE);
            FUZZ_CHECK(etl_reset(collector) == ETL_E_STATE);
        }
        if (loading->check.at == loading->cancel_at)
            machine_cancel(loading->machine, i);
    }
    return machine_is_pair(loading->check.expected, loading->check.at, key, value)
               ? stop_or_go_on(&loading->check)
               : ORACLE_MISMATCH;
}

/* A load that has begun: is what it gave right, given what was asked of it? */
static void check_load(const struct loading *loading, bool accepted, int status) {
    const struct oracle_check *check = &loading->check;
    size_t all = check->expected->count;
    if (status == ETL_OK)
        FUZZ_CHECK(accepted && check->at == all &&
                   (check->stop_value == 0 || check->stop_at >= all));
    else if (status == ETL_E_DUPLICATE)
        FUZZ_CHECK(!accepted && check->at == all);
    else if (status == STOPPED_LOAD)
        FUZZ_CHECK(check->at == check->stop_at);
    else
        FUZZ_CHECK((status == ETL_E_CANCELLED && check->at > loading->cancel_at) ||
                   machine_excuses(loading->machine, status));
}

void machine_load(struct machine *machine, unsigned mask, size_t stop_at, size_t cancel_at) {
    struct oracle view = machine_view(machine, mask), expected = {NULL, 0, 0};
    struct loading loading = {machine, mask, {&expected, 0, stop_at, 0}, cancel_at};
    etl_collector *collectors[COLLECTORS];
    size_t count = machine_collectors(machine, mask, collectors);
    bool accepted = oracle_settle(&view, &machine->rules, &expected), begins = true;
    loading.check.stop_value = stop_at != SIZE_MAX ? STOPPED_LOAD : 0;
    for (unsigned i = 0; i < COLLECTORS; i++)
        if ((mask >> i & 1) != 0)
            begins &= machine->models[i].iterators == 0 && !machine->models[i].cancelled;
    forget_splits(machine);
    int status = count == 1 ? etl_load(collectors[0], load_pair, &loading)
                            : etl_load_many(collectors, count, load_pair, &loading);
    if (begins)
        check_load(&loading, accepted, status);
    else
        FUZZ_CHECK(!machine_accept(machine, mask, false, status) && loading.check.at == 0);
    free(view.pairs);
    oracle_clear(&expected);
    for (unsigned i = 0; i < COLLECTORS && status == ETL_OK; i++)
        if ((mask >> i & 1) != 0)
            oracle_clear(&machine->models[i].input);
}

/* ---- Helpers */

static int next_source(void *context, etl_slice *key, etl_slice *value) {
    struct oracle *rest = context;
    if (rest->count == 0)
        return ETL_END;
    *key = oracle_key(rest->pairs);
    *value = oracle_value(rest->pairs);
    rest->pairs++;
    rest->count--;
    return ETL_OK;
}

void machine_transform(struct machine *machine, unsigned which) {
    const struct oracle *input = &machine->models[which].input;
    struct oracle rest = *input, expected = {NULL, 0, 0};
    bool accepted = oracle_settle(input, &machine->rules, &expected);
    struct loading loading = {machine, 0, {&expected, 0, SIZE_MAX, 0}, SIZE_MAX};
    etl_transform_args args = {.struct_size = sizeof args,
                               .options = &machine->options,
                               .source = next_source,
                               .source_ctx = &rest,
                               .load = load_pair,
                               .load_ctx = &loading};
    check_load(&loading, accepted, etl_transform(&args));
    oracle_clear(&expected);
}

static bool has_key(const struct oracle *pairs, etl_slice key) {
    for (size_t i = 0; i < pairs->count; i++)
        if (pairs->pairs[i].key_size == key.size &&
            memcmp(pairs->pairs[i].key, key.data, key.size) == 0)
            return true;
    return false;
}

void machine_split(struct machine *machine, unsigned mask, size_t parts) {
    struct oracle view = machine_view(machine, mask);
    etl_collector *collectors[COLLECTORS];
    size_t count = machine_collectors(machine, mask, collectors), keys = 99;
    forget_splits(machine);
    int status = etl_split(collectors, count, parts, machine->splits, &keys);
    if (machine_accept(machine, mask, true, status)) {
        FUZZ_CHECK(keys < parts);
        for (size_t i = 0; i < keys; i++) {
            etl_slice key = machine->splits[i];
            FUZZ_CHECK(key.size != 0 && has_key(&view, key));
            oracle_add(&machine->splits_kept, key, etl_slice_of(NULL, 0));
            FUZZ_CHECK(oracle_lower_bound(&machine->splits_kept, key) == i);
        }
    }
    free(view.pairs);
}
