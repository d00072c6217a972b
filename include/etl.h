/* etl.h: sort more key/value pairs than memory holds.
 *
 * A program collects pairs in any order; libetl buffers them, spills sorted runs to temporary
 * files when its memory limit is reached, and hands every pair back in key order. The classic use
 * is to fill a B+tree, an index or a column file in order, which is many times faster than in
 * random order.
 *
 * The order of calls:
 *
 *     etl_collector_create | etl_restore, for pairs that outlive the process
 *         -> etl_collect*, with an etl_checkpoint now and then
 *         -> etl_load | etl_iter_open, etl_iter_next*, etl_iter_close
 *                     | etl_save, which another etl_attach_run takes in
 *         -> etl_collect* for the next round, after etl_reset or as it is
 *     etl_collector_destroy
 *
 * Order    Keys ascend bytewise (memcmp, then the shorter first). Equal keys come in the order in
 *          which they were collected, or by value with etl_options.order_values. Any other order
 *          is an encoding of the key: etl_key_* make one of numbers, strings and their tuples.
 * Output   A function of the input alone: the same bytes for every memory limit, thread count,
 *          merge width and access.
 * Failure  Every function that can fail returns a status. A failed call changes nothing: the pair
 *          that was refused is not in, all earlier ones are. Free some space and call again. Only
 *          ETL_E_CORRUPT is final, for that run.
 * Threads  One collector is used by one thread at a time (opening and closing an iterator counts
 *          as using it); different collectors by different threads freely. Callbacks run on the
 *          caller's thread and may not call into the same collector. There is no global state,
 *          nothing happens at load time, no signal handler is installed.
 * fork     In a child process the only legal call on an inherited collector is
 *          etl_collector_destroy, which returns at once; the parent's collector is not affected.
 *
 * The library never prints, exits, aborts or raises a signal. */
#ifndef LIBETL_ETL_H
#define LIBETL_ETL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LIBETL_VERSION_MAJOR 0
#define LIBETL_VERSION_MINOR 1
#define LIBETL_VERSION_PATCH 0

/* What stands before each public function. Who embeds the sources may define it otherwise. */
#if !defined(LIBETL_API)
#if defined(__GNUC__) && !defined(_WIN32)
#define LIBETL_API __attribute__((visibility("default")))
#else
#define LIBETL_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status */

enum {
    ETL_OK = 0,             /* done */
    ETL_END = 1,            /* no more pairs; not an error */
    ETL_E_INVALID = -20001, /* an argument is wrong; the message says which */
    ETL_E_STATE = -20002,   /* not now: an iterator is open, the call came from a callback of this
                             collector, or another has the directory of checkpoints */
    ETL_E_NOMEM = -20003,   /* the system or the allocator gave no memory */
    ETL_E_IO = -20004,      /* a system call failed; the message says which, on what, and why */
    ETL_E_NOSPACE = -20005, /* every temporary directory is full, or disk_limit is reached; or
                                 there is no room for a saved run */
    ETL_E_CORRUPT = -20006, /* a run, a checkpoint or an encoded key is not what was written */
    ETL_E_TOO_LARGE = -20007, /* a key or a value is above ETL_SIZE_MAX, or the caller's room; a
                                 token is above ETL_TOKEN_MAX */
    ETL_E_DUPLICATE = -20008, /* ETL_REJECT met a second pair with one key */
    ETL_E_CANCELLED =
        -20009 /* etl_cancel was called, or the progress callback returned non-zero */
};

/* A few words for a status of this library. Returns static text, never NULL; for a callback's own
 * value "unknown status". */
LIBETL_API const char *etl_status_string(int status);

/* The version of the library at run time. Returns "major.minor.patch", static. */
LIBETL_API const char *etl_version(void);

/* ---- Slices */

/* Bytes that somebody else owns. As a value, data == NULL means nil: "no value", which is kept
 * apart from the empty value (a database loader deletes the key). As a key, nil and empty are the
 * same key.
 *
 * Lifetime of the slices that libetl hands out: until the callback returns, or until the next call
 * on that iterator. They may be passed to that very call, and into any other collector. */
typedef struct etl_slice {
    const void *data; /* NULL: nil */
    size_t size;      /* in bytes */
} etl_slice;

/* These bytes. */
static inline etl_slice etl_slice_of(const void *data, size_t size) {
    etl_slice slice;
    slice.data = data;
    slice.size = size;
    return slice;
}

/* The bytes of a C string without its NUL; NULL gives nil. */
static inline etl_slice etl_slice_str(const char *string) {
    return etl_slice_of(string, string != NULL ? strlen(string) : 0);
}

/* The largest key, and the largest value, in bytes: 4 GiB - 16. */
#define ETL_SIZE_MAX ((uint64_t)0xFFFFFFF0u)

