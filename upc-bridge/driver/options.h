/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of amphora-upcc.  Options of the C compiler are sorted by the steps that need
 * them; an option that no table contains goes to the C compiler in every step.  Options of other UPC
 * compilers that have no effect here are collected and named in one sentence.
 *
 *   upcc.c       amphora-upcc: preprocessor, upcxlate, C compiler, linker
 *   options.c    its command line
 *   language.c   is a .c file UPC or C?
 *   upcrun.c     amphora-upcrun
 *   place.c      paths of the installation; the line in a program that amphora-upcrun reads
 *
 * Layer: upc-bridge/driver.  Thread rule: one thread.
 */
#ifndef UPC_DRIVER_OPTIONS_H
#define UPC_DRIVER_OPTIONS_H

#include <stdbool.h>

/* Ends with NULL; memory is released at the end of the program. */
struct list {
    char **v;
    int n, cap;
};

void upcc_list_add(struct list *l, const char *s);
void upcc_list_add_all(struct list *to, const struct list *from);

enum language {
    LANGUAGE_LINKER, /* objects, libraries and options of the linker: not compiled */
    LANGUAGE_UPC,
    LANGUAGE_UPC_PREPROCESSED,
    LANGUAGE_C_OR_UPC, /* .c: UPC or C, depending on its text */
    LANGUAGE_C,
    LANGUAGE_OTHER, /* compiled by the C compiler alone */
};

struct input {
    const char *text; /* file or option */
    bool is_file;
    enum language language;
    const char *gcc_language; /* LANGUAGE_OTHER after -x; NULL: by the file's name */
};

enum product {
    PRODUCT_PROGRAM,
    PRODUCT_OBJECTS,     /* -c */
    PRODUCT_ASSEMBLY,    /* -S */
    PRODUCT_NOTHING,     /* -fsyntax-only */
    PRODUCT_TRANSLATION, /* -trans */
    PRODUCT_TEXT         /* -E, -M, -MM */
};

struct options {
    struct list cpp;       /* preprocessing UPC */
    struct list cc;        /* compiling what has been preprocessed */
    struct list c;         /* compiling C: cpp and cc, in order */
    struct list text_only; /* options that apply to -E and -M only */

    struct input *inputs; /* files and options of the linker, in order */
    int ninputs, nsources;

    enum product product;
    const char *output;   /* -o */
    const char *compiler; /* -cc */
    const char *linker;   /* -link-with; NULL: the compiler */
    const char *network;
    int threads, servers;
    bool verbose, static_link, save_temps;

    const char *depend;      /* -MD or -MMD */
    const char *depend_file; /* -MF */
    struct list depend_args; /* -MT, -MQ, -MP */
    bool depend_target;      /* -MT or -MQ was given */
};

/* Ends the program if there is nothing to do or an option is wrong. */
void upcc_options_read(struct options *o, int argc, char **argv);

/* Ends in suffix, with something before it. */
bool upcc_ends_in(const char *s, const char *suffix);

#endif
