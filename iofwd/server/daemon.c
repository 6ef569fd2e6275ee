/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Standing servers, which belong to no job: starts them, restarts those that die, and stops them.
 * See server.h.
 *
 * Layer: iofwd.
 * Thread rule: the watching process has one thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auth.h"
#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "boot/standing.h"
#include "iofwd/server/near.h"
#include "iofwd/server/pid_file.h"
#include "iofwd/server/server.h"

#define START_NS (30 * AMPH_NS_PER_S) /* until a new server is ready */
#define END_NS (10 * AMPH_NS_PER_S)   /* from SIGTERM until the servers are killed */
#define AGAIN_NS AMPH_NS_PER_S        /* between two starts of one server */

struct member {
    pid_t pid;
    int control; /* the server drains after a 'D' on it, and ends when it is closed */
    int reports; /* from the server: first its address, then amph_server_says */
    uint64_t start_ns;
    unsigned starts; /* processes started in this slot so far */
    bool serves;     /* its address has been read once */
    bool due;        /* it has died and must be restarted */
    bool addressed;  /* this process's address has been read */
    bool empty;      /* it is drained and has no client */
};

struct watch {
    const struct amph_server_daemon *d;
    struct amph_standing set;
    struct member *member;
    uint32_t alive;
    int signals;   /* signalfd */
    int ready;     /* pipe to the process that waits for the start, or -1 */
    bool draining; /* iofwd-ctl drain: ends when all servers are empty */
    bool ending;
    uint64_t end_ns;
    ino_t file;        /* inode of the address file that this process wrote */
    int pid_fd;        /* the file of -pid-file, which is locked, or -1 */
    bool has_pid_file; /* its number is this process's */
    int worst;
};

/* Writes a line to the log, as text with the time, or as JSON like all other lines. */
static void note(const char *format, ...)
{
    char when[32], text[1024];
    time_t now = time(NULL);
    struct tm tm;
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);

    if (amph_env_enum(AMPH_ENV_LOG_FORMAT)) {
        amph_log_always("%s", text);
        return;
    }

    localtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    fprintf(stderr, "%s iofwd-server[%ld]: %s\n", when, (long)getpid(), text);
}

/* Redirects standard output and error to the log file.  Called when all servers are ready: earlier
 * errors go to the terminal of the user. */
static bool open_log(const char *path)
{
    int fd = amph_boot_standing_open(path, O_WRONLY | O_CREAT | O_APPEND);

    if (fd < 0) {
        amph_error("cannot write the log %s: %m", path);
        return false;
    }

    dup2(fd, 1);
    dup2(fd, 2);
    close(fd);

    return true;
}

/* ---- one server ---- */

/* In the server's process. */
struct serving {
    const struct watch *w;
    int reports;
    uint8_t address[AMPH_STANDING_VALUE_MAX];
    size_t address_len; /* bytes */
};

