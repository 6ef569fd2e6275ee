/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recognises programs that the preload library suits; see quick.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 *
 * The complete answer is base/program/program_image.c's.  Here a program passes if all that matters is
 * in the first page of its file, where linkers put it, and is as usual.
 */
#include "launcher/attach/quick/quick.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>

#include "base/platform.h"
#include "base/program/note.h"
#include "launcher/attach/quick/kernel.h"

#define HEAD_BYTES 4096  /* what is read of a file's start */
#define NAMES_BYTES 4096 /* of the table of section names */
#define SCRIPT_LINE 255  /* the kernel reads no more of a script's first line */
#define INTERPRETERS 6   /* scripts that are interpreters themselves, as the kernel counts */
#define SEGMENTS_MAX 64

/* This program's own header: the machine it was built for. */
extern const ElfW(Ehdr) __ehdr_start AMPH_HIDDEN;

struct head {
    char bytes[HEAD_BYTES] __attribute__((aligned(16)));
    size_t len;
    struct statx st;
};

static bool is_within(const struct head *h, uint64_t at, uint64_t len)
{
    return len <= h->len && at <= h->len - len;
}

/* Opens the file and reads its start.  Returns the descriptor, or -1. */
static int open_head(const char *path, struct head *h)
{
    int fd = amph_quick_open(AT_FDCWD, path, 0);

    if (fd < 0)
        return -1;

    long n = amph_quick_stat(fd, &h->st) && (h->st.stx_mode & S_IFMT) == S_IFREG
                 ? amph_quick_pread(fd, h->bytes, sizeof h->bytes, 0)
                 : -1;

    if (n > 0) {
        h->len = (size_t)n;
        return fd;
    }

    amph_quick_close(fd);
    return -1;
}

static bool is_own_machine(const struct head *h)
{
    const ElfW(Ehdr) *eh = (const void *)h->bytes;

    return h->len >= sizeof *eh && amph_quick_same(h->bytes, ELFMAG, SELFMAG) &&
           eh->e_ident[EI_CLASS] == __ehdr_start.e_ident[EI_CLASS] &&
           eh->e_ident[EI_DATA] == __ehdr_start.e_ident[EI_DATA] &&
           eh->e_machine == __ehdr_start.e_machine;
}

/* Are the segments in the head, and does the file contain all that is loaded of it? */
static bool has_segments(const struct head *h)
{
    const ElfW(Ehdr) *eh = (const void *)h->bytes;
    const ElfW(Phdr) *ph = (const void *)(h->bytes + eh->e_phoff);
    bool loads = false;

    if ((eh->e_type != ET_EXEC && eh->e_type != ET_DYN) || eh->e_phentsize != sizeof *ph ||
        eh->e_phnum > SEGMENTS_MAX || eh->e_phoff % sizeof(uint64_t) != 0 ||
        !is_within(h, eh->e_phoff, eh->e_phnum * sizeof *ph))
        return false;

    for (unsigned i = 0; i < eh->e_phnum; i++) {
        if (ph[i].p_type != PT_LOAD)
            continue;

        loads = true;
        if (ph[i].p_filesz > h->st.stx_size || ph[i].p_offset > h->st.stx_size - ph[i].p_filesz)
            return false;
    }

    return loads;
}

/* Is this the dynamic linker of the GNU C library? */
static bool is_usual_linker(const struct head *h, const ElfW(Phdr) * ph)
{
    if (ph->p_filesz == 0 || !is_within(h, ph->p_offset, ph->p_filesz))
        return false;

    const char *path = h->bytes + ph->p_offset;

    return path[ph->p_filesz - 1] == 0 && amph_quick_begins(amph_quick_base(path), "ld-linux");
}