/* ---- Collecting and loading: what most programs need ---- */

/* What takes pairs and gives them back in order. */
typedef struct etl_collector etl_collector;

/* What a collector may be told; see below. */
typedef struct etl_options etl_options;

/* Make a collector. options may be NULL: the defaults. Everything that options points to is
 * copied, except callback contexts and the pool. The temporary directories are checked here, not
 * at the first spill, but nothing is created in them until memory runs out.
 *
 * Returns ETL_OK and the collector in *out, to be given to etl_collector_destroy; or, with
 * *out == NULL, an error:
 *   ETL_E_INVALID  out is NULL, or an option is out of range
 *   ETL_E_IO       a temporary directory is missing, not a directory, or not writable
 *   ETL_E_NOMEM    no memory */
LIBETL_API int etl_collector_create(etl_collector **out, const etl_options *options);

/* As etl_collector_create, and on failure the reason as text, cut to fit, in message (size bytes;
 * may be NULL and 0). Errors: as etl_collector_create. */
LIBETL_API int etl_collector_create_message(etl_collector **out, const etl_options *options,
                                            char *message, size_t size);

/* End a collector in any state; NULL is allowed. Waits for its threads, and gives all memory and
 * disk back. Its open iterators end: they give ETL_E_STATE and are still to be closed. In a forked
 * child it returns at once. */
LIBETL_API void etl_collector_destroy(etl_collector *collector);

/* Add one pair. Key and value are copied; both slices may point anywhere, also into an iterator of
 * another collector.
 *
 * key    any bytes, up to ETL_SIZE_MAX; may be empty. {NULL, 0} is the empty key.
 * value  any bytes, up to ETL_SIZE_MAX; {NULL, 0} is nil, which is kept apart from the empty one.
 *
 * May sort and spill when the memory limit is reached, and waits for the disk when the disk is
 * slower than the caller. A pair larger than the memory limit is written through to a run of its
 * own.
 *
 * Returns ETL_OK, or an error after which the collector is as it was before the call (the pair is
 * not in it, all earlier ones are):
 *   ETL_E_INVALID    NULL data with a size
 *   ETL_E_STATE      an iterator is open, or called from a callback of this collector
 *   ETL_E_TOO_LARGE  key or value above ETL_SIZE_MAX
 *   ETL_E_NOMEM      no memory
 *   ETL_E_NOSPACE    every temporary directory is full, or disk_limit is reached: free space and
 *                    call again
 *   ETL_E_IO         a system call failed: etl_collector_message() says which, on what, and why
 *   ETL_E_CANCELLED  etl_cancel() was called
 *   other            what the reduce callback returned, while a run was folded */
LIBETL_API int etl_collect(etl_collector *collector, etl_slice key, etl_slice value);

/* Add one pair by writing it in place: *key and *value point to key_size and value_size bytes
 * inside the collector, to be filled before the next call on it, from which on the pair counts.
 * value == NULL (with value_size 0) makes it nil. A pair larger than the memory limit needs that
 * much memory for as long as it is reserved.
 * Errors: as etl_collect. */
LIBETL_API int etl_reserve(etl_collector *collector, size_t key_size, size_t value_size,
                           void **key, void **value);

/* Optional: sort and spill what is buffered now, and wait until it is on disk. Errors: as
 * etl_collect. */
LIBETL_API int etl_flush(etl_collector *collector);

/* Receives one pair in order. 0 goes on; any other value stops, and etl_load returns it. */
typedef int etl_load_fn(void *context, etl_slice key, etl_slice value);

/* Hand every pair to load, in order. Consumes on success only: after ETL_OK the collector is empty
 * and ready for the next round, its memory kept. After any other value nothing was consumed, and
 * loading again delivers every pair from the first.
 *
 * Returns ETL_OK, load's own non-zero value, or
 *   ETL_E_INVALID    load is NULL
 *   ETL_E_STATE      an iterator is open, or called from a callback of this collector
 *   ETL_E_DUPLICATE  ETL_REJECT and a key came twice; the message has the key
 *   ETL_E_TOO_LARGE  ETL_APPEND or the reduce callback made a value above ETL_SIZE_MAX
 *   ETL_E_CORRUPT    a run does not read back as it was written; the message has file and offset
 *   ETL_E_IO, ETL_E_NOSPACE, ETL_E_NOMEM, ETL_E_CANCELLED, or what the reduce callback returned */
LIBETL_API int etl_load(etl_collector *collector, etl_load_fn *load, void *context);

/* As etl_load, over several collectors as if their pairs had been collected in one: the first
 * collector's first among equal keys. They must agree on duplicates and order_values. All are
 * consumed on success, none otherwise. count may be 0.
 *
 * Returns ETL_OK, load's own non-zero value, or
 *   ETL_E_INVALID  load or a collector is NULL, a collector is given twice, or they do not agree
 *   other          as etl_load */
