/* sort_lines.c: sort(1) for lines in byte order, of any size, in as much memory as you allow.
 *
 *     sort_lines -S 64M -o sorted.txt huge.txt
 *
 * The output is that of `LC_ALL=C sort`, byte for byte, also with -r, -u and -z. A line is a key,
 * its value is nil; libetl does the rest:
 *
 *     files -> next_line -> etl_collect -> (runs in -T) -> etl_load -> write_line -> output
 *
 * Memory   -S is what the program holds in all: one block of 1 MiB, through which the input comes
 *          in and later the output goes out, and the rest for the collector. A line longer than
 *          the block is held whole besides that, while it is read (with -r: twice).
 * Reverse  libetl knows one order, and any other is an encoding of the key: see collect_reversed.
 * -u       lines that are equal are equal to the last byte, so keeping the first is enough.
 * -o       replaces its file only when all is written (output.h), so it may be one of the inputs,
 *          and after a full disk or Ctrl-C it is what it was before. */
#include "output.h"

#include <getopt.h>

enum { EXIT_DISORDER = 1, EXIT_TROUBLE = 2 };
enum { BLOCK = 1 << 20 };

static struct console console = {.program = "sort_lines", .unit = "lines"};

/* ---- Reading: lines as slices of a block that the file is read through */

struct reader {
    const char *name;
    int descriptor;
    unsigned char delimiter;
    bool at_end;           /* of the file: the buffer has what is left of it */
    unsigned char *buffer; /* one block; more while a line is longer than that */
    size_t capacity;       /* of the buffer */
    size_t begin, end;     /* what was read and not yet handed out */
    size_t searched;       /* up to here there is no delimiter */
};

static bool reader_open(struct reader *reader, const char *file) {
    bool is_stdin = strcmp(file, "-") == 0;
    reader->name = file;
    reader->descriptor = is_stdin ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    reader->at_end = false;
    reader->begin = reader->end = reader->searched = 0;
    if (reader->descriptor < 0)
        console_trouble(&console, "cannot read", file);
    return reader->descriptor >= 0;
}

static void reader_close(struct reader *reader) {
    if (reader->descriptor > STDIN_FILENO)
        close(reader->descriptor);
    reader->descriptor = -1;
}

static bool reader_resize(struct reader *reader, size_t capacity) {
    unsigned char *buffer = realloc(reader->buffer, capacity);
    if (buffer == NULL)
        return false;
    reader->buffer = buffer;
    reader->capacity = capacity;
    return true;
}

/* Read up to a block more behind the unfinished line, which moves to the front of the buffer. */
static bool reader_fill(struct reader *reader) {
    size_t size = reader->end - reader->begin;
    if (reader->begin > 0 && size > 0)
        memmove(reader->buffer, reader->buffer + reader->begin, size);
    reader->begin = 0;
    reader->searched = reader->end = size;
    if (size < BLOCK && reader->capacity > BLOCK)
        reader_resize(reader, BLOCK); /* the long line is over: give its memory back */
    if (size == reader->capacity && !reader_resize(reader, size * 2)) {
        console_trouble(&console, "no memory for a long line", reader->name);
        return false;
    }
    size_t room = reader->capacity - size;
    ssize_t got;
    do
        got = read(reader->descriptor, reader->buffer + size, room < BLOCK ? room : BLOCK);
    while (got < 0 && errno == EINTR && !console.interrupted);
    if (got < 0) {
        if (!console.interrupted)
            console_trouble(&console, "read failed", reader->name);
        return false;
    }
    reader->end += (size_t)got;
    reader->at_end = got == 0;
    return true;
}

/* The next line without its delimiter, which the last one of a file may lack. 1; 0 at the end of
 * the file; -1 after a complaint. The line lives until the next call. */
static int next_line(struct reader *reader, etl_slice *line) {
    for (;;) {
        unsigned char *start = reader->buffer + reader->begin;
        unsigned char *stop = memchr(reader->buffer + reader->searched, reader->delimiter,
                                     reader->end - reader->searched);
        if (stop != NULL) {
            *line = etl_slice_of(start, (size_t)(stop - start));
            reader->begin = reader->searched = (size_t)(stop - reader->buffer) + 1;
            return 1;
        }
        if (reader->at_end) {
            *line = etl_slice_of(start, reader->end - reader->begin);
            reader->begin = reader->searched = reader->end;
            return line->size > 0;
        }
        if (!reader_fill(reader))
            return -1;
    }
}

