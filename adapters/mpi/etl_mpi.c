/* etl_mpi.c: one load over the collectors of all ranks.
 *
 * A pair's way down:
 *
 *     collector of rank s            etl_collect, on its own
 *     cuts.c                         all ranks agree on a range of keys for each
 *     outlet.c   of s, for rank r    the merge of s over range r, as blocks
 *     exchange.c                     blocks on their way, two at most of each stream
 *     inlet.c    of r, from rank s   blocks as a sorted provider
 *     merge.h, duplicates.h          of r: as in any load, with ranks instead of runs
 *     the load callback of r
 *
 * Providers are merged by ascending rank, so equal keys come by rank and then in collection order,
 * which is the order that one collector would have given.
 *
 * All ranks go through the same phases, and agree between any two of them that all came through.
 * Nothing is consumed before they have agreed on the end. */
#include "etl_mpi.h"
#include "cuts.h"
#include "handle.h"
#include "inlet.h"
#include "os.h"

enum {
    TICK_PAIRS = 256,
    TICK_RANKS = 16,
    EXCHANGE_SHARE = 4, /* of the limit */
    BOOK_KEEPING = 32 * 1024
};

struct job {
    struct etl__team team;
    etl_collector *collector;
    struct etl__store *store;
    struct etl__error *error;
    etl_load_fn *load;
    void *context;
    size_t exchange_memory;
    bool entered;
    struct etl__cuts cuts;
    struct etl__exchange exchange;
    struct etl__merge merge; /* of what is received */
    struct etl__output output;
    bool merging; /* these two are open */
    etl_mpi_stats stats;
};

/* ---- Phase 1: arguments */

static int check_options(struct job *job, const etl_mpi_options *options) {
    etl_mpi_options complete = {.stats = NULL};
    if (options != NULL && !etl__take_struct(&complete, sizeof complete, options))
        return etl__fail(job->error, ETL_E_INVALID,
                         "struct_size: %zu, of which this version knows %zu", options->struct_size,
                         sizeof *options);
    if (complete.stats != NULL && complete.stats->struct_size < sizeof complete.stats->struct_size)
        return etl__fail(job->error, ETL_E_INVALID, "stats: struct_size is not set");
    job->exchange_memory = complete.exchange_memory;
    return ETL_OK;
}

static int enter(struct job *job, const etl_mpi_options *options) {
    if (job->collector == NULL)
        return etl__fail(job->error, ETL_E_INVALID, "no collector");
    ETL__TRY(check_options(job, options));
    if (job->load == NULL)
        return etl__fail(job->error, ETL_E_INVALID, "load: no callback");
    ETL__TRY(etl__enter(&job->collector, 1, false));
    job->entered = true;
    return ETL_OK;
}

/* All have to follow the rules of rank 0. */
static int check_rules(struct job *job, int status) {
    enum { UNKNOWN = -1 };
    int rules = UNKNOWN, first;
    if (job->collector != NULL)
        rules = 2 * (int)job->store->rules.duplicates + job->store->rules.order_values;
    first = rules;
    ETL__TRY_MPI(job->error, MPI_Bcast(&first, 1, MPI_INT, 0, job->team.comm));
    if (status == ETL_OK && first != UNKNOWN && first != rules)
        return etl__fail(job->error, ETL_E_INVALID,
                         "differs from rank 0 in duplicates or order_values");
    return status;
}

static int check(struct job *job, const etl_mpi_options *options) {
    int status = check_rules(job, enter(job, options));
    return etl__agree_on(&job->team, status, job->error);
}

/* ---- Phases 2 and 3: sort, and cut */

/* Blocks are as large on all ranks as the one with the least memory for them can have them. */
static int agree_on_blocks(struct job *job) {
    if (job->exchange_memory == 0)
        job->exchange_memory = job->store->memory.limit / EXCHANGE_SHARE;
    uint64_t size = etl__exchange_block_size(job->exchange_memory, job->team.size);
    ETL__TRY_MPI(job->error, MPI_Allreduce(&size, &job->stats.block_bytes, 1, MPI_UINT64_T,
                                           MPI_MIN, job->team.comm));
    return ETL_OK;
}

