/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FILE objects of the C library whose descriptor becomes a forwarded one, or a local one again,
 * while the program has the pointer. fwd_streams MODE DIR: DIR is a local directory or a forwarded
 * one; what is printed and left in it must be the same.
 */
#include <assert.h>
#include <err.h>
#include <error.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>
#include <wchar.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *dir;
static int report; /* where results go: a descriptor that no mode changes */

static void die(const char *what)
{
    dprintf(report, "%s: %s\n", what, strerror(errno));
    exit(9);
}

static int open_in(const char *name, int flags)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", dir, name);

    int fd = open(path, flags, 0666);

    if (fd < 0)
        die(path);

    return fd;
}

/* Leads fd to DIR/name and gives a copy of what it led to. */
static int lead(int fd, const char *name, int flags)
{
    int saved = dup(fd);
    int to = open_in(name, flags);

    if (saved < 0 || dup2(to, fd) != fd || close(to) != 0)
        die("dup2");

    return saved;
}

static void lead_back(int fd, int saved)
{
    if (dup2(saved, fd) != fd || close(saved) != 0)
        die("dup2 back");
}

static FILE *scratch_file(const char *mode)
{
    FILE *f = tmpfile();

    if (!f || !freopen(NULL, mode, f))
        die("tmpfile");

    return f;
}

/* ---- modes ---- */

/* The object that stdout led to at the start, written by functions, by the inline forms, and by
 * what the C library prints by itself. */
static void out(void)
{
    FILE *before = stdout;

    fprintf(before, "pending\n");

    int saved = lead(1, "out", O_CREAT | O_WRONLY | O_TRUNC);

    fprintf(before, "a line\n");
    fputs("from stdout\n", stdout);
    for (const char *at = "unlocked\n"; *at; at++)
        putc_unlocked(*at, before);

    fwrite("block\n", 1, 6, before);
    puts("puts");
    dprintf(report, "same stream: %d, descriptor %d, error %d\n", before == stdout, fileno(before),
            ferror(before));
    dprintf(report, "flushed: %d\n", fflush(before));
    dprintf(report, "at %ld\n", ftell(before));
    lead_back(1, saved);
    printf("local again\n");
    dprintf(report, "flushed: %d\n", fflush(NULL));
}

/* Bytes that wait in the buffer go wherever the descriptor leads when they are written. */
static void buffered(void)
{
    static char own[64];
    FILE *before = stdout;

    setvbuf(stdout, own, _IOFBF, sizeof own);
    printf("first");

    int saved = lead(1, "buffered", O_CREAT | O_WRONLY | O_TRUNC);

    printf("second");
    lead_back(1, saved);
    printf("third: %d of %d\n", (int)__fpending(before), (int)__fbufsize(before));
    fflush(before);
    saved = lead(1, "buffered", O_WRONLY | O_APPEND);
    for (int i = 0; i < 100; i++)
        fprintf(before, "%d ", i);

    fflush(stdout);
    lead_back(1, saved);
    printf("end\n");
}

static void line_buffered(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);

    int saved = lead(1, "lines", O_CREAT | O_RDWR | O_TRUNC);

    printf("one\ntwo");
    dprintf(report, "%d pending, line buffered %d, %ld in the file\n", (int)__fpending(stdout),
            __flbf(stdout), (long)lseek(1, 0, SEEK_END));
    printf(" end\n");
    dprintf(report, "%d pending\n", (int)__fpending(stdout));
    lead_back(1, saved);
}

/* What was read ahead comes before what the descriptor leads to now. */
static void in(void)
{
    FILE *before = stdin;
    char line[100];
    int fd = open_in("in", O_CREAT | O_RDWR | O_TRUNC);
    int pair[2];
    int number = 0;
    static const char forwarded[] = "17 18\nforwarded line\nlast";

    if (write(fd, forwarded, sizeof forwarded - 1) < 0 || close(fd) != 0 || pipe(pair) != 0)
        die("in");

    if (write(pair[1], "local one\nlocal two\n", 20) != 20 || dup2(pair[0], 0) != 0 ||
        close(pair[1]) != 0)
        die("pipe");

    dprintf(report, "%s", fgets(line, sizeof line, stdin));

    int saved = lead(0, "in", O_RDONLY);

    dprintf(report, "%s", fgets(line, sizeof line, before));
    dprintf(report, "%d ", scanf("%d", &number));
    dprintf(report, "%d\n", number);
    for (int c = getc_unlocked(before); c != EOF && c != 'w'; c = getc_unlocked(before))
        dprintf(report, "%c", c);

    dprintf(report, "|%d\n", ungetc('W', before));
    while (fgets(line, sizeof line, before))
        dprintf(report, "[%s]\n", line);

    dprintf(report, "end %d %d, error %d\n", feof(before), feof_unlocked(before),
            ferror_unlocked(before));
    rewind(before);
    dprintf(report, "%d at %ld, %c\n", feof(stdin), ftell(stdin), getchar());
    lead_back(0, saved);
}