/* ---- Lines to keys and back, for both orders */

typedef int collect_fn(etl_collector *collector, etl_slice line);

static int collect_line(etl_collector *collector, etl_slice line) {
    return etl_collect(collector, line, etl_slice_of(NULL, 0));
}

/* Where sorted lines go. */
struct writer {
    struct output output;
    unsigned char delimiter;
};

static int write_line(void *context, etl_slice key, etl_slice value) {
    struct writer *writer = context;
    (void)value;
    bool good = output_append(&writer->output, key.data, key.size) &&
                output_append(&writer->output, &writer->delimiter, 1);
    return good ? 0 : EXIT_TROUBLE;
}

/* A key whose byte order is the reverse of the line's. Each byte is complemented: large becomes
 * small. But a line must also come behind its own extensions, so it gets a last byte that is
 * larger than whatever may stand in its place: 0xFF. To set that one free the complements of 0 and
 * 1 are two bytes:
 *
 *     line    255 … 2       1        0     end of line
 *     key       0 … FD   FE 00    FE 01    FF
 *
 * The key is written straight into the collector, where it will be sorted. */
enum { KEY_ESCAPE = 0xFE, KEY_END = 0xFF };

static int collect_reversed(etl_collector *collector, etl_slice line) {
    const unsigned char *restrict from = line.data;
    size_t escapes = 0;
    void *key;
    for (size_t i = 0; i < line.size; i++)
        escapes += from[i] < 2;
    int status = etl_reserve(collector, line.size + escapes + 1, 0, &key, NULL);
    if (status != ETL_OK)
        return status;
    unsigned char *restrict to = key;
    if (escapes == 0) {
        for (size_t i = 0; i < line.size; i++)
            to[i] = (unsigned char)~from[i];
        to += line.size;
    } else {
        for (size_t i = 0; i < line.size; i++) {
            if (from[i] < 2)
                *to++ = KEY_ESCAPE;
            *to++ = (unsigned char)(from[i] < 2 ? 1 - from[i] : ~from[i]);
        }
    }
    *to = KEY_END;
    return ETL_OK;
}

static int write_reversed(void *context, etl_slice key, etl_slice value) {
    struct writer *writer = context;
    struct output *output = &writer->output;
    const unsigned char *from = key.data, *end = from + key.size - 1;
    (void)value;
    while (from < end) {
        if (output->used == output->capacity && !output_flush(output))
            return EXIT_TROUBLE;
        unsigned char *to = output->buffer + output->used;
        if (*from == KEY_ESCAPE) {
            *to = (unsigned char)(1 - from[1]);
            from += 2;
            output->used++;
            continue;
        }
        size_t room = output->capacity - output->used, count = (size_t)(end - from);
        count = count < room ? count : room;
        const unsigned char *escape = memchr(from, KEY_ESCAPE, count);
        count = escape != NULL ? (size_t)(escape - from) : count;
        for (size_t i = 0; i < count; i++)
            to[i] = (unsigned char)~from[i];
        from += count;
        output->used += count;
    }
    return output_append(output, &writer->delimiter, 1) ? 0 : EXIT_TROUBLE;
}

/* ---- The two things this program does: sort, and check */

struct options {
    bool unique, reverse, check, quiet, stats;
    unsigned char delimiter;
    size_t memory;
    const char *output;
    const char **temp_dirs; /* NULL: the library's default */
    char *const *files;
    size_t file_count;
};

static void print_stats(const etl_collector *collector) {
    etl_stats stats = {.struct_size = sizeof stats};
    struct console_text lines, spilled, disk, memory, anonymous;
    etl_collector_stats(collector, &stats);
    console_complain(&console,
                     "%s lines, %" PRIu64 " runs, %s spilled, disk %s, memory %s of the collector "
                     "and %s of the process at most",
                     console_count(&lines, stats.pairs), stats.runs,
                     console_bytes(&spilled, stats.spilled_bytes),
                     console_bytes(&disk, stats.disk_bytes_peak),
                     console_bytes(&memory, stats.memory_bytes_peak),
                     console_bytes(&anonymous, console.memory_peak));
}

