/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbmrw: measures file throughput by file size, call size, order and way, in comparison with direct
 * calls on the same file.  This header has the declarations that its files share.
 *
 * Layer: tools.  Thread rule: one thread.  May include: see tools/README.md.
 *
 *   main.c     starting the job
 *   options.c  options and help
 *   plan.c     which measurements there are, and the loop that takes them
 *   measure.c  one sample of each kind
 *   summary.c  five-number summaries, the table, JSON
 *   elsewhere.c  standing servers and other hosts; directories
 *   stream.c   plain TCP streams over the same links
 *   plot.c     the picture as SVG, and its box plots
 *   lines.c    its line charts, by file size and by number of servers
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
#define NBMRW_STREAMS_MAX 8
#define NBMRW_DIR_MAX 4096
#define NBMRW_CALL_MAX ((uint64_t)64 << 20)

/* By what way the calls reach the file. */
enum way {
    DIRECT,
    FORWARDED,
    COLLECTED,
    STREAMS, /* no file: plain TCP connections to the servers' hosts */
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
    const char *dir; /* of direct calls; here the servers keep the files, unless another is given */
    bool dir_given;
    const char *address_file; /* of standing servers, or NULL */
    const char *hosts;        /* a host file of the job, or NULL */
    const char *server_dir;   /* where the servers of --hosts keep the files, or NULL */
    const char *prefix;       /* of the standing servers that is used, or NULL: the first */
    const char *streams;      /* HOST:PORT,... of nbmrw --sink, or NULL */
    unsigned sink;            /* the port of --sink, or 0 */
    uint64_t file_from, file_to, call_from, call_to;
    unsigned step; /* sizes grow by this factor */
    unsigned repeats;
    double pause; /* seconds between repeats */
    unsigned servers;
    unsigned widths[NBMRW_WIDTHS_MAX], nwidths; /* of striping; 1: none */
    bool widths_given;
    bool random_order, sequential;
    unsigned measured; /* a bit for each enum what */
    const char *conduit;
    const char *json, *svg; /* paths, or NULL; "-": standard output */
    const char *caption;    /* printed below the picture, or NULL */
    bool quick;
    bool figures;      /* only what is to be reached, and whether it is */
    const char *match; /* of those, the rows with this text; or NULL */
    unsigned rank;     /* of this process, in a job of several */
    bool inside;       /* this process takes the measurements */
    unsigned job;      /* of --figures, if inside */

    /* The directories of one run.  With servers elsewhere the process inside creates them. */
    const char *direct_dir, *forwarded_dir;
};

/* Are the servers outside the job that nbmrw starts on this host?  Then the forwarded file need not
 * be the one of direct calls, direct calls are measured only in a directory that was given, and the
 * time of a sample includes that of close. */
static inline bool nbmrw_elsewhere(const struct options *o)
{
    return o->address_file || o->hosts;
}

/* One measurement: what is done, and its samples. */
struct series {
    enum what what;
    enum way way;
    unsigned width;
    bool random_order;
    bool segment;                    /* the buffer is in the GASNet segment */
    uint64_t file_bytes, call_bytes; /* 0 for metadata */
    unsigned n;
    double value[NBMRW_REPEATS_MAX]; /* bytes/s, or operations/s for metadata */
};

struct summary {
    double min, q1, median, q3, max;
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

/* elsewhere.c: a new directory below the first `len` characters of parent; false after a message. */
bool nbmrw_make_dir(const char *parent, size_t len, char *dir, size_t size);
void nbmrw_remove_dir(const char *dir); /* with its files */
int nbmrw_measure_elsewhere(struct options *o);

/* stream.c: moves all bytes in pieces; false with errno, or at the end of the connection. */
bool nbmrw_stream_move(int fd, char *buf, uint64_t total, size_t piece, bool sends);
unsigned nbmrw_streams(const char *addresses); /* how many HOST:PORT there are */
bool nbmrw_sample_streams(const struct options *o, const struct series *s, double *value_p);
int nbmrw_sink(unsigned port); /* serves until the process is killed; the exit code */

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
/* limit: what the series is compared with, or NULL. */
void nbmrw_table_row(FILE *out, const struct series *s, const struct series *limit);
void nbmrw_json_row(FILE *out, const struct options *o, const struct series *s,
                    const struct series *limit);

/* lines.c: draws the charts by file size and by number of servers that there is data for, from `top`
 * on, unless out is NULL.  Returns their height. */
int nbmrw_lines(FILE *out, const struct series *s, size_t n, int top);

/* plot.c: a picture of all series.  caption may be NULL.  false: the file cannot be written. */
bool nbmrw_plot(const char *path, const char *caption, const struct series *s, size_t n);

#endif
