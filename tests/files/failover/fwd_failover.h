/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of fwd_failover share.  Thread rule: as the test. */
#ifndef FWD_FAILOVER_H
#define FWD_FAILOVER_H

#include <signal.h>
#include <stdint.h>

#define MUST(x) check((x), __LINE__, #x)

extern int kills;
extern useconds_t delay;
void check(int ok, int line, const char *what);
const char *in(const char *name, int i);
uint32_t mix(uint32_t x);
/* Kills whoever is at the other end of the client's newest connection: the server that it uses
 * now. */
int kill_newest(void);
/* how, after: what happens, so long after the server's death, to one of the writers; 0: nothing.
 * One that is stopped goes on when the others have ended. */
int share_offset(int how, useconds_t after);
/* Likewise, with records that the servers of a striped file share out. */
int share_striped(void);
int killed_sharer(void);
int unanswered_only(void);
int placed_only(void);

#endif
