/* apart.c: see apart.h. The child ends without the parent's exit handlers and buffers. */
#include "apart.h"
#include "bench.h"

#include <errno.h>
#include <ftw.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where) {
    (void)status, (void)type, (void)where;
    return remove(path);
}

void apart_run(const struct bench *bench, const struct pass *pass,
               void (*body)(void *context, const struct pass *pass),
               void (*watch)(void *context, pid_t child), void *context) {
    char directory[4096];
    snprintf(directory, sizeof directory, "%s/apart-XXXXXX", bench->scratch);
    bench_check(mkdtemp(directory) != NULL ? ETL_OK : ETL_E_IO, "mkdtemp", directory);
    struct pass here = *pass;
    here.directory = directory;
    fflush(stdout);
    pid_t child = fork();
    bench_check(child >= 0 ? ETL_OK : ETL_E_NOMEM, "fork", NULL);
    if (child == 0) {
        body(context, &here);
        _exit(0);
    }
    if (watch != NULL)
        watch(context, child);
    else
        waitpid(child, NULL, 0);
    nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void *apart_shared(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bench_check(memory != MAP_FAILED ? ETL_OK : ETL_E_NOMEM, "mmap", NULL);
    return memory;
}

void apart_fail(const char *what, const char *message) {
    fprintf(stderr, "%s: %s\n", what, message != NULL ? message : strerror(errno));
    _exit(1);
}
