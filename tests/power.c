/* power.c: see power.h. The linker sends each call of a wrapped function f to __wrap_f, and
 * __real_f to f. */
#include "power.h"
#include "checkpoint_support.h"

#include <errno.h>
#include <fcntl.h>

enum { MOST_FILES = 512, MOST_STATES = 16, NAME_SIZE = 40, SECTOR = 512, NO_FILE = -1 };

struct file {
    int descriptor; /* ours: its content, and so that the number of the inode is not taken again */
    ino_t inode;
    unsigned char *synced;
    size_t synced_size;
};

/* A name, and which file it stood for, in turn: states[0] when the directory was synced. */
struct name {
    char name[NAME_SIZE];
    int states[MOST_STATES];
    size_t count;
};

static struct {
    char directory[300];
    ino_t inode, parent; /* inode 0: the directory is not there */
    bool stays;          /* its own name was synced */
    unsigned lacks;
    struct file files[MOST_FILES];
    size_t file_count;
    struct name names[MOST_FILES];
    size_t name_count;
    size_t calls, cut_at;
    size_t fault_calls, fault_at, fault_count, faults;
    int fault_error;
    bool off, on; /* the power; the books */
} power;

/* ---- The real calls */

int __real_open(const char *path, int flags, mode_t mode);
ssize_t __real_pwrite(int descriptor, const void *data, size_t size, off_t offset);
int __real_ftruncate(int descriptor, off_t size);
int __real_fallocate(int descriptor, int mode, off_t offset, off_t size);
int __real_fsync(int descriptor);
int __real_linkat(int from_directory, const char *from, int to_directory, const char *to,
                  int flags);
int __real_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __real_mkdir(const char *path, mode_t mode);

ssize_t __real_pread(int descriptor, void *data, size_t size, off_t offset);
int __real_fstat(int descriptor, struct stat *status);
int __real_flock(int descriptor, int operation);
int __real_close(int descriptor);
DIR *__real_opendir(const char *path);
struct dirent *__real_readdir(DIR *directory);

int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_pread(int descriptor, void *data, size_t size, off_t offset);
int __wrap_fstat(int descriptor, struct stat *status);
int __wrap_flock(int descriptor, int operation);
int __wrap_close(int descriptor);
DIR *__wrap_opendir(const char *path);
struct dirent *__wrap_readdir(DIR *directory);
ssize_t __wrap_pwrite(int descriptor, const void *data, size_t size, off_t offset);
int __wrap_ftruncate(int descriptor, off_t size);
int __wrap_fallocate(int descriptor, int mode, off_t offset, off_t size);
int __wrap_fsync(int descriptor);
int __wrap_linkat(int from_directory, const char *from, int to_directory, const char *to,
                  int flags);
int __wrap_rename(const char *from, const char *to);
int __wrap_unlink(const char *path);
int __wrap_mkdir(const char *path, mode_t mode);

/* ---- Books */

/* Does this call fail once? */
static bool is_faulty(void) {
    if (!power.on)
        return false;
    power.fault_calls++;
    bool faulty = power.fault_at != 0 && power.fault_calls >= power.fault_at &&
                  power.fault_calls - power.fault_at < power.fault_count;
    if (faulty)
        errno = power.fault_error;
    power.faults += faulty;
    return faulty;
}

/* Does this call, which changes the disk, fail? */
static bool fails(void) {
    if (!power.on)
        return false;
    power.off |= ++power.calls == power.cut_at;
    if (power.off)
        errno = EIO;
    return power.off || is_faulty();
}

static ino_t inode_of(int descriptor) {
    struct stat status;
    return __real_fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

static int file_of(int descriptor) {
    ino_t inode = inode_of(descriptor);
    for (size_t i = 0; i < power.file_count; i++)
        if (power.files[i].inode == inode)
            return (int)i;
    return NO_FILE;
}

/* Not a duplicate, which would share the lock. */
static int open_again(int descriptor) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    int again = __real_open(path, O_RDONLY, 0);
    assert_true(again >= 0);
    return again;
}

/* A file that is in the books from now on. */
static int add_file(int descriptor) {
    int found = file_of(descriptor);
    if (found != NO_FILE)
        return found;
    assert_true(power.file_count < MOST_FILES);
    power.files[power.file_count] =
        (struct file){.descriptor = open_again(descriptor), .inode = inode_of(descriptor)};
    return (int)power.file_count++;
}

static unsigned char *content_of(const struct file *file, size_t *size) {
    struct stat status;
    assert_int_equal(__real_fstat(file->descriptor, &status), 0);
    *size = (size_t)status.st_size;
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(__real_pread(file->descriptor, bytes, *size, 0), *size);
    return bytes;
}

/* The last part of a path in the directory; NULL: it is elsewhere. */
static const char *name_in(const char *path) {
    size_t length = strlen(power.directory);
    bool inside = strncmp(path, power.directory, length) == 0 && path[length] == '/';
    return inside ? path + length + 1 : NULL;
}

