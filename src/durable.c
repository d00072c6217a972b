/* durable.c: a directory of checkpoints.
 *
 *     etl-lock                locked by who has the directory; never removed, its bytes are none
 *     etl-manifest            the last checkpoint: names its runs, has the token
 *     etl-0123456789abcdef.run    runs
 *     etl-0123456789abcdef.tmp    drafts: of a manifest or a run that has not taken its name
 *
 * A checkpoint is made by one rename, of a manifest that is on the disk whole, naming runs that
 * are on the disk whole, under names that are on the disk. The order of these syncs is all there is
 * to it, as in any log or database that commits by a file's name; docs/CHECKPOINTS.md goes through
 * what a crash leaves at each point.
 *
 * What goes, goes last: files that a newer manifest does not name are removed only when it has come
 * to the disk. That holds for restoring too: the manifest that is read may have been renamed by a
 * process that was killed before it synced the directory, so the directory is synced before
 * anything is removed. */
#include "durable.h"
#include "publish.h"
#include <errno.h>
#include <stdio.h>

enum { LONGEST_NAME = 32, DIGITS = 16 };

static bool is_used(const struct etl__manifest *manifest, uint64_t file) {
    for (size_t i = 0; i < manifest->run_count; i++)
        if (manifest->runs[i].file == file)
            return true;
    return false;
}

/* ---- The lock ---- */

static int hold(struct etl__durable *durable, struct etl__error *error) {
    char path[ETL__OS_PATH + LONGEST_NAME];
    snprintf(path, sizeof path, "%s/etl-lock", durable->directory);
    int os_error = etl__os_hold(path, &durable->lock);
    if (os_error == EBUSY)
        return etl__fail(error, ETL_E_STATE,
                         "the checkpoints in %s are in use by another collector or process",
                         durable->directory);
    return os_error == 0 ? ETL_OK : etl__fail_os(error, os_error, "lock", path);
}

static int make_directory(struct etl__durable *durable, const char *directory,
                          struct etl__error *error) {
    int os_error = etl__os_absolute(directory, durable->directory, ETL__OS_PATH - LONGEST_NAME);
    if (os_error == 0)
        os_error = etl__os_directory_make(durable->directory, &durable->made);
    if (os_error != 0)
        return etl__fail_os(error, os_error, "directory of checkpoints", directory);
    snprintf(durable->manifest, sizeof durable->manifest, "%.*s/etl-manifest",
             ETL__OS_PATH - LONGEST_NAME, durable->directory);
    return hold(durable, error);
}

int etl__durable_open(struct etl__durable **out, const etl_allocator *hook, const char *directory,
                      struct etl__error *error) {
    struct etl__memory memory;
    etl__memory_init(&memory, hook, SIZE_MAX);
    struct etl__durable *durable = etl__alloc_zeroed(&memory, sizeof *durable);
    *out = NULL;
    if (durable == NULL)
        return etl__fail_memory(error, sizeof *durable, "a directory of checkpoints");
    etl__memory_init(&durable->memory, hook, SIZE_MAX);
    durable->lock = -1;
    int status = make_directory(durable, directory, error);
    if (status != ETL_OK) {
        etl__durable_close(durable);
        return status;
    }
    *out = durable;
    return ETL_OK;
}

void etl__durable_close(struct etl__durable *durable) {
    if (durable == NULL)
        return;
    struct etl__memory memory;
    etl__memory_init(&memory, &durable->memory.heap.hook, SIZE_MAX);
    if (durable->lock >= 0)
        etl__os_release(durable->lock);
    etl__manifest_free(&durable->restored, &durable->memory);
    etl__memory_end(&durable->memory);
    etl__free(&memory, durable, sizeof *durable);
    etl__memory_end(&memory);
}

/* ---- Reading ---- */

/* What stands in the directory that `path` is in stays there without power. One that may not be
 * read (such as /home, of which this user is given a part) is its owner's to sync. */
