/* run_file.h: a run file opened by its name and read pair by pair, through the library's own reader
 * (src/provider_file.h), with the checks that the library leaves to its merge: keys never descend,
 * nor values of equal keys where the footer says so, and the pairs are as many as it says.
 *
 * The file is read, not mapped: one that shrinks meanwhile is damaged, and no SIGBUS. What fails
 * returns an exit status after a complaint that names the file. */
#ifndef RUN_FILE_H
#define RUN_FILE_H

#include "etlrun.h"
#include "provider_file.h"

struct run_file {
    const char *name;
    struct etl__memory memory;
    struct etl__error error;
    struct etl__run *run; /* header, footer and table are right */
    struct etl__provider *provider;
    struct etl__pair pair; /* the last that was read */
    uint64_t start, end;   /* offsets of its record */
    uint64_t pairs;        /* read so far */
    bool whole;            /* from the first record on: the pairs can be counted */
};

/* EXIT_SUCCESS; else there is nothing to close. */
int run_file_open(struct run_file *file, const char *name);
void run_file_close(struct run_file *file);

/* Go on with the first pair whose key is not below this one. EXIT_… */
int run_file_seek(struct run_file *file, etl_slice key);

/* The next pair, in file->pair. ETL_OK, ETL_END, or an error whose text is in file->error. */
int run_file_next(struct run_file *file);

/* Complain of an error of the library, or of damage that was found here. EXIT_NO for a damaged
 * file, else EXIT_TROUBLE; nothing is said when a signal ended the work. */
int run_file_failed(struct run_file *file, int status);
int run_file_damaged(struct run_file *file, uint64_t offset, const char *what);

#endif
