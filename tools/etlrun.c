/* etlrun.c: look into run files, check them, merge them.
 *
 *     etlrun info | dump | verify | merge   [OPTION]... FILE...
 *
 * Each command is a file of its own, etlrun_COMMAND.c; what they share is in etlrun.h (this file
 * and etlrun_out.c) and run_file.h. info, dump and verify go through the library's own reader of
 * runs, so that what they say of a file is what a collector would; they need no temporary directory
 * and no thread. merge is a program as any other, on etl.h alone. */
#include "etlrun.h"

#include <fcntl.h>

struct console etlrun_console = {.program = "etlrun", .unit = "pairs"};

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
};

static const struct command commands[] = {
    {"info", etlrun_info,
     "Usage: etlrun info [--json] FILE...\n"
     "Tell of each run file its version, counts, sizes, and its first and last key.\n"
     "Only header, footer, table and the blocks of these two keys are read.\n"
     "\n"
     "      --json           one JSON object a file, a line each\n"},
    {"dump", etlrun_dump,
     "Usage: etlrun dump [OPTION]... FILE\n"
     "Write the pairs of a run file: key, TAB, value, newline. Printable ASCII stands as\n"
     "it is, a backslash twice, any other byte as \\xHH; a nil value is \\N.\n"
     "\n"
     "      --json           a JSON object a line: {\"key\":K,\"value\":V}, where K and V are\n"
     "                       strings, or {\"hex\":\"...\"} when they are not UTF-8; nil is null\n"
     "      --from=KEY       only keys that are not below KEY (escapes as above)\n"
     "      --to=KEY         only keys below KEY\n"
     "      --limit=N        at most N pairs\n"},
    {"verify", etlrun_verify,
     "Usage: etlrun verify [OPTION]... FILE...\n"
     "Read run files as a whole and check everything: checksums, lengths, order of the\n"
     "keys, counts and sums. All files are checked, also when one is damaged.\n"
     "\n"
     "  -q, --quiet          do not say what is right\n"},
    {"merge", etlrun_merge,
     "Usage: etlrun merge [OPTION]... -o OUT FILE...\n"
     "Merge run files into one, which is there when it is whole. Equal keys come in the\n"
     "order of the files.\n"
     "\n"
     "  -o, --output=OUT     the file to write; must not exist\n"
     "      --force          replace OUT, which may be one of the files\n"
     "      --duplicates=RULE\n"
     "                       what to do with equal keys: keep-all (the default), keep-first,\n"
     "                       keep-last, append (their values) or reject (status 1)\n"
     "      --order-values   equal keys by value, nil first\n"
     "  -S, --buffer-size=SIZE\n"
     "                       memory to use: a number with b (bytes), K, M, G or T; K when\n"
     "                       there is none; default 256M; less than 1M counts as 1M\n"
     "  -T, --temporary-directory=DIR\n"
     "                       for what the merge needs beside OUT; may be given several\n"
     "                       times; default $TMPDIR if set and not empty, else\n"
     "                       /var/tmp, else /tmp\n"},
};

static const char common_help[] =
    "      --progress, --no-progress\n"
    "                       show progress on standard error; default: if it is a terminal\n"
    "      --help           this text\n";

static const char help[] =
    "Usage: etlrun COMMAND [OPTION]... FILE...\n"
    "Look into run files of libetl, check them, merge them.\n"
    "\n"
    "  info                 versions, counts, sizes, first and last key\n"
    "  dump                 the pairs, as text or JSON\n"
    "  verify               check every byte\n"
    "  merge                many runs into one\n"
    "  help COMMAND         how a command is used (also COMMAND --help)\n"
    "  --version            the library's version\n"
    "\n"
    "Exit status: 0 done, 1 a file is damaged or a key came twice, 2 wrong usage, 3 trouble.\n";

static const struct command *find(const char *name) {
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    console_complain(&etlrun_console, "no such command: %s", name);
    fputs("Try 'etlrun --help'.\n", stderr);
    return NULL;
}

