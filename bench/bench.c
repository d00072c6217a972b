/* bench.c: the harness of bench.h.
 *
 * Times are kept per run and printed as median and minimum: on a shared machine the mean says more
 * about the neighbours than about the code. A case's run is not repeated inside a measurement, so
 * benchmarks make their runs long enough for the clock (10 microseconds and more). */
#include "bench.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- Options. */

static bool parse_number(const char *text, uint64_t *number) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || errno != 0 || text[0] == '-')
        return false;
    unsigned shift = 0;
    switch (*end) {
    case 'K':
    case 'k':
        shift = 10;
        break;
    case 'M':
    case 'm':
        shift = 20;
        break;
    case 'G':
    case 'g':
        shift = 30;
        break;
    default:
        break;
    }
    end += shift != 0;
    if (*end != '\0' || value > UINT64_MAX >> shift)
        return false;
    *number = (uint64_t)value << shift;
    return true;
}

static void usage(FILE *to, const char *name, const struct bench_flag *flags, size_t count) {
    fprintf(to,
            "%s [--quick] [--csv] [--cpu] [--rounds N] [--dir DIRECTORY]%s\n"
            "  --quick          small sizes, about a second in all\n"
            "  --csv            bench,case,metric,value,unit\n"
            "  --cpu            processor time of all threads, not wall time: for busy machines\n"
            "  --rounds N       runs of each case (default: what fits the time)\n"
            "  --dir DIRECTORY  for files (default: $TMPDIR, /var/tmp or /tmp)\n",
            name, count != 0 ? " [options]" : "");
    for (size_t i = 0; i < count; i++)
        fprintf(to, "  --%-14s %s\n", flags[i].name, flags[i].help);
}

/* --name VALUE and --name=VALUE; *i moves on when the value is an argument of its own. */
static const char *flag_value(const char *name, int argc, char **argv, int *i) {
    const char *argument = argv[*i] + 2;
    size_t size = strlen(name);
    if (strncmp(argument, name, size) != 0)
        return NULL;
    if (argument[size] == '=')
        return argument + size + 1;
    if (argument[size] == '\0' && *i + 1 < argc)
        return argv[++*i];
    return NULL;
}

static bool parse_flag(const struct bench_flag *flag, int argc, char **argv, int *i) {
    const char *value = flag_value(flag->name, argc, argv, i);
    if (value == NULL)
        return false;
    if (flag->string != NULL) {
        *flag->string = value;
        return true;
    }
    return parse_number(value, flag->number);
}

static bool parse_argument(struct bench *bench, const struct bench_flag *flags, size_t flag_count,
                           int argc, char **argv, int *i) {
    const struct bench_flag common[] = {{"rounds", "", &bench->rounds, NULL},
                                        {"dir", "", NULL, &bench->scratch}};
    if (strcmp(argv[*i], "--quick") == 0)
        return bench->quick = true;
    if (strcmp(argv[*i], "--csv") == 0)
        return bench->csv = true;
    if (strcmp(argv[*i], "--cpu") == 0)
        return bench->cpu = true;
    if (strncmp(argv[*i], "--", 2) != 0)
        return false;
    for (size_t f = 0; f < 2; f++)
        if (parse_flag(&common[f], argc, argv, i))
            return true;
    for (size_t f = 0; f < flag_count; f++)
        if (parse_flag(&flags[f], argc, argv, i))
            return true;
    return false;
}

void bench_start(struct bench *bench, const char *name, int argc, char **argv,
                 const struct bench_flag *flags, size_t flag_count) {
    *bench = (struct bench){.name = name};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            usage(stdout, name, flags, flag_count);
            exit(0);
        }
        if (!parse_argument(bench, flags, flag_count, argc, argv, &i)) {
            fprintf(stderr, "%s: what is %s?\n", name, argv[i]);
            usage(stderr, name, flags, flag_count);
            exit(2);
        }
    }
    bench->set_seconds = bench->quick ? 0.02 : 0.5;
    const char *temporary = getenv("TMPDIR");
    if (bench->scratch == NULL && temporary != NULL && temporary[0] != '\0')
        bench->scratch = temporary;
    if (bench->scratch == NULL)
        bench->scratch = access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
    if (bench->csv)
        puts("bench,case,metric,value,unit");
    else
        printf("%s%s%s\n", name, bench->quick ? " (quick: too short to quote)" : "",
               bench->cpu ? " (processor time)" : "");
}

