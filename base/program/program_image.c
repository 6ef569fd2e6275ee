/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks at program files; see program_image.h.
 *
 * Layer: base.  Thread rule: any thread, also a child of vfork.
 */
#include "base/program/program_image.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/program/note.h"
#include "base/platform.h"

#define SCRIPTS_MAX 5        /* interpreters that are scripts themselves, as the kernel counts */
#define SCRIPT_LINE 256      /* the kernel reads no more of a script's first line */
#define NOTES_BYTES 1024     /* of a segment of notes */
#define NAMES_BYTES 4096     /* of the table of section names */
#define SEGMENTS_BYTES 65536 /* the kernel's bound for the table of segments */
#define GO_NOTE "Go"         /* the owner of a Go build id */
#define GO_SECTION ".go.buildinfo"

/* What the headers say. */
struct facts {
    struct amph_image *image;
    bool elf;     /* the kernel takes it for a program of this machine */
    bool loads;   /* has segments to load */
    bool dynamic; /* names a dynamic linker */
    bool library; /* has a name as a library has, as the dynamic linker itself */
    bool go, forwards;
    bool cut_off;       /* a segment to load ends behind the file */
    const char *linker; /* the dynamic linker's base name, in the image's path of it */
};

struct file {
    const struct amph_image_calls *calls;
    int fd;
    uint64_t len_bytes;
};

/* This library's or program's own header: the machine it was built for. */
extern const ElfW(Ehdr) __ehdr_start AMPH_HIDDEN;

static bool read_at(const struct file *f, void *buf, size_t len, uint64_t at)
{
    return at <= INT64_MAX - len && f->calls->pread(f->fd, buf, len, (off_t)at) == (ssize_t)len;
}

/* Reads what there is, up to cap; returns the length. */
static size_t read_some(const struct file *f, void *buf, size_t cap, uint64_t len, uint64_t at)
{
    if (at > INT64_MAX - cap)
        return 0;

    ssize_t n = f->calls->pread(f->fd, buf, len < cap ? (size_t)len : cap, (off_t)at);

    return n > 0 ? (size_t)n : 0;
}

/* ---- notes ---- */

static size_t padded(size_t n, size_t align)
{
    return (n + align - 1) / align * align;
}

static void take_note(struct facts *facts, const ElfW(Nhdr) * note, const char *name)
{
    if (note->n_namesz == sizeof GO_NOTE && memcmp(name, GO_NOTE, sizeof GO_NOTE) == 0)
        facts->go = true;

    if (note->n_namesz == sizeof AMPH_NOTE_NAME && note->n_type == AMPH_NOTE_FORWARDS &&
        memcmp(name, AMPH_NOTE_NAME, sizeof AMPH_NOTE_NAME) == 0)
        facts->forwards = true;
}

static void read_notes(const struct file *f, const ElfW(Phdr) * ph, struct facts *facts)
{
    char bytes[NOTES_BYTES];
    size_t len = read_some(f, bytes, sizeof bytes, ph->p_filesz, ph->p_offset);
    size_t align = ph->p_align == 8 ? 8 : 4;

    for (size_t at = 0; at < len && len - at >= sizeof(ElfW(Nhdr));) {
        ElfW(Nhdr) note;

        memcpy(&note, bytes + at, sizeof note);
        at += sizeof note;
        if (note.n_namesz > len - at)
            return;

        take_note(facts, &note, bytes + at);
        at += padded(note.n_namesz, align);
        if (at > len || note.n_descsz > len - at)
            return;

        at += padded(note.n_descsz, align);
    }
}

/* ---- segments and sections ---- */

static void read_linker(const struct file *f, const ElfW(Phdr) * ph, struct facts *facts)
{
    char *path = facts->image->linker;
    size_t len = read_some(f, path, sizeof facts->image->linker - 1, ph->p_filesz, ph->p_offset);

    path[len] = 0;

    const char *slash = strrchr(path, '/');

    facts->dynamic = true;
    facts->linker = slash ? slash + 1 : path;
}

static void read_dynamic(const struct file *f, const ElfW(Phdr) * ph, struct facts *facts)
{
    ElfW(Dyn) dyn[32];
    uint64_t at = 0;

    while (at < ph->p_filesz) {
        size_t n = read_some(f, dyn, sizeof dyn, ph->p_filesz - at, ph->p_offset + at) /
                   sizeof *dyn;

        for (size_t i = 0; i < n; i++) {
            if (dyn[i].d_tag == DT_NULL)
                return;

            facts->library |= dyn[i].d_tag == DT_SONAME;
        }

        if (n < AMPH_COUNTOF(dyn))
            return;

        at += sizeof dyn;
    }
}

