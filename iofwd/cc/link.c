/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a command links; see cc.h.
 *
 * Layer: iofwd/cc.
 *
 * The compiler itself answers this: with -### gcc, clang and their relatives print the commands
 * that they would run, with specs, configuration files, response files and the options of wrappers
 * like mpicc applied.  The linker's command shows which C library it would link.
 */
#include "iofwd/cc/cc.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/platform.h"
#include "base/program/program_image.h"

extern const ElfW(Ehdr)
    __ehdr_start AMPH_HIDDEN; /* this program's own header, defined by the linker */

enum {
    STATES_MAX = 64 /* nested --push-state */
};

static bool is_one_of(const char *word, const char *const list[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, list[i]) == 0)
            return true;

    return false;
}

#define IS_ONE_OF(word, list) is_one_of(word, list, AMPH_COUNTOF(list))

bool amph_cc_is_compile_only(const struct amph_cc_words *args)
{
    static const char *const last_steps[] = { "-c", "-S", "-E", "-M", "-MM", "-fsyntax-only" };
    static const char *const with_word[] = { "-o",  "-x",  "-T",  "-u",       "-z",
                                             "-MF", "-MT", "-MQ", "-Xlinker", "-Xassembler",
                                             "-I",  "-D",  "-L",  "-l",       "-Xpreprocessor",
                                             "-U",  "-A",  "-e",  "-include", "-Xclang" };

    for (size_t i = 0; i < args->n; i++) {
        if (IS_ONE_OF(args->v[i], last_steps))
            return true;
        if (IS_ONE_OF(args->v[i], with_word))
            i++;
    }

    return false;
}

/* ---- the linker's command ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* collect2, ld, ld.gold, ld64.lld, lld, mold, x86_64-linux-gnu-ld.bfd */
static bool is_linker(const char *word)
{
    static const char *const names[] = { "collect2", "ld", "lld", "gold", "mold" };
    char name[64];
    const char *base = base_name(word);
    const char *dash = strrchr(base, '-');
    const char *start = dash && strncmp(dash, "-ld", 3) == 0 ? dash + 1 : base;
    size_t len = strcspn(start, ".");

    if (len == 0 || len >= sizeof name)
        return false;

    memcpy(name, start, len);
    name[len] = 0;
    return IS_ONE_OF(name, names);
}

/* Finds the last linker command in the output of the compiler.  Returns false if it has no such command. */
static bool find_linker(char *output, struct amph_cc_words *command_p)
{
    bool found = false;

    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n")) {
        struct amph_cc_words words = { 0 };

        if (line[0] != ' ' && line[0] != '"' && line[0] != '/')
            continue;

        amph_cc_words_split(&words, line);
        if (words.n > 1 && is_linker(words.v[0])) {
            *command_p = words;
            found = true;
        }
    }

    return found;
}

struct linked {
    bool has_libc, libc_is_static;
    bool is_relocatable, is_shared, is_question, is_lld;
    const char *format;  /* --oformat */
    const char *loader;  /* --dynamic-linker */
    const char *foreign; /* the first input or emulation (-m) for another machine */
    uint16_t machine;    /* that machine */
    uint16_t bits;       /* its word size */
};

static bool is_own_machine(uint16_t machine, uint16_t bits)
{
    return machine == __ehdr_start.e_machine && bits == sizeof(void *) * 8;
}

/* Takes the emulation (-m) that the linker is given; with -m32 some compilers name another
 * machine. */
static void take_emulation(struct linked *l, const char *name)
{
    static const struct {
        const char *name;
        uint16_t machine, bits;
    } emulations[] = { { "elf_x86_64", EM_X86_64, 64 },   { "elf32_x86_64", EM_X86_64, 32 },
                       { "elf_i386", EM_386, 32 },        { "elf64lppc", EM_PPC64, 64 },
                       { "elf64ppc", EM_PPC64, 64 },      { "elf32ppclinux", EM_PPC, 32 },
                       { "elf64_s390", EM_S390, 64 },     { "elf_s390", EM_S390, 32 },
                       { "aarch64linux", EM_AARCH64, 64 } };

    for (size_t i = 0; i < AMPH_COUNTOF(emulations); i++)
        if (strcmp(emulations[i].name, name) == 0 &&
            !is_own_machine(emulations[i].machine, emulations[i].bits)) {
            l->foreign = amph_cc_text("the output (%s)", name);
            l->machine = emulations[i].machine;
            l->bits = emulations[i].bits;
        }
}

/* Is an input for another machine than our libraries? */
static bool is_foreign(struct linked *l, const char *path)
{
    Elf64_Ehdr e;
    const ElfW(Ehdr) *own = &__ehdr_start;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, &e, sizeof e);

    if (fd >= 0)
        close(fd);

    if (n < (ssize_t)sizeof(Elf32_Ehdr) || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0)
        return false;

    bool swapped = e.e_ident[EI_DATA] != own->e_ident[EI_DATA];

    l->machine = swapped ? __builtin_bswap16(e.e_machine) : e.e_machine;
    l->bits = e.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
    return swapped || !is_own_machine(l->machine, l->bits);
}

/* Returns the value of an option that is written -name VALUE, --name VALUE or --name=VALUE; else
 * NULL. */
static const char *value_of(const struct amph_cc_words *w, size_t *i, const char *name)
{
    const char *word = w->v[*i];
    size_t n = strlen(name);

    word += word[0] == '-';
    word += word[0] == '-';

    if (word == w->v[*i] || strncmp(word, name, n) != 0)
        return NULL;
    if (word[n] == '=')
        return word + n + 1;

    return word[n] == 0 && w->v[*i + 1] ? w->v[++*i] : NULL;
}