static int show_help(const char *name) {
    const struct command *command = name != NULL ? find(name) : NULL;
    if (command == NULL && name != NULL)
        return EXIT_USAGE;
    etlrun_out_string(command != NULL ? command->help : help);
    if (command != NULL)
        etlrun_out_string(common_help);
    return EXIT_SUCCESS;
}

int etlrun_usage(const char *command, const char *what) {
    if (what != NULL)
        console_complain(&etlrun_console, "%s", what);
    fprintf(stderr, "Try 'etlrun help %s'.\n", command);
    return EXIT_USAGE;
}

int etlrun_refuse(const char *command, const char *value, const char *what) {
    console_complain(&etlrun_console, "'%s' is %s", value, what);
    return etlrun_usage(command, NULL);
}

/* Without the advice, which would be repeated for every block. */
bool etlrun_complain_of(const char *name, const char *text) {
    static const char *const subjects[] = {"a run in ", "the run file ", ""};
    size_t name_size = strlen(name);
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
        size_t size = strlen(subjects[i]);
        const char *rest = text + size + name_size;
        if (strncmp(text, subjects[i], size) != 0 || strncmp(text + size, name, name_size) != 0 ||
            *rest != ' ')
            continue;
        rest += strncmp(rest, " is ", 4) == 0 ? 4 : 1;
        const char *advice = strstr(rest, ": save it anew");
        size_t shown = advice != NULL ? (size_t)(advice - rest) : strlen(rest);
        console_complain(&etlrun_console, "%s: %.*s", name, (int)shown, rest);
        return true;
    }
    return false;
}

int etlrun_common_option(int option, const char *command) {
    switch (option) {
    case OPTION_PROGRESS:
    case OPTION_NO_PROGRESS:
        etlrun_console.terminal = option == OPTION_PROGRESS;
        return -1;
    case OPTION_HELP:
        return show_help(command);
    default: /* getopt_long has complained */
        return etlrun_usage(command, NULL);
    }
}

void etlrun_progress(const char *name, uint64_t done, uint64_t all) {
    static uint64_t next;
    if (!etlrun_console.terminal)
        return;
    uint64_t now = console_now_ns();
    if (now < next)
        return;
    next = now + 100000000;
    struct console_text text, text_all;
    fprintf(stderr, "\r\033[K%s: %s: %s of %s, %.0f %%", etlrun_console.program, name,
            console_bytes(&text, done), console_bytes(&text_all, all),
            100.0 * (double)done / (double)all);
    fflush(stderr);
    etlrun_console.shown = true;
}

/* So that no file is opened in place of a standard stream that is closed, and written to as such:
 * writing to one of these fails as it does to none. */
static bool open_standard_streams(void) {
    int descriptor;
    do
        descriptor = open("/dev/null", O_RDONLY);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    return descriptor >= 0 && close(descriptor) == 0;
}

static int run(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return show_help(NULL);
    if (strcmp(name, "help") == 0)
        return show_help(argc > 2 ? argv[2] : NULL);
    if (strcmp(name, "--version") == 0) {
        etlrun_out_string("etlrun ");
        etlrun_out_string(etl_version());
        etlrun_out_string("\n");
        return EXIT_SUCCESS;
    }
    if (argc < 2) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    const struct command *command = find(name);
    if (command == NULL)
        return EXIT_USAGE;
    argv[1] = argv[0];
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    static char name[] = "etlrun"; /* what getopt_long calls it */
    if (!open_standard_streams())
        return EXIT_TROUBLE;
    if (argc > 0)
        argv[0] = name;
    console_catch_signals(&etlrun_console);
    etlrun_console.terminal = isatty(STDERR_FILENO) != 0;
    int status = run(argc, argv);
    status = etlrun_worse(status, etlrun_out_end());
    console_clear(&etlrun_console);
    return etlrun_console.interrupted ? EXIT_SIGNAL + (int)etlrun_console.interrupted : status;
}
