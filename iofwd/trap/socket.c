/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: calls that would lead out of the supervisor's reach by a UNIX-domain socket.  A socket
 * below a prefix would need a name on a server and an address on this host; and a descriptor that a
 * message passes on is a placeholder, which is nothing to its receiver.  Both are refused with a
 * sentence.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl

#define BATCH 16 /* messages that are read at a time */
#define MESSAGES_MAX 1024

/* ---- addresses ---- */

/* Looks where the socket's address in argument 1 leads.  True: below a prefix; else *ret_p is the
 * result. */
static bool leads_in(struct amph_trap_call *c, int flags, struct amph_trap_path *p, int *ret_p)
{
    struct sockaddr_un at;
    char path[sizeof at.sun_path + 1] = "";
    size_t len = (unsigned)A(2);
    const size_t before = offsetof(struct sockaddr_un, sun_path);

    p->dir = NULL;
    *ret_p = AMPH_TRAP_CONTINUE;
    if (len <= before || len > sizeof at)
        return false;

    int err = amph_trap_get(c, &at, A(1), len);

    if (err == EFAULT || (!err && at.sun_family != AF_UNIX))
        return false;

    if (!err) {
        memcpy(path, at.sun_path, len - before);
        if (!path[0]) /* an abstract address */
            return false;

        c->looked[0].dir = AT_FDCWD;
        c->looked[0].path = A(1) + before;
        c->nlooked = 1;
        err = amph_trap_look_text(c, AT_FDCWD, path, flags, p);
    }

    if (!err && p->where == AMPH_TRAP_RENAMED) {
        amph_trap_say_local(c, p);
        err = EOPNOTSUPP;
    }

    if (err)
        *ret_p = err;

    return !err && p->where == AMPH_TRAP_FORWARDED;
}

static void say_socket(struct amph_trap_call *c, const struct amph_trap_path *p, const char *what)
{
    char name[PATH_MAX];

    if (amph_trap_absolute(c, p, AT_FDCWD, name) != 0)
        snprintf(name, sizeof name, "%s", p->raw);

    amph_trap_say("the socket %s cannot be %s under -trap: use a path of this host, or iofwd-run "
                  "-mount PROGRAM",
                  name, what);
}

int amph_trap_do_bind(struct amph_trap_call *c)
{
    struct amph_trap_path p;
    int err;

    if (leads_in(c, AT_SYMLINK_NOFOLLOW, &p, &err)) {
        c->refused = true;
        say_socket(c, &p, "made");
        err = EOPNOTSUPP;
    }

    amph_trap_look_end(&p);
    return err;
}

/* The name may be a socket of another client. */
int amph_trap_do_connect(struct amph_trap_call *c)
{
    struct amph_trap_path p;
    struct stat st;
    int err;

    if (leads_in(c, 0, &p, &err)) {
        err = amph_fwd_stat(CL, AMPH_TRAP_AT(&p), 0, &st);
        if (!err && S_ISSOCK(st.st_mode) && amph_trap_first_time(c, AMPH_TRAP_SAID_SOCKET))
            say_socket(c, &p, "reached");

        if (!err) {
            c->refused = true;
            err = ECONNREFUSED;
        }
    }

    amph_trap_look_end(&p);
    return err;
}

/* ---- messages ---- */

static int refuse_descriptor(struct amph_trap_call *c, struct amph_trap_file *file, int fd)
{
    c->refused = true;
    if (amph_trap_first_time(c, AMPH_TRAP_SAID_PASSED))
        amph_trap_say("descriptor %d (%s) cannot be passed on in a message under -trap, since its "
                      "receiver could not use it: iofwd-run -mount PROGRAM makes that possible",
                      fd, file->name && file->name[0] ? file->name : "a forwarded file");

    amph_trap_file_put(file);
    return EINVAL; /* as for descriptors that the kernel does not pass on */
}

/* Does the message pass on a forwarded file?  0: no. */
static int check_message(struct amph_trap_call *c, const struct msghdr *given)
{
    struct msghdr m = { .msg_control = amph_trap_buffer(),
                        .msg_controllen = given->msg_controllen };

    if (!given->msg_control || m.msg_controllen < sizeof(struct cmsghdr) ||
        m.msg_controllen > AMPH_TRAP_BUFFER)
        return 0; /* the kernel's to take or to refuse */

    int err = m.msg_control
                  ? amph_trap_get(c, m.msg_control, (uintptr_t)given->msg_control, m.msg_controllen)
                  : ENOMEM;

    if (err)
        return err == EFAULT ? 0 : err;

    for (struct cmsghdr *head = CMSG_FIRSTHDR(&m); head; head = CMSG_NXTHDR(&m, head)) {
        size_t left = m.msg_controllen - (size_t)((char *)head - (char *)m.msg_control);

        if (head->cmsg_len < CMSG_LEN(0) || head->cmsg_len > left)
            return 0; /* the kernel refuses it */

        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;

        for (size_t at = 0; at + sizeof(int) <= head->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            struct amph_trap_file *file;
            int fd;

            memcpy(&fd, CMSG_DATA(head) + at, sizeof fd);
            err = amph_trap_file_of(c, fd, &file, NULL);
            if (err && err != EBADF)
                return err;

            if (!err && file)
                return refuse_descriptor(c, file, fd);
        }
    }

    return 0;
}

int amph_trap_do_sendmsg(struct amph_trap_call *c)
{
    struct msghdr m;
    int err = amph_trap_get(c, &m, A(1), sizeof m);

    if (!err)
        err = check_message(c, &m);

    return err && err != EFAULT ? err : AMPH_TRAP_CONTINUE;
}

/* Messages before one that is refused are not sent either. */
int amph_trap_do_sendmmsg(struct amph_trap_call *c)
{
    struct mmsghdr m[BATCH];
    size_t count = (unsigned)A(2) < MESSAGES_MAX ? (unsigned)A(2) : MESSAGES_MAX;
    int err = 0;

    for (size_t at = 0; at < count && !err; at += BATCH) {
        size_t n = count - at < BATCH ? count - at : BATCH;

        err = amph_trap_get(c, m, A(1) + at * sizeof *m, n * sizeof *m);
        for (size_t i = 0; i < n && !err; i++)
            err = check_message(c, &m[i].msg_hdr);
    }

    return err && err != EFAULT ? err : AMPH_TRAP_CONTINUE;
}
