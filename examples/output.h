/* output.h: a file that is whole or not there.
 *
 * Bytes are gathered in a buffer that the caller lends and written beside the file that was asked
 * for; output_commit renames the new file over the old one once it is safe on the disk. So the old
 * one is as it was until then, whatever happens, and may still be read. Its mode and (where
 * allowed) its owner are kept, hard links to it are not; a symbolic link is followed; a device or
 * a pipe is written to as it is.
 *
 *     output_open -> output_append* -> output_commit -> output_close
 *
 * What fails returns false, after a complaint. Closed without a commit, it was never there. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include "console.h"

#include <fcntl.h>
#include <sys/stat.h>

struct output {
    struct console *console;
    unsigned char *buffer; /* lent; in use from the first append to the commit */
    size_t capacity;       /* of the buffer */
    size_t used;
    const char *name; /* for messages */
    int descriptor;
    char *target;    /* the file to be replaced, or NULL: written to directly */
    char *temporary; /* what replaces it */
};

static inline bool output_failed(struct output *output) {
    if (!output->console->interrupted)
        console_trouble(output->console, "write failed", output->name);
    return false;
}

/* Make the new file beside the old one, with its mode and owner. old == NULL: there is none. */
static inline int output_open_beside(struct output *output, const char *file,
                                     const struct stat *old) {
    output->target = old != NULL ? realpath(file, NULL) : strdup(file);
    if (output->target == NULL)
        return -1;
    size_t size = strlen(output->target) + sizeof ".XXXXXX";
    char *name = malloc(size);
    if (name == NULL)
        return -1;
    snprintf(name, size, "%s.XXXXXX", output->target);
    int descriptor = mkstemp(name);
    if (descriptor < 0) {
        free(name);
        return -1;
    }
    output->temporary = name;
    mode_t mask = umask(0);
    umask(mask);
    if (old != NULL && fchown(descriptor, old->st_uid, old->st_gid) != 0)
        errno = 0; /* somebody else's file, in a directory of ours: it becomes ours */
    if (fchmod(descriptor, old != NULL ? old->st_mode & 0777 : 0666 & ~mask) != 0)
        errno = 0; /* a file system without modes */
    return descriptor;
}

/* file == NULL: standard output. Better called before long work, so that a directory that is
 * missing or not writable shows at once; the buffer may be lent later. */
static inline bool output_open(struct output *output, struct console *console, const char *file) {
    struct stat old;
    *output = (struct output){.console = console, .descriptor = STDOUT_FILENO, .name = file};
    if (file == NULL) {
        output->name = "standard output";
        return true;
    }
    bool exists = stat(file, &old) == 0;
    if (exists && !S_ISREG(old.st_mode))
        output->descriptor = open(file, O_WRONLY | O_CLOEXEC);
    else
        output->descriptor = output_open_beside(output, file, exists ? &old : NULL);
    if (output->descriptor < 0)
        console_trouble(console, "cannot write", file);
    return output->descriptor >= 0;
}

static inline bool output_write(struct output *output, const unsigned char *data, size_t size) {
    while (size > 0) {
        ssize_t wrote = write(output->descriptor, data, size);
        if (output->console->interrupted || (wrote < 0 && errno != EINTR))
            return output_failed(output);
        data += wrote > 0 ? wrote : 0;
        size -= wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}

static inline bool output_flush(struct output *output) {
    size_t size = output->used;
    output->used = 0;
    return output_write(output, output->buffer, size);
}

static inline bool output_append(struct output *output, const void *data, size_t size) {
    if (size > output->capacity - output->used && !output_flush(output))
        return false;
    if (size > output->capacity)
        return output_write(output, data, size);
    if (size > 0)
        memcpy(output->buffer + output->used, data, size);
    output->used += size;
    return true;
}

static inline bool output_commit(struct output *output) {
    if (!output_flush(output))
        return false;
    bool good = output->temporary == NULL || fsync(output->descriptor) == 0;
    good = close(output->descriptor) == 0 && good;
    output->descriptor = -1;
    if (!good || (output->temporary != NULL && rename(output->temporary, output->target) != 0))
        return output_failed(output);
    free(output->temporary);
    output->temporary = NULL;
    return true;
}

static inline void output_close(struct output *output) {
    if (output->descriptor > STDERR_FILENO)
        close(output->descriptor);
    if (output->temporary != NULL)
        unlink(output->temporary);
    free(output->temporary);
    free(output->target);
}

#endif
