/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports which way of forwarding suits a program; see check.h.
 *
 * Layer: iofwd/instrument.
 *
 * The calls that are forwarded are those that the preload library exports: its own table of symbols is
 * compared with what the program imports.
 */
#include "iofwd/instrument/check.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/platform.h"
#include "base/program/program_look.h"
#include "iofwd/instrument/instrument.h"

enum {
    EXIT_FORWARDS = 0,
    EXIT_OTHER_WAY = 1,
    EXIT_WRONG = 2,
    LINE_COLUMNS = 100
};

/* Maps a file and parses its headers. false: it is not an ELF file for the dynamic linker. */
static bool map_file(const char *path, struct amph_elf *elf)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    *elf = (struct amph_elf){ .at = MAP_FAILED };
    if (fd < 0)
        return false;

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        elf->len = (size_t)st.st_size;
        elf->at = mmap(NULL, elf->len, PROT_READ, MAP_PRIVATE, fd, 0);
    }

    close(fd);
    if (elf->at == MAP_FAILED)
        return false;
    if (amph_elf_view(elf))
        return true;

    munmap(elf->at, elf->len);
    return false;
}

/* ---- symbols ---- */

struct symbols {
    const ElfW(Sym) * sym;
    size_t n;
};

/* Returns the dynamic symbols.  The headers do not state their number, but linkers place the
 * strings directly after them. */
static struct symbols symbols_of(const struct amph_elf *elf)
{
    ElfW(Addr) at = amph_elf_entry(elf, DT_SYMTAB, 0);
    struct amph_instrument_sections sections;

    if (amph_instrument_sections_view(elf, &sections))
        for (size_t i = 0; i < sections.n; i++)
            if (sections.sh[i].sh_type == SHT_DYNSYM && sections.sh[i].sh_addr == at &&
                sections.sh[i].sh_offset % alignof(ElfW(Sym)) == 0)
                return (struct symbols){ (const void *)(elf->at + sections.sh[i].sh_offset),
                                         sections.sh[i].sh_size / sizeof(ElfW(Sym)) };

    size_t n = elf->strings_at > at ? (elf->strings_at - at) / sizeof(ElfW(Sym)) : 0;
    const void *sym = n ? amph_elf_at_address(elf, at, n * sizeof(ElfW(Sym))) : NULL;
    bool usable = sym && (uintptr_t)sym % alignof(ElfW(Sym)) == 0;

    return usable ? (struct symbols){ sym, n } : (struct symbols){ NULL, 0 };
}