LIBETL_API int etl_load_many(etl_collector *const *collectors, size_t count, etl_load_fn *load,
                             void *context);

/* Write every pair that etl_load would deliver, in the same order and with the duplicate rules
 * applied, to one run file at path, for etl_attach_run. Consumes nothing, as iterators do: what is
 * collected stays, more may be collected and saved again; who is done calls etl_reset. May be
 * called while iterators are open. Without pairs it writes a file of none.
 *
 * At every moment, and after a crash at any moment, path is what it was before or the whole new
 * file: that is written beside it (its directory needs the room, and the right to make files),
 * synced, and then takes the name, in place of a file or a symbolic link of that name. It can be
 * read and written by its owner alone (0600), is the same on every machine, and its layout is
 * published (docs/RUN_FORMAT.md). It takes none of disk_limit. What a killed process may
 * leave beside it is named "etl-...tmp": the part that was written, where the file system has no
 * files without a name; elsewhere only what was killed just before the file had its place.
 *
 * Returns ETL_OK: the file is on the disk. Or an error after which path is what it was, nothing
 * else is left, and the collector is as before, so that saving again may succeed:
 *   ETL_E_INVALID    path is NULL, empty, a directory, or no regular file (such as a device)
 *   ETL_E_STATE      called from a callback of this collector
 *   ETL_E_NOSPACE    no room for the file; or as etl_load
 *   ETL_E_IO         a system call failed. Only where the message says that the file is in its
 *                    place (its directory could not be synced) it is
 *   other            as etl_load */
LIBETL_API int etl_save(etl_collector *collector, const char *path);

/* Add the pairs of a run file that etl_save wrote, as if they were collected now, in the file's
 * order: equal keys that were collected or attached before come first, later ones behind. Nothing
 * is copied: the file is read where it is when pairs are wanted, in blocks that are checked then.
 * It must not be changed until the collector is loaded, reset or destroyed; it may be unlinked, or
 * replaced as etl_save does it. libetl never changes or removes it, and lets go of it with the
 * last of its pairs. It takes none of disk_limit, and a descriptor (see etl_access). One file may
 * be attached to several collectors, and several times.
 *
 * With order_values, a file whose values are in another order (saved without order_values, and
 * with keys that come twice) is copied to temporary runs with the values put in order, which may
 * take as much disk.
 *
 * Returns ETL_OK, or an error after which the collector is as it was before:
 *   ETL_E_INVALID  path is NULL, empty, or no regular file; or the file is of a newer version of
 *                  the format than this library reads
 *   ETL_E_CORRUPT  it is no run, or not a whole one; a damaged block is told when it is read, by
 *                  etl_load, an iterator, or a call that merges runs, and then only etl_reset helps
 *   ETL_E_IO       it is missing or may not be read: the message says why
 *   other          as etl_collect */
LIBETL_API int etl_attach_run(etl_collector *collector, const char *path);

/* Drop all pairs and give the disk back; keep the memory for the next round. Undoes a cancel.
 * Errors: ETL_E_STATE (an iterator is open, or called from a callback of this collector). */
LIBETL_API int etl_reset(etl_collector *collector);

/* What failed last on this collector: operation, path, sizes and the system's error. Success does
 * not clear it. Returns text that is never NULL, empty when nothing has failed, and valid until the
 * next call on the collector. */
LIBETL_API const char *etl_collector_message(const etl_collector *collector);

/* ---- Checkpoints
 *
 * A durable collector survives its process. Its pairs are in files in a directory; a checkpoint
 * makes those collected so far, and a token that says how far the input was read, the ones that a
 * crash leaves. docs/CHECKPOINTS.md has a whole program.
 *
 *     etl_restore -> etl_collect* -> etl_checkpoint -> ... -> etl_load
 *
 * The directory is made if it is missing, belongs to one collector at a time, and holds the files
 * of one checkpoint, named etl-*; others are never touched. A collector that has one spills to it,
 * not to its temporary directories. After a load or a reset the checkpoint stays as it was until
 * the next one, which may be of the empty collector, or until the caller removes the directory. */

/* The largest token, in bytes: 1 GiB. */
#define ETL_TOKEN_MAX ((size_t)1 << 30)

