/* fuzz.h: what the fuzz targets share. A target is one function over a string of bytes: libFuzzer
 * calls it with strings that it makes up, replay.c with the files of a corpus. */
#ifndef LIBETL_TESTS_FUZZ_H
#define LIBETL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A finding: libFuzzer keeps the input of a process that aborts. */
#define FUZZ_CHECK(condition)                                                         \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                  \
        }                                                                             \
    } while (0)

/* The input, taken byte by byte; zeros behind its end. */
struct fuzz_input {
    const uint8_t *at, *end;
};

static inline size_t fuzz_left(const struct fuzz_input *input) {
    return (size_t)(input->end - input->at);
}

static inline unsigned fuzz_byte(struct fuzz_input *input) {
    return input->at < input->end ? *input->at++ : 0u;
}

/* Up to `size` bytes in place; *size becomes how many there are. */
static inline const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t *size) {
    const uint8_t *from = input->at;
    *size = *size < fuzz_left(input) ? *size : fuzz_left(input);
    input->at += *size;
    return from;
}

/* Where runs go: to memory, if the system has a directory there. */
static inline const char *fuzz_directory(void) {
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

#endif
