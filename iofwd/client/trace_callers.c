/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processes in whose names this process makes calls, and their files of records; see
 * trace_record.h.
 *
 * A caller is known by its thread.  Which process that belongs to, and which program the process
 * executes, the kernel says in /proc; an open folder there cannot become another process's.
 *
 * Layer: iofwd.  Thread rule: under the recorder's lock.
 */
#include "iofwd/client/trace_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/clock.h"
#include "base/os/host_clock.h"
#include "base/settings/env.h"

enum {
    SWEEP_FROM = 16,           /* processes, before the first look for those that have ended */
    ENVIRONMENT_MAX = 1 << 21, /* bytes that are looked at */
    CHUNK = 4096
};

void amph_client_recorder_complain(const char *what, int err)
{
    if (!amph_client_recorder.on)
        return;

    amph_client_recorder.on = false;
    amph_error("IOFWD_TRACE_DIR=%s: %s (%s); the records are not complete",
               amph_client_recorder.dir, what, strerror(err));
}

/* ---- what the kernel says ---- */

/* A word of the process's status. */
static pid_t status_word(int dir, const char *format)
{
    char line[256];
    pid_t value = 0;
    int fd = openat(dir, "status", O_RDONLY | O_CLOEXEC);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;

    if (!f && fd >= 0)
        close(fd);

    while (f && fgets(line, sizeof line, f) && sscanf(line, format, &value) != 1)
        ;

    if (f)
        fclose(f);

    return value;
}

static void read_link(int dir, const char *name, char *out, size_t cap)
{
    ssize_t n = readlinkat(dir, name, out, cap - 1);

    out[n > 0 ? n : 0] = 0;
}

/* What an environment says of the process: its rank and the number of its host's clock. */
struct identity {
    int32_t rank[4]; /* AMPHORA_RANK and what other launchers set, the first counts; -1: none */
    uint64_t clock;
};

static void take_entry(struct identity *t, const char *entry)
{
    const char *names[] = { amph_env_name(AMPH_ENV_RANK), amph_env_name(AMPH_ENV_PMIX_RANK),
                            amph_env_name(AMPH_ENV_PMI_RANK), "PMI_ID" };
    const char *equals = strchr(entry, '=');
    size_t len = equals ? (size_t)(equals - entry) : 0;

    for (size_t i = 0; i < AMPH_COUNTOF(names); i++)
        if (len && strlen(names[i]) == len && strncmp(entry, names[i], len) == 0)
            t->rank[i] = equals[1] ? atoi(equals + 1) : -1;

    if (len == sizeof AMPH_PRIVATE_CLOCK - 1 && strncmp(entry, AMPH_PRIVATE_CLOCK, len) == 0)
        t->clock = strtoull(equals + 1, NULL, 10);
}

/* Long entries are none of ours, and their ends are passed over. */
static void read_environment(int dir, struct identity *t)
{
    char bytes[CHUNK], entry[128];
    size_t len = 0;
    size_t total = 0;
    ssize_t n;
    int fd = openat(dir, "environ", O_RDONLY | O_CLOEXEC);

    *t = (struct identity){ .rank = { -1, -1, -1, -1 } };
    while (fd >= 0 && total < ENVIRONMENT_MAX && (n = read(fd, bytes, sizeof bytes)) > 0) {
        total += (size_t)n;
        for (ssize_t i = 0; i < n; i++) {
            if (len < sizeof entry)
                entry[len++] = bytes[i];
            if (bytes[i])
                continue;

            if (!entry[len - 1])
                take_entry(t, entry);

            len = 0;
        }
    }

    if (fd >= 0)
        close(fd);
}

/* ---- processes ---- */

static void describe(struct amph_client_recorded_process *p, int dir, struct amph_trace_header *h)
{
    struct identity identity;

    read_environment(dir, &identity);
    h->pid = p->pid;
    h->tid = p->pid;
    h->ppid = status_word(dir, "PPid: %d");
    h->rank = -1;
    for (size_t i = AMPH_COUNTOF(identity.rank); i-- > 0;)
        if (identity.rank[i] >= 0)
            h->rank = identity.rank[i];

    h->clock = identity.clock ? identity.clock : amph_host_clock();
    h->recorder = amph_client_recorder.wanted;
    h->began_ns = amph_now_ns();
    snprintf(h->exe, sizeof h->exe, "%s", p->exe);
    read_link(dir, "cwd", h->cwd, sizeof h->cwd);
}

/* Begins the file.  A process that has executed another program gets another file, and is another
 * process to a reader. */
static bool begin_file(struct amph_client_recorded_process *p, int dir)
{
    struct amph_trace_header who = { 0 };

    describe(p, dir, &who);

    int err = amph_trace_append_begin(&p->file, amph_client_recorder.dir, &who,
                                      amph_client_recorder.budget);

    if (err)
        amph_client_recorder_complain("a file cannot be made", err);

    return !err;
}

static void free_process(struct amph_client_recorded_process *p)
{
    amph_trace_append_end(&p->file);
    if (p->dir >= 0)
        close(p->dir);

    free(p);
}

static void take_out(struct amph_client_recorded_process *p)
{
    struct amph_client_recorded_process **at = &amph_client_recorder.first;

    while (*at != p)
        at = &(*at)->next;

    *at = p->next;
    amph_client_recorder.processes--;
    for (unsigned i = 0; i < AMPH_CLIENT_RECORDER_BUCKETS; i++)
        if (amph_client_recorder.thread[i].process == p)
            amph_client_recorder.thread[i].process = NULL;

    p->gone = true;
    if (!p->refs)
        free_process(p);
}