/* Make all pairs collected so far durable, together with token (which may be nil: it is taken as
 * empty). When it returns ETL_OK, etl_restore gives these pairs and this token after any crash, of
 * the process or of the system; when it crashes inside, these or those of the checkpoint before.
 * Writes only what was collected since then, and at times merges runs. The first call for a
 * collector that etl_collector_create made gives it the directory, for good, also where the call
 * fails afterwards; what was spilled before is written again.
 *
 * Returns ETL_OK, or an error after which the collector has all its pairs, and the checkpoint before
 * is the last one (or, where only the last sync of the directory failed, this one):
 *   ETL_E_INVALID    no directory, or not the one that the collector has; token is NULL with a size
 *   ETL_E_STATE      an iterator is open; called from a callback; the directory is in use by another
 *                    collector or process; or it has a checkpoint of another collector already
 *   ETL_E_TOO_LARGE  token above ETL_TOKEN_MAX
 *   ETL_E_NOSPACE, ETL_E_IO, ETL_E_NOMEM, ETL_E_CORRUPT, ETL_E_CANCELLED, or what the reduce
 *   callback returned: as etl_collect */
LIBETL_API int etl_checkpoint(etl_collector *collector, const char *directory, etl_slice token);

/* Make a collector with the pairs of the last checkpoint in a directory, to go on collecting; with
 * none, and *token nil, when there is no checkpoint, so that a program's first start is no other
 * than the next. token may be NULL; *token lives until the next checkpoint or the end of the
 * collector. Options are as for etl_collector_create, and may differ from those before, except
 * duplicates and order_values, under which runs were written already, and what reduce computes.
 * temp_dirs is not used. Takes as long as opening the runs: no pair is read.
 *
 * Returns ETL_OK and the collector in *out; or, with *out == NULL, and the files as they were:
 *   ETL_E_INVALID  an argument or an option is wrong, duplicates or order_values is another one, or
 *                  the checkpoint is of a newer version of the library
 *   ETL_E_STATE    the directory is in use by another collector, here or in another process
 *   ETL_E_CORRUPT  the checkpoint is damaged
 *   ETL_E_IO, ETL_E_NOSPACE, ETL_E_NOMEM */
LIBETL_API int etl_restore(etl_collector **out, const etl_options *options, const char *directory,
                           etl_slice *token);

/* As etl_restore, and on failure the reason as text, cut to fit, in message (size bytes; may be
 * NULL and 0). */
LIBETL_API int etl_restore_message(etl_collector **out, const etl_options *options,
                                   const char *directory, etl_slice *token, char *message,
                                   size_t size);

/* ---- Iterating */

/* A place in the order of the pairs. */
typedef struct etl_iter etl_iter;

/* The keys with from <= key < to. A range with from above to is empty. */
typedef struct etl_range {
    etl_slice from; /* data NULL: from the first key on */
    etl_slice to;   /* data NULL: to the last one */
} etl_range;

/* Open an iterator over a collector's pairs in order; range may be NULL: all of them. Iterators
 * never consume. Several may be open at once, each advanced by a thread of its own. While one is
 * open, collect, reserve, flush, attach, checkpoint, load and reset give ETL_E_STATE.
 *
 * Returns ETL_OK and the iterator in *out, to be given to etl_iter_close; or, with *out == NULL,
 * an error (it may sort, spill and merge). Errors: as etl_load. */
LIBETL_API int etl_iter_open(etl_iter **out, etl_collector *collector, const etl_range *range);

/* As etl_iter_open, over several collectors as if their pairs had been collected in one, the first
 * collector's first among equal keys. They must agree on duplicates and order_values.
 *
 * Returns ETL_OK and the iterator in *out; or, with *out == NULL, an error:
 *   ETL_E_INVALID  count is 0, a collector is NULL or given twice, or they do not agree
 *   other          as etl_load */
LIBETL_API int etl_iter_open_many(etl_iter **out, etl_collector *const *collectors, size_t count,
                                  const etl_range *range);

/* The next pair. key and value may be NULL where not wanted. After ETL_END only a seek brings
 * pairs again, and likewise after an error other than ETL_E_CANCELLED.
 *
 * Returns ETL_OK and the slices, which live until the next call on this iterator; ETL_END when
 * there are no more; or an error. Errors: as etl_load. */
LIBETL_API int etl_iter_next(etl_iter *iter, etl_slice *key, etl_slice *value);

/* Move: the next etl_iter_next returns the first pair with a key >= this one. Stays inside the
 * iterator's range: below `from` it is `from`, from `to` on it is the end. key may be the one just
 * returned. Errors: as etl_load. */
LIBETL_API int etl_iter_seek(etl_iter *iter, etl_slice key);

/* End an iterator; NULL is allowed. Legal after its collector was destroyed. */
LIBETL_API void etl_iter_close(etl_iter *iter);

/* ---- Options */

/* What happens to pairs with equal keys. */
typedef enum etl_duplicates {
    ETL_KEEP_ALL = 0, /* all, in collection order */
    ETL_KEEP_FIRST,   /* the first collected */
    ETL_KEEP_LAST,    /* the last collected */
    ETL_APPEND, /* one pair: the values concatenated in collection order; nil adds nothing; all nil
                   stays nil. A joined value takes memory beside the limit */
    ETL_REDUCE, /* one pair: the values folded by etl_options.reduce */
    ETL_REJECT  /* a second pair with one key is ETL_E_DUPLICATE from load or iteration */
} etl_duplicates;

