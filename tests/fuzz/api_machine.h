/* api_machine.h: two collectors, some iterators over them, and what each must answer.
 *
 * Every call of the public API has a function here that makes the call, decides from the model
 * which statuses are right, compares whatever comes out with the oracle, and brings the model up
 * to date. The calls may come in any order; what must fail has to fail, and change nothing. */
#ifndef LIBETL_TESTS_API_MACHINE_H
#define LIBETL_TESTS_API_MACHINE_H

#include "fuzz.h"
#include "oracle.h"

#include <stdatomic.h>

enum { COLLECTORS = 2, READERS = 3, SPLITS_MOST = 8, KEY_ROOM = 4096 };
enum { STOPPED_LOAD = 4711, STOPPED_REDUCE = -4712 };

/* An allocator that counts, and refuses once when it is told to. */
struct hook {
    atomic_size_t blocks, bytes;
    atomic_long until_refusal; /* below 0: none */
    atomic_bool refused;       /* ever */
};

struct model {
    etl_collector *collector;
    struct oracle input; /* collected and not consumed */
    size_t iterators;    /* open over it */
    bool cancelled;
};

struct reader {
    etl_iter *iter;     /* NULL: closed */
    unsigned mask;      /* the collectors that it reads; 0: one was destroyed */
    struct oracle all;  /* all that they give; with ETL_REJECT sorted only */
    size_t low, high;   /* its range of that */
    size_t at, sought;  /* the next pair; where the last seek led */
    bool ended, broken; /* gave ETL_END; gave an error */
    bool has_pair;      /* key and value are those handed out last */
    etl_slice key, value;
};

struct machine {
    struct oracle_rules rules;
    etl_options options;
    struct hook hook;
    struct model models[COLLECTORS];
    struct reader readers[READERS];
    long until_reduce_stops;       /* below 0: never */
    bool reduce_stopped;           /* ever */
    etl_slice splits[SPLITS_MOST]; /* handed out, to be valid until the round ends */
    struct oracle splits_kept;     /* copies of them */
};

/* options and rules are set; the rest of the machine is zero. */
void machine_start(struct machine *machine);

/* Ends everything, after a last load of what is left; all memory must be back. */
void machine_end(struct machine *machine);

void machine_collect(struct machine *machine, unsigned which, etl_slice key, etl_slice value);
void machine_reserve(struct machine *machine, unsigned which, etl_slice key, etl_slice value);
void machine_flush(struct machine *machine, unsigned which);
void machine_reset(struct machine *machine, unsigned which);
void machine_cancel(struct machine *machine, unsigned which);
void machine_resume(struct machine *machine, unsigned which);
void machine_replace(struct machine *machine, unsigned which); /* destroy, create */
void machine_invalid(struct machine *machine, unsigned which); /* arguments */
void machine_stats(struct machine *machine, unsigned which);

/* Load the collectors of a mask; stop, or cancel, at this pair (SIZE_MAX: do not). */
void machine_load(struct machine *machine, unsigned mask, size_t stop_at, size_t cancel_at);

/* Through etl_transform: what one collector holds, once more. */
void machine_transform(struct machine *machine, unsigned which);

void machine_split(struct machine *machine, unsigned mask, size_t parts);

void machine_open(struct machine *machine, unsigned reader, unsigned mask, const etl_range *range);
void machine_next(struct machine *machine, unsigned reader, size_t count);
void machine_seek(struct machine *machine, unsigned reader, etl_slice key);
void machine_close(struct machine *machine, unsigned reader);

/* What api_machine.c and api_readers.c share: is this status right for a call on these collectors?
 * True for ETL_OK; false for an error that the circumstances allow, which left all as it was. */
bool machine_accept(const struct machine *machine, unsigned mask, bool iterating, int status);

/* An error that may strike any call: memory was refused, the disk is full, reduce stopped. */
bool machine_excuses(const struct machine *machine, int status);

/* What the collectors of a mask hold, as one; pairs are borrowed, free(view.pairs). */
struct oracle machine_view(const struct machine *machine, unsigned mask);

/* Is this pair the one of that number? As oracle_same, but by memcmp, which the sanitizers watch
 * and which is quick: the oracle is compiled without them. */
bool machine_is_pair(const struct oracle *expected, size_t at, etl_slice key, etl_slice value);

/* The collectors of a mask, into collectors; how many. */
size_t machine_collectors(const struct machine *machine, unsigned mask,
                          etl_collector *collectors[COLLECTORS]);

#endif
