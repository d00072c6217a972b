/* peer_mtbl.c: mtbl's sorter (farsightsec/mtbl), the nearest relative: an array of entries sorted
 * by qsort(3), spilled to sorted tables, merged by a binary heap. One thread. It keeps one value a
 * key, so that repeated keys carry their number. Its memory is 10 MiB at least. */
#include "peers.h"

#include <mtbl.h>

/* mtbl wants one, but all keys are distinct. */
static void merge(void *context, const uint8_t *key, size_t key_size, const uint8_t *first,
                  size_t first_size, const uint8_t *second, size_t second_size, uint8_t **merged,
                  size_t *merged_size) {
    (void)context, (void)key, (void)key_size, (void)first, (void)first_size, (void)second;
    (void)second_size, (void)merged, (void)merged_size;
    apart_fail("mtbl", "a key came twice");
}

static struct mtbl_sorter *open_sorter(const struct pass *pass) {
    struct mtbl_sorter_options *options = mtbl_sorter_options_init();
    mtbl_sorter_options_set_temp_dir(options, pass->directory);
    mtbl_sorter_options_set_max_memory(options, pass->limit);
    mtbl_sorter_options_set_merge_func(options, merge, NULL);
    struct mtbl_sorter *sorter = mtbl_sorter_init(options);
    mtbl_sorter_options_destroy(&options);
    return sorter;
}

static void collect(const struct pass *pass, struct mtbl_sorter *sorter, size_t number_size) {
    struct workload *workload = workload_open(pass->letter, PASS_SEED, pass->size);
    for (uint64_t i = 0; i < pass->pairs; i++) {
        struct workload_pair pair;
        struct peer_key key;
        workload_next(workload, &pair);
        peer_key_make(&key, &pair, number_size, i);
        if (mtbl_sorter_add(sorter, key.bytes, key.size, pair.value, pair.value_size) !=
            mtbl_res_success)
            apart_fail("mtbl", "mtbl_sorter_add");
    }
    workload_close(workload);
}

static void run(const struct pass *pass, struct peer_report *report) {
    size_t number_size = peer_number_size(pass);
    struct mtbl_sorter *sorter = open_sorter(pass);
    collect(pass, sorter, number_size);
    struct mtbl_iter *iter = mtbl_sorter_iter(sorter);
    if (iter == NULL)
        apart_fail("mtbl", "mtbl_sorter_iter");
    const uint8_t *key, *value;
    size_t key_size, value_size;
    while (mtbl_iter_next(iter, &key, &key_size, &value, &value_size) == mtbl_res_success)
        output_take(&report->output, key, key_size - number_size, value, value_size);
    mtbl_iter_destroy(&iter);
    mtbl_sorter_destroy(&sorter);
}

const struct peer peer_mtbl = {"mtbl", true, false, run};
