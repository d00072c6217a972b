/* How often each word of the input comes, the most frequent first: word_count < text
 *
 * Two rounds: one adds up by word, the other sorts what that gives by its count. */
#include <etl.h>

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Called for counts of one word wherever they meet: in a buffer, between runs, at the end. */
static int add(void *context, etl_slice word, const etl_slice *counts, size_t count,
               etl_bytes *result) {
    uint64_t sum = 0, one;
    (void)context, (void)word;
    for (size_t i = 0; i < count; i++, sum += one)
        memcpy(&one, counts[i].data, sizeof one);
    return etl_bytes_append(result, &sum, sizeof sum);
}

static int collect_words(etl_collector *counts, FILE *in) {
    const uint64_t one = 1;
    char word[256];
    size_t size = 0;
    int c, status = ETL_OK;
    do {
        c = getc(in);
        if (c != EOF && isalnum(c) && size < sizeof word) { /* a longer one is cut in pieces */
            word[size++] = (char)c;
        } else if (size > 0) {
            status = etl_collect(counts, etl_slice_of(word, size), etl_slice_of(&one, sizeof one));
            size = 0;
            if (c != EOF)
                ungetc(c, in);
        }
    } while (c != EOF && status == ETL_OK);
    return status == ETL_OK && !feof(in) ? errno : status;
}

/* An etl_load_fn of the first round, and a caller of the second one's collector. */
static int collect_count(void *by_count, etl_slice word, etl_slice sum) {
    uint8_t key[sizeof(uint64_t)];
    uint64_t count;
    memcpy(&count, sum.data, sizeof count);
    etl_key_put_u64(key, count, ETL_KEY_DESCENDING);
    return etl_collect(by_count, etl_slice_of(key, sizeof key), word); /* ties stay by word */
}

static int print(void *context, etl_slice key, etl_slice word) {
    uint64_t count = 0;
    (void)context;
    int status = etl_key_get_u64(&key, &count, ETL_KEY_DESCENDING);
    if (status == ETL_OK &&
        printf("%" PRIu64 " %.*s\n", count, (int)word.size, (const char *)word.data) < 0)
        status = errno;
    return status;
}

int main(void) {
    etl_options summing = LIBETL_OPTIONS_INIT;
    summing.duplicates = ETL_REDUCE;
    summing.reduce = add;
    etl_collector *counts = NULL, *by_count = NULL;
    int status = etl_collector_create(&counts, &summing);
    if (status == ETL_OK)
        status = etl_collector_create(&by_count, NULL);
    if (status == ETL_OK)
        status = collect_words(counts, stdin);
    if (status == ETL_OK)
        status = etl_load(counts, collect_count, by_count);
    if (status == ETL_OK)
        status = etl_load(by_count, print, NULL);
    if (status == ETL_OK && fflush(stdout) != 0)
        status = errno;
    if (status > 0) /* errno, of what was read or written */
        fprintf(stderr, "word_count: %s\n", strerror(status));
    else if (status != ETL_OK)
        fprintf(stderr, "word_count: %s: %s%s\n", etl_status_string(status),
                etl_collector_message(counts), etl_collector_message(by_count));
    etl_collector_destroy(by_count);
    etl_collector_destroy(counts);
    return status != ETL_OK;
}
