/* test_save.c: saved runs, compared with the oracle: files are saved under random rules and
 * settings, attached to other collectors at random moments between pairs, once or several times,
 * and come out through every way out of the library, a save too. Then what saving promises: what
 * stays as it was, what a file is, and what is left behind. A failing case prints itself;
 * LIBETL_TEST_SEED replays it. */
#include "workload.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES_MAX = 4, SMALL_CASES = 250, LARGE_CASES = 12 };

static struct scene {
    uint64_t number;
    struct prng prng;
    struct workload workload;
    struct setting setting;
    struct support_memory memory;
    struct oracle files[FILES_MAX]; /* what each holds */
    size_t file_count;
    struct oracle pairs; /* collected beside them */
    struct oracle input, expected;
    bool accepted, under_way;
    etl_collector *collector;
} scene;

static const char *fast_directory(void) {
    static char path[512];
    if (path[0] == '\0')
        snprintf(path, sizeof path, "%s", support_fast_path("."));
    return path;
}

static size_t fast_entries(void) {
    return support_entries(fast_directory());
}

static const char *file_path(size_t file) {
    char name[32];
    snprintf(name, sizeof name, "file-%zu", file);
    return support_fast_path(name);
}

static etl_collector *create(const struct setting *setting) {
    etl_options options = setting_options(setting, &scene.memory);
    etl_collector *collector = NULL;
    support_make_fast(&options);
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    return collector;
}

static void draw_setting(struct setting *setting) {
    setting_draw(setting, &scene.prng);
    setting->access = (etl_access)prng_below(&scene.prng, ETL_ACCESS_MMAP_ALL + 1);
    setting->rules.fold = scene.workload.maps ? ORACLE_AFFINE : ORACLE_TRIM;
}

/* Values that were joined are no maps. */
static void keep_maps(struct setting *setting) {
    if (scene.workload.maps && setting->rules.duplicates == ETL_APPEND)
        setting->rules.duplicates = ETL_KEEP_ALL;
}

static void assert_load(etl_collector *collector, const struct oracle *expected, bool accepted) {
    struct oracle_check check = {expected, 0, 0, 0};
    ASSERT_STATUS(accepted ? ETL_OK : ETL_E_DUPLICATE, collector,
                  etl_load(collector, oracle_load, &check));
    assert_true(check.at == expected->count || !accepted);
}

/* Save some pairs under rules of their own; what the file holds is what a load would give. */
static void make_file(size_t file) {
    struct setting setting;
    struct oracle pairs = {NULL, 0, 0};
    draw_setting(&setting);
    keep_maps(&setting);
    workload_make(&scene.workload, &scene.prng, &pairs);
    if (prng_permille(&scene.prng, 100))
        oracle_clear(&pairs);
    bool accepted = oracle_settle(&pairs, &setting.rules, &scene.files[file]);
    etl_collector *collector = create(&setting);
    setting_feed(&setting, &scene.prng, collector, &pairs, 0, pairs.count);
    if (!accepted) {
        ASSERT_STATUS(ETL_E_DUPLICATE, collector, etl_save(collector, file_path(file)));
        assert_int_equal(access(file_path(file), F_OK), -1);
        oracle_clear(&pairs);
        (void)oracle_settle(&pairs, &setting.rules, &scene.files[file]);
        ASSERT_OK(collector, etl_reset(collector));
    }
    ASSERT_OK(collector, etl_save(collector, file_path(file)));
    oracle_renumber(&scene.files[file]);
    if (accepted && prng_permille(&scene.prng, 300)) /* nothing was consumed */
        assert_load(collector, &scene.files[file], true);
    etl_collector_destroy(collector);
    oracle_clear(&pairs);
}