static void take_segment(const struct file *f, const ElfW(Phdr) * ph, struct facts *facts)
{
    switch (ph->p_type) {
    case PT_LOAD:
        facts->loads = true;
        facts->cut_off |= ph->p_filesz > f->len_bytes || ph->p_offset > f->len_bytes - ph->p_filesz;
        break;
    case PT_INTERP:
        read_linker(f, ph, facts);
        break;
    case PT_DYNAMIC:
        read_dynamic(f, ph, facts);
        break;
    case PT_NOTE:
        read_notes(f, ph, facts);
        break;
    default:
        break;
    }
}

static bool read_segments(const struct file *f, const ElfW(Ehdr) * eh, struct facts *facts)
{
    ElfW(Phdr) ph[16];

    for (size_t at = 0; at < eh->e_phnum; at += AMPH_COUNTOF(ph)) {
        size_t left = eh->e_phnum - at;
        size_t n = left < AMPH_COUNTOF(ph) ? left : AMPH_COUNTOF(ph);

        if (!read_at(f, ph, n * sizeof *ph, eh->e_phoff + at * sizeof *ph))
            return false;

        for (size_t i = 0; i < n; i++)
            take_segment(f, &ph[i], facts);
    }

    return true;
}

/* A Go program may have been linked without a build id.  Its section of build information stays. */
static bool has_go_section(const struct file *f, const ElfW(Ehdr) * eh)
{
    ElfW(Shdr) names;
    char text[NAMES_BYTES];

    if (eh->e_shentsize != sizeof names || eh->e_shstrndx >= eh->e_shnum ||
        !read_at(f, &names, sizeof names, eh->e_shoff + (uint64_t)eh->e_shstrndx * sizeof names))
        return false;

    size_t len = read_some(f, text, sizeof text, names.sh_size, names.sh_offset);

    return memmem(text, len, GO_SECTION, sizeof GO_SECTION) != NULL;
}

/* ---- kinds ---- */

static bool is_own_machine(const ElfW(Ehdr) * eh)
{
    return eh->e_ident[EI_CLASS] == __ehdr_start.e_ident[EI_CLASS] &&
           eh->e_ident[EI_DATA] == __ehdr_start.e_ident[EI_DATA] &&
           eh->e_machine == __ehdr_start.e_machine;
}

/* The machine in the header, which may be in the other byte order. */
static uint16_t machine_of(const ElfW(Ehdr) * eh)
{
    const unsigned char *bytes = (const unsigned char *)&eh->e_machine;

    return eh->e_ident[EI_DATA] == ELFDATA2MSB ? (uint16_t)(bytes[0] << 8 | bytes[1])
                                               : (uint16_t)(bytes[1] << 8 | bytes[0]);
}

static void read_facts(const struct file *f, const ElfW(Ehdr) * eh, struct facts *facts)
{
    bool program = eh->e_type == ET_EXEC || eh->e_type == ET_DYN;

    if (!program || eh->e_phentsize != sizeof(ElfW(Phdr)) || eh->e_phnum == 0 ||
        eh->e_phnum * sizeof(ElfW(Phdr)) > SEGMENTS_BYTES || !read_segments(f, eh, facts) ||
        !facts->loads)
        return;

    facts->elf = true;
    facts->go = facts->go || has_go_section(f, eh);
}

/* Does the kernel mark the program that starts from this file as one that gains rights?  Then the
 * dynamic linker ignores LD_PRELOAD. */
static bool gains_rights(const struct file *f, const struct stat *st)
{
    struct statvfs fs;
    char capabilities[64];
    bool inert = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
                 (f->calls->fstatvfs(f->fd, &fs) == 0 && (fs.f_flag & ST_NOSUID));
    bool set_uid = !inert && (st->st_mode & S_ISUID);
    bool set_gid = !inert && (st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP);

    if ((set_uid ? st->st_uid : geteuid()) != getuid() ||
        (set_gid ? st->st_gid : getegid()) != getgid())
        return true;

    return !inert && getuid() != 0 &&
           f->calls->fgetxattr(f->fd, "security.capability", capabilities, sizeof capabilities) > 0;
}