static struct name *find_name(const char *name) {
    for (size_t i = 0; i < power.name_count; i++)
        if (strcmp(power.names[i].name, name) == 0)
            return &power.names[i];
    assert_true(power.name_count < MOST_FILES);
    struct name *made = &power.names[power.name_count++];
    snprintf(made->name, sizeof made->name, "%s", name);
    made->states[0] = NO_FILE;
    made->count = 1;
    return made;
}

static int present(const struct name *name) {
    return name->states[name->count - 1];
}

static void change(const char *path, int file) {
    struct name *name = find_name(name_in(path));
    assert_true(name->count < MOST_STATES);
    name->states[name->count++] = file;
}

static bool has_magic(int descriptor, const char *magic) {
    char bytes[8] = "";
    return __real_pread(descriptor, bytes, sizeof bytes, 0) == sizeof bytes &&
           memcmp(bytes + 1, magic, 6) == 0;
}

static bool is_lie(int descriptor, ino_t inode) {
    unsigned kind = inode == power.inode              ? POWER_LIE_NAMES
                    : inode == power.parent           ? POWER_LIE_PARENT
                    : has_magic(descriptor, "ETLRUN") ? POWER_LIE_RUN
                    : has_magic(descriptor, "ETLCKP") ? POWER_LIE_MANIFEST
                                                      : 0;
    return (power.lacks & kind) != 0;
}

static void sync_names(void) {
    for (size_t i = 0; i < power.name_count; i++) {
        power.names[i].states[0] = present(&power.names[i]);
        power.names[i].count = 1;
    }
}

static void sync_file(struct file *file) {
    free(file->synced);
    file->synced = content_of(file, &file->synced_size);
}

/* ---- The calls */

int __wrap_open(const char *path, int flags, ...) {
    bool makes = power.on && ((flags & O_TMPFILE) == O_TMPFILE || (flags & O_CREAT) != 0);
    bool had = makes && access(path, F_OK) == 0;
    if (makes && (flags & O_TMPFILE) == O_TMPFILE && (power.lacks & POWER_NO_NAMELESS) != 0) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (makes ? fails() : is_faulty())
        return -1;
    int descriptor = __real_open(path, flags, 0600);
    if (makes && descriptor >= 0) {
        int file = add_file(descriptor);
        if ((flags & O_TMPFILE) != O_TMPFILE && name_in(path) != NULL && !had)
            change(path, file);
    }
    return descriptor;
}

ssize_t __wrap_pwrite(int descriptor, const void *data, size_t size, off_t offset) {
    return fails() ? -1 : __real_pwrite(descriptor, data, size, offset);
}

int __wrap_ftruncate(int descriptor, off_t size) {
    return fails() ? -1 : __real_ftruncate(descriptor, size);
}

int __wrap_fallocate(int descriptor, int mode, off_t offset, off_t size) {
    return fails() ? -1 : __real_fallocate(descriptor, mode, offset, size);
}

int __wrap_fsync(int descriptor) {
    if (!power.on)
        return __real_fsync(descriptor);
    if (fails())
        return -1;
    ino_t inode = inode_of(descriptor);
    int file = file_of(descriptor);
    if (is_lie(descriptor, inode))
        return 0;
    if (inode == power.inode)
        sync_names();
    else if (inode == power.parent)
        power.stays = true;
    else if (file != NO_FILE)
        sync_file(&power.files[file]);
    return 0;
}

int __wrap_linkat(int from_directory, const char *from, int to_directory, const char *to,
                  int flags) {
    if (fails())
        return -1;
    int result = __real_linkat(from_directory, from, to_directory, to, flags);
    if (result == 0 && power.on) {
        int descriptor = __real_open(to, O_RDONLY, 0);
        change(to, file_of(descriptor));
        __real_close(descriptor);
    }
    return result;
}

int __wrap_rename(const char *from, const char *to) {
    if (fails())
        return -1;
    int result = __real_rename(from, to);
    if (result == 0 && power.on) {
        change(to, present(find_name(name_in(from))));
        change(from, NO_FILE);
    }
    return result;
}

int __wrap_unlink(const char *path) {
    if (fails())
        return -1;
    int result = __real_unlink(path);
    if (result == 0 && power.on)
        change(path, NO_FILE);
    return result;
}

int __wrap_mkdir(const char *path, mode_t mode) {
    if (fails())
        return -1;
    int result = __real_mkdir(path, mode);
    struct stat status;
    if (power.on && stat(path, &status) == 0)
        power.inode = status.st_ino;
    return result;
}

ssize_t __wrap_pread(int descriptor, void *data, size_t size, off_t offset) {
    return is_faulty() ? -1 : __real_pread(descriptor, data, size, offset);
}