/* Collect the pairs, with the files attached at random moments between them. */
static void feed(void) {
    struct prng *prng = &scene.prng;
    size_t at = 0;
    oracle_clear(&scene.input);
    for (size_t turns = prng_below(prng, 2 * FILES_MAX); at < scene.pairs.count || turns != 0;) {
        size_t to = turns == 0 ? scene.pairs.count : prng_between(prng, at, scene.pairs.count);
        setting_feed(&scene.setting, prng, scene.collector, &scene.pairs, at, to);
        for (; at < to; at++)
            oracle_add(&scene.input, oracle_key(&scene.pairs.pairs[at]),
                       oracle_value(&scene.pairs.pairs[at]));
        if (turns == 0)
            break;
        turns--;
        size_t file = prng_below(prng, scene.file_count);
        ASSERT_OK(scene.collector, etl_attach_run(scene.collector, file_path(file)));
        for (size_t i = 0; i < scene.files[file].count; i++)
            oracle_add(&scene.input, oracle_key(&scene.files[file].pairs[i]),
                       oracle_value(&scene.files[file].pairs[i]));
    }
    etl_stats stats = {.struct_size = sizeof stats};
    ASSERT_OK(scene.collector, etl_collector_stats(scene.collector, &stats));
    if (scene.input.count != 0)
        assert_int_equal(stats.pairs, scene.input.count);
    scene.accepted = oracle_settle(&scene.input, &scene.setting.rules, &scene.expected);
}

/* ---- Ways out */

static void read_pairs(etl_iter *iter, size_t at, size_t end, size_t most) {
    for (; most != 0; most--, at++) {
        etl_slice key, value;
        if (at == end) {
            assert_int_equal(etl_iter_next(iter, &key, &value), ETL_END);
            return;
        }
        ASSERT_OK(scene.collector, etl_iter_next(iter, &key, &value));
        assert_true(oracle_same(&scene.expected.pairs[at], key, value));
    }
}

static void check_range(const etl_range *range) {
    const struct oracle *expected = &scene.expected;
    unsigned char buffer[64];
    size_t from = oracle_lower_bound(expected, range->from), to = expected->count;
    if (range->to.data != NULL)
        to = oracle_lower_bound(expected, range->to);
    to = to < from ? from : to;
    etl_iter *iter;
    ASSERT_OK(scene.collector, etl_iter_open(&iter, scene.collector, range));
    ASSERT_STATUS(ETL_E_STATE, scene.collector, etl_attach_run(scene.collector, file_path(0)));
    read_pairs(iter, from, to, 20);
    etl_slice sought = workload_probe(&scene.prng, &scene.input, buffer);
    size_t at = oracle_lower_bound(expected, sought);
    ASSERT_OK(scene.collector, etl_iter_seek(iter, sought));
    read_pairs(iter, at < from ? from : at > to ? to : at, to, SIZE_MAX);
    etl_iter_close(iter);
}

static void check_split(void) {
    etl_slice keys[5];
    size_t count;
    ASSERT_OK(scene.collector, etl_split(&scene.collector, 1, COUNT_OF(keys) + 1, keys, &count));
    for (size_t i = 0; i <= count; i++) {
        etl_range range = {i != 0 ? keys[i - 1] : etl_slice_of(NULL, 0),
                           i < count ? keys[i] : etl_slice_of(NULL, 0)};
        check_range(&range);
    }
}

/* Through a file, into a collector that keeps all: the same pairs in the same order. */
static void check_saved(void) {
    const char *path = support_fast_path("all");
    struct setting setting;
    draw_setting(&setting);
    setting.rules.duplicates = ETL_KEEP_ALL;
    setting.rules.order_values = scene.setting.rules.order_values;
    int status = etl_save(scene.collector, path);
    ASSERT_STATUS(scene.accepted ? ETL_OK : ETL_E_DUPLICATE, scene.collector, status);
    if (!scene.accepted)
        return;
    etl_collector *collector = create(&setting);
    ASSERT_OK(collector, etl_attach_run(collector, path));
    assert_int_equal(unlink(path), 0);
    assert_load(collector, &scene.expected, true);
    etl_collector_destroy(collector);
}

