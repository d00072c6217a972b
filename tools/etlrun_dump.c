/* etlrun_dump.c: the pairs of a run file as lines of text or of JSON. */
#include "run_file.h"

#include "key.h"
#include <getopt.h>

enum { OPTION_JSON = OPTION_OWN, OPTION_FROM, OPTION_TO, OPTION_LIMIT };

struct wanted {
    bool json;
    etl_range range; /* from.data NULL: from the first; to.data NULL: to the last */
    uint64_t limit;
};

static void show(const struct etl__pair *pair, bool json) {
    etl_slice key = etl_slice_of(pair->key, pair->key_size);
    etl_slice value = etl_slice_of(pair->value, pair->value_size);
    if (json) {
        etlrun_out_string("{\"key\":");
        etlrun_out_json(key);
        etlrun_out_string(",\"value\":");
        etlrun_out_json(value);
        etlrun_out("}\n", 2);
        return;
    }
    etlrun_out_escaped(key);
    etlrun_out("\t", 1);
    if (value.data == NULL)
        etlrun_out("\\N", 2);
    else
        etlrun_out_escaped(value);
    etlrun_out("\n", 1);
}

static bool is_behind(const struct etl__pair *pair, etl_slice to) {
    return to.data != NULL && etl__key_compare(pair->key, pair->key_size, to.data, to.size) >= 0;
}

static int dump(const char *name, const struct wanted *wanted) {
    struct run_file file;
    int result = run_file_open(&file, name), status = ETL_OK;
    if (result != EXIT_SUCCESS)
        return result;
    if (wanted->range.from.data != NULL)
        result = run_file_seek(&file, wanted->range.from);
    for (uint64_t left = wanted->limit; result == EXIT_SUCCESS && left != 0; left--) {
        status = run_file_next(&file);
        if (status != ETL_OK || is_behind(&file.pair, wanted->range.to))
            break;
        show(&file.pair, wanted->json);
        if (etlrun_out_failed())
            break;
    }
    if (status < 0)
        result = run_file_failed(&file, status);
    run_file_close(&file);
    return result;
}

static bool parse_number(const char *text, uint64_t *number) {
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

/* -1: go on; else the exit status. */
static int take_option(struct wanted *wanted, int option) {
    switch (option) {
    case OPTION_JSON:
        wanted->json = true;
        return -1;
    case OPTION_FROM:
    case OPTION_TO:
        if (etlrun_parse_escaped(optarg,
                                 option == OPTION_FROM ? &wanted->range.from : &wanted->range.to))
            return -1;
        return etlrun_refuse("dump", optarg, "not a key: a backslash begins \\\\ or \\xHH");
    case OPTION_LIMIT:
        if (parse_number(optarg, &wanted->limit))
            return -1;
        return etlrun_refuse("dump", optarg, "not a number of pairs");
    default:
        return etlrun_common_option(option, "dump");
    }
}

int etlrun_dump(int argc, char **argv) {
    static const struct option options[] = {
        {"json", no_argument, NULL, OPTION_JSON},
        {"from", required_argument, NULL, OPTION_FROM},
        {"to", required_argument, NULL, OPTION_TO},
        {"limit", required_argument, NULL, OPTION_LIMIT},
        ETLRUN_COMMON_OPTIONS,
    };
    struct wanted wanted = {.limit = UINT64_MAX};
    if (isatty(STDOUT_FILENO)) /* there its lines would be among the pairs */
        etlrun_console.terminal = false;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        int end = take_option(&wanted, option);
        if (end != -1)
            return end;
    }
    if (argc - optind != 1)
        return etlrun_usage("dump",
                            argc == optind ? "no file was given" : "more than one file was given");
    return dump(argv[optind], &wanted);
}
