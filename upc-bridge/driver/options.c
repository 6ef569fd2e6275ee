/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See options.h.
 *
 * Layer: upc-bridge/driver.  Thread rule: one thread.
 */
#include "upc-bridge/driver/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings/env_defs.h"
#include "upc-bridge/driver/place.h"

static const char usage[] =
    "usage: amphora-upcc [OPTIONS] FILE.upc ... [FILE.c FILE.o -lLIB ...]\n\n"
    "Compiles UPC programs for Amphora; amphora-upcrun starts them.\n\n"
    "  -c                   compile, do not link\n"
    "  -S                   compile to assembly\n"
    "  -o FILE              the output's name\n"
    "  -E                   preprocess only\n"
    "  -trans               translate only: leaves the C in FILE.trans.c\n"
    "  -x upc, -x c         the language of the files that follow; -x none: by their names\n"
    "  -T N                 for N threads only: THREADS is a constant\n"
    "  -network NAME        what carries the program when nobody chooses at its start:\n"
    "                       " AMPH_CONDUIT_WORDS "\n"
    "  -servers S           how many I/O servers amphora-upcrun starts when it is not told\n"
    "  -static              link everything into the program\n"
    "  -save-temps          keep the files between the steps\n"
    "  -cc COMPILER         the C compiler, instead of gcc\n"
    "  -link-with COMMAND   link by this command, instead of the C compiler\n"
    "  -Wc,OPTION,...       options for compiling the translated C\n"
    "  -v                   show the commands\n"
    "  -version, -help\n"
    "Other options are the C compiler's.  A .c file is compiled as UPC if it contains UPC.\n";

/* ---- lists ---- */
void upcc_list_add(struct list *l, const char *s)
{
    if (l->n + 1 >= l->cap) {
        l->cap = l->cap * 2 + 16;
        l->v = realloc(l->v, sizeof *l->v * (size_t)l->cap);

        if (l->v == NULL) {
            fputs("amphora-upcc: out of memory\n", stderr);
            exit(2);
        }
    }

    l->v[l->n++] = (char *)s;
    l->v[l->n] = NULL;
}

void upcc_list_add_all(struct list *to, const struct list *from)
{
    for (int i = 0; i < from->n; i++)
        upcc_list_add(to, from->v[i]);
}

bool upcc_ends_in(const char *s, const char *suffix)
{
    size_t n = strlen(s);
    size_t m = strlen(suffix);

    return n > m && strcmp(s + n - m, suffix) == 0;
}

