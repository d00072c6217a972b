/* cuts.c: where the pairs of all ranks are cut into a range for each.
 *
 * Every rank takes keys at equal distances of bytes from each of its sources, by the runs' block
 * indexes and the sorted indexes of its buffers: nothing is read through. Each stands for the bytes
 * up to the next one. All ranks gather all of these samples, sort them, and read the same cuts off
 * them: weighted quantiles.
 *
 * A key that many samples have is heavier than its neighbours. Where equal keys come in collection
 * order, and that is by rank first, a cut may go through such a key, between what two ranks
 * collected: the samples are ordered by key and rank, and a cut stands before one of them. Where
 * all pairs of a key must meet, a cut stands before a key.
 *
 * Memory: what is given, shared by the ranks. With little of it sample keys are cut short: the
 * beginning of a key is a good place for a cut, only that keys with a common beginning are then
 * not told apart. Not chosen: etl_split on each rank (its keys are distinct, and do not show which
 * are heavy). */
#include "cuts.h"

#include <stdlib.h>

enum {
    SAMPLES_PER_RANK = 16, /* for each rank there is */
    LEAST_SAMPLES = 256,
    MOST_KEY = 1024,
    LEAST_KEY = 16,
    MOST_GATHERED = 64 << 20,
    PHASES = 16 /* sources begin at different places, lest all step at once */
};

struct sample {
    const uint8_t *key;
    uint64_t weight;
    uint32_t size;
    int source;
};

/* As it travels: weight, size, key and a zero byte. */
enum { HEAD = sizeof(uint64_t) + sizeof(uint32_t) };

struct plan {
    size_t samples; /* of this rank, about */
    size_t key_most;
    bool by_source; /* cuts may go through a key */
};

static struct plan make_plan(const struct etl__team *team, const struct etl__store *store,
                             size_t memory) {
    size_t ranks = (size_t)team->size;
    size_t each = etl__clamp(memory, 0, MOST_GATHERED) / 2 / ranks; /* the rest is the index */
    size_t wanted = etl__clamp(SAMPLES_PER_RANK * ranks, LEAST_SAMPLES, SIZE_MAX);
    size_t fits = each / (HEAD + 1 + LEAST_KEY + sizeof(struct sample));
    struct plan plan = {.samples = wanted < fits ? wanted : fits + 1};
    plan.key_most =
        etl__clamp(each / plan.samples, HEAD + 1 + LEAST_KEY, HEAD + 1 + MOST_KEY) - HEAD - 1;
    plan.by_source = store->rules.duplicates == ETL_KEEP_ALL && !store->rules.order_values;
    return plan;
}

/* ---- This rank's samples */

static int pack(struct etl_bytes *packed, etl_slice key, uint64_t weight, size_t key_most,
                struct etl__error *error) {
    uint32_t size = (uint32_t)(key.size < key_most ? key.size : key_most);
    uint8_t head[HEAD];
    memcpy(head, &weight, sizeof weight);
    memcpy(head + sizeof weight, &size, sizeof size);
    if (etl_bytes_append(packed, head, sizeof head) != ETL_OK ||
        etl_bytes_append(packed, key.data, size) != ETL_OK ||
        etl_bytes_append(packed, "", 1) != ETL_OK)
        return etl__fail_memory(error, packed->size, "samples");
    return ETL_OK;
}

static int sample_source(struct etl__provider *provider, uint64_t count, uint64_t phase,
                         size_t key_most, struct etl_bytes *packed, struct etl__error *error) {
    uint64_t weight = provider->bytes / count + 1;
    for (uint64_t i = 0; i < count; i++) {
        etl_slice key;
        int status = provider->sample(provider, i * PHASES + phase, count * PHASES, &key, error);
        if (status == ETL_END)
            return ETL_OK;
        ETL__TRY(status);
        ETL__TRY(pack(packed, key, weight, key_most, error));
    }
    return ETL_OK;
}

static int sample_all(struct etl__provider **providers, size_t count, const struct plan *plan,
                      int rank, struct etl_bytes *packed, struct etl__error *error) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += providers[i]->bytes;
    for (size_t i = 0; i < count; i++) {
        double share = (double)providers[i]->bytes / (double)(total + 1);
        uint64_t samples = 1 + (uint64_t)(share * (double)plan->samples);
        uint64_t phase = ((uint64_t)rank * 7 + i * 5) % PHASES;
        ETL__TRY(sample_source(providers[i], samples, phase, plan->key_most, packed, error));
    }
    return ETL_OK;
}

