/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate [-T N] [-o OUT] [IN]: see man/upcxlate.1.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xlate.h"

struct xl_state xl = {
    .strict_mode = true,
    .object.tail = &xl.object.first,
    .out = { .file = -1, .pragma_done = -1, .line_start = true },
};

static char *read_all(FILE *f, const char *name, size_t *len)
{
    size_t cap = 1 << 16;
    size_t n = 0;
    char *s = malloc(cap);

    for (;;) {
        if (s == NULL)
            xl_fatal("%s: out of memory", name);

        size_t got = fread(s + n, 1, cap - n, f);

        n += got;
        if (got == 0)
            break;

        if (n == cap)
            s = realloc(s, cap *= 2);
    }

    if (ferror(f))
        xl_fatal("%s: %s", name, strerror(errno));

    *len = n;
    return s;
}

static void translate(FILE *out, const char *file)
{
    while (xl.tokens[xl.pos].kind != T_EOF) {
        int a = xl.pos;

        xl_parse_external();

        const char *before = xl_hoist_take();

        if (before)
            xl_out_text(out, before);

        xl_out_write(out, a, xl.pos);
    }

    xl_object_write_all(out, file);
}

static long long parse_count(const char *s)
{
    char *e;
    long long n = strtoll(s, &e, 10);

    if (*s == 0 || *e || n < 1 || n > 1048576)
        xl_fatal("-T takes a number of threads from 1 to 1048576, not '%s'", s);

    return n;
}

struct files {
    const char *in, *out; /* NULL: standard input, standard output */
};

/* Prints the text and ends the process. */
__attribute__((noreturn)) static void answer(const char *text)
{
    if (fputs(text, stdout) < 0 || fflush(stdout) != 0)
        xl_fatal("the output could not be written: %s", strerror(errno));

    exit(0);
}

static struct files take_options(int argc, char **argv)
{
    struct files files = { NULL, NULL };

    for (int i = 1; i < argc; i++) {
        const char *word = argv[i] + (argv[i][0] == '-' && argv[i][1] == '-');

        if (strcmp(argv[i], "-T") == 0 && i + 1 < argc)
            xl.static_threads = parse_count(argv[++i]);
        else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            files.out = argv[++i];
        else if (strcmp(word, "-version") == 0)
            answer("upcxlate (" PACKAGE_NAME ") " PACKAGE_VERSION "\n");
        else if (strcmp(word, "-help") == 0 || strcmp(word, "-h") == 0)
            answer("usage: upcxlate [-T THREADS] [-o FILE] [FILE]\n"
                   "Translates UPC that has gone through the C preprocessor (amphora-upcc does "
                   "that) to C on Amphora's UPC library.\n");
        else if (argv[i][0] == '-' && argv[i][1])
            xl_fatal("unknown option '%s'; see upcxlate --help", argv[i]);
        else if (files.in)
            xl_fatal("one file at a time, please: '%s' and '%s'", files.in, argv[i]);
        else
            files.in = argv[i];
    }

    return files;
}

static char *read_input(const char *name, size_t *len_p)
{
    FILE *in = name && strcmp(name, "-") != 0 ? fopen(name, "r") : stdin;

    if (in == NULL)
        xl_fatal("%s: %s", name, strerror(errno));

    return read_all(in, name ? name : "<stdin>", len_p);
}

static void write_output(const char *name, const char *text, size_t len)
{
    FILE *out = name ? fopen(name, "w") : stdout;

    if (out == NULL)
        xl_fatal("%s: %s", name, strerror(errno));

    size_t put = fwrite(text, 1, len, out);

    if (put != len || fclose(out) != 0)
        xl_fatal("%s: %s", name ? name : "<stdout>", strerror(errno));
}

int main(int argc, char **argv)
{
    struct files files = take_options(argc, argv);
    size_t len;
    char *text = read_input(files.in, &len);

    xl_ty_start();
    xl_lex(text, len, files.in ? files.in : "<stdin>");

    /* Nothing is written before all is known to be translated. */
    char *result = NULL;
    size_t size = 0;
    FILE *mem = open_memstream(&result, &size);

    if (mem == NULL)
        xl_fatal("out of memory");

    translate(mem, xl_lex_program_name());
    if (fclose(mem) != 0)
        xl_fatal("out of memory");

    write_output(files.out, result, size);

    free(result);
    free(text);
    return 0;
}
