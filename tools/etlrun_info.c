/* etlrun_info.c: what header and footer of a run file say, and its first and last key. */
#include "run_file.h"

#include <getopt.h>

enum { OPTION_JSON = OPTION_OWN, KEY_SHOWN = 64 /* bytes of a key, in text */ };

/* One line of the text, or one member of the object. */
static void show_number(bool json, const char *name, const char *label, uint64_t number) {
    etlrun_out_string(json ? ",\"" : "  ");
    etlrun_out_string(json ? name : label);
    etlrun_out_string(json ? "\":" : " ");
    etlrun_out_number(number);
    etlrun_out_string(json ? "" : "\n");
}

static void show_key(bool json, const char *name, const char *label, etl_slice key) {
    etlrun_out_string(json ? ",\"" : "  ");
    etlrun_out_string(json ? name : label);
    etlrun_out_string(json ? "\":" : " ");
    if (json) {
        etlrun_out_json(key);
        return;
    }
    size_t shown = key.size <= KEY_SHOWN ? key.size : KEY_SHOWN;
    if (key.data == NULL)
        etlrun_out_string("none");
    else
        etlrun_out_escaped(etl_slice_of(key.data, shown));
    if (shown < key.size) {
        etlrun_out_string("... (");
        etlrun_out_number(key.size);
        etlrun_out_string(" bytes)");
    }
    etlrun_out_string("\n");
}

static void show_flags(bool json, uint32_t flags) {
    bool ascend = (flags & ETL__RUN_VALUES_ASCEND) != 0;
    if (json)
        etlrun_out_string(ascend ? ",\"flags\":[\"values-ascend\"]" : ",\"flags\":[]");
    else
        etlrun_out_string(ascend ? "  flags           values-ascend\n"
                                 : "  flags           none\n");
}

static void show(const struct run_file *file, bool json, etl_slice first, etl_slice last) {
    const struct etl__run_footer *footer = &file->run->footer;
    if (json)
        etlrun_out_string("{\"file\":");
    if (json)
        etlrun_out_json(etl_slice_str(file->name));
    else
        etlrun_out_string(file->name);
    etlrun_out_string(json ? "" : ":\n");
    show_number(json, "version", "format version ", ETL__RUN_VERSION);
    show_flags(json, footer->flags);
    show_number(json, "pairs", "pairs          ", footer->pairs);
    show_number(json, "key_bytes", "bytes of keys  ", footer->key_bytes);
    show_number(json, "value_bytes", "      of values", footer->value_bytes);
    show_number(json, "record_bytes", "      of records", footer->data_end - footer->first_record);
    show_number(json, "file_bytes", "      of the file", file->run->file_size);
    show_number(json, "block_size", "block size     ", ETL__RUN_BLOCK);
    show_number(json, "blocks", "blocks         ", footer->blocks);
    show_number(json, "record_most", "longest record  at most", footer->record_most);
    show_key(json, "first_key", "first key      ", first);
    show_key(json, "last_key", "last key       ", last);
    etlrun_out_string(json ? "}\n" : "");
}

static int info(const char *name, bool json) {
    struct run_file file;
    int status = run_file_open(&file, name);
    if (status != EXIT_SUCCESS)
        return status;
    etl_slice first = {NULL, 0}, last = {NULL, 0};
    int found = file.provider->bounds(file.provider, &first, &last, &file.error);
    if (found == ETL_OK || found == ETL_END)
        show(&file, json, first, last);
    else
        status = run_file_failed(&file, found);
    run_file_close(&file);
    return status;
}

int etlrun_info(int argc, char **argv) {
    static const struct option options[] = {{"json", no_argument, NULL, OPTION_JSON},
                                            ETLRUN_COMMON_OPTIONS};
    bool json = false;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        int end = -1;
        if (option == OPTION_JSON)
            json = true;
        else
            end = etlrun_common_option(option, "info");
        if (end != -1)
            return end;
    }
    if (optind == argc)
        return etlrun_usage("info", "no file was given");
    int status = EXIT_SUCCESS;
    for (int i = optind; i < argc && !etlrun_console.interrupted; i++)
        status = etlrun_worse(status, info(argv[i], json));
    return status;
}
