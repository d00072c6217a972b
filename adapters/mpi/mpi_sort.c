/* mpi_sort.c: sort records that several processes, on one machine or on many, have made.
 *
 *     mpirun -np 4 mpi_sort --records 20000000 --memory 64M --verify
 *
 * Records are those of the sort benchmark (gensort): a key of 10 random bytes and a payload of 90.
 * Each rank makes its share and collects it; one collective load gives each rank its part of the
 * order. --verify holds order, count and checksum of what came out against what went in. */
#include "console.h"
#include "etl_mpi.h"

#include <getopt.h>

enum { KEY_SIZE = 10, VALUE_SIZE = 90, EXIT_DIFFERENT = 1, EXIT_TROUBLE = 2 };

struct settings {
    uint64_t records; /* of all ranks */
    size_t memory, exchange;
    unsigned heavy; /* permille of the records with one key */
    bool verify, csv;
    const char *temp_dirs[2];
};

/* What one rank has to tell; numbers only, so that it can be sent as it is. */
struct account {
    uint64_t collected, delivered;
    uint64_t checksum_in, checksum_out; /* sums of the records' hashes */
    uint64_t collect_ns, load_ns, prepare_ns, split_ns, exchange_ns, idle_ns;
    uint64_t user_ns, system_ns;
    uint64_t bytes_sent, runs, memory_before, memory_peak, library_peak, block_bytes;
    uint64_t disorder;                 /* pairs that came before their predecessor */
    unsigned char first[16], last[16]; /* keys, when there are any */
};

static struct console console = {.program = "mpi_sort", .unit = "records"};

/* ---- Records */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static void make_record(const struct settings *settings, uint64_t number,
                        unsigned char record[KEY_SIZE + VALUE_SIZE]) {
    uint64_t seed = (number + 1) * 0x9E3779B97F4A7C15u, high = mix(seed), low = mix(seed + 1);
    if (low % 1000 < settings->heavy)
        high = low = 0x6862616265626162u;
    memcpy(record, &high, 8);
    memcpy(record + 8, &low, 2);
    snprintf((char *)record + KEY_SIZE, 24, "%022" PRIu64, number);
    memset(record + KEY_SIZE + 22, (int)('A' + number % 26), VALUE_SIZE - 22);
}

/* Whatever order records are in, the sum of their hashes is the same. */
static uint64_t hash_record(const unsigned char *key, const unsigned char *value) {
    uint64_t hash = 0, word;
    memcpy(&word, key, 8);
    hash = mix(word + 1);
    memcpy(&word, key + 2, 8);
    hash = mix(hash ^ word);
    for (size_t i = 0; i < VALUE_SIZE - 2; i += 8) {
        memcpy(&word, value + i, 8);
        hash = (hash ^ word) * 0x9FB21C651E98DF25u;
        hash ^= hash >> 29;
    }
    memcpy(&word, value + VALUE_SIZE - 8, 8);
    return mix(hash ^ word);
}

static int collect_share(etl_collector *collector, const struct settings *settings, int rank,
                         int ranks, struct account *account) {
    unsigned char record[KEY_SIZE + VALUE_SIZE + 1];
    uint64_t from = settings->records / (uint64_t)ranks * (uint64_t)rank;
    uint64_t to = rank + 1 == ranks ? settings->records
                                    : settings->records / (uint64_t)ranks * (uint64_t)(rank + 1);
    for (uint64_t number = from; number < to; number++) {
        make_record(settings, number, record);
        int status = etl_collect(collector, etl_slice_of(record, KEY_SIZE),
                                 etl_slice_of(record + KEY_SIZE, VALUE_SIZE));
        if (status != ETL_OK)
            return status;
        account->collected++;
        if (settings->verify)
            account->checksum_in += hash_record(record, record + KEY_SIZE);
        if (number % 65536 == 0)
            console_sample_memory(&console);
    }
    return ETL_OK;
}

struct receiver {
    struct account *account;
    bool verify;
};

static int receive(void *context, etl_slice key, etl_slice value) {
    struct receiver *receiver = context;
    struct account *account = receiver->account;
    if (account->delivered % 65536 == 0)
        console_sample_memory(&console);
    if (account->delivered++ == 0)
        memcpy(account->first, key.data, KEY_SIZE);
    else if (receiver->verify)
        account->disorder += memcmp(account->last, key.data, KEY_SIZE) > 0;
    if (receiver->verify)
        account->checksum_out += hash_record(key.data, value.data);
    memcpy(account->last, key.data, KEY_SIZE);
    return 0;
}

/* ---- One rank's work */

static uint64_t nanoseconds(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}

static void take_times(struct account *account) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    account->user_ns = nanoseconds(usage.ru_utime) - account->user_ns;
    account->system_ns = nanoseconds(usage.ru_stime) - account->system_ns;
}

static void take_stats(const etl_collector *collector, const etl_mpi_stats *stats,
                       struct account *account) {
    etl_stats own = {.struct_size = sizeof own};
    etl_collector_stats(collector, &own);
    account->runs = own.runs;
    account->library_peak = own.memory_bytes_peak;
    account->prepare_ns = stats->prepare_ns;
    account->split_ns = stats->split_ns;
    account->exchange_ns = stats->exchange_ns;
    account->idle_ns = stats->idle_ns;
    account->bytes_sent = stats->bytes_sent;
    account->block_bytes = stats->block_bytes;
}

