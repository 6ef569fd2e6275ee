/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts a private server for the process, on another host by ssh or on this one by fork.  It ends
 * with the process and its children.
 *
 * Layer: iofwd.  Thread rule: under amph_client_state.lock, with signals blocked.
 *
 * The program must not notice the server: its environment is unchanged, the server is a grandchild
 * that the program never has to wait for (its parent ends without SIGCHLD), and the one descriptor
 * has a high number.  Child processes find the server by a setting that exec adds.
 */
#include "iofwd/client/attach/private_server.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/os/thread.h"
#include "boot/standing.h"
#include "conduits/conduit.h"
#include "iofwd/client/internal.h"

#define START_NS (60 * AMPH_NS_PER_S) /* ssh may ask a slow host */
#define TEXT_MAX 8192

extern char **environ;

static struct amph_client_private_server *const own = &amph_client_state.private_server;

bool amph_client_private_server_is(int fd)
{
    return fd >= 0 && fd == own->fd;
}

void amph_fwd_keep_settings(char *const *entries)
{
    amph_env_keep(entries);
}

const char *amph_fwd_own_env(void)
{
    return own->setting;
}

int amph_client_private_server_ask(const char *host, const char *path, const char *prefixes)
{
    free(own->host);
    free(own->path);
    free(own->prefixes);
    own->host = host ? strdup(host) : NULL;
    own->path = path ? strdup(path) : NULL;
    own->prefixes = prefixes ? strdup(prefixes) : NULL;

    return (host && !own->host) || (path && !own->path) || (prefixes && !own->prefixes) ? ENOMEM
                                                                                        : 0;
}

static const char *given(const char *asked, enum amph_env_id row)
{
    return asked ? asked : amph_env_str(row);
}

/* Finds iofwd-server beside this library in a build tree, else where it is installed. */
static void find_server(char *path, size_t cap)
{
    Dl_info self;
    const char *asked = given(own->path, AMPH_ENV_IOFWD_SERVER_PATH);
    const char *slash = dladdr((void *)own, &self) && self.dli_fname ? strrchr(self.dli_fname, '/')
                                                                     : NULL;

    snprintf(path, cap, "%s", asked);
    if (asked[0])
        return;

    if (slash)
        snprintf(path, cap, "%.*s/iofwd-server", (int)(slash - self.dli_fname), self.dli_fname);

    if (!slash || access(path, X_OK) != 0)
        snprintf(path, cap, "%s/iofwd-server", AMPH_BINDIR);
}

static bool is_this_host(const char *host)
{
    char name[256] = "";

    if (gethostname(name, sizeof name - 1) != 0)
        name[0] = 0;

    return strcmp(host, "localhost") == 0 || strcmp(host, name) == 0;
}

/* Builds the command line of the remote shell, or the whole line with ssh in front of it. */
static char *make_line(const char *host, const char *server, const char *prefixes)
{
    char *remote = NULL;
    char *line = NULL;
    size_t len;
    FILE *out = open_memstream(&remote, &len);

    if (!out)
        return NULL;

    fputs("exec ", out);
    amph_quote_shell(out, server);

    if (!is_this_host(host)) {
        const char *network = amph_conduit_network_is_named() ? amph_env_str(AMPH_ENV_CONDUIT)
                                                              : amph_conduit_default_network();

        fprintf(out, " -own -conduit %s -iofwd ", network);
    } else
        fputs(" -own -iofwd ", out);

    amph_quote_shell(out, prefixes);
    if (fclose(out) != 0 || is_this_host(host))
        return remote;

    out = open_memstream(&line, &len);
    if (out) {
        fprintf(out, "exec %s ", amph_env_str(AMPH_ENV_IOFWD_SERVER_SSH));
        amph_quote_shell(out, host);
        fputc(' ', out);
        amph_quote_shell(out, remote);
        fclose(out);
    }

    free(remote);
    return line;
}

/* Copies the environment without the client's own settings. */
static char **server_environment(void)
{
    static const char *const dropped[] = { "LD_PRELOAD=", "IOFWD_SERVER_HOST=", "IOFWD_PRIVATE_",
                                           "AMPHORA_RANK=" };
    size_t n = 0;
    size_t kept = 0;

    while (environ && environ[n])
        n++;

    char **env = calloc(n + 1, sizeof *env);

    for (size_t i = 0; env && i < n; i++) {
        bool drop = false;

        for (size_t k = 0; k < AMPH_COUNTOF(dropped); k++)
            drop = drop || strncmp(environ[i], dropped[k], strlen(dropped[k])) == 0;

        if (!drop)
            env[kept++] = environ[i];
    }

    return env;
}