static int sync_names(const char *path, bool is_ours, struct etl__error *error) {
    int descriptor, os_error = etl__os_directory_open(path, &descriptor);
    if (os_error == EACCES && !is_ours)
        return ETL_OK;
    if (os_error == 0) {
        os_error = etl__os_directory_sync(descriptor);
        (void)etl__os_close(descriptor);
    }
    return os_error == 0 ? ETL_OK : etl__fail_os(error, os_error, "sync the directory of", path);
}

int etl__durable_read(struct etl__durable *durable, struct etl__error *error) {
    int descriptor, os_error = etl__os_open_regular(durable->manifest, &descriptor);
    if (os_error ==
        ENOENT) { /* the directory may be new, made by this process or an earlier one */
        ETL__TRY(sync_names(durable->directory, durable->made, error));
        return ETL_END;
    }
    if (os_error != 0)
        return etl__fail_os(error, os_error, "open", durable->manifest);
    int status = etl__manifest_read(&durable->restored, &durable->memory, descriptor,
                                    durable->manifest, error);
    (void)etl__os_close(descriptor);
    if (status == ETL_OK)
        status = sync_names(durable->manifest, true, error);
    durable->number = durable->restored.number;
    return status;
}

void etl__durable_forget_token(struct etl__durable *durable) {
    etl__manifest_free(&durable->restored, &durable->memory);
    etl__memory_trim(&durable->memory);
}

/* ---- Writing ---- */

int etl__durable_publish(struct etl__durable *durable, const struct etl__manifest *manifest,
                         bool *tried, struct etl__error *error) {
    struct etl__draft draft;
    *tried = false;
    ETL__TRY(etl__draft_open(&draft, durable->manifest, error));
    int status = etl__manifest_write(manifest, draft.descriptor, draft.path, error);
    if (status == ETL_OK) { /* the names of the runs, before anything names them */
        int os_error = etl__os_directory_sync(draft.directory);
        if (os_error != 0)
            status = etl__fail_os(error, os_error, "sync the directory of", draft.path);
    }
    if (status != ETL_OK) {
        etl__draft_drop(&draft);
        return status;
    }
    *tried = true;
    status = etl__draft_publish(&draft, error);
    if (status == ETL_OK)
        durable->number = manifest->number;
    else
        durable->litter = true;
    return status;
}

/* ---- Removing ---- */

/* "etl-", 16 digits, and one of two endings: the number and whether it is a run's. */
static bool is_ours(const char *name, uint64_t *file, bool *is_run) {
    if (strlen(name) != 4 + DIGITS + 4 || memcmp(name, "etl-", 4) != 0)
        return false;
    *file = 0;
    for (const char *at = name + 4; at < name + 4 + DIGITS; at++) {
        bool is_digit = *at >= '0' && *at <= '9';
        if (!is_digit && (*at < 'a' || *at > 'f'))
            return false;
        *file = *file << 4 | (uint64_t)(is_digit ? *at - '0' : *at - 'a' + 10);
    }
    *is_run = strcmp(name + 4 + DIGITS, ".run") == 0;
    return *is_run || strcmp(name + 4 + DIGITS, ".tmp") == 0;
}

struct sweep {
    struct etl__durable *durable;
    const struct etl__manifest *manifest;
};

static void remove_unnamed(void *context, const char *name) {
    const struct sweep *sweep = context;
    char path[ETL__OS_PATH + LONGEST_NAME];
    uint64_t file;
    bool is_run;
    if (!is_ours(name, &file, &is_run) || (is_run && is_used(sweep->manifest, file)))
        return;
    snprintf(path, sizeof path, "%s/%s", sweep->durable->directory, name);
    int os_error = etl__os_unlink(path);
    if (os_error != 0 && os_error != ENOENT)
        sweep->durable->litter = true;
}

void etl__durable_sweep(struct etl__durable *durable, const struct etl__manifest *manifest) {
    struct sweep sweep = {durable, manifest};
    durable->litter = false;
    if (etl__os_directory_list(durable->directory, remove_unnamed, &sweep) != 0)
        durable->litter = true;
}
