/* replay.c: a fuzz target without libFuzzer: main() calls it with each file of the directories (or
 * with the files) that it is given, in the order of their names. So every compiler and every
 * launcher runs over the corpus, and a finding is replayed from its file alone. */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

static unsigned replayed;

static void replay_file(const char *path, size_t size) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size != 0 ? size : 1); /* of its exact size: reads past it show */
    if (file == NULL || data == NULL || fread(data, 1, size, file) != size) {
        perror(path);
        exit(2);
    }
    (void)fclose(file);
    if (getenv("LIBETL_FUZZ_VERBOSE") != NULL)
        (void)fprintf(stderr, "%s\n", path);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    replayed++;
}

static void replay(const char *path) {
    struct stat status;
    struct dirent **entries;
    if (stat(path, &status) != 0) {
        perror(path);
        exit(2);
    }
    if (!S_ISDIR(status.st_mode)) {
        replay_file(path, (size_t)status.st_size);
        return;
    }
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char inner[4096];
        (void)snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            replay(inner);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%u inputs\n", replayed);
    return replayed != 0 ? 0 : 1;
}