void amph_client_recorder_put(struct amph_client_recorded_process *p)
{
    if (--p->refs == 0 && p->gone)
        free_process(p);
}

/* Ends what is kept of processes that have ended, each time that there are twice as many. */
static void sweep(void)
{
    struct amph_client_recorded_process *p = amph_client_recorder.first;

    if (amph_client_recorder.processes < SWEEP_FROM ||
        amph_client_recorder.processes < 2 * amph_client_recorder.swept)
        return;

    while (p) {
        struct amph_client_recorded_process *next = p->next;

        if (p->dir >= 0 && faccessat(p->dir, "stat", F_OK, 0) != 0)
            take_out(p);

        p = next;
    }

    amph_client_recorder.swept = amph_client_recorder.processes;
}

/* A new process; dir becomes its own. */
static struct amph_client_recorded_process *enter(pid_t pid, int dir, const char *exe, int info)
{
    struct amph_client_recorded_process *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;

    p->pid = pid;
    p->dir = dir;
    snprintf(p->exe, sizeof p->exe, "%s", exe);
    if (!begin_file(p, info)) {
        free(p);
        return NULL;
    }

    p->next = amph_client_recorder.first;
    amph_client_recorder.first = p;
    amph_client_recorder.processes++;
    return p;
}

/* This process, for calls that it makes for nobody. */
static struct amph_client_recorded_process *own_process(void)
{
    char exe[sizeof((struct amph_client_recorded_process *)0)->exe];
    int dir;

    if (amph_client_recorder.own)
        return amph_client_recorder.own;

    dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    read_link(dir, "exe", exe, sizeof exe);
    amph_client_recorder.own = enter(getpid(), -1, exe, dir);
    if (dir >= 0)
        close(dir);

    return amph_client_recorder.own;
}

enum same {
    SAME,
    ANOTHER_PROGRAM, /* and its name is in exe */
    ANOTHER_PROCESS
};

/* Is the thread still one of that process, and does that execute the same program? */
static enum same is_same(const struct amph_client_recorded_process *p, pid_t tid, char *exe,
                         size_t cap)
{
    char name[48];

    snprintf(name, sizeof name, "task/%d/exe", (int)tid);

    ssize_t n = readlinkat(p->dir, name, exe, cap - 1);

    if (n >= 0) {
        exe[n] = 0;
        return strcmp(exe, p->exe) == 0 ? SAME : ANOTHER_PROGRAM;
    }

    if (errno == EACCES || errno == EPERM) /* it has changed its user */
        return SAME;

    /* a process that is ending has no program any more */
    snprintf(name, sizeof name, "task/%d", (int)tid);
    return faccessat(p->dir, name, F_OK, 0) == 0 ? SAME : ANOTHER_PROCESS;
}

static struct amph_client_recorded_process *find(pid_t pid)
{
    struct amph_client_recorded_process *p = amph_client_recorder.first;

    while (p && (p->dir < 0 || p->pid != pid))
        p = p->next;

    return p;
}

/* The process of a thread that is not in the table.  NULL: the thread has ended. */
static struct amph_client_recorded_process *meet(pid_t tid)
{
    char path[32], exe[sizeof((struct amph_client_recorded_process *)0)->exe] = "";

    snprintf(path, sizeof path, "/proc/%d", (int)tid);

    int thread = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    pid_t pid = thread >= 0 ? status_word(thread, "Tgid: %d") : 0;
    struct amph_client_recorded_process *p = pid ? find(pid) : NULL;
    enum same same = p ? is_same(p, tid, exe, sizeof exe) : ANOTHER_PROCESS;

    if (p && same != SAME) {
        take_out(p);
        p = NULL;
    }

    if (pid && !p) {
        sweep();
        snprintf(path, sizeof path, "/proc/%d", (int)pid);

        int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

        read_link(dir, "exe", exe, sizeof exe);
        p = dir >= 0 ? enter(pid, dir, exe, dir) : NULL;
        if (!p && dir >= 0)
            close(dir);
    }

    if (thread >= 0)
        close(thread);

    return p;
}

static struct amph_client_recorded_process *process_of(pid_t tid)
{
    unsigned at = (unsigned)tid % AMPH_CLIENT_RECORDER_BUCKETS;
    struct amph_client_recorded_process *p = amph_client_recorder.thread[at].process;
    char exe[sizeof p->exe];

    if (p && amph_client_recorder.thread[at].tid == tid && is_same(p, tid, exe, sizeof exe) == SAME)
        return p;

    bool is_known = p && amph_client_recorder.thread[at].tid == tid;

    p = meet(tid);
    if (!p && is_known) /* it has ended since, unless its process was another one */
        return amph_client_recorder.thread[at].process;

    amph_client_recorder.thread[at].tid = tid;
    amph_client_recorder.thread[at].process = p;
    return p;
}

struct amph_client_recorded_process *amph_client_recorder_process(pid_t tid)
{
    struct amph_client_recorded_process *p = tid > 0 ? process_of(tid) : NULL;

    if (!p && amph_client_recorder.on)
        p = own_process();
    if (p)
        p->refs++;

    return p;
}

void amph_client_recorder_close(void)
{
    amph_client_recorder.on = false;
    for (struct amph_client_recorded_process *p = amph_client_recorder.first; p; p = p->next)
        amph_trace_append_end(&p->file);
}
