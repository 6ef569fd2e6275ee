/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Environment, arguments and slot of the job's processes.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_ENVIRONMENT_H
#define AMPH_LAUNCHER_ENVIRONMENT_H

#include "base/status.h"
#include "launcher/master/launch.h"

/* Checks the options about conduit, prefixes and preload library.  AMPH_ERR_ARG after a message. */
enum amph_status amph_launch_setting_prepare(struct amph_launch *l);
/* Writes the address file. */
enum amph_status amph_launch_setting_write_file(struct amph_launch *l);
/* Sends SETUP to an agent. */
enum amph_status amph_launch_setting_agent(struct amph_launch *l, struct amph_lagent *agent);
/* Sends SPAWN for a process to its agent. */
enum amph_status amph_launch_setting_spawn(struct amph_launch *l, struct amph_lproc *p);

#endif
