/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the compiler; see cc.h.
 *
 * Layer: iofwd/cc.
 *
 * The output of a compiler that may be run again goes to memory, so that nothing is printed twice.
 * This includes standard output, which may be a product (-E, -o -).
 */
#include "iofwd/cc/cc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/platform.h"

enum {
    CODE_GCC_CRASH = 4,    /* gcc's driver, after an internal error of the compiler proper */
    CODE_CLANG_CRASH = 70, /* clang */
    CODE_SIGNAL = 128      /* a shell script's, plus the signal that ended its compiler */
};

static int memory_file(void)
{
    int fd = memfd_create("iofwd-cc", MFD_CLOEXEC);

    if (fd < 0)
        amph_cc_die(1, "memory for the compiler's output: %s", strerror(errno));

    return fd;
}

__attribute__((noreturn)) static void execute(const struct amph_cc_words *command)
{
    execvp(command->v[0], command->v);
    amph_cc_die(errno == ENOENT ? 127 : 126, "the compiler %s cannot be started: %s", command->v[0],
                strerror(errno));
}

/* Runs the command. in, out, err: the child's descriptors; below 0: those of this process.
 * Returns the wait status. */
static int run_with(const struct amph_cc_words *command, int in, int out, int err)
{
    int status;

    fflush(NULL);

    pid_t pid = fork();

    if (pid == 0) {
        if (in >= 0)
            dup2(in, 0);
        if (out >= 0)
            dup2(out, 1);
        if (err >= 0)
            dup2(err, 2);

        execute(command);
    }

    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            pid = -1;

    if (pid < 0)
        amph_cc_die(1, "the compiler %s cannot be started: %s", command->v[0], strerror(errno));

    return status;
}

static int code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : CODE_SIGNAL + WTERMSIG(status);
}

int amph_cc_run_child(const struct amph_cc_words *command)
{
    return code_of(run_with(command, -1, -1, -1));
}

/* Returns all that has been written to a memory file. */
static char *text_of(int fd)
{
    struct stat st;
    size_t n = 0;
    ssize_t got = fstat(fd, &st);
    char *text = got < 0 ? NULL : malloc((size_t)st.st_size + 1);

    while (text && n < (size_t)st.st_size &&
           (got = pread(fd, text + n, (size_t)st.st_size - n, (off_t)n)) > 0)
        n += (size_t)got;

    if (!text || got < 0)
        amph_cc_die(1, "the compiler's output cannot be read: %s", strerror(errno));

    text[n] = 0;
    return text;
}

/* ---- attempts ---- */

static bool is_users_signal(int sig)
{
    return sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT || sig == SIGPIPE;
}

/* Has the compiler itself failed, as opposed to the program that it compiles? */
static bool has_crashed(int status, const char *messages)
{
    if (WIFSIGNALED(status))
        return !is_users_signal(WTERMSIG(status));

    int code = WEXITSTATUS(status);

    if (code > CODE_SIGNAL)
        return !is_users_signal(code - CODE_SIGNAL);

    return code == CODE_GCC_CRASH || code == CODE_CLANG_CRASH ||
           (code != 0 && (strstr(messages, "internal compiler error") ||
                          strstr(messages, "PLEASE submit a bug report") ||
                          strstr(messages, "terminated by signal")));
}

/* Ends this process as the compiler has ended. */
__attribute__((noreturn)) static void end_as(int status)
{
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }

    exit(code_of(status));
}

/* ---- messages of a static link ---- */

static bool has_one_of(const char *line, size_t n, const char *const list[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memmem(line, n, list[i], strlen(list[i])))
            return true;

    return false;
}

/* Does the line name our archives, or an object of the C library that only they use?  gold names sources
 * in their place, if there is debugging information: those that call dlopen or getaddrinfo. */
static bool is_about_ours(const char *line, size_t n)
{
    static const char *const names[] = { "libiofwd_wrap.a(", "libiofwd.a(", "libamphora.a(",
                                         "/libc.a(getwd.o)" };
    static const char *const sources[] = { "/am/job.c:", "/boot/pmi1_wire.c:", "/boot/pmix.c:",
                                           "/conduits/psm_absent.c:", "/conduits/registry.c:" };
    static const char needs[] = "in statically linked applications requires";

    return has_one_of(line, n, names, AMPH_COUNTOF(names)) ||
           (memmem(line, n, needs, sizeof needs - 1) &&
            has_one_of(line, n, sources, AMPH_COUNTOF(sources)));
}

