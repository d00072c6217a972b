/* word_index.c: an inverted index of all words in all files below some directories, made with
 * libetl in very little memory.
 *
 *     word_index -S 2M -o words.idx /usr/include
 *     word_index -f size_t -o words.idx
 *
 * An inverted index says of each word where it stands. The files give (word, place) in the order
 * of places; the index needs them in the order of words. That is a sort, mostly of more pairs than
 * memory should hold:
 *
 *     walk_files -> scan_words -> etl_collect(word, place) -> etl_load -> write_pair -> index file
 *
 * words.h says what a word and a place are. libetl keeps equal keys in the order in which they came,
 * so the places of a word ascend without being compared.
 *
 * What is written is small because it is in order: see word_index_file.h. It is read from front to
 * back, once to check it after it was made, and again to look a word up (-f). */
#include "word_index_file.h"

#include <getopt.h>

enum { EXIT_NOT_FOUND = 1, EXIT_TROUBLE = 2 };
enum { BLOCK = 64 * 1024, TOP_MAX = 1000 };

static struct console console = {.program = "word_index", .unit = "words"};

/* ---- Collecting: every word of every file */

struct scanner {
    struct walk walk;
    struct scan scan;
    struct paths paths;
    unsigned char block[BLOCK];
};

static int scan_file(void *context, const char *path) {
    struct scanner *scanner = context;
    bool failed = false;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        walk_skip(&scanner->walk, path);
        return ETL_OK;
    }
    int status = ETL_E_NOMEM;
    if (paths_add(&scanner->paths, path))
        status = scan_words(&scanner->scan, descriptor, scanner->paths.count - 1, &failed);
    else
        console_complain(&console, "no memory for paths");
    if (failed) {
        console_trouble(&console, "read failed", path);
        scanner->walk.skipped++;
    }
    close(descriptor);
    return status;
}

/* ---- The most frequent words */

struct frequent {
    uint64_t count;
    size_t size;
    unsigned char word[WORD_MAX_SIZE];
};

struct top {
    struct frequent *entries; /* descending */
    size_t used, limit;
};

/* Words come in ascending order: one that is as frequent as another goes behind it. */
static void top_add(struct top *top, const unsigned char *word, size_t size, uint64_t count) {
    size_t at = top->used;
    if (count == 0)
        return;
    while (at > 0 && top->entries[at - 1].count < count)
        at--;
    if (at == top->limit)
        return;
    top->used += top->used < top->limit;
    memmove(&top->entries[at + 1], &top->entries[at], (top->used - at - 1) * sizeof *top->entries);
    top->entries[at].count = count;
    top->entries[at].size = size;
    memcpy(top->entries[at].word, word, size);
}

/* ---- Making the index */

/* The loader's context. */
struct indexer {
    struct index_writer writer;
    struct top top;
    unsigned char word[WORD_MAX_SIZE]; /* the one whose places are coming */
    size_t size;                       /* 0 before the first */
    uint64_t count;                    /* of its places so far */
};

static int write_pair(void *context, etl_slice key, etl_slice value) {
    struct indexer *indexer = context;
    uint64_t place = place_of(value);
    if (key.size != indexer->size || memcmp(key.data, indexer->word, key.size) != 0) {
        top_add(&indexer->top, indexer->word, indexer->size, indexer->count);
        memcpy(indexer->word, key.data, key.size);
        indexer->size = key.size;
        indexer->count = 0;
        if (!write_word(&indexer->writer, key))
            return EXIT_TROUBLE;
    }
    indexer->count++;
    return write_place(&indexer->writer, place) ? 0 : EXIT_TROUBLE;
}

struct options {
    size_t memory;
    size_t top;
    const char *output;
    const char *find;       /* a word to look up */
    const char **temp_dirs; /* NULL: the library's default */
    char *const *paths;
    size_t path_count;
};

/* Read an index through and hold it against what was written. */
static bool check_index(const char *file, const struct totals *written) {
    struct index_reader reader = {.file = fopen(file, "rb")};
    bool good = reader.file != NULL && read_head(&reader), more = true;
    while (good && (good = read_word(&reader)) && reader.size > 0)
        for (more = true; good && more;)
            good = read_place(&reader, &more);
    good = good && read_tail(&reader) && reader.totals.files == written->files &&
           reader.totals.places == written->places && reader.totals.words == written->words;
    if (!good)
        console_complain(&console, "%s does not read back as it was written", file);
    if (reader.file != NULL)
        fclose(reader.file);
    paths_free(&reader.paths);
    return good;
}

struct times {
    uint64_t collect, load, verify;
};

