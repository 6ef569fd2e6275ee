/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fuzz_upcxlate SECONDS SEED FILE...: hands damaged versions of the files to upcxlate, each to a
 * process of its own.  upcxlate has to translate or to refuse (exit 0 or 1) in five seconds;
 * anything else is shown with the input's name.  Linked with upcxlate, whose main is called
 * upcxlate_main here.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int upcxlate_main(int argc, char **argv);

#define MAX (1 << 20)
static char text[MAX * 2];
static size_t len;
static unsigned long long state;

static size_t pick(size_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? (size_t)(state >> 20) % n : 0;
}

static void load(const char *file)
{
    FILE *f = fopen(file, "r");

    if (f == NULL) {
        perror(file);
        exit(2);
    }

    len = fread(text, 1, MAX, f);
    fclose(f);
}

static void replace(size_t at, size_t n, const char *with, size_t m)
{
    if (at > len || len - at < n || len - n + m >= sizeof text)
        return;

    memmove(text + at + m, text + at + n, len - at - n);
    memcpy(text + at, with, m);
    len = len - n + m;
}

/* The end of the word or sign that begins at `at`. */
static size_t word(size_t at)
{
    size_t e = at;

    while (e < len &&
           ((text[e] | 32) >= 'a' ? (text[e] | 32) <= 'z' : (text[e] >= '0' && text[e] <= '9')))
        e++;

    return e > at ? e : at + 1;
}

/* What is put in. */
/* clang-format off */
static const char *const words[] = {
    "shared", "shared [", "strict", "upc_forall", "upc_forall(;;;", "THREADS", "(", ")", "[", "]", "{", "}", "*", "&", "->", ".",
    ";", ",", "=", "++", "sizeof", "upc_blocksizeof", "struct", "typedef", "static", "int", "?", ":", "...", "0",
    "99999999999999999999", "\"", "'", "\\", "\n#pragma upc strict\n", "\n#pragma upc\n", "\n# 99999999999999 \"x\" 3\n",
    "\n#line\n", "__attribute__((", "__builtin_va_arg(", "__builtin_offsetof(", "_Generic(", "typeof(", "({",
    "(shared [*] int *)", "[THREADS*THREADS]", "upc_barrier", "1.5e", "case", "asm(", "goto *", "\377", "enum {", "union", "void",
    "/", "%", "<<=", "!", "~", "extern", "-", "restrict", "return",
};
/* clang-format on */

static void insert_word(size_t at, size_t end)
{
    const char *w = words[pick(sizeof words / sizeof *words)];
    replace(at, pick(2) ? end - at : 0, w, strlen(w));
}

/* A part of the text once more, elsewhere. */
static void copy_part(size_t at)
{
    size_t from = pick(len);
    size_t n = pick(pick(2) ? 20 : 400);

    if (from + n >= len)
        return;

    char *copy = malloc(n + 1);

    memcpy(copy, text + from, n);
    replace(at, 0, copy, n);
    free(copy);
}

/* The same sign many times. */
static void repeat_sign(size_t at)
{
    size_t n = 1 + pick(pick(4) ? 10 : 3000);
    while (n--)
        replace(at, 0, text + at, 1);
}

static void damage(void)
{
    size_t at = pick(len);
    size_t e = word(at);

    switch (pick(8)) {
    case 0:
        replace(at, e - at, "", 0);
        break;
    case 1:
    case 2:
    case 3:
        insert_word(at, e);
        break;
    case 4:
        copy_part(at);
        break;
    case 5:
        repeat_sign(at);
        break;
    case 6:
        replace(at, pick(200), "", 0);
        break;
    default:
        text[at] = (char)pick(256);
    }
}

/* In the child: reads the text from a file of memory. */
static void translate(void)
{
    char name[64];
    int fd = memfd_create("fuzz", 0);
    int null = open("/dev/null", O_WRONLY);

    if (fd < 0 || write(fd, text, len) != (ssize_t)len)
        _exit(77);

    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    dup2(null, 1);

    char *argv[] = { "upcxlate", name, NULL };

    alarm(5);
    exit(upcxlate_main(2, argv));
}

int main(int argc, char **argv)
{
    time_t end = time(NULL) + atoi(argc > 3 ? argv[1] : "1");
    long runs = 0;
    long accepted = 0;

    state = 88172645463325252ull + 31ull * (unsigned)atoi(argc > 3 ? argv[2] : "1");
    if (argc < 4)
        return 2;

    char errors[] = "/tmp/fuzz_upcxlate.XXXXXX";
    int err = mkstemp(errors);

    while (time(NULL) < end) {
        load(argv[3 + pick((size_t)argc - 3)]);
        for (size_t n = 1 + pick(6); n && len; n--)
            damage();

        if (ftruncate(err, 0) != 0 || lseek(err, 0, SEEK_SET) != 0)
            return 2;

        pid_t pid = fork();

        if (pid == 0) {
            dup2(err, 2);
            translate();
        }

        int status;

        waitpid(pid, &status, 0);
        runs++;
        accepted += status == 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) <= 2 &&
            (status == 0 || lseek(err, 0, SEEK_END) > 0))
            continue;

        printf("input %ld ends with status %x:\n", runs, (unsigned)status);
        fflush(stdout);

        FILE *f = fopen("fuzz-upcxlate.input", "w");

        if (f) {
            fwrite(text, 1, len, f);
            fclose(f);
        }

        lseek(err, 0, SEEK_SET);

        char line[4096];

        for (ssize_t n; (n = read(err, line, sizeof line)) > 0;)
            if (write(1, line, (size_t)n) != n)
                break;

        unlink(errors);
        return 1;
    }

    unlink(errors);
    printf("%ld inputs, %ld translated\n", runs, accepted);
    return runs < 5;
}
