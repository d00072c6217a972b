/* etlrun.h: what the commands of etlrun share: how they end, what they write, how they are watched.
 *
 * A command returns its exit status. Complaints go to standard error as "etlrun: FILE: what". */
#ifndef ETLRUN_H
#define ETLRUN_H

#include "console.h"

/* How the program ends; the larger outweighs. 128 + its number when a signal ended the work. */
enum {
    EXIT_NO = 1,      /* a file is damaged, a key came twice */
    EXIT_USAGE = 2,   /* the command line makes no sense */
    EXIT_TROUBLE = 3, /* input, output, memory */
    EXIT_SIGNAL = 128
};

extern struct console etlrun_console;

static inline int etlrun_worse(int a, int b) {
    return a > b ? a : b;
}

/* ---- Commands: argv[0] is the program, then come options and files. */

int etlrun_info(int argc, char **argv);
int etlrun_dump(int argc, char **argv);
int etlrun_verify(int argc, char **argv);
int etlrun_merge(int argc, char **argv);

/* What every command knows besides its own options: etlrun_common_option takes them, and whatever
 * getopt_long did not know. -1: go on; else the exit status. */
enum { OPTION_HELP = 256, OPTION_PROGRESS, OPTION_NO_PROGRESS, OPTION_OWN };

#define ETLRUN_COMMON_OPTIONS                                                                   \
    {"help", no_argument, NULL, OPTION_HELP}, {"progress", no_argument, NULL, OPTION_PROGRESS}, \
        {"no-progress", no_argument, NULL, OPTION_NO_PROGRESS}, {                               \
        NULL, 0, NULL, 0                                                                        \
    }

int etlrun_common_option(int option, const char *command);

/* Complain, and point to the help. Returns EXIT_USAGE. */
int etlrun_usage(const char *command, const char *what);

/* Likewise, of an option's value: "'VALUE' is WHAT". */
int etlrun_refuse(const char *command, const char *value, const char *what);

/* Where the library says something of the file NAME ("a run in NAME is damaged: ...", "the run file
 * NAME ...", "NAME is ..."): complain in this program's way, "etlrun: NAME: damaged: ...". */
bool etlrun_complain_of(const char *name, const char *text);

/* ---- Watching */

/* "etlrun: NAME: DONE of ALL, 12 %", at most ten times a second, where progress is shown. */
void etlrun_progress(const char *name, uint64_t done, uint64_t all);

/* ---- Standard output, buffered. What fails is kept, and told once by etlrun_out_end. */

void etlrun_out(const void *data, size_t size);
void etlrun_out_string(const char *string);
void etlrun_out_number(uint64_t number);
bool etlrun_out_failed(void);

/* Write what is buffered. EXIT_SUCCESS, EXIT_TROUBLE after a complaint, or EXIT_SIGNAL + SIGPIPE
 * in silence where the reader went away. */
int etlrun_out_end(void);

/* Printable ASCII as it is, a backslash twice, other bytes as \xHH. */
void etlrun_out_escaped(etl_slice bytes);

/* A JSON string when the bytes are UTF-8, else {"hex": "..."}; nil is null. */
void etlrun_out_json(etl_slice bytes);

/* What etlrun_out_escaped wrote, as bytes, in place. False where a backslash begins no escape. */
bool etlrun_parse_escaped(char *text, etl_slice *bytes);

#endif