static void report(void *arg, enum amph_server_says what)
{
    const struct serving *serving = arg;
    char word = (char)what;

    if (send(serving->reports, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        amph_warn("the process that watches over the servers cannot be reached: %m");
}

static bool reopen_log(void *arg)
{
    const struct serving *serving = arg;

    return !serving->w->d->log || open_log(serving->w->d->log);
}

/* Keeps the address until the server can take clients: it opens its threads and more after this. */
static bool keep_address(void *arg, const void *value, size_t len)
{
    struct serving *serving = arg;

    if (len > sizeof serving->address)
        return false;

    memcpy(serving->address, value, len);
    serving->address_len = len;
    return true;
}

/* Tells the process that watches over the servers that this one takes clients, and where. */
static bool send_address(const struct serving *serving)
{
    if (send(serving->reports, serving->address, serving->address_len, MSG_NOSIGNAL) ==
        (ssize_t)serving->address_len)
        return true;

    amph_error("the process that watches over the servers cannot be reached: %m");
    return false;
}

static int serve(const struct watch *w, uint32_t index, int control, int reports)
{
    struct serving serving = { .w = w, .reports = reports };
    struct amph_standing_config config = { .index = index,
                                           .n = w->set.n,
                                           .id = w->set.id,
                                           .control_fd = control,
                                           .published = keep_address,
                                           .arg = &serving };
    const struct amph_server_overseer overseer = { .report = report,
                                                   .reopen_log = reopen_log,
                                                   .arg = &serving };
    char who[64];
    struct amph_boot *boot;
    struct amph_server *server;

    memcpy(config.key, w->set.key, sizeof config.key);
    memcpy(config.conduit, w->set.conduit, sizeof config.conduit);
    snprintf(who, sizeof who, "server %u", index);
    amph_log_identity(who);

    enum amph_status st = amph_boot_stand(&config, &boot);

    if (st == AMPH_ERR_NOMEM)
        amph_error("the I/O server has no memory for what it knows of the others");
    if (st != AMPH_OK || amph_server_open(boot, &server) != AMPH_OK)
        return 1;

    amph_server_set_overseer(server, &overseer);
    if (w->draining)
        amph_server_refuse_joins(server);

    if (w->member[index].starts > 0)
        amph_server_set_incarnation(server, w->member[index].starts);

    bool opened = (!w->d->log || open_log(w->d->log)) && send_address(&serving);
    int code = opened ? amph_server_run(server) : 1;

    amph_server_close(server);
    return code;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);

    *fd = -1;
}

/* The process of a server: closes what belongs to the watching process, serves, and ends. */
static void run_member(struct watch *w, uint32_t index, int control, int reports)
{
    sigset_t none;

    for (uint32_t i = 0; i < w->set.n; i++) {
        close_end(&w->member[i].control);
        close_end(&w->member[i].reports);
    }

    close(w->signals);
    if (w->ready >= 0)
        close(w->ready);

    /* the watching process gets the terminal's SIGINT and ends this one */
    signal(SIGINT, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);

    int code = serve(w, index, control, reports);

    fflush(NULL);
    _exit(code);
}

static bool start_member(struct watch *w, uint32_t index)
{
    int control[2], reports[2];

    if (pipe2(control, O_CLOEXEC) != 0) {
        amph_error("cannot start an I/O server: %m");
        return false;
    }

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, reports) != 0) {
        amph_error("cannot start an I/O server: %m");
        close(control[0]);
        close(control[1]);
        return false;
    }

    fcntl(control[0], F_SETFL, O_NONBLOCK);
    fflush(NULL);

    pid_t pid = fork();

    if (pid == 0) {
        close(control[1]);
        close(reports[0]);
        run_member(w, index, control[0], reports[1]);
    }

    close(control[0]);
    close(reports[1]);

    if (pid < 0) {
        amph_error("cannot start an I/O server: %m");
        close(control[1]);
        close(reports[0]);
        return false;
    }

    w->member[index] = (struct member){ .pid = pid,
                                        .control = control[1],
                                        .reports = reports[0],
                                        .start_ns = amph_now_ns(),
                                        .starts = w->member[index].starts + 1 };
    w->alive++;
    return true;
}

/* ---- starting ---- */

static bool take_address(struct watch *w, uint32_t i, uint64_t deadline_ns)
{
    struct amph_standing_server *s = &w->set.server[i];
    struct pollfd p = { .fd = w->member[i].reports, .events = POLLIN };
    int n;

    do {
        uint64_t now = amph_now_ns();
        n = now < deadline_ns ? poll(&p, 1, (int)((deadline_ns - now) / AMPH_NS_PER_MS) + 1) : 0;
    } while (n < 0 && errno == EINTR);

    ssize_t got = n > 0 ? recv(w->member[i].reports, s->value, sizeof s->value, 0) : 0;
    if (got <= 0)
        return false; /* it has said why */

    s->value_len = (size_t)got;
    s->pid = (uint64_t)w->member[i].pid;
    if (gethostname(s->host, sizeof s->host - 1) != 0)
        snprintf(s->host, sizeof s->host, "localhost");

    w->member[i].addressed = true;
    return w->member[i].serves = true;
}

/* Lists the names by which clients see the exports of spec. */
static void list_names(const char *spec, char *out, size_t cap)
{
    size_t at = 0;

    out[0] = 0;
    while (*spec) {
        size_t len = strcspn(spec, ":");
        size_t name = strcspn(spec, ":=");
        int n = snprintf(out + at, cap - at, "%s%.*s", at ? ":" : "", (int)name, spec);

        if (n < 0 || (size_t)n >= cap - at)
            return;

        at += (size_t)n;
        spec += len + (spec[len] == ':');
    }
}

/* Do the servers of this address file still exist?  If all have died, the process that supervises them
 * is about to restart them. */
