/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of a host's agent: the launcher's orders.  Run by tests/fuzz/fuzz.sh, which gives the
 * agent's calls that start, signal and end processes or leave the directory other names, defined
 * here; what makes and removes directories, looks for programs and speaks to ssh is replaced as
 * well.  An input is a row of orders: a byte of type, a byte of length, and the bytes.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/control.h"
#include "launcher/agent/internal.h"
#include "launcher/master/jobdir.h"
#include "launcher/common/message.h"
#include "launcher/common/program.h"
#include "launcher/common/reap.h"
#include "launcher/common/record_pack.h"
#include "launcher/hosts/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static jmp_buf end;

/* Wherever the agent would end, a process's memory goes with it. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

pid_t fuzz_vfork(void);
int fuzz_kill(pid_t pid, int sig);
int fuzz_chdir(const char *path);
void fuzz_exit(int code) AMPH_NORETURN;

pid_t fuzz_vfork(void)
{
    static unsigned n;

    errno = EAGAIN;
    return ++n % 4 ? 1 << 22 : -1; /* no process has that number */
}

/* A process that is to pack records, too. */
pid_t amph_record_pack_begin(const char *dir, uint64_t min_bytes,
                             const struct amph_inherit *inherit)
{
    static unsigned n;

    return ++n % 3 ? fuzz_vfork() : 0;
}

int fuzz_kill(pid_t pid, int sig)
{
    return 0;
}

int fuzz_chdir(const char *path)
{
    return strlen(path) % 2 ? 0 : -1;
}

void fuzz_exit(int code)
{
    longjmp(end, 1);
}

char *amph_launch_jobdir_name(bool forwards)
{
    return NULL;
}

enum amph_status amph_launch_jobdir_create(const char *path)
{
    return AMPH_OK;
}

enum amph_status amph_boot_jobfile_write(const char *path, const struct amph_jobfile *file)
{
    return AMPH_OK;
}

void amph_launch_jobdir_remove(const char *path)
{
    if (path[0] != '/')
        /* no order makes the agent remove what lies elsewhere than the launcher can mean */
        abort();
}

void amph_say(const char *fmt, ...)
{
}

int amph_program_find(const char *name, char **path_p)
{
    return 127;
}

int amph_program_explain(const char *path, const char *host, int error)
{
    return 126;
}

char *amph_program_search(const char *name, const char *dirs)
{
    return strdup("/nonexistent/program");
}

bool amph_program_may_forward(const char *path)
{
    return true;
}

char *amph_program_own(const char *name)
{
    return NULL;
}

char *amph_program_library(const char *name)
{
    return NULL;
}

bool amph_reap_is_ending(pid_t pid)
{
    return false;
}

size_t amph_reap_signal(int sig, const pid_t *skip, size_t nskip)
{
    return 0;
}

size_t amph_reap_kill(const pid_t *skip, size_t nskip, int limit_ms)
{
    return 0;
}

enum amph_status amph_topo_open(struct amph_topo **topo_p)
{
    return AMPH_ERR_NOSYS;
}

enum amph_status amph_topo_bind(struct amph_topo *topo, pid_t pid, enum amph_bind how,
                                unsigned index, unsigned count)
{
    return AMPH_ERR_NOSYS;
}

static void *adopted[16];
static size_t nadopted;
enum amph_status amph_remote_start(struct amph_remote *r, struct amph_loop *loop,
                                   const struct amph_inherit *inherit,
                                   const struct amph_remote_spec *spec)
{
    if (strcmp(spec->name, "here") != 0 || nadopted == sizeof adopted / sizeof adopted[0])
        return AMPH_ERR_NOMEM;

    adopted[nadopted++] = r->user; /* what it is embedded in */
    return AMPH_OK;
}

void amph_remote_send(struct amph_remote *r, uint16_t type, const void *body, size_t len_bytes)
{
    static volatile uint8_t sink;
    for (size_t i = 0; i < len_bytes; i++)
        sink ^= ((const uint8_t *)body)[i];
}

bool amph_remote_reaped(struct amph_remote *r, pid_t pid, int status)
{
    return false;
}

static void send_orders(int fd, const uint8_t *bytes, size_t len)
{
    struct amph_frames f;

    amph_boot_frames_open(&f, fd, AMPH_AGENT_BODY_MAX);
    while (len >= 2 && !amph_boot_frames_pending(&f)) { /* no more than the socket takes */
        size_t n = bytes[1] < len - 2 ? bytes[1] : len - 2;
        if (amph_boot_frames_send(&f, bytes[0] % (AMPH_AGENT_NTYPES + 1), bytes + 2, n) != AMPH_OK)
            abort();
        bytes += 2 + n;
        len -= 2 + n;
    }

    /* the launcher's end, which the agent survives by nothing but its own clean-up */
    shutdown(fd, SHUT_WR);
    amph_boot_bytes_free(&f.in);
    amph_boot_bytes_free(&f.out);
}

static void clean_up(struct amph_agent *a)
{
    while (a->procs) {
        struct amph_agent_proc *p = a->procs;

        a->procs = p->next;
        for (int i = 0; i < AMPH_NENDS; i++)
            amph_agent_close_end(&p->end[i]);

        amph_boot_bytes_free(&p->input);
        free(p);
    }

    while (nadopted > 0)
        free(adopted[--nadopted]);

    amph_loop_close(&a->loop);
    close(a->signal_fd);
    if (a->listen_fd >= 0)
        close(a->listen_fd);

    amph_boot_bytes_free(&a->frames.in);
    amph_boot_bytes_free(&a->frames.out);
    amph_agent_free_texts(a->env);
    free(a->directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct amph_agent a; /* static: longjmp leaves it alone */
    static const struct amph_inherit inherit;
    static int pair[2];

    if (len < 1)
        return 0;

    signal(SIGPIPE, SIG_IGN); /* as the launcher and an agent on another host have it */
    memset(&a, 0, sizeof a);
    a.inherit = &inherit;
    a.remote = bytes[0] & 1;
    a.directory = strdup("/nonexistent/job");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        abort();

    send_orders(pair[1], bytes + 1, len - 1);
    if (setjmp(end) == 0) {
        amph_agent_open(&a, pair[0], pair[0]);
        amph_agent_loop(&a);
    }

    clean_up(&a);
    close(pair[0]);
    close(pair[1]);

    return 0;
}
