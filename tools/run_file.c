/* run_file.c: see run_file.h. Memory: two buffers of BUFFER bytes, and more while a record is larger.
 */
#include "run_file.h"
#include "key.h"

enum { BUFFER = 1 << 20, WATCH = 1 << 18 /* bytes from one look at the clock to the next */ };

int run_file_failed(struct run_file *file, int status) {
    const char *text = file->error.text;
    if (!etlrun_console.interrupted && !etlrun_complain_of(file->name, text))
        console_complain(&etlrun_console, "%s: %s", file->name, text);
    return status == ETL_E_CORRUPT ? EXIT_NO : EXIT_TROUBLE;
}

int run_file_damaged(struct run_file *file, uint64_t offset, const char *what) {
    return run_file_failed(file, etl__run_corrupt(file->run, offset, what, &file->error));
}

int run_file_open(struct run_file *file, const char *name) {
    static const etl_allocator from_libc = {NULL, NULL};
    int descriptor, os_error = etl__os_open_regular(name, &descriptor);
    if (os_error != 0) {
        console_complain(&etlrun_console, "%s: %s", name,
                         os_error == EINVAL ? "not a regular file" : strerror(os_error));
        return EXIT_TROUBLE;
    }
    etl__os_close(descriptor); /* it was to say what cannot be opened at all, in plain words */
    *file = (struct run_file){.name = name, .whole = true};
    etl__memory_init(&file->memory, &from_libc, SIZE_MAX);
    int status = etl__run_open_named(&file->run, &file->memory, name, false, &file->error);
    if (status == ETL_OK)
        status = etl__provider_file_open(&file->provider, file->run, &file->memory, BUFFER, 0,
                                         &file->error);
    if (status == ETL_OK) {
        file->start = file->end = file->run->footer.first_record;
        return EXIT_SUCCESS;
    }
    status = run_file_failed(file, status);
    run_file_close(file);
    return status;
}

void run_file_close(struct run_file *file) {
    if (file->provider != NULL)
        file->provider->close(file->provider);
    etl__run_close(file->run, &file->memory);
    etl__memory_end(&file->memory);
}

int run_file_seek(struct run_file *file, etl_slice key) {
    int status = file->provider->seek(file->provider, key.data, key.size, &file->error);
    if (status != ETL_OK)
        return run_file_failed(file, status);
    file->start = file->end = etl__provider_file_offset(file->provider);
    file->whole = false;
    return EXIT_SUCCESS;
}

/* What is wrong with the order of a pair and the next one; NULL: nothing. */
static const char *find_disorder(const struct run_file *file, const struct etl__pair *before) {
    const struct etl__pair *pair = &file->pair;
    int order = etl__key_compare(before->key, before->key_size, pair->key, pair->key_size);
    if (order > 0)
        return "order of the keys";
    if (order < 0 || (file->run->footer.flags & ETL__RUN_VALUES_ASCEND) == 0 ||
        before->value == NULL)
        return NULL;
    bool ascend = pair->value != NULL && etl__key_compare(before->value, before->value_size,
                                                          pair->value, pair->value_size) <= 0;
    return ascend ? NULL : "order of the values";
}

int run_file_next(struct run_file *file) {
    const struct etl__run_footer *footer = &file->run->footer;
    struct etl__pair before = file->pair; /* valid: a pair outlives one refill */
    int status = etl__provider_read(file->provider, &file->pair, &file->error);
    if (status == ETL_END && file->whole && file->pairs != footer->pairs)
        return etl__run_corrupt(file->run, footer->data_end, "number of pairs", &file->error);
    if (status != ETL_OK)
        return status;
    file->start = file->end;
    file->end = etl__provider_file_offset(file->provider);
    const char *disorder = file->pairs++ != 0 ? find_disorder(file, &before) : NULL;
    if (disorder != NULL)
        return etl__run_corrupt(file->run, file->start, disorder, &file->error);
    if (file->start / WATCH != file->end / WATCH)
        etlrun_progress(file->name, file->end, footer->data_end);
    return etlrun_console.interrupted ? ETL_E_CANCELLED : ETL_OK;
}
