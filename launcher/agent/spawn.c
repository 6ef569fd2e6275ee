/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts a process on an agent's host.
 *
 * Layer: launcher.  Thread rule: one thread (vfork).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/log.h"
#include "base/wire.h"
#include "launcher/agent/internal.h"
#include "launcher/common/forwarded.h"
#include "launcher/common/inherit.h"
#include "launcher/master/jobdir.h"
#include "launcher/common/program.h"

/* The process's ends of pipes and sockets, which become its descriptors; -1: none. */
struct ends {
    int near[AMPH_NENDS], far[AMPH_NENDS];
};

void amph_agent_free_texts(char **texts)
{
    for (char **t = texts; t && *t; t++)
        free(*t);

    free(texts);
}

char **amph_agent_read_texts(struct amph_rd *r)
{
    uint32_t n = amph_rd_u32(r);
    char **texts = r->bad || n > amph_rd_left(r) / 4 ? NULL : calloc((size_t)n + 1, sizeof *texts);

    if (!texts) {
        r->bad = true;
        return NULL;
    }

    for (uint32_t i = 0; i < n; i++) {
        size_t len;
        const void *text = amph_rd_blob(r, &len);

        if (!text || !(texts[i] = strndup(text, len))) {
            r->bad = true;
            amph_agent_free_texts(texts);
            return NULL;
        }
    }

    return texts;
}

/* ---- environment ---- */

static size_t count(char **texts)
{
    size_t n = 0;

    while (texts[n])
        n++;

    return n;
}

static bool same_name(const char *entry, const char *setting)
{
    size_t len = strcspn(setting, "=");
    return strncmp(entry, setting, len) == 0 && (entry[len] == '=' || entry[len] == 0);
}

/* Returns the agent's environment, modified by the settings.  Only the array is allocated. */
static char **merge_env(char **env, char **settings)
{
    char **out = calloc(count(env) + count(settings) + 1, sizeof *out);
    size_t n = 0;

    if (!out)
        return NULL;

    for (char **e = env; *e; e++) {
        bool replaced = false;

        for (char **s = settings; *s && !replaced; s++)
            replaced = same_name(*e, *s);

        if (!replaced)
            out[n++] = *e;
    }

    for (char **s = settings; *s; s++)
        if (strchr(*s, '='))
            out[n++] = *s;

    return out;
}

/* ---- descriptors ---- */

static void close_ends(int fds[AMPH_NENDS])
{
    for (int i = 0; i < AMPH_NENDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);

        fds[i] = -1;
    }
}

static bool make_pipe(int *reads, int *writes)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return false;

    *reads = fds[0];
    *writes = fds[1];
    return true;
}

static bool make_ends(struct ends *e, uint8_t flags)
{
    int pair[2];

    for (int i = 0; i < AMPH_NENDS; i++)
        e->near[i] = e->far[i] = -1;

    bool ok = make_pipe(&e->near[AMPH_END_OUT], &e->far[AMPH_END_OUT]) &&
              make_pipe(&e->near[AMPH_END_ERR], &e->far[AMPH_END_ERR]);

    if (ok && (flags & AMPH_SPAWN_INPUT))
        ok = make_pipe(&e->far[AMPH_END_IN], &e->near[AMPH_END_IN]);
    else if (ok)
        ok = (e->far[AMPH_END_IN] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;

    if (ok && (flags & AMPH_SPAWN_PMI) &&
        (ok = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0)) {
        e->near[AMPH_END_PMI] = pair[0];
        e->far[AMPH_END_PMI] = pair[1];
    }

    for (int i = 0; i < AMPH_NENDS && ok; i++)
        if (e->near[i] >= 0)
            ok = fcntl(e->near[i], F_SETFL, O_NONBLOCK) == 0;

    return ok;
}

/* ---- the child ---- */

/* Runs between vfork and exec, so it makes system calls only.  Returns errno if the program could not
 * be executed. */
static int become(const struct amph_agent *a, const struct ends *e, const struct amph_spawn *s,
                  char **env, pid_t agent)
{
    setpgid(0, 0); /* because signals are forwarded to the whole group, as a terminal does */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != agent)
        return ESRCH; /* the agent died before the preceding call took effect */
    if (dup2(e->far[AMPH_END_IN], 0) < 0 || dup2(e->far[AMPH_END_OUT], 1) < 0 ||
        dup2(e->far[AMPH_END_ERR], 2) < 0)
        return errno;
    if (e->far[AMPH_END_PMI] >= 0 && fcntl(e->far[AMPH_END_PMI], F_SETFD, 0) < 0)
        return errno;

    if (a->topo)
        amph_topo_bind(a->topo, 0, a->bind, s->slot, s->nslots);

    amph_inherit_restore(a->inherit);
    execve(s->argv[0], s->argv + 1, env);
    if (errno != ENOEXEC)
        return errno;

    /* A script without "#!" is run by a shell, as execvp does.  A binary for another machine is not a
     * script. */
    char head[2] = { 0 };
    int fd = open(s->argv[0], O_RDONLY | O_CLOEXEC);
    bool text = fd >= 0 && read(fd, head, 2) == 2 && head[0] != 0x7f;

    if (!text)
        return ENOEXEC;

    /* sh FILE ARGS: the shell takes the preceding entry, which was the file to execute */
    s->argv[1] = s->argv[0];
    s->argv[0] = (char *)"/bin/sh";
    execve("/bin/sh", s->argv, env);

    return errno;
}

