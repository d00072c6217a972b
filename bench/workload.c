/* workload.c: xoshiro256** (Blackman and Vigna, 2018) for what is random, splitmix64 for what is a
 * function of a number. Bytes are written in little-endian order wherever the order shows. */
#include "workload.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ADDRESSES = 10000,
    ADDRESS_SIZE = 20,
    HOSTS = 2000,
    HOST_ROOM = 48,
    VALUE_ROOM = 1024,
    KEY_ROOM = 128,
};

struct host {
    char text[HOST_ROOM];
    size_t size;
};

struct workload {
    char letter;
    uint64_t state[4];
    uint64_t number; /* of the next pair */
    uint64_t distinct;
    uint64_t step; /* E: what the first eight bytes grow by, over 2^32 at most */
    uint64_t head;
    size_t key_size, value_size;
    unsigned char *addresses; /* C */
    struct host *hosts;       /* U */
    unsigned char key[KEY_ROOM];
    unsigned char value[VALUE_ROOM];
};

static const char words[][16] = {
    "news", "sports", "index",  "article", "product", "category", "user",  "profile", "images",
    "api",  "static", "search", "about",   "archive", "blog",     "v1",    "v2",      "2023",
    "2024", "en",     "de",     "shop",    "item",    "details",  "review"};
enum { WORDS = sizeof words / sizeof words[0] };

static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline uint64_t rotate(uint64_t x, unsigned bits) {
    return x << bits | x >> (64 - bits);
}

static inline uint64_t next_random(struct workload *workload) {
    uint64_t *s = workload->state, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

static inline uint64_t random_below(struct workload *workload, uint64_t bound) {
    return ((next_random(workload) >> 32) * bound) >> 32; /* bound below 2^32 */
}

static inline void put(unsigned char *at, uint64_t x) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(at, &x, 8);
#else
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(x >> 8 * i);
#endif
}

static inline void put_big_endian(unsigned char *at, uint64_t x) {
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(x >> (56 - 8 * i));
}

static inline void put_random(struct workload *workload, unsigned char *at, size_t words_of_8) {
    for (size_t i = 0; i < words_of_8; i++)
        put(at + 8 * i, next_random(workload));
}

static void *get_memory(size_t size) {
    void *memory = calloc(1, size);
    if (memory == NULL) {
        fputs("workload: no memory\n", stderr);
        exit(1);
    }
    return memory;
}

static void make_hosts(struct workload *workload) {
    workload->hosts = get_memory(HOSTS * sizeof *workload->hosts);
    for (unsigned i = 0; i < HOSTS; i++) {
        struct host *host = &workload->hosts[i];
        host->size = (size_t)snprintf(host->text, sizeof host->text, "https://www.%c%c%c%s%u.com/",
                                      (char)('a' + mix(i) % 26), (char)('a' + mix(i + 7) % 26),
                                      (char)('a' + mix(i + 9) % 26), words[mix(i + 3) % WORDS], i);
    }
}

static size_t put_word(unsigned char *at, const char *word, char end) {
    size_t size = strlen(word);
    memcpy(at, word, size);
    at[size] = (unsigned char)end;
    return size + 1;
}

static size_t put_decimal(unsigned char *at, uint64_t x) {
    unsigned char digits[20];
    size_t size = 0;
    do {
        digits[size++] = (unsigned char)('0' + x % 10);
        x /= 10;
    } while (x != 0);
    for (size_t i = 0; i < size; i++)
        at[i] = digits[size - 1 - i];
    return size;
}

static size_t put_address(struct workload *workload, unsigned char *key) {
    double z = (double)(next_random(workload) >> 11) * 0x1p-53;
    const struct host *host = &workload->hosts[(size_t)(HOSTS * z * z * z)];
    memcpy(key, host->text, host->size);
    size_t size = host->size;
    uint64_t choice = next_random(workload);
    for (uint64_t segments = 2 + choice % 3; segments > 0; segments--) {
        choice >>= 8;
        size += put_word(key + size, words[(choice & 255) * WORDS >> 8], '/');
    }
    size += put_decimal(key + size, random_below(workload, 1000000));
    memcpy(key + size, ".html", 5);
    return size + 5;
}

static void put_key(struct workload *workload) {
    unsigned char *key = workload->key;
    switch (workload->letter) {
    case 'A':
        put_random(workload, key, 2); /* six bytes more than the key has */
        break;
    case 'C':
        memcpy(key, workload->addresses + ADDRESS_SIZE * random_below(workload, ADDRESSES),
               ADDRESS_SIZE);
        put_random(workload, key + 28, 4);
        break;
    case 'D':
        put(key, mix(random_below(workload, workload->distinct)));
        break;
    case 'E':
        workload->head += 1 + (next_random(workload) >> 32) * workload->step;
        put_big_endian(key, workload->head);
        put_random(workload, key + 8, 3);
        break;
    case 'U':
        workload->key_size = put_address(workload, key);
        break;
    default:
        put_random(workload, key, 4);
        break;
    }
}

static void shape_of(char letter, size_t *key_size, size_t *value_size) {
    static const struct {
        char letter;
        size_t key_size, value_size;
    } shapes[] = {{'A', 10, 90}, {'B', 32, 32},   {'C', 60, 32}, {'D', 8, 8},
                  {'E', 32, 32}, {'F', 32, 1024}, {'U', 54, 16}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (shapes[i].letter == letter) {
            *key_size = shapes[i].key_size;
            *value_size = shapes[i].value_size;
            return;
        }
    }
    fprintf(stderr, "workload: no workload '%c'\n", letter);
    exit(2);
}

uint64_t workload_pairs(char letter, uint64_t data_size) {
    size_t key_size, value_size;
    shape_of(letter, &key_size, &value_size);
    return data_size / (key_size + value_size);
}

struct workload *workload_open(char letter, uint64_t seed, uint64_t data_size) {
    struct workload *workload = get_memory(sizeof *workload);
    workload->letter = letter;
    shape_of(letter, &workload->key_size, &workload->value_size);
    for (unsigned i = 0; i < 4; i++)
        workload->state[i] = mix(seed * 4 + i);
    uint64_t pairs = workload_pairs(letter, data_size != 0 ? data_size : (uint64_t)256 << 20);
    workload->distinct = pairs / 100 + 1;
    workload->step = UINT64_MAX / (pairs + 1) >> 32;
    if (letter == 'C') {
        workload->addresses = get_memory((size_t)ADDRESSES * ADDRESS_SIZE);
        for (uint64_t i = 0; i < (uint64_t)ADDRESSES * ADDRESS_SIZE; i++)
            workload->addresses[i] = (unsigned char)mix(i);
        workload->key[27] = 1;
    } else if (letter == 'U') {
        make_hosts(workload);
    }
    return workload;
}

void workload_close(struct workload *workload) {
    if (workload == NULL)
        return;
    free(workload->addresses);
    free(workload->hosts);
    free(workload);
}

void workload_next(struct workload *workload, struct workload_pair *pair) {
    put_key(workload);
    size_t size = workload->value_size;
    uint64_t number = workload->number++;
    unsigned char *value = workload->value;
    if (size > 128) { /* the first and last words tell pairs apart; filling all would be copying */
        put(value, number);
        put(value + size - 8, number);
    } else {
        for (size_t i = 0; i < size; i += 8)
            put(value + i, number);
    }
    *pair = (struct workload_pair){workload->key, workload->key_size, value, size};
}
