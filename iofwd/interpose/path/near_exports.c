/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exports that this process can open by itself: what the address file says of them (wire/near.h), if it is
 * about this host, this view of its files and this user.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.  The exports are found once, by the
 * thread that changes `found` first; until it is done the others leave their calls to the servers.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/path/near_exports.h"

#include "iofwd/calls/names.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/entry/settings.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/libc/kept.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/wire/near.h"

#define NS_PER_MS UINT64_C(1000000)

struct amph_ip_near amph_ip_near = { .lock = PTHREAD_MUTEX_INITIALIZER };

void amph_ip_near_start(char **env)
{
    const char *file = amph_ip_setting_text(env, AMPH_ENV_JOB);
    const char *stripes = amph_ip_setting_text(env, AMPH_ENV_IOFWD_STRIPE);
    const char *traces = amph_ip_setting_text(env, AMPH_ENV_IOFWD_TRACE);

    if (!file || file[0] != '/' || (traces && traces[0]) || amph_ip_state.trace ||
        amph_ip_setting_text(env, AMPH_ENV_IOFWD_SERVER_HOST) ||
        amph_ip_setting_text(env, AMPH_ENV_IOFWD_OWN_SERVERS) ||
        amph_ip_setting_text(env, AMPH_ENV_IOFWD_RANK_SOCKETS) ||
        (stripes && stripes[0] && strcmp(stripes, "1") != 0) ||
        amph_ip_setting_int(env, AMPH_ENV_IOFWD_CONSISTENCY) != 0 ||
        !amph_ip_setting_bool(env, AMPH_ENV_IOFWD_NEAR) ||
        !amph_ip_setting_bool(env, AMPH_ENV_IOFWD_PASSTHROUGH) ||
        !amph_ip_setting_bool(env, AMPH_ENV_SMP))
        return;

    amph_ip_near.age_ns = (uint64_t)amph_ip_setting_int(env, AMPH_ENV_IOFWD_CACHE_AGE) * NS_PER_MS;
    amph_ip_near.file = amph_ip_keep_text(file);
    if (amph_ip_near.file)
        atomic_store(&amph_ip_near.found, AMPH_IP_NEAR_NOT_YET);
}

/* ---- the address file ---- */

/* Reads the address file.  false: it is not this user's or root's, or is too long. */
static bool read_file(void)
{
    struct stat st;
    int fd = amph_ip_kernel_openat(AT_FDCWD, amph_ip_near.file, O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                                   0);
    bool ours = fd >= 0 && amph_ip_kernel_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                (st.st_uid == geteuid() || st.st_uid == 0);
    char *text = amph_ip_near.memory->text;
    ssize_t n = ours ? amph_ip_kernel_read(fd, text, AMPH_IP_NEAR_TEXT - 1) : -1;

    if (fd >= 0)
        amph_ip_kernel_close(fd);

    text[n > 0 ? n : 0] = 0;
    return n > 0 && n < AMPH_IP_NEAR_TEXT - 1;
}

/* Does the text begin with the two numbers that identify this file?  Returns what follows, or NULL. */
static const char *after_place(const char *text, const struct stat *st)
{
    char *end;

    if (strtoull(text, &end, 10) != st->st_dev || strtoull(end, &end, 10) != st->st_ino)
        return NULL;

    return end;
}

