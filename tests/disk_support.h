/* disk_support.h: small file systems of a test's own, mounted where only its children see them, and
 * a process for which no file system knows files without a name. All of it needs Linux, and most of
 * it root; a child that cannot have it says so and is skipped. */
#ifndef LIBETL_TESTS_DISK_SUPPORT_H
#define LIBETL_TESTS_DISK_SUPPORT_H

#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

enum disk_kind { DISK_TMPFS, DISK_EXT4 };

static inline _Noreturn void disk_skip(const char *reason) {
    fprintf(stderr, "skipped in a child: %s: %s\n", reason, strerror(errno));
    support_child_leave(SUPPORT_CHILD_SKIP);
}

#if defined(__linux__)

static inline int disk_mount_tmpfs(const char *path, size_t size) {
    char options[64];
    snprintf(options, sizeof options, "size=%zu", size);
    return mount("tmpfs", path, "tmpfs", 0, options);
}

/* An image beside the mount point; the loop device goes with the last process that sees it. */
static inline int disk_mount_ext4(const char *path, size_t size) {
    char command[1024];
    snprintf(command, sizeof command,
             "PATH=/sbin:/usr/sbin:/bin:/usr/bin; exec >/dev/null 2>&1; truncate -s %zu '%s.img' "
             "&& mkfs.ext4 -q -F -m 0 '%s.img' && mount -o loop '%s.img' '%s'",
             size, path, path, path, path);
    int status = system(command);
    snprintf(command, sizeof command, "%s.img", path);
    unlink(command);
    return status;
}

/* In a child: a file system of this size at path, an empty directory. */
static inline void disk_mount(enum disk_kind kind, const char *path, size_t size) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0)
        disk_skip("a mount namespace");
    if ((kind == DISK_TMPFS ? disk_mount_tmpfs : disk_mount_ext4)(path, size) != 0)
        disk_skip(kind == DISK_TMPFS ? "a tmpfs" : "an ext4 in a loop device");
}

static inline void disk_make_read_only(const char *path, bool read_only) {
    CHILD_CHECK(mount(NULL, path, NULL, MS_REMOUNT | (read_only ? MS_RDONLY : 0), NULL) == 0);
}

/* In a child: from now on opening a file without a name is refused as file systems do that have
 * none (EOPNOTSUPP), which is what many network and stacked ones are. */
static inline void disk_forget_nameless_files(void) {
#if defined(SYS_openat) && defined(O_TMPFILE) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (unsigned)(O_TMPFILE & ~O_DIRECTORY), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {COUNT_OF(code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        disk_skip("a filter of system calls");
    if (open(support_directory(), O_TMPFILE | O_RDWR, 0600) >= 0)
        disk_skip("a filter of system calls that works");
#else
    disk_skip("a filter of system calls");
#endif
}

#else

static inline void disk_mount(enum disk_kind kind, const char *path, size_t size) {
    (void)kind, (void)path, (void)size;
    disk_skip("a mount namespace");
}

static inline void disk_make_read_only(const char *path, bool read_only) {
    (void)read_only;
    disk_skip(path);
}

static inline void disk_forget_nameless_files(void) {
    disk_skip("a filter of system calls");
}

#endif

static inline uint64_t disk_free_bytes(const char *path) {
    struct statvfs disk;
    CHILD_CHECK(statvfs(path, &disk) == 0);
    return (uint64_t)disk.f_bfree * disk.f_frsize;
}

/* A file in the directory that leaves about this much free; its name, to be unlinked. */
static inline const char *disk_fill(const char *directory, uint64_t leave) {
    static char path[1024];
    static const char zeros[16 * 1024];
    snprintf(path, sizeof path, "%s/ballast", directory);
    int descriptor = open(path, O_CREAT | O_WRONLY, 0600);
    CHILD_CHECK(descriptor >= 0);
    while (disk_free_bytes(directory) >= leave + sizeof zeros)
        if (write(descriptor, zeros, sizeof zeros) != (ssize_t)sizeof zeros)
            break;
    CHILD_CHECK(fsync(descriptor) == 0); /* what is delayed takes its blocks now */
    close(descriptor);
    return path;
}

/* Is as much free as before? Some file systems take a moment to give blocks back. */
static inline bool disk_is_free_again(const char *directory, uint64_t before) {
    for (unsigned wait = 0; wait < 500; wait++) {
        if (disk_free_bytes(directory) >= before)
            return true;
        usleep(10000);
    }
    fprintf(stderr, "%llu bytes free, %llu before\n",
            (unsigned long long)disk_free_bytes(directory), (unsigned long long)before);
    return false;
}

#endif
