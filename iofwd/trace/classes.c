/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Classes and layers of calls, by their names.
 *
 * Layer: iofwd (trace).  Thread rule: pure functions.
 */
#include <string.h>

#include "iofwd/trace/reader.h"

const char *const amph_trace_class_names[AMPH_TRACE_CLASSES] = {
    "other", "open",    "close", "read",   "write", "seek", "sync", "meta", "folder",
    "map",   "process", "wait",  "mpi-io", "am",    "rma",  "coll", "stdio"
};

static const struct {
    const char *start;
    enum amph_trace_class cls;
} classes[] = {
    { "MPI_File_", AMPH_TRACE_MPI },
    { "MPI_async_", AMPH_TRACE_MPI },
    { "MPI_Register_datarep", AMPH_TRACE_MPI },
    { "am_", AMPH_TRACE_AM },
    { "rma_", AMPH_TRACE_RMA },
    { "coll_", AMPH_TRACE_COLL },
    { "event_", AMPH_TRACE_WAIT },
    { "fread", AMPH_TRACE_STDIO },
    { "fwrite", AMPH_TRACE_STDIO },
    { "fputs", AMPH_TRACE_STDIO },
    { "fputw", AMPH_TRACE_STDIO },
    { "puts", AMPH_TRACE_STDIO },
    { "putwc", AMPH_TRACE_STDIO },
    { "fgets", AMPH_TRACE_STDIO },
    { "fgetw", AMPH_TRACE_STDIO },
    { "getline", AMPH_TRACE_STDIO },
    { "getdelim", AMPH_TRACE_STDIO },
    { "getwc", AMPH_TRACE_STDIO },
    { "ungetwc", AMPH_TRACE_STDIO },
    { "printf", AMPH_TRACE_STDIO },
    { "vprintf", AMPH_TRACE_STDIO },
    { "wprintf", AMPH_TRACE_STDIO },
    { "vwprintf", AMPH_TRACE_STDIO },
    { "fprintf", AMPH_TRACE_STDIO },
    { "vfprintf", AMPH_TRACE_STDIO },
    { "fwprintf", AMPH_TRACE_STDIO },
    { "vfwprintf", AMPH_TRACE_STDIO },
    { "fseek", AMPH_TRACE_STDIO },
    { "rewinddir", AMPH_TRACE_FOLDER },
    { "rewind", AMPH_TRACE_STDIO },
    { "fflush", AMPH_TRACE_STDIO },
    { "fclose", AMPH_TRACE_STDIO },
    { "readlink", AMPH_TRACE_META },
    { "readdir", AMPH_TRACE_FOLDER },
    { "readahead", AMPH_TRACE_OTHER },
    { "read", AMPH_TRACE_READ },
    { "pread", AMPH_TRACE_READ },
    { "recv", AMPH_TRACE_READ },
    { "write", AMPH_TRACE_WRITE },
    { "pwrite", AMPH_TRACE_WRITE },
    { "send", AMPH_TRACE_WRITE },
    { "copy_file_range", AMPH_TRACE_WRITE },
    { "splice", AMPH_TRACE_WRITE },
    { "dprintf", AMPH_TRACE_WRITE },
    { "vdprintf", AMPH_TRACE_WRITE },
    { "opendir", AMPH_TRACE_FOLDER },
    { "fdopendir", AMPH_TRACE_FOLDER },
    { "closedir", AMPH_TRACE_FOLDER },
    { "seekdir", AMPH_TRACE_FOLDER },
    { "getdents", AMPH_TRACE_FOLDER },
    { "getdirentries", AMPH_TRACE_FOLDER },
    { "scandir", AMPH_TRACE_FOLDER },
    { "glob", AMPH_TRACE_FOLDER },
    { "fts", AMPH_TRACE_FOLDER },
    { "ftw", AMPH_TRACE_FOLDER },
    { "nftw", AMPH_TRACE_FOLDER },
    { "open", AMPH_TRACE_OPEN },
    { "fopen", AMPH_TRACE_OPEN },
    { "freopen", AMPH_TRACE_OPEN },
    { "creat", AMPH_TRACE_OPEN },
    { "mkstemp", AMPH_TRACE_OPEN },
    { "mkostemp", AMPH_TRACE_OPEN },
    { "tmpfile", AMPH_TRACE_OPEN },
    { "close", AMPH_TRACE_CLOSE },
    { "lseek", AMPH_TRACE_SEEK },
    { "llseek", AMPH_TRACE_SEEK },
    { "fsync", AMPH_TRACE_SYNC },
    { "fdatasync", AMPH_TRACE_SYNC },
    { "sync", AMPH_TRACE_SYNC },
    { "msync", AMPH_TRACE_SYNC },
    { "mmap", AMPH_TRACE_MAP },
    { "munmap", AMPH_TRACE_MAP },
    { "mremap", AMPH_TRACE_MAP },
    { "mprotect", AMPH_TRACE_MAP },
    { "fork", AMPH_TRACE_PROCESS },
    { "vfork", AMPH_TRACE_PROCESS },
    { "Fork", AMPH_TRACE_PROCESS },
    { "clone", AMPH_TRACE_PROCESS },
    { "exec", AMPH_TRACE_PROCESS },
    { "fexecve", AMPH_TRACE_PROCESS },
    { "posix_spawn", AMPH_TRACE_PROCESS },
    { "exit", AMPH_TRACE_PROCESS },
    { "Exit", AMPH_TRACE_PROCESS },
    { "system", AMPH_TRACE_PROCESS },
    { "popen", AMPH_TRACE_PROCESS },
    { "daemon", AMPH_TRACE_PROCESS },
    { "pthread_", AMPH_TRACE_PROCESS },
    { "poll", AMPH_TRACE_WAIT },
    { "aio_suspend", AMPH_TRACE_WAIT },
    { "io_getevents", AMPH_TRACE_WAIT },
    { "io_uring_wait", AMPH_TRACE_WAIT },
    { "io_uring_get_cqe", AMPH_TRACE_WAIT },
    { "io_uring_submit_and_wait", AMPH_TRACE_WAIT },
    { "io_pgetevents", AMPH_TRACE_WAIT },
    { "ppoll", AMPH_TRACE_WAIT },
    { "select", AMPH_TRACE_WAIT },
    { "pselect", AMPH_TRACE_WAIT },
    { "epoll_", AMPH_TRACE_WAIT },
    { "stat", AMPH_TRACE_META },
    { "lstat", AMPH_TRACE_META },
    { "fstat", AMPH_TRACE_META },
    { "xstat", AMPH_TRACE_META },
    { "lxstat", AMPH_TRACE_META },
    { "fxstat", AMPH_TRACE_META },
    { "newfstat", AMPH_TRACE_META },
    { "access", AMPH_TRACE_META },
    { "faccess", AMPH_TRACE_META },
    { "euidaccess", AMPH_TRACE_META },
    { "eaccess", AMPH_TRACE_META },
    { "rename", AMPH_TRACE_META },
    { "link", AMPH_TRACE_META },
    { "symlink", AMPH_TRACE_META },
    { "unlink", AMPH_TRACE_META },
    { "remove", AMPH_TRACE_META },
    { "mkdir", AMPH_TRACE_META },
    { "rmdir", AMPH_TRACE_META },
    { "mknod", AMPH_TRACE_META },
    { "mkfifo", AMPH_TRACE_META },
    { "chmod", AMPH_TRACE_META },
    { "fchmod", AMPH_TRACE_META },
    { "lchmod", AMPH_TRACE_META },
    { "chown", AMPH_TRACE_META },
    { "fchown", AMPH_TRACE_META },
    { "lchown", AMPH_TRACE_META },
    { "utime", AMPH_TRACE_META },
    { "futime", AMPH_TRACE_META },
    { "lutime", AMPH_TRACE_META },
    { "truncate", AMPH_TRACE_META },
    { "ftruncate", AMPH_TRACE_META },
    { "fallocate", AMPH_TRACE_META },
    { "posix_fallocate", AMPH_TRACE_META },
    { "pathconf", AMPH_TRACE_META },
    { "realpath", AMPH_TRACE_META },
    { "canonicalize", AMPH_TRACE_META },
    { "getxattr", AMPH_TRACE_META },
    { "setxattr", AMPH_TRACE_META },
    { "listxattr", AMPH_TRACE_META },
    { "fgetxattr", AMPH_TRACE_META },
    { "flistxattr", AMPH_TRACE_META },
    { "fsetxattr", AMPH_TRACE_META },
    { "lgetxattr", AMPH_TRACE_META },
    { "llistxattr", AMPH_TRACE_META },
    { "lsetxattr", AMPH_TRACE_META },
};

enum amph_trace_class amph_trace_class_of(const char *name)
{
    name += strspn(name, "_");
    if (strncmp(name, "IO_", 3) == 0)
        name += 3;
    if (strncmp(name, "async_", 6) == 0)
        name += 6;

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strncmp(name, classes[i].start, strlen(classes[i].start)) == 0)
            return classes[i].cls;

    return AMPH_TRACE_OTHER;
}

bool amph_trace_is_request(const char *name)
{
    return strncmp(name, "async_", 6) == 0 || strncmp(name, "MPI_async_", 10) == 0;
}

enum amph_trace_layer amph_trace_layer_of(enum amph_trace_side side, enum amph_trace_class cls)
{
    if (side == AMPH_TRACE_MPI_IO)
        return AMPH_TRACE_LAYER_MPI_IO;
    if (side == AMPH_TRACE_MESSAGE)
        return AMPH_TRACE_LAYER_MESSAGE;

    return cls == AMPH_TRACE_STDIO ? AMPH_TRACE_LAYER_STDIO : AMPH_TRACE_LAYER_POSIX;
}
