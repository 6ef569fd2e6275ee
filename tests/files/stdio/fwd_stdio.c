/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_stdio DIRECTORY SCRATCH: streams.  fwd_calls.sh runs it in a local directory and in a
 * forwarded one and compares what it prints and the files it leaves.  It ends by return from main
 * with data in its buffers.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <malloc.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "tests/files/fwd_say.h"

static const char *scratch;

static void plain(void)
{
    char line[100];
    char *whole = NULL;
    size_t cap = 0;
    int number = 0;
    FILE *f = fopen(in("text"), "w+");

    T(fileno(f) > 2);
    T(fprintf(f, "line %d\nsecond line\n", 1));
    T(fputs("third\n", f));
    T(putc('x', f));
    T(fwrite("yz\n", 1, 3, f));
    T(ftell(f));
    T(fseek(f, 5, SEEK_SET));
    T(fscanf(f, "%d", &number));
    T(number);
    T(fgets(line, sizeof line, f) ? (long)strlen(line) : -1);
    T(getline(&whole, &cap, f));
    T(ungetc('Q', f));
    T(fgetc(f));
    T(fgetc(f));
    T(fseeko(f, -3, SEEK_END));
    T(fread(line, 1, 50, f));
    T(feof(f) != 0);
    T(fgetc(f));
    rewind(f);
    T(feof(f));
    T(fgetc(f));
    T(fseek(f, 0, SEEK_END));
    T(fputs("appended\n", f));
    T(fflush(f));
    T(ftruncate(fileno(f), 20));
    T(ferror(f));
    T(fclose(f));
    free(whole);
    T(fopen(in("none"), "r") ? 0 : -1);
    T(fopen(in("text"), "wx") ? 0 : -1);
    T(fopen(in("text"), "q") ? 0 : -1);
    T(fopen(in("none/x"), "w") ? 0 : -1);
    f = fopen64(in("text"), "ae");
    T(ftell(f));
    T(fcntl(fileno(f), F_GETFD));
    T(fcntl(fileno(f), F_GETFL) & (O_ACCMODE | O_APPEND));
    T(fprintf(f, "more"));
    T(fgetc(f));
    T(fclose(f));
    f = fopen(in("text"), "r");
    T(fputc('x', f));
    clearerr(f);
    T(setvbuf(f, NULL, _IONBF, 0));
    T(fgetc(f));
    T(lseek(fileno(f), 0, SEEK_CUR));
    T(fclose(f));
}

