/* planted_api.c: a bug for the fuzzer to find, linked in place of etl__merge_same_as_next by
 * --wrap: equal keys are noticed inside one source only, not across runs. */
#include "merge.h"

bool __wrap_etl__merge_same_as_next(const struct etl__merge *merge);

bool __wrap_etl__merge_same_as_next(const struct etl__merge *merge) {
    return merge->players[merge->top.winner].next_code <= UINT32_MAX;
}
