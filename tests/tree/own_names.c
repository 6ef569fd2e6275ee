/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * own_names DIRECTORY: a client that defines names which files of the package use, or used, for
 * themselves.  None of them may reach the package.  Built three ways by own_names.sh: as a plain
 * program whose file calls are forwarded (-rdynamic), with libiofwd (-DWITH_IOFWD), and as a static
 * program of a job (-DWITH_JOB).
 */
#ifdef WITH_JOB
#define GASNET_SEQ 1
#include <gasnetex.h>
#endif
#ifdef WITH_IOFWD
#include <iofwd.h>
#endif
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Defines a function of the client's that nobody else may call. */
#define OWN_FUNCTION(name) \
    int name(void); \
    int name(void) \
    { \
        fprintf(stderr, "the package called the client's " #name "\n"); \
        abort(); \
    }

/* Names without the package's prefixes. */
OWN_FUNCTION(fwd_link_to)
OWN_FUNCTION(rdp_open)
OWN_FUNCTION(smp_wake)
OWN_FUNCTION(smp_progress)

/* Names that other implementations of the hash of our MACs have (libmd, OpenSSL, Nettle's without their prefix). */
OWN_FUNCTION(SHA256Init)
OWN_FUNCTION(SHA256Update)
OWN_FUNCTION(SHA256Final)
OWN_FUNCTION(SHA256Transform)
OWN_FUNCTION(SHA256_Init)
OWN_FUNCTION(SHA256_Update)
OWN_FUNCTION(SHA256_Final)
OWN_FUNCTION(sha256_init)
OWN_FUNCTION(sha256_update)
OWN_FUNCTION(sha256_digest)

int fwd_state = 3;

#ifndef WITH_JOB
/* Hidden names of the shared libraries: a static program shares its one name space with them. */
OWN_FUNCTION(amph_client_link_to)
OWN_FUNCTION(amph_rdp_open)
OWN_FUNCTION(amph_smp_wake)
OWN_FUNCTION(amph_smp_progress)
OWN_FUNCTION(amph_am_carry_open)
int amph_client_state = 3;
#endif

/* Reports which step failed. */
static int fail(const char *step)
{
    perror(step);
    return 1;
}

static const char text[] = "the client's own names\n";

#ifdef WITH_JOB
static volatile unsigned arrived;

static void handler(gex_Token_t token)
{
    arrived++;
}

static int exchange(void)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t team;
    gex_AM_Entry_t entry = { .gex_index = GEX_AM_INDEX_BASE,
                             .gex_fnptr = (gex_AM_Fn_t)handler,
                             .gex_flags = GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT };

    if (gex_Client_Init(&client, &ep, &team, "own_names", NULL, NULL, 0) != GASNET_OK ||
        gex_EP_RegisterHandlers(ep, &entry, 1) != GASNET_OK)
        return fail("gex_Client_Init");

    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));

    gex_Rank_t next = (gex_TM_QueryRank(team) + 1) % gex_TM_QuerySize(team);

    for (unsigned i = 0; i < 1000; i++)
        gex_AM_RequestShort0(team, next, GEX_AM_INDEX_BASE, 0);

    GASNET_BLOCKUNTIL(arrived == 1000);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    gasnet_exit(0);
    return 0;
}
#endif

#ifdef WITH_IOFWD
static int exchange_file(const char *path)
{
    iofwd_file_t *file;
    char back[sizeof text] = "";
    size_t done;

    if (iofwd_open(path, O_RDWR | O_CREAT, 0600, &file) != 0)
        return fail("iofwd_open");

    if (iofwd_pwrite(file, text, strlen(text), 0, &done) != 0 || done != strlen(text))
        return fail("iofwd_pwrite");

    if (iofwd_pread(file, back, sizeof back, 0, &done) != 0 || strcmp(back, text) != 0)
        return fail("iofwd_pread");

    return iofwd_close(file) == 0 ? 0 : fail("iofwd_close");
}
#else
static int exchange_file(const char *path)
{
    char back[sizeof text] = "";
    int fd = open(path, O_RDWR | O_CREAT, 0600);

    if (fd < 0)
        return fail("open");

    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        return fail("write");

    if (pread(fd, back, sizeof back, 0) != (ssize_t)strlen(text) || strcmp(back, text) != 0)
        return fail("pread");

    return close(fd) == 0 ? 0 : fail("close");
}
#endif

int main(int argc, char **argv)
{
    char path[4096];

#ifdef WITH_JOB
    if (argc < 2)
        return exchange();
#endif

    snprintf(path, sizeof path, "%s/own_names", argc > 1 ? argv[1] : ".");

    int result = exchange_file(path);

    return result ? result : fwd_state - 3;
}