static bool collect_file(etl_collector *collector, struct reader *reader, const char *file,
                         collect_fn *collect) {
    etl_slice line;
    int got = 0, status = ETL_OK;
    if (!reader_open(reader, file))
        return false;
    while (status == ETL_OK && !console.interrupted && (got = next_line(reader, &line)) > 0)
        status = collect(collector, line);
    reader_close(reader);
    if (status != ETL_OK && !console.interrupted)
        console_complain(&console, "%s: %s", file, etl_collector_message(collector));
    return got == 0 && status == ETL_OK && !console.interrupted;
}

static int sort_files(const struct options *options, struct reader *reader) {
    struct writer writer = {.delimiter = options->delimiter};
    etl_collector *collector = NULL;
    char message[512];
    int result = EXIT_TROUBLE;

    etl_options settings = LIBETL_OPTIONS_INIT;
    settings.memory_limit = options->memory > BLOCK ? options->memory - BLOCK : 1;
    settings.temp_dirs = options->temp_dirs;
    settings.duplicates = options->unique ? ETL_KEEP_FIRST : ETL_KEEP_ALL;
    settings.progress = console_progress;
    settings.progress_ctx = &console;
    settings.label = console.program;

    if (!output_open(&writer.output, &console, options->output))
        goto cleanup;
    if (etl_collector_create_message(&collector, &settings, message, sizeof message) != ETL_OK) {
        console_complain(&console, "%s", message);
        goto cleanup;
    }
    console.collector = collector;
    for (size_t i = 0; i < options->file_count; i++)
        if (!collect_file(collector, reader, options->files[i],
                          options->reverse ? collect_reversed : collect_line))
            goto cleanup;

    console_sample_memory(&console);
    reader_resize(reader, BLOCK);
    writer.output.buffer = reader->buffer; /* idle from now on */
    writer.output.capacity = BLOCK;
    int status = etl_load(collector, options->reverse ? write_reversed : write_line, &writer);
    console_sample_memory(&console);
    if (status < 0 && !console.interrupted)
        console_complain(&console, "%s", etl_collector_message(collector));
    if (status == ETL_OK && !console.interrupted && output_commit(&writer.output))
        result = EXIT_SUCCESS;
    if (options->stats)
        print_stats(collector);

cleanup:
    console.collector = NULL;
    etl_collector_destroy(collector);
    output_close(&writer.output);
    return result;
}

