/* runs.c: which runs to merge, and when.
 *
 * A pass merges neighbours only, so that equal keys stay in collection order, and of all
 * neighbourhoods of the wanted width the one with the fewest bytes: runs that were merged before
 * are large and are left alone until there are enough of their size, so each byte is written about
 * log(runs) / log(width) times. Neighbours are runs whose sequence numbers follow each other: a
 * gap is a region that is still in memory.
 *
 * How many runs can be read at once is a question of memory (a run that is read, not mapped, needs
 * two buffers), and of what the caller asked for; how many may be alive is one of descriptors and
 * of the kernel's limit on mappings. */
#include "runs.h"
#include "merge.h"
#include "os.h"
#include "provider_file.h"

enum {
    MOST_WIDTH = 1024,
    PER_SOURCE = 1200, /* bytes that any run takes in a merge */
    MOST_BUFFER = 256 * 1024,
    PER_RUN = 2048, /* bytes of the limit for each run alive; it takes some 200 */
    LEAST_MAPPED = 64,
    MOST_MAPPED = 2048,
    LEAST_DESCRIPTORS = 4,
    MOST_DESCRIPTORS = 512,
    LEAST_RELEASE = 64 * 1024,
    MOST_RELEASE = 1024 * 1024,
    MERGED_A_TICK = 1024,
    CLOSED_BY_TWO = 8 << 20 /* bytes of runs, from which on a thread pays */
};

void etl__runs_init(struct etl__runs *runs, struct etl__target *target,
                    const struct etl__rules *rules, struct etl__watch *watch,
                    unsigned merge_width) {
    memset(runs, 0, sizeof *runs);
    runs->target = target;
    runs->rules = etl__rules_for_runs(rules);
    runs->watch = watch;
    runs->merge_width = merge_width;
}

/* What two threads close, each taking the next. */
struct closing {
    const struct etl__runs *runs;
    atomic_size_t next;
};

static void *close_runs(void *context) {
    struct closing *closing = context;
    const struct etl__runs *runs = closing->runs;
    size_t i;
    while ((i = atomic_fetch_add(&closing->next, 1)) < runs->count)
        etl__target_drop(runs->target, runs->items[i].run);
    return NULL;
}

/* Closing a file without a name gives its pages in the cache back, which takes a tenth as long as
 * loading it. */
void etl__runs_clear(struct etl__runs *runs) {
    struct closing closing = {.runs = runs};
    uint64_t bytes = 0;
    etl__os_thread thread;
    for (size_t i = 0; i < runs->count; i++)
        bytes += runs->items[i].run->file_size;
    bool by_two = runs->may_thread && runs->count > 1 && bytes >= CLOSED_BY_TWO &&
                  etl__os_thread_start(&thread, close_runs, &closing) == 0;
    (void)close_runs(&closing);
    if (by_two)
        etl__os_thread_join(thread);
    runs->count = 0;
    runs->merged_pairs = 0;
}

void etl__runs_trim(struct etl__runs *runs) {
    etl__run_writer_destroy(runs->writer);
    etl__free(runs->target->memory, runs->items, runs->capacity * sizeof *runs->items);
    runs->writer = NULL;
    runs->items = NULL;
    runs->capacity = 0;
}

void etl__runs_end(struct etl__runs *runs) {
    etl__runs_clear(runs);
    etl__runs_trim(runs);
}

int etl__runs_writer(struct etl__runs *runs, struct etl__run_writer **writer,
                     struct etl__error *error) {
    if (runs->writer == NULL)
        ETL__TRY(etl__target_writer(runs->target, &runs->writer, error));
    *writer = runs->writer;
    return ETL_OK;
}

int etl__runs_reserve(struct etl__runs *runs, size_t more, struct etl__error *error) {
    if (!etl__grow(runs->target->memory, (void **)&runs->items, &runs->capacity,
                   runs->count + more, sizeof *runs->items))
        return etl__fail_memory(error, (runs->count + more) * sizeof *runs->items, "runs");
    return ETL_OK;
}

int etl__runs_add(struct etl__runs *runs, struct etl__run *run, uint64_t sequence,
                  struct etl__error *error) {
    ETL__TRY(etl__runs_reserve(runs, 1, error));
    size_t at = runs->count++;
    for (; at > 0 && runs->items[at - 1].first > sequence; at--)
        runs->items[at] = runs->items[at - 1];
    runs->items[at] = (struct etl__held_run){.run = run, .first = sequence, .last = sequence};
    return ETL_OK;
}

/* ---- Reading several ---- */

static size_t count_read(const struct etl__runs *runs) {
    size_t count = 0;
    for (size_t i = 0; i < runs->count; i++)
        count += runs->items[i].run->map == NULL;
    return count;
}

