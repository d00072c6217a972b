/* Sorts files by a process each and prints all their lines in order: sort_parts DIRECTORY FILE...
 *
 * Each process saves what it has sorted as a run file in the directory; the first one attaches them
 * all and merges them. Equal lines come in the order of the files. */
#include <etl.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int complain(const char *what, int status, const etl_collector *lines) {
    if (status > 0) /* errno, of what was read or written */
        fprintf(stderr, "sort_parts: %s: %s\n", what, strerror(status));
    else
        fprintf(stderr, "sort_parts: %s: %s: %s\n", what, etl_status_string(status),
                etl_collector_message(lines));
    return 1;
}

static void run_name(char *name, size_t size, const char *directory, int part) {
    snprintf(name, size, "%s/part-%d.run", directory, part);
}

/* In a process of its own; the exit status. */
static int sort_file(const char *file, const char *run) {
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    etl_collector *lines = NULL;
    FILE *in = fopen(file, "r");
    int status = in != NULL ? etl_collector_create(&lines, NULL) : errno;
    while (status == ETL_OK && (size = getline(&line, &room, in)) > 0) {
        size -= line[size - 1] == '\n';
        status = etl_collect(lines, etl_slice_of(line, (size_t)size), etl_slice_str(NULL));
    }
    if (status == ETL_OK)
        status = feof(in) ? etl_save(lines, run) : errno;
    int failed = status != ETL_OK ? complain(file, status, lines) : 0;
    free(line);
    etl_collector_destroy(lines);
    if (in != NULL)
        fclose(in);
    return failed;
}

static int print(void *context, etl_slice line, etl_slice value) {
    (void)context, (void)value;
    bool good = fwrite(line.data, 1, line.size, stdout) == line.size && putchar('\n') != EOF;
    return good ? 0 : errno;
}

static int merge(const char *directory, int parts) {
    char run[4096];
    etl_collector *lines = NULL;
    int status = etl_collector_create(&lines, NULL);
    for (int i = 0; i < parts && status == ETL_OK; i++) {
        run_name(run, sizeof run, directory, i);
        status = etl_attach_run(lines, run);
        unlink(run); /* the collector has it open */
    }
    if (status == ETL_OK)
        status = etl_load(lines, print, NULL);
    if (status == ETL_OK && fflush(stdout) != 0)
        status = errno;
    int failed = status != ETL_OK ? complain("merge", status, lines) : 0;
    etl_collector_destroy(lines);
    return failed;
}

int main(int argc, char **argv) {
    char run[4096];
    int failed = 0, ended, children = 0;
    if (argc < 2) {
        fprintf(stderr, "Usage: sort_parts DIRECTORY FILE...\n");
        return 1;
    }
    for (; children < argc - 2; children++) {
        run_name(run, sizeof run, argv[1], children);
        pid_t child = fork(); /* before there is a collector */
        if (child == 0)
            _exit(sort_file(argv[2 + children], run));
        if (child < 0) {
            failed = complain("fork", errno, NULL);
            break;
        }
    }
    while (children-- > 0) /* as many at once as there are files: xargs -P bounds them better */
        failed |= wait(&ended) < 0 || !WIFEXITED(ended) || WEXITSTATUS(ended) != 0;
    return failed || merge(argv[1], argc - 2) != 0;
}