static int sample_store(struct etl__store *store, const struct plan *plan, int rank,
                        struct etl_bytes *packed, struct etl__error *error) {
    size_t size = (etl__store_sources(store) + 1) * sizeof(struct etl__provider *), opened = 0;
    struct etl__provider **providers = etl__alloc(&store->memory, size);
    if (providers == NULL)
        return etl__fail_memory(error, size, "sampling");
    int status = etl__store_open_providers(store, 1, providers, &opened, NULL, error);
    if (status == ETL_OK)
        status = sample_all(providers, opened, plan, rank, packed, error);
    for (size_t i = 0; i < opened; i++)
        providers[i]->close(providers[i]);
    etl__free(&store->memory, (void *)providers, size);
    return status;
}

/* ---- Those of all ranks */

struct gathering {
    int *sizes, *offsets; /* of each rank's samples */
    struct sample *samples;
    size_t count, total;
};

/* Sizes first, so that every rank can take its memory, and all agree that they have. */
static int gather_sizes(struct etl__cuts *cuts, struct etl__team *team, size_t packed_size,
                        struct gathering *all, struct etl__error *error) {
    int mine = (int)packed_size;
    MPI_Request request;
    ETL__TRY_MPI(error,
                 MPI_Iallgather(&mine, 1, MPI_INT, all->sizes, 1, MPI_INT, team->comm, &request));
    ETL__TRY(etl__wait(team, &request, error));
    for (int rank = 0; rank < team->size; rank++) {
        all->offsets[rank] = (int)all->total;
        all->total += (size_t)all->sizes[rank];
    }
    cuts->samples = etl__alloc_large(cuts->memory, all->total + 1);
    cuts->samples_size = all->total + 1;
    return ETL_OK;
}

static int gather(struct etl__cuts *cuts, struct etl__team *team, const struct etl_bytes *packed,
                  struct gathering *all, struct etl__error *error) {
    ETL__TRY(gather_sizes(cuts, team, packed->size, all, error));
    int status =
        cuts->samples != NULL ? ETL_OK : etl__fail_memory(error, all->total, "all ranks' samples");
    ETL__TRY(etl__agree_on(team, status, error));
    MPI_Request request;
    ETL__TRY_MPI(error, MPI_Iallgatherv(packed->data, (int)packed->size, MPI_BYTE, cuts->samples,
                                        all->sizes, all->offsets, MPI_BYTE, team->comm, &request));
    return etl__wait(team, &request, error);
}

static const uint8_t *unpack(const uint8_t *at, struct sample *sample) {
    memcpy(&sample->weight, at, sizeof sample->weight);
    memcpy(&sample->size, at + sizeof sample->weight, sizeof sample->size);
    sample->key = at + HEAD;
    return sample->key + sample->size + 1;
}

static int compare_samples(const void *a, const void *b) {
    const struct sample *x = a, *y = b;
    int order = etl__key_compare(x->key, x->size, y->key, y->size);
    return order != 0 ? order : (x->source > y->source) - (x->source < y->source);
}

static int index_samples(struct etl__cuts *cuts, const struct etl__team *team, bool by_source,
                         struct gathering *all, struct etl__error *error) {
    struct sample sample;
    const uint8_t *end = cuts->samples + all->total;
    for (const uint8_t *at = cuts->samples; at < end; at = unpack(at, &sample))
        all->count++;
    size_t size = (all->count + 1) * sizeof *all->samples;
    all->samples = etl__alloc_large(cuts->memory, size);
    if (all->samples == NULL)
        return etl__fail_memory(error, size, "all ranks' samples");
    size_t index = 0;
    for (int rank = 0; rank < team->size; rank++) {
        const uint8_t *at = cuts->samples + all->offsets[rank], *last = at + all->sizes[rank];
        while (at < last) {
            at = unpack(at, &all->samples[index]);
            all->samples[index++].source = by_source ? rank : 0;
        }
    }
    qsort(all->samples, all->count, sizeof *all->samples, compare_samples);
    return ETL_OK;
}

