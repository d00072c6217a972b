/* test_checkpoint_power.c: the power is cut, or the process killed, at each call that changes the
 * disk, through the life of a durable collector: made, spilled, merged, loaded, taken up again.
 * What is restored is the last checkpoint that was told to be complete, or the one that was under
 * way; whatever of the unsynced the disk has kept. And once a process was told what there is, a
 * later cut does not take that back.
 *
 * That the test can fail: on a disk that only pretends one of the four kinds of syncs it must find
 * wrong restores. */
#include "checkpoint_support.h"
#include "power.h"

enum { SEEDS = 3, LIFE_MOST = 100000 };

/* A token: the collector has the counted pairs [from, to). number tells checkpoints apart. */
struct token {
    uint64_t from, to, number;
};

/* What may be restored. */
struct books {
    const char *directory;
    struct token complete, tried;
    etl_collector *collector;
    size_t wrong;
};

static etl_options life_options(void) {
    etl_options options = support_options(MIB);
    options.threads = ETL_THREADS_NONE;
    options.merge_width = 2; /* so that a few runs are merged */
    return options;
}

static int count_load(void *context, etl_slice key, etl_slice value) {
    (void)key, (void)value;
    ++*(uint64_t *)context;
    return 0;
}

static int checkpoint(struct books *books) {
    books->tried.number++;
    int status = etl_checkpoint(books->collector, books->directory,
                                etl_slice_of(&books->tried, sizeof books->tried));
    if (status == ETL_OK)
        books->complete = books->tried;
    return status;
}

static int collect(struct books *books, int pairs) {
    int status = ETL_OK;
    while (pairs-- > 0 && status == ETL_OK) {
        status = counted_collect(books->collector, books->tried.to);
        books->tried.to += status == ETL_OK;
    }
    return status;
}

static int merge(struct books *books) {
    etl_iter *iter;
    int status = etl_iter_open(&iter, books->collector, NULL);
    etl_iter_close(iter);
    return status;
}

static int load(struct books *books) {
    uint64_t count = 0;
    int status = etl_load(books->collector, count_load, &count);
    if (status == ETL_OK)
        books->tried.from = books->tried.to;
    return status;
}

/* Until something fails. c: collect, s: spill, m: merge, l: load, !: checkpoint */
static int live(struct books *books, const char *steps) {
    int status = ETL_OK;
    for (; *steps != '\0' && status == ETL_OK; steps++)
        status = *steps == 'c'   ? collect(books, 3)
                 : *steps == 's' ? etl_flush(books->collector)
                 : *steps == 'm' ? merge(books)
                 : *steps == 'l' ? load(books)
                                 : checkpoint(books);
    return status;
}

/* Take it up: ETL_OK, and a token that may be; or the status. Nothing else is right. */
static int take_up(struct books *books) {
    const etl_options options = life_options();
    etl_slice token;
    int status = etl_restore(&books->collector, &options, books->directory, &token);
    if (status != ETL_OK)
        return status;
    struct token now = {0, 0, 0};
    if (token.size == sizeof now)
        memcpy(&now, token.data, sizeof now);
    if (now.number != books->complete.number && now.number != books->tried.number)
        books->wrong++;
    books->complete = books->tried = now;
    return ETL_OK;
}

/* After a cut: what is there is whole, and can be gone on with. */
static void check(struct books *books) {
    int status = take_up(books);
    struct counted counted = {.next = books->complete.from, .end = books->complete.to};
    if (status == ETL_OK)
        status = etl_load(books->collector, counted_load, &counted);
    books->wrong += status != ETL_OK || counted.next != counted.end || counted.wrong != 0;
    etl_collector_destroy(books->collector);
    books->collector = NULL;
}

static void end_process(struct books *books) {
    etl_collector_destroy(books->collector);
    books->collector = NULL;
}

struct way {
    const char *steps;
    enum power_loss loss;
    uint64_t seed;
    unsigned lacks;
    bool again; /* the first end is a kill, and the power is cut while it is taken up */
};