/* How finished runs are read. */
typedef enum etl_access {
    ETL_ACCESS_MMAP = 0, /* mapped: slices point into the file's pages. Falls back to reads where
                            mapping is refused. Attached and durable runs are read: a file that has a
                            name can shrink under a mapping, which would raise SIGBUS */
    ETL_ACCESS_READ, /* read into buffers: a file that shrinks under us is ETL_E_CORRUPT, where a
                        mapping would raise SIGBUS; for network file systems. Keeps a descriptor a
                        run, and so merges early */
    ETL_ACCESS_MMAP_ALL /* attached and durable runs are mapped too: the caller promises that nobody
                           truncates or overwrites them while they are used */
} etl_access;

/* Bytes that grow, owned by the library: where a reduce callback puts its result. */
typedef struct etl_bytes etl_bytes;

/* Append to bytes. Errors: ETL_E_NOMEM; ETL_E_TOO_LARGE above ETL_SIZE_MAX in all. */
LIBETL_API int etl_bytes_append(etl_bytes *bytes, const void *data, size_t size);

/* Fold values (count of them, two or more, in collection order) of one key into result, which
 * comes empty: leave it so for an empty value. Called on the caller's thread while spilling and
 * while merging, so it must be associative; very large groups are folded in parts. Non-zero stops,
 * and is returned by the call that was under way. */
typedef int etl_reduce_fn(void *context, etl_slice key, const etl_slice *values, size_t count,
                          etl_bytes *result);

/* What a collector is doing. */
typedef enum etl_phase {
    ETL_COLLECTING = 0, /* taking pairs */
    ETL_SPILLING,       /* writing a run */
    ETL_MERGING,        /* runs into fewer */
    ETL_LOADING         /* handing pairs over */
} etl_phase;

/* How far it is. */
typedef struct etl_progress {
    etl_phase phase;     /* what the counts are of */
    uint64_t pairs_done; /* in this phase; grows within it */
    uint64_t pairs_all;  /* 0 while unknown; else pairs_done <= pairs_all */
    uint64_t bytes_done; /* of keys and values, likewise */
    uint64_t bytes_all;  /* likewise */
    uint64_t elapsed_ns; /* since the first pair of this round */
    const char *label;   /* the collector's, or "" */
} etl_progress;

/* Called on the caller's thread about 10 times a second during long work. Non-zero cancels. */
typedef int etl_progress_fn(void *context, const etl_progress *progress);

/* Where memory comes from: as realloc, told the old size; new_size 0 frees and returns NULL; NULL
 * means no memory, with ptr untouched. Memory is aligned as malloc's. Must be callable from
 * several threads when threads are used. */
typedef struct etl_allocator {
    /* NULL: libc and mmap */
    void *(*resize)(void *context, void *ptr, size_t old_size, size_t new_size);
    void *context; /* for resize */
} etl_allocator;

/* Memory that several collectors share; see below. */
typedef struct etl_pool etl_pool;

/* For etl_options.threads: runs are written on the caller's thread. */
#define ETL_THREADS_NONE (-1)

/* All zero means the defaults. Start from LIBETL_OPTIONS_INIT and set what differs. */
struct etl_options {
    size_t struct_size;  /* sizeof(etl_options); 0 is taken as that */
    size_t memory_limit; /* bytes, all that this collector holds: arenas, index, sort scratch,
                            buffers. Default 256 MiB; below 1 MiB counts as 1 MiB; SIZE_MAX is
                            allowed */
    const char *const *temp_dirs; /* NULL-terminated; the next is used when one is full.
                                     Default $TMPDIR if that is set and not empty, else
                                     /var/tmp, else /tmp */
    uint64_t disk_limit; /* bytes of live temporary runs; exact to one write buffer. Default 0: no
                            limit */
    etl_duplicates duplicates; /* default ETL_KEEP_ALL */
    bool order_values;     /* equal keys by value bytes (nil first) instead of collection order */
    etl_reduce_fn *reduce; /* for ETL_REDUCE */
    void *reduce_ctx;      /* its context */
    int threads; /* background threads that spill: 0 is one; ETL_THREADS_NONE; or their number, up
                    to 64. With ETL_REDUCE runs are folded and written on the caller's thread.
                    Where there are any, each load, save and iterator over much has more of its own,
                    until it seeks: one checks blocks of mapped runs ahead of it, or takes its share
                    of a load's merge, and as many as asked for order what is still in memory. At
                    the end of a round one helps to close its files */
    unsigned merge_width; /* most runs merged at once, 2 or more. Default 0: from memory and system
                             limits */
    etl_access access;    /* default ETL_ACCESS_MMAP */
    etl_progress_fn *progress; /* called about 10 times a second during long work */
    void *progress_ctx;        /* its context */
    etl_pool *pool; /* shared memory; caps memory_limit. Default NULL: memory of its own */
    etl_allocator allocator; /* with a pool: none, the pool's is used */
    const char *label; /* in messages and temporary names; in a pool, what needs like amounts */
};