/* ---- The cuts */

/* Samples that no cut can part are one group; each cut goes before the group, or behind it,
 * whichever is nearer to its share. */
static void choose(struct etl__cuts *cuts, const struct gathering *all) {
    double total = 0, passed = 0;
    for (size_t i = 0; i < all->count; i++)
        total += (double)all->samples[i].weight;
    size_t made = 0, parts = cuts->count + 1;
    for (size_t i = 0, next; i < all->count && made < cuts->count; i = next) {
        double weight = 0;
        for (next = i;
             next < all->count && compare_samples(&all->samples[i], &all->samples[next]) == 0;
             next++)
            weight += (double)all->samples[next].weight;
        for (; made < cuts->count &&
               total * (double)(made + 1) / (double)parts <= passed + weight / 2;
             made++)
            cuts->cuts[made] = (struct etl__cut){.key = all->samples[i].key,
                                                 .size = all->samples[i].size,
                                                 .source = all->samples[i].source};
        passed += weight;
    }
    for (; made < cuts->count; made++)
        cuts->cuts[made] = (struct etl__cut){.is_end = true};
}

static int make(struct etl__cuts *cuts, struct etl__team *team, struct etl__store *store,
                size_t memory, struct gathering *all, struct etl__error *error) {
    struct plan plan = make_plan(team, store, memory);
    struct etl_bytes packed;
    etl__bytes_init(&packed, cuts->memory);
    int status = all->sizes != NULL && cuts->cuts != NULL
                     ? sample_store(store, &plan, team->rank, &packed, error)
                     : etl__fail_memory(error, (size_t)team->size * sizeof *cuts->cuts, "cuts");
    status = etl__agree_on(team, status, error);
    if (status == ETL_OK)
        status = gather(cuts, team, &packed, all, error);
    etl__bytes_end(&packed);
    if (status != ETL_OK)
        return status;
    status = index_samples(cuts, team, plan.by_source, all, error);
    if (status == ETL_OK)
        choose(cuts, all);
    return etl__agree_on(team, status, error);
}

int etl__cuts_make(struct etl__cuts *cuts, struct etl__team *team, struct etl__store *store,
                   size_t memory, struct etl__error *error) {
    size_t ranks = (size_t)team->size, sizes = 2 * ranks * sizeof(int);
    *cuts = (struct etl__cuts){.memory = &store->memory, .count = ranks - 1};
    struct gathering all = {.sizes = etl__alloc(cuts->memory, sizes)};
    cuts->cuts = etl__alloc(cuts->memory, ranks * sizeof *cuts->cuts);
    all.offsets = all.sizes != NULL ? all.sizes + ranks : NULL;
    int status = make(cuts, team, store, memory, &all, error);
    if (all.samples != NULL)
        etl__free_large(cuts->memory, all.samples, (all.count + 1) * sizeof *all.samples);
    etl__free(cuts->memory, all.sizes, sizes);
    return status;
}

void etl__cuts_free(struct etl__cuts *cuts) {
    if (cuts->memory == NULL)
        return;
    if (cuts->samples != NULL)
        etl__free_large(cuts->memory, cuts->samples, cuts->samples_size);
    etl__free(cuts->memory, cuts->cuts, (cuts->count + 1) * sizeof *cuts->cuts);
    *cuts = (struct etl__cuts){.memory = NULL};
}

/* The first key on the right of a cut, of the pairs of this rank: the key itself, or the one
 * behind it, which is the key and a zero byte. */
static etl_slice bound(const struct etl__cut *cut, int rank) {
    return etl_slice_of(cut->key, cut->size + (rank < cut->source));
}

bool etl__cuts_range(const struct etl__cuts *cuts, int rank, int to, etl_range *range) {
    *range = (etl_range){.from = {NULL, 0}, .to = {NULL, 0}};
    if (to > 0) {
        if (cuts->cuts[to - 1].is_end)
            return false;
        range->from = bound(&cuts->cuts[to - 1], rank);
    }
    if ((size_t)to < cuts->count && !cuts->cuts[to].is_end)
        range->to = bound(&cuts->cuts[to], rank);
    return true;
}
