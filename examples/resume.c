/* resume.c: sorts the lines of a big file, and may be killed at any moment: started again, it goes
 * on where its last checkpoint was.
 *
 *     resume [-c SIZE] [-S SIZE] DIRECTORY INPUT OUTPUT
 *
 * Lines may be of any length and hold any bytes; a last one without a newline gets one. INPUT has to
 * be a file, since what was read is skipped by its offset. Built with the other examples, for
 * output.h and console.h.
 *
 * DIRECTORY holds the checkpoints; it is made, and may be removed when OUTPUT is there. There is a
 * checkpoint each SIZE bytes of input (-c, 64M), and one at the end. -S is the memory limit.
 *
 *     etl_restore -> skip what the token says was read
 *                 -> (etl_collect* -> etl_checkpoint)* -> etl_load -> OUTPUT
 *
 * The token is the offset of the first byte that was not read, so it and the pairs are always of
 * the same moment. A start after the end goes on at the end: it writes OUTPUT again, with the lines
 * that INPUT has got since. OUTPUT replaces its file only when it is whole (output.h). */
#include "output.h"

#include <getopt.h>

enum { BLOCK = 1 << 20, EXIT_TROUBLE = 2 };

static struct console console = {.program = "resume", .unit = "lines"};

struct job {
    const char *directory, *input, *output;
    size_t each, memory;
};

static bool trouble(const etl_collector *collector) {
    console_complain(&console, "%s", etl_collector_message(collector));
    return false;
}

static bool checkpoint(etl_collector *collector, const struct job *job, uint64_t offset) {
    int status = etl_checkpoint(collector, job->directory, etl_slice_of(&offset, sizeof offset));
    return status == ETL_OK || trouble(collector);
}

/* Collect the lines from offset on, with a checkpoint now and then and at the end. */
static bool collect(etl_collector *collector, const struct job *job, FILE *input,
                    uint64_t offset) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    uint64_t durable = offset;
    bool good = true;
    while (good && (size = getline(&line, &capacity, input)) >= 0) {
        size_t length = (size_t)size - (line[size - 1] == '\n');
        if (etl_collect(collector, etl_slice_of(line, length), etl_slice_of(NULL, 0)) != ETL_OK)
            good = trouble(collector);
        offset += (uint64_t)size;
        if (good && offset - durable >= job->each) {
            good = checkpoint(collector, job, offset);
            durable = offset;
        }
    }
    free(line);
    if (good && ferror(input)) {
        console_trouble(&console, "read failed", job->input);
        good = false;
    }
    return good && checkpoint(collector, job, offset);
}

static int write_line(void *context, etl_slice key, etl_slice value) {
    (void)value;
    bool good = output_append(context, key.data, key.size) && output_append(context, "\n", 1);
    return good ? 0 : EXIT_TROUBLE;
}

static bool write_sorted(etl_collector *collector, const struct job *job) {
    static unsigned char block[BLOCK];
    struct output output;
    if (!output_open(&output, &console, job->output)) {
        output_close(&output);
        return false;
    }
    output.buffer = block;
    output.capacity = sizeof block;
    int status = etl_load(collector, write_line, &output);
    bool good = status == ETL_OK ? output_commit(&output) : false;
    if (status < 0)
        trouble(collector);
    output_close(&output);
    return good;
}

/* Open the input where the token says; a shorter one than it was is another one. */
static FILE *open_input(const struct job *job, uint64_t offset) {
    FILE *input = fopen(job->input, "rb");
    if (input == NULL) {
        console_trouble(&console, "cannot read", job->input);
        return NULL;
    }
    if (fseeko(input, 0, SEEK_END) != 0 || (uint64_t)ftello(input) < offset ||
        fseeko(input, (off_t)offset, SEEK_SET) != 0) {
        console_complain(&console, "%s has no byte %llu, to which it was read before", job->input,
                         (unsigned long long)offset);
        fclose(input);
        return NULL;
    }
    return input;
}

static bool run(const struct job *job) {
    etl_options options = LIBETL_OPTIONS_INIT;
    etl_collector *collector;
    etl_slice token;
    char message[640];
    uint64_t offset = 0;
    options.memory_limit = job->memory;
    if (etl_restore_message(&collector, &options, job->directory, &token, message,
                            sizeof message) != ETL_OK) {
        console_complain(&console, "%s", message);
        return false;
    }
    if (token.size == sizeof offset) {
        memcpy(&offset, token.data, sizeof offset);
        fprintf(stderr, "resume: going on at byte %llu\n", (unsigned long long)offset);
    }
    FILE *input = open_input(job, offset);
    bool good =
        input != NULL && collect(collector, job, input, offset) && write_sorted(collector, job);
    if (input != NULL)
        fclose(input);
    etl_collector_destroy(collector);
    return good;
}

int main(int argc, char **argv) {
    struct job job = {.each = (size_t)64 << 20, .memory = (size_t)64 << 20};
    int option;
    bool good = true;
    while ((option = getopt(argc, argv, "c:S:")) != -1)
        good &= (option == 'c' || option == 'S') &&
                console_parse_size(optarg, option == 'c' ? &job.each : &job.memory);
    if (!good || argc - optind != 3) {
        fprintf(stderr, "Usage: resume [-c SIZE] [-S SIZE] DIRECTORY INPUT OUTPUT\n");
        return EXIT_TROUBLE;
    }
    job.directory = argv[optind];
    job.input = argv[optind + 1];
    job.output = argv[optind + 2];
    return run(&job) ? EXIT_SUCCESS : EXIT_TROUBLE;
}