int __wrap_fstat(int descriptor, struct stat *status) {
    return is_faulty() ? -1 : __real_fstat(descriptor, status);
}

int __wrap_flock(int descriptor, int operation) {
    return is_faulty() ? -1 : __real_flock(descriptor, operation);
}

/* Whatever it says, the descriptor is free again. */
int __wrap_close(int descriptor) {
    int result = __real_close(descriptor);
    return is_faulty() ? -1 : result;
}

DIR *__wrap_opendir(const char *path) {
    return is_faulty() ? NULL : __real_opendir(path);
}

struct dirent *__wrap_readdir(DIR *directory) {
    return is_faulty() ? NULL : __real_readdir(directory);
}

/* ---- Power */

void power_start(const char *directory, unsigned lacks) {
    char parent[sizeof power.directory];
    struct stat status;
    memset(&power, 0, sizeof power);
    snprintf(power.directory, sizeof power.directory, "%s", directory);
    snprintf(parent, sizeof parent, "%s", directory);
    *strrchr(parent, '/') = '\0';
    assert_int_equal(stat(parent, &status), 0);
    power.parent = status.st_ino;
    power.lacks = lacks;
    power.on = true;
}

static void forget(void) {
    for (size_t i = 0; i < power.file_count; i++) {
        free(power.files[i].synced);
        __real_close(power.files[i].descriptor);
    }
    power.file_count = power.name_count = 0;
}

void power_end(void) {
    power.on = power.off = false;
    forget();
    remove_directory(power.directory);
}

void power_fault_at(size_t call, int error, size_t count) {
    power.fault_calls = power.faults = 0;
    power.fault_at = call;
    power.fault_error = error;
    power.fault_count = count;
}

size_t power_faults(void) {
    return power.faults;
}

void power_cut_at(size_t call) {
    power.calls = 0;
    power.cut_at = call;
}

size_t power_calls(void) {
    return power.calls;
}

void power_after_kill(void) {
    power.off = false;
    power_cut_at(0);
}

struct survivor {
    char name[NAME_SIZE];
    unsigned char *bytes;
    size_t size;
};

/* What is left of a file: each sector that differs from what was synced for itself. */
static void survive(struct survivor *survivor, const struct file *file, enum power_loss loss,
                    struct prng *prng) {
    size_t written, synced = file->synced_size;
    unsigned char *bytes = content_of(file, &written);
    bool all = loss == POWER_LOSES_ALL;
    size_t size = all || prng_permille(prng, 500) ? synced : written;
    bytes = realloc(bytes, (size > written ? size : written) + 1);
    assert_non_null(bytes);
    for (size_t at = 0; at < size; at += SECTOR) {
        size_t part = size - at < SECTOR ? size - at : SECTOR;
        if (!all && at + part <= written && prng_permille(prng, 500))
            continue;
        memset(bytes + at, 0, part);
        if (at < synced)
            memcpy(bytes + at, file->synced + at, synced - at < part ? synced - at : part);
    }
    survivor->bytes = bytes;
    survivor->size = size;
}

static size_t choose_survivors(struct survivor *left, enum power_loss loss, struct prng *prng) {
    size_t count = 0;
    if (!power.stays && (loss == POWER_LOSES_ALL || prng_permille(prng, 500))) {
        power.inode = 0; /* the directory itself is lost */
        return 0;
    }
    power.stays = true;
    for (size_t i = 0; i < power.name_count; i++) {
        const struct name *name = &power.names[i];
        int file = name->states[loss == POWER_LOSES_ALL ? 0 : prng_below(prng, name->count)];
        if (file == NO_FILE)
            continue;
        memcpy(left[count].name, name->name, NAME_SIZE);
        survive(&left[count++], &power.files[file], loss, prng);
    }
    return count;
}

/* Put a file that was left into the directory, synced with its name. */
static void put_back(const struct survivor *survivor) {
    const char *path = file_in(power.directory, survivor->name);
    write_file(path, survivor->bytes, survivor->size);
    int descriptor = __real_open(path, O_RDONLY, 0), file = add_file(descriptor);
    __real_close(descriptor);
    sync_file(&power.files[file]);
    change(path, file);
    free(survivor->bytes);
}

void power_after_cut(enum power_loss loss, uint64_t seed) {
    static struct survivor left[MOST_FILES];
    struct prng prng;
    struct stat status;
    prng_start(&prng, seed);
    power.on = power.off = false;
    size_t count = power.inode != 0 ? choose_survivors(left, loss, &prng) : 0;
    forget();
    remove_directory(power.directory);
    if (power.inode != 0) {
        assert_int_equal(__real_mkdir(power.directory, 0700), 0);
        assert_int_equal(stat(power.directory, &status), 0);
        power.inode = status.st_ino;
    }
    for (size_t i = 0; i < count; i++)
        put_back(&left[i]);
    sync_names();
    power.on = true;
    power_cut_at(0);
}
