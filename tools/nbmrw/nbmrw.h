/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbmrw: measures file throughput by file size, call size, order and way, in comparison with direct
 * calls on the same file.  This header has the declarations that its files share.
 *
 * Layer: tools.  Thread rule: one thread.  May include: see tools/README.md.
 *
 *   main.c     starting the job, and removing its files
 *   options.c  options and help
 *   plan.c     which measurements there are, and the loop that takes them
 *   measure.c  one sample of each kind
 *   summary.c  five-number summaries, the table, JSON
 *   plot.c     box plots as SVG
 *   figures.c  the rows of --figures
 *   state.h    the state that is no argument
 */
#ifndef AMPH_TOOLS_NBMRW_H
#define AMPH_TOOLS_NBMRW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NBMRW_PREFIX "/nbmrw" /* the forwarded prefix; exists nowhere */
#define NBMRW_REPEATS_MAX 101
#define NBMRW_WIDTHS_MAX 8
#define NBMRW_CALL_MAX ((uint64_t)64 << 20)

/* By what way the calls reach the file. */
enum way {
    DIRECT,
    FORWARDED,
    COLLECTED,
    NWAYS
};

enum what {
    WRITE_FRESH,
    WRITE_OVER,
    READ,
    NDATA,
    STAT = NDATA,
    OPEN_CLOSE,
    CREATE,
    UNLINK,
    NWHAT
};

struct options {
    const char *dir; /* where the servers keep the files */
    uint64_t file_from, file_to, call_from, call_to;
    unsigned step; /* sizes grow by this factor */
    unsigned repeats;
    double pause; /* seconds between repeats */
    unsigned servers;
    unsigned widths[NBMRW_WIDTHS_MAX], nwidths; /* of striping; 1: none */
    bool widths_given;
    bool random_order, sequential, data, metadata;
    const char *conduit;
    const char *json, *svg; /* paths, or NULL; "-": standard output */
    bool quick;
    bool figures;      /* only what is to be reached, and whether it is */
    const char *match; /* of those, the rows with this text; or NULL */
    unsigned rank;     /* of this process, in a job of several */
    bool inside;       /* this process takes the measurements */
    unsigned job;      /* of --figures, if inside */
};

/* One measurement: what is done, and its samples. */
struct series {
    enum what what;
    enum way way;
    unsigned width;
    bool random_order;
    bool segment;                    /* the buffer lies in the GASNet segment */
    uint64_t file_bytes, call_bytes; /* 0 for metadata */
    unsigned n;
    double value[NBMRW_REPEATS_MAX]; /* bytes/s, or operations/s for metadata */
};

struct summary {
    double least, q1, median, q3, most;
    double low, high; /* fences: values beyond 1.5 quartile distances are outliers */
    unsigned outliers;
};

extern const char *const nbmrw_way[NWAYS];
extern const char *const nbmrw_what[NWHAT];

/* measure.c: takes one sample; false: an error, which it has said on standard error. */
bool nbmrw_sample(const struct options *o, const struct series *s, double *value_p);
void nbmrw_remove_files(const struct options *o);
double nbmrw_now(void); /* seconds */

/* options.c: ends the process after a wrong option, or after the help. */
void nbmrw_options(struct options *o, int argc, char **argv);

/* plan.c */
void nbmrw_pause(double seconds);
int nbmrw_measure(const struct options *o); /* all measurements; the exit code */

/* figures.c: the jobs that its rows need, and what a process of one does; 0 or 1. */
#define NBMRW_MISSED "missed" /* a file in options.dir: a figure was missed */
enum {
    NBMRW_JOBS = 4
};

struct nbmrw_job {
    const char *procs;
    unsigned servers;
    const char *conduit; /* NULL: as the options say */
    const char *smp;     /* AMPHORA_SMP */
};

extern const struct nbmrw_job nbmrw_jobs[NBMRW_JOBS];
bool nbmrw_figures_some(const char *match); /* is there a row with that text? */
void nbmrw_figures_head(FILE *out);
int nbmrw_figures_inside(struct options *o, unsigned job);

/* summary.c */
struct summary nbmrw_summary(const struct series *s);
void nbmrw_table_head(FILE *out);
/* direct: the same done directly, or NULL. */
void nbmrw_table_row(FILE *out, const struct series *s, const struct series *direct);
void nbmrw_json_row(FILE *out, const struct options *o, const struct series *s,
                    const struct series *direct);

/* plot.c: the panels that the performance page shows.  false: the file cannot be written. */
bool nbmrw_plot(const char *path, const struct series *s, size_t n);

#endif
