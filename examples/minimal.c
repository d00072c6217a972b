/* Sorts the pairs of its command line: minimal key value key value ... */
#include <etl.h>
#include <stdio.h>

static int print(void *context, etl_slice key, etl_slice value) {
    (void)context;
    printf("%.*s %.*s\n", (int)key.size, (const char *)key.data, /* slices end in no NUL */
           (int)value.size, (const char *)value.data);
    return 0; /* anything else stops the load, and etl_load returns it */
}

int main(int argc, char **argv) {
    etl_collector *pairs = NULL;
    int status = etl_collector_create(&pairs, NULL); /* the defaults: 256 MiB, then the disk */
    for (int i = 1; i + 1 < argc && status == ETL_OK; i += 2)
        status = etl_collect(pairs, etl_slice_str(argv[i]), etl_slice_str(argv[i + 1]));
    if (status == ETL_OK)
        status = etl_load(pairs, print, NULL);
    etl_collector_destroy(pairs);
    if (status != ETL_OK)
        fprintf(stderr, "minimal: %s\n", etl_status_string(status));
    return status == ETL_OK ? 0 : 1;
}
