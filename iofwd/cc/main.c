/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-cc, iofwd-c++, iofwd-fc: the command line; man/iofwd-cc.1 has the options.
 *
 * Layer: iofwd/cc.
 *
 * One program under three names, which differ in the compiler that is run if the command line names none.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/platform.h"
#include "base/quote.h"
#include "base/program/stdout_check.h"
#include "iofwd/cc/cc.h"

/* The words of IOFWD_CC_LINK. */
enum {
    LINK_AUTO,
    LINK_DYNAMIC,
    LINK_STATIC,
    LINK_NONE
};

enum {
    NO_PROGRAM = 127 /* exit code, as a shell's */
};

static bool ends_in(const char *s, const char *suffix)
{
    size_t n = strlen(s);
    size_t m = strlen(suffix);

    return n >= m && strcmp(s + n - m, suffix) == 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* ---- which compiler ---- */

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool is_on_path(const char *name)
{
    const char *dirs = amph_env_foreign("PATH");

    if (strchr(name, '/'))
        return is_program(name);

    for (const char *at = dirs ? dirs : "/usr/local/bin:/usr/bin:/bin"; *at;) {
        int len = (int)strcspn(at, ":");

        if (is_program(amph_cc_text("%.*s/%s", len ? len : 1, len ? at : ".", name)))
            return true;

        at += len + (at[len] == ':');
    }

    return false;
}

/* Is this, by its name, an input of compilers and not a compiler? */
static bool has_input_name(const char *word)
{
    static const char *const suffixes[] = {
        ".c",   ".i",   ".ii",  ".cc",  ".cp",  ".cxx", ".cpp", ".CPP", ".c++", ".C",   ".m",
        ".mm",  ".M",   ".s",   ".S",   ".sx",  ".o",   ".a",   ".so",  ".lo",  ".obj", ".h",
        ".hh",  ".hpp", ".f",   ".for", ".ftn", ".F",   ".FOR", ".fpp", ".FPP", ".FTN", ".f90",
        ".f95", ".f03", ".f08", ".F90", ".F95", ".F03", ".F08", ".d",   ".go",  ".adb", ".ads",
        ".upc", ".cu",  ".bc",  ".ll",  ".map", ".ld",  ".lds", ".def"
    };

    for (size_t i = 0; i < AMPH_COUNTOF(suffixes); i++)
        if (ends_in(word, suffixes[i]))
            return true;

    return strstr(base_name(word), ".so.") != NULL;
}

/* Does the first word name the compiler? */
static bool names_compiler(const char *word)
{
    if (word[0] == '-' || word[0] == '@' || word[0] == 0 || has_input_name(word))
        return false;
    if (is_on_path(word))
        return true;
    if (access(word, F_OK) == 0)
        return false;

    amph_cc_die(NO_PROGRAM,
                "%s is neither a compiler %s nor a file; name a compiler that is installed", word,
                strchr(word, '/') ? "that can be executed" : "on PATH");
}

static void use_default(struct amph_cc_words *compiler)
{
    const char *self = program_invocation_short_name;
    enum amph_env_id id = AMPH_ENV_IOFWD_CC;

    if (ends_in(self, "c++"))
        id = AMPH_ENV_IOFWD_CXX;
    else if (ends_in(self, "-fc"))
        id = AMPH_ENV_IOFWD_FC;

    amph_cc_words_split(compiler, amph_env_str(id));
    if (compiler->n == 0)
        amph_cc_die(NO_PROGRAM, "%s is empty; set it to the name of a compiler", amph_env_name(id));
    if (!is_on_path(compiler->v[0]))
        amph_cc_die(NO_PROGRAM,
                    "there is no compiler %s on PATH; install it, or name another one as the first "
                    "argument or in %s",
                    compiler->v[0], amph_env_name(id));
}

static void check_loop(const char *compiler)
{
    const char *base = base_name(compiler);

    if (strcmp(base, "iofwd-cc") == 0 || strcmp(base, "iofwd-c++") == 0 ||
        strcmp(base, "iofwd-fc") == 0)
        amph_cc_die(2, "%s would run itself; name the compiler that it is to run", base);
}

/* ---- -show ---- */

/* Has this wrapper its own -show, which prints the command that it would run? */
static bool has_own_show(const char *compiler)
{
    const char *base = base_name(compiler);

    return strncmp(base, "mpi", 3) == 0 || strncmp(base, "h5", 2) == 0 ||
           strncmp(base, "osh", 3) == 0;
}

/* Removes -show. false: args had no -show. */
static bool take_show(struct amph_cc_words *args)
{
    size_t n = 0;

    for (size_t i = 0; i < args->n; i++)
        if (strcmp(args->v[i], "-show") != 0)
            args->v[n++] = args->v[i];

    bool found = n < args->n;

    args->n = n;
    if (args->v)
        args->v[n] = NULL;

    return found;
}

static void print_command(const struct amph_cc_words *command)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "@%+=:,./_-#";

    for (size_t i = 0; i < command->n; i++) {
        const char *word = command->v[i];

        if (i)
            putchar(' ');

        if (word[0] && strspn(word, plain) == strlen(word) && word[0] != '#')
            fputs(word, stdout);
        else
            amph_quote_shell(stdout, word);
    }

    putchar('\n');
}