static bool is_libc(const char *word)
{
    const char *base = base_name(word);

    return strcmp(word, "-lc") == 0 || strcmp(base, "libc.a") == 0 ||
           strcmp(base, "libc.so") == 0 || strcmp(base, "libc.so.6") == 0;
}

/* Takes an input, or an option without a value. */
static void take(struct linked *l, const char *word, bool is_static)
{
    static const char *const relocatable[] = { "-r", "-i", "-Ur", "--relocatable" };
    static const char *const shared[] = { "-shared", "--shared", "-Bshareable" };
    static const char *const questions[] = { "--version", "--help", "-V", "--target-help" };

    l->is_relocatable = l->is_relocatable || IS_ONE_OF(word, relocatable);
    l->is_shared = l->is_shared || IS_ONE_OF(word, shared);
    l->is_lld = l->is_lld || strcmp(word, "-fuse-ld=lld") == 0;
    l->is_question = l->is_question || IS_ONE_OF(word, questions);

    if (is_libc(word) && !l->has_libc) {
        l->has_libc = true;
        l->libc_is_static = word[0] == '-' ? is_static : word[strlen(word) - 1] == 'a';
    }

    if (word[0] != '-' && !l->foreign && is_foreign(l, word))
        l->foreign = word;
}

static void read_linker(const struct amph_cc_words *w, struct linked *l)
{
    static const char *const static_mode[] = { "-static", "--static", "-Bstatic", "-dn",
                                               "-non_shared" };
    static const char *const dynamic_mode[] = { "-Bdynamic", "-dy", "-call_shared" };
    static const char *const with_word[] = { "-o", "-z",      "-T",         "-u",      "-e",
                                             "-h", "-soname", "-L",         "-plugin", "-rpath",
                                             "-a", "-y",      "-rpath-link" };
    bool states[STATES_MAX];
    size_t depth = 0;
    bool is_static = false;

    l->is_lld = strstr(base_name(w->v[0]), "lld") != NULL;

    for (size_t i = 1; i < w->n; i++) {
        const char *word = w->v[i];
        const char *format = value_of(w, &i, "oformat");
        const char *loader = format ? NULL : value_of(w, &i, "dynamic-linker");
        bool is_emulation = strcmp(word, "-m") == 0 && i + 1 < w->n;

        l->format = format ? format : l->format;
        l->loader = loader ? loader : l->loader;

        if (is_emulation && !l->foreign)
            take_emulation(l, w->v[i + 1]);
        if (format || loader)
            continue;

        if (is_emulation || IS_ONE_OF(word, with_word))
            i++;
        else if (IS_ONE_OF(word, static_mode))
            is_static = true;
        else if (IS_ONE_OF(word, dynamic_mode))
            is_static = false;
        else if (strcmp(word, "--push-state") == 0 && depth < STATES_MAX)
            states[depth++] = is_static;
        else if (strcmp(word, "--pop-state") == 0 && depth > 0)
            is_static = states[--depth];
        else
            take(l, word, is_static);
    }
}

/* ---- the answer ---- */

static void refuse_others(const struct linked *l)
{
    if (l->foreign)
        amph_cc_die(
            1,
            "%s is for %s (%d bits), and the libraries of this Amphora are for %s (%d bits); "
            "compile for this machine, or use the iofwd-cc of an Amphora that is built for "
            "the other",
            l->foreign, amph_image_machine_name(l->machine), l->bits,
            amph_image_machine_name(__ehdr_start.e_machine), (int)sizeof(void *) * 8);

    if (l->format && strncmp(l->format, "elf", 3) != 0)
        amph_cc_die(
            1,
            "an output of the format %s cannot forward its file calls; link an ELF program, or "
            "set IOFWD_CC_LINK=none to link without forwarding",
            l->format);

    if (l->loader && strncmp(base_name(l->loader), "ld-musl", 7) == 0)
        amph_cc_die(
            1,
            "the program uses another C library (musl, %s), into which the libraries of "
            "Amphora cannot be linked; build it with glibc, or set IOFWD_CC_LINK=none to link "
            "without forwarding",
            l->loader);

    if (l->is_lld && l->libc_is_static)
        amph_cc_die(1,
                    "lld gives --wrap a meaning with which static programs do not work; link with "
                    "another linker (-fuse-ld=bfd), or dynamically");

    if (l->is_shared && l->libc_is_static)
        amph_cc_die(1,
                    "a shared library that contains the C library cannot forward its file calls; "
                    "link it without -static, or set IOFWD_CC_LINK=none to link it so");
}

enum amph_cc_kind amph_cc_link_kind(const struct amph_cc_words *compiler,
                                    const struct amph_cc_words *args, int retries)
{
    struct amph_cc_words question = { 0 };
    struct amph_cc_words answer = { 0 };
    struct linked l = { 0 };
    int code;

    amph_cc_words_add_all(&question, compiler);
    amph_cc_words_add_all(&question, args);
    amph_cc_words_add(&question, "-###");

    char *output = amph_cc_capture(&question, retries, &code);

    if (code != 0)
        return AMPH_CC_UNKNOWN;
    if (!find_linker(output, &answer))
        return AMPH_CC_NO_LINK;

    read_linker(&answer, &l);
    if (l.is_relocatable || l.is_question || !l.has_libc)
        return AMPH_CC_NO_LINK;

    refuse_others(&l);
    return l.libc_is_static ? AMPH_CC_STATIC : AMPH_CC_DYNAMIC;
}
