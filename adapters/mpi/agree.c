/* agree.c: what several ranks decide together.
 *
 * A collective of libetl goes from phase to phase, and between two of them all ranks agree that
 * all of them came through. So that nobody waits for a rank that has given up, a rank that fails
 * comes to the agreement too, with its status: the lowest such rank's is everybody's.
 *
 * Waiting is polling with naps: MPI's own waits keep a processor busy, which on a machine that has
 * more ranks than processors is taken from those that work. */
#include "agree.h"
#include "os.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

enum { SPIN_TURNS = 16, YIELD_TURNS = 64, NAP_NS = 50000 };

int etl__fail_mpi(struct etl__error *error, int code, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int size;
    if (MPI_Error_string(code, text, &size) != MPI_SUCCESS)
        (void)snprintf(text, sizeof text, "error %d", code);
    const char *name = strchr(call, '(');
    return etl__fail(error, ETL_E_IO, "%.*s: %s", name != NULL ? (int)(name - call) : 0, call,
                     text);
}

void etl__nap(struct etl__team *team, unsigned turns) {
    if (turns < SPIN_TURNS)
        return;
    uint64_t began = etl__os_now_ns();
    if (turns < YIELD_TURNS)
        (void)sched_yield();
    else
        (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    team->idle_ns += etl__os_now_ns() - began;
}

int etl__wait(struct etl__team *team, MPI_Request *request, struct etl__error *error) {
    for (unsigned turns = 0;; turns++) {
        int done = 0;
        ETL__TRY_MPI(error, MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done)
            return ETL_OK;
        etl__nap(team, turns);
    }
}

static int reduce(struct etl__team *team, int mine, MPI_Op op, int *all,
                  struct etl__error *error) {
    MPI_Request request;
    ETL__TRY_MPI(error, MPI_Iallreduce(&mine, all, 1, MPI_INT, op, team->comm, &request));
    return etl__wait(team, &request, error);
}

/* What travels of a failure. */
struct verdict {
    int status;
    char text[sizeof(((struct etl__error *)NULL)->text)];
};

int etl__agree(struct etl__team *team, int status, bool own, int *failures, int *agreed,
               struct etl__error *told, struct etl__error *error) {
    int lowest, failed = status != ETL_OK && own;
    *failures = 0;
    *agreed = ETL_OK;
    ETL__TRY(reduce(team, failed ? team->rank : team->size, MPI_MIN, &lowest, error));
    if (lowest == team->size)
        return ETL_OK;
    struct verdict verdict = {.status = etl__public_status(told, status)};
    memcpy(verdict.text, told->text, sizeof verdict.text);
    ETL__TRY_MPI(error, MPI_Bcast(&verdict, sizeof verdict, MPI_BYTE, lowest, team->comm));
    *agreed = etl__fail(told, ETL__E_CALLBACK, "rank %d: %.*s", lowest,
                        (int)sizeof verdict.text - 32, verdict.text);
    told->callback = verdict.status;
    return reduce(team, failed, MPI_SUM, failures, error);
}

int etl__agree_on(struct etl__team *team, int status, struct etl__error *told) {
    struct etl__error error = {.text = ""}; /* lest the failure's own text is lost */
    int failures, agreed;
    int called = etl__agree(team, status, true, &failures, &agreed, told, &error);
    return called == ETL_OK ? agreed : etl__fail(told, called, "agreeing: %s", error.text);
}