static bool is_served(const char *path)
{
    struct amph_standing set;
    bool there = false;
    char host[256] = "";

    if (!amph_boot_standing_is(path) || amph_boot_standing_read(path, &set) != AMPH_OK)
        return false;

    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;

    for (uint32_t i = 0; i < set.n && !there; i++)
        there = strcmp(set.server[i].host, host) == 0 &&
                (amph_boot_standing_lives(set.server[i].pid) ||
                 amph_boot_standing_lives(set.watch_pid));

    if (there)
        amph_error("the servers of %s are running (process %lu watches over them); end it, or "
                   "choose another -address-file",
                   path, (unsigned long)set.watch_pid);

    amph_boot_standing_free(&set);
    return there;
}

static bool start_all(struct watch *w)
{
    uint32_t n = w->d->nservers;
    uint64_t deadline = amph_now_ns() + START_NS;

    w->set.n = n;
    w->set.watch_pid = (uint64_t)getpid();
    amph_random(&w->set.id, sizeof w->set.id);
    amph_random(w->set.key, sizeof w->set.key);
    list_names(amph_env_str(AMPH_ENV_IOFWD_PREFIX), w->set.prefix, sizeof w->set.prefix);
    snprintf(w->set.conduit, sizeof w->set.conduit, "%s", w->d->conduit ? w->d->conduit : "");
    w->set.server = calloc(n, sizeof *w->set.server);
    w->member = calloc(n, sizeof *w->member);
    if (!w->set.server || !w->member) {
        amph_error("there is no memory for %" PRIu32 " servers", n);
        return false;
    }

    for (uint32_t i = 0; i < n; i++)
        w->member[i].control = w->member[i].reports = -1;

    bool ok = true;
    uint32_t started = 0;

    for (; started < n && ok; started += ok)
        ok = start_member(w, started);

    for (uint32_t i = 0; i < started && ok; i++)
        ok = take_address(w, i, deadline);

    return ok;
}

static bool take_pid_file(struct watch *w)
{
    w->pid_fd = amph_server_pid_file_take(w->d->pid_file);
    return w->pid_fd >= 0;
}

static bool write_number(struct watch *w)
{
    w->has_pid_file = amph_server_pid_file_write(w->pid_fd, w->d->pid_file);
    return w->has_pid_file;
}

static bool announce(struct watch *w)
{
    struct stat st;

    if (w->d->own) {
        char *text = amph_boot_standing_print(&w->set);
        bool ok = text && fputs(text, stdout) >= 0 && fputs("end\n", stdout) >= 0 &&
                  fflush(stdout) == 0;

        free(text);
        return ok;
    }

    /* other servers may have been started with the same file in the meantime */
    if (is_served(w->d->address_file) || (w->d->pid_file && !take_pid_file(w)))
        return false;

    w->set.near = amph_server_near_print(amph_env_str(AMPH_ENV_IOFWD_PREFIX));
    if (amph_boot_standing_write(w->d->address_file, &w->set) != AMPH_OK ||
        stat(w->d->address_file, &st) != 0)
        return false;

    w->file = st.st_ino;

    return !w->d->pid_file || write_number(w);
}

/* ---- ending ---- */

static void begin_end(struct watch *w)
{
    struct stat st;

    if (w->ending)
        return;

    w->ending = true;
    w->end_ns = amph_now_ns() + END_NS;
    if (w->d->address_file && w->file && stat(w->d->address_file, &st) == 0 && st.st_ino == w->file)
        unlink(w->d->address_file);

    if (w->has_pid_file)
        unlink(w->d->pid_file);

    for (uint32_t i = 0; w->member && i < w->set.n; i++)
        close_end(&w->member[i].control);
}

/* Records the end of a server.  A server that ended without an order is restarted, unless it never
 * became ready, or has an owner: the owner knows the old address. */
static void record_end(struct watch *w, uint32_t i, int status)
{
    struct member *m = &w->member[i];
    long pid = (long)m->pid;
    const char *then = (m->due = m->serves && !w->ending && !w->d->own)
                           ? "; another takes its place"
                           : "";
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

    m->pid = 0;
    w->alive--;
    close_end(&m->control);
    close_end(&m->reports);

    if (WIFSIGNALED(status))
        note("server %u (process %ld) was ended by signal %d (%s)%s", i, pid, WTERMSIG(status),
             strsignal(WTERMSIG(status)), then);
    else if (code || m->due)
        note("server %u (process %ld) ended with exit code %d%s", i, pid, code, then);

    if (!m->due && code > w->worst)
        w->worst = code;
}

