/* parallel_index.c: an inverted index of all words in all files below some directories, made by
 * several threads.
 *
 *     parallel_index -j 4 -S 256M -o words.txt /usr/include
 *     parallel_index -j 4 -p 4 --verify -o words.txt /usr/include
 *
 * Each thread takes the next file and collects its words in a collector of its own, so that nothing
 * is shared while collecting but a counter. Then all collectors are read as one:
 *
 *     take_files -> etl_collect   (thread 1, collector 1) \
 *     take_files -> etl_collect   (thread 2, collector 2)  > etl_load_many -> write_place -> file
 *     …                                                   /
 *
 * or, with -p, in parts that etl_split cuts, each iterated by a thread of its own over all
 * collectors into a file of its own. One after the other these files are what the single one would
 * have been, to the byte, since equal keys are never in two parts.
 *
 * Which thread met a file is chance, and the output must not show it: etl_options.order_values puts
 * the places of a word in order, whichever collector they came from. (Where each thread gets a
 * stretch of the input that was fixed before, in the order of the collectors, collection order does
 * it for nothing.)
 *
 * A line for each word: the word, then for each file it is in " path:offset,offset…". */
#include "output.h"
#include "words.h"

#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>

enum { EXIT_DIFFERENT = 1, EXIT_TROUBLE = 2 };
enum { BLOCK = 64 * 1024, THREADS_MOST = 64 };

static struct console console = {.program = "parallel_index", .unit = "words"};
static pthread_mutex_t console_lock = PTHREAD_MUTEX_INITIALIZER;

struct options {
    size_t memory, threads, parts; /* parts 0: one output by one load */
    bool verify, stats;
    const char *output;
    const char **temp_dirs; /* NULL: the library's default */
    char *const *paths;
    size_t path_count;
};

/* ---- Collecting: a collector for each thread */

struct input {
    struct paths paths;
    atomic_size_t next; /* the file to be taken */
};

struct worker {
    pthread_t thread;
    struct input *input;
    struct scan scan; /* with this thread's collector */
    uint64_t skipped;
    int status;
    unsigned char block[BLOCK];
};

static int add_path(void *context, const char *path) {
    if (paths_add(context, path))
        return ETL_OK;
    console_complain(&console, "no memory for paths");
    return ETL_E_NOMEM;
}

static void worker_skip(struct worker *worker, const char *path) {
    pthread_mutex_lock(&console_lock);
    console_trouble(&console, "skipped", path);
    pthread_mutex_unlock(&console_lock);
    worker->skipped++;
}