static pid_t start(struct amph_agent *a, const struct ends *e, const struct amph_spawn *s,
                   char **env, int *error_p)
{
    volatile int error = 0;
    char *const file = s->argv[0];
    char *const name = s->argv[1];
    pid_t agent = getpid();
    pid_t pid = vfork();

    if (pid == 0) {
        error = become(a, e, s, env, agent);
        _exit(127);
    }

    *error_p = pid < 0 ? errno : error;
    s->argv[0] = file; /* the child shares this memory, and changes the arguments for a script */
    s->argv[1] = name;

    return pid;
}

/* ---- the order ---- */

static void report(struct amph_agent *a, uint32_t rank, pid_t pid, int error)
{
    uint8_t body[12];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, rank);

    if (error)
        amph_wr_u32(&w, (uint32_t)error);
    else
        amph_wr_u64(&w, (uint64_t)pid);

    amph_agent_send(a, error ? AMPH_AGENT_FAILED : AMPH_AGENT_STARTED, body, amph_wr_len(&w));
}

static bool add_setting(struct amph_spawn *s, const char *fmt, ...) AMPH_PRINTF(2, 3);
static bool add_setting(struct amph_spawn *s, const char *fmt, ...)
{
    size_t n = count(s->settings);
    char **more = realloc(s->settings, (n + 2) * sizeof *more);
    va_list ap;

    if (!more)
        return false;

    s->settings = more;
    more[n] = NULL;
    more[n + 1] = NULL;
    va_start(ap, fmt);

    bool ok = vasprintf(&more[n], fmt, ap) >= 0;

    va_end(ap);
    if (!ok)
        more[n] = NULL;

    return ok;
}

/* The directories in which the processes find programs. */
static const char *search_path(const struct amph_agent *a)
{
    const char *dirs = NULL;

    for (char **e = a->env; *e; e++)
        if (strncmp(*e, "PATH=", 5) == 0)
            dirs = *e + 5;

    return dirs;
}

/* Finds a program that the launcher did not search for, because it runs on other hosts only. */
static bool find_file(struct amph_agent *a, struct amph_spawn *s)
{
    if (strchr(s->argv[0], '/'))
        return true;

    char *path = amph_program_search(s->argv[0], search_path(a));

    if (path) {
        free(s->argv[0]);
        s->argv[0] = path;
    }

    return path != NULL;
}

/* Returns the value of a setting that the process gets, or NULL. */
static const char *setting(const struct amph_spawn *s, const char *name)
{
    const size_t len = strlen(name);

    for (char **t = s->settings; *t; t++)
        if (strncmp(*t, name, len) == 0 && (*t)[len] == '=')
            return *t + len + 1;

    return NULL;
}

/* Does the process get the preload library? */
static bool is_preloaded(const struct amph_spawn *s)
{
    const char *libraries = setting(s, "LD_PRELOAD");

    return libraries && strstr(libraries, AMPH_PRELOAD_NAME);
}

