/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who of a rank's processes joins the job of another launcher.  Layer: boot.  Thread rule: one
 * thread at a time.
 *
 * Under the preload library the first process of a rank may be a GASNet client, a script that
 * starts one, or a program that is none, and only what it does tells.  So the preload library gives
 * that process a pair of sockets before main, which everything that it starts inherits
 * (IOFWD_PRIVATE_RANK=PID:RESULT:TOKEN:INODE).  In the one lies a token: who needs the job takes it
 * and joins, by gasnet_init, or as a plain program at its first forwarded call, or at the end of
 * the first process.  Then it leaves the result in the other, where all can look at it, with the
 * connection that tells the servers: the kernel closes that when the last process of the rank is
 * gone.
 */
#ifndef AMPH_BOOT_CLAIM_H
#define AMPH_BOOT_CLAIM_H

#include <stdbool.h>

enum amph_claim {
    AMPH_CLAIM_NONE,   /* there are no such sockets, or this process has the token already */
    AMPH_CLAIM_MINE,   /* the token: amph_boot_claimed must follow */
    AMPH_CLAIM_PLAIN,  /* joined as a plain program; the result's text is there */
    AMPH_CLAIM_CLIENT, /* a GASNet client has come */
    AMPH_CLAIM_FAILED  /* who had the token has not reached the job */
};

/* Waits while another process has the token.  *text_p: with AMPH_CLAIM_PLAIN an allocated text. */
enum amph_claim amph_boot_claim(char **text_p);

/* The result: AMPH_CLAIM_PLAIN with its text and the connection (kept by the kernel; the caller
 * closes its own), CLIENT or FAILED. */
void amph_boot_claimed(enum amph_claim result, const char *text, int fd);

#endif
