/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-cc, iofwd-c++, iofwd-fc: run a compiler, and link what it links with the interposer.
 *
 * Layer: iofwd/cc.  Thread rule: one thread; memory is released at the end of the program.
 *
 *   main.c      the command line: which compiler, -show, what is run
 *   link.c      what a command links, by the compiler's own account (-###)
 *   parts.c     this installation's libraries, and the words that they add to a command
 *   attempt.c   running the compiler, again if it has crashed (IOFWD_CC_RETRY)
 *   words.c     lists of words
 *   cc.h        this file
 */
#ifndef AMPH_IOFWD_CC_H
#define AMPH_IOFWD_CC_H

#include <stdbool.h>
#include <stddef.h>

/* ---- words.c ---- */

/* A list of words that ends with NULL. */
struct amph_cc_words {
    char **v;
    size_t n, cap;
};

/* The list keeps the pointer. */
void amph_cc_words_add(struct amph_cc_words *w, const char *word);
void amph_cc_words_add_all(struct amph_cc_words *to, const struct amph_cc_words *from);

/* Adds the words of a line, split at blanks; "..." and '...' and \ quote as in a shell. */
void amph_cc_words_split(struct amph_cc_words *to, const char *line);

/* A text that is never NULL. */
__attribute__((format(printf, 1, 2))) char *amph_cc_text(const char *fmt, ...);

/* Ends the program after one sentence. */
__attribute__((noreturn, format(printf, 2, 3))) void amph_cc_die(int code, const char *fmt, ...);

/* ---- link.c ---- */

enum amph_cc_kind {
    AMPH_CC_NO_LINK, /* nothing is linked, or nothing that calls the C library */
    AMPH_CC_DYNAMIC, /* the C library is a shared one */
    AMPH_CC_STATIC,  /* the C library is inside */
    AMPH_CC_UNKNOWN  /* the compiler does not answer -### */
};

/* Do the options state that nothing is linked (-c, -S, -E, ...)? false: unknown. */
bool amph_cc_is_compile_only(const struct amph_cc_words *args);

/* Asks the compiler what it would do with args, without running anything else.  Ends the program
 * with a sentence if the output cannot forward. */
enum amph_cc_kind amph_cc_link_kind(const struct amph_cc_words *compiler,
                                    const struct amph_cc_words *args, int retries);

/* ---- parts.c ---- */

/* Makes the command that links args as that kind.  Ends the program with a sentence if one of our files
 * is missing. */
void amph_cc_parts_add(struct amph_cc_words *command, enum amph_cc_kind kind,
                       const struct amph_cc_words *args);

/* ---- attempt.c ---- */

/* Runs the command in this process, or up to 1 + retries times in others while the compiler crashes, and
 * ends with its exit code.  is_static: leaves out what the linker warns of because of our archives. */
__attribute__((noreturn)) void amph_cc_run(const struct amph_cc_words *command, int retries,
                                           bool is_static);

/* Runs the command in another process; returns its exit code, 128 + N after signal N. */
int amph_cc_run_child(const struct amph_cc_words *command);

/* Runs the command without standard input, again as amph_cc_run does, and returns all that it prints;
 * *code_p: its exit code. */
char *amph_cc_capture(const struct amph_cc_words *command, int retries, int *code_p);

#endif
