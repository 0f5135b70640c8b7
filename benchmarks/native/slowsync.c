/* Preloaded into a server: each fsync and fdatasync takes a millisecond more, as many a disk in production does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static void pause_first(void)
{
    struct timespec left = { 0, 1000000 };
    while (nanosleep(&left, &left) != 0) {
    }
}

static int call_next(const char *name, int file)
{
    int (*next)(int);
    /* ISO C has no cast from an object's address to a function's; POSIX (dlsym) takes this way. */
    *(void **)&next = dlsym(RTLD_NEXT, name);
    return next(file);
}

int fsync(int file)
{
    pause_first();
    return call_next("fsync", file);
}

int fdatasync(int file)
{
    pause_first();
    return call_next("fdatasync", file);
}
