/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd_last_thread FILE: a GASNet client whose main ends by pthread_exit while another thread goes on.  The
 * process ends with that thread, although threads of Amphora have executed a non-blocking write and guarded
 * messages; what the thread has printed comes out.
 */
#include <fcntl.h>
#include <gasnetex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iofwd.h"

static pthread_t first;
static gex_TM_t tm;

static void need(int ok, const char *what)
{
    if (ok)
        return;

    fprintf(stderr, "failed: %s\n", what);
    gasnet_exit(1);
}

static void *second(void *arg)
{
    need(pthread_join(first, NULL) == 0, "pthread_join of main");
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    printf("second thread of %u\n", (unsigned)gex_TM_QueryRank(tm));
    return arg;
}

int main(int argc, char **argv)
{
    static const char text[] = "written\n";
    gex_Client_t client;
    gex_EP_t ep;
    iofwd_file_t *file;
    iofwd_op_t op;
    struct iofwd_result result;
    pthread_t thread;
    char path[256];

    if (argc != 2 || gex_Client_Init(&client, &ep, &tm, "LAST", &argc, &argv, 0) != GASNET_OK)
        return 1;

    setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    snprintf(path, sizeof path, "%s.%u", argv[1], (unsigned)gex_TM_QueryRank(tm));
    need(iofwd_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600, &file) == 0, "open");
    need(iofwd_pwrite_nb(file, text, strlen(text), 0, &op) == 0, "start of a write");
    need(iofwd_wait(&op, -1, &result) == 0 && result.bytes == strlen(text), "write");
    need(iofwd_close(file) == 0, "close");

    first = pthread_self();
    need(pthread_create(&thread, NULL, second, NULL) == 0, "pthread_create");
    pthread_exit(NULL);
}