/* A stream of fopen or fdopen. */
static void foreign(void)
{
    char line[100];
    FILE *f = scratch_file("w+");
    FILE *g = scratch_file("w+");

    fprintf(f, "pending ");

    int to = open_in("foreign", O_CREAT | O_RDWR | O_TRUNC);
    int copy = dup(fileno(f));

    if (dup2(to, fileno(f)) < 0 || close(to) != 0)
        die("dup2");

    fprintf(f, "line\nsecond\n");
    for (int i = 0; i < 3000; i++)
        fprintf(f, "%d\n", i);

    dprintf(report, "at %ld\n", ftell(f));
    rewind(f);
    dprintf(report, "%s", fgets(line, sizeof line, f));
    dprintf(report, "%s", fgets(line, sizeof line, f));
    fseek(f, -5, SEEK_END);
    dprintf(report, "%s", fgets(line, sizeof line, f));
    dprintf(report, "closed: %d\n", fclose(f));
    dprintf(report, "%ld in the local file\n", (long)lseek(copy, 0, SEEK_END));

    /* closed below the stream, and its number taken by a forwarded file */
    int number = fileno(g);

    fputs("before", g);
    close(number);
    to = open_in("taken", O_CREAT | O_RDWR | O_TRUNC);
    dprintf(report, "number taken: %d\n", to == number);
    fputs(" after", g);
    dprintf(report, "closed: %d\n", fclose(g));
}

static void reopened(void)
{
    char path[4096];
    FILE *before = stdout;
    FILE *f = scratch_file("w");
    FILE *errors = stderr;

    printf("to the local file\n");
    snprintf(path, sizeof path, "%s/reopened", dir);

    FILE *again = freopen(path, "w", stdout);

    dprintf(report, "same: %d, %d\n", again == before, stdout == before);
    fprintf(before, "by the old pointer\n");
    printf("by the new one\n");

    FILE *other = freopen(path, "a", f);

    dprintf(report, "same: %d\n", other == f);
    fflush(stdout);
    fputs("by a third\n", f);
    dprintf(report, "closed: %d\n", fclose(f));
    dprintf(report, "same: %d\n", freopen(path, "a", stderr) == errors);
    fprintf(errors, "an error\n");
    fflush(errors);
    fprintf(before, "last\n");
    dprintf(report, "%d\n", fclose(before));
}

static void wide(void)
{
    FILE *before = stdout;
    wchar_t line[100];
    int pair[2];

    setlocale(LC_ALL, "C.UTF-8");
    wprintf(L"pending \x20ac\n");

    int saved = lead(1, "wide", O_CREAT | O_RDWR | O_TRUNC);

    fwprintf(before, L"wide %d \xfc\n", 3);
    putwc(L'\xdf', stdout);
    fputws(L"\n", before);
    dprintf(report, "orientation %d\n", fwide(before, 0) > 0);
    fflush(stdout);
    lead_back(1, saved);
    wprintf(L"local again\n");
    fflush(stdout);

    if (pipe(pair) != 0 || write(pair[1], "\xc3\xbc first\nsecond \xe2\x82\xac\n", 20) != 20)
        die("pipe");

    if (dup2(pair[0], 0) != 0 || close(pair[1]) != 0)
        die("dup2");

    wint_t first = getwchar();

    dprintf(report, "%x\n", (unsigned)first);
    saved = lead(0, "wide", O_RDONLY);
    while (fgetws(line, COUNT(line), stdin))
        dprintf(report, "%d: %x\n", (int)wcslen(line), (unsigned)line[wcslen(line) - 2]);

    lead_back(0, saved);
}

/* Wide calls on streams that byte calls have used: putwc puts bytes, the others fail.  C++'s wcout uses
 * putwc after cout. */