static void report(const struct options *options, const struct scanner *scanner,
                   const struct indexer *indexer, const struct times *times) {
    const struct totals *totals = &indexer->writer.totals;
    etl_stats stats = {.struct_size = sizeof stats};
    struct console_text a, b;
    etl_collector_stats(scanner->scan.collector, &stats);
    printf("files            %s (%s; %" PRIu64 " skipped)\n", console_count(&a, totals->files),
           console_bytes(&b, scanner->scan.bytes), scanner->walk.skipped);
    printf("words            %s\n", console_count(&a, totals->places));
    printf("distinct words   %s\n", console_count(&a, totals->words));
    printf("runs             %s (%s spilled)\n", console_count(&a, stats.runs),
           console_bytes(&b, stats.spilled_bytes));
    printf("peak memory      %s in the collector, %s anonymous in the process\n",
           console_bytes(&a, stats.memory_bytes_peak), console_bytes(&b, console.memory_peak));
    printf("peak disk        %s\n", console_bytes(&a, stats.disk_bytes_peak));
    printf("time             collect %.2f s, load %.2f s, verify %.2f s\n",
           (double)times->collect / 1e9, (double)times->load / 1e9, (double)times->verify / 1e9);
    printf(
        "  of which       sort %.2f s, spill %.2f s, merge %.2f s, waiting for the disk %.2f s\n",
        (double)stats.sort_ns / 1e9, (double)stats.spill_ns / 1e9, (double)stats.merge_ns / 1e9,
        (double)stats.wait_ns / 1e9);
    printf("index            %s\n", options->output);
    for (size_t i = 0; i < indexer->top.used; i++) {
        const struct frequent *word = &indexer->top.entries[i];
        printf("%16s %.*s\n", console_count(&a, word->count), (int)word->size, word->word);
    }
}

/* What went wrong in a call that gave this status; what a callback returned was told by itself. */
static void complain_status(const etl_collector *collector, int status) {
    const char *message = etl_collector_message(collector);
    if (status < 0 && !console.interrupted)
        console_complain(&console, "%s", *message != '\0' ? message : etl_status_string(status));
}

static bool write_index(const struct options *options, struct scanner *scanner,
                        struct indexer *indexer) {
    struct index_writer *writer = &indexer->writer;
    if (!output_open(&writer->output, &console, options->output))
        return false;
    writer->output.buffer = scanner->block; /* idle from now on */
    writer->output.capacity = BLOCK;
    if (!write_head(writer, &scanner->paths))
        return false;
    int status = etl_load(scanner->scan.collector, write_pair, indexer);
    if (status != ETL_OK) {
        complain_status(scanner->scan.collector, status);
        return false;
    }
    top_add(&indexer->top, indexer->word, indexer->size, indexer->count);
    return write_tail(writer);
}

static int make_index(const struct options *options) {
    static struct scanner scanner; /* static for its block */
    struct indexer indexer = {.top.limit = options->top};
    struct times times;
    char message[512];
    int result = EXIT_TROUBLE, status = ETL_OK;

    scanner.walk = (struct walk){.console = &console, .file = scan_file, .context = &scanner};
    scanner.scan.console = &console;
    scanner.scan.block = scanner.block;
    scanner.scan.block_size = BLOCK;
    etl_options settings = LIBETL_OPTIONS_INIT;
    settings.memory_limit = options->memory;
    settings.temp_dirs = options->temp_dirs;
    settings.progress = console_progress;
    settings.progress_ctx = &console;
    settings.label = console.program;
    indexer.top.entries = calloc(options->top + 1, sizeof *indexer.top.entries);
    if (indexer.top.entries == NULL) {
        console_complain(&console, "no memory");
        return EXIT_TROUBLE;
    }
    if (etl_collector_create_message(&scanner.scan.collector, &settings, message,
                                     sizeof message) != ETL_OK) {
        console_complain(&console, "%s", message);
        goto cleanup;
    }
    console.collector = scanner.scan.collector;

    uint64_t start = console_now_ns();
    for (size_t i = 0; status == ETL_OK && i < options->path_count; i++)
        status = walk_files(&scanner.walk, options->paths[i], true);
    console_sample_memory(&console);
    times.collect = console_now_ns() - start;
    if (status != ETL_OK) {
        complain_status(scanner.scan.collector, status);
        goto cleanup;
    }
    start = console_now_ns();
    if (!write_index(options, &scanner, &indexer))
        goto cleanup;
    console_sample_memory(&console);
    times.load = console_now_ns() - start;

    start = console_now_ns();
    if (!check_index(options->output, &indexer.writer.totals))
        goto cleanup;
    times.verify = console_now_ns() - start;
    console_clear(&console);
    report(options, &scanner, &indexer, &times);
    result = EXIT_SUCCESS;

cleanup:
    console.collector = NULL;
    etl_collector_destroy(scanner.scan.collector);
    output_close(&indexer.writer.output);
    paths_free(&scanner.paths);
    free(indexer.top.entries);
    return result;
}

