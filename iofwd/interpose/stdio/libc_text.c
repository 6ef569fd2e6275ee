/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text that functions of the C library print on standard error by system calls of their own: syslog
 * with LOG_PERROR, herror and psiginfo.  The placeholder of a forwarded standard error refuses such a call, so
 * the text is written here.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, as the C library's functions.
 */
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/stdio/state.h"

static void write_all(const char *text, size_t len)
{
    while (len) {
        ssize_t n = amph_do_write(STDERR_FILENO, text, len);

        if (n <= 0)
            return;

        text += n;
        len -= (size_t)n;
    }
}

/* ---- syslog ---- */

void amph_do_openlog(const char *ident, int options, int facility)
{
    if (ident)
        __atomic_store_n(&amph_ip_stdio.log.ident, ident, __ATOMIC_RELAXED);

    __atomic_store_n(&amph_ip_stdio.log.options, options, __ATOMIC_RELAXED);
    libc_openlog(ident, options, facility);
}

void amph_do_closelog(void)
{
    __atomic_store_n(&amph_ip_stdio.log.ident, NULL, __ATOMIC_RELAXED);
    libc_closelog();
}

/* Prints "ident[process]: text" and the end of the line, as the C library does. */
static void print_log(const char *format, va_list ap, int options)
{
    const char *ident = __atomic_load_n(&amph_ip_stdio.log.ident, __ATOMIC_RELAXED);
    char process[24] = "";
    char *text = NULL;
    char *line = NULL;
    int len = vasprintf(&text, format, ap);

    if (len < 0)
        return;

    if (options & LOG_PID)
        snprintf(process, sizeof process, "[%d]", (int)amph_ip_kernel_getpid());

    int n = asprintf(&line, "%s%s: %s%s", ident ? ident : program_invocation_short_name, process,
                     text, len && text[len - 1] == '\n' ? "" : "\n");

    free(text);
    if (n < 0)
        return;

    write_all(line, (size_t)n);
    free(line);
}

/* Called only while standard error is forwarded.  In a static program the C library's own call is
 * caught, so it prints. */
void amph_do_vsyslog(int priority, const char *format, va_list ap)
{
    int before = errno;
    int options = __atomic_load_n(&amph_ip_stdio.log.options, __ATOMIC_RELAXED);
    bool prints = !amph_ip_client_is_linked && (options & LOG_PERROR) &&
                  (setlogmask(0) & LOG_MASK(LOG_PRI(priority)));
    va_list copy;

    va_copy(copy, ap);
    libc_vsyslog(priority, format, ap);
    errno = before; /* format may have %m */

    if (prints)
        print_log(format, copy, options);

    va_end(copy);
}

/* ---- names of hosts ---- */

/* Called only while standard error is forwarded. */
void amph_do_herror(const char *what)
{
    bool named = what && *what;
    char *line;

    if (asprintf(&line, "%s%s%s\n", named ? what : "", named ? ": " : "", hstrerror(h_errno)) < 0)
        return;

    write_all(line, strlen(line));
    free(line);
}

/* ---- signals ---- */

#define PRINTER_STACK ((size_t)64 << 10)

struct print_siginfo {
    const siginfo_t *info;
    const char *what;
    int memory; /* takes the text */
};

/* Runs in a task with a descriptor table of its own, whose standard error is that memory. */
static int print_siginfo(void *arg)
{
    const struct print_siginfo *p = arg;

    if (amph_ip_kernel_dup3(p->memory, STDERR_FILENO, 0) >= 0)
        libc_psiginfo(p->info, p->what);

    libc_syscall(SYS_exit, 0, 0, 0, 0, 0, 0);
    return 0;
}

/* Has the C library compose the text in the memory.  The task shares the program's memory, so that it
 * meets no lock that nobody releases, and has no exit signal. */
static bool compose_siginfo(struct print_siginfo *p)
{
    char *stack = amph_ip_kernel_mmap(NULL, PRINTER_STACK, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    int status;

    if (stack == MAP_FAILED)
        return false;

    pid_t pid = libc_clone(print_siginfo, stack + PRINTER_STACK, CLONE_VM | CLONE_VFORK, p, NULL,
                           NULL, NULL);

    while (pid > 0 && libc_syscall(SYS_wait4, pid, (long)&status, __WALL, 0, 0, 0) < 0 &&
           errno == EINTR)
        ;

    amph_ip_kernel_munmap(stack, PRINTER_STACK);
    return pid > 0;
}

/* Called only while standard error is forwarded. */
void amph_do_psiginfo(const siginfo_t *info, const char *what)
{
    struct print_siginfo p = { .info = info, .what = what };
    char text[1024];
    ssize_t n = -1;

    p.memory = amph_ip_kernel_memfd_create("psiginfo", MFD_CLOEXEC);
    if (p.memory >= 0 && compose_siginfo(&p))
        n = amph_ip_kernel_pread(p.memory, text, sizeof text, 0);

    if (p.memory >= 0)
        amph_ip_kernel_close(p.memory);

    if (n > 0)
        write_all(text, (size_t)n);
    else
        psignal(info->si_signo, what); /* less, but not nothing */
}