/* What the buffers of a run that is read have to hold, each: its largest record, begun in one
 * block and ended in another. */
static size_t least_buffer(const struct etl__run *run) {
    uint64_t blocks = 2, needed = run->footer.record_most / ETL__RUN_BLOCK + 2;
    while (blocks < needed) /* a power of two, as the provider has it */
        blocks *= 2;
    return blocks > SIZE_MAX / 4 / ETL__RUN_BLOCK ? SIZE_MAX / 4 : (size_t)blocks * ETL__RUN_BLOCK;
}

/* What the most demanding run takes in a merge. */
static size_t most_needed(const struct etl__runs *runs) {
    size_t most = PER_SOURCE;
    for (size_t i = 0; i < runs->count; i++) {
        const struct etl__run *run = runs->items[i].run;
        size_t buffers = run->map == NULL ? 2 * least_buffer(run) : 0;
        most = buffers + PER_SOURCE > most ? buffers + PER_SOURCE : most;
    }
    return most;
}

bool etl__runs_outgrow_reserve(const struct etl__runs *runs) {
    return runs->target->access != ETL_ACCESS_READ || 2 * most_needed(runs) > runs->read_memory;
}

/* Memory for merging: what is left now; or where runs are always read, what was set aside for it,
 * so that each round finds the same. */
static size_t merge_memory(const struct etl__runs *runs) {
    size_t left = etl__memory_left(runs->target->memory);
    return !etl__runs_outgrow_reserve(runs) && left > runs->read_memory ? runs->read_memory : left;
}

size_t etl__runs_width(const struct etl__runs *runs) {
    if (runs->merge_width != 0)
        return runs->merge_width;
    return etl__clamp(merge_memory(runs) / most_needed(runs), 2, MOST_WIDTH);
}

size_t etl__runs_width_of_many(const struct etl__runs *runs, size_t merges, size_t apart) {
    size_t left = etl__memory_left(runs->target->memory);
    size_t most = runs->merge_width != 0 ? runs->merge_width : MOST_WIDTH;
    left = left > apart ? left - apart : 0;
    return etl__clamp(left / merges / most_needed(runs), 1, most);
}

int etl__runs_open_provider(const struct etl__runs *runs, size_t index, size_t together,
                            struct etl__ahead *ahead, struct etl__provider **provider,
                            struct etl__error *error) {
    struct etl__memory *memory = runs->target->memory;
    size_t release = etl__clamp(memory->limit / 4 / together, LEAST_RELEASE, MOST_RELEASE);
    size_t buffer = least_buffer(runs->items[index].run),
           memory_each = merge_memory(runs) / 2 / together / 2;
    /* One size wherever there is room for it, so that kept buffers serve the next merge. */
    size_t wanted = etl__clamp(runs->read_memory / 256, buffer, MOST_BUFFER);
    if (wanted > buffer && wanted <= memory_each)
        buffer = wanted;
    ETL__TRY(
        etl__provider_file_open(provider, runs->items[index].run, memory, buffer, release, error));
    if (ahead != NULL)
        etl__provider_file_check_ahead(*provider, ahead);
    return ETL_OK;
}

/* ---- One pass ---- */

struct pass {
    struct etl__runs *runs;
    size_t first, count;
};

static int write_merged(struct etl__runs *runs, struct etl__merge *merge,
                        struct etl__run_writer *writer, struct etl__error *error) {
    struct etl__output output;
    const struct etl__pair *pair;
    int status;
    etl__output_open(&output, runs->target->memory, merge, &runs->rules);
    uint64_t before = runs->merged_pairs, ticked = 0;
    while ((status = etl__output_next(&output, &pair, error)) == ETL_OK) {
        status = etl__run_writer_append(writer, pair, error);
        if (status == ETL_OK && etl__output_passed(&output) - ticked > MERGED_A_TICK) {
            ticked = etl__output_passed(&output);
            runs->watch->state.pairs_done = before + ticked;
            status = etl__watch_tick(runs->watch, error);
        }
        if (status != ETL_OK)
            break;
    }
    etl__output_close(&output);
    return status == ETL_END ? ETL_OK : status;
}

static int produce_merged(void *context, struct etl__run_writer *writer,
                          struct etl__error *error) {
    const struct pass *pass = context;
    struct etl__runs *runs = pass->runs;
    struct etl__memory *memory = runs->target->memory;
    size_t size = pass->count * sizeof(struct etl__provider *), opened = 0;
    struct etl__provider **providers = etl__alloc(memory, size);
    if (providers == NULL)
        return etl__fail_memory(error, size, "merging runs");
    int status = ETL_OK;
    while (opened < pass->count && status == ETL_OK) {
        status = etl__runs_open_provider(runs, pass->first + opened, pass->count, NULL,
                                         &providers[opened], error);
        opened += status == ETL_OK;
    }
    struct etl__merge merge;
    if (status == ETL_OK) {
        status = etl__merge_open(&merge, memory, providers, opened, runs->rules.order_values,
                                 runs->target->cancel, error);
        opened = 0; /* they are the merge's */
        if (status == ETL_OK) {
            status = write_merged(runs, &merge, writer, error);
            etl__merge_close(&merge);
        }
    }
    for (size_t i = 0; i < opened; i++)
        providers[i]->close(providers[i]);
    etl__free(memory, providers, size);
    return status;
}