/* As the library compares keys: bytes, then the shorter first. */
static int compare(etl_slice a, etl_slice b) {
    size_t shared = a.size < b.size ? a.size : b.size;
    int order = shared > 0 ? memcmp(a.data, b.data, shared) : 0;
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int check_file(const struct options *options, struct reader *reader, const char *file) {
    unsigned char *copy = NULL; /* of the previous line */
    size_t capacity = 0;
    etl_slice line, previous = {NULL, 0};
    int got, result = EXIT_SUCCESS;
    if (!reader_open(reader, file))
        return EXIT_TROUBLE;
    for (uint64_t number = 1; (got = next_line(reader, &line)) > 0; number++) {
        int order = options->reverse ? compare(line, previous) : compare(previous, line);
        if (number > 1 && (order > 0 || (order == 0 && options->unique))) {
            result = EXIT_DISORDER;
            if (!options->quiet) {
                fprintf(stderr, "%s: %s:%" PRIu64 ": disorder: ", console.program, file, number);
                fwrite(line.data, 1, line.size, stderr);
                fputc(options->delimiter, stderr);
            }
            break;
        }
        if (line.size > capacity) {
            free(copy);
            capacity = line.size * 2;
            copy = malloc(capacity);
            if (copy == NULL) {
                console_trouble(&console, "no memory for a long line", file);
                result = EXIT_TROUBLE;
                break;
            }
        }
        if (line.size > 0)
            memcpy(copy, line.data, line.size);
        previous = etl_slice_of(copy, line.size);
    }
    free(copy);
    reader_close(reader);
    return got < 0 ? EXIT_TROUBLE : result;
}

/* ---- The command line */

static const char help[] =
    "Usage: sort_lines [OPTION]... [FILE]...\n"
    "Write the lines of all files, or of standard input (also \"-\"), in byte order to\n"
    "standard output, as LC_ALL=C sort does.\n"
    "\n"
    "  -r, --reverse                  the other way round\n"
    "  -u, --unique                   only the first of equal lines; with -c: equal lines\n"
    "                                 are out of order too\n"
    "  -z, --zero-terminated          lines end with NUL instead of newline\n"
    "  -o, --output=FILE              write to FILE, which may be an input; it is replaced\n"
    "                                 when all is written, and untouched on failure\n"
    "  -S, --buffer-size=SIZE         memory to use: a number with b (bytes), K, M, G or T;\n"
    "                                 K when there is none; default 256M, at least 2M\n"
    "  -T, --temporary-directory=DIR  where runs go; may be given several times, the next\n"
    "                                 is used when one is full; default $TMPDIR if\n"
    "                                 set and not empty, else /var/tmp, else /tmp\n"
    "  -c, --check                    do not sort: report the first line that is out of order\n"
    "  -C, --check=quiet              the same, without the report\n"
    "      --stats                    tell runs, disk and memory on standard error\n"
    "      --help                     this text\n"
    "\n"
    "Exit status: 0 done, 1 not in order (-c, -C), 2 trouble.\n";

enum { OPTION_STATS = 256, OPTION_HELP };

static const struct option long_options[] = {
    {"reverse", no_argument, NULL, 'r'},
    {"unique", no_argument, NULL, 'u'},
    {"zero-terminated", no_argument, NULL, 'z'},
    {"output", required_argument, NULL, 'o'},
    {"buffer-size", required_argument, NULL, 'S'},
    {"temporary-directory", required_argument, NULL, 'T'},
    {"check", optional_argument, NULL, 'c'},
    {"stats", no_argument, NULL, OPTION_STATS},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* -1: go on; else the exit status. temp_dirs has room for all arguments. */
static int parse_options(struct options *options, const char **temp_dirs, int argc, char **argv) {
    static char *standard_input[] = {"-", NULL};
    size_t temp_dir_count = 0;
    for (int option; (option = getopt_long(argc, argv, "ruzo:S:T:cC", long_options, NULL)) != -1;)
        switch (option) {
        case 'r':
            options->reverse = true;
            break;
        case 'u':
            options->unique = true;
            break;
        case 'z':
            options->delimiter = '\0';
            break;
        case 'o':
            options->output = optarg;
            break;
        case 'S':
            if (!console_parse_size(optarg, &options->memory)) {
                console_complain(&console, "not a size: %s", optarg);
                return EXIT_TROUBLE;
            }
            break;
        case 'T':
            temp_dirs[temp_dir_count++] = optarg;
            options->temp_dirs = temp_dirs;
            break;
        case 'C':
        case 'c':
            options->check = true;
            options->quiet |= option == 'C' || (optarg != NULL && strcmp(optarg, "quiet") == 0);
            break;
        case OPTION_STATS:
            options->stats = true;
            break;
        case OPTION_HELP:
            return fputs(help, stdout) < 0 || fflush(stdout) != 0 ? EXIT_TROUBLE : EXIT_SUCCESS;
        default:
            fputs("Try 'sort_lines --help'.\n", stderr);
            return EXIT_TROUBLE;
        }
    bool any = optind < argc;
    options->files = any ? argv + optind : standard_input;
    options->file_count = any ? (size_t)(argc - optind) : 1;
    if (options->check && (options->file_count > 1 || options->output != NULL)) {
        console_complain(&console, "-c and -C take one file, and no -o");
        return EXIT_TROUBLE;
    }
    /* Better now than hours later. */
    for (size_t i = 0; i < options->file_count; i++)
        if (strcmp(options->files[i], "-") != 0 && access(options->files[i], R_OK) != 0) {
            console_trouble(&console, "cannot read", options->files[i]);
            return EXIT_TROUBLE;
        }
    return -1;
}

int main(int argc, char **argv) {
    struct options options = {.delimiter = '\n', .memory = (size_t)256 << 20};
    struct reader reader = {.descriptor = -1};
    const char **temp_dirs = calloc((size_t)argc + 1, sizeof *temp_dirs);
    int result = EXIT_TROUBLE;
    if (temp_dirs == NULL || !reader_resize(&reader, BLOCK)) {
        console_complain(&console, "no memory");
        goto cleanup;
    }
    result = parse_options(&options, temp_dirs, argc, argv);
    if (result >= 0)
        goto cleanup;
    console.terminal = isatty(STDERR_FILENO) && (options.output != NULL || !isatty(STDOUT_FILENO));
    reader.delimiter = options.delimiter;
    console_catch_signals(&console);
    result = options.check ? check_file(&options, &reader, options.files[0])
                           : sort_files(&options, &reader);

cleanup:
    free(reader.buffer);
    free(temp_dirs);
    return console_exit(&console, result);
}
