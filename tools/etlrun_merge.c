/* etlrun_merge.c: many run files into one: what any program would do with them, through etl.h alone.
 *
 * The files are attached to a collector in their order, which is the order of equal keys, and saved
 * as one. Nothing is copied but into the output; that is beside its name until it is whole. */
#include "etlrun.h"

#include <getopt.h>
#include <sys/stat.h>

enum { OPTION_FORCE = OPTION_OWN, OPTION_DUPLICATES, OPTION_ORDER_VALUES };

struct wanted {
    etl_options settings;
    const char *output;
    bool force;
    char *const *files;
    int file_count;
};

static int failed(const struct wanted *wanted, const char *name, const char *text, int status) {
    bool told = etlrun_console.interrupted;
    for (int i = 0; !told && i < wanted->file_count; i++)
        told = etlrun_complain_of(wanted->files[i], text);
    if (!told)
        console_complain(&etlrun_console, "%s: %s", name, text);
    return status == ETL_E_CORRUPT || status == ETL_E_DUPLICATE ? EXIT_NO : EXIT_TROUBLE;
}

/* All of them, so that all that are damaged are told, and before the work begins; but what is wrong
 * with more than one file is told once. */
static int attach_files(const struct wanted *wanted, etl_collector *collector) {
    int result = EXIT_SUCCESS;
    for (int i = 0; i < wanted->file_count && !etlrun_console.interrupted; i++) {
        const char *name = wanted->files[i];
        int status;
        if (access(name, R_OK) != 0) {
            console_complain(&etlrun_console, "%s: %s", name, strerror(errno));
            result = EXIT_TROUBLE;
        } else if ((status = etl_attach_run(collector, name)) != ETL_OK) {
            int told = failed(wanted, name, etl_collector_message(collector), status);
            result = etlrun_worse(result, told);
            if (status != ETL_E_CORRUPT && status != ETL_E_INVALID)
                break;
        }
    }
    return etlrun_console.interrupted ? EXIT_TROUBLE : result;
}

static int refuse_to_replace(const struct wanted *wanted) {
    struct stat found;
    if (wanted->force || lstat(wanted->output, &found) != 0)
        return EXIT_SUCCESS;
    console_complain(&etlrun_console, "%s: exists already, and is replaced only with --force",
                     wanted->output);
    return EXIT_TROUBLE;
}

static int merge(const struct wanted *wanted) {
    char message[512];
    etl_collector *collector;
    int status =
        etl_collector_create_message(&collector, &wanted->settings, message, sizeof message);
    if (status != ETL_OK)
        return failed(wanted, wanted->output, message, status);
    etlrun_console.collector = collector;
    int result = attach_files(wanted, collector);
    if (result == EXIT_SUCCESS) /* again: attaching may have put values in order for long */
        result = refuse_to_replace(wanted);
    if (result == EXIT_SUCCESS && (status = etl_save(collector, wanted->output)) != ETL_OK)
        result = failed(wanted, wanted->output, etl_collector_message(collector), status);
    etlrun_console.collector = NULL;
    etl_collector_destroy(collector);
    return result;
}

/* ---- The command line */

static bool parse_rule(const char *text, etl_duplicates *rule) {
    static const struct {
        const char *name;
        etl_duplicates rule;
    } rules[] = {
        {"keep-all", ETL_KEEP_ALL}, {"keep-first", ETL_KEEP_FIRST}, {"keep-last", ETL_KEEP_LAST},
        {"append", ETL_APPEND},     {"reject", ETL_REJECT},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strcmp(text, rules[i].name) == 0) {
            *rule = rules[i].rule;
            return true;
        }
    return false;
}

/* -1: go on; else the exit status. */
static int take_option(struct wanted *wanted, int option) {
    switch (option) {
    case 'o':
        wanted->output = optarg;
        return -1;
    case OPTION_FORCE:
        wanted->force = true;
        return -1;
    case OPTION_DUPLICATES:
        if (parse_rule(optarg, &wanted->settings.duplicates))
            return -1;
        return etlrun_refuse("merge", optarg, "not a rule for duplicates");
    case OPTION_ORDER_VALUES:
        wanted->settings.order_values = true;
        return -1;
    case 'S':
        if (console_parse_size(optarg, &wanted->settings.memory_limit)) {
            wanted->settings.memory_limit += wanted->settings.memory_limit == 0; /* the least */
            return -1;
        }
        return etlrun_refuse("merge", optarg, "not a size");
    default:
        return etlrun_common_option(option, "merge");
    }
}

/* temp_dirs has room for all arguments and a NULL. */
static int parse(struct wanted *wanted, const char **temp_dirs, int argc, char **argv) {
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"force", no_argument, NULL, OPTION_FORCE},
        {"duplicates", required_argument, NULL, OPTION_DUPLICATES},
        {"order-values", no_argument, NULL, OPTION_ORDER_VALUES},
        {"buffer-size", required_argument, NULL, 'S'},
        {"temporary-directory", required_argument, NULL, 'T'},
        ETLRUN_COMMON_OPTIONS,
    };
    for (int option; (option = getopt_long(argc, argv, "o:S:T:", options, NULL)) != -1;) {
        int end = -1;
        if (option == 'T') {
            *temp_dirs++ = optarg;
        } else {
            end = take_option(wanted, option);
        }
        if (end != -1)
            return end;
    }
    wanted->files = argv + optind;
    wanted->file_count = argc - optind;
    if (wanted->output == NULL)
        return etlrun_usage("merge", "no output was given");
    return wanted->file_count != 0 ? -1 : etlrun_usage("merge", "no file was given");
}

int etlrun_merge(int argc, char **argv) {
    struct wanted wanted = {.settings = LIBETL_OPTIONS_INIT};
    const char **temp_dirs = calloc((size_t)argc + 1, sizeof *temp_dirs);
    if (temp_dirs == NULL) {
        console_complain(&etlrun_console, "no memory");
        return EXIT_TROUBLE;
    }
    int end = parse(&wanted, temp_dirs, argc, argv);
    if (end == -1)
        end = refuse_to_replace(&wanted);
    if (end == EXIT_SUCCESS && wanted.output != NULL) {
        wanted.settings.temp_dirs = temp_dirs[0] != NULL ? temp_dirs : NULL;
        wanted.settings.progress = console_progress;
        wanted.settings.progress_ctx = &etlrun_console;
        wanted.settings.label = etlrun_console.program;
        end = merge(&wanted);
    }
    free(temp_dirs);
    return end;
}