static bool is_function(const ElfW(Sym) * sym)
{
    unsigned char type = sym->st_info & 0xf;

    return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns the names of the functions that the file exports (or imports), sorted.  The caller
 * frees the list. */
static const char **names_of(const struct amph_elf *elf, bool imports, size_t *n_p)
{
    struct symbols s = symbols_of(elf);
    const char **list = calloc(s.n + 1, sizeof *list);
    size_t n = 0;

    for (size_t i = 0; list && i < s.n; i++) {
        const char *name = amph_elf_string(elf, s.sym[i].st_name);

        if (name && name[0] && is_function(&s.sym[i]) &&
            (s.sym[i].st_shndx == SHN_UNDEF) == imports)
            list[n++] = name;
    }

    if (list)
        qsort(list, n, sizeof *list, by_name);

    *n_p = n;
    return list;
}

/* Prints words after a label, over as many lines as they need. */
static void print_words(FILE *out, const char *const *word, size_t n)
{
    size_t column = LINE_COLUMNS;

    for (size_t i = 0; i < n; i++) {
        if (column + strlen(word[i]) + 1 > LINE_COLUMNS) {
            fputs(i ? "\n   " : "   ", out);
            column = 3;
        }

        column += (size_t)fprintf(out, " %s", word[i]);
    }

    if (n)
        fputc('\n', out);
}

static void print_imports(FILE *out, const struct amph_elf *program, const struct amph_elf *library)
{
    size_t nimports, nexports;
    const char **imports = names_of(program, true, &nimports);
    const char **exports = names_of(library, false, &nexports);
    size_t n = 0;

    for (size_t i = 0; imports && exports && i < nimports; i++)
        if (bsearch(&imports[i], exports, nexports, sizeof *exports, by_name))
            imports[n++] = imports[i];

    fprintf(out, "calls: %zu of the %zu functions that it imports are forwarded%s\n", n, nimports,
            n ? ":" : "");
    print_words(out, imports, n);
    free(imports);
    free(exports);
}

static void print_libraries(FILE *out, const struct amph_elf *program)
{
    const char **names = calloc(program->ndyn + 1, sizeof *names);
    size_t n = 0;

    for (size_t i = 0; names && i < program->ndyn && program->dyn[i].d_tag != DT_NULL; i++) {
        const char *name = program->dyn[i].d_tag == DT_NEEDED
                               ? amph_elf_string(program, program->dyn[i].d_un.d_val)
                               : NULL;

        if (name)
            names[n++] = name;
    }

    fprintf(out, "libraries, whose calls are forwarded too:\n");
    print_words(out, names, n);
    free(names);
}

/* ---- ways ---- */

/* For each kind of program: the answers to the second and third question, and the suitable way. */
static const struct {
    const char *dynamic, *relink, *way;
} answers[] = {
    [AMPH_IMAGE_FORWARDS] = { "yes: the preload library is loaded into it",
                              "not needed; linked by iofwd-cc it would forward by itself",
                              "preload (iofwd-run)" },
    [AMPH_IMAGE_STATIC] = { "no: it is statically linked",
                            "if you have them, link it by iofwd-cc; if not, mount",
                            "mount, else trap (iofwd-run takes them by itself), or link it by "
                            "iofwd-cc" },
    [AMPH_IMAGE_GO] = { "no: Go's run-time library makes system calls by itself",
                        "they do not help, because Go has no C library to replace",
                        "mount, else trap (iofwd-run takes them by itself)" },
    [AMPH_IMAGE_OTHER_LIBC] = { "no: its C library is another one (musl)",
                                "if you have them, build it with glibc by iofwd-cc; if not, mount",
                                "mount, else trap (iofwd-run takes them by itself)" },
    [AMPH_IMAGE_OTHER_MACHINE] = { "no: it is built for another machine or word size than Amphora",
                                   "if you have them, build it for this machine by iofwd-cc",
                                   "mount (iofwd-run takes it by itself), if this machine can "
                                   "run the program" },
    [AMPH_IMAGE_PRIVILEGED] = { "yes, but it gains rights, and the linker ignores LD_PRELOAD then",
                                "if you have them, link it by iofwd-cc; if not, mount",
                                "mount (iofwd-mount, by a user with these rights)" },
};

/* What follows the second question for a program of iofwd-cc -static. */
static const char linked_dynamic[] = "no, but iofwd-cc has linked the library into it";

/* own: it forwards by itself. */
static void print_ways(FILE *out, const struct amph_image *image, bool own)
{
    const char *change = "if yes, start it by the way below; if not, mount (iofwd-mount)";

    if (own)
        change = "it need not be: it forwards by itself";
    else if (image->kind == AMPH_IMAGE_FORWARDS)
        change = "if yes, preload; if not, start a copy in its place (iofwd-instrument), or mount";

    fprintf(out, "1. Can you change how it is started?  %s.\n", change);
    fprintf(out, "2. Is it dynamic, and does it make its calls through glibc?  %s.\n",
            image->linked ? linked_dynamic : answers[image->kind].dynamic);
    fprintf(out, "3. Do you have its sources or objects?  %s.\n", answers[image->kind].relink);
    fprintf(out, "way: %s\n",
            own ? "none needed: it forwards by itself" : answers[image->kind].way);
}

/* Did iofwd-instrument or iofwd-cc enter the preload library as one that the program needs? */
static bool needs_library(const struct amph_elf *elf)
{
    for (size_t i = 0; i < elf->ndyn && elf->dyn[i].d_tag != DT_NULL; i++) {
        const char *name = elf->dyn[i].d_tag == DT_NEEDED
                               ? amph_elf_string(elf, elf->dyn[i].d_un.d_val)
                               : NULL;

        if (name && strstr(name, "libiofwd_preload.so"))
            return true;
    }

    return false;
}

/* Does the file name a program that must be there to start it, and is not? */
static bool lacks(const char *path, const char *what, const char *needed)
{
    if (!needed[0] || access(needed, F_OK) == 0 || errno != ENOENT)
        return false;

    fprintf(stderr, "%s: %s cannot be started: its %s %s does not exist\n",
            program_invocation_short_name, path, what, needed);
    return true;
}

int amph_check_print(FILE *out, const char *path, const char *library)
{
    struct amph_image image;
    struct amph_elf program, ours;

    if (access(path, R_OK) != 0) {
        fprintf(stderr, "%s: %s cannot be read: %s\n", program_invocation_short_name, path,
                strerror(errno));
        return EXIT_WRONG;
    }

    amph_image_of(path, &image);
    if (strcmp(path, image.path) != 0 && lacks(path, "interpreter", image.path))
        return EXIT_WRONG;

    if (image.damaged) {
        fprintf(stderr,
                "%s: %s is damaged or cut off: its headers lead beyond the file's end; take a "
                "whole copy of the program\n",
                program_invocation_short_name, image.path);
        return EXIT_WRONG;
    }

    if (image.kind == AMPH_IMAGE_UNKNOWN) {
        fprintf(stderr, "%s: %s is not a program that the kernel starts (no ELF file)\n",
                program_invocation_short_name, image.path);
        return EXIT_WRONG;
    }

    if (image.kind != AMPH_IMAGE_OTHER_MACHINE && lacks(image.path, "loader", image.linker))
        return EXIT_WRONG;

    fprintf(out, "%s: ", path);
    if (strcmp(path, image.path) != 0)
        fprintf(out, "a script; its interpreter %s is ", image.path);

    fprintf(out, "a %d-bit program for %s%s%s\n", image.bits,
            amph_image_machine_name(image.machine), image.linker[0] ? ", started by " : "",
            image.linker);

    bool mapped = image.kind == AMPH_IMAGE_FORWARDS && map_file(image.path, &program);
    bool own = image.linked || (mapped && needs_library(&program));

    if (mapped && map_file(library, &ours)) {
        print_imports(out, &program, &ours);
        munmap(ours.at, ours.len);
    }

    if (mapped) {
        print_libraries(out, &program);
        munmap(program.at, program.len);
    }

    print_ways(out, &image, own);
    return image.kind == AMPH_IMAGE_FORWARDS ? EXIT_FORWARDS : EXIT_OTHER_WAY;
}