/* Runs in the grandchild, which may only make system calls. */
static void become_server(const char *line, char *const env[], int in, int out)
{
    char *const argv[] = { "sh", "-c", (char *)line, NULL };
    sigset_t none;

    sigemptyset(&none);
    setsid();
    syscall(SYS_dup3, in, 0, 0);
    syscall(SYS_dup3, out, 1, 0);
    syscall(SYS_close_range, 3, ~0u, 0);
    sigprocmask(SIG_SETMASK, &none, NULL);
    syscall(SYS_execve, "/bin/sh", argv, env);
    syscall(SYS_exit_group, 127);
}

/* Starts the command in a grandchild whose parent ends at once. */
static bool start(const char *line, int in, int out)
{
    char **env = server_environment();
    int status;

    if (!env)
        return false;

    /* exit signal 0: the program gets no SIGCHLD for it */
    long pid = syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);

    if (pid == 0) {
        long second = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

        if (second == 0)
            become_server(line, env, in, out);

        syscall(SYS_exit_group, second < 0);
    }

    bool ok = pid > 0 && syscall(SYS_wait4, pid, &status, __WALL, NULL) == pid &&
              WIFEXITED(status) && WEXITSTATUS(status) == 0;

    free(env);
    return ok;
}

/* Reads the address file's text, up to the line "end". */
static bool read_text(int fd, char *text)
{
    uint64_t deadline = amph_now_ns() + START_NS;
    uint64_t now;
    size_t have = 0;

    while ((now = amph_now_ns()) < deadline && have < TEXT_MAX - 1) {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        sigset_t before;

        amph_thread_wait_begin(&before);

        int events = poll(&p, 1, (int)((deadline - now) / AMPH_NS_PER_MS) + 1);

        amph_thread_wait_end(&before);
        if (events < 0 && errno != EINTR)
            return false;

        ssize_t n = p.revents ? read(fd, text + have, TEXT_MAX - 1 - have) : 0;
        if (p.revents && n <= 0)
            return false;

        have += (size_t)n;
        text[have] = 0;
        if (strstr(text, "\nend\n"))
            return true;
    }

    return false;
}

static bool keep_text(char *text)
{
    const char *name = amph_env_name(AMPH_ENV_IOFWD_OWN_SERVERS);

    own->setting = malloc(strlen(name) + strlen(text) + 2);
    if (!own->setting)
        return false;

    sprintf(own->setting, "%s=%s", name, text);
    for (char *c = own->setting; *c; c++)
        if (*c == '\n')
            *c = ';';

    amph_boot_standing_own(text);
    return true;
}

/* Moves the descriptor to a high number.  It is close-on-exec, so the server detects the end of
 * later images by their control connections. */
static void keep_fd(int fd)
{
    own->fd = fcntl(fd, F_DUPFD_CLOEXEC, AMPH_CLIENT_FDS_FROM);
    if (own->fd < 0)
        own->fd = fd;
    else
        close(fd);
}

static int start_on(const char *host, const char *prefixes)
{
    char server[4096];
    char *text = calloc(1, TEXT_MAX);
    int in[2], out[2];

    find_server(server, sizeof server);

    char *line = make_line(host, server, prefixes);
    if (!text || !line || pipe2(in, O_CLOEXEC) != 0)
        goto failed;

    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        goto failed;
    }

    bool ok = start(line, in[0], out[1]);

    close(in[0]);
    close(out[1]);
    ok = ok && read_text(out[0], text);
    close(out[0]);

    if (ok && keep_text(text)) {
        keep_fd(in[1]);
        free(line);
        return 0; /* the text is kept */
    }

    close(in[1]);
failed:
    amph_error("the I/O server %s on %s (IOFWD_SERVER_HOST) did not start; IOFWD_SERVER_PATH names "
               "the program, IOFWD_SERVER_SSH the "
               "command that reaches the host",
               server, host);
    free(text);
    free(line);

    return EIO;
}

int amph_client_private_server_start(void)
{
    const char *host = given(own->host, AMPH_ENV_IOFWD_SERVER_HOST);
    const char *prefixes = given(own->prefixes, AMPH_ENV_IOFWD_PREFIX);
    bool belongs = amph_env_str(AMPH_ENV_JOB)[0] || amph_env_str(AMPH_ENV_IOFWD_OWN_SERVERS)[0];

    if (own->setting || !host[0] || (belongs && !own->host))
        return 0;

    if (host[0] == '-' || !prefixes[0]) {
        amph_error("IOFWD_SERVER_HOST=%s: %s", host,
                   host[0] == '-' ? "this is no host" : "IOFWD_PREFIX must say what is forwarded");
        return EIO;
    }

    return start_on(host, prefixes);
}
