/* target.c: choosing a directory. Directories are made absolute when the collector is made, so
 * that a later chdir does not move them, and checked then; whether one is full shows when a run is
 * written.
 *
 * In a directory of checkpoints a run is synced and gets its name before it counts as written: by
 * the thread that wrote it, beside the caller's work, and by the descriptor that it was written
 * through, which is the one that surely hears of a write that failed later. */
#include "target.h"
#include "os.h"

#include <stdio.h>
#include <stdlib.h>

enum { LONGEST_PATH = 4096 };

static char *copy_string(struct etl__memory *memory, const char *string) {
    size_t size = strlen(string) + 1;
    char *copy = etl__alloc(memory, size);
    if (copy != NULL)
        memcpy(copy, string, size);
    return copy;
}

static void free_string(struct etl__memory *memory, char *string) {
    if (string != NULL)
        etl__free(memory, string, strlen(string) + 1);
}

static int add_directory(struct etl__target *target, const char *path, struct etl__error *error) {
    char absolute[LONGEST_PATH];
    int failure = etl__os_absolute(path, absolute, sizeof absolute);
    if (failure == 0)
        failure = etl__os_directory_check(absolute);
    if (failure != 0) {
        int status = etl__fail_os(error, failure, "temporary directory", path);
        return status == ETL_E_NOSPACE ? ETL_E_IO : status;
    }
    char *copy = copy_string(target->memory, absolute);
    if (copy == NULL)
        return etl__fail_memory(error, strlen(absolute), "a directory's name");
    target->directories[target->directory_count++] = copy;
    return ETL_OK;
}

static int add_default(struct etl__target *target, struct etl__error *error) {
    const char *from_environment = getenv("TMPDIR");
    if (from_environment != NULL && *from_environment != '\0')
        return add_directory(target, from_environment, error);
    if (add_directory(target, "/var/tmp", error) == ETL_OK)
        return ETL_OK;
    return add_directory(target, "/tmp", error);
}

int etl__target_init(struct etl__target *target, struct etl__memory *memory,
                     const etl_options *options, struct etl__error *error) {
    memset(target, 0, sizeof *target);
    target->memory = memory;
    target->disk.limit = options->disk_limit;
    target->access = options->access;
    size_t count = 0;
    while (options->temp_dirs != NULL && options->temp_dirs[count] != NULL)
        count++;
    size_t capacity = count != 0 ? count : 1;
    target->label = copy_string(memory, options->label != NULL ? options->label : "");
    target->directories = etl__alloc_zeroed(memory, capacity * sizeof *target->directories);
    target->directory_capacity = capacity;
    if (target->label == NULL || target->directories == NULL)
        return etl__fail_memory(error, capacity * sizeof *target->directories, "directory names");
    if (count == 0)
        return add_default(target, error);
    for (size_t i = 0; i < count; i++)
        ETL__TRY(add_directory(target, options->temp_dirs[i], error));
    return ETL_OK;
}

void etl__target_end(struct etl__target *target) {
    for (size_t i = 0; i < target->directory_count; i++)
        free_string(target->memory, target->directories[i]);
    etl__free(target->memory, target->directories,
              target->directory_capacity * sizeof *target->directories);
    free_string(target->memory, target->label);
}

int etl__target_writer(struct etl__target *target, struct etl__run_writer **writer,
                       struct etl__error *error) {
    return etl__run_writer_create(writer, target->memory, &target->disk, target->write_buffer,
                                  target->cancel, error);
}

static int write_to(struct etl__target *target, struct etl__run_writer *writer,
                    const char *directory, uint64_t expected, etl__produce_fn *produce,
                    void *context, struct etl__run **run, struct etl__error *error) {
    int status = etl__run_writer_open(writer, directory, target->label, expected, error);
    if (status == ETL_OK)
        status = produce(context, writer, error);
    if (status == ETL_OK)
        return etl__run_writer_close(writer, target->access, run, error);
    etl__run_writer_abandon(writer);
    return status;
}

/* ---- Files with a name ---- */

void etl__target_go_to(struct etl__target *target, const char *directory, uint64_t next_file) {
    target->durable = directory;
    if (target->access == ETL_ACCESS_MMAP)
        target->access = ETL_ACCESS_READ;
    atomic_store(&target->next_file, next_file);
}

