/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fatal errors, backtraces, waiting for a debugger.  GASNet tools spec, "Backtracing and debugger
 * attach", "Miscellaneous tools". Functions may be called by any thread at any time, also before
 * the runtime is initialised, unless said otherwise.
 */
#ifndef AMPHORA_TOOLS_DEBUG_H
#define AMPHORA_TOOLS_DEBUG_H

#include "amphora/tools/annotate.h"

AMPHORA_BEGIN_C

/* "function() at file:line" in memory of its own; the caller frees it. */
char *amphora_tools_place(const char *function, const char *file, int line) GASNETT_MALLOC;
#define gasnett_current_loc amphora_tools_place(GASNETT_CURRENT_FUNCTION, __FILE__, __LINE__)

/*
 * Says one line on standard error that names the process, waits for a debugger if
 * GASNET_FREEZE_ON_ERROR, prints a backtrace if GASNET_BACKTRACE, and aborts.  gasnett_fatalerror
 * also says where in the source it is.
 */
GASNETT_FORMAT_PRINTF(gasneti_fatalerror, 1, 2, void gasneti_fatalerror(const char *msg, ...))
GASNETT_NORETURN;
GASNETT_FORMAT_PRINTF(amphora_tools_fatal_at, 4, 5,
                      void amphora_tools_fatal_at(const char *function, const char *file, int line,
                                                  const char *msg, ...))
GASNETT_NORETURN;
#define gasnett_fatalerror(...) \
    amphora_tools_fatal_at(GASNETT_CURRENT_FUNCTION, __FILE__, __LINE__, __VA_ARGS__)
#define gasnett_fatalerror_nopos(...) gasneti_fatalerror(__VA_ARGS__)

/* Ends the process at once with this exit code, all threads, no exit handlers. */
void gasnett_killmyprocess(int exitcode) GASNETT_NORETURN;

/* ---- signals ---- */
typedef void (*gasnett_sighandlerfn_t)(int);
/* Installs a handler, SIG_DFL or SIG_IGN (interrupted calls are restarted); returns the one before,
 * SIG_ERR if there is no such signal. */
gasnett_sighandlerfn_t gasnett_reghandler(int sigtocatch, gasnett_sighandlerfn_t fp);

/* ---- debugger ---- */
/* What a process waits for under GASNET_FREEZE, GASNET_FREEZE_ON_ERROR and
 * GASNET_FREEZE_SIGNAL: a debugger sets it to 0.  Programs do not write it. */
extern volatile int gasnet_frozen;
/* Says how to go on, and waits until a debugger changes *flag (shown as flagsymname). */
void gasnett_freezeForDebuggerNow(volatile int *flag, const char *flagsymname);
/* The same, if GASNET_FREEZE_ON_ERROR is set. */
void gasnett_freezeForDebuggerErr(void);

/* ---- backtraces ---- */
/* To be called early with argv[0]: finds the program's file and arms what GASNET_BACKTRACE,
 * GASNET_BACKTRACE_SIGNAL, GASNET_FREEZE_ON_ERROR and GASNET_FREEZE_SIGNAL ask for.  The runtime's
 * initialisation does it too. */
void gasnett_backtrace_init(const char *exename);
/* The program's file, as far as it is known. */
const char *gasnett_exe_name(void);
/* Writes a backtrace of the calling thread (or, by GDB, of all threads) to fd now.  0, or non-zero
 * if no mechanism worked. */
int gasnett_print_backtrace(int fd);
/* Does so if GASNET_BACKTRACE (and GASNET_BACKTRACE_NODES) say so: what fatal errors call.  May be
 * replaced. */
extern int (*gasnett_print_backtrace_ifenabled)(int fd);

typedef struct {
    const char *name;   /* as written in GASNET_BACKTRACE_TYPE */
    int (*fnp)(int fd); /* writes a backtrace; non-zero: could not */
    int threadsupport;  /* may be used in a process of several threads */
} gasnett_backtrace_type_t;

/* A mechanism of the client's own: the client may define this variable. */
extern gasnett_backtrace_type_t gasnett_backtrace_user;

/* A lock was used wrongly; fatal. */
void amphora_tools_misuse(const char *what, const void *lock, const char *file,
                          int line) GASNETT_NORETURN;

AMPHORA_END_C

#endif