/* A status other than ETL_OK ends this program on this rank; with a failure before the collective
 * load, the others would wait for it there: so it goes there in any case, without a callback. */
static int sort_records(etl_collector *collector, const struct settings *settings, int rank,
                        int ranks, struct account *account) {
    struct receiver receiver = {account, settings->verify};
    etl_mpi_stats stats = {.struct_size = sizeof stats};
    etl_mpi_options options = LIBETL_MPI_OPTIONS_INIT;
    options.exchange_memory = settings->exchange;
    options.stats = &stats;
    account->memory_before = console_anonymous_memory();
    take_times(account);
    uint64_t began = console_now_ns();
    int collected = collect_share(collector, settings, rank, ranks, account);
    account->collect_ns = console_now_ns() - began;
    if (collected != ETL_OK)
        console_complain(&console, "rank %d: collecting: %s", rank,
                         etl_collector_message(collector));
    began = console_now_ns();
    int status = etl_mpi_load(collector, MPI_COMM_WORLD, collected == ETL_OK ? receive : NULL,
                              &receiver, &options);
    account->load_ns = console_now_ns() - began;
    take_times(account);
    take_stats(collector, &stats, account);
    account->memory_peak = console.memory_peak;
    if (status != ETL_OK && rank == 0)
        console_complain(&console, "%s: %s", etl_status_string(status),
                         etl_collector_message(collector));
    return status;
}

/* ---- What rank 0 says of all */

static bool check_all(const struct account *accounts, int ranks, struct account *all) {
    const struct account *before = NULL;
    for (int i = 0; i < ranks; i++) {
        const struct account *one = &accounts[i];
        all->collected += one->collected;
        all->delivered += one->delivered;
        all->checksum_in += one->checksum_in;
        all->checksum_out += one->checksum_out;
        all->disorder += one->disorder;
        if (one->delivered == 0)
            continue;
        all->disorder += before != NULL && memcmp(before->last, one->first, KEY_SIZE) > 0;
        before = one;
    }
    return all->collected == all->delivered && all->checksum_in == all->checksum_out &&
           all->disorder == 0;
}

static double seconds(uint64_t ns) {
    return (double)ns / 1e9;
}

static void print_rank(int rank, const struct account *one) {
    struct console_text in, out, peak, before, counted;
    printf(
        "rank %d: %s collected, %s delivered, %" PRIu64 " runs; collect %.1f s, prepare %.1f s, "
        "split %.2f s, exchange %.1f s (idle %.1f s)\n"
        "    anonymous memory: %s at most, %s of it before; the library counted %s\n",
        rank, console_count(&in, one->collected), console_count(&out, one->delivered), one->runs,
        seconds(one->collect_ns), seconds(one->prepare_ns), seconds(one->split_ns),
        seconds(one->exchange_ns), seconds(one->idle_ns), console_bytes(&peak, one->memory_peak),
        console_bytes(&before, one->memory_before), console_bytes(&counted, one->library_peak));
}

static void print_all(const struct settings *settings, const struct account *accounts, int ranks,
                      const struct account *all, bool good) {
    struct console_text text;
    for (int i = 0; i < ranks; i++)
        print_rank(i, &accounts[i]);
    if (settings->verify)
        printf("verified: %s records in order over %d ranks: %s (checksum %016" PRIx64
               " in, %016" PRIx64 " out, %" PRIu64 " out of order)\n",
               console_count(&text, all->delivered), ranks, good ? "good" : "WRONG",
               all->checksum_in, all->checksum_out, all->disorder);
    else
        printf("%s records over %d ranks\n", console_count(&text, all->delivered), ranks);
}

/* One line for docs/SCALING.md: sums over ranks, and the largest where it says so. */
static void print_csv(const struct settings *settings, const struct account *accounts, int ranks) {
    uint64_t user = 0, system = 0, sent = 0, largest = 0, elapsed = 0, peak = 0;
    for (int i = 0; i < ranks; i++) {
        const struct account *one = &accounts[i];
        uint64_t added = one->memory_peak - one->memory_before;
        user += one->user_ns;
        system += one->system_ns;
        sent += one->bytes_sent;
        largest = one->delivered > largest ? one->delivered : largest;
        elapsed =
            one->collect_ns + one->load_ns > elapsed ? one->collect_ns + one->load_ns : elapsed;
        peak = added > peak ? added : peak;
    }
    double count = (double)settings->records;
    printf("ranks,records,memory,block,seconds,user_ns_per_record,system_ns_per_record,"
           "bytes_sent_per_record,largest_share,most_added_memory\n"
           "%d,%" PRIu64 ",%zu,%" PRIu64 ",%.2f,%.1f,%.1f,%.1f,%.3f,%" PRIu64 "\n",
           ranks, settings->records, settings->memory, accounts[0].block_bytes, seconds(elapsed),
           (double)user / count, (double)system / count, (double)sent / count,
           (double)largest * ranks / count, peak);
}