static void mixed(void)
{
    int saved = lead(1, "mixed", O_CREAT | O_WRONLY | O_TRUNC);

    printf("bytes\n");
    dprintf(report, "putwc %d\n", (int)putwc(L'w', stdout));
    dprintf(report, "putwchar %d\n", (int)putwchar(0x141));
    dprintf(report, "fputwc %d\n", (int)fputwc(L'f', stdout));
    dprintf(report, "wprintf %d\n", wprintf(L"never there"));
    dprintf(report, "orientation %d, error %d\n", fwide(stdout, 0), ferror(stdout) != 0);
    fflush(stdout);
    lead_back(1, saved);

    FILE *f = fopen("/dev/null", "w");
    char path[4096];

    snprintf(path, sizeof path, "%s/mixed-again", dir);
    if (!f || !(f = freopen(path, "w", f)) || !(f = freopen(path, "w", f)))
        die("freopen");

    setvbuf(f, NULL, _IONBF, 0);
    fputs("bytes after freopen\n", f);
    dprintf(report, "after freopen: fwprintf %d\n", fwprintf(f, L"never there"));
    fclose(f);
}

/* What the C library writes to stderr by itself, and what it flushes. */
static void messages(void)
{
    char *bad[] = { (char *)"program", (char *)"-x", NULL };
    int saved = lead(2, "messages", O_CREAT | O_WRONLY | O_TRUNC | O_APPEND);

    program_invocation_name = program_invocation_short_name = (char *)"program";
    errno = ENOENT;
    perror("perror");
    psignal(SIGTERM, "psignal");
    errno = ENOENT; /* perror and psignal may change it */
    warn("warn");
    warnx("warnx");
    error(0, EACCES, "error");
    (void)getopt(2, bad, "a");
    openlog("logger", LOG_PERROR, LOG_USER);
    errno = ENOENT;
    syslog(LOG_INFO, "syslog %d: %m", 1);
    syslog(LOG_INFO, "syslog's line\n");
    setlogmask(LOG_UPTO(LOG_ERR));
    syslog(LOG_INFO, "masked");
    closelog();
    syslog(LOG_ERR, "after closelog");
    h_errno = HOST_NOT_FOUND;
    herror("herror");

    siginfo_t info = { .si_signo = SIGSEGV, .si_code = SEGV_MAPERR };

    psiginfo(&info, "psiginfo");
    fprintf(stderr, "fprintf %d\n", 1);

    pid_t child = fork();

    if (child == 0)
        assert(dir == NULL);

    int status = 0;

    waitpid(child, &status, 0);
    child = fork();
    if (child == 0)
        errx(3, "errx");

    int code = 0;

    waitpid(child, &code, 0);
    lead_back(2, saved);
    dprintf(report, "signal %d, code %d\n", WTERMSIG(status), WEXITSTATUS(code));
}

static void *write_lines(void *arg)
{
    for (int i = 0; i < 2000; i++)
        fprintf(arg, "%08d\n", i);

    return NULL;
}

extern void __chk_fail(void) __attribute__((noreturn)); /* of fortified functions */

static void free_twice(void)
{
    void *volatile p = malloc(100);

    free(p);
    free(p);
}

static void overflow(void)
{
    __chk_fail();
}

static void overflow_in_thread_program(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, write_lines, fopen("/dev/null", "w"));
    signal(SIGABRT, SIG_IGN);
    dprintf(report, "signal gives the program's action: %d\n", signal(SIGABRT, SIG_DFL) == SIG_IGN);
    __chk_fail();
}

static void failed_assertion(void)
{
    assert(dir == NULL);
}

static void failed_call(void)
{
    __assert_perror_fail(EIO, "file", 7, "function");
}

static void failed_old_assertion(void)
{
    __assert("text", "file", 7);
}