static uint64_t padded(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

/* Are these notes complete, and none of Go or of iofwd-cc? */
static bool are_usual_notes(const struct head *h, const ElfW(Phdr) * ph)
{
    uint64_t align = ph->p_align == 8 ? 8 : 4;

    if (ph->p_offset % sizeof(ElfW(Word)) != 0 || !is_within(h, ph->p_offset, ph->p_filesz))
        return false;

    for (uint64_t at = 0; ph->p_filesz - at >= sizeof(ElfW(Nhdr));) {
        const char *from = h->bytes + ph->p_offset + at;
        const ElfW(Nhdr) *note = (const void *)from;
        const char *name = from + sizeof *note;
        uint64_t text = padded(sizeof *note + note->n_namesz, align);
        uint64_t end = padded(text + note->n_descsz, align);

        if (end > ph->p_filesz - at)
            return false;
        if (note->n_namesz == sizeof "Go" && amph_quick_same(name, "Go", sizeof "Go"))
            return false;
        if (note->n_namesz == sizeof AMPH_NOTE_NAME &&
            amph_quick_same(name, AMPH_NOTE_NAME, sizeof AMPH_NOTE_NAME))
            return false;

        at += end;
    }

    return true;
}

/* A Go program may have been linked without a note.  Its section of build information stays. */
static bool may_be_go(const struct head *h, int fd)
{
    static const char section[] = ".go.buildinfo";
    const ElfW(Ehdr) *eh = (const void *)h->bytes;
    ElfW(Shdr) names;
    char text[NAMES_BYTES];

    if (eh->e_shnum == 0)
        return false;
    if (eh->e_shentsize != sizeof names || eh->e_shstrndx >= eh->e_shnum ||
        amph_quick_pread(fd, &names, sizeof names,
                         (long)(eh->e_shoff + eh->e_shstrndx * sizeof names)) != sizeof names ||
        names.sh_size > sizeof text)
        return true;

    long n = amph_quick_pread(fd, text, names.sh_size, (long)names.sh_offset);

    if (n < 0 || (uint64_t)n != names.sh_size)
        return true;

    for (size_t at = 0; at + sizeof section <= names.sh_size; at++)
        if (text[at] == '.' && amph_quick_same(text + at, section, sizeof section))
            return true;

    return false;
}

/* May the program gain rights, so that the dynamic linker ignores LD_PRELOAD? */
static bool may_gain_rights(const struct head *h, int fd, const struct amph_quick_user *user)
{
    char capabilities[64];

    if ((h->st.stx_mode & (S_ISUID | S_ISGID)) || user->uid != user->euid ||
        user->gid != user->egid)
        return true;

    return user->uid != 0 && amph_quick_call(SYS_fgetxattr, fd, (long)"security.capability",
                                             (long)capabilities, sizeof capabilities) > 0;
}

static bool is_usual_program(const struct head *h, int fd, const struct amph_quick_user *user)
{
    const ElfW(Ehdr) *eh = (const void *)h->bytes;
    bool dynamic = false;

    if (!is_own_machine(h) || !has_segments(h))
        return false;

    const ElfW(Phdr) *ph = (const void *)(h->bytes + eh->e_phoff);

    for (unsigned i = 0; i < eh->e_phnum; i++) {
        if (ph[i].p_type == PT_NOTE && !are_usual_notes(h, &ph[i]))
            return false;
        if (ph[i].p_type == PT_INTERP && !is_usual_linker(h, &ph[i]))
            return false;

        dynamic |= ph[i].p_type == PT_INTERP;
    }

    return dynamic && !may_be_go(h, fd) && !may_gain_rights(h, fd, user);
}

/* Puts a script's interpreter into path.  Returns false if the file is no script. */
static bool take_interpreter(const struct head *h, char path[SCRIPT_LINE + 1])
{
    size_t len = h->len < SCRIPT_LINE ? h->len : SCRIPT_LINE;
    size_t n = 0;
    size_t at = 2;

    if (len < 2 || h->bytes[0] != '#' || h->bytes[1] != '!')
        return false;

    while (at < len && (h->bytes[at] == ' ' || h->bytes[at] == '\t'))
        at++;

    while (at < len && h->bytes[at] && h->bytes[at] != ' ' && h->bytes[at] != '\t' &&
           h->bytes[at] != '\n')
        path[n++] = h->bytes[at++];

    path[n] = 0;
    return true;
}

bool amph_quick_suits(const char *path, const struct amph_quick_user *user)
{
    char interpreter[SCRIPT_LINE + 1];
    struct head h;

    for (int i = 0; i < INTERPRETERS; i++) {
        int fd = open_head(path, &h);

        if (fd < 0)
            return false;

        bool script = take_interpreter(&h, interpreter);
        bool suits = !script && is_usual_program(&h, fd, user);

        amph_quick_close(fd);
        if (!script)
            return suits;

        path = interpreter;
    }

    return false;
}

bool amph_quick_is_library(const char *path)
{
    struct head h;
    int fd = open_head(path, &h);

    if (fd < 0)
        return false;

    amph_quick_close(fd);
    return is_own_machine(&h) && has_segments(&h);
}
