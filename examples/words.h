/* words.h: what the two indexes of words share: the files below some directories, and the words in
 * them.
 *
 * A word is [A-Za-z_][A-Za-z0-9_]*, upper and lower case apart, at most 255 bytes: what is longer
 * is data, not text, and left out. A place is a file's number times 2^40, plus a byte offset; as
 * the value of a pair it is eight bytes, big-endian, whose byte order is that of the places. */
#ifndef WORDS_H
#define WORDS_H

#include "console.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { WORD_MAX_SIZE = 255, OFFSET_BITS = 40, PLACE_SIZE = 8 };

/* ---- Files */

struct paths {
    char **path; /* by file number */
    size_t count, capacity;
};

static inline bool paths_add(struct paths *paths, const char *path) {
    if (paths->count == paths->capacity) {
        size_t capacity = paths->capacity > 0 ? paths->capacity * 2 : 64;
        char **more = realloc(paths->path, capacity * sizeof *more);
        if (more == NULL)
            return false;
        paths->path = more;
        paths->capacity = capacity;
    }
    paths->path[paths->count] = strdup(path);
    return paths->path[paths->count] != NULL && ++paths->count > 0;
}

static inline void paths_free(struct paths *paths) {
    for (size_t i = 0; i < paths->count; i++)
        free(paths->path[i]);
    free(paths->path);
}

/* Takes one file; anything but ETL_OK ends the walk, which returns it. */
typedef int walk_fn(void *context, const char *path);

struct walk {
    struct console *console;
    walk_fn *file;
    void *context;
    uint64_t skipped; /* files and directories that could not be looked at */
};

static inline void walk_skip(struct walk *walk, const char *path) {
    console_trouble(walk->console, "skipped", path);
    walk->skipped++;
}

/* All regular files at and below path, in the order of their names, so that the index is the same
 * wherever the files are copied. Symbolic links are not followed, and so cannot lead in circles;
 * only what the command line names may be one. */
static inline int walk_files(struct walk *walk, const char *path, bool named) {
    struct stat info;
    struct dirent **entries = NULL;
    if ((named ? stat(path, &info) : lstat(path, &info)) != 0) {
        walk_skip(walk, path);
        return ETL_OK;
    }
    if (S_ISREG(info.st_mode))
        return walk->file(walk->context, path);
    if (!S_ISDIR(info.st_mode))
        return ETL_OK;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0)
        walk_skip(walk, path);
    int status = ETL_OK;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (status == ETL_OK && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            size_t size = strlen(path) + strlen(name) + 2;
            char *below = malloc(size);
            status = ETL_E_NOMEM;
            if (below != NULL) {
                bool slash = path[strlen(path) - 1] == '/';
                snprintf(below, size, "%s%s%s", path, slash ? "" : "/", name);
                status = walk_files(walk, below, false);
            }
            free(below);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* ---- Words */

static inline void place_put(unsigned char *bytes, uint64_t place) {
    for (int i = 0; i < PLACE_SIZE; i++)
        bytes[i] = (unsigned char)(place >> (56 - 8 * i));
}

static inline uint64_t place_of(etl_slice value) {
    const unsigned char *bytes = value.data;
    uint64_t place = 0;
    for (size_t i = 0; i < value.size; i++)
        place = place << 8 | bytes[i];
    return place;
}

static inline bool is_letter(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static inline bool is_digit(unsigned char c) {
    return c >= '0' && c <= '9';
}

struct scan {
    struct console *console;  /* whose interruption ends it */
    etl_collector *collector; /* gets (word, place) */
    unsigned char *block;     /* lent, to read through */
    size_t block_size;
    uint64_t bytes; /* read so far */
};

static inline int scan_word(const struct scan *scan, const unsigned char *word, size_t size,
                            uint64_t place) {
    unsigned char value[PLACE_SIZE];
    if (size == 0 || size > WORD_MAX_SIZE)
        return ETL_OK;
    place_put(value, place);
    return etl_collect(scan->collector, etl_slice_of(word, size),
                       etl_slice_of(value, sizeof value));
}

/* Collect the words of an open file. A word may be cut by the end of a block, so it is gathered
 * byte by byte. *failed: not all of the file could be read; errno says why. */
static inline int scan_words(struct scan *scan, int descriptor, uint64_t file, bool *failed) {
    const uint64_t most = (uint64_t)1 << OFFSET_BITS; /* nothing behind what a place can name */
    unsigned char word[WORD_MAX_SIZE];
    size_t size = 0; /* of the word so far; above WORD_MAX_SIZE it is no word */
    uint64_t offset = 0, base = file << OFFSET_BITS;
    ssize_t got = 0;
    while (offset < most && !scan->console->interrupted) {
        uint64_t left = most - offset;
        got = read(descriptor, scan->block,
                   left < scan->block_size ? (size_t)left : scan->block_size);
        if (got <= 0)
            break;
        for (ssize_t i = 0; i < got; i++, offset++) {
            unsigned char c = scan->block[i];
            if (is_letter(c) || (size > 0 && is_digit(c))) {
                if (size < WORD_MAX_SIZE)
                    word[size] = c;
                size++;
            } else if (size > 0) {
                int status = scan_word(scan, word, size, base + offset - size);
                if (status != ETL_OK)
                    return status;
                size = 0;
            }
        }
        scan->bytes += (uint64_t)got;
    }
    *failed = got < 0;
    return scan_word(scan, word, size, base + offset - size);
}

#endif