static void check_scene(void) {
    unsigned char buffers[2][64];
    for (int i = 0; i < 2 && scene.accepted; i++) {
        etl_range range = {workload_probe(&scene.prng, &scene.input, buffers[0]),
                           workload_probe(&scene.prng, &scene.input, buffers[1])};
        check_range(&range);
    }
    if (scene.accepted && prng_permille(&scene.prng, 300))
        check_split();
    check_saved();
    assert_load(scene.collector, &scene.expected, scene.accepted);
    if (scene.accepted && prng_permille(&scene.prng, 200)) {
        feed();
        assert_load(scene.collector, &scene.expected, scene.accepted);
    }
}

static void run_scene(uint64_t number, size_t bytes) {
    memset(&scene, 0, sizeof scene);
    scene.number = number;
    scene.under_way = true;
    prng_start(&scene.prng, number);
    if (bytes != 0)
        workload_draw_large(&scene.workload, &scene.prng, bytes);
    else
        workload_draw_small(&scene.workload, &scene.prng);
    draw_setting(&scene.setting);
    if (bytes != 0) {
        scene.setting.memory_limit = MIB;
        scene.setting.flushes = 0;
        scene.workload.count /= 3;
    }
    scene.file_count = prng_between(&scene.prng, 1, FILES_MAX);
    for (size_t i = 0; i < scene.file_count; i++)
        make_file(i);
    if (scene.workload.maps)
        scene.setting.rules.fold = ORACLE_AFFINE;
    workload_make(&scene.workload, &scene.prng, &scene.pairs);
    scene.collector = create(&scene.setting);
    feed();
    check_scene();
    etl_collector_destroy(scene.collector);
    support_memory_check(&scene.memory);
    for (size_t i = 0; i < scene.file_count; i++) {
        assert_int_equal(unlink(file_path(i)), 0);
        oracle_clear(&scene.files[i]);
    }
    oracle_clear(&scene.pairs);
    oracle_clear(&scene.input);
    oracle_clear(&scene.expected);
    assert_int_equal(fast_entries(), 0);
    scene.under_way = false;
}

static int tell_failed_case(void **state) {
    (void)state;
    if (scene.under_way)
        setting_print(&scene.setting, &scene.workload, scene.number);
    scene.under_way = false;
    return 0;
}

static void small_files(void **state) {
    (void)state;
    for (uint64_t i = 0; i < support_scaled(SMALL_CASES); i++)
        run_scene(5000000 + i, 0);
}

static void large_files(void **state) {
    (void)state;
    for (uint64_t i = 0; i < support_scaled(LARGE_CASES); i++)
        run_scene(6000000 + i, 2 * MIB);
}

/* ---- What saving promises */

static etl_collector *make_counted(uint64_t count) {
    etl_options options = support_options(MIB);
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    ASSERT_OK(collector, counted_collect_all(collector, count));
    return collector;
}

static void assert_counted_file(const char *path, uint64_t count) {
    etl_collector *collector = make_counted(0);
    ASSERT_OK(collector, etl_attach_run(collector, path));
    counted_assert_load(collector, count);
    etl_collector_destroy(collector);
}

/* Saved, collected on, saved in its place, loaded, and saved empty; the mode, whatever the mask. */
static void saving_consumes_nothing(void **state) {
    (void)state;
    const char *path = support_fast_path("counted");
    struct stat status;
    etl_collector *collector = make_counted(20000);
    etl_stats before = {.struct_size = sizeof before}, after = before;
    ASSERT_OK(collector, etl_flush(collector)); /* no thread writes while it is counted */
    ASSERT_OK(collector, etl_collector_stats(collector, &before));
    mode_t mask = umask(0);
    ASSERT_OK(collector, etl_save(collector, path));
    umask(mask);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(status.st_nlink, 1);
    ASSERT_OK(collector, etl_collector_stats(collector, &after));
    assert_int_equal(before.pairs, after.pairs);
    assert_int_equal(before.disk_bytes, after.disk_bytes);
    assert_counted_file(path, 20000);
    for (uint64_t i = 20000; i < 20010; i++)
        ASSERT_OK(collector, counted_collect(collector, i));
    ASSERT_OK(collector, etl_save(collector, path));
    assert_counted_file(path, 20010);
    counted_assert_load(collector, 20010);
    ASSERT_OK(collector, etl_save(collector, path));
    assert_counted_file(path, 0);
    etl_collector_destroy(collector);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fast_entries(), 0);
}

