/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of fwd_ready share.  Thread rule: as the test. */
#ifndef FWD_READY_H
#define FWD_READY_H

#include <pthread.h>

#define SOON_MS 30 /* a wait that ends before */

/* ---- what others do meanwhile ---- */

struct later {
    enum {
        WRITE_TO,
        CLOSE_IT,
        KILL,
        CANCEL
    } what;
    int fd;
    pthread_t thread;
};

void rest(int ms);
pthread_t later(struct later *l);
long polled(int fd, short events, int timeout);
void drain(int fd);
extern int fifo, empty, pair[2], local;
/* Two FIFOs, a local pipe, an event and a file, whatever is not asked for closed or negative. */
void open_mixed(void);
void watched(void);
void copied(void);
void shared(void);

#endif