/* The defaults, to begin with. */
#define LIBETL_OPTIONS_INIT                                                                      \
    {                                                                                            \
        sizeof(etl_options), 0, NULL, 0, ETL_KEEP_ALL, false, NULL, NULL, 0, 0, ETL_ACCESS_MMAP, \
            NULL, NULL, NULL, {NULL, NULL}, NULL                                                 \
    }

/* ---- Cancelling and watching ---- */

/* From any thread or a signal handler: every call on the collector and its iterators gives
 * ETL_E_CANCELLED, one under way within 100 ms (where a single pair takes longer, behind that pair),
 * until etl_resume or etl_reset. Nothing is lost by it. */
LIBETL_API void etl_cancel(etl_collector *collector);

/* Undo a cancel. */
LIBETL_API void etl_resume(etl_collector *collector);

/* Counters. Those of the round start at 0 with the first pair after create, load or reset, and can
 * still be read after the load that ended it. */
typedef struct etl_stats {
    size_t struct_size;     /* set by the caller: sizeof(etl_stats) */
    uint64_t pairs;         /* collected, or attached, in this round */
    uint64_t key_bytes;     /* likewise */
    uint64_t value_bytes;   /* likewise */
    uint64_t runs;          /* written by spilling, or attached, in this round */
    uint64_t spilled_bytes; /* written to temporary runs in this round, merge passes included */
    uint64_t merge_passes;  /* merges of runs into a run in this round */
    uint64_t memory_bytes;  /* held now */
    uint64_t memory_bytes_peak; /* since create */
    uint64_t disk_bytes;        /* of live runs now, not of attached ones */
    uint64_t disk_bytes_peak;   /* since create */
    uint64_t sort_ns;           /* time in this round: sorting */
    uint64_t spill_ns;          /* copying out and writing, on whatever thread */
    uint64_t merge_ns;          /* merging, callbacks included */
    uint64_t wait_ns;           /* the caller waiting for the disk */
    uint64_t allocations;       /* asked of the allocator since create */
} etl_stats;

/* Fill stats, whose struct_size is set. Also from another thread, while the collector is in use:
 * each counter is then right at some recent moment. Errors: ETL_E_INVALID. */
LIBETL_API int etl_collector_stats(const etl_collector *collector, etl_stats *stats);

/* ---- Pools ---- */

/* A pool is one budget and one stock of memory for many collectors: those of several threads, or a
 * collector for each of a thousand indexes of which few are filled at a time.
 *
 * Rounds   From its first pair to the load or reset that ends it, a collector takes its memory from
 *          the pool; then it gives all of it back, and holds only itself and a few KiB. What was
 *          given back is retained for the next round of any of them, up to retain_limit, and freed
 *          when nobody took it for some rounds.
 * Limit    All collectors together hold at most memory_limit, retained memory included. Each may
 *          use what is there, up to its own memory_limit. When the pool is exhausted a collector
 *          spills what it holds and goes on; one that holds more than an even share while another
 *          is short spills at one of its next calls, before it has taken 64 KiB more. That may
 *          fail as any spilling: ETL_E_NOSPACE, ETL_E_IO.
 * Floor    Nobody ever waits for another collector, so one thread may use any number, in any order.
 *          In a round each may always hold a small floor: with one thread about 350 KiB in a pool
 *          of 32 MiB or less, 1.5 MiB in one of 256 MiB; more with more threads, ETL_ACCESS_READ
 *          or ETL_REDUCE. For that up to an eighth of the pool (below 32 MiB up to a quarter) is
 *          held back while others are idle. Where more are in a round at once than the limit has
 *          floors for, they pass it by those floors. What ETL_APPEND joins, and a pair that is
 *          reserved above the limit, come beside it here too.
 * Labels   A collector's first block in a round is as large as what collectors with its label
 *          needed last. No label: no guess.
 * Threads  A pool may be used by any number of threads; its collectors as any. */
typedef struct etl_pool_options {
    size_t struct_size;  /* sizeof(etl_pool_options); 0 is taken as that */
    size_t memory_limit; /* bytes, of all collectors. Default 256 MiB; below 1 MiB counts as 1 MiB
                          */
    size_t retain_limit; /* bytes that no collector holds, kept for the next: of the limit. Default
                            0: as much as the limit */
    etl_allocator allocator; /* for all pooled memory; must be callable from several threads */
} etl_pool_options;

