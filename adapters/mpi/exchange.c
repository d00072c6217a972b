/* exchange.c: blocks between all ranks, in both directions at once, on one thread.
 *
 * Each rank has a stream of blocks to every rank, itself included, and one from every rank. A
 * block is sent synchronously (MPI_Issend), which is done only once a posted receive has met it:
 * so two blocks of a stream are on their way at most, no memory of MPI's grows with what a slow
 * rank has not taken, and no message of credit is needed. Messages of one rank meet its receives
 * in the order in which these were posted.
 *
 * Nothing here waits for one thing: whoever waits polls, and polling fills blocks for every rank
 * that has room, gets on with what is under way, and looks for alerts. No cycle of ranks can wait
 * for each other: a rank that waits for a block still sends, and what it sends never waits for
 * what it receives.
 *
 * A rank that fails tells every other one by a message of its own (an alert), which each is ready
 * to receive at any time; then all agree on what happened. After a failure each rank is told how
 * many blocks were sent to it, receives and drops those that it has not, and takes its other
 * receives back: sends are never cancelled, which MPI could not do reliably. */
#include "exchange.h"

enum { TAG_BLOCK = 1, TAG_ALERT, LEAST_BLOCK = 1024, MOST_BLOCK = 256 * 1024, BLOCK_ALIGN = 64 };

/* ---- Slots: those of a rank are ETL__SEND_SLOTS to send to it, then those to receive. */

static size_t send_slot(int rank, unsigned slot) {
    return (size_t)rank * ETL__SLOTS + slot;
}

static size_t receive_slot(int rank, unsigned slot) {
    return (size_t)rank * ETL__SLOTS + ETL__SEND_SLOTS + slot;
}

static size_t slot_count(const struct etl__exchange *exchange) {
    return (size_t)exchange->team->size * ETL__SLOTS;
}

static MPI_Request *alert_request(const struct etl__exchange *exchange) {
    return &exchange->requests[slot_count(exchange)];
}

static uint8_t *block_at(const struct etl__exchange *exchange, size_t slot) {
    return exchange->blocks + slot * exchange->block_size;
}

size_t etl__exchange_block_size(size_t memory, int ranks) {
    size_t slots = (size_t)ranks * ETL__SLOTS;
    return etl__clamp(memory / slots, LEAST_BLOCK, MOST_BLOCK) / BLOCK_ALIGN * BLOCK_ALIGN;
}

size_t etl__exchange_bytes(size_t block_size, int ranks) {
    size_t slot = block_size + sizeof(MPI_Request) + sizeof(MPI_Status) + sizeof(int);
    return (size_t)ranks *
           (ETL__SLOTS * slot + sizeof(struct etl__sending) + sizeof(struct etl__receiving) +
            sizeof(MPI_Request) + 2 * sizeof(uint64_t));
}

/* ---- Receiving */

static int post(struct etl__exchange *exchange, int source, unsigned slot,
                struct etl__error *error) {
    struct etl__receiving *receiving = &exchange->receiving[source];
    size_t at = receive_slot(source, slot);
    ETL__TRY_MPI(error,
                 MPI_Irecv(block_at(exchange, at), (int)exchange->block_size, MPI_BYTE, source,
                           TAG_BLOCK, exchange->team->comm, &exchange->requests[at]));
    receiving->states[slot] = ETL__SLOT_POSTED;
    receiving->posted[receiving->posted_count++] = (uint8_t)slot;
    receiving->blocks_posted++;
    return ETL_OK;
}

static int post_alert(struct etl__exchange *exchange, struct etl__error *error) {
    ETL__TRY_MPI(error, MPI_Irecv(&exchange->alert, 1, MPI_INT, MPI_ANY_SOURCE, TAG_ALERT,
                                  exchange->team->comm, alert_request(exchange)));
    return ETL_OK;
}

int etl__exchange_give(struct etl__exchange *exchange, int source, unsigned slot,
                       struct etl__error *error) {
    struct etl__receiving *receiving = &exchange->receiving[source];
    receiving->states[slot] = ETL__SLOT_FREE;
    return receiving->ended ? ETL_OK : post(exchange, source, slot, error);
}