/* Does no file of this host, but perhaps the servers, have the program? */
static bool is_at_servers(const struct amph_agent *a, const struct amph_spawn *s)
{
    return is_preloaded(s) &&
           amph_program_is_forwarded(s->argv[0], search_path(a),
                                     setting(s, amph_env_name(AMPH_ENV_IOFWD_PREFIX)));
}

/* Has such a program executed by a process that forwards.  The file stands for the program's name.  Returns
 * 0 or an errno value. */
static int start_by_exec(struct amph_spawn *s)
{
    char *const file = s->argv[0];
    char *path = NULL;
    char **words = amph_program_by_exec(s->argv + 1, &path);
    int err = words ? 0 : errno;
    char **texts = words ? calloc(count(words) + 2, sizeof *texts) : NULL;
    bool ok = texts != NULL;

    if (texts)
        texts[0] = path;

    for (size_t i = 0; ok && words[i]; i++)
        ok = (texts[i + 1] = strdup(words[i] == s->argv[1] ? file : words[i]));

    free(words);
    if (!ok) {
        if (texts)
            amph_agent_free_texts(texts);
        else
            free(path);

        return err ? err : ENOMEM;
    }

    amph_agent_free_texts(s->argv);
    s->argv = texts;
    return 0;
}

static int run(struct amph_agent *a, struct amph_spawn *s, struct amph_agent_proc *p)
{
    struct ends e;
    int error = 0;

    if (is_at_servers(a, s) && (error = start_by_exec(s)))
        return error;
    if (a->remote && !find_file(a, s))
        return ENOENT;
    if (a->remote && s->rank == 0 && is_preloaded(s) && !amph_program_may_forward(s->argv[0]))
        return EPERM;

    bool ok = make_ends(&e, s->flags) &&
              (e.far[AMPH_END_PMI] < 0 || add_setting(s, "PMI_FD=%d", e.far[AMPH_END_PMI])) &&
              (!a->remote || add_setting(s, "%s=%s/" AMPH_JOBDIR_FILE, amph_env_name(AMPH_ENV_JOB),
                                         a->directory));
    char **env = ok ? merge_env(a->env, s->settings) : NULL;

    if (!env)
        error = errno ? errno : ENOMEM;
    else
        p->pid = start(a, &e, s, env, &error);

    free(env);
    close_ends(e.far);

    for (int i = 0; i < AMPH_NENDS && !error; i++)
        if (e.near[i] >= 0) {
            if (!amph_agent_open_end(p, i, e.near[i])) { /* its output would be lost */
                amph_error("there is no memory for the output and input of process %u", s->rank);
                amph_agent_finish(a, 1);
            }

            e.near[i] = -1;
        }

    close_ends(e.near);
    return error;
}

static bool read_order(struct amph_rd *r, struct amph_spawn *s)
{
    *s = (struct amph_spawn){ .rank = amph_rd_u32(r), .flags = amph_rd_u8(r) };
    s->slot = amph_rd_u32(r);
    s->nslots = amph_rd_u32(r);
    s->argv = amph_agent_read_texts(r);
    s->settings = s->argv ? amph_agent_read_texts(r) : NULL;

    return s->settings && s->argv[0] && s->argv[1];
}

void amph_agent_spawn(struct amph_agent *a, struct amph_rd *r)
{
    struct amph_spawn s;

    errno = 0;

    bool whole = read_order(r, &s);
    struct amph_agent_proc *p = calloc(1, sizeof *p);

    if (!whole || !p || !a->env) {
        int error = errno == ENOMEM ? ENOMEM : EPROTO; /* the launcher says that memory is short */

        if (error == EPROTO)
            amph_error("the launcher sent an order that cannot be read; use one version of amphora "
                       "everywhere");
        report(a, s.rank, 0, error);
        free(p);
    } else {
        p->agent = a;
        p->rank = s.rank;
        for (int i = 0; i < AMPH_NENDS; i++)
            p->end[i].fd = -1;

        int error = run(a, &s, p);

        p->next = a->procs;
        a->procs = p;
        if (error)
            p->pid = 0;

        report(a, s.rank, p->pid, error);
    }

    amph_agent_free_texts(s.argv);
    amph_agent_free_texts(s.settings);
}