/* ---- Using it */

/* Every place of a word, as path:offset. Words ascend: what is behind it need not be read. */
static int find_word(const struct options *options) {
    struct index_reader reader = {.file = fopen(options->output, "rb")};
    size_t size = strlen(options->find);
    if (reader.file == NULL) {
        console_trouble(&console, "cannot read", options->output);
        return EXIT_TROUBLE;
    }
    bool good = read_head(&reader), more, found = false;
    while (good && !found && (good = read_word(&reader)) && reader.size > 0) {
        found = reader.size == size && memcmp(reader.word, options->find, size) == 0;
        for (more = true; good && more;) {
            good = read_place(&reader, &more);
            if (good && more && found)
                printf("%s:%" PRIu64 "\n", reader.paths.path[reader.place >> OFFSET_BITS],
                       reader.place & (((uint64_t)1 << OFFSET_BITS) - 1));
        }
    }
    if (!good)
        console_complain(&console, "%s is not an index, or damaged", options->output);
    fclose(reader.file);
    paths_free(&reader.paths);
    return good ? (found ? EXIT_SUCCESS : EXIT_NOT_FOUND) : EXIT_TROUBLE;
}

static const char help[] =
    "Usage: word_index [OPTION]... [FILE OR DIRECTORY]...\n"
    "   or: word_index [-o FILE] -f WORD\n"
    "Make an index of all words in all files below the directories (default /usr/include),\n"
    "check it, and tell what it took.\n"
    "\n"
    "  -o FILE  the index (default word_index.idx)\n"
    "  -S SIZE  memory for sorting: a number with b (bytes), K, M, G or T; K when there is\n"
    "           none; default 2M, at least 1M\n"
    "  -T DIR   where runs go; may be given several times, the next is used when one is\n"
    "           full; default $TMPDIR if set and not empty, else /var/tmp, else /tmp\n"
    "  -n N     show the N most frequent words, at most 1000 (default 10)\n"
    "  -f WORD  make nothing: print every place of WORD in the index of -o\n"
    "  --help   this text\n"
    "\n"
    "Exit status: 0 done, 1 no such word (-f), 2 trouble.\n";

/* -1: go on; else the exit status. temp_dirs has room for all arguments. */
static int parse_options(struct options *options, const char **temp_dirs, int argc, char **argv) {
    static const struct option long_options[] = {{"help", no_argument, NULL, 'h'},
                                                 {NULL, 0, NULL, 0}};
    static char *default_paths[] = {"/usr/include", NULL};
    size_t temp_dir_count = 0, top = 0;
    for (int option; (option = getopt_long(argc, argv, "o:S:T:n:f:h", long_options, NULL)) != -1;)
        switch (option) {
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
        case 'n':
            top = (size_t)strtoul(optarg, NULL, 10);
            options->top = top < TOP_MAX ? top : TOP_MAX;
            break;
        case 'f':
            options->find = optarg;
            break;
        case 'h':
            return fputs(help, stdout) < 0 ? EXIT_TROUBLE : EXIT_SUCCESS;
        default:
            fputs("Try 'word_index --help'.\n", stderr);
            return EXIT_TROUBLE;
        }
    bool any = optind < argc;
    if (any && options->find != NULL) {
        console_complain(&console, "-f looks into the index that -o names, and takes no %s",
                         argv[optind]);
        return EXIT_TROUBLE;
    }
    options->paths = any ? argv + optind : default_paths;
    options->path_count = any ? (size_t)(argc - optind) : 1;
    for (size_t i = 0; options->find == NULL && i < options->path_count; i++)
        if (access(options->paths[i], R_OK) != 0) {
            console_trouble(&console, "cannot read", options->paths[i]);
            return EXIT_TROUBLE;
        }
    return -1;
}

int main(int argc, char **argv) {
    struct options options = {.memory = 2 << 20, .top = 10, .output = "word_index.idx"};
    const char **temp_dirs = calloc((size_t)argc + 1, sizeof *temp_dirs);
    if (temp_dirs == NULL) {
        console_complain(&console, "no memory");
        return EXIT_TROUBLE;
    }
    int result = parse_options(&options, temp_dirs, argc, argv);
    if (result < 0) {
        console.terminal = isatty(STDERR_FILENO);
        console_catch_signals(&console);
        result = options.find != NULL ? find_word(&options) : make_index(&options);
    }
    free(temp_dirs);
    if (fflush(stdout) != 0 && result == EXIT_SUCCESS) {
        console_trouble(&console, "write failed", "standard output");
        result = EXIT_TROUBLE;
    }
    return console_exit(&console, result);
}