static void reap(struct watch *w)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (uint32_t i = 0; i < w->set.n; i++)
            if (w->member[i].pid == pid)
                record_end(w, i, status);
}

/* Restarts servers that have died.  Returns the milliseconds until the next restart is due; -1:
 * none is. */
static int start_successors(struct watch *w)
{
    uint64_t now = amph_now_ns();
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; i < w->set.n; i++) {
        struct member *m = &w->member[i];

        if (!m->due || w->ending)
            continue;

        if (now >= m->start_ns + AGAIN_NS && !start_member(w, i))
            m->start_ns = now; /* fork failed; try again later */

        if (m->due && m->start_ns + AGAIN_NS < next)
            next = m->start_ns + AGAIN_NS;
    }

    return next == UINT64_MAX ? -1 : (int)((next - now) / AMPH_NS_PER_MS) + 1;
}

/* Publishes the address of a restarted server, for clients that start from now on. */
static void take_successor(struct watch *w, uint32_t i)
{
    struct stat st;

    if (!take_address(w, i, amph_now_ns() + AMPH_NS_PER_MS)) {
        close_end(&w->member[i].reports); /* its end is detected by SIGCHLD */
        return;
    }

    note("server %u is process %ld", i, (long)w->member[i].pid);
    if (w->ending || stat(w->d->address_file, &st) != 0 || st.st_ino != w->file)
        return; /* another process has replaced the file */

    if (amph_boot_standing_write(w->d->address_file, &w->set) == AMPH_OK &&
        stat(w->d->address_file, &st) == 0)
        w->file = st.st_ino;
}

static void take_stop(struct watch *w, struct member *m)
{
    note("iofwd-ctl stop: the servers end");
    begin_end(w);
}

/* A drained set ends when no server of it has a client: a client may still come to a server that it
 * has not used before. */
static void take_empty(struct watch *w, struct member *m)
{
    bool all = true;

    if (!w->draining)
        note("iofwd-ctl drain: the servers take no further clients");

    w->draining = true;
    m->empty = true;
    for (uint32_t i = 0; i < w->set.n; i++)
        all = all && (w->member[i].empty || w->member[i].pid == 0);

    if (!all || w->ending)
        return;

    note("the last client has left: the servers end");
    begin_end(w);
}

static void take_busy(struct watch *w, struct member *m)
{
    if (!w->draining)
        note("iofwd-ctl drain: the servers take no further clients");

    w->draining = true;
    m->empty = false;
}

static void take_log(struct watch *w, struct member *m)
{
    if (w->d->log)
        open_log(w->d->log);
}

/* Takes a report of a server. */
static void take_report(struct watch *w, uint32_t i)
{
    static const struct {
        char what;
        void (*take)(struct watch *w, struct member *m);
    } reports[] = {
        { AMPH_SERVER_SAYS_STOP, take_stop },
        { AMPH_SERVER_SAYS_EMPTY, take_empty },
        { AMPH_SERVER_SAYS_BUSY, take_busy },
        { AMPH_SERVER_SAYS_LOG, take_log },
    };
    struct member *m = &w->member[i];
    char what;
    ssize_t n = recv(m->reports, &what, 1, MSG_DONTWAIT);

    if (n == 0)
        close_end(&m->reports); /* its end is detected by SIGCHLD */

    for (size_t k = 0; k < AMPH_COUNTOF(reports) && n == 1; k++)
        if (reports[k].what == what)
            reports[k].take(w, m);
}

static void take_signals(struct watch *w)
{
    struct signalfd_siginfo si;

    while (read(w->signals, &si, sizeof si) == sizeof si)
        if (si.ssi_signo == SIGCHLD)
            reap(w);
        else {
            if (!w->d->own)
                note("%s from process %u: the servers end", strsignal((int)si.ssi_signo),
                     si.ssi_pid);

            begin_end(w);
        }
}

/* Called when standard input is readable.  At its end the owner has ended: the servers drain, so
 * that they end with the last client that the owner has left behind. */
static void take_owner(struct watch *w, bool *owned)
{
    char drop[256];
    ssize_t n = read(0, drop, sizeof drop);

    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;

    *owned = false;
    for (uint32_t i = 0; i < w->set.n; i++)
        if (w->member[i].pid > 0 && w->member[i].control >= 0 &&
            write(w->member[i].control, "D", 1) != 1)
            note("server %u does not hear that its owner has ended", i);
}

static bool any_due(const struct watch *w)
{
    for (uint32_t i = 0; i < w->set.n && !w->ending; i++)
        if (w->member[i].due)
            return true;

    return false;
}

