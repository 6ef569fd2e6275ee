/* SPDX-License-Identifier: BSD-3-Clause
 *
 * amphora-upcc: compiles UPC programs: the C preprocessor, upcxlate, the C compiler, the linker.
 * man/amphora-upcc.1 has the options.
 *
 * Layer: upc-bridge/driver.  Thread rule: one thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/program/stdout_check.h"

#include "upc-bridge/driver/language.h"
#include "upc-bridge/driver/options.h"
#include "upc-bridge/driver/place.h"

/* Written before the first command runs; the signal handler reads it, too. */
static struct {
    struct place place;
    struct options options;
    char *work; /* temporary directory, or NULL */
} state = { .options = { .compiler = "gcc", .network = "" } };

static void remove_work(void)
{
    if (state.work == NULL)
        return;

    static const char *const kinds[] = { "i0", "i", "o", "c", "messages" };

    for (int i = -1; i < state.options.ninputs; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            char *f = upcc_text("%s/%d.%s", state.work, i, kinds[k]);

            unlink(f);
            free(f);
        }

    rmdir(state.work);
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

/* Runs a command and returns its exit code.  quiet: the file that receives its messages, or
 * NULL. */
static int run_status(struct list *command, const char *quiet)
{
    int status;

    if (state.options.verbose) {
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

    return upcc_text("%.*s%s", dot ? (int)(dot - base) : (int)strlen(base), base, suffix);
}

/* dir/file.o -> dir/file.d */
static char *resuffixed(const char *file, const char *suffix)
{
    const char *slash = strrchr(file, '/');
    const char *dot = strrchr(file, '.');

    if (dot && slash && dot < slash)
        dot = NULL;

    return upcc_text("%.*s%s", dot ? (int)(dot - file) : (int)strlen(file), file, suffix);
}

/* ---- dependencies: -MD and -MMD, named as the compiler would if it saw all steps ---- */

/* Returns the file for the dependency rule of this source. */
static char *depend_file(const char *source)
{
    if (state.options.depend_file)
        return upcc_text("%s", state.options.depend_file);

    if (state.options.product != PRODUCT_PROGRAM)
        return state.options.output ? resuffixed(state.options.output, ".d") : named(source, ".d");

    if (state.options.output && state.options.nsources == 1)
        return resuffixed(state.options.output, ".d");

    return upcc_text("%s-%s", state.options.output ? state.options.output : "a",
                     named(source, ".d"));
}

/* Returns the target of the rule. */
static char *depend_target(const char *source)
{
    if (state.options.product == PRODUCT_ASSEMBLY && !state.options.output)
        return named(source, ".s");

    return state.options.output ? upcc_text("%s", state.options.output) : named(source, ".o");
}

static void add_depend(struct list *c, const char *source)
{
    if (state.options.depend == NULL)
        return;

    upcc_list_add(c, state.options.depend);
    upcc_list_add(c, "-MF");
    upcc_list_add(c, depend_file(source));
    upcc_list_add_all(c, &state.options.depend_args);

    if (!state.options.depend_target) {
        upcc_list_add(c, "-MQ");
        upcc_list_add(c, depend_target(source));
    }
}

/* ---- steps ---- */

/* Adds the preprocessor's command, for UPC or C, up to the options that depend on the use. */
static void add_preprocessor(struct list *c, bool upc)
{
    upcc_list_add(c, state.options.compiler);
    if (!upc) {
        upcc_list_add_all(c, &state.options.c);
        upcc_list_add(c, upcc_text("-I%s", state.place.include));
        return;
    }

    /* before all other includes, because the program's own -include may include upc.h */
    upcc_list_add(c, "-include");
    upcc_list_add(c, upcc_text("%s/upcx.h", state.place.upc_include));

    upcc_list_add_all(c, &state.options.cpp);
    upcc_list_add(c, upcc_text("-I%s", state.place.upc_include));
    upcc_list_add(c, upcc_text("-I%s", state.place.include));
    if (state.options.threads)
        upcc_list_add(c, upcc_text("-DUPC_STATIC_THREADS=%d", state.options.threads));
}

/* Returns the preprocessor's exit code.  quiet: the file that receives its messages, or NULL. */
static int preprocess(const char *source, bool upc, const char *to, const char *quiet)
{
    struct list c = { 0 };

    add_preprocessor(&c, upc);
    upcc_list_add(&c, "-E");
    add_depend(&c, source);
    upcc_list_add(&c, "-x");
    upcc_list_add(&c, "c");
    upcc_list_add(&c, source);
    upcc_list_add(&c, "-o");
    upcc_list_add(&c, to);

    return run_status(&c, quiet);
}

/* Adds the language for the C compiler, if the name of the file does not determine it. */
static void add_language(struct list *c, const struct input *in)
{
    const char *language = in->gcc_language ? in->gcc_language : "c";

    if (in->language == LANGUAGE_OTHER && !in->gcc_language)
        return;

    upcc_list_add(c, "-x");
    upcc_list_add(c, language);
}

/* -E, -M and -MM: what the preprocessor prints is the product. */
static void print_text(const struct input *in, bool upc)
{
    struct list c = { 0 };

    add_preprocessor(&c, upc);
    upcc_list_add_all(&c, &state.options.text_only);
    if (state.options.depend)
        upcc_list_add(&c, state.options.depend);

    if (state.options.depend_file) {
        upcc_list_add(&c, "-MF");
        upcc_list_add(&c, state.options.depend_file);
    }

    upcc_list_add_all(&c, &state.options.depend_args);
    add_language(&c, in);
    upcc_list_add(&c, in->text);

    if (state.options.output) {
        upcc_list_add(&c, "-o");
        upcc_list_add(&c, state.options.output);
    }

    run(&c);
}

static void translate(const char *from, const char *to)
{
    struct list c = { 0 };

    upcc_list_add(&c, upcc_text("%s/upcxlate", state.place.bin));
    if (state.options.threads) {
        upcc_list_add(&c, "-T");
        upcc_list_add(&c, upcc_text("%d", state.options.threads));
    }

    upcc_list_add(&c, "-o");
    upcc_list_add(&c, to);
    upcc_list_add(&c, from);
    run(&c);
}

/* Adds the product and its name. */
static void add_product(struct list *c, const char *to)
{
    if (state.options.product == PRODUCT_NOTHING) {
        upcc_list_add(c, "-fsyntax-only");
        return;
    }

    upcc_list_add(c, state.options.product == PRODUCT_ASSEMBLY || upcc_ends_in(to, ".s") ? "-S"
                                                                                         : "-c");
    upcc_list_add(c, "-o");
    upcc_list_add(c, to);
}

/* Compiles preprocessed C. */
static void compile(const char *from, const char *to)
{
    struct list c = { 0 };

    upcc_list_add(&c, state.options.compiler);
    upcc_list_add_all(&c, &state.options.cc);
    upcc_list_add(&c,
                  "-Wno-unused-value"); /* a translated assignment has a value, perhaps unused */
    upcc_list_add(&c, "-x");
    upcc_list_add(&c, "cpp-output");
    upcc_list_add(&c, from);
    add_product(&c, to);
    run(&c);
}

/* -save-temps: by way of an assembly file that stays. */
static void compile_by_assembly(const char *source, const char *from, const char *to)
{
    char *assembly = state.options.product == PRODUCT_ASSEMBLY ? upcc_text("%s", to)
                                                               : named(source, ".s");

    compile(from, assembly);
    if (state.options.product == PRODUCT_ASSEMBLY || state.options.product == PRODUCT_NOTHING)
        return;

    struct list c = { 0 };

    upcc_list_add(&c, state.options.compiler);
    upcc_list_add_all(&c, &state.options.cc);
    upcc_list_add(&c, assembly);
    add_product(&c, to);
    run(&c);
}

/* Compiles a file that is not UPC with the C compiler alone. */
static void compile_other(const struct input *in, const char *to)
{
    struct list c = { 0 };

    add_preprocessor(&c, false);
    if (in->language != LANGUAGE_OTHER)
        add_depend(&c, in->text);

    add_language(&c, in);
    upcc_list_add(&c, in->text);
    add_product(&c, to);
    run(&c);
}

/* Returns the value of dependency_libs in the .la file of a library, which is needed if the library
 * is an archive. */
static void add_dependencies(struct list *c, const char *library)
{
    char *la = upcc_text("%s/%s.la", state.place.lib, library);

    if (!upcc_is_file(la)) {
        free(la);
        la = upcc_text("%s/%s.la", state.place.bin, library);
    }

    FILE *f = fopen(la, "r");
    char *line = NULL;
    size_t cap = 0;

    while (f && getline(&line, &cap, f) > 0) {
        if (strncmp(line, "dependency_libs='", 17) != 0)
            continue;

        for (char *w = strtok(line + 17, " '\n"); w; w = strtok(NULL, " '\n"))
            if (!upcc_ends_in(w, ".la"))
                upcc_list_add(c, upcc_text("%s", w));
    }

    if (f)
        fclose(f);

    free(line);
    free(la);
}

/* Writes the line that amphora-upcrun reads in the program. */
static char *stamp(void)
{
    char *c = upcc_text("%s/-1.c", state.work);
    char *o = upcc_text("%s/-1.o", state.work);
    FILE *f = fopen(c, "w");

    if (f)
        fprintf(
            f,
            "__attribute__((used)) static const char amphora_upc_stamp[] = \"" PLACE_STAMP_FORMAT
            "\";\n",
            state.options.threads, state.options.network, state.options.servers);

    if (f == NULL || fclose(f) != 0) {
        fprintf(stderr, "amphora-upcc: %s: %s\n", c, strerror(errno));
        finish(2);
    }

    struct list l = { 0 };

    upcc_list_add(&l, state.options.compiler);
    upcc_list_add_all(&l, &state.options.cc);
    upcc_list_add(&l, "-w");
    upcc_list_add(&l, "-c");
    upcc_list_add(&l, c);
    upcc_list_add(&l, "-o");
    upcc_list_add(&l, o);
    run(&l);

    return o;
}

/* Adds the files and options of the linker in the order of the command line. */
static void link_program(const struct list *inputs)
{
    struct list c = { 0 };
    char *so = upcc_text("%s/libamphora-upc.so", state.place.lib);
    bool archive = state.options.static_link || !upcc_is_file(so);
    char *linker = upcc_text("%s",
                             state.options.linker ? state.options.linker : state.options.compiler);

    for (char *w = strtok(linker, " "); w; w = strtok(NULL, " "))
        upcc_list_add(&c, w);

    upcc_list_add_all(&c, &state.options.cc);
    if (state.options.static_link)
        upcc_list_add(&c, "-static");

    upcc_list_add(&c, "-o");
    upcc_list_add(&c, state.options.output ? state.options.output : "a.out");
    upcc_list_add(&c, stamp());
    upcc_list_add_all(&c, inputs);
    upcc_list_add(&c, upcc_text("-L%s", state.place.lib));
    if (!archive)
        upcc_list_add(&c, upcc_text("-Wl,-rpath,%s", state.place.lib));

    upcc_list_add(&c, "-lamphora-upc");
    upcc_list_add(&c, "-liofwd");
    upcc_list_add(&c, "-lamphora");
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

/* Preprocesses a .c file as UPC into `to`, and returns whether it is UPC.  Messages are dropped for
 * C, because the compiler prints its own. */
static bool holds_upc(int i, const char *to)
{
    char *messages = upcc_text("%s/%d.messages", state.work, i);
    int status = preprocess(state.options.inputs[i].text, true, to, messages);
    bool upc = status == 0 && upcc_language_is_upc(to, state.place.upc_include);

    if (upc)
        print_file(messages);

    free(messages);
    return upc;
}

/* Returns the name of the product of input i. */
static char *product_of(int i)
{
    const char *suffix = state.options.product == PRODUCT_ASSEMBLY ? ".s" : ".o";

    if (state.options.product == PRODUCT_PROGRAM || state.options.product == PRODUCT_NOTHING)
        return upcc_text("%s/%d.o", state.work, i);

    return state.options.output ? upcc_text("%s", state.options.output)
                                : named(state.options.inputs[i].text, suffix);
}

/* Translates and compiles the preprocessed text in pre. */
static void build_upc(int i, const char *pre, const char *product)
{
    const char *source = state.options.inputs[i].text;
    bool only = state.options.product == PRODUCT_TRANSLATION;
    char *c = upcc_text("%s/%d.i", state.work, i);

    if (only && state.options.output)
        c = upcc_text("%s", state.options.output);
    else if (only || state.options.save_temps)
        c = named(source, ".trans.c");

    translate(pre, c);

    if (only)
        return;

    if (state.options.save_temps)
        compile_by_assembly(source, c, product);
    else
        compile(c, product);
}

/* -save-temps: compiles UPC or C, and keeps the output of the preprocessor. */
static void preprocess_or_end(const char *source, bool upc, const char *to)
{
    int status = preprocess(source, upc, to, NULL);

    if (status != 0)
        finish(status);
}

/* Makes the product of input i, and returns the file for the linker. */
static const char *build(int i)
{
    const struct input *in = &state.options.inputs[i];

    if (in->language == LANGUAGE_LINKER)
        return in->text;

    bool keep = state.options.save_temps && state.options.product != PRODUCT_TEXT;
    char *pre = keep ? named(in->text, ".i") : upcc_text("%s/%d.i0", state.work, i);
    char *product = product_of(i);
    bool upc = in->language == LANGUAGE_UPC ||
               (in->language == LANGUAGE_C_OR_UPC && holds_upc(i, pre));

    if (state.options.product == PRODUCT_TEXT) {
        print_text(in, upc);
    } else if (in->language == LANGUAGE_UPC_PREPROCESSED) {
        build_upc(i, in->text, product);
    } else if (upc) {
        if (in->language == LANGUAGE_UPC)
            preprocess_or_end(in->text, true, pre);

        build_upc(i, pre, product);
    } else if (state.options.product == PRODUCT_TRANSLATION) {
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

    upcc_options_read(&state.options, argc, argv);
    if (!upcc_place_find(&state.place, "amphora-upcc"))
        return 2;

    state.work = mkdtemp(dir);
    if (state.work == NULL) {
        fprintf(stderr, "amphora-upcc: %s: %s\n", dir, strerror(errno));
        return 2;
    }

    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    for (int i = 0; i < state.options.ninputs; i++)
        upcc_list_add(&products, build(i));

    if (state.options.product == PRODUCT_PROGRAM)
        link_program(&products);

    finish(0);
}