/* The defaults, to begin with. */
#define LIBETL_POOL_OPTIONS_INIT          \
    {                                     \
        sizeof(etl_pool_options), 0, 0, { \
            NULL, NULL                    \
        }                                 \
    }

/* Make a pool, for etl_options.pool of any number of collectors. options may be NULL: the defaults.
 *
 * Returns ETL_OK and the pool in *out, to be given to etl_pool_destroy; or, with *out == NULL, an
 * error:
 *   ETL_E_INVALID  out is NULL, or struct_size is none that this version knows
 *   ETL_E_NOMEM    no memory */
LIBETL_API int etl_pool_create(etl_pool **out, const etl_pool_options *options);

/* End a pool; NULL is allowed. Legal while collectors of it are alive, in any state: what is
 * retained is freed now, the budget lives until the last of them is destroyed. No collector may be
 * made with it any more. In a forked child it returns at once. */
LIBETL_API void etl_pool_destroy(etl_pool *pool);

/* A pool's counters. */
typedef struct etl_pool_stats {
    size_t struct_size;         /* set by the caller: sizeof(etl_pool_stats) */
    uint64_t memory_bytes;      /* held now: by collectors, and retained */
    uint64_t memory_bytes_peak; /* since create */
    uint64_t retained_bytes;    /* of memory_bytes, held by no collector */
    uint64_t allocations;       /* asked of the allocator since create */
    uint64_t collectors;        /* alive */
    uint64_t collectors_active; /* of them, in a round */
} etl_pool_stats;

/* Fill stats, whose struct_size is set, with what holds at one moment. Any thread. Errors:
 * ETL_E_INVALID. */
LIBETL_API int etl_pool_get_stats(const etl_pool *pool, etl_pool_stats *stats);

/* ---- Helpers */

/* Cut the keys of several collectors into parts of about equal bytes, for loading by ranges
 * [keys[i - 1], keys[i]): at most parts - 1 keys, fewer when there are fewer distinct ones.
 * Nothing is read through: the runs' block indexes are sampled. The keys are never empty, ascend
 * strictly, and live in the collectors until these are reset or destroyed. keys has room for parts
 * - 1. Errors: as etl_iter_open. */
LIBETL_API int etl_split(etl_collector *const *collectors, size_t count, size_t parts,
                         etl_slice *keys, size_t *key_count);

/* The smallest key after all keys that begin with prefix, written to end (room for prefix.size
 * bytes); *end_size is at most prefix.size.
 *
 * Returns ETL_OK; or ETL_END, with *end_size 0, when there is none (the prefix is empty or all
 * 0xFF): the range is open, so leave its to.data NULL. Errors: ETL_E_INVALID. */
LIBETL_API int etl_prefix_end(etl_slice prefix, void *end, size_t *end_size);

/* Gives the next pair of a source: ETL_OK; ETL_END when there are no more; any other value stops
 * the transform, which returns it. The slices must live until the next call. */
typedef int etl_source_fn(void *context, etl_slice *key, etl_slice *value);

/* Turns one pair of a source into any number of etl_collect calls. Non-zero stops the transform,
 * which returns it. */
typedef int etl_extract_fn(void *context, etl_collector *collector, etl_slice key,
                           etl_slice value);

/* A whole job. */
typedef struct etl_transform_args {
    size_t struct_size;         /* sizeof(etl_transform_args); 0 is taken as that */
    const etl_options *options; /* of its collector; NULL: the defaults */
    etl_source_fn *source;      /* where pairs come from */
    void *source_ctx;           /* its context */
    etl_extract_fn *extract;    /* NULL: the pair as it is */
    void *extract_ctx;          /* its context */
    etl_load_fn *load;          /* where pairs go */
    void *load_ctx;             /* its context */
    etl_range range;            /* only source pairs with from <= key < to; zero: all */
    char *message;       /* NULL, or room for message_size bytes: why it failed, cut to fit */
    size_t message_size; /* of message */
} etl_transform_args;

/* Source -> extract -> sort -> load, in one call with a collector of its own.
 *
 * Returns ETL_OK, a callback's own non-zero value, or an error. Errors: as etl_collector_create,
 * etl_collect and etl_load. */
LIBETL_API int etl_transform(const etl_transform_args *args);

/* ---- Key encodings
 *
 * Bytes whose order as a key is the order of the values. A composite key is its components written
 * one behind the other, each ascending or descending; docs/KEYS.md has the layouts and an example.
 * Whoever reads a key must know its types and orders: nothing in it says them.
 *
 *     uint8_t key[ETL_KEY_BYTES_MAX(40) + sizeof(double)], *end = key;
 *     end = etl_key_put_bytes(end, name, ETL_KEY_ASCENDING);
 *     end = etl_key_put_double(end, amount, ETL_KEY_DESCENDING);
 *     status = etl_collect(collector, etl_slice_of(key, (size_t)(end - key)),
 *                          value);
 *
 * Threads: any. */