/* A run attached to the collector that replaces its file, while iterators are open. */
static void a_file_may_be_saved_over_while_it_is_attached(void **state) {
    (void)state;
    const char *path = support_fast_path("counted");
    etl_collector *collector = make_counted(3000);
    etl_slice key;
    etl_iter *iter;
    ASSERT_OK(collector, etl_save(collector, path));
    ASSERT_OK(collector, etl_reset(collector));
    ASSERT_OK(collector, etl_attach_run(collector, path));
    for (uint64_t i = 3000; i < 4000; i++)
        ASSERT_OK(collector, counted_collect(collector, i));
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    ASSERT_OK(collector, etl_iter_next(iter, &key, NULL));
    ASSERT_OK(collector, etl_save(collector, path));
    ASSERT_OK(collector, etl_iter_next(iter, &key, NULL));
    etl_iter_close(iter);
    assert_counted_file(path, 4000);
    counted_assert_load(collector, 4000);
    etl_collector_destroy(collector);
    assert_int_equal(unlink(path), 0);
}

static void assert_refused(etl_collector *collector, int expected, const char *path,
                           const char *words) {
    int status = etl_save(collector, path);
    if (status != expected || strstr(etl_collector_message(collector), words) == NULL)
        fail_msg("%d, \"%s\", expected \"%s\"", status, etl_collector_message(collector), words);
}

static void names_that_cannot_be_saved_to(void **state) {
    (void)state;
    char name[300], longest[5000];
    etl_collector *collector = make_counted(100);
    assert_int_equal(etl_save(NULL, "x"), ETL_E_INVALID);
    assert_refused(collector, ETL_E_INVALID, NULL, "NULL");
    assert_refused(collector, ETL_E_INVALID, "", "empty");
    assert_refused(collector, ETL_E_INVALID, support_directory(), "a directory is there");
    snprintf(name, sizeof name, "%s/", support_path("new"));
    assert_refused(collector, ETL_E_INVALID, name, "directory");
    assert_refused(collector, ETL_E_INVALID, "/dev/null", "no regular file is there");
    assert_int_equal(mkfifo(support_path("fifo"), 0600), 0);
    assert_refused(collector, ETL_E_INVALID, support_path("fifo"), "no regular file is there");
    assert_int_equal(unlink(support_path("fifo")), 0);
    assert_refused(collector, ETL_E_IO, support_path("missing/file"), strerror(ENOENT));
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_refused(collector, ETL_E_IO, longest, "write a run file to xxx");
    longest[0] = '/';
    longest[260] = '\0';
    assert_refused(collector, ETL_E_IO, longest, strerror(ENAMETOOLONG));
    if (geteuid() != 0) {
        assert_int_equal(mkdir(support_path("closed"), 0500), 0);
        assert_refused(collector, ETL_E_IO, support_path("closed/x"), strerror(EACCES));
        assert_int_equal(rmdir(support_path("closed")), 0);
    }
    counted_assert_load(collector, 100);
    etl_collector_destroy(collector);
    assert_int_equal(support_entries(support_directory()), 0);
}

/* Cancels once the pairs are on their way into the file. */
static int cancel(void *context, const etl_progress *progress) {
    bool *saving = context;
    assert_true(progress->pairs_all == 0 || progress->pairs_done <= progress->pairs_all);
    return *saving && progress->phase == ETL_LOADING && progress->pairs_done != 0;
}