static int report(const struct settings *settings, const struct account *mine, int rank,
                  int ranks) {
    struct account *accounts = calloc((size_t)ranks, sizeof *accounts), all = {.disorder = 0};
    if (accounts == NULL)
        MPI_Abort(MPI_COMM_WORLD, EXIT_TROUBLE);
    MPI_Allgather(mine, sizeof *mine, MPI_BYTE, accounts, sizeof *mine, MPI_BYTE, MPI_COMM_WORLD);
    bool good = check_all(accounts, ranks, &all);
    if (rank == 0 && settings->csv)
        print_csv(settings, accounts, ranks);
    else if (rank == 0)
        print_all(settings, accounts, ranks, &all, good);
    free(accounts);
    return !settings->verify || good ? EXIT_SUCCESS : EXIT_DIFFERENT;
}

/* ---- The command line */

static const char help[] =
    "Usage: mpirun -np RANKS mpi_sort [OPTION]...\n"
    "Sort records of 100 bytes that all ranks have made.\n"
    "\n"
    "  --records N     of all ranks together (default 1000000)\n"
    "  --memory SIZE   for each rank: a number with b, K, M, G or T (default 64M)\n"
    "  --exchange SIZE of it for what is on its way (default a quarter)\n"
    "  --temp-dir DIR  where runs go (default $TMPDIR if set and not empty, else\n"
    "                  /var/tmp, else /tmp)\n"
    "  --heavy N       permille of the records that have one key (default 0)\n"
    "  --verify        hold order, count and checksum against what was made\n"
    "  --csv           one line of measurements\n"
    "  --help          this text\n"
    "\n"
    "Exit status: 0 done, 1 the output is wrong (--verify), 2 trouble.\n";

static bool parse_number(const char *text, uint64_t most, uint64_t *number) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *number = value;
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && value <= most;
}

/* -1: go on; else the exit status. Only rank 0 complains. */
static int parse_options(struct settings *settings, int argc, char **argv, int rank) {
    enum { RECORDS = 256, MEMORY, EXCHANGE, TEMP_DIR, HEAVY, VERIFY, CSV, HELP };
    static const struct option options[] = {
        {"records", required_argument, NULL, RECORDS},
        {"memory", required_argument, NULL, MEMORY},
        {"exchange", required_argument, NULL, EXCHANGE},
        {"temp-dir", required_argument, NULL, TEMP_DIR},
        {"heavy", required_argument, NULL, HEAVY},
        {"verify", no_argument, NULL, VERIFY},
        {"csv", no_argument, NULL, CSV},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    opterr = rank == 0;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        uint64_t number = 0;
        bool good = true;
        switch (option) {
        case RECORDS:
            good = parse_number(optarg, UINT64_MAX, &settings->records);
            break;
        case MEMORY:
            good = console_parse_size(optarg, &settings->memory);
            break;
        case EXCHANGE:
            good = console_parse_size(optarg, &settings->exchange);
            break;
        case TEMP_DIR:
            settings->temp_dirs[0] = optarg;
            break;
        case HEAVY:
            good = parse_number(optarg, 1000, &number);
            settings->heavy = (unsigned)number;
            break;
        case VERIFY:
            settings->verify = true;
            break;
        case CSV:
            settings->csv = true;
            break;
        case HELP:
            return rank != 0 || fputs(help, stdout) >= 0 ? EXIT_SUCCESS : EXIT_TROUBLE;
        default:
            return EXIT_TROUBLE;
        }
        if (!good && rank == 0)
            console_complain(&console, "not a number here: %s", optarg);
        if (!good)
            return EXIT_TROUBLE;
    }
    return -1;
}

static int run(const struct settings *settings, int rank, int ranks) {
    char message[512];
    struct account account = {.collected = 0};
    etl_collector *collector;
    etl_options options = LIBETL_OPTIONS_INIT;
    options.memory_limit = settings->memory;
    options.temp_dirs = settings->temp_dirs[0] != NULL ? settings->temp_dirs : NULL;
    options.label = "mpi_sort";
    options.progress = console_progress; /* samples the memory */
    options.progress_ctx = &console;
    if (etl_collector_create_message(&collector, &options, message, sizeof message) != ETL_OK)
        console_complain(&console, "rank %d: %s", rank, message);
    int status = collector != NULL
                     ? sort_records(collector, settings, rank, ranks, &account)
                     : etl_mpi_load(NULL, MPI_COMM_WORLD, NULL, NULL, NULL); /* fails for all */
    etl_collector_destroy(collector);
    return status == ETL_OK ? report(settings, &account, rank, ranks) : EXIT_TROUBLE;
}

int main(int argc, char **argv) {
    struct settings settings = {.records = 1000000, .memory = 64 << 20};
    int given, rank, ranks;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS)
        return EXIT_TROUBLE;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int result = parse_options(&settings, argc, argv, rank);
    if (result < 0)
        result = run(&settings, rank, ranks);
    MPI_Finalize();
    return console_exit(&console, result);
}
