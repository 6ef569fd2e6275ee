/* SPDX-License-Identifier: BSD-3-Clause */
/* What processes are given: environment, arguments, place; made here.  Layer: launcher.  Thread
 * rule: one thread. */
#ifndef AMPH_LAUNCHER_SETTING_H
#define AMPH_LAUNCHER_SETTING_H

#include "launcher/master/launch.h"

/* Checks what the options ask for (conduit, prefixes, preload library); AMPH_ERR_ARG after a
 * sentence. */
enum amph_status amph_setting_prepare(struct amph_launch *l);
enum amph_status amph_setting_write_file(struct amph_launch *l);
/* sends SETUP */
enum amph_status amph_setting_agent(struct amph_launch *l, struct amph_lagent *agent);
/* sends SPAWN */
enum amph_status amph_setting_spawn(struct amph_launch *l, struct amph_lproc *p);

#endif