int bench_end(const struct bench *bench) {
    if (fflush(stdout) != 0 || ferror(stdout))
        return 1;
    return bench->failed ? 1 : 0;
}

/* ---- Cases. */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static double run_once(struct bench *bench, const char *set, const struct bench_case *one) {
    if (one->prepare != NULL)
        one->prepare(one->context);
    uint64_t start = bench->cpu ? bench_cpu_ns() : bench_now_ns();
    uint64_t sum = one->run(one->context);
    uint64_t end = bench->cpu ? bench_cpu_ns() : bench_now_ns();
    if (sum != one->expected)
        bench_wrong(bench, set, one->name, sum, one->expected);
    return (double)(end - start) / one->work;
}

static const struct bench_case *case_named(const struct bench_case *cases, size_t count,
                                           const char *name) {
    for (size_t i = 0; name != NULL && i < count; i++)
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    return NULL;
}

static void print_set(const struct bench *bench, const char *set, const struct bench_case *cases,
                      size_t count) {
    if (!bench->csv)
        printf("\n%-36s %12s %12s %6s  %-24s %6s\n", set, "median", "minimum", "runs",
               "compared with", "ratio");
    for (size_t i = 0; i < count; i++) {
        const struct bench_case *one = &cases[i];
        const struct bench_case *base = case_named(cases, count, one->compared_with);
        if (bench->csv) {
            bench_figure(bench, set, one->name, "median", one->median, one->unit);
            bench_figure(bench, set, one->name, "minimum", one->minimum, one->unit);
            bench_figure(bench, set, one->name, "runs", (double)one->runs, "");
            if (base != NULL)
                bench_figure(bench, set, one->name, "ratio", one->median / base->median,
                             base->name);
            continue;
        }
        int digits = one->median < 100 ? 2 : 0;
        printf("  %-25s %-8s %12.*f %12.*f %6zu", one->name, one->unit, digits, one->median,
               digits, one->minimum, one->runs);
        if (base != NULL)
            printf("  %-24s %6.2f", base->name, one->median / base->median);
        putchar('\n');
    }
    fflush(stdout);
}

void bench_compare(struct bench *bench, const char *set, struct bench_case *cases, size_t count) {
    enum { ROUNDS_MAX = 200 };
    double *times = bench_alloc(count * ROUNDS_MAX * sizeof *times);
    for (size_t i = 0; i < count; i++)
        run_once(bench, set, &cases[i]);
    size_t least = bench->rounds != 0 ? (size_t)bench->rounds : bench->quick ? 3 : 5;
    size_t most = bench->rounds != 0 ? (size_t)bench->rounds : ROUNDS_MAX;
    if (least > ROUNDS_MAX)
        least = most = ROUNDS_MAX;
    uint64_t end = bench_now_ns() + (uint64_t)(bench->set_seconds * 1e9);
    size_t round = 0;
    for (; round < least || (round < most && bench_now_ns() < end); round++)
        for (size_t i = 0; i < count; i++)
            times[i * ROUNDS_MAX + round] = run_once(bench, set, &cases[i]);
    for (size_t i = 0; i < count; i++) {
        cases[i].median = bench_median(&times[i * ROUNDS_MAX], round);
        cases[i].minimum = times[i * ROUNDS_MAX];
        cases[i].runs = round;
    }
    free(times);
    print_set(bench, set, cases, count);
}

/* A field of a CSV row: names have commas for people, rows must not. */
static void put_field(const char *text) {
    for (; *text != '\0'; text++)
        if (*text != ',')
            putchar(*text);
}

void bench_figure(const struct bench *bench, const char *set, const char *name, const char *metric,
                  double value, const char *unit) {
    if (!bench->csv) {
        printf("  %-25s %-8s %12.6g  %s%s%s\n", name, "", value, metric,
               unit[0] != '\0' ? ", " : "", unit);
        return;
    }
    printf("%s,", bench->name);
    put_field(set);
    putchar('/');
    put_field(name);
    putchar(',');
    put_field(metric);
    printf(",%.6g,", value);
    put_field(unit);
    putchar('\n');
}

void bench_wrong(struct bench *bench, const char *set, const char *name, uint64_t got,
                 uint64_t expected) {
    fprintf(stderr, "%s: %s, %s: checksum %016llx, expected %016llx\n", bench->name, set, name,
            (unsigned long long)got, (unsigned long long)expected);
    bench->failed = true;
}