static int prepare(struct job *job) {
    uint64_t began = etl__os_now_ns();
    int status = agree_on_blocks(job);
    size_t bytes = etl__exchange_bytes((size_t)job->stats.block_bytes, job->team.size);
    size_t apart = bytes + bytes / 2 + BOOK_KEEPING; /* with the samples */
    if (status == ETL_OK)
        status = etl__store_prepare_many(job->store, (size_t)job->team.size, apart, job->error);
    job->stats.prepare_ns = etl__os_now_ns() - began;
    return etl__agree_on(&job->team, status, job->error);
}

static int cut(struct job *job) {
    uint64_t began = etl__os_now_ns();
    size_t memory = etl__exchange_bytes((size_t)job->stats.block_bytes, job->team.size);
    int status = etl__cuts_make(&job->cuts, &job->team, job->store, memory, job->error);
    job->stats.split_ns = etl__os_now_ns() - began;
    return status;
}

/* ---- Phase 4: open everything */

static int open_outlets(struct job *job) {
    for (int to = 0; to < job->team.size; to++) {
        etl_range range;
        if (etl__cuts_range(&job->cuts, job->team.rank, to, &range))
            ETL__TRY(etl__outlet_open(&job->exchange.sending[to].outlet, job->store,
                                      (size_t)job->team.size, range.from, range.to, job->error));
    }
    return ETL_OK;
}

static int open_inlets(struct job *job) {
    struct etl__memory *memory = &job->store->memory;
    size_t ranks = (size_t)job->team.size, opened = 0;
    size_t size = ranks * sizeof(struct etl__provider *);
    struct etl__provider **providers = etl__alloc(memory, size);
    if (providers == NULL)
        return etl__fail_memory(job->error, size, "receiving");
    int status = ETL_OK;
    while (opened < ranks && status == ETL_OK) {
        status = etl__inlet_open(&providers[opened], &job->exchange, (int)opened, job->error);
        opened += status == ETL_OK;
    }
    if (status == ETL_OK) {
        status = etl__merge_open(&job->merge, memory, providers, opened,
                                 job->store->rules.order_values, &job->store->cancel, job->error);
        job->merging = status == ETL_OK;
        opened = 0; /* they are the merge's */
    }
    for (size_t i = 0; i < opened; i++)
        providers[i]->close(providers[i]);
    etl__free(memory, (void *)providers, size);
    if (job->merging)
        etl__output_open(&job->output, memory, &job->merge, &job->store->rules);
    return status;
}

static int open_all(struct job *job) {
    int status = etl__exchange_begin(&job->exchange, &job->team, job->store,
                                     (size_t)job->stats.block_bytes, job->error);
    if (status == ETL_OK)
        status = open_outlets(job);
    if (status == ETL_OK)
        status = open_inlets(job);
    return etl__agree_on(&job->team, status, job->error);
}

static void close_merge(struct job *job) {
    if (!job->merging)
        return;
    etl__output_close(&job->output);
    etl__merge_close(&job->merge);
    job->merging = false;
}

/* ---- Phase 5: exchange, merge and load, all at once */

static int tick(struct job *job) {
    bool worked;
    job->store->watch.state.pairs_done = job->merge.delivered;
    return etl__exchange_poll(&job->exchange, &worked, job->error);
}

static int deliver(struct job *job) {
    const atomic_int *cancel = &job->store->cancel;
    const struct etl__pair *pair;
    /* A look at all requests takes longer the more ranks there are. */
    uint64_t ticked = 0, every = TICK_PAIRS * (1 + (uint64_t)job->team.size / TICK_RANKS);
    int status;
    while ((status = etl__output_next(&job->output, &pair, job->error)) == ETL_OK) {
        int answer = job->load(job->context, etl_slice_of(pair->key, pair->key_size),
                               etl_slice_of(pair->value, pair->value_size));
        if (ETL__UNLIKELY(answer != 0))
            return etl__fail_callback(job->error, answer, "load");
        job->stats.pairs_delivered++;
        job->store->watch.state.bytes_done += (uint64_t)pair->key_size + pair->value_size;
        if (ETL__UNLIKELY(job->merge.delivered - ticked >= every ||
                          atomic_load_explicit(cancel, memory_order_relaxed) != 0)) {
            ticked = job->merge.delivered;
            ETL__TRY(tick(job));
        }
    }
    return status == ETL_END ? ETL_OK : status;
}