static void *take_files(void *context) {
    struct worker *worker = context;
    struct input *input = worker->input;
    size_t file;
    while (worker->status == ETL_OK && !console.interrupted &&
           (file = atomic_fetch_add(&input->next, 1)) < input->paths.count) {
        bool failed = false;
        int descriptor = open(input->paths.path[file], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (descriptor >= 0)
            worker->status = scan_words(&worker->scan, descriptor, file, &failed);
        if (descriptor < 0 || failed)
            worker_skip(worker, input->paths.path[file]);
        if (descriptor >= 0)
            close(descriptor);
    }
    return NULL;
}

/* ---- Writing: the pairs of a part as lines */

struct writer {
    pthread_t thread;
    const struct paths *paths;
    struct output output;
    FILE *compare; /* instead of writing: what must be there */
    etl_iter *iter;
    bool threaded;
    int status;
    unsigned char word[WORD_MAX_SIZE]; /* of the line that is being written */
    size_t size;                       /* 0 before the first */
    uint64_t file;                     /* whose offsets are coming */
    unsigned char block[BLOCK];
};

static bool put(struct writer *writer, const void *data, size_t size) {
    unsigned char there[WORD_MAX_SIZE];
    const unsigned char *from = data;
    if (writer->compare == NULL)
        return output_append(&writer->output, data, size);
    for (size_t part; size > 0; size -= part, from += part) {
        part = size < sizeof there ? size : sizeof there;
        if (fread(there, 1, part, writer->compare) != part || memcmp(there, from, part) != 0)
            return false;
    }
    return true;
}

static bool put_string(struct writer *writer, const char *string) {
    return put(writer, string, strlen(string));
}

static bool begin_line(struct writer *writer, etl_slice word) {
    bool good = writer->size == 0 || put_string(writer, "\n");
    memcpy(writer->word, word.data, word.size);
    writer->size = word.size;
    writer->file = UINT64_MAX;
    return good && put(writer, word.data, word.size);
}

/* An etl_load_fn. */
static int write_place(void *context, etl_slice key, etl_slice value) {
    struct writer *writer = context;
    uint64_t place = place_of(value), file = place >> OFFSET_BITS;
    char offset[24];
    bool good = true;
    if (key.size != writer->size || memcmp(key.data, writer->word, key.size) != 0)
        good = begin_line(writer, key);
    bool same_file = file == writer->file;
    if (!same_file)
        good = good && put_string(writer, " ") && put_string(writer, writer->paths->path[file]);
    writer->file = file;
    snprintf(offset, sizeof offset, "%c%" PRIu64, same_file ? ',' : ':',
             place & (((uint64_t)1 << OFFSET_BITS) - 1));
    return good && put_string(writer, offset) ? 0 : EXIT_TROUBLE;
}

static bool end_lines(struct writer *writer) {
    return writer->size == 0 || put_string(writer, "\n");
}

/* One part, from its iterator; it has its thread. */
static void *write_part(void *context) {
    struct writer *writer = context;
    etl_slice key, value;
    while ((writer->status = etl_iter_next(writer->iter, &key, &value)) == ETL_OK)
        if ((writer->status = write_place(writer, key, value)) != 0)
            return NULL;
    if (writer->status == ETL_END)
        writer->status = end_lines(writer) ? ETL_OK : EXIT_TROUBLE;
    return NULL;
}

/* ---- The whole */

struct job {
    const struct options *options;
    struct input input;
    etl_collector *collectors[THREADS_MOST];
    struct worker *workers;
    struct writer *writers;
    size_t writer_count;
    uint64_t skipped;
};

/* What went wrong in a call that gave this status; what a callback returned was told by itself. */
static bool succeeded(const etl_collector *collector, int status) {
    const char *message = etl_collector_message(collector);
    if (status < 0 && !console.interrupted)
        console_complain(&console, "%s", *message != '\0' ? message : etl_status_string(status));
    return status == ETL_OK && !console.interrupted;
}

static bool create_collectors(struct job *job) {
    const struct options *options = job->options;
    char message[512];
    etl_options settings = LIBETL_OPTIONS_INIT;
    settings.memory_limit = options->memory / options->threads;
    settings.temp_dirs = options->temp_dirs;
    settings.order_values = true;
    settings.label = console.program;
    for (size_t i = 0; i < options->threads; i++) {
        job->workers[i].input = &job->input;
        job->workers[i].scan = (struct scan){
            .console = &console, .block = job->workers[i].block, .block_size = BLOCK};
        if (etl_collector_create_message(&job->collectors[i], &settings, message,
                                         sizeof message) != ETL_OK) {
            console_complain(&console, "%s", message);
            return false;
        }
        job->workers[i].scan.collector = job->collectors[i];
    }
    console.collector = job->collectors[0]; /* a signal cancels whatever reads all */
    return true;
}

static bool collect_all(struct job *job) {
    size_t started = 0, count = job->options->threads;
    bool good = true;
    for (; started + 1 < count; started++) /* the last one is this thread */
        if (pthread_create(&job->workers[started].thread, NULL, take_files,
                           &job->workers[started]) != 0)
            break; /* fewer do it too */
    take_files(&job->workers[started]);
    for (size_t i = 0; i < started; i++)
        pthread_join(job->workers[i].thread, NULL);
    for (size_t i = 0; i < count; i++) {
        good = succeeded(job->collectors[i], job->workers[i].status) && good;
        job->skipped += job->workers[i].skipped;
    }
    return good;
}

/* All into the first writer, on this thread. Consumes. */
static bool load_all(struct job *job, struct writer *writer) {
    int status = etl_load_many(job->collectors, job->options->threads, write_place, writer);
    if (status == ETL_OK && !end_lines(writer))
        status = EXIT_TROUBLE;
    return status != EXIT_TROUBLE && succeeded(job->collectors[0], status);
}

/* Opening and closing an iterator counts as using its collectors: both are done here, and only the
 * reading is left to the threads. */
static bool open_parts(struct job *job) {
    etl_slice keys[THREADS_MOST];
    size_t count = 0;
    if (!succeeded(job->collectors[0], etl_split(job->collectors, job->options->threads,
                                                 job->writer_count, keys, &count)))
        return false;
    for (size_t i = 0; i <= count; i++) {
        const etl_range range = {i > 0 ? keys[i - 1] : etl_slice_of(NULL, 0),
                                 i < count ? keys[i] : etl_slice_of(NULL, 0)};
        if (!succeeded(job->collectors[0],
                       etl_iter_open_many(&job->writers[i].iter, job->collectors,
                                          job->options->threads, &range)))
            return false;
    }
    return true; /* with few words some parts have no iterator, and stay empty */
}

static bool load_parts(struct job *job) {
    bool good = open_parts(job);
    for (size_t i = 0; good && i < job->writer_count && job->writers[i].iter != NULL; i++) {
        struct writer *writer = &job->writers[i];
        writer->threaded = pthread_create(&writer->thread, NULL, write_part, writer) == 0;
        if (!writer->threaded)
            write_part(writer);
    }
    for (size_t i = 0; i < job->writer_count; i++)
        if (job->writers[i].threaded)
            pthread_join(job->writers[i].thread, NULL);
    for (size_t i = 0; i < job->writer_count; i++) {
        struct writer *writer = &job->writers[i];
        good = good && writer->status != EXIT_TROUBLE &&
               succeeded(job->collectors[0], writer->status);
        etl_iter_close(writer->iter);
    }
    return good;
}

static const char *part_name(const struct options *options, size_t part, char *room, size_t size) {
    snprintf(room, size, "%s.%zu", options->output, part + 1);
    return options->parts == 0 ? options->output : room;
}

static bool open_outputs(struct job *job, char (*names)[4096]) {
    for (size_t i = 0; i < job->writer_count; i++) {
        struct writer *writer = &job->writers[i];
        writer->paths = &job->input.paths;
        if (!output_open(&writer->output, &console,
                         part_name(job->options, i, names[i], sizeof names[i])))
            return false;
        writer->output.buffer = writer->block;
        writer->output.capacity = BLOCK;
    }
    return true;
}

/* Hold the files, one after the other, against one load by one thread. */
static int verify(struct job *job, char (*names)[4096]) {
    struct writer *writer = calloc(1, sizeof *writer);
    FILE *whole = tmpfile();
    int result = EXIT_TROUBLE;
    for (size_t i = 0; whole != NULL && i < job->writer_count; i++) {
        FILE *part = fopen(part_name(job->options, i, names[i], sizeof names[i]), "rb");
        size_t got;
        while (part != NULL && (got = fread(job->writers[i].block, 1, BLOCK, part)) > 0)
            fwrite(job->writers[i].block, 1, got, whole);
        if (part != NULL)
            fclose(part);
    }
    if (writer == NULL || whole == NULL || fflush(whole) != 0 || ferror(whole)) {
        console_trouble(&console, "cannot verify", job->options->output);
    } else {
        rewind(whole);
        writer->paths = &job->input.paths;
        writer->compare = whole;
        bool same = load_all(job, writer) && getc(whole) == EOF;
        if (!same && !console.interrupted)
            console_complain(&console, "the parts are not what one load gives");
        result = same ? EXIT_SUCCESS : EXIT_DIFFERENT;
    }
    if (whole != NULL)
        fclose(whole);
    free(writer);
    return result;
}

static void report(const struct job *job) {
    struct console_text text;
    uint64_t words = 0, runs = 0, memory = 0;
    for (size_t i = 0; i < job->options->threads; i++) {
        etl_stats stats = {.struct_size = sizeof stats};
        etl_collector_stats(job->collectors[i], &stats);
        words += stats.pairs;
        runs += stats.runs;
        memory += stats.memory_bytes_peak;
    }
    console_complain(&console,
                     "%zu files (%" PRIu64 " skipped), %" PRIu64 " words, %" PRIu64
                     " runs, memory %s of all collectors at most",
                     job->input.paths.count, job->skipped, words, runs,
                     console_bytes(&text, memory));
}

static int make_index(const struct options *options) {
    struct job job = {.options = options};
    struct walk walk = {.console = &console, .file = add_path, .context = &job.input.paths};
    int result = EXIT_TROUBLE, status = ETL_OK;
    job.writer_count = options->parts != 0 ? options->parts : 1;
    job.workers = calloc(options->threads, sizeof *job.workers);
    job.writers = calloc(job.writer_count, sizeof *job.writers);
    char(*names)[4096] = calloc(job.writer_count, sizeof *names);
    for (size_t i = 0; job.writers != NULL && i < job.writer_count; i++)
        job.writers[i].output.descriptor = -1;
    if (job.workers == NULL || job.writers == NULL || names == NULL) {
        console_complain(&console, "no memory");
        goto cleanup;
    }
    for (size_t i = 0; status == ETL_OK && i < options->path_count; i++)
        status = walk_files(&walk, options->paths[i], true);
    job.skipped = walk.skipped;
    if (status != ETL_OK || !open_outputs(&job, names) || !create_collectors(&job) ||
        !collect_all(&job))
        goto cleanup;
    if (options->stats)
        report(&job);
    if (!(options->parts != 0 ? load_parts(&job) : load_all(&job, &job.writers[0])))
        goto cleanup;
    result = EXIT_SUCCESS;
    for (size_t i = 0; i < job.writer_count; i++)
        if (!output_commit(&job.writers[i].output))
            result = EXIT_TROUBLE;
    if (result == EXIT_SUCCESS && options->verify)
        result = verify(&job, names);

cleanup:
    console.collector = NULL;
    for (size_t i = 0; i < options->threads; i++)
        etl_collector_destroy(job.collectors[i]);
    for (size_t i = 0; job.writers != NULL && i < job.writer_count; i++)
        output_close(&job.writers[i].output);
    paths_free(&job.input.paths);
    free(names);
    free(job.writers);
    free(job.workers);
    return result;
}

/* ---- The command line */

static const char help[] =
    "Usage: parallel_index [OPTION]... [FILE OR DIRECTORY]...\n"
    "Write an index of all words in all files below the directories (default /usr/include):\n"
    "a line for each word, with every place it is at.\n"
    "\n"
    "  -j N      threads that read, each with a collector of its own; default 2, at most 64\n"
    "  -p N      write N parts, each by a thread of its own: FILE.1 to FILE.N; one after the\n"
    "            other they are what FILE would be; at most 64\n"
    "  --verify  with -p: hold the parts against one load by one thread\n"
    "  -o FILE   the index (default words.txt)\n"
    "  -S SIZE   memory for sorting, of all threads: a number with b (bytes), K, M, G or T;\n"
    "            K when there is none; default 64M, at least 1M a thread\n"
    "  -T DIR    where runs go; may be given several times, the next is used when one is\n"
    "            full; default $TMPDIR if set and not empty, else /var/tmp, else /tmp\n"
    "  --stats   tell files, words, runs and memory on standard error\n"
    "  --help    this text\n"
    "\n"
    "Exit status: 0 done, 1 the parts differ (--verify), 2 trouble.\n";

enum { OPTION_VERIFY = 256, OPTION_STATS, OPTION_HELP };

static const struct option long_options[] = {
    {"verify", no_argument, NULL, OPTION_VERIFY},
    {"stats", no_argument, NULL, OPTION_STATS},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* 1 to THREADS_MOST */
static bool parse_count(const char *text, size_t *count) {
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    *count = (size_t)number;
    bool good =
        *text >= '0' && *text <= '9' && *end == '\0' && number >= 1 && number <= THREADS_MOST;
    if (!good)
        console_complain(&console, "not a number from 1 to %d: %s", THREADS_MOST, text);
    return good;
}

/* -1: go on; else the exit status. temp_dirs has room for all arguments. */
static int parse_options(struct options *options, const char **temp_dirs, int argc, char **argv) {
    static char *default_paths[] = {"/usr/include", NULL};
    size_t temp_dir_count = 0;
    for (int option; (option = getopt_long(argc, argv, "j:p:o:S:T:", long_options, NULL)) != -1;)
        switch (option) {
        case 'j':
            if (!parse_count(optarg, &options->threads))
                return EXIT_TROUBLE;
            break;
        case 'p':
            if (!parse_count(optarg, &options->parts))
                return EXIT_TROUBLE;
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
        case OPTION_VERIFY:
            options->verify = true;
            break;
        case OPTION_STATS:
            options->stats = true;
            break;
        case OPTION_HELP:
            return fputs(help, stdout) < 0 || fflush(stdout) != 0 ? EXIT_TROUBLE : EXIT_SUCCESS;
        default:
            fputs("Try 'parallel_index --help'.\n", stderr);
            return EXIT_TROUBLE;
        }
    bool any = optind < argc;
    options->paths = any ? argv + optind : default_paths;
    options->path_count = any ? (size_t)(argc - optind) : 1;
    if (options->verify && options->parts == 0) {
        console_complain(&console, "--verify needs -p");
        return EXIT_TROUBLE;
    }
    for (size_t i = 0; i < options->path_count; i++)
        if (access(options->paths[i], R_OK) != 0) {
            console_trouble(&console, "cannot read", options->paths[i]);
            return EXIT_TROUBLE;
        }
    return -1;
}

int main(int argc, char **argv) {
    struct options options = {.memory = 64 << 20, .threads = 2, .output = "words.txt"};
    const char **temp_dirs = calloc((size_t)argc + 1, sizeof *temp_dirs);
    if (temp_dirs == NULL) {
        console_complain(&console, "no memory");
        return EXIT_TROUBLE;
    }
    int result = parse_options(&options, temp_dirs, argc, argv);
    if (result < 0) {
        console_catch_signals(&console);
        result = make_index(&options);
    }
    free(temp_dirs);
    return console_exit(&console, result);
}