/* Before it and in the middle of it: the old file stays; then it goes through. */
static void saving_can_be_cancelled(void **state) {
    (void)state;
    const char *path = support_fast_path("counted");
    bool saving = false;
    etl_options options = support_options(64 * MIB);
    options.progress = cancel;
    options.progress_ctx = &saving;
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    ASSERT_OK(collector, counted_collect(collector, 0));
    ASSERT_OK(collector, etl_save(collector, path));
    etl_cancel(collector);
    ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_save(collector, path));
    etl_resume(collector);
    uint64_t count = 1;
    for (int status = ETL_OK; status != ETL_E_CANCELLED;) {
        assert_true(count < 20000000); /* the callback comes ten times a second */
        for (uint64_t end = 2 * count; count < end; count++)
            ASSERT_OK(collector, counted_collect(collector, count));
        usleep(110000);
        saving = true;
        status = etl_save(collector, path);
        saving = false;
        assert_true(status == ETL_OK || status == ETL_E_CANCELLED);
        assert_int_equal(fast_entries(), 1);
        assert_counted_file(path, status == ETL_OK ? count : count / 2);
    }
    etl_resume(collector);
    ASSERT_OK(collector, etl_save(collector, path));
    assert_counted_file(path, count);
    etl_collector_destroy(collector);
    assert_int_equal(unlink(path), 0);
}

/* ---- Killed */

enum { KILLS = 40, FEW = 3000, MANY = 20000 };

/* Saves two files in turn to one name until it is killed. */
static _Noreturn void save_for_ever(const char *path) {
    alarm(60); /* should nobody come */
    etl_options options = support_options(8 * MIB);
    etl_collector *few, *many;
    CHILD_CHECK(etl_collector_create(&few, &options) == ETL_OK);
    CHILD_CHECK(etl_collector_create(&many, &options) == ETL_OK);
    CHILD_CHECK(counted_collect_all(few, FEW) == ETL_OK);
    CHILD_CHECK(counted_collect_all(many, MANY) == ETL_OK);
    for (;;) {
        CHILD_CHECK(etl_save(many, path) == ETL_OK);
        CHILD_CHECK(etl_save(few, path) == ETL_OK);
    }
}

/* One of the two is there, whole; beside it at most the file that was about to be renamed. */
static void killed_at_any_moment(void **state) {
    (void)state;
    const char *path = support_fast_path("killed");
    struct prng prng;
    prng_start(&prng, 7);
    size_t found[2] = {0, 0};
    etl_collector *collector = make_counted(FEW);
    ASSERT_OK(collector, etl_save(collector, path));
    for (size_t i = 0; i < support_scaled(KILLS); i++) {
        pid_t child = support_fork();
        assert_true(child >= 0);
        if (child == 0)
            save_for_ever(path);
        usleep((useconds_t)prng_between(&prng, 1000, 40000));
        assert_int_equal(kill(child, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        ASSERT_OK(collector, etl_reset(collector));
        ASSERT_OK(collector, etl_attach_run(collector, path));
        etl_stats stats = {.struct_size = sizeof stats};
        ASSERT_OK(collector, etl_collector_stats(collector, &stats));
        assert_true(stats.pairs == FEW || stats.pairs == MANY);
        counted_assert_load(collector, stats.pairs);
        found[stats.pairs == MANY]++;
        assert_in_range(fast_entries(), 1, 2 + i);
    }
    print_message("  the file before %zu times, the one after %zu times\n", found[0], found[1]);
    etl_collector_destroy(collector);
    char command[600];
    snprintf(command, sizeof command, "rm -f '%s' '%s'/etl-*.tmp", path, fast_directory());
    assert_int_equal(system(command), 0);
    assert_int_equal(fast_entries(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(small_files, tell_failed_case),
        cmocka_unit_test_teardown(large_files, tell_failed_case),
        cmocka_unit_test(saving_consumes_nothing),
        cmocka_unit_test(a_file_may_be_saved_over_while_it_is_attached),
        cmocka_unit_test(names_that_cannot_be_saved_to),
        cmocka_unit_test(saving_can_be_cancelled),
        cmocka_unit_test(killed_at_any_moment),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