__attribute__((noreturn, format(printf, 1, 2))) static void wrong(const char *fmt, ...)
{
    va_list ap;

    fputs("amphora-upcc: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(2);
}

/* Returns the argument after the option argv[*i], and advances *i to it. */
static const char *next_argument(int argc, char **argv, int *i)
{
    if (*i + 1 >= argc)
        wrong("%s needs a value", argv[*i]);

    return argv[++*i];
}

/* ---- input files ---- */
static enum language language_by_name(const char *file)
{
    static const struct {
        const char *suffix;
        enum language language;
    } table[] = {
        { ".upc", LANGUAGE_UPC },    { ".upci", LANGUAGE_UPC_PREPROCESSED },
        { ".c", LANGUAGE_C_OR_UPC }, { ".i", LANGUAGE_OTHER },
        { ".s", LANGUAGE_OTHER },    { ".S", LANGUAGE_OTHER },
        { ".sx", LANGUAGE_OTHER },   { ".C", LANGUAGE_OTHER },
        { ".cc", LANGUAGE_OTHER },   { ".cp", LANGUAGE_OTHER },
        { ".cxx", LANGUAGE_OTHER },  { ".cpp", LANGUAGE_OTHER },
        { ".CPP", LANGUAGE_OTHER },  { ".c++", LANGUAGE_OTHER },
        { ".f", LANGUAGE_OTHER },    { ".F", LANGUAGE_OTHER },
        { ".f90", LANGUAGE_OTHER },  { ".F90", LANGUAGE_OTHER },
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (upcc_ends_in(file, table[i].suffix))
            return table[i].language;

    return LANGUAGE_LINKER;
}

static void add_input(struct options *o, struct input in)
{
    o->inputs = realloc(o->inputs, sizeof *o->inputs * (size_t)(o->ninputs + 1));
    if (o->inputs == NULL)
        wrong("out of memory");

    o->inputs[o->ninputs++] = in;
    o->nsources += in.language != LANGUAGE_LINKER;
}

/* language: of -x, or NULL */
static void add_file(struct options *o, const char *file, const char *language)
{
    struct input in = { .text = file, .is_file = true };

    if (language == NULL)
        in.language = language_by_name(file);
    else if (strcmp(language, "upc") == 0)
        in.language = LANGUAGE_UPC;
    else if (strcmp(language, "c") == 0)
        in.language = LANGUAGE_C;
    else {
        in.language = LANGUAGE_OTHER;
        in.gcc_language = language;
    }

    if (strcmp(file, "-") == 0 && language == NULL) {
        if (o->product != PRODUCT_TEXT)
            wrong("-x says what language the standard input is in: -x upc or -x c");

        in.language = LANGUAGE_UPC;
    }

    add_input(o, in);
}

static void add_linker_option(struct options *o, const char *text)
{
    add_input(o, (struct input){ .text = text });
}

/* ---- options of amphora-upcc ---- */
enum {
    NUMBER_MAX = 1048576,
    PACKED_THREADS_MAX = 1024 /* UPC_PACKED_THREAD_BITS of amphora/upc/pts.h */
};

static int number(const char *what, const char *s, int min)
{
    char *e;
    long n = strtol(s, &e, 10);

    if (*s == 0 || *e || n < min || n > NUMBER_MAX)
        wrong("%s takes a number from %d to %d, not '%s'", what, min, NUMBER_MAX, s);

    return (int)n;
}

/* Do pointers-to-shared have 16 bytes? */
static bool is_struct_form(const struct options *o)
{
    static const char macro[] = "UPC_PTS_STRUCT";

    for (int i = 0; i < o->cpp.n; i++) {
        const char *word = o->cpp.v[i];

        if (strncmp(word, "-D", 2) == 0)
            word += 2;
        else if (i == 0 || strcmp(o->cpp.v[i - 1], "-D") != 0)
            continue;

        if (strncmp(word, macro, sizeof macro - 1) == 0 && strchr("=", word[sizeof macro - 1]))
            return true;
    }

    return false;
}

static void check_threads(const struct options *o)
{
    if (o->threads > PACKED_THREADS_MAX && !is_struct_form(o))
        wrong("-T %d: there can be %d threads; with -DUPC_PTS_STRUCT, whose pointers-to-shared "
              "have 16 bytes, %d",
              o->threads, PACKED_THREADS_MAX, NUMBER_MAX);
}

/* Is it a word of "one|two|three"? */
static bool word_of(const char *words, const char *s)
{
    size_t len = strlen(s);

    for (const char *w = words; *w; w += *w == '|') {
        size_t n = strcspn(w, "|");

        if (n == len && strncmp(w, s, n) == 0)
            return true;

        w += n;
    }

    return false;
}

static void set_network(struct options *o, const char *s, struct list *ignored)
{
    static const char elsewhere[] = "mpi|ofi|ucx|aries|gemini|psm|mxm|pami|portals4|gm|elan|lapi";

    if (strcmp(s, "auto") == 0)
        o->network = ""; /* none is stored in the program, so the choice is made at its start */
    else if (strcmp(s, "ibv") == 0)
        o->network = "verbs";
    else if (word_of(AMPH_CONDUIT_WORDS, s))
        o->network = s;
    else if (word_of(elsewhere, s))
        upcc_list_add(ignored, upcc_text("-network=%s", s));
    else
        wrong("no network is called '%s'; -network takes %s", s, AMPH_CONDUIT_WORDS);
}

/* -Wc,a,b */
static void add_compiler_words(struct options *o, const char *words)
{
    char *copy = upcc_text("%s", words);

    for (char *w = strtok(copy, ","); w; w = strtok(NULL, ",")) {
        upcc_list_add(&o->cc, w);
        upcc_list_add(&o->c, w);
    }
}

static bool own_option(struct options *o, int argc, char **argv, int *i, struct list *ignored)
{
    const char *a = argv[*i];
    const char *v;

    if ((v = upcc_option_value(argc, argv, i, "network")) ||
        (v = upcc_option_value(argc, argv, i, "conduit")))
        set_network(o, v, ignored);
    else if ((v = upcc_option_value(argc, argv, i, "servers")))
        o->servers = number("-servers", v, 0);
    else if ((v = upcc_option_value(argc, argv, i, "cc")))
        o->compiler = v;
    else if ((v = upcc_option_value(argc, argv, i, "link-with")))
        o->linker = v;
    else if ((v = upcc_option_value(argc, argv, i, "T")) ||
             (v = upcc_option_value(argc, argv, i, "threads")))
        o->threads = number("-T", v, 1);
    else if (strncmp(a, "-T", 2) == 0 && a[2])
        o->threads = number("-T", a + 2, 1);
    else if (strncmp(a, "-fupc-threads-", 14) == 0 || strncmp(a, "-fupc-threads=", 14) == 0)
        o->threads = number("-fupc-threads", a + 14, 1);
    else if (strncmp(a, "-Wc,", 4) == 0)
        add_compiler_words(o, a + 4);
    else if (strcmp(a, "-trans") == 0 || strcmp(a, "--trans") == 0)
        o->product = PRODUCT_TRANSLATION;
    else if (strncmp(a, "-save-temps", 11) == 0 || strcmp(a, "-save-all-temps") == 0)
        o->save_temps = true;
    else if (strcmp(a, "-v") == 0 || strcmp(a, "-vv") == 0)
        o->verbose = true;
    else if (strcmp(a, "-help") == 0 || strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0)
        fputs(usage, stdout), exit(0);
    else if (strcmp(a, "-version") == 0 || strcmp(a, "--version") == 0)
        printf("amphora-upcc %s\n", PACKAGE_VERSION), exit(0);
    else
        return false;

    return true;
}

/* Options of Berkeley's upcc and GNU's upc that have no effect here.  Those that end in '=' take a
 * value; "*" stands for any text. */
static const char *const foreign[] = {
    "-opt",          "-lines",      "-nolines",      "-pthreads",     "-pthreads=*", "-nopthreads",
    "-shared-heap=", "-uses-mpi",   "-uses-threads", "-inst",         "-inst-*",     "-trace",
    "-stats",        "-show-sizes", "-size-warn",    "-require-size", "-bupc",       "-gupc",
    "-cupc",         "-cupc2c",     "-translator=",  "-conf=",        "-norc",       "-link-cache",
    "-nolink-cache", "-Ww,*",       "-dwarf-2-upc",  "-fupc-*",       "-fno-upc-*",  NULL,
};

static bool matches(const char *pattern, const char *a)
{
    size_t n = strlen(pattern);

    if (pattern[n - 1] == '*')
        return strncmp(a, pattern, n - 1) == 0;

    return strcmp(a, pattern) == 0;
}

/* Handles an option of another UPC compiler, which has no effect here. */
static bool foreign_option(int argc, char **argv, int *i, struct list *ignored)
{
    const char *a = argv[*i];

    if (strncmp(a, "--", 2) == 0)
        a++;

    if (strcmp(a, "-extern-main") == 0)
        wrong("-extern-main: main must be UPC here; compile its file with -x upc");

    for (size_t k = 0; foreign[k]; k++) {
        size_t n = strlen(foreign[k]);

        if (foreign[k][n - 1] != '=') {
            if (!matches(foreign[k], a))
                continue;

            upcc_list_add(ignored, argv[*i]);
            return true;
        }

        char *name = upcc_text("%.*s", (int)n - 2, foreign[k] + 1);
        const char *shown = argv[*i];
        const char *v = upcc_option_value(argc, argv, i, name);

        free(name);
        if (v) {
            upcc_list_add(ignored, shown);
            return true;
        }
    }

    return false;
}

/* ---- options of the C compiler ---- */
enum {
    CPP = 1,
    CC = 2,
    LINK = 4,
    TEXT = 8
};

enum form {
    ALONE,  /* the word alone */
    PREFIX, /* all words with this beginning */
    VALUE,  /* the word, and its value in the next argument */
    JOINED  /* the word, and its value in the same or the next argument */
};

static const struct {
    const char *name;
    enum form form;
    int steps;
} compiler_options[] = {
    /* clang-format off */
    { "-D", JOINED, CPP },          { "-U", JOINED, CPP },              { "-I", JOINED, CPP },
    { "-A", JOINED, CPP },          { "-include", VALUE, CPP },         { "-imacros", VALUE, CPP },
    { "-isystem", JOINED, CPP },    { "-idirafter", JOINED, CPP },      { "-iquote", JOINED, CPP },
    { "-iprefix", JOINED, CPP },    { "-iwithprefix", VALUE, CPP },     { "-iwithprefixbefore", VALUE, CPP },
    { "-undef", ALONE, CPP },        { "-isysroot", JOINED, CPP },   { "-imultilib", VALUE, CPP },       { "-Wp,", PREFIX, CPP },
    { "-Xpreprocessor", VALUE, CPP },
    { "-C", ALONE, TEXT },          { "-CC", ALONE, TEXT },             { "-P", ALONE, TEXT },
    { "-dM", ALONE, TEXT },         { "-dD", ALONE, TEXT },             { "-dN", ALONE, TEXT },
    { "-dI", ALONE, TEXT },         { "-dU", ALONE, TEXT },             { "-fdirectives-only", ALONE, TEXT },
    { "-MG", ALONE, TEXT },
    { "-Wa,", PREFIX, CC },         { "-Xassembler", VALUE, CC },       { "-aux-info", VALUE, CC },
    { "-L", JOINED, LINK },         { "-l", JOINED, LINK },             { "-Wl,", PREFIX, LINK },
    { "-Xlinker", VALUE, LINK },    { "-z", JOINED, LINK },             { "-u", JOINED, LINK },
    { "-e", VALUE, LINK },          { "-R", JOINED, LINK },             { "-rdynamic", ALONE, LINK },
    { "-s", ALONE, LINK },          { "-t", ALONE, LINK },              { "-r", ALONE, LINK },
    { "-shared", ALONE, LINK },     { "-pie", ALONE, LINK },            { "-static-", PREFIX, LINK },
    { "-shared-libgcc", ALONE, LINK }, { "-symbolic", ALONE, LINK },    { "-nostartfiles", ALONE, LINK },
    { "-nodefaultlibs", ALONE, LINK }, { "-nostdlib", ALONE, LINK },    { "-nolibc", ALONE, LINK },
    { "-W", PREFIX, CPP | CC },     { "-w", ALONE, CPP | CC },          { "-pedantic", PREFIX, CPP | CC },
    { "-B", JOINED, CPP | CC | LINK },      { "--param", VALUE, CPP | CC | LINK },
    { "-wrapper", VALUE, CPP | CC | LINK }, { "-specs", VALUE, CPP | CC | LINK },
    { "--sysroot", VALUE, CPP | CC | LINK },
    { "-target", VALUE, CPP | CC | LINK },  { "-Xclang", VALUE, CPP | CC }, { "-mllvm", VALUE, CC },
    /* clang-format on */
};

static void to_steps(struct options *o, int steps, const char *argument)
{
    if (steps & CPP)
        upcc_list_add(&o->cpp, argument);

    if (steps & CC)
        upcc_list_add(&o->cc, argument);

    if (steps & (CPP | CC))
        upcc_list_add(&o->c, argument);

    if (steps & LINK)
        add_linker_option(o, argument);

    if (steps & TEXT)
        upcc_list_add(&o->text_only, argument);
}

/* Is a the option compiler_options[k]?  *more_p: its value is the next argument. */
static bool is_option(size_t k, const char *a, bool *more_p)
{
    const char *name = compiler_options[k].name;
    size_t n = strlen(name);

    *more_p = false;
    switch (compiler_options[k].form) {
    case ALONE:
        return strcmp(a, name) == 0;
    case PREFIX:
        return strncmp(a, name, n) == 0;
    case VALUE:
        *more_p = true;
        return strcmp(a, name) == 0;
    case JOINED:
        *more_p = a[n] == 0;
        return strncmp(a, name, n) == 0;
    }

    return false;
}

/* Handles -M and its relatives.  true: it was one of them. */
static bool depend_option(struct options *o, int argc, char **argv, int *i)
{
    const char *a = argv[*i];

    if (strcmp(a, "-M") == 0 || strcmp(a, "-MM") == 0) {
        o->product = PRODUCT_TEXT;
        upcc_list_add(&o->text_only, a);
    } else if (strcmp(a, "-MD") == 0 || strcmp(a, "-MMD") == 0) {
        o->depend = a;
    } else if (strcmp(a, "-MP") == 0) {
        upcc_list_add(&o->depend_args, a);
    } else if (strncmp(a, "-MF", 3) == 0) {
        o->depend_file = a[3] ? a + 3 : next_argument(argc, argv, i);
    } else if (strncmp(a, "-MT", 3) == 0 || strncmp(a, "-MQ", 3) == 0) {
        upcc_list_add(&o->depend_args, a);
        o->depend_target = true;
        if (a[3] == 0)
            upcc_list_add(&o->depend_args, next_argument(argc, argv, i));
    } else {
        return false;
    }

    return true;
}

/* Handles the options that choose the product. */
static bool product_option(struct options *o, int argc, char **argv, int *i)
{
    const char *a = argv[*i];

    if (strcmp(a, "-c") == 0)
        o->product = o->product == PRODUCT_PROGRAM ? PRODUCT_OBJECTS : o->product;
    else if (strcmp(a, "-S") == 0)
        o->product = PRODUCT_ASSEMBLY;
    else if (strcmp(a, "-E") == 0)
        o->product = PRODUCT_TEXT, upcc_list_add(&o->text_only, a);
    else if (strcmp(a, "-fsyntax-only") == 0)
        o->product = PRODUCT_NOTHING;
    else if (strcmp(a, "-static") == 0)
        o->static_link = true;
    else if (strcmp(a, "-o") == 0)
        o->output = next_argument(argc, argv, i);
    else if (strncmp(a, "-o", 2) == 0)
        o->output = a + 2;
    else
        return false;

    return true;
}

static void compiler_option(struct options *o, int argc, char **argv, int *i)
{
    const char *a = argv[*i];
    bool more;

    if (depend_option(o, argc, argv, i) || product_option(o, argc, argv, i))
        return;

    for (size_t k = 0; k < sizeof compiler_options / sizeof *compiler_options; k++) {
        if (!is_option(k, a, &more))
            continue;

        to_steps(o, compiler_options[k].steps, a);
        if (more)
            to_steps(o, compiler_options[k].steps, next_argument(argc, argv, i));

        return;
    }

    /* other options go to the compiler, which reports unknown ones */
    to_steps(o, CPP | CC | LINK, a);
}

/* -dumpmachine and its like are answered by the compiler. */
static void answer_question(const struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "-dump", 5) == 0 || strncmp(argv[i], "-print-", 7) == 0) {
            struct list c = { 0 };

            upcc_list_add(&c, o->compiler);
            for (int k = 1; k < argc; k++)
                upcc_list_add(&c, argv[k]);

            execvp(c.v[0], c.v);
            wrong("%s: %s", c.v[0], strerror(errno));
        }
}

