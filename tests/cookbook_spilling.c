/* cookbook_spilling.c: the recipes' etl_collector_create, with the smallest memory limit.
 *
 * The recipes are compiled a second time with that name defined as spilling_collector_create; here
 * it is undone. */
#undef etl_collector_create
#include <etl.h>

int spilling_collector_create(etl_collector **out, const etl_options *options);

int spilling_collector_create(etl_collector **out, const etl_options *options) {
    etl_options small = LIBETL_OPTIONS_INIT;
    if (options != NULL)
        small = *options;
    small.memory_limit = 1; /* counts as 1 MiB */
    return etl_collector_create(out, &small);
}