/* ---- compilers that do not say what they link ---- */

static const char *output_of(const struct amph_cc_words *args)
{
    for (size_t i = args->n; i-- > 0;)
        if (strncmp(args->v[i], "-o", 2) == 0)
            return args->v[i][2] ? args->v[i] + 2 : args->v[i + 1];

    return "a.out";
}

/* Returns the file's identity and time as a text; "": it is not a program. */
static const char *program_state(const char *path)
{
    char magic[SELFMAG];
    struct stat st;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;

    if (fd < 0)
        return "";

    bool is_elf = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                  read(fd, magic, sizeof magic) == sizeof magic &&
                  memcmp(magic, ELFMAG, SELFMAG) == 0;

    close(fd);
    return is_elf ? amph_cc_text("%lu %ld.%09ld %ld", (unsigned long)st.st_ino,
                                 (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (long)st.st_size)
                  : "";
}

/* Runs a compiler that did not answer: usually the command is wrong, and the compiler reports
 * it. */
__attribute__((noreturn)) static void run_unanswered(const struct amph_cc_words *command,
                                                     const struct amph_cc_words *args)
{
    const char *output = output_of(args);
    const char *before = program_state(output);
    int code = amph_cc_run_child(command);
    const char *after = program_state(output);

    if (code == 0 && after[0] && strcmp(before, after) != 0)
        amph_cc_die(
            1,
            "%s has been linked, but it does not forward its file calls: %s does not answer "
            "the option -###; set IOFWD_CC_LINK to dynamic or static (none: link without "
            "forwarding)",
            output, command->v[0]);

    exit(code);
}

int main(int argc, char **argv)
{
    static const enum amph_cc_kind kinds[] = { [LINK_AUTO] = AMPH_CC_UNKNOWN,
                                               [LINK_DYNAMIC] = AMPH_CC_DYNAMIC,
                                               [LINK_STATIC] = AMPH_CC_STATIC,
                                               [LINK_NONE] = AMPH_CC_NO_LINK };
    struct amph_cc_words compiler = { 0 };
    struct amph_cc_words args = { 0 };
    bool show = false;
    int i = 1;

    amph_stdout_check();
    for (; i < argc && strcmp(argv[i], "-show") == 0; i++)
        show = true;

    if (i < argc && names_compiler(argv[i]))
        amph_cc_words_add(&compiler, argv[i++]);
    else
        use_default(&compiler);

    check_loop(compiler.v[0]);
    for (; i < argc; i++)
        amph_cc_words_add(&args, argv[i]);

    bool later = take_show(&args);
    bool pass_show = later && has_own_show(compiler.v[0]);
    enum amph_cc_kind kind = kinds[amph_env_enum(AMPH_ENV_IOFWD_CC_LINK)];

    int retries = (int)amph_env_int(AMPH_ENV_IOFWD_CC_RETRY);

    if (amph_cc_is_compile_only(&args))
        kind = AMPH_CC_NO_LINK;
    else if (kind == AMPH_CC_UNKNOWN)
        kind = amph_cc_link_kind(&compiler, &args, retries);

    struct amph_cc_words command = { 0 };

    amph_cc_words_add_all(&command, &compiler);
    if (pass_show)
        amph_cc_words_add(&command, "-show");

    amph_cc_parts_add(&command, kind, &args);
    if (show || (later && !pass_show)) {
        print_command(&command);
        return 0;
    }

    if (kind == AMPH_CC_UNKNOWN && !pass_show)
        run_unanswered(&command, &args);

    amph_cc_run(&command, retries, kind == AMPH_CC_STATIC);
}