static uint64_t data_bytes(const struct etl__run *run) {
    return run->footer.data_end - run->footer.first_record;
}

/* Merge runs [first, first + count) into one, which takes their place. */
static int merge_runs(struct etl__runs *runs, size_t first, size_t count,
                      struct etl__error *error) {
    struct pass pass = {.runs = runs, .first = first, .count = count};
    struct etl__held_run *items = &runs->items[first];
    struct etl__run_writer *writer;
    struct etl__run *merged;
    uint64_t expected = 0, pairs = 0;
    for (size_t i = 0; i < count; i++) {
        expected += data_bytes(items[i].run);
        pairs += items[i].run->footer.pairs;
    }
    ETL__TRY(etl__runs_writer(runs, &writer, error));
    etl__watch_enter(runs->watch, ETL_MERGING, runs->merged_pairs, 0, 0, 0);
    uint64_t began = etl__os_now_ns();
    int status =
        etl__target_write(runs->target, writer, expected, produce_merged, &pass, &merged, error);
    atomic_fetch_add(&runs->merge_ns, etl__os_now_ns() - began);
    ETL__TRY(status);
    atomic_fetch_add(&runs->passes, 1);
    runs->merged_pairs += pairs;
    for (size_t i = 0; i < count; i++)
        etl__target_drop(runs->target, items[i].run);
    items[0] = (struct etl__held_run){
        .run = merged, .first = items[0].first, .last = items[count - 1].last};
    memmove(items + 1, items + count, (runs->count - first - count) * sizeof *items);
    runs->count -= count - 1;
    return ETL_OK;
}

/* ---- Which ---- */

/* The `count` neighbours with the fewest bytes; false when there are no such neighbours. */
static bool cheapest_neighbours(const struct etl__runs *runs, size_t count, size_t *first) {
    const struct etl__held_run *items = runs->items;
    uint64_t least = UINT64_MAX, bytes = 0;
    size_t length = 0; /* of the neighbourhood that ends at i, at most count */
    for (size_t i = 0; i < runs->count; i++) {
        if (i > 0 && items[i].first > items[i - 1].last + 1)
            length = 0;
        if (length == 0)
            bytes = 0;
        bytes += data_bytes(items[i].run);
        if (length == count)
            bytes -= data_bytes(items[i - count].run);
        else
            length++;
        if (length == count && bytes < least) {
            least = bytes;
            *first = i + 1 - count;
        }
    }
    return least != UINT64_MAX;
}

int etl__runs_reduce(struct etl__runs *runs, size_t most, struct etl__error *error) {
    while (runs->count > most) {
        size_t surplus = runs->count - most + 1, width = etl__runs_width(runs), first = 0;
        size_t count = surplus < width ? surplus : width;
        while (count >= 2 && !cheapest_neighbours(runs, count, &first))
            count--;
        if (count < 2)
            return ETL_OK;
        ETL__TRY(merge_runs(runs, first, count, error));
    }
    return ETL_OK;
}

size_t etl__runs_reduce_to(const struct etl__runs *runs) {
    const struct etl__memory *memory = runs->target->memory;
    size_t limit = memory->pool != NULL ? memory->plan / 4 : memory->limit;
    size_t most = etl__clamp(limit / PER_RUN, LEAST_MAPPED, MOST_MAPPED);
    if (count_read(runs) != 0)
        most = etl__clamp(etl__os_descriptor_limit() / 4, LEAST_DESCRIPTORS, MOST_DESCRIPTORS);
    return runs->count > most ? most / 2 + 1 : 0; /* half: the next time is far off */
}

/* ---- Names ---- */

bool etl__runs_all_named(const struct etl__runs *runs) {
    for (size_t i = 0; i < runs->count; i++)
        if (runs->items[i].run->file == 0)
            return false;
    return true;
}

int etl__runs_name(struct etl__runs *runs, struct etl__error *error) {
    for (size_t i = 0; i < runs->count; i++) {
        size_t width = etl__runs_width(runs), count = 0;
        while (count < width && i + count < runs->count && runs->items[i + count].run->file == 0)
            count++;
        if (count != 0)
            ETL__TRY(merge_runs(runs, i, count, error));
    }
    return ETL_OK;
}