/* The slot that was posted first, when it is full: it leaves the queue. */
static bool take_first(struct etl__receiving *receiving, unsigned *slot) {
    if (receiving->posted_count == 0 || receiving->states[receiving->posted[0]] != ETL__SLOT_FULL)
        return false;
    *slot = receiving->posted[0];
    receiving->posted_count--;
    memmove(receiving->posted, receiving->posted + 1, receiving->posted_count);
    receiving->states[*slot] = ETL__SLOT_HELD;
    receiving->blocks_taken++;
    return true;
}

/* ---- Sending */

/* Fill a block for a rank that has room and more to get. */
static int send_to(struct etl__exchange *exchange, int rank, bool *worked,
                   struct etl__error *error) {
    struct etl__sending *sending = &exchange->sending[rank];
    for (unsigned slot = 0; slot < ETL__SEND_SLOTS && !sending->outlet.ended; slot++) {
        size_t at = send_slot(rank, slot), size;
        if (exchange->requests[at] != MPI_REQUEST_NULL)
            continue;
        uint8_t *block = block_at(exchange, at);
        ETL__TRY(etl__outlet_fill(&sending->outlet, block, exchange->block_size, &size, error));
        ETL__TRY_MPI(error, MPI_Issend(block, (int)size, MPI_BYTE, rank, TAG_BLOCK,
                                       exchange->team->comm, &exchange->requests[at]));
        sending->blocks++;
        if (sending->outlet.ended)
            etl__outlet_close(&sending->outlet);
        *worked = true;
        return ETL_OK;
    }
    return ETL_OK;
}

static bool all_sent(const struct etl__exchange *exchange) {
    for (int rank = 0; rank < exchange->team->size; rank++) {
        if (!exchange->sending[rank].outlet.ended && !exchange->draining)
            return false;
        for (unsigned slot = 0; slot < ETL__SEND_SLOTS; slot++)
            if (exchange->requests[send_slot(rank, slot)] != MPI_REQUEST_NULL)
                return false;
    }
    return true;
}

/* ---- Progress */

/* A request has come to its end, well or not. What failed counts as received, without a byte: it is
 * dropped when all ranks have agreed that one of them failed. */
static int complete(struct etl__exchange *exchange, size_t index, const MPI_Status *status,
                    int code, struct etl__error *error) {
    size_t rank = index / ETL__SLOTS, slot = index % ETL__SLOTS;
    int size = 0;
    if (index == slot_count(exchange)) {
        exchange->alerts++;
    } else if (slot >= ETL__SEND_SLOTS) {
        struct etl__receiving *receiving = &exchange->receiving[rank];
        slot -= ETL__SEND_SLOTS;
        if (code == MPI_SUCCESS)
            code = MPI_Get_count(status, MPI_BYTE, &size);
        receiving->sizes[slot] = code == MPI_SUCCESS ? (size_t)size : 0;
        receiving->states[slot] = ETL__SLOT_FULL;
    }
    return code == MPI_SUCCESS ? ETL_OK : etl__fail_mpi(error, code, "MPI_Testsome(");
}

/* Whatever has come to its end. */
static int test_all(struct etl__exchange *exchange, bool *worked, struct etl__error *error) {
    int count = 0, class = MPI_SUCCESS, status = ETL_OK;
    int code = MPI_Testsome((int)slot_count(exchange) + 1, exchange->requests, &count,
                            exchange->indices, exchange->statuses);
    if (code != MPI_SUCCESS)
        (void)MPI_Error_class(code, &class);
    if (code != MPI_SUCCESS && class != MPI_ERR_IN_STATUS)
        return etl__fail_mpi(error, code, "MPI_Testsome(");
    for (int i = 0; i < count && count != MPI_UNDEFINED; i++) {
        const MPI_Status *ended = &exchange->statuses[i];
        int own = class == MPI_ERR_IN_STATUS ? ended->MPI_ERROR : MPI_SUCCESS;
        int completed = complete(exchange, (size_t)exchange->indices[i], ended, own, error);
        status = completed != ETL_OK ? completed : status;
        *worked = true;
    }
    return status;
}

