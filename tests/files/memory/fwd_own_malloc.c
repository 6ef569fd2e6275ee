/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program whose malloc is its own and may not be called before main, as that of GCL (Maxima): a call
 * before main ends it with code 99.  It leaves aligned_alloc to the C library: a library that takes
 * memory from there ends it with code 98, and so does its free of memory that is not its own.
 *
 * fwd_own_malloc FILE [PROGRAM ARGUMENT...]: writes a line to FILE, reads it back, prints it with the
 * working directory, and becomes PROGRAM.
 */
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MEMORY_BYTES = 64 << 20,
    ALIGN_BYTES = 16
};

static struct {
    bool began; /* main has */
    size_t used;
    _Alignas(ALIGN_BYTES) char memory[MEMORY_BYTES];
} own;

/* Memory is taken from one array and never given back.  The size lies before the memory. */
void *malloc(size_t len_bytes)
{
    static const char line[] = "malloc is called before main\n";

    if (!own.began) {
        (void)!write(2, line, sizeof line - 1);
        _exit(99);
    }

    size_t need = (len_bytes + 2 * ALIGN_BYTES - 1) & ~(size_t)(ALIGN_BYTES - 1);
    size_t at = __atomic_fetch_add(&own.used, need, __ATOMIC_RELAXED);

    if (len_bytes > MEMORY_BYTES || at + need > MEMORY_BYTES)
        return NULL;

    memcpy(own.memory + at, &len_bytes, sizeof len_bytes);
    return own.memory + at + ALIGN_BYTES;
}

void free(void *memory)
{
    static const char line[] = "free is given memory that is not from malloc\n";
    char *at = memory;

    if (!at || (at > own.memory && at < own.memory + MEMORY_BYTES))
        return;

    (void)!write(2, line, sizeof line - 1);
    _exit(98);
}

void *calloc(size_t n, size_t len_bytes)
{
    return n && len_bytes > SIZE_MAX / n ? NULL : malloc(n * len_bytes);
}

void *realloc(void *memory, size_t len_bytes)
{
    void *copy = malloc(len_bytes);
    size_t former = 0;

    if (memory)
        memcpy(&former, (char *)memory - ALIGN_BYTES, sizeof former);
    if (copy && memory)
        memcpy(copy, memory, former < len_bytes ? former : len_bytes);

    return copy;
}

/* Writes a line to a file, reads it back, and prints it with the working directory. */
static int work(const char *path)
{
    char line[100] = "";
    FILE *f = fopen(path, "w+");

    if (!f || fputs("a line\n", f) < 0 || fseek(f, 0, SEEK_SET) != 0 ||
        !fgets(line, sizeof line, f) || fclose(f) != 0) {
        perror(path);
        return 1;
    }

    char *directory = getcwd(NULL, 0);

    printf("%s: %s", directory ? directory : "?", line);
    fflush(stdout);
    return 0;
}

/* Does the C library's own malloc hold no memory? */
static bool is_alone(void)
{
    struct mallinfo2 theirs = mallinfo2();

    if (theirs.arena || theirs.hblkhd)
        fprintf(stderr, "the C library's malloc holds %zu bytes\n", theirs.arena + theirs.hblkhd);

    return !theirs.arena && !theirs.hblkhd;
}

int main(int argc, char **argv)
{
    own.began = true;
    if (argc < 2 || work(argv[1]) != 0)
        return 1;
    if (!is_alone())
        return 98;

    if (argc > 2) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        return 1;
    }

    return 0;
}