/* Which way a component sorts. */
typedef enum etl_key_order {
    ETL_KEY_ASCENDING = 0, /* the smallest first */
    ETL_KEY_DESCENDING     /* the largest first */
} etl_key_order;

/* Write a number at `to`, which has room for sizeof(value) bytes: as many as its encoding takes.
 * Returns the end of what was written. */
LIBETL_API uint8_t *etl_key_put_u8(uint8_t *to, uint8_t value, etl_key_order order);
LIBETL_API uint8_t *etl_key_put_u16(uint8_t *to, uint16_t value, etl_key_order order);
LIBETL_API uint8_t *etl_key_put_u32(uint8_t *to, uint32_t value, etl_key_order order);
LIBETL_API uint8_t *etl_key_put_u64(uint8_t *to, uint64_t value, etl_key_order order);
LIBETL_API uint8_t *etl_key_put_i8(uint8_t *to, int8_t value, etl_key_order order);
LIBETL_API uint8_t *etl_key_put_i16(uint8_t *to, int16_t value, etl_key_order order);
LIBETL_API uint8_t *etl_key_put_i32(uint8_t *to, int32_t value, etl_key_order order);
LIBETL_API uint8_t *etl_key_put_i64(uint8_t *to, int64_t value, etl_key_order order);

/* Likewise, in the order -infinity ... -0, +0 ... +infinity, NaN. All NaNs are written as one, and
 * the zeros as two: add 0.0 to a value to make -0 the same key as +0. Returns the end of what was
 * written. */
LIBETL_API uint8_t *etl_key_put_float(uint8_t *to, float value, etl_key_order order);
LIBETL_API uint8_t *etl_key_put_double(uint8_t *to, double value, etl_key_order order);

/* Write bytes or text, which may hold zeros and be empty (nil is written as empty), such that any
 * component may follow. `to` has room for etl_key_bytes_size(value) bytes and does not overlap
 * value. The order is bytewise, the shorter first; that of UTF-8 text is by code point. Returns
 * the end of what was written. */
LIBETL_API uint8_t *etl_key_put_bytes(uint8_t *to, etl_slice value, etl_key_order order);

/* The bytes that etl_key_put_bytes writes. Returns value.size, one more for each zero in it, and 2;
 * SIZE_MAX where that is no size. */
LIBETL_API size_t etl_key_bytes_size(etl_slice value);

/* The most that etl_key_bytes_size gives for a value of `size` bytes; a constant for a constant. */
#define ETL_KEY_BYTES_MAX(size) (2 * (size_t)(size) + 2)

/* Read the component that key begins with, and move key behind it; value NULL skips it.
 *
 * Returns ETL_OK, or an error after which neither key nor value is changed:
 *   ETL_E_CORRUPT  key is too short, or has bytes that the writer of this type never writes
 *   ETL_E_INVALID  key is NULL or a NULL slice with a size, or order is none of the two */
LIBETL_API int etl_key_get_u8(etl_slice *key, uint8_t *value, etl_key_order order);
LIBETL_API int etl_key_get_u16(etl_slice *key, uint16_t *value, etl_key_order order);
LIBETL_API int etl_key_get_u32(etl_slice *key, uint32_t *value, etl_key_order order);
LIBETL_API int etl_key_get_u64(etl_slice *key, uint64_t *value, etl_key_order order);
LIBETL_API int etl_key_get_i8(etl_slice *key, int8_t *value, etl_key_order order);
LIBETL_API int etl_key_get_i16(etl_slice *key, int16_t *value, etl_key_order order);
LIBETL_API int etl_key_get_i32(etl_slice *key, int32_t *value, etl_key_order order);
LIBETL_API int etl_key_get_i64(etl_slice *key, int64_t *value, etl_key_order order);
LIBETL_API int etl_key_get_float(etl_slice *key, float *value, etl_key_order order);
LIBETL_API int etl_key_get_double(etl_slice *key, double *value, etl_key_order order);

/* As these, for bytes or text: the value goes to out, which has room for capacity bytes (key->size
 * of them are always enough) and does not overlap key; its size goes to *size, unless size is NULL.
 * out NULL skips the component, whatever capacity says. Never reads outside key.
 * Errors: as above, and ETL_E_TOO_LARGE where the value is above capacity: only *size is set. */
LIBETL_API int etl_key_get_bytes(etl_slice *key, void *out, size_t capacity, size_t *size,
                                 etl_key_order order);

#ifdef __cplusplus
}
#endif

#endif