int etl__exchange_poll(struct etl__exchange *exchange, bool *worked, struct etl__error *error) {
    const struct etl__team *team = exchange->team;
    ETL__TRY(test_all(exchange, worked, error));
    if (exchange->alerts != 0)
        return etl__fail(error, ETL__E_ALERTED, "another rank failed");
    for (int i = 0; i < team->size; i++) /* each begins with another, lest all send to one */
        ETL__TRY(send_to(exchange, (team->rank + i) % team->size, worked, error));
    return etl__watch_tick(&exchange->store->watch, error);
}

static void rest(struct etl__exchange *exchange, bool worked, unsigned *turns) {
    *turns = worked ? 0 : *turns + 1;
    etl__nap(exchange->team, *turns);
}

static int check_block(const struct etl__exchange *exchange, int source, const uint8_t *block,
                       size_t size, struct etl__error *error) {
    struct etl__block_head head = {.kind = 0};
    if (size >= sizeof head)
        memcpy(&head, block, sizeof head);
    bool records = head.kind == ETL__BLOCK_RECORDS && head.whole == size - sizeof head;
    bool piece = head.kind == ETL__BLOCK_PIECE && size > sizeof head;
    if (size <= exchange->block_size && (records || piece))
        return ETL_OK;
    return etl__fail(error, ETL_E_CORRUPT, "receiving from rank %d: a block of %zu bytes is none",
                     source, size);
}

int etl__exchange_take(struct etl__exchange *exchange, int source, unsigned *slot,
                       const uint8_t **block, size_t *size, struct etl__error *error) {
    struct etl__receiving *receiving = &exchange->receiving[source];
    for (unsigned turns = 0;;) {
        bool worked = false;
        ETL__TRY(etl__exchange_poll(exchange, &worked, error));
        if (take_first(receiving, slot))
            break;
        rest(exchange, worked, &turns);
    }
    *block = block_at(exchange, receive_slot(source, *slot));
    *size = receiving->sizes[*slot];
    ETL__TRY(check_block(exchange, source, *block, *size, error));
    struct etl__block_head head;
    memcpy(&head, *block, sizeof head);
    receiving->ended = head.is_last != 0;
    if (receiving->ended)
        exchange->pairs_received += head.pairs;
    return ETL_OK;
}

/* ---- Begin and end */

static bool take_memory(struct etl__exchange *exchange) {
    struct etl__memory *memory = exchange->memory;
    size_t ranks = (size_t)exchange->team->size, slots = slot_count(exchange);
    exchange->sending = etl__alloc_zeroed(memory, ranks * sizeof *exchange->sending);
    exchange->receiving = etl__alloc_zeroed(memory, ranks * sizeof *exchange->receiving);
    exchange->requests = etl__alloc(memory, (slots + 1) * sizeof *exchange->requests);
    exchange->alert_requests = etl__alloc(memory, ranks * sizeof *exchange->alert_requests);
    exchange->counts = etl__alloc(memory, 2 * ranks * sizeof *exchange->counts);
    exchange->statuses = etl__alloc(memory, (slots + 1) * sizeof *exchange->statuses);
    exchange->indices = etl__alloc(memory, (slots + 1) * sizeof *exchange->indices);
    exchange->blocks = etl__alloc_large(memory, slots * exchange->block_size);
    for (size_t i = 0; exchange->requests != NULL && i <= slots; i++)
        exchange->requests[i] = MPI_REQUEST_NULL;
    for (size_t i = 0; exchange->alert_requests != NULL && i < ranks; i++)
        exchange->alert_requests[i] = MPI_REQUEST_NULL;
    return exchange->sending != NULL && exchange->receiving != NULL &&
           exchange->requests != NULL && exchange->alert_requests != NULL &&
           exchange->counts != NULL && exchange->statuses != NULL && exchange->indices != NULL &&
           exchange->blocks != NULL;
}