static int exchange(struct job *job) {
    uint64_t began = etl__os_now_ns(), idle = job->team.idle_ns;
    etl__watch_enter(&job->store->watch, ETL_LOADING, 0, 0, 0, 0);
    int status = etl__exchange_post(&job->exchange, job->error);
    if (status == ETL_OK)
        status = deliver(job);
    if (status == ETL_OK)
        status = etl__exchange_finish(&job->exchange, job->error);
    close_merge(job);
    status = etl__exchange_settle(&job->exchange, status, job->error);
    job->stats.exchange_ns = etl__os_now_ns() - began;
    job->stats.idle_ns = job->team.idle_ns - idle;
    atomic_fetch_add(&job->store->merge_ns, job->stats.exchange_ns);
    return status;
}

/* ---- The whole */

static int run(struct job *job, const etl_mpi_options *options) {
    ETL__TRY(check(job, options));
    ETL__TRY(prepare(job));
    ETL__TRY(cut(job));
    ETL__TRY(open_all(job));
    return exchange(job);
}

static void take_stats(struct job *job, const etl_mpi_options *options) {
    const struct etl__exchange *exchange = &job->exchange;
    job->stats.pairs_received = exchange->pairs_received;
    job->stats.exchange_bytes = exchange->bytes;
    for (int i = 0; exchange->sending != NULL && i < job->team.size; i++) {
        job->stats.pairs_sent += exchange->sending[i].outlet.pairs;
        job->stats.bytes_sent += exchange->sending[i].outlet.bytes;
    }
    etl_mpi_options complete = {.stats = NULL};
    if (options == NULL || !etl__take_struct(&complete, sizeof complete, options) ||
        complete.stats == NULL)
        return;
    size_t size = complete.stats->struct_size;
    job->stats.struct_size = size;
    memcpy(complete.stats, &job->stats, size < sizeof job->stats ? size : sizeof job->stats);
}

static int finish(struct job *job, const etl_mpi_options *options, int status) {
    close_merge(job);
    take_stats(job, options);
    if (job->exchange.team != NULL)
        etl__exchange_end(&job->exchange);
    etl__cuts_free(&job->cuts);
    if (status == ETL_OK)
        etl__end_round(job->collector);
    if (job->entered)
        status = etl__leave(&job->collector, 1, status);
    return etl__public_status(job->error, status);
}

static int open_team(struct etl__team *team, MPI_Comm comm, struct etl__error *error) {
    ETL__TRY_MPI(error, MPI_Comm_dup(comm, &team->comm));
    int status = MPI_Comm_set_errhandler(team->comm, MPI_ERRORS_RETURN);
    if (status == MPI_SUCCESS)
        status = MPI_Comm_rank(team->comm, &team->rank);
    if (status == MPI_SUCCESS)
        status = MPI_Comm_size(team->comm, &team->size);
    if (status == MPI_SUCCESS)
        return ETL_OK;
    (void)MPI_Comm_free(&team->comm);
    return etl__fail_mpi(error, status, "MPI_Comm_dup(");
}

/* What can be told without a word to the other ranks. */
static int check_mpi(MPI_Comm comm, struct etl__error *error) {
    int is_up = 0, is_over = 0, has_sides = 0;
    if (MPI_Initialized(&is_up) != MPI_SUCCESS || MPI_Finalized(&is_over) != MPI_SUCCESS ||
        !is_up || is_over)
        return etl__fail(error, ETL_E_STATE, "MPI is not initialized, or already finalized");
    if (comm == MPI_COMM_NULL)
        return etl__fail(error, ETL_E_INVALID, "comm: MPI_COMM_NULL");
    ETL__TRY_MPI(error, MPI_Comm_test_inter(comm, &has_sides));
    if (has_sides)
        return etl__fail(error, ETL_E_INVALID, "comm: an intercommunicator");
    return ETL_OK;
}

int etl_mpi_load(etl_collector *collector, MPI_Comm comm, etl_load_fn *load, void *context,
                 const etl_mpi_options *options) {
    struct etl__error apart = {.text = ""};
    struct job job = {.collector = collector, .load = load, .context = context};
    job.store = collector != NULL ? &collector->store : NULL;
    job.error = collector != NULL ? &collector->error : &apart;
    ETL__TRY(check_mpi(comm, job.error));
    ETL__TRY(open_team(&job.team, comm, job.error));
    int status = finish(&job, options, run(&job, options));
    (void)MPI_Comm_free(&job.team.comm);
    return status;
}
