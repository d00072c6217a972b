/* transform.c: source -> collector -> load, in one call. */
#include "key.h"
#include "status.h"

#include <stdio.h>

static bool is_in_range(const etl_range *range, etl_slice key) {
    if (etl__key_compare(key.data, key.size, range->from.data, range->from.size) < 0)
        return false;
    return range->to.data == NULL ||
           etl__key_compare(key.data, key.size, range->to.data, range->to.size) < 0;
}

/* Every pair of the source, through extract, into the collector. */
static int collect_all(const etl_transform_args *args, etl_collector *collector) {
    etl_slice key, value;
    int status;
    while ((status = args->source(args->source_ctx, &key, &value)) == ETL_OK) {
        if (etl__is_slice(key) && !is_in_range(&args->range, key))
            continue; /* what is no slice is for etl_collect to refuse */
        ETL__TRY(args->extract != NULL ? args->extract(args->extract_ctx, collector, key, value)
                                       : etl_collect(collector, key, value));
    }
    return status == ETL_END ? ETL_OK : status;
}

static void show(const etl_transform_args *args, const char *text) {
    if (args->message != NULL && args->message_size != 0)
        (void)snprintf(args->message, args->message_size, "%s", text);
}

int etl_transform(const etl_transform_args *given) {
    etl_transform_args args;
    if (given == NULL || !etl__take_struct(&args, sizeof args, given))
        return ETL_E_INVALID;
    if (args.source == NULL || args.load == NULL || !etl__is_slice(args.range.from) ||
        !etl__is_slice(args.range.to)) {
        show(&args, "transform: source and load are needed, and a range without NULL data");
        return ETL_E_INVALID;
    }
    etl_collector *collector;
    ETL__TRY(
        etl_collector_create_message(&collector, args.options, args.message, args.message_size));
    int status = collect_all(&args, collector);
    if (status == ETL_OK)
        status = etl_load(collector, args.load, args.load_ctx);
    if (status != ETL_OK)
        show(&args, etl_collector_message(collector));
    etl_collector_destroy(collector);
    return status;
}