static enum amph_image_kind kind_of(const struct file *f, const struct stat *st,
                                    const struct facts *facts)
{
    bool linker_itself = !facts->dynamic && facts->library;

    if (!facts->elf)
        return AMPH_IMAGE_UNKNOWN;
    if (facts->forwards)
        return AMPH_IMAGE_FORWARDS;
    if (facts->go)
        return AMPH_IMAGE_GO;
    if (!facts->dynamic && !linker_itself)
        return AMPH_IMAGE_STATIC;
    if (strncmp(facts->linker, "ld-musl", 7) == 0)
        return AMPH_IMAGE_OTHER_LIBC;

    return gains_rights(f, st) ? AMPH_IMAGE_PRIVILEGED : AMPH_IMAGE_FORWARDS;
}

static void look_at(struct file *f, struct amph_image *image)
{
    ElfW(Ehdr) eh = { .e_ident = { 0 } };
    struct stat st;
    struct facts facts = { .image = image, .linker = "" };

    image->kind = AMPH_IMAGE_UNKNOWN;
    image->machine = image->bits = 0;
    image->damaged = image->linked = false;
    image->linker[0] = 0;
    if (f->calls->fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return;

    f->len_bytes = (uint64_t)st.st_size;
    image->dev = st.st_dev;
    image->ino = st.st_ino;

    size_t len = read_some(f, &eh, sizeof eh, sizeof eh, 0);

    if (len < offsetof(ElfW(Ehdr), e_version) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0)
        return;

    image->machine = machine_of(&eh);
    image->bits = eh.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
    if (!is_own_machine(&eh)) {
        image->kind = AMPH_IMAGE_OTHER_MACHINE;
        return;
    }

    if (len == sizeof eh)
        read_facts(f, &eh, &facts);

    image->damaged = !facts.elf || facts.cut_off;
    image->linked = facts.elf && facts.forwards;
    image->kind = kind_of(f, &st, &facts);
}

/* ---- scripts ---- */

/* Puts a script's interpreter into path; false: the file is no script. */
static bool take_interpreter(const struct file *f, char path[PATH_MAX])
{
    static const char blank[] = " \t";
    char line[SCRIPT_LINE];
    size_t n = read_some(f, line, sizeof line - 1, sizeof line - 1, 0);

    line[n] = 0;
    if (line[0] != '#' || line[1] != '!')
        return false;

    char *name = line + 2 + strspn(line + 2, blank);

    name[strcspn(name, " \t\n")] = 0;
    memcpy(path, name, strlen(name) + 1);
    return path[0] != 0;
}

void amph_image_look(const struct amph_image_calls *calls, const char *path,
                     struct amph_image *image_p)
{
    int saved = errno;

    *image_p = (struct amph_image){ .kind = AMPH_IMAGE_UNKNOWN };
    snprintf(image_p->path, sizeof image_p->path, "%s", path);

    for (int i = 0; i <= SCRIPTS_MAX; i++) {
        struct stat st;
        struct file f = { calls, calls->open(image_p->path), 0 };

        if (f.fd < 0)
            break;

        bool script = calls->fstat(f.fd, &st) == 0 && S_ISREG(st.st_mode) &&
                      take_interpreter(&f, image_p->path);

        if (!script)
            look_at(&f, image_p);

        calls->close(f.fd);
        if (!script)
            break;
    }

    errno = saved;
}

void amph_image_look_at(const struct amph_image_calls *calls, int fd, const char *path,
                        struct amph_image *image_p)
{
    int saved = errno;

    *image_p = (struct amph_image){ .kind = AMPH_IMAGE_UNKNOWN };
    snprintf(image_p->path, sizeof image_p->path, "%s", path);
    look_at(&(struct file){ calls, fd, 0 }, image_p);
    errno = saved;
}

/* ---- sentences ---- */

static const struct {
    uint16_t machine;
    const char *name;
} machines[] = {
    { EM_X86_64, "x86-64" }, { EM_386, "i386" },    { EM_AARCH64, "aarch64" },
    { EM_ARM, "arm" },       { EM_PPC64, "ppc64" }, { EM_S390, "s390x" },
    { EM_RISCV, "riscv" },   { EM_MIPS, "mips" },   { EM_SPARCV9, "sparc64" },
};

const char *amph_image_machine_name(uint16_t machine)
{
    for (size_t i = 0; i < AMPH_COUNTOF(machines); i++)
        if (machines[i].machine == machine)
            return machines[i].name;

    return "another kind of machine";
}

/* valgrind/memcheck-amd64-linux; LD_PRELOAD is among the libraries that it loads. */
bool amph_image_loads_programs(const struct amph_image *image)
{
    static const char folder[] = "/valgrind/";
    static const char end[] = "-linux";

    if (image->kind != AMPH_IMAGE_STATIC)
        return false;

    const char *name = strstr(image->path, folder);

    if (!name)
        return false;

    name += sizeof folder - 1;

    size_t len = strlen(name);

    return !strchr(name, '/') && len >= sizeof end && strcmp(name + len - sizeof end + 1, end) == 0;
}

bool amph_image_evades(const struct amph_image *image)
{
    return image->kind != AMPH_IMAGE_UNKNOWN && image->kind != AMPH_IMAGE_FORWARDS &&
           !amph_image_loads_programs(image);
}

/* Why the preload library does not catch the calls of a program of another machine or word size. */
static void describe_machine(const struct amph_image *image, char *buf, size_t cap)
{
    int own_bits = (int)sizeof(void *) * 8;

    snprintf(buf, cap, "is a %d-bit program for %s, and the preload library is a %d-bit one for %s",
             image->bits, amph_image_machine_name(image->machine), own_bits,
             amph_image_machine_name(__ehdr_start.e_machine));
}

#define BY_MOUNT "start it, or what starts it, by \"iofwd-run -mount\""

size_t amph_image_explain(const struct amph_image *image, char *buf, size_t cap)
{
    static const struct {
        const char *cause, *remedy;
    } texts[] = {
        [AMPH_IMAGE_STATIC] = { "is statically linked", BY_MOUNT ", or link it by iofwd-cc" },
        [AMPH_IMAGE_GO] = { "contains Go code, which makes system calls without the C library",
                            BY_MOUNT },
        [AMPH_IMAGE_OTHER_LIBC] = { "uses another C library (musl), into which the preload library "
                                    "cannot be loaded",
                                    BY_MOUNT ", or build it with glibc" },
        [AMPH_IMAGE_OTHER_MACHINE] = { NULL, BY_MOUNT ", or build it for this machine" },
        [AMPH_IMAGE_PRIVILEGED] = { "runs with other rights than its caller (set-uid, set-gid or "
                                    "file capabilities), and the dynamic linker loads no preload "
                                    "library into it",
                                    "mount the prefix by iofwd-mount as a user with these rights, "
                                    "or take a copy without them" },
    };
    const char *remedy = (size_t)image->kind < AMPH_COUNTOF(texts) ? texts[image->kind].remedy
                                                                   : NULL;
    char machine[256];

    if (!remedy)
        return 0;

    const char *cause = texts[image->kind].cause;

    if (!cause) {
        describe_machine(image, machine, sizeof machine);
        cause = machine;
    }

    int n = snprintf(buf, cap,
                     "%.900s %s, so its file calls are not forwarded and name files of this host; "
                     "%s",
                     image->path, cause, remedy);

    if (n < 0)
        return 0;

    return (size_t)n < cap ? (size_t)n : cap - 1;
}

#undef BY_MOUNT

size_t amph_image_explain_record(const struct amph_image *image, char *buf, size_t cap)
{
    static const struct {
        const char *cause, *remedy;
    } texts[] = {
        [AMPH_IMAGE_STATIC] = { "is statically linked",
                                "link it by iofwd-cc, or with the shared C library" },
        [AMPH_IMAGE_GO] = { "contains Go code, which makes system calls without the C library",
                            "strace -f shows them" },
        [AMPH_IMAGE_OTHER_LIBC] = { "uses another C library (musl)", "build it with glibc" },
        [AMPH_IMAGE_OTHER_MACHINE] = { "is built for another machine or word size than the "
                                       "recorder",
                                       "build it for this one" },
        [AMPH_IMAGE_PRIVILEGED] = { "runs with other rights than its caller",
                                    "take a copy without them" },
    };

    if (!amph_image_evades(image))
        return 0;

    int n = snprintf(buf, cap, "%.900s %s, so its file calls are not recorded; %s", image->path,
                     texts[image->kind].cause, texts[image->kind].remedy);

    if (n < 0)
        return 0;

    return (size_t)n < cap ? (size_t)n : cap - 1;
}
