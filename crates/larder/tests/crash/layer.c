/* A file layer that loses power: LD_PRELOADed under larder, it notes how far each file of $LAYER_DIR has been synced, so that the test
 * can take away, after a SIGKILL, what a power cut might have (layer.rs). It makes writes fail on demand, too.
 *
 * Notes, one line each, in $LAYER_LOG (device and inode name a file, which may be renamed meanwhile):
 *   O inode size        opened for writing for the first time: what it holds is stable
 *   S inode end size    synced: the bytes before `end` are stable, and so is its size
 *   T inode size        shortened (taken to be stable at once)
 *   X inode             stable bytes were written over, which this layer has no model for
 * While $LAYER_FAULT exists, writes and syncs fail with the errno in it.
 *
 * Not modelled: directory operations are kept, in their order, as journalling file systems keep them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 65536
#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))real(#name))

struct tracked { ino_t inode; off_t written, synced; };
static struct tracked files[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int notes = -1;
static const char *dir, *fault;

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
    dir = getenv("LAYER_DIR");
    fault = getenv("LAYER_FAULT");
    notes = REAL(int, open, const char *, int, ...)(getenv("LAYER_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void note(const char *format, ...) {
    char line[128];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (REAL(ssize_t, write, int, const void *, size_t)(notes, line, n) != n) abort();
}

/* With the lock held: the file, entered anew if `enter`. */
static struct tracked *find(ino_t inode, int enter) {
    for (size_t i = inode % FILES, n = 0; n < FILES; i = (i + 1) % FILES, n++) {
        if (files[i].inode == inode) return &files[i];
        if (files[i].inode == 0) {
            if (!enter) return NULL;
            files[i].inode = inode;
            files[i].written = -1;
            return &files[i];
        }
    }
    abort();
}

static void opened(int fd, int flags) {
    struct stat stat;
    char link[64], path[PATH_MAX];
    if (fd < 0 || !dir || (flags & O_ACCMODE) == O_RDONLY || fstat(fd, &stat) || !S_ISREG(stat.st_mode)) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    size_t m = strlen(dir);
    if (n < (ssize_t)m || memcmp(path, dir, m)) return;
    pthread_mutex_lock(&lock);
    struct tracked *file = find(stat.st_ino, 1);
    /* An empty file may have taken over the inode of one that was removed. */
    if (file->written < 0 || stat.st_size == 0) {
        file->written = file->synced = stat.st_size;
        note("O %lu %ld\n", stat.st_ino, stat.st_size);
    }
    pthread_mutex_unlock(&lock);
}

#define OPEN(name)                                                                                  \
    int name(const char *path, int flags, ...) {                                                    \
        va_list args;                                                                               \
        va_start(args, flags);                                                                      \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;                     \
        va_end(args);                                                                               \
        int fd = REAL(int, name, const char *, int, ...)(path, flags, mode);                        \
        opened(fd, flags);                                                                          \
        return fd;                                                                                  \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                                                                \
    int name(int at, const char *path, int flags, ...) {                                            \
        va_list args;                                                                               \
        va_start(args, flags);                                                                      \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;                     \
        va_end(args);                                                                               \
        int fd = REAL(int, name, int, const char *, int, ...)(at, path, flags, mode);               \
        opened(fd, flags);                                                                          \
        return fd;                                                                                  \
    }
OPENAT(openat)
OPENAT(openat64)

static int is_tracked(int fd, struct stat *stat) {
    if (!dir || fstat(fd, stat) || !S_ISREG(stat->st_mode)) return 0;
    pthread_mutex_lock(&lock);
    int found = find(stat->st_ino, 0) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

/* The errno to fail with; 0: none. */
static int failing(void) {
    char text[16] = "";
    if (!fault) return 0;
    int fd = REAL(int, open, const char *, int, ...)(fault, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return 0;
    ssize_t n = REAL(ssize_t, read, int, void *, size_t)(fd, text, sizeof text - 1);
    REAL(int, close, int)(fd);
    return n > 0 ? atoi(text) : 0;
}

static void wrote(ino_t inode, off_t from, ssize_t n) {
    if (n <= 0) return;
    pthread_mutex_lock(&lock);
    struct tracked *file = find(inode, 1);
    if (from < file->synced) note("X %lu\n", inode);
    if (from + n > file->written) file->written = from + n;
    pthread_mutex_unlock(&lock);
}

#define WRITE(fd, call)                                                                             \
    struct stat stat;                                                                               \
    if (!is_tracked(fd, &stat)) return call;                                                        \
    if ((errno = failing())) return -1;                                                             \
    ssize_t n = call;

ssize_t write(int fd, const void *bytes, size_t length) {
    WRITE(fd, (REAL(ssize_t, write, int, const void *, size_t)(fd, bytes, length)))
    if (n > 0) wrote(stat.st_ino, lseek(fd, 0, SEEK_CUR) - n, n);
    return n;
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    WRITE(fd, (REAL(ssize_t, writev, int, const struct iovec *, int)(fd, parts, count)))
    if (n > 0) wrote(stat.st_ino, lseek(fd, 0, SEEK_CUR) - n, n);
    return n;
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    WRITE(fd, (REAL(ssize_t, pwrite, int, const void *, size_t, off_t)(fd, bytes, length, at)))
    wrote(stat.st_ino, at, n);
    return n;
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) { return pwrite(fd, bytes, length, at); }

static int truncated(int fd, off_t size, int done) {
    struct stat stat;
    if (done || !is_tracked(fd, &stat)) return done;
    pthread_mutex_lock(&lock);
    struct tracked *file = find(stat.st_ino, 1);
    if (size < file->written) {
        file->written = size;
        if (size < file->synced) file->synced = size;
        note("T %lu %ld\n", stat.st_ino, size);
    }
    pthread_mutex_unlock(&lock);
    return done;
}
int ftruncate(int fd, off_t size) { return truncated(fd, size, REAL(int, ftruncate, int, off_t)(fd, size)); }
int ftruncate64(int fd, off_t size) { return truncated(fd, size, REAL(int, ftruncate64, int, off_t)(fd, size)); }

static int sync_file(int fd, int (*sync)(int)) {
    struct stat before;
    if (!is_tracked(fd, &before)) return sync(fd);
    if ((errno = failing())) return -1;
    pthread_mutex_lock(&lock);
    off_t end = find(before.st_ino, 1)->written;
    pthread_mutex_unlock(&lock);
    int done = sync(fd);
    if (done == 0) {
        pthread_mutex_lock(&lock);
        struct tracked *file = find(before.st_ino, 1);
        if (end > file->synced && end <= file->written) file->synced = end;
        note("S %lu %ld %ld\n", before.st_ino, end, before.st_size);
        pthread_mutex_unlock(&lock);
    }
    return done;
}
int fsync(int fd) { return sync_file(fd, REAL(int, fsync, int)); }
int fdatasync(int fd) { return sync_file(fd, REAL(int, fdatasync, int)); }
