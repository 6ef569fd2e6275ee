/* SPDX-License-Identifier: BSD-3-Clause
 *
 * amphora-upcc: compiles UPC programs: the C preprocessor, upcxlate, the C compiler, the linker.
 * man/amphora-upcc.1 has the options.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env_defs.h"
#include "upc-bridge/driver/place.h"

struct list {
    char **v;
    int n, cap;
};

static struct place place;
/* options for: the preprocessor; compiling; linking.  files and -l in order */
static struct list cpp, cc, link_opts, inputs;
static const char *output, *compiler = "gcc", *network = "";
static int threads, servers;
static bool verbose, compile_only, preprocess_only, translate_only, static_link;
static char *work; /* temporary directory */

static void add(struct list *l, char *s)
{
    if (l->n + 1 >= l->cap) {
        l->cap = l->cap * 2 + 16;
        l->v = realloc(l->v, sizeof *l->v * (size_t)l->cap);

        if (l->v == NULL) {
            fputs("amphora-upcc: out of memory\n", stderr);
            exit(2);
        }
    }

    l->v[l->n++] = s;
    l->v[l->n] = NULL;
}

static void add_all(struct list *to, const struct list *from)
{
    for (int i = 0; i < from->n; i++)
        add(to, from->v[i]);
}

static void remove_work(void)
{
    if (work == NULL)
        return;

    static const char *const kinds[] = { "i0", "i", "o", "c" };

    for (int i = -1; i < inputs.n; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            char *f = text("%s/%d.%s", work, i, kinds[k]);

            unlink(f);
            free(f);
        }

    rmdir(work);
}

__attribute__((noreturn)) static void finish(int status)
{
    remove_work();
    exit(status);
}