static void watch_over(struct watch *w)
{
    struct pollfd p[2 + AMPH_STANDING_MAX];
    bool owned = w->d->own;

    while (w->alive > 0 || any_due(w)) {
        int pause = w->ending ? 100 : start_successors(w);

        p[0] = (struct pollfd){ .fd = w->signals, .events = POLLIN };
        p[1] = (struct pollfd){ .fd = owned ? 0 : -1, .events = POLLIN };
        for (uint32_t i = 0; i < w->set.n; i++)
            p[2 + i] = (struct pollfd){ .fd = w->member[i].reports, .events = POLLIN };

        poll(p, 2 + w->set.n, pause);
        if (p[1].revents)
            take_owner(w, &owned);

        for (uint32_t i = 0; i < w->set.n; i++)
            if (p[2 + i].revents)
                (w->member[i].addressed ? take_report : take_successor)(w, i);

        take_signals(w);
        if (!w->ending || amph_now_ns() < w->end_ns)
            continue;

        for (uint32_t i = 0; i < w->set.n; i++)
            if (w->member[i].pid > 0)
                kill(w->member[i].pid, SIGKILL);
    }

    begin_end(w); /* removes the address and pid files also if the servers ended without an order */
}

static int run(struct watch *w)
{
    sigset_t handled;

    sigemptyset(&handled);
    sigaddset(&handled, SIGTERM);
    sigaddset(&handled, SIGINT);
    sigaddset(&handled, SIGCHLD);
    sigprocmask(SIG_BLOCK, &handled, NULL);
    w->signals = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);

    bool ok = w->signals >= 0 && start_all(w) && announce(w);

    if (ok && w->d->log)
        ok = open_log(w->d->log);

    if (ok && w->ready >= 0)
        ok = write(w->ready, "R", 1) == 1;

    if (w->ready >= 0)
        close(w->ready);

    w->ready = -1;
    if (ok && !w->d->own)
        note("%u server%s, exports %s, address file %s", w->set.n, w->set.n == 1 ? "" : "s",
             w->set.prefix, w->d->address_file);

    bool asked = ok;

    if (!ok)
        begin_end(w);

    watch_over(w);
    if (ok && !w->d->own)
        note("ended");

    return asked && !w->worst ? 0 : 1;
}

/* Waits until the servers of the daemon are ready, and says where they are; or, if they could not start, until it has
 * ended, so that another can be started in its place at once.  Returns the exit code. */
static int await_daemon(const struct watch *w, int ready, pid_t pid)
{
    char byte;
    ssize_t n;

    while ((n = read(ready, &byte, 1)) < 0 && errno == EINTR)
        ;

    if (n != 1) { /* it has said why */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;

        return 1;
    }

    /* not by stdout: the servers run, also if nobody can read this */
    if (dprintf(STDOUT_FILENO, "iofwd-server: process %ld, %u server%s, address file %s\n",
                (long)pid, w->d->nservers, w->d->nservers == 1 ? "" : "s", w->d->address_file) < 0)
        amph_warn("the servers run as process %ld; standard output cannot be written: %m",
                  (long)pid);

    return 0;
}

/* Becomes a daemon.  Returns -1 in the daemon; the calling process waits until the servers are
 * ready and returns the exit code. */
static int become_daemon(struct watch *w)
{
    int ready[2];

    if (pipe2(ready, O_CLOEXEC) != 0) {
        amph_error("cannot start the servers: %m");
        return 1;
    }

    fflush(NULL);

    pid_t pid = fork();

    if (pid < 0) {
        amph_error("cannot start a process: %m");
        return 1;
    }

    if (pid > 0) {
        close(ready[1]);
        return await_daemon(w, ready[0], pid);
    }

    close(ready[0]);
    w->ready = ready[1];
    setsid();
    signal(SIGHUP, SIG_IGN);

    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    dup2(null, 0);
    if (!w->d->log)
        dup2(null, 1);

    close(null);
    return chdir("/") == 0 ? -1 : 1;
}

int amph_server_daemon_run(const struct amph_server_daemon *d)
{
    struct watch w = { .d = d, .ready = -1, .signals = -1, .pid_fd = -1 };

    if (!d->own && is_served(d->address_file))
        return 1;

    if (!d->own && !d->foreground) {
        int code = become_daemon(&w);

        if (code >= 0)
            return code;
    }

    return run(&w);
}
