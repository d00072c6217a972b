/* status.c: statuses as words, failures as sentences. */
#include "status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define ETL__TEXT_OF(x)  ETL__TEXT_OF_(x)
#define ETL__TEXT_OF_(x) #x

const char *etl_version(void) {
    return ETL__TEXT_OF(LIBETL_VERSION_MAJOR) "." ETL__TEXT_OF(
        LIBETL_VERSION_MINOR) "." ETL__TEXT_OF(LIBETL_VERSION_PATCH);
}

static const char unknown[] = "unknown status";

const char *etl_status_string(int status) {
    switch (status) {
    case ETL_OK:
        return "success";
    case ETL_END:
        return "no more pairs";
    case ETL_E_INVALID:
        return "invalid argument";
    case ETL_E_STATE:
        return "not possible in this state";
    case ETL_E_NOMEM:
        return "out of memory";
    case ETL_E_IO:
        return "input/output error";
    case ETL_E_NOSPACE:
        return "no space for temporary files";
    case ETL_E_CORRUPT:
        return "corrupt run file or key";
    case ETL_E_TOO_LARGE:
        return "key or value too large";
    case ETL_E_DUPLICATE:
        return "duplicate key";
    case ETL_E_CANCELLED:
        return "cancelled";
    default:
        return unknown;
    }
}

int etl__fail(struct etl__error *error, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

int etl__status_of_errno(int os_error) {
    switch (os_error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ETL_E_NOSPACE;
    case ENOMEM:
        return ETL_E_NOMEM;
    default:
        return ETL_E_IO;
    }
}

/* strerror_r comes in two kinds: POSIX's fills the buffer, GNU's returns the text. */
static const char *posix_text(int result, const char *buffer) {
    return result == 0 ? buffer : "unknown error";
}

static const char *gnu_text(const char *result, const char *buffer) {
    (void)buffer;
    return result;
}

#define ETL__STRERROR_TEXT(result, buffer) \
    _Generic((result), int : posix_text, default : gnu_text)(result, buffer)

int etl__fail_os(struct etl__error *error, int os_error, const char *operation, const char *path) {
    char buffer[128] = "unknown error";
    return etl__fail(error, etl__status_of_errno(os_error), "%s %s: %s", operation, path,
                     ETL__STRERROR_TEXT(strerror_r(os_error, buffer, sizeof buffer), buffer));
}

int etl__fail_memory(struct etl__error *error, size_t size, const char *what) {
    return etl__fail(error, ETL_E_NOMEM, "no memory: %zu bytes for %s", size, what);
}

int etl__fail_callback(struct etl__error *error, int value, const char *which) {
    error->callback = value;
    if (value < 0 && etl_status_string(value) != unknown) /* such as etl_bytes_append's */
        return etl__fail(error, ETL__E_CALLBACK, "the %s callback returned %d: %s", which, value,
                         etl_status_string(value));
    return etl__fail(error, ETL__E_CALLBACK, "the %s callback returned %d", which, value);
}

bool etl__take_struct(void *complete, size_t size, const void *given) {
    size_t known;
    memcpy(&known, given, sizeof known);
    if (known == 0)
        known = size;
    if (known < sizeof known)
        return false;
    for (size_t i = size; i < known; i++)
        if (((const uint8_t *)given)[i] != 0)
            return false;
    memset(complete, 0, size);
    memcpy(complete, given, known < size ? known : size);
    return true;
}