static void check(const struct options *o)
{
    int files = 0;

    for (int i = 0; i < o->ninputs; i++) {
        const struct input *in = &o->inputs[i];

        if (!in->is_file)
            continue;

        files++;
        if (strcmp(in->text, "-") != 0 && !upcc_is_file(in->text)) {
            fprintf(stderr, "amphora-upcc: %s: %s\n", in->text, strerror(errno));
            exit(1);
        }

        if (in->language == LANGUAGE_LINKER && o->product != PRODUCT_PROGRAM)
            fprintf(stderr, "amphora-upcc: %s is not used, because nothing is linked\n", in->text);
    }

    if (files == 0)
        wrong("no files to compile; see amphora-upcc -help");

    if (o->output && o->nsources > 1 && o->product != PRODUCT_PROGRAM)
        wrong("-o names one file, and there are several");

    if (o->depend_file && o->nsources > 1 && o->depend)
        wrong("-MF names one file, and there are several");
}

void upcc_options_read(struct options *o, int argc, char **argv)
{
    struct list ignored = { 0 };
    const char *language = NULL;

    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];

        if (a[0] != '-' || a[1] == 0)
            add_file(o, a, language);
        else if (strncmp(a, "-x", 2) == 0) {
            language = a[2] ? a + 2 : next_argument(argc, argv, &i);
            if (strcmp(language, "none") == 0)
                language = NULL;
        } else if (!own_option(o, argc, argv, &i, &ignored) &&
                   !foreign_option(argc, argv, &i, &ignored))
            compiler_option(o, argc, argv, &i);
    }

    if (o->nsources == 0)
        answer_question(o, argc, argv);

    check_threads(o);
    check(o);
    if (ignored.n == 0)
        return;

    fputs("amphora-upcc: without effect here:", stderr);
    for (int i = 0; i < ignored.n; i++)
        fprintf(stderr, " %s", ignored.v[i]);

    fputc('\n', stderr);
}