/* What the C library prints before it aborts. */
static void aborted(void)
{
    static void (*const ways[])(void) = {
        free_twice,           overflow, overflow_in_thread_program, failed_assertion, failed_call,
        failed_old_assertion, abort
    };
    struct sigaction act;
    int saved = lead(2, "aborted", O_CREAT | O_WRONLY | O_TRUNC | O_APPEND);

    sigaction(SIGABRT, NULL, &act);
    dprintf(report, "default action %d, signal %d\n", act.sa_handler == SIG_DFL,
            signal(SIGABRT, SIG_DFL) == SIG_DFL);
    for (size_t i = 0; i < COUNT(ways); i++) {
        pid_t child = fork();

        if (child == 0) {
            ways[i]();
            _exit(0);
        }

        int status = 0;

        waitpid(child, &status, 0);
        dprintf(report, "way %zu: signal %d\n", i, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }

    lead_back(2, saved);
}

/* Two children that make their first forwarded call when they end: one writes what its stream holds, the other leaves
 * its parent's offset where its parent has read to. */
static void ends(void)
{
    int saved = lead(1, "ends", O_CREAT | O_RDWR | O_TRUNC);
    int in;
    pid_t child;

    printf("first line\nsecond line\n");
    fflush(stdout);
    child = fork();
    if (child == 0) {
        printf("of the child\n");
        exit(0);
    }

    waitpid(child, NULL, 0);
    in = dup(0);
    if (in < 0 || dup2(1, 0) < 0 || lseek(0, 0, SEEK_SET) != 0)
        die("lead");

    dprintf(report, "read %c, ", getchar());
    child = fork();
    if (child == 0)
        exit(0);

    waitpid(child, NULL, 0);
    dprintf(report, "at %ld\n", (long)lseek(0, 0, SEEK_CUR));
    lead_back(0, in);
    lead_back(1, saved);
}

static void processes(void)
{
    char line[100];
    int saved = lead(1, "processes", O_CREAT | O_WRONLY | O_TRUNC | O_APPEND);

    printf("in the buffer ");

    pid_t child = fork();

    if (child == 0) {
        printf("of the child\n");
        exit(0);
    }

    waitpid(child, NULL, 0);
    printf("of the parent\n");
    fflush(stdout);
    if (system("echo from a shell") != 0)
        die("system");

    FILE *p = popen("cat", "w");

    if (!p)
        die("popen");

    fprintf(p, "through cat\n");
    dprintf(report, "pclose %d\n", pclose(p));
    p = popen("echo read", "r");
    dprintf(report, "%s", p && fgets(line, sizeof line, p) ? line : "nothing\n");
    dprintf(report, "pclose %d\n", pclose(p));
    printf("before exec\n");
    fflush(stdout);
    child = fork();
    if (child == 0)
        execlp("echo", "echo", "executed", NULL);

    waitpid(child, NULL, 0);
    printf("at exit\n");
    close(saved);
}

/* stdout is replaced while other threads write. */
static void threads(void)
{
    pthread_t thread[3];
    int local = -1;

    for (size_t i = 0; i < COUNT(thread); i++)
        pthread_create(&thread[i], NULL, write_lines, stdout);

    for (int i = 0; i < 20; i++) {
        flockfile(stdout);
        fflush(stdout);

        int saved = lead(1, "threads", O_CREAT | O_WRONLY | O_APPEND);

        if (local < 0)
            local = saved;
        else
            close(saved);

        funlockfile(stdout);
        usleep(100);
        flockfile(stdout);
        fflush(stdout);
        dup2(local, 1);
        funlockfile(stdout);
    }

    for (size_t i = 0; i < COUNT(thread); i++)
        pthread_join(thread[i], NULL);
}

/* A stream that cannot become a forwarded one: of popen. */
static void lost(void)
{
    FILE *p = popen("cat >/dev/null", "w");
    int to = open_in("lost", O_CREAT | O_WRONLY | O_TRUNC);

    if (!p || dup2(to, fileno(p)) < 0)
        die("lost");

    fputs("never there\n", p);
}

static void lost_at_exec(void)
{
    lost();
    fflush(NULL);
    execlp("true", "true", NULL);
}

static void lost_at_abort(void)
{
    lost();
    abort();
}

/* What fork has copied is the parent's to lose. */
static void lost_in_parent(void)
{
    int status = -1;

    lost();
    fflush(NULL);

    pid_t child = fork();

    if (child == 0)
        execlp("true", "true", NULL);

    waitpid(child, &status, 0);
    dprintf(report, "the child's code is %d\n", WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
        { "out", out },
        { "buffered", buffered },
        { "lines", line_buffered },
        { "in", in },
        { "foreign", foreign },
        { "reopened", reopened },
        { "wide", wide },
        { "mixed", mixed },
        { "messages", messages },
        { "aborted", aborted },
        { "processes", processes },
        { "ends", ends },
        { "threads", threads },
        { "lost", lost },
        { "lost-at-exec", lost_at_exec },
        { "lost-at-abort", lost_at_abort },
        { "lost-in-parent", lost_in_parent },
    };

    if (argc < 3)
        return 2;

    dir = argv[2];
    report = fcntl(1, F_DUPFD, 100);

    for (size_t i = 0; i < COUNT(modes); i++)
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
            return 0;
        }

    fprintf(stderr, "%s is no mode\n", argv[1]);
    return 2;
}