void bench_check(int status, const char *what, const char *message) {
    if (status == ETL_OK)
        return;
    fprintf(stderr, "%s: %s%s%s\n", what, etl_status_string(status),
            message != NULL && message[0] != '\0' ? ": " : "", message != NULL ? message : "");
    exit(1);
}

void *bench_alloc(size_t size) {
    void *block = malloc(size != 0 ? size : 1);
    if (block == NULL)
        bench_check(ETL_E_NOMEM, "malloc", NULL);
    memset(block, 0, size);
    return block;
}

/* ---- Processor time and files. */

struct bench_cpu bench_cpu_now(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (struct bench_cpu){
        .user = (double)use.ru_utime.tv_sec + (double)use.ru_utime.tv_usec / 1e6,
        .system = (double)use.ru_stime.tv_sec + (double)use.ru_stime.tv_usec / 1e6,
    };
}

int bench_scratch_file(const struct bench *bench) {
    char path[4096];
    snprintf(path, sizeof path, "%s/bench-XXXXXX", bench->scratch);
    int descriptor = mkstemp(path);
    bench_check(descriptor >= 0 ? ETL_OK : ETL_E_IO, "mkstemp", path);
    unlink(path);
    return descriptor;
}

/* ---- Pairs. */

int bench_load_fold(void *context, etl_slice key, etl_slice value) {
    uint64_t *sum = context;
    *sum = bench_fold_pair(*sum, key, value);
    return 0;
}

/* Written out, which compilers turn into one store. */
static void put_be64(unsigned char *at, uint64_t x) {
    at[0] = (unsigned char)(x >> 56);
    at[1] = (unsigned char)(x >> 48);
    at[2] = (unsigned char)(x >> 40);
    at[3] = (unsigned char)(x >> 32);
    at[4] = (unsigned char)(x >> 24);
    at[5] = (unsigned char)(x >> 16);
    at[6] = (unsigned char)(x >> 8);
    at[7] = (unsigned char)x;
}

void bench_pair(const struct bench_shape *shape, uint64_t i, unsigned char *key,
                unsigned char *value) {
    uint64_t x = i;
    if (shape->order == BENCH_RANDOM) {
        x = i * 6364136223846793005u;
        put_be64(key + 8, x ^ 0xdeadbeefu);
    } else if (shape->order == BENCH_FOUR_VALUES) {
        x = i / 4;
        i = x * 4 + 3 - i % 4;
    }
    put_be64(key, x);
    put_be64(value, i);
}

struct item {
    unsigned char *at;
    const struct bench_shape *shape;
    bool by_value;
};

static int compare_items(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    int order = memcmp(x->at, y->at, x->shape->key_size);
    if (order == 0 && x->by_value)
        order =
            memcmp(x->at + x->shape->key_size, y->at + x->shape->key_size, x->shape->value_size);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

void bench_sorted_make(struct bench_sorted *sorted, const struct bench_shape *shape,
                       bool by_value) {
    size_t size = shape->key_size + shape->value_size, pairs = (size_t)shape->pairs;
    unsigned char *input = bench_alloc(pairs * size);
    struct item *items = bench_alloc(pairs * sizeof *items);
    sorted->bytes = bench_alloc(pairs * size);
    sorted->shape = *shape;
    for (size_t i = 0; i < pairs; i++) {
        unsigned char *at = input + i * size;
        bench_pair(shape, i, at, at + shape->key_size);
        items[i] = (struct item){.at = at, .shape = shape, .by_value = by_value};
    }
    qsort(items, pairs, sizeof *items, compare_items);
    for (size_t i = 0; i < pairs; i++)
        memcpy(sorted->bytes + i * size, items[i].at, size);
    free(items);
    free(input);
    sorted->sum = bench_sorted_scan(sorted);
}

uint64_t bench_sorted_scan(const struct bench_sorted *sorted) {
    size_t key_size = sorted->shape.key_size, value_size = sorted->shape.value_size;
    const unsigned char *at = sorted->bytes;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < sorted->shape.pairs; i++, at += key_size + value_size)
        sum = bench_fold_pair(sum, etl_slice_of(at, key_size),
                              etl_slice_of(at + key_size, value_size));
    return sum;
}

void bench_sorted_free(struct bench_sorted *sorted) {
    free(sorted->bytes);
    sorted->bytes = NULL;
}
