/* word_index_file.h: the index file of word_index, written front to back and read front to back.
 *
 * Every number is a varint: 7 bits a byte, low ones first, 128 added to all but the last byte.
 *
 *     "WORDIDX1"
 *     each file:             size of its path, the path
 *     0
 *     each word, ascending:  size of the word (1 to 255), the word, its places ascending, each as
 *                            the distance to the one before (the first: to -1), then 0
 *     0
 *     how many: files, places, words
 *
 * A place is a file's number (from 0) times 2^40, plus the byte offset in it. Places are close to
 * each other where a word is frequent, so that most distances take two bytes, not eight. */
#ifndef WORD_INDEX_FILE_H
#define WORD_INDEX_FILE_H

#include "output.h"
#include "words.h"

static const char word_index_magic[8] = "WORDIDX1";

struct totals {
    uint64_t files, places, words;
};

/* ---- Writing. What fails returns false, after a complaint.
 *
 *     write_head -> (write_word -> write_place*)* -> write_tail */

struct index_writer {
    struct output output;
    struct totals totals;
    uint64_t last; /* place of this word */
};

static inline bool write_number(struct index_writer *writer, uint64_t number) {
    unsigned char bytes[10];
    size_t size = 0;
    for (; number >= 128; number >>= 7)
        bytes[size++] = (unsigned char)(number | 128);
    bytes[size++] = (unsigned char)number;
    return output_append(&writer->output, bytes, size);
}

static inline bool write_string(struct index_writer *writer, const void *string, size_t size) {
    return write_number(writer, size) && output_append(&writer->output, string, size);
}

static inline bool write_head(struct index_writer *writer, const struct paths *paths) {
    bool good = output_append(&writer->output, word_index_magic, sizeof word_index_magic);
    for (size_t i = 0; good && i < paths->count; i++)
        good = write_string(writer, paths->path[i], strlen(paths->path[i]));
    writer->totals.files = paths->count;
    return good && write_number(writer, 0);
}

static inline bool write_word(struct index_writer *writer, etl_slice word) {
    writer->last = UINT64_MAX; /* -1 */
    return (writer->totals.words++ == 0 || write_number(writer, 0)) &&
           write_string(writer, word.data, word.size);
}

static inline bool write_place(struct index_writer *writer, uint64_t place) {
    uint64_t distance = place - writer->last;
    writer->last = place;
    writer->totals.places++;
    return write_number(writer, distance);
}

static inline bool write_tail(struct index_writer *writer) {
    const struct totals *totals = &writer->totals;
    return (totals->words == 0 || write_number(writer, 0)) && write_number(writer, 0) &&
           write_number(writer, totals->files) && write_number(writer, totals->places) &&
           write_number(writer, totals->words) && output_commit(&writer->output);
}

/* ---- Reading. False: the file is damaged, or cannot be read.
 *
 *     read_head -> (read_word -> read_place*)* -> read_tail */

struct index_reader {
    FILE *file;
    struct paths paths;
    struct totals totals; /* counted while reading */
    unsigned char word[WORD_MAX_SIZE + 1];
    size_t size;
    uint64_t place;
};

static inline bool read_number(struct index_reader *reader, uint64_t *number) {
    int c;
    *number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if ((c = getc_unlocked(reader->file)) == EOF)
            return false;
        *number |= (uint64_t)(c & 127) << shift;
        if (c < 128)
            return true;
    }
    return false;
}

static inline bool read_head(struct index_reader *reader) {
    char text[4097]; /* a path that can be opened is shorter */
    uint64_t size;
    if (fread(text, 1, sizeof word_index_magic, reader->file) != sizeof word_index_magic ||
        memcmp(text, word_index_magic, sizeof word_index_magic) != 0)
        return false;
    while (read_number(reader, &size) && size < sizeof text) {
        if (size == 0)
            return true;
        if (fread(text, 1, size, reader->file) != size)
            return false;
        text[size] = '\0';
        if (!paths_add(&reader->paths, text))
            return false;
        reader->totals.files++;
    }
    return false;
}

/* The next word, which must be behind the last one; size 0 behind the last of all. */
static inline bool read_word(struct index_reader *reader) {
    unsigned char last[WORD_MAX_SIZE];
    size_t last_size = reader->size;
    uint64_t size;
    memcpy(last, reader->word, last_size);
    if (!read_number(reader, &size) || size > WORD_MAX_SIZE ||
        fread(reader->word, 1, size, reader->file) != size)
        return false;
    reader->size = size;
    reader->place = UINT64_MAX; /* -1 */
    reader->totals.words += size > 0;
    int order = memcmp(last, reader->word, last_size < size ? last_size : size);
    return size == 0 || order < 0 || (order == 0 && last_size < size);
}

/* The next place of the word; *more is false behind the last one, of which there must be one. */
static inline bool read_place(struct index_reader *reader, bool *more) {
    uint64_t distance;
    if (!read_number(reader, &distance))
        return false;
    *more = distance > 0;
    if (!*more)
        return reader->place != UINT64_MAX;
    uint64_t last = reader->place;
    reader->place += distance;
    reader->totals.places++;
    return (last == UINT64_MAX || reader->place > last) &&
           reader->place >> OFFSET_BITS < reader->totals.files;
}

static inline bool read_tail(struct index_reader *reader) {
    uint64_t files, places, words;
    return read_number(reader, &files) && files == reader->totals.files &&
           read_number(reader, &places) && places == reader->totals.places &&
           read_number(reader, &words) && words == reader->totals.words &&
           getc(reader->file) == EOF && !ferror(reader->file);
}

#endif
