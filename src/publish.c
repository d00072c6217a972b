/* publish.c: a file is written beside its place, comes to the disk, and then takes the place in one
 * step (rename), so that at every moment, and after a crash at any moment, there is the old file
 * or the new one, whole. The directory comes to the disk before the caller is told. */
#include "publish.h"
#include "os.h"

#include <errno.h>

static int check_path(const char *path, struct etl__error *error) {
    size_t length = strlen(path);
    if (length == 0)
        return etl__fail(error, ETL_E_INVALID, "path: it is empty");
    if (path[length - 1] == '/')
        return etl__fail(error, ETL_E_INVALID, "path: %s is the name of a directory", path);
    return ETL_OK;
}

static int check_place(const char *path, struct etl__error *error) {
    int os_error = etl__os_check_replaceable(path);
    if (os_error == EISDIR || os_error == EINVAL)
        return etl__fail(error, ETL_E_INVALID, "write a run file to %s: %s is there", path,
                         os_error == EISDIR ? "a directory" : "what is no regular file");
    return os_error == 0 ? ETL_OK : etl__fail_os(error, os_error, "look at", path);
}

int etl__draft_open(struct etl__draft *draft, const char *path, struct etl__error *error) {
    draft->name[0] = '\0';
    draft->descriptor = draft->directory = -1;
    ETL__TRY(check_path(path, error));
    int os_error = etl__os_absolute(path, draft->path, sizeof draft->path);
    if (os_error != 0)
        return etl__fail_os(error, os_error, "write a run file to", path);
    ETL__TRY(check_place(draft->path, error));
    os_error = etl__os_directory_open(draft->path, &draft->directory);
    if (os_error != 0)
        return etl__fail_os(error, os_error, "open the directory of", draft->path);
    os_error = etl__os_draft_open(draft->path, draft->name, &draft->descriptor);
    if (os_error != 0) {
        draft->descriptor = -1;
        int status = etl__fail_os(error, os_error, "make a file beside", draft->path);
        etl__draft_drop(draft);
        return status;
    }
    return ETL_OK;
}

void etl__draft_drop(struct etl__draft *draft) {
    if (draft->descriptor >= 0)
        (void)etl__os_close(draft->descriptor);
    if (draft->name[0] != '\0')
        (void)etl__os_unlink(draft->name);
    if (draft->directory >= 0)
        (void)etl__os_close(draft->directory);
    draft->descriptor = draft->directory = -1;
    draft->name[0] = '\0';
}

int etl__draft_publish(struct etl__draft *draft, struct etl__error *error) {
    const char *operation;
    int status = ETL_OK, os_error = etl__os_draft_take_place(draft->descriptor, draft->path,
                                                             draft->name, &operation);
    draft->descriptor = -1;
    if (os_error != 0) {
        status = etl__fail_os(error, os_error, operation, draft->path);
    } else {
        os_error = etl__os_directory_sync(draft->directory);
        if (os_error != 0)
            status = etl__fail_os(
                error, os_error,
                "the file is in its place, but may not be after a power failure: sync the "
                "directory of",
                draft->path);
    }
    etl__draft_drop(draft);
    return status;
}

int etl__run_publish(struct etl__run_writer *writer, struct etl__draft *draft, uint64_t expected,
                     etl__produce_fn *produce, void *context, struct etl__error *error) {
    struct etl__disk disk = {.limit = 0};
    int status = etl__target_write_file(writer, draft->descriptor, draft->path, &disk, expected,
                                        produce, context, error);
    if (status == ETL_OK)
        return etl__draft_publish(draft, error);
    etl__draft_drop(draft);
    return status;
}
