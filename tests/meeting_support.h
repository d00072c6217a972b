/* meeting_support.h: lets the library's thread and its caller meet in the writes that both make of
 * one region. The thread waits in a write until the caller, who helps it, has made one; either
 * write fails, or is cancelled, as a test wants it. Nothing is decided by time: whoever waits for
 * somebody who never comes fails the test. Include it in one file of a program. */
#ifndef LIBETL_TESTS_MEETING_SUPPORT_H
#define LIBETL_TESTS_MEETING_SUPPORT_H

#include "handle.h"
#include "pwrite_support.h"
#include "support.h"

#include <pthread.h>
#include <time.h>

enum { DEADLINE_S = 120 };

enum meeting_state {
    NO_MEETING,
    EXPECTED, /* the thread will wait in a run's write number thread_at */
    WAITING,  /* it does, for the caller to help, or for meeting_release */
    MET
};

/* What is to happen; set before meeting_expect. */
struct meeting_plan {
    unsigned times; /* so many regions, one after the other; 0 counts as 1 */
    unsigned thread_at,
        caller_at;    /* in their writes of this number of a run, from 1; 0 counts as 1 */
    int thread_error; /* what the thread's writes give from there on, */
    bool fails_once;  /* or only that one */
    int caller_error; /* what that write of the caller gives, once */
    bool cancels;     /* the caller's write cancels its collector */
    bool takes_time;  /* it takes longer than progress waits to be told again */
    bool by_hand;     /* the caller's write does not release the thread */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t caller;
    etl_collector *collector;
    struct meeting_plan plan;
    enum meeting_state state;
    unsigned caller_writes, met, released; /* by the caller alone */
    bool thread_fails, late;
} meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static inline struct timespec meeting_deadline(void) {
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += DEADLINE_S;
    return deadline;
}

static inline void meeting_enter(enum meeting_state state) {
    meeting.state = state;
    if (state != WAITING)
        meeting.released++;
    pthread_cond_broadcast(&meeting.changed);
}

static inline bool is_at(unsigned writes, unsigned wanted) {
    return writes == (wanted != 0 ? wanted : 1);
}

static _Thread_local unsigned run_writes; /* of the run that this thread writes now */

static inline ssize_t thread_writes(ssize_t size) {
    if (meeting.state == EXPECTED && is_at(run_writes, meeting.plan.thread_at)) {
        struct timespec deadline = meeting_deadline();
        meeting_enter(WAITING);
        for (unsigned until = meeting.released; until == meeting.released && !meeting.late;)
            meeting.late = pthread_cond_timedwait(&meeting.changed, &meeting.lock, &deadline) != 0;
        meeting.thread_fails = meeting.plan.thread_error != 0;
    }
    bool fails = meeting.thread_fails;
    if (meeting.plan.fails_once)
        meeting.thread_fails = false;
    return fails ? -meeting.plan.thread_error : size;
}

static inline ssize_t caller_writes(ssize_t size) {
    if (meeting.state == NO_MEETING || meeting.state == EXPECTED)
        return size;
    meeting.caller_writes++;
    if (meeting.state != WAITING || !is_at(run_writes, meeting.plan.caller_at))
        return size;
    meeting.met++;
    if (meeting.plan.cancels)
        etl_cancel(meeting.collector);
    if (meeting.plan.takes_time)
        nanosleep(&(struct timespec){.tv_nsec = 150 * 1000 * 1000}, NULL);
    if (!meeting.plan.by_hand)
        meeting_enter(meeting.met < meeting.plan.times ? EXPECTED : MET);
    return meeting.plan.caller_error != 0 ? -meeting.plan.caller_error : size;
}

static inline ssize_t meeting_at_write(int descriptor, size_t size) {
    (void)descriptor;
    run_writes = pwrite_offset == 0 ? 1 : run_writes + 1;
    pthread_mutex_lock(&meeting.lock);
    bool is_caller = pthread_equal(pthread_self(), meeting.caller) != 0;
    ssize_t part = (is_caller ? caller_writes : thread_writes)((ssize_t)size);
    pthread_mutex_unlock(&meeting.lock);
    return part;
}

/* The next region that the collector's threads write is one of which the caller is expected. */
static inline void meeting_expect(etl_collector *collector, struct meeting_plan plan) {
    pthread_mutex_lock(&meeting.lock);
    meeting.caller = pthread_self();
    meeting.collector = collector;
    meeting.plan = plan;
    meeting.caller_writes = meeting.met = 0;
    meeting.thread_fails = false;
    meeting_enter(EXPECTED);
    pthread_mutex_unlock(&meeting.lock);
    atomic_store(&before_pwrite, meeting_at_write);
}

/* Let a thread that waits go on, without a meeting. */
static inline void meeting_release(void) {
    pthread_mutex_lock(&meeting.lock);
    meeting_enter(MET);
    pthread_mutex_unlock(&meeting.lock);
}

/* No more of it. */
static inline void meeting_end(void) {
    pthread_mutex_lock(&meeting.lock);
    meeting.thread_fails = false;
    meeting_enter(NO_MEETING);
    pthread_mutex_unlock(&meeting.lock);
}

static inline enum meeting_state meeting_now(void) {
    pthread_mutex_lock(&meeting.lock);
    enum meeting_state state = meeting.state;
    pthread_mutex_unlock(&meeting.lock);
    return state;
}

static inline struct etl__region *region_in(etl_collector *collector, enum etl__region_state from,
                                            enum etl__region_state to) {
    struct etl__store *store = &collector->store;
    for (size_t i = 0; i < store->region_count; i++) {
        enum etl__region_state state = etl__spiller_state(&store->spiller, &store->regions[i]);
        if (state >= from && state <= to)
            return &store->regions[i];
    }
    return NULL;
}

/* Where a thread has a region to write, it is in the write in which it waits. */
static inline bool meeting_awaited(etl_collector *collector) {
    while (meeting_now() == EXPECTED && region_in(collector, ETL__QUEUED, ETL__WRITING) != NULL)
        nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
    return meeting_now() == WAITING;
}

#endif