/* BOOT-ID [DEVICE INODE]... UID: are they those of this process? */
static bool is_here(const char *text)
{
    static const char *const objects[] = FWD_NEAR_OBJECTS;
    char boot[FWD_NEAR_BOOT_ID_BYTES] = "";
    int fd = amph_ip_kernel_openat(AT_FDCWD, FWD_NEAR_BOOT_ID, O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd < 0 ? -1 : amph_ip_kernel_read(fd, boot, sizeof boot - 1);
    size_t len = strcspn(boot, "\n");
    struct stat st;

    if (fd >= 0)
        amph_ip_kernel_close(fd);
    if (n <= 0 || strncmp(text, boot, len) != 0 || text[len] != ' ')
        return false;

    text += len;
    for (size_t i = 0; i < AMPH_COUNTOF(objects) && text; i++)
        text = amph_ip_kernel_fstatat(AT_FDCWD, objects[i], &st, 0) == 0 ? after_place(text, &st)
                                                                         : NULL;

    return text && strtoul(text, NULL, 10) == geteuid();
}

/* HOST PID HEX: does the process exist? */
static bool is_alive(const char *text)
{
    long pid = strtol(text + strcspn(text, " "), NULL, 10);

    return pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

/* DEVICE INODE rw|ro NAME=DIR */
static bool take_export(char *text)
{
    struct amph_ip_near_export *e = &amph_ip_near.export[amph_ip_near.n];
    char *end;

    if (amph_ip_near.n == AMPH_COUNTOF(amph_ip_near.export))
        return false;

    e->dev = strtoull(text, &end, 10);
    e->ino = strtoull(end, &end, 10);
    e->readonly = strncmp(end, " " FWD_NEAR_READONLY " ", 4) == 0;
    e->name = end + strcspn(end, "/");
    e->name_len = strcspn(e->name, "=");
    e->dir = e->name + e->name_len + 1;
    e->dir_len = strcmp(e->dir, "/") == 0 ? 0 : strlen(e->dir);
    e->fd = -1;
    amph_ip_near.n++;

    return e->name[0] == '/' && e->name[e->name_len] == '=' && e->dir[0] == '/';
}

static void take_versions(const char *text)
{
    amph_ip_near.versions = strtoull(text, NULL, 16);
    amph_ip_near.says_versions = true;
}

/* Takes the lines in turn.  false: this process is another's, or a server has ended. */
static bool take_lines(void)
{
    bool here = false;
    bool alive = true;
    char *save = NULL;

    for (char *line = strtok_r(amph_ip_near.memory->text, "\n", &save); line && alive;
         line = strtok_r(NULL, "\n", &save)) {
        char *rest = line + strcspn(line, " ");

        rest += *rest == ' ';
        if (strncmp(line, "here ", 5) == 0)
            here = is_here(rest);
        else if (strncmp(line, "server ", 7) == 0)
            alive = is_alive(rest);
        else if (strncmp(line, "versions ", 9) == 0)
            take_versions(rest);
        else if (strncmp(line, "export ", 7) == 0 && !take_export(rest))
            return false;
    }

    return here && alive && amph_ip_near.n > 0;
}

/* By mmap, because malloc is not allowed in a signal handler. */
static bool make_memory(void)
{
    void *at = amph_ip_kernel_mmap(NULL, sizeof *amph_ip_near.memory, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    amph_ip_near.memory = at == MAP_FAILED ? NULL : at;
    return amph_ip_near.memory;
}

bool amph_ip_near_exports(void)
{
    int now = atomic_load_explicit(&amph_ip_near.found, memory_order_acquire);
    int saved = errno;

    if (AMPH_LIKELY(now == AMPH_IP_NEAR_FOUND || now == AMPH_IP_NEAR_OFF))
        return now == AMPH_IP_NEAR_FOUND;
    if (now != AMPH_IP_NEAR_NOT_YET ||
        !atomic_compare_exchange_strong(&amph_ip_near.found, &now, AMPH_IP_NEAR_LOOKS))
        return false;

    bool found = make_memory() && !amph_ip_program_uses_api() && read_file() && take_lines();

    amph_ip_debug("files are %s", found ? "opened by the process itself" : "opened by the servers");
    atomic_store_explicit(&amph_ip_near.found, found ? AMPH_IP_NEAR_FOUND : AMPH_IP_NEAR_OFF,
                          memory_order_release);
    errno = saved;
    return found;
}

static bool is_itself(int fd, const struct amph_ip_near_export *e)
{
    struct stat st;

    return amph_ip_kernel_fstat(fd, &st) == 0 && st.st_dev == e->dev && st.st_ino == e->ino;
}

/* The program may have closed it by the kernel's own call. */
int amph_ip_near_export_fd(struct amph_ip_near_export *e)
{
    int fd = atomic_load(&e->fd);
    int before = fd;

    if (AMPH_LIKELY(fd >= 0 && is_itself(fd, e)))
        return fd;

    fd = amph_ip_own(amph_ip_kernel_openat(AT_FDCWD, e->dir, O_PATH | O_DIRECTORY | O_CLOEXEC, 0));
    if (fd >= 0 && is_itself(fd, e) && atomic_compare_exchange_strong(&e->fd, &before, fd))
        return fd;

    if (fd >= 0) {
        amph_fdtab_mark(fd, FDTAB_UNKNOWN);
        amph_ip_kernel_close(fd);
    }

    return -1;
}

const char *amph_ip_name_by_fd(int fd, struct amph_ip_by_fd *n)
{
    snprintf(n->text, sizeof n->text, "/proc/self/fd/%d", fd);
    return n->text;
}