void etl__target_run_path(const struct etl__target *target, uint64_t file,
                          char path[ETL__OS_PATH]) {
    (void)snprintf(path, ETL__OS_PATH, "%s/etl-%016llx.run", target->durable,
                   (unsigned long long)file);
}

/* What cannot be removed now is left to the next checkpoint. */
static void unlink_ours(struct etl__target *target, const char *path) {
    if (etl__os_unlink(path) != 0)
        atomic_store(&target->left_behind, true);
}

int etl__target_write_file(struct etl__run_writer *writer, int descriptor, const char *path,
                           struct etl__disk *disk, uint64_t expected, etl__produce_fn *produce,
                           void *context, struct etl__error *error) {
    ETL__TRY(etl__run_writer_open_file(writer, descriptor, path, disk, expected, error));
    int status = produce(context, writer, error);
    if (status == ETL_OK)
        return etl__run_writer_finish(writer, error);
    etl__run_writer_abandon(writer);
    return status;
}

static int write_named(struct etl__target *target, struct etl__run_writer *writer,
                       uint64_t expected, etl__produce_fn *produce, void *context,
                       struct etl__run **run, struct etl__error *error) {
    char path[ETL__OS_PATH], draft[ETL__OS_PATH];
    const char *operation;
    int descriptor;
    uint64_t file = atomic_fetch_add(&target->next_file, 1);
    etl__target_run_path(target, file, path);
    int os_error = etl__os_draft_open(path, draft, &descriptor);
    if (os_error != 0)
        return etl__fail_os(error, os_error, "make a file beside", path);
    int status = etl__target_write_file(writer, descriptor, path, &target->disk, expected, produce,
                                        context, error);
    if (status != ETL_OK) {
        (void)etl__os_close(descriptor);
        if (draft[0] != '\0')
            unlink_ours(target, draft);
        return status;
    }
    os_error = etl__os_draft_take_place(descriptor, path, draft, &operation);
    if (os_error != 0 && draft[0] != '\0')
        unlink_ours(target, draft);
    if (os_error != 0) {
        status = etl__fail_os(error, os_error, operation, path);
    } else {
        status = etl__run_open_named(run, target->memory, path,
                                     target->access == ETL_ACCESS_MMAP_ALL, error);
        if (status == ETL_OK)
            (*run)->file = file;
        else
            unlink_ours(target, path);
    }
    if (status != ETL_OK)
        etl__disk_give(&target->disk, etl__run_writer_finished(writer));
    return status;
}

/* ---- Files without ---- */

static int write_somewhere(struct etl__target *target, struct etl__run_writer *writer,
                           uint64_t expected, etl__produce_fn *produce, void *context,
                           struct etl__run **run, struct etl__error *error) {
    size_t first = atomic_load_explicit(&target->preferred, memory_order_relaxed);
    int status = ETL_E_NOSPACE;
    for (size_t i = 0; i < target->directory_count && status == ETL_E_NOSPACE; i++) {
        size_t choice = (first + i) % target->directory_count;
        status = write_to(target, writer, target->directories[choice], expected, produce, context,
                          run, error);
        if (status == ETL_OK)
            atomic_store_explicit(&target->preferred, choice, memory_order_relaxed);
    }
    return status;
}

int etl__target_write(struct etl__target *target, struct etl__run_writer *writer,
                      uint64_t expected, etl__produce_fn *produce, void *context,
                      struct etl__run **run, struct etl__error *error) {
    uint64_t written = etl__run_writer_written(writer);
    int status = target->durable != NULL
                     ? write_named(target, writer, expected, produce, context, run, error)
                     : write_somewhere(target, writer, expected, produce, context, run, error);
    atomic_fetch_add(&target->written, etl__run_writer_written(writer) - written);
    return status;
}

void etl__target_drop(struct etl__target *target, struct etl__run *run) {
    bool is_ours = run->path == NULL || run->file != 0; /* else it is the caller's, and its disk */
    uint64_t size = is_ours ? run->file_size : 0;
    if (run->file != 0 && run->is_published)
        atomic_store(&target->left_behind, true);
    else if (run->file != 0)
        unlink_ours(target, run->path);
    etl__run_close(run, target->memory);
    etl__disk_give(&target->disk, size);
}
