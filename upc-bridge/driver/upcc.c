/* SPDX-License-Identifier: BSD-3-Clause
 *
 * amphora-upcc: compiles UPC programs: the C preprocessor, upcxlate, the C compiler, the linker.
 * man/amphora-upcc.1 has the options.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stdout_check.h"

#include "upc-bridge/driver/language.h"
#include "upc-bridge/driver/options.h"
#include "upc-bridge/driver/place.h"

static struct place place;
static struct options options = { .compiler = "gcc", .network = "" };
static char *work; /* temporary directory */

static void remove_work(void)
{
    if (work == NULL)
        return;

    static const char *const kinds[] = { "i0", "i", "o", "c", "messages" };

    for (int i = -1; i < options.ninputs; i++)
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

/* Runs a command; returns its exit code.  quiet: the file that takes its messages, or NULL. */
static int run_status(struct list *command, const char *quiet)
{
    int status;

    if (options.verbose) {
        for (int i = 0; i < command->n; i++)
            fprintf(stderr, "%s%s", i ? " " : "", command->v[i]);

        fputc('\n', stderr);
    }

    fflush(NULL);

    pid_t pid = fork();

    if (pid == 0) {
        int fd = quiet ? open(quiet, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;

        if (fd >= 0)
            dup2(fd, 2);

        execvp(command->v[0], command->v);
        fprintf(stderr, "amphora-upcc: %s: %s\n", command->v[0], strerror(errno));
        _exit(127);
    }

    if (pid < 0 || waitpid(pid, &status, 0) < 0) {
        fprintf(stderr, "amphora-upcc: %s: %s\n", command->v[0], strerror(errno));
        finish(2);
    }

    if (status == 0)
        return 0;

    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Runs a command, which prints its own messages.  If it fails, exits with its exit code. */
static void run(struct list *command)
{
    int status = run_status(command, NULL);

    if (status != 0)
        finish(status);
}

/* prog.upc in any directory -> prog.o here */
static char *named(const char *source, const char *suffix)
{
    const char *base = strrchr(source, '/');

    base = base ? base + 1 : source;

    const char *dot = strrchr(base, '.');

    return text("%.*s%s", dot ? (int)(dot - base) : (int)strlen(base), base, suffix);
}

/* dir/file.o -> dir/file.d */
static char *resuffixed(const char *file, const char *suffix)
{
    const char *slash = strrchr(file, '/');
    const char *dot = strrchr(file, '.');

    if (dot && slash && dot < slash)
        dot = NULL;

    return text("%.*s%s", dot ? (int)(dot - file) : (int)strlen(file), file, suffix);
}

/* ---- dependencies: -MD and -MMD, named as the compiler would if it saw all steps ---- */

/* Where the rule of this source goes. */
static char *depend_file(const char *source)
{
    if (options.depend_file)
        return text("%s", options.depend_file);

    if (options.product != PRODUCT_PROGRAM)
        return options.output ? resuffixed(options.output, ".d") : named(source, ".d");

    if (options.output && options.nsources == 1)
        return resuffixed(options.output, ".d");

    return text("%s-%s", options.output ? options.output : "a", named(source, ".d"));
}

/* What the rule makes. */
static char *depend_target(const char *source)
{
    if (options.product == PRODUCT_ASSEMBLY && !options.output)
        return named(source, ".s");

    return options.output ? text("%s", options.output) : named(source, ".o");
}

static void add_depend(struct list *c, const char *source)
{
    if (options.depend == NULL)
        return;

    list_add(c, options.depend);
    list_add(c, "-MF");
    list_add(c, depend_file(source));
    list_add_all(c, &options.depend_args);

    if (!options.depend_target) {
        list_add(c, "-MQ");
        list_add(c, depend_target(source));
    }
}

/* ---- steps ---- */

/* The preprocessor's command up to the options that differ: for UPC, or for C. */
static void add_preprocessor(struct list *c, bool upc)
{
    list_add(c, options.compiler);
    if (!upc) {
        list_add_all(c, &options.c);
        list_add(c, text("-I%s", place.include));
        return;
    }

    /* First of what is included: the program's own -include may bring upc.h. */
    list_add(c, "-include");
    list_add(c, text("%s/upcx.h", place.upc_include));

    list_add_all(c, &options.cpp);
    list_add(c, text("-I%s", place.upc_include));
    list_add(c, text("-I%s", place.include));
    if (options.threads)
        list_add(c, text("-DUPC_STATIC_THREADS=%d", options.threads));
}

/* Returns the preprocessor's exit code.  quiet: the file that takes its messages, or NULL. */
static int preprocess(const char *source, bool upc, const char *to, const char *quiet)
{
    struct list c = { 0 };

    add_preprocessor(&c, upc);
    list_add(&c, "-E");
    add_depend(&c, source);
    list_add(&c, "-x");
    list_add(&c, "c");
    list_add(&c, source);
    list_add(&c, "-o");
    list_add(&c, to);

    return run_status(&c, quiet);
}

/* The language for the C compiler, where the name of the file does not say it. */
static void add_language(struct list *c, const struct input *in)
{
    const char *language = in->gcc_language ? in->gcc_language : "c";

    if (in->language == LANGUAGE_OTHER && !in->gcc_language)
        return;

    list_add(c, "-x");
    list_add(c, language);
}

/* -E, -M and -MM: what the preprocessor prints is the product. */
static void print_text(const struct input *in, bool upc)
{
    struct list c = { 0 };

    add_preprocessor(&c, upc);
    list_add_all(&c, &options.text_only);
    if (options.depend)
        list_add(&c, options.depend);

    if (options.depend_file) {
        list_add(&c, "-MF");
        list_add(&c, options.depend_file);
    }

    list_add_all(&c, &options.depend_args);
    add_language(&c, in);
    list_add(&c, in->text);

    if (options.output) {
        list_add(&c, "-o");
        list_add(&c, options.output);
    }

    run(&c);
}

static void translate(const char *from, const char *to)
{
    struct list c = { 0 };

    list_add(&c, text("%s/upcxlate", place.bin));
    if (options.threads) {
        list_add(&c, "-T");
        list_add(&c, text("%d", options.threads));
    }

    list_add(&c, "-o");
    list_add(&c, to);
    list_add(&c, from);
    run(&c);
}

/* Adds what the compiler makes, and where. */
static void add_product(struct list *c, const char *to)
{
    if (options.product == PRODUCT_NOTHING) {
        list_add(c, "-fsyntax-only");
        return;
    }

    list_add(c, options.product == PRODUCT_ASSEMBLY || ends_in(to, ".s") ? "-S" : "-c");
    list_add(c, "-o");
    list_add(c, to);
}

/* C that has been preprocessed. */
static void compile(const char *from, const char *to)
{
    struct list c = { 0 };

    list_add(&c, options.compiler);
    list_add_all(&c, &options.cc);
    list_add(&c, "-Wno-unused-value"); /* an assignment's value is there for those who want it */
    list_add(&c, "-x");
    list_add(&c, "cpp-output");
    list_add(&c, from);
    add_product(&c, to);
    run(&c);
}

/* -save-temps: by way of an assembly file that stays. */
static void compile_by_assembly(const char *source, const char *from, const char *to)
{
    char *assembly = options.product == PRODUCT_ASSEMBLY ? text("%s", to) : named(source, ".s");

    compile(from, assembly);
    if (options.product == PRODUCT_ASSEMBLY || options.product == PRODUCT_NOTHING)
        return;

    struct list c = { 0 };

    list_add(&c, options.compiler);
    list_add_all(&c, &options.cc);
    list_add(&c, assembly);
    add_product(&c, to);
    run(&c);
}

/* A file that is the C compiler's alone. */
static void compile_other(const struct input *in, const char *to)
{
    struct list c = { 0 };

    add_preprocessor(&c, false);
    if (in->language != LANGUAGE_OTHER)
        add_depend(&c, in->text);

    add_language(&c, in);
    list_add(&c, in->text);
    add_product(&c, to);
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
            if (!ends_in(w, ".la"))
                list_add(c, text("%s", w));
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
            options.threads, options.network, options.servers);

    if (f == NULL || fclose(f) != 0) {
        fprintf(stderr, "amphora-upcc: %s: %s\n", c, strerror(errno));
        finish(2);
    }

    struct list l = { 0 };

    list_add(&l, options.compiler);
    list_add_all(&l, &options.cc);
    list_add(&l, "-w");
    list_add(&l, "-c");
    list_add(&l, c);
    list_add(&l, "-o");
    list_add(&l, o);
    run(&l);

    return o;
}

/* The linker's files and options in the order of the command line. */
static void link_program(const struct list *inputs)
{
    struct list c = { 0 };
    char *so = text("%s/libamphora-upc.so", place.lib);
    bool archive = options.static_link || !is_file(so);
    char *linker = text("%s", options.linker ? options.linker : options.compiler);

    for (char *w = strtok(linker, " "); w; w = strtok(NULL, " "))
        list_add(&c, w);

    list_add_all(&c, &options.cc);
    if (options.static_link)
        list_add(&c, "-static");

    list_add(&c, "-o");
    list_add(&c, options.output ? options.output : "a.out");
    list_add(&c, stamp());
    list_add_all(&c, inputs);
    list_add(&c, text("-L%s", place.lib));
    if (!archive)
        list_add(&c, text("-Wl,-rpath,%s", place.lib));

    list_add(&c, "-lamphora-upc");
    list_add(&c, "-liofwd");
    list_add(&c, "-lamphora");
    if (archive)
        add_dependencies(&c, "libamphora");

    run(&c);
    free(so);
}

/* ---- one source ---- */

static void print_file(const char *file)
{
    FILE *f = fopen(file, "r");

    for (int ch; f && (ch = getc(f)) != EOF;)
        fputc(ch, stderr);

    if (f)
        fclose(f);
}

/* A .c file: preprocesses it as UPC into `to` and looks.  Of a C file the messages of this attempt
 * are dropped: the compiler will print its own. */
static bool holds_upc(int i, const char *to)
{
    char *messages = text("%s/%d.messages", work, i);
    int status = preprocess(options.inputs[i].text, true, to, messages);
    bool upc = status == 0 && language_is_upc(to, place.upc_include);

    if (upc)
        print_file(messages);

    free(messages);
    return upc;
}

/* Where the product of input i goes. */
static char *product_of(int i)
{
    const char *suffix = options.product == PRODUCT_ASSEMBLY ? ".s" : ".o";

    if (options.product == PRODUCT_PROGRAM || options.product == PRODUCT_NOTHING)
        return text("%s/%d.o", work, i);

    return options.output ? text("%s", options.output) : named(options.inputs[i].text, suffix);
}

/* Translates and compiles; pre holds the preprocessed text. */
static void build_upc(int i, const char *pre, const char *product)
{
    const char *source = options.inputs[i].text;
    bool only = options.product == PRODUCT_TRANSLATION;
    char *c = text("%s/%d.i", work, i);

    if (only && options.output)
        c = text("%s", options.output);
    else if (only || options.save_temps)
        c = named(source, ".trans.c");

    translate(pre, c);

    if (only)
        return;

    if (options.save_temps)
        compile_by_assembly(source, c, product);
    else
        compile(c, product);
}

/* UPC or C of which the preprocessor's output stays: -save-temps. */
static void preprocess_or_end(const char *source, bool upc, const char *to)
{
    int status = preprocess(source, upc, to, NULL);

    if (status != 0)
        finish(status);
}

/* Makes what input i is to become; returns what the linker gets for it. */
static const char *build(int i)
{
    const struct input *in = &options.inputs[i];

    if (in->language == LANGUAGE_LINKER)
        return in->text;

    bool keep = options.save_temps && options.product != PRODUCT_TEXT;
    char *pre = keep ? named(in->text, ".i") : text("%s/%d.i0", work, i);
    char *product = product_of(i);
    bool upc = in->language == LANGUAGE_UPC ||
               (in->language == LANGUAGE_C_OR_UPC && holds_upc(i, pre));

    if (options.product == PRODUCT_TEXT) {
        print_text(in, upc);
    } else if (in->language == LANGUAGE_UPC_PREPROCESSED) {
        build_upc(i, in->text, product);
    } else if (upc) {
        if (in->language == LANGUAGE_UPC)
            preprocess_or_end(in->text, true, pre);

        build_upc(i, pre, product);
    } else if (options.product == PRODUCT_TRANSLATION) {
        fprintf(stderr, "amphora-upcc: %s contains no UPC; there is nothing to translate\n",
                in->text);
    } else if (keep && in->language != LANGUAGE_OTHER) {
        preprocess_or_end(in->text, false, pre);
        compile_by_assembly(in->text, pre, product);
    } else {
        compile_other(in, product);
    }

    return product;
}

int main(int argc, char **argv)
{
    struct list products = { 0 };
    char dir[] = "/tmp/amphora-upcc.XXXXXX";

    amph_stdout_check();

    options_read(&options, argc, argv);
    if (!place_find(&place, "amphora-upcc"))
        return 2;

    work = mkdtemp(dir);
    if (work == NULL) {
        fprintf(stderr, "amphora-upcc: %s: %s\n", dir, strerror(errno));
        return 2;
    }

    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    for (int i = 0; i < options.ninputs; i++)
        list_add(&products, build(i));

    if (options.product == PRODUCT_PROGRAM)
        link_program(&products);

    finish(0);
}