static void on_signal(int sig)
{
    remove_work();
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Runs a command, which prints its own messages.  If it fails, exits with its exit code. */
static void run(struct list *command)
{
    int status;

    if (verbose) {
        for (int i = 0; i < command->n; i++)
            fprintf(stderr, "%s%s", i ? " " : "", command->v[i]);

        fputc('\n', stderr);
    }

    fflush(NULL);

    pid_t pid = fork();

    if (pid == 0) {
        execvp(command->v[0], command->v);
        fprintf(stderr, "amphora-upcc: %s: %s\n", command->v[0], strerror(errno));
        _exit(127);
    }

    if (pid < 0 || waitpid(pid, &status, 0) < 0) {
        fprintf(stderr, "amphora-upcc: %s: %s\n", command->v[0], strerror(errno));
        finish(2);
    }

    if (status != 0)
        finish(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static bool ends(const char *s, const char *suffix)
{
    size_t n = strlen(s);
    size_t m = strlen(suffix);

    return n > m && strcmp(s + n - m, suffix) == 0;
}

/* prog.upc in any directory -> prog.o here */
static char *named(const char *source, const char *suffix)
{
    const char *base = strrchr(source, '/');

    base = base ? base + 1 : source;
    const char *dot = strrchr(base, '.');

    return text("%.*s%s", dot ? (int)(dot - base) : (int)strlen(base), base, suffix);
}

static void preprocess(const char *source, char *to)
{
    struct list c = { 0 };

    add(&c, (char *)compiler);
    add(&c, "-E");
    add_all(&c, &cpp);
    add(&c, text("-I%s", place.upc_include));
    add(&c, text("-I%s", place.include));
    if (threads)
        add(&c, text("-DUPC_STATIC_THREADS=%d", threads));

    add(&c, "-include");
    add(&c, text("%s/upcx.h", place.upc_include));
    add(&c, "-x");
    add(&c, "c");
    add(&c, (char *)source);

    if (to) {
        add(&c, "-o");
        add(&c, to);
    }

    run(&c);
}

static void translate(char *from, char *to)
{
    struct list c = { 0 };

    add(&c, text("%s/upcxlate", place.bin));
    if (threads) {
        add(&c, "-T");
        add(&c, text("%d", threads));
    }

    add(&c, "-o");
    add(&c, to);
    add(&c, from);
    run(&c);
}

/* source: C after or before its preprocessor */
static void compile(const char *source, const char *language, char *to)
{
    struct list c = { 0 };

    add(&c, (char *)compiler);
    add_all(&c, &cc);

    if (strcmp(language, "c") == 0) {
        add_all(&c, &cpp);
        add(&c, text("-I%s", place.include));
    } else {
        add(&c, "-Wno-unused-value"); /* an assignment's value is there for those who want it */
    }

    add(&c, "-c");
    add(&c, "-x");
    add(&c, (char *)language);
    add(&c, (char *)source);
    add(&c, "-o");
    add(&c, to);
    run(&c);
}

/* What stands behind dependency_libs= in a library's .la file: needed where the library is an
 * archive. */
static void add_dependencies(struct list *c, const char *library)
{
    char *la = text("%s/%s.la", place.lib, library);

    if (!is_file(la)) {
        free(la);
        la = text("%s/%s.la", place.bin, library);
    }

    FILE *f = fopen(la, "r");
    char *line = NULL;
    size_t cap = 0;

    while (f && getline(&line, &cap, f) > 0) {
        if (strncmp(line, "dependency_libs='", 17) != 0)
            continue;

        for (char *w = strtok(line + 17, " '\n"); w; w = strtok(NULL, " '\n"))
            if (!ends(w, ".la"))
                add(c, text("%s", w));
    }

    if (f)
        fclose(f);

    free(line);
    free(la);
}

/* A file of one line that amphora-upcrun finds in the program. */
static char *stamp(void)
{
    char *c = text("%s/-1.c", work);
    char *o = text("%s/-1.o", work);
    FILE *f = fopen(c, "w");

    if (f)
        fprintf(
            f,
            "__attribute__((used)) static const char amphora_upc_stamp[] = \"" PLACE_STAMP_FORMAT
            "\";\n",
            threads, network, servers);

    if (f == NULL || fclose(f) != 0) {
        fprintf(stderr, "amphora-upcc: %s: %s\n", c, strerror(errno));
        finish(2);
    }

    struct list l = { 0 };

    add(&l, (char *)compiler);
    add_all(&l, &cc);
    add(&l, "-w");
    add(&l, "-c");
    add(&l, c);
    add(&l, "-o");
    add(&l, o);
    run(&l);

    return o;
}

static void link_program(struct list *objects)
{
    struct list c = { 0 };
    char *so = text("%s/libamphora-upc.so", place.lib);
    bool archive = static_link || !is_file(so);

    add(&c, (char *)compiler);
    add_all(&c, &cc);
    if (static_link)
        add(&c, "-static");

    add(&c, "-o");
    add(&c, (char *)(output ? output : "a.out"));
    add(&c, stamp());
    add_all(&c, objects);
    add_all(&c, &link_opts);
    add(&c, text("-L%s", place.lib));
    if (!archive)
        add(&c, text("-Wl,-rpath,%s", place.lib));

    add(&c, "-lamphora-upc");
    add(&c, "-liofwd");
    add(&c, "-lamphora");
    if (archive)
        add_dependencies(&c, "libamphora");

    run(&c);
    free(so);
}

/* ---- options ---- */
static const char usage[] =
    "usage: amphora-upcc [OPTIONS] FILE.upc ... [FILE.c FILE.o -lLIB ...]\n\n"
    "Compiles UPC programs for Amphora; amphora-upcrun starts them.\n\n"
    "  -c                   compile, do not link\n"
    "  -o FILE              the output's name\n"
    "  -E                   preprocess only\n"
    "  -trans               translate only: leaves the C in FILE.trans.c\n"
    "  -T N                 for N threads only: THREADS is a constant\n"
    "  -network NAME        what carries the program when nobody chooses at its start:\n"
    "                       " AMPH_CONDUIT_WORDS "\n"
    "  -servers S           how many I/O servers amphora-upcrun starts when it is not told\n"
    "  -static              link everything into the program\n"
    "  -cc COMPILER         the C compiler, instead of gcc\n"
    "  -v                   show the commands\n"
    "  -version, -help\n"
    "  -D -U -I -include -L -l -O -g -W -f -m -std -pthread and the like are the C compiler's\n";

static int number(const char *what, const char *s, int least)
{
    char *e;
    long n = strtol(s, &e, 10);

    if (*s == 0 || *e || n < least || n > 1048576) {
        fprintf(stderr, "amphora-upcc: %s takes a number from %d to 1048576, not '%s'\n", what,
                least, s);
        exit(2);
    }

    return (int)n;
}

static void set_network(const char *s)
{
    size_t len = strlen(s);
    unsigned n = 0;

    for (const char *word = AMPH_CONDUIT_WORDS; *word; word += *word == '|', n++) {
        size_t word_len = strcspn(word, "|");

        if (word_len == len && strncmp(word, s, len) == 0) {
            /* auto, the first word, is what a program does that was built for no network */
            network = n == 0 ? "" : s;
            return;
        }

        word += word_len;
    }

    fprintf(stderr, "amphora-upcc: no network is called '%s'; -network takes %s\n", s,
            AMPH_CONDUIT_WORDS);
    exit(2);
}

static bool own_option(int argc, char **argv, int *i)
{
    const char *a = argv[*i];
    const char *v;

    if ((v = option_value(argc, argv, i, "network")) ||
        (v = option_value(argc, argv, i, "conduit")))
        set_network(v);
    else if ((v = option_value(argc, argv, i, "servers")))
        servers = number("-servers", v, 0);
    else if ((v = option_value(argc, argv, i, "cc")))
        compiler = v;
    else if ((v = option_value(argc, argv, i, "T")) || (v = option_value(argc, argv, i, "threads")))
        threads = number("-T", v, 1);
    else if (strncmp(a, "-T", 2) == 0 && a[2])
        threads = number("-T", a + 2, 1);
    else if (strncmp(a, "-fupc-threads-", 14) == 0 || strncmp(a, "-fupc-threads=", 14) == 0)
        threads = number("-fupc-threads", a + 14, 1);
    else if (strcmp(a, "-trans") == 0 || strcmp(a, "--trans") == 0)
        translate_only = true;
    else if (strcmp(a, "-v") == 0)
        verbose = true;
    else if (strcmp(a, "-help") == 0 || strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0)
        fputs(usage, stdout), exit(0);
    else if (strcmp(a, "-version") == 0 || strcmp(a, "--version") == 0)
        printf("amphora-upcc %s\n", PACKAGE_VERSION), exit(0);
    else
        return false;

    return true;
}

/* -x VALUE or -xVALUE, handed on */
static bool with_value(int argc, char **argv, int *i, const char *name, struct list *to)
{
    size_t n = strlen(name);

    if (strncmp(argv[*i], name, n) != 0)
        return false;

    add(to, argv[*i]);
    if (argv[*i][n])
        return true;

    if (*i + 1 >= argc) {
        fprintf(stderr, "amphora-upcc: %s needs a value\n", name);
        exit(2);
    }

    add(to, argv[++*i]);
    return true;
}

static void compiler_option(int argc, char **argv, int *i)
{
    static const char *const for_cpp[] = { "-D",       "-U",         "-I",      "-include",
                                           "-isystem", "-idirafter", "-iquote", "-imacros" };
    static const char *const for_link[] = { "-L", "-Wl,", "-Xlinker", "-rdynamic" };
    char *a = argv[*i];

    if (strcmp(a, "-o") == 0 || strcmp(a, "-x") == 0) {
        if (*i + 1 >= argc) {
            fprintf(stderr, "amphora-upcc: %s needs a value\n", a);
            exit(2);
        }

        if (a[1] == 'o')
            output = argv[++*i];
        else
            ++*i; /* what a file holds is known by its name */

        return;
    }

    for (size_t k = 0; k < sizeof for_cpp / sizeof *for_cpp; k++)
        if (with_value(argc, argv, i, for_cpp[k], &cpp))
            return;

    for (size_t k = 0; k < sizeof for_link / sizeof *for_link; k++)
        if (strncmp(a, for_link[k], strlen(for_link[k])) == 0) {
            with_value(argc, argv, i, strcmp(a, "-rdynamic") == 0 || a[2] == 'l' ? a : for_link[k],
                       &link_opts);
            return;
        }

    if (strcmp(a, "-c") == 0)
        compile_only = true;
    else if (strcmp(a, "-E") == 0)
        preprocess_only = true;
    else if (strcmp(a, "-static") == 0)
        static_link = true;
    else if (strncmp(a, "-std=", 5) == 0 || strncmp(a, "-O", 2) == 0 ||
             strcmp(a, "-pthread") == 0 || strncmp(a, "-m", 2) == 0 || strncmp(a, "-f", 2) == 0 ||
             strncmp(a, "-g", 2) == 0)
        add(&cpp, a), add(&cc, a); /* these define macros, too */
    else if (strncmp(a, "-W", 2) == 0 || strcmp(a, "-w") == 0 || strncmp(a, "-pipe", 5) == 0 ||
             strncmp(a, "-pedantic", 9) == 0)
        add(&cc, a);
    else {
        fprintf(stderr, "amphora-upcc: unknown option '%s'; see amphora-upcc -help\n", a);
        exit(2);
    }
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *a = argv[i];

        if (a[0] != '-' || a[1] == 0 || strncmp(a, "-l", 2) == 0)
            add(&inputs, a);
        else if (!own_option(argc, argv, &i))
            compiler_option(argc, argv, &i);
    }

    int sources = 0;

    for (int i = 0; i < inputs.n; i++) {
        if (inputs.v[i][0] == '-' && inputs.v[i][1])
            continue;

        sources++;
        if (!is_file(inputs.v[i])) {
            fprintf(stderr, "amphora-upcc: %s: %s\n", inputs.v[i], strerror(errno));
            exit(1);
        }
    }

    if (sources == 0) {
        fputs("amphora-upcc: no files to compile; see amphora-upcc -help\n", stderr);
        exit(2);
    }

    if (output && sources > 1 && (compile_only || preprocess_only || translate_only)) {
        fputs("amphora-upcc: -o names one file, and there are several\n", stderr);
        exit(2);
    }
}

static char *one_file(int i)
{
    char *f = inputs.v[i];
    bool is_upc = ends(f, ".upc");
    bool is_c = ends(f, ".c");
    char *object = compile_only ? (output ? (char *)output : named(f, ".o"))
                                : text("%s/%d.o", work, i);

    if (!is_upc && !is_c)
        return f;

    if (preprocess_only) {
        preprocess(f, (char *)output);
        return f;
    }

    if (is_c) {
        if (!translate_only)
            compile(f, "c", object);

        return object;
    }

    char *pre = text("%s/%d.i0", work, i);
    char *c = translate_only ? (output ? (char *)output : named(f, ".trans.c"))
                             : text("%s/%d.i", work, i);

    preprocess(f, pre);
    translate(pre, c);
    if (!translate_only)
        compile(c, "cpp-output", object);

    return object;
}

int main(int argc, char **argv)
{
    struct list objects = { 0 };
    char dir[] = "/tmp/amphora-upcc.XXXXXX";

    read_options(argc, argv);
    if (!place_find(&place, "amphora-upcc"))
        return 2;

    work = mkdtemp(dir);
    if (work == NULL) {
        fprintf(stderr, "amphora-upcc: %s: %s\n", dir, strerror(errno));
        return 2;
    }

    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    for (int i = 0; i < inputs.n; i++)
        add(&objects, one_file(i));

    if (!compile_only && !preprocess_only && !translate_only)
        link_program(&objects);

    finish(0);
}