int etl__exchange_begin(struct etl__exchange *exchange, struct etl__team *team,
                        struct etl__store *store, size_t block_size, struct etl__error *error) {
    memset(exchange, 0, sizeof *exchange);
    exchange->team = team;
    exchange->store = store;
    exchange->memory = &store->memory;
    exchange->block_size = block_size;
    exchange->bytes = etl__exchange_bytes(block_size, team->size);
    if (!take_memory(exchange))
        return etl__fail_memory(error, exchange->bytes, "exchanging");
    return ETL_OK;
}

/* Be ready for everybody: when all ranks have the memory for it. */
int etl__exchange_post(struct etl__exchange *exchange, struct etl__error *error) {
    ETL__TRY(post_alert(exchange, error));
    for (int source = 0; source < exchange->team->size; source++)
        for (unsigned slot = 0; slot < ETL__RECEIVE_SLOTS; slot++)
            ETL__TRY(post(exchange, source, slot, error));
    return ETL_OK;
}

/* Pairs in equal pairs out, where no rule drops any. */
static int check_sent(const struct etl__exchange *exchange, struct etl__error *error) {
    struct etl__rules rules = etl__rules_for_runs(&exchange->store->rules);
    uint64_t held = exchange->sending[0].outlet.held, sent = 0; /* the first is never left out */
    for (int rank = 0; rank < exchange->team->size; rank++)
        sent += exchange->sending[rank].outlet.pairs;
    if (rules.duplicates != ETL_KEEP_ALL || held == sent)
        return ETL_OK;
    return etl__fail(error, ETL_E_CORRUPT, "sending: %llu pairs are held, %llu were sent",
                     (unsigned long long)held, (unsigned long long)sent);
}

int etl__exchange_finish(struct etl__exchange *exchange, struct etl__error *error) {
    for (unsigned turns = 0; !all_sent(exchange);) {
        bool worked = false;
        ETL__TRY(etl__exchange_poll(exchange, &worked, error));
        rest(exchange, worked, &turns);
    }
    return check_sent(exchange, error);
}

/* ---- After a failure */

/* Tell every other rank. */
static int send_alerts(struct etl__exchange *exchange, struct etl__error *error) {
    struct etl__team *team = exchange->team;
    for (int rank = 0; rank < team->size; rank++)
        if (rank != team->rank)
            ETL__TRY_MPI(error, MPI_Isend(&team->rank, 1, MPI_INT, rank, TAG_ALERT, team->comm,
                                          &exchange->alert_requests[rank]));
    return ETL_OK;
}

/* Receive what a rank has sent, `expected` blocks in all, and drop it. */
static int drain_from(struct etl__exchange *exchange, int source, uint64_t expected,
                      struct etl__error *error) {
    struct etl__receiving *receiving = &exchange->receiving[source];
    unsigned slot;
    while (take_first(receiving, &slot))
        receiving->states[slot] = ETL__SLOT_FREE;
    for (slot = 0; slot < ETL__RECEIVE_SLOTS && receiving->blocks_posted < expected; slot++)
        if (receiving->states[slot] == ETL__SLOT_FREE)
            ETL__TRY(post(exchange, source, slot, error));
    return ETL_OK;
}

static int drain(struct etl__exchange *exchange, const uint64_t *expected, int alerts,
                 struct etl__error *error) {
    const struct etl__team *team = exchange->team;
    exchange->draining = true;
    for (unsigned turns = 0;;) {
        bool worked = false, done = all_sent(exchange) && exchange->alerts == alerts;
        for (int source = 0; source < team->size; source++) {
            ETL__TRY(drain_from(exchange, source, expected[source], error));
            done = done && exchange->receiving[source].blocks_taken >= expected[source];
        }
        if (done)
            return ETL_OK;
        if (exchange->alerts < alerts && *alert_request(exchange) == MPI_REQUEST_NULL)
            ETL__TRY(post_alert(exchange, error));
        ETL__TRY(test_all(exchange, &worked, error));
        rest(exchange, worked, &turns);
    }
}

/* Take back every receive that nothing will come for. */
static int take_back(struct etl__exchange *exchange, struct etl__error *error) {
    for (size_t i = 0; i <= slot_count(exchange); i++)
        if (exchange->requests[i] != MPI_REQUEST_NULL) {
            ETL__TRY_MPI(error, MPI_Cancel(&exchange->requests[i]));
            ETL__TRY_MPI(error, MPI_Wait(&exchange->requests[i], MPI_STATUS_IGNORE));
        }
    return ETL_OK;
}

