/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides which process of a rank joins the job of another launcher.
 *
 * Layer: boot.  Thread rule: one thread at a time.
 *
 * Under the preload library the first process of a rank may be a GASNet client, a script that
 * starts one, or another program; this is not known in advance.  Therefore the preload library
 * makes a pair of sockets before main, which all processes of the rank inherit
 * (IOFWD_PRIVATE_RANK=PID:RESULT:TOKEN:INODE).  One socket holds a token.  The process that takes it
 * joins the job: in gasnet_init, or as a plain program at its first forwarded call, or at the end of
 * the first process.  It then puts the result into the other socket, where all processes of the
 * rank can peek at it, together with its connection to the servers.  The kernel closes that
 * connection when the last process of the rank has ended, which tells the servers.
 */
#ifndef AMPH_BOOT_CLAIM_H
#define AMPH_BOOT_CLAIM_H

#include <stdbool.h>

enum amph_claim {
    AMPH_CLAIM_NONE,   /* no such sockets, or this process has the token already */
    AMPH_CLAIM_MINE,   /* this process has the token; it must call amph_boot_claimed */
    AMPH_CLAIM_PLAIN,  /* a process joined as a plain program; its text is returned */
    AMPH_CLAIM_CLIENT, /* a GASNet client joined */
    AMPH_CLAIM_FAILED  /* the process with the token failed to join */
};

/* Takes the token or returns the result; waits while another process has the token.  *text_p: with
 * AMPH_CLAIM_PLAIN an allocated text. */
enum amph_claim amph_boot_claim(char **text_p);

/* Publishes the result: AMPH_CLAIM_PLAIN with its text and the connection, CLIENT, or FAILED.  The
 * kernel keeps a copy of fd; the caller closes its own. */
void amph_boot_claimed(enum amph_claim result, const char *text, int fd);

#endif