static bool is_warning(const char *line, size_t n)
{
    return memmem(line, n, "warning:", sizeof "warning:" - 1) != NULL;
}

/* Removes warnings of the linker that our archives cause: they name every forwarded function
 * (mktemp, getwd) and load libraries.  The program has not asked for these, and libtool takes a
 * warning for a failure.  A warning may follow a line that names the archive and the function.
 * Errors stay. */
static void remove_own_warnings(char *messages)
{
    char *to = messages;
    bool inside = false; /* after such a line, which is held back */
    size_t kept_back = 0;

    for (char *line = messages; *line;) {
        size_t n = strcspn(line, "\n");
        char *next = line + n + (line[n] == '\n');
        bool ours = is_about_ours(line, n);
        bool named = memmem(line, n, "ld: ", 4) != NULL; /* it begins a message of its own */
        bool drop = is_warning(line, n) && (ours || (inside && !named));

        if (!drop && kept_back) { /* an error: the line before belongs to it */
            memmove(to, line - kept_back, kept_back);
            to += kept_back;
        }

        kept_back = 0;
        inside = drop ? inside && !ours : ours;
        if (!drop && ours && n > 1 && line[n - 1] == ':') {
            kept_back = (size_t)(next - line);
        } else if (!drop) {
            memmove(to, line, (size_t)(next - line));
            to += next - line;
        }

        line = next;
        if (!*line && kept_back) {
            memmove(to, line - kept_back, kept_back);
            to += kept_back;
        }
    }

    *to = 0;
}

static void write_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, text, n);

        if (put < 0 && errno != EINTR)
            amph_cc_die(1, "the compiler's output could not be written: %s", strerror(errno));

        text += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
}

/* ---- runs ---- */

static void pass_on(int from, int to)
{
    char buf[65536];
    ssize_t n;

    for (off_t at = 0; (n = pread(from, buf, sizeof buf, at)) > 0; at += n)
        write_all(to, buf, (size_t)n);
}

static bool reads_stdin(const struct amph_cc_words *command)
{
    for (size_t i = 1; i < command->n; i++)
        if (strcmp(command->v[i], "-") == 0 && strcmp(command->v[i - 1], "-o") != 0)
            return true;

    return false;
}

void amph_cc_run(const struct amph_cc_words *command, int retries, bool is_static)
{
    off_t begin = lseek(0, 0, SEEK_CUR);

    if (begin < 0 && reads_stdin(command))
        retries = 0;
    if (retries == 0 && !is_static)
        execute(command);

    for (int attempt = 1;; attempt++) {
        int out = memory_file();
        int err = memory_file();
        int status = run_with(command, -1, out, err);
        char *messages = text_of(err);
        bool again = attempt <= retries && has_crashed(status, messages);

        if (!again) {
            if (is_static)
                remove_own_warnings(messages);

            pass_on(out, 1);
            write_all(2, messages, strlen(messages));
            end_as(status);
        }

        free(messages);

        fprintf(stderr, "%s: %s crashed (%s %d); attempt %d of %d\n", program_invocation_short_name,
                command->v[0], WIFSIGNALED(status) ? "signal" : "exit code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), attempt + 1,
                retries + 1);
        close(out);
        close(err);
        if (begin >= 0)
            lseek(0, begin, SEEK_SET);
    }
}

char *amph_cc_capture(const struct amph_cc_words *command, int retries, int *code_p)
{
    int none = open("/dev/null", O_RDONLY | O_CLOEXEC);

    for (int attempt = 1;; attempt++) {
        int out = memory_file();
        int status = run_with(command, none, out, out);
        char *text = text_of(out);

        close(out);
        if (attempt > retries || !has_crashed(status, text)) {
            close(none);
            *code_p = code_of(status);
            return text;
        }

        free(text);
    }
}