/* Tell each rank how many blocks were sent to it, and learn how many were sent here. */
static int clear_ways(struct etl__exchange *exchange, int alerts, struct etl__error *error) {
    struct etl__team *team = exchange->team;
    uint64_t *sent = exchange->counts, *expected = sent + team->size;
    MPI_Request request;
    for (int rank = 0; rank < team->size; rank++)
        sent[rank] = exchange->sending[rank].blocks;
    ETL__TRY_MPI(error, MPI_Ialltoall(sent, 1, MPI_UINT64_T, expected, 1, MPI_UINT64_T, team->comm,
                                      &request));
    ETL__TRY(etl__wait(team, &request, error));
    return drain(exchange, expected, alerts, error);
}

static int settle(struct etl__exchange *exchange, int status, int *agreed, struct etl__error *told,
                  struct etl__error *error) {
    struct etl__team *team = exchange->team;
    bool own = status != ETL_OK && status != ETL__E_ALERTED;
    int failures = 0;
    if (own)
        ETL__TRY(send_alerts(exchange, error));
    ETL__TRY(etl__agree(team, status, own, &failures, agreed, told, error));
    if (failures != 0)
        ETL__TRY(clear_ways(exchange, failures - own, error));
    for (int rank = 0; rank < team->size; rank++)
        ETL__TRY(etl__wait(team, &exchange->alert_requests[rank], error));
    return take_back(exchange, error);
}

/* MPI failed: what can be done by this rank alone, so that nothing writes to memory that is freed
 * or is met by a later message. */
static void abandon(struct etl__exchange *exchange) {
    for (size_t i = 0; i <= slot_count(exchange); i++) {
        MPI_Request *request = &exchange->requests[i];
        bool is_receive = i == slot_count(exchange) || i % ETL__SLOTS >= ETL__SEND_SLOTS;
        if (*request == MPI_REQUEST_NULL)
            continue;
        if (is_receive && MPI_Cancel(request) == MPI_SUCCESS)
            (void)MPI_Wait(request, MPI_STATUS_IGNORE);
        else
            (void)MPI_Request_free(request);
    }
    for (int rank = 0; rank < exchange->team->size; rank++)
        if (exchange->alert_requests[rank] != MPI_REQUEST_NULL)
            (void)MPI_Request_free(&exchange->alert_requests[rank]);
}

int etl__exchange_settle(struct etl__exchange *exchange, int status, struct etl__error *error) {
    struct etl__error apart = {.text = ""}; /* lest the failure's own text is lost */
    int agreed = ETL_OK;
    int settled = settle(exchange, status, &agreed, error, &apart);
    if (settled == ETL_OK)
        return agreed;
    abandon(exchange);
    return etl__fail(error, settled, "ending an exchange: %s", apart.text);
}

void etl__exchange_end(struct etl__exchange *exchange) {
    struct etl__memory *memory = exchange->memory;
    size_t ranks = (size_t)exchange->team->size, slots = slot_count(exchange);
    for (size_t i = 0; exchange->sending != NULL && i < ranks; i++)
        etl__outlet_close(&exchange->sending[i].outlet);
    etl__free(memory, exchange->counts, 2 * ranks * sizeof *exchange->counts);
    if (exchange->blocks != NULL)
        etl__free_large(memory, exchange->blocks, slots * exchange->block_size);
    etl__free(memory, exchange->indices, (slots + 1) * sizeof *exchange->indices);
    etl__free(memory, exchange->statuses, (slots + 1) * sizeof *exchange->statuses);
    etl__free(memory, (void *)exchange->alert_requests, ranks * sizeof(MPI_Request));
    etl__free(memory, (void *)exchange->requests, (slots + 1) * sizeof(MPI_Request));
    etl__free(memory, exchange->receiving, ranks * sizeof *exchange->receiving);
    etl__free(memory, exchange->sending, ranks * sizeof *exchange->sending);
}