static void by_descriptor(void)
{
    char line[100] = "";
    int fd = open(in("fd"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    FILE *f = fdopen(fd, "r+");

    T(fileno(f) == fd);
    T(fprintf(f, "through fd"));
    T(fclose(f));
    T(close(fd));
    fd = open(in("fd"), O_RDONLY);
    T(fdopen(fd, "w") ? 0 : -1);
    f = fdopen(fd, "r");
    T(fgets(line, sizeof line, f) ? 0 : -1);
    fprintf(report, "%s\n", line);
    T(fclose(f));
    fd = open(in("fd"), O_WRONLY);
    f = fdopen(fd, "ae");
    T(fcntl(fd, F_GETFD));
    T(fcntl(fd, F_GETFL) & O_APPEND);
    T(fprintf(f, " and on"));
    T(fclose(f));
    f = popen("cat", "w"); /* no stream of ours */
    T(f ? 0 : -1);
    T(pclose(f));
}

static void reopened(void)
{
    char line[100], path[PATH_MAX];
    FILE *f = fopen(in("re1"), "w");
    FILE *g;

    fputs("first", f);
    T((g = freopen(in("re2"), "w", f)) == f);
    fputs("second", g);
    T((g = freopen(in("re1"), "r", g)) != NULL);
    T(fgets(line, sizeof line, g) ? (long)strlen(line) : -1);
    snprintf(path, sizeof path, "%s/plain", scratch);
    T((g = freopen(path, "w+", g)) != NULL);
    T(fputs("local now", g));
    rewind(g);
    T(fgets(line, sizeof line, g) ? (long)strlen(line) : -1);
    T(fclose(g));
    f = fopen(in("re1"), "r");
    T(freopen(in("none/none"), "r", f) ? 0 : -1);
    f = fopen(in("re1"), "r");
    T(freopen(NULL, "r", f) == f);
    T(fgetc(f));
    T(fclose(f));

    /* a stream of the C library's is led into the directory */
    T((f = freopen(in("stdin"), "w+", stdin)) != NULL);
    fputs("12 words\n", stdin);
    rewind(stdin);

    int n = 0;

    T(scanf("%d", &n));
    T(n);
    T(fileno(stdin));
    printf("before\n");
    fflush(stdout);
    T(freopen(in("stdout"), "w", stdout) != NULL);
    printf("to the file %d\n", 1);
    T(fileno(stdout));
    T(write(1, "", 0));
}

static void wide(void)
{
    wchar_t line[50];
    FILE *f = fopen(in("wide"), "w+");

    T(fputwc(L'\u00e4', f) == L'\u00e4');
    T(fputws(L"\u4e2d\u6587 text\n", f) >= 0);
    T(fwprintf(f, L"%d %ls\n", 42, L"\u20ac"));
    rewind(f);
    T(fgetwc(f));
    T(ungetwc(L'Z', f) == L'Z');
    T(fgetwc(f));
    T(fgetws(line, 50, f) ? (long)wcslen(line) : -1);
    T(line[1]);
    T(getwc(f));
    T(fgetws(line, 50, f) ? (long)wcslen(line) : -1);
    T(fgetwc(f) == WEOF);
    T(fclose(f));
}

/* What a stream is of is said by fwide, or by the first call. */
static void oriented(void)
{
    FILE *f = fopen(in("oriented"), "w+");

    T(fwide(f, 0));
    T(fwide(f, 1) > 0);
    T(fwide(f, -1) > 0);
    T(fputws(L"wide", f) >= 0);
    T(fclose(f));
    f = fopen(in("oriented"), "r");
    T(fgetwc(f));
    T(fwide(f, 0) > 0);
    T(fclose(f));
    f = fopen(in("oriented"), "r+");
    T(fgetc(f));
    T(fwide(f, 1) < 0);
    T(fgetwc(f) == WEOF);
    T(fwprintf(f, L"%d", 1));
    T(fgetc(f));
    f = freopen(in("oriented"), "r+", f);
    T(fwide(f, 0));
    T(fclose(f));
    f = fopen(in("oriented"), "r+");
    T(fputs("x", f) >= 0);
    T(fwide(f, 1) < 0); /* also while that is in the buffer */
    f = freopen(in("oriented"), "r+", f);
    T(fwide(f, -1) < 0);
    T(fputws(L"x", f));
    T(fclose(f));
}

static void put_bytes(const char *name, const char *bytes, size_t n)
{
    FILE *f = fopen(in(name), "w");

    fwrite(bytes, 1, n, f);
    fclose(f);
}

/* Written and read in a character set that the mode names. */
static void coded_round(const char *set)
{
    char mode[50];

    snprintf(mode, sizeof mode, "w,ccs=%s", set);
    fprintf(report, "%s\n", mode);

    FILE *f = fopen(in("coded"), mode);

    T(f ? 0 : -1);
    if (!f)
        return;

    T(fwide(f, 0));
    T(fputws(L"a\u00e4\n\u65e5\u672c", f) >= 0);
    T(fputwc(L'\u20ac', f));
    T(fwprintf(f, L"%d\u00fc %ls\n", 12, L"x\u00df"));
    T(fclose(f));
    f = fopen(in("coded"), "r");
    for (int c; (c = fgetc(f)) != EOF;)
        fprintf(report, "%02x ", c);

    fclose(f);
    mode[0] = 'r';
    f = fopen(in("coded"), mode);
    for (wint_t c; (c = fgetwc(f)) != WEOF;)
        fprintf(report, "%lx ", (long)c);

    T(feof(f) != 0);
    T(ferror(f) != 0);
    fclose(f);
}

/* Many scans of one stream, and a word that is longer than what is looked at first. */
static void scanned(const char *mode)
{
    enum {
        LINES = 300,
        LONG = 30000
    };

    static wchar_t word[LONG + 1];
    char whole[50];
    int number, n;
    long sum = 0;
    wchar_t c;

    snprintf(whole, sizeof whole, "w%s", mode);
    fprintf(report, "%s\n", whole);

    FILE *f = fopen(in("scanned"), whole);

    for (int i = 0; i < LINES; i++)
        fwprintf(f, L"%d w\u00e4rd%d \u00fc\n", i, 7 * i);

    for (int i = 0; i < LONG; i++)
        fputwc(i % 3 ? L'x' : L'\u00e4', f);

    fputws(L"\nlast", f);
    T(fclose(f));
    whole[0] = 'r';
    f = fopen(in("scanned"), whole);
    for (n = 0; fwscanf(f, L"%d %39ls %lc", &number, word, &c) == 3; n++)
        sum += number + (long)wcslen(word) * c;

    T(n);
    T(sum);
    T(ftell(f));
    T(fwscanf(f, L"%30000ls", word));
    T(wcslen(word));
    T(ftell(f));
    T(fwscanf(f, L"%ls", word));
    T(wcscmp(word, L"last"));
    T(fwscanf(f, L"%ls", word));
    rewind(f);
    T(fgetws(word, 30, f) ? (long)wcslen(word) : -1);
    T(ftell(f));
    T(fclose(f));
}

static void coded(void)
{
    static const char *const sets[] = {
        "ISO-8859-1",
        "iso-8859-15",
        "UTF-8",
        "UTF-16",
        "UTF-16BE",
        "UCS-4LE",
        "EUC-JP",
        "ISO-2022-JP",
        "ASCII",
        "UTF-8,x",
        "nonesuch",
        "",
        "ISO-8859-1//TRANSLIT",
    };
    wchar_t line[50];
    FILE *f;
    int number = 0;

    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        coded_round(sets[i]);

    scanned("");
    scanned(",ccs=UTF-8");
    scanned(",ccs=UTF-16LE");
    scanned(",ccs=ISO-8859-1");
    put_bytes("latin", "\344b\377\n12 \366\374x\n", 11);
    f = fopen(in("latin"), "r+,ccs=ISO-8859-1");
    T(fgetwc(f));
    T(ungetwc(L'\u20ac', f));
    T(fgetwc(f));
    T(ftell(f));
    T(fgetwc(f));
    T(fseek(f, 2, SEEK_SET));
    T(fgetws(line, 50, f) ? line[0] : -1);
    T(fwscanf(f, L"%d %2ls", &number, line));
    T(number);
    T(line[0] * 1000 + line[1]);
    T(fgetwc(f));
    T(fgetwc(f));
    T(fgetwc(f) == WEOF);
    T(ungetwc(L'z', f));
    T(fgetwc(f));
    T(fseek(f, 0, SEEK_END));
    T(fputwc(L'\u00fc', f));
    T(fclose(f));
    f = fopen(in("latin"), "a,ccs=ISO-8859-1");
    T(fputws(L"\u00e4\n", f) >= 0);
    T(fclose(f));
    f = fopen(in("latin"), "r,ccs=ASCII");
    T(fgetwc(f) == WEOF);
    T(ferror(f) != 0);
    T(fclose(f));
    put_bytes("marked", "\376\377\0a\0b", 6);
    f = fopen(in("marked"), "r,ccs=UTF-16");
    T(fgetwc(f));
    T(fgetwc(f));
    T(fgetwc(f) == WEOF);
    T(freopen(in("latin"), "r,ccs=nonesuch", f) ? 0 : -1);
    f = fopen(in("latin"), "r,ccs=ISO-8859-1");
    T((f = freopen(in("wide"), "r", f)) ? 0 : -1); /* the locale's again */
    T(fwide(f, 0));
    T(fgetwc(f));
    T(fclose(f));
}

static void at_exit(void)
{
    FILE *f = fopen(in("atexit"), "w");
    fputs("written by an atexit handler, flushed after it", f);
}

/* A place in the buffer, a write there, the same place again, a read. */
static void to_and_fro(void)
{
    FILE *f = fopen(in("fro"), "w+");

    for (int i = 0; i < 1000; i++)
        fputc('a' + i % 26, f);

    rewind(f);
    T(fgetc(f));
    T(fseek(f, 539, SEEK_SET));
    T(fwrite("01", 1, 2, f));
    T(fseek(f, 0, SEEK_CUR));
    T(fgetc(f));
    T(ftell(f));
    T(fclose(f));
}

static void __attribute__((destructor)) at_end(void)
{
    if (!dir)
        return;

    FILE *f = fopen(in("destructor"), "w");

    fputs("written by a destructor, flushed after it", f);
}

/* From the end to the beginning, a little at each place, and in a file that has been read in a row
 * before. */
static int jump(const char *path)
{
    char block[100];
    FILE *f = fopen(path, "r");

    for (int i = 0; f && i < 40000; i++)
        if (fgetc(f) == EOF)
            return 1;

    for (long at = 199; f && at >= 0; at--)
        if (fseek(f, at * 5003, SEEK_SET) != 0 ||
            fread(block, 1, sizeof block, f) != sizeof block || ftell(f) != at * 5003 + 100)
            return 1;

    return !f || fclose(f) != 0;
}

/* The descriptor of a stream is closed, and the file that the stream is led to gets the number by
 * itself. */
static void closed_below(void)
{
    char line[100];
    FILE *f = fopen(in("below"), "w+");
    FILE *g;

    fputs("first\n", f);
    fflush(f);
    T(close(fileno(f)));
    OK((g = freopen(in("below2"), "w+", f)) ? 0 : -1);
    T(fputs("second\n", g));
    rewind(g);
    T(fgets(line, sizeof line, g) ? line[0] : -1);
    T(fclose(g));
    T(close(0));
    OK(freopen(in("below2"), "r", stdin) ? 0 : -1);
    T(fileno(stdin));
    T(getchar());
    T(close(0));
    OK(freopen(in("below"), "r", stdin) ? 0 : -1);
    T(getchar());
    T(close(0));
    OK(freopen("/dev/null", "r", stdin) ? 0 : -1);
    T(fileno(stdin));
    T(getchar());

    for (int closes = 0; closes < 2; closes++) { /* from a local file into the directory */
        f = fopen("/dev/null", "r");
        int fd = fileno(f);
        if (closes)
            T(close(fd));
        OK((g = freopen(in("below"), "r", f)) ? 0 : -1);
        T(g && fileno(g) == fd);
        T(g ? fgetc(g) : -1);
        T(g ? fclose(g) : -1);
        T(close(fd));
    }
}

/* freopen gives a stream back to its own buffer: another one is the program's again. */
static void own_buffer(void)
{
    static char given[1000];
    static const int modes[] = { _IOFBF, _IOLBF, _IONBF };
    struct stat st;

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        FILE *f = fopen(in("buffered"), "w");

        T(setvbuf(f, given, modes[i], sizeof given));
        fputs("into the given buffer\n", f);
        OK((f = freopen(in("buffered2"), "w+", f)) ? 0 : -1);
        memset(given, 'p', sizeof given);
        T(fputs("elsewhere\n", f));
        T(given[0]);
        T(stat(in("buffered2"), &st));
        T(st.st_size);
        OK((f = freopen(in("buffered2"), "r", f)) ? 0 : -1);
        T(fgetc(f));
        T(given[0]);
        T(fclose(f));
    }
}

/* Streams with a character set of their own leave no memory behind; the C library's leave 448 bytes
 * each (glibc 2.36). */
static void leave_nothing(void)
{
    size_t before = 0;

    for (int i = 0; i < 110; i++) {
        FILE *f = fopen(in("below"), "r,ccs=ISO-8859-1");

        fclose(f);
        before = i == 9 ? mallinfo2().uordblks : before;
    }

    T(mallinfo2().uordblks > before + 60000);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    if (strcmp(argv[1], "jump") == 0)
        return jump(argv[2]);

    dir = argv[1];
    scratch = argv[2];
    report = fdopen(dup(1), "w");
    setlocale(LC_ALL, "C.UTF-8");
    plain();
    by_descriptor();
    wide();
    oriented();
    coded();
    reopened();
    to_and_fro();
    closed_below();
    own_buffer();
    leave_nothing();
    atexit(at_exit);

    FILE *f = fopen(in("unflushed"), "w");

    fprintf(f, "unflushed %s", "data");
    printf("and this in stdout's buffer");
    fclose(report);

    return 0;
}