/* One life, cut at this call (and when taken up, at that one). False where it came to its end. */
static bool cut_life(const struct way *way, size_t call, size_t second, size_t *wrong) {
    struct books books = {.directory = new_directory()};
    power_start(books.directory, way->lacks);
    power_cut_at(call);
    int status = take_up(&books);
    if (status == ETL_OK)
        status = live(&books, way->steps);
    bool cut = power_calls() >= call;
    assert_true(cut || status == ETL_OK);
    end_process(&books);
    if (way->again) {
        power_after_kill();
        power_cut_at(second);
        status = take_up(&books);
        if (status == ETL_OK)
            status = live(&books, "c!");
        cut = power_calls() >= second; /* of the second life */
        end_process(&books);
    }
    power_after_cut(way->loss, way->seed);
    check(&books);
    check(&books); /* and it stays */
    power_end();
    *wrong += books.wrong != 0;
    if (books.wrong != 0 && (way->lacks & ~(unsigned)POWER_NO_NAMELESS) == 0)
        print_error("  wrong: steps %s call %zu second %zu loss %d seed %u\n", way->steps, call,
                    second, (int)way->loss, (unsigned)way->seed);
    return cut;
}

static size_t cut_everywhere(const struct way *way, size_t *wrong) {
    size_t call = 1;
    while (cut_life(way, call, 0, wrong)) {
        call += support_light() ? 5 : 1;
        assert_in_range(call, 1, LIFE_MOST);
    }
    return call - 1;
}

static const char every_kind[] = "c!c!scsc!c!mc!lc!cl!c!";

static void a_cut_leaves_the_last_checkpoint_or_the_next(void **state) {
    (void)state;
    size_t wrong = 0, calls = 0, lives = 0;
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        const struct way way = {.steps = every_kind,
                                .lacks = seed % 2 == 0 ? 0 : POWER_NO_NAMELESS,
                                .loss = seed == 0 ? POWER_LOSES_ALL : POWER_LOSES_SOME,
                                .seed = seed};
        calls = cut_everywhere(&way, &wrong);
        lives += calls;
    }
    printf("%zu calls, %zu cuts, %zu wrong\n", calls, lives, wrong);
    assert_in_range(calls, 100, LIFE_MOST);
    assert_int_equal(wrong, 0);
}

/* What a killed process had not synced is lost by a cut later. */
static void what_a_process_was_told_is_not_taken_back(void **state) {
    (void)state;
    size_t wrong = 0, cuts = 0;
    static const char steps[] = "c!c!c!m!c!";
    const struct way whole = {.steps = steps};
    size_t calls = cut_everywhere(&whole, &wrong);
    for (size_t call = 1; call <= calls; call += support_light() ? 11 : 1) {
        struct way way = {.steps = steps, .again = true};
        for (size_t second = 1;; second++, cuts++) {
            way.loss = (call + second) % 3 == 0 ? POWER_LOSES_SOME : POWER_LOSES_ALL;
            way.seed = call * 1000 + second;
            if (!cut_life(&way, call, second, &wrong))
                break;
        }
    }
    printf("%zu calls, %zu cuts behind a kill, %zu wrong\n", calls, cuts, wrong);
    assert_int_equal(wrong, 0);
}

static void each_kind_of_sync_is_needed(void **state) {
    (void)state;
    static const struct {
        enum power_lack lie;
        const char *name;
    } lies[] = {{POWER_LIE_RUN, "runs"},
                {POWER_LIE_MANIFEST, "manifests"},
                {POWER_LIE_NAMES, "names"},
                {POWER_LIE_PARENT, "the directory's name"}};
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        const struct way way = {.steps = "c!c!", .lacks = (unsigned)lies[i].lie};
        size_t wrong = 0, calls = cut_everywhere(&way, &wrong);
        printf("a disk that does not sync %s: %zu of %zu restores are wrong\n", lies[i].name,
               wrong, calls);
        assert_in_range(wrong, 1, calls);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_leaves_the_last_checkpoint_or_the_next),
        cmocka_unit_test(what_a_process_was_told_is_not_taken_back),
        cmocka_unit_test(each_kind_of_sync_is_needed),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
