/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/program/program_image.c: kinds of programs, made here header by header, and what no header bounds:
 * 100,000 damaged files.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/program/note.h"
#include "base/program/program_image.h"

#define FILE_BYTES 4096
#define LINKER_AT 1024
#define NOTE_AT 1100
#define DYNAMIC_AT 1200
#define SECTIONS_AT 2048
#define NAMES_AT 3000

/* The file that the functions below read. */
static struct {
    char bytes[FILE_BYTES];
    size_t len;
    mode_t mode;
    uid_t owner;
    bool nosuid, capable;
} file;

static int file_open(const char *path)
{
    return strcmp(path, "/nowhere") == 0 ? -1 : 7;
}

static int file_close(int fd)
{
    cr_assert_eq(fd, 7);
    return 0;
}

static int file_stat(int fd, struct stat *st)
{
    *st = (struct stat){
        .st_mode = file.mode, .st_uid = file.owner, .st_gid = getegid(), .st_dev = 3, .st_ino = 11
    };
    return 0;
}

static int file_statvfs(int fd, struct statvfs *fs)
{
    *fs = (struct statvfs){ .f_flag = file.nosuid ? ST_NOSUID : 0 };
    return 0;
}

static ssize_t file_xattr(int fd, const char *name, void *value, size_t len)
{
    return file.capable ? 20 : -1;
}

static ssize_t file_read(int fd, void *buf, size_t len, off_t at)
{
    cr_assert_geq(at, 0);
    if ((size_t)at >= file.len)
        return 0;

    size_t n = file.len - (size_t)at < len ? file.len - (size_t)at : len;

    memcpy(buf, file.bytes + at, n);
    return (ssize_t)n;
}

static const struct amph_image_calls calls = { file_open,    file_close, file_stat,
                                               file_statvfs, file_xattr, file_read };

static ElfW(Ehdr) * header(void)
{
    return (void *)file.bytes;
}

static void add_segment(ElfW(Word) type, size_t at, size_t len)
{
    ElfW(Phdr) *ph = (void *)(file.bytes + sizeof(ElfW(Ehdr)));

    ph[header()->e_phnum++] = (ElfW(
        Phdr)){ .p_type = type, .p_offset = at, .p_filesz = len, .p_align = 4 };
}

/* A program of this machine with nothing but code. */
static void make_program(void)
{
    int fd = open("/proc/self/exe", O_RDONLY);

    memset(&file, 0, sizeof file);
    file.len = sizeof file.bytes;
    file.mode = S_IFREG | 0755;
    file.owner = geteuid();
    cr_assert_eq(read(fd, file.bytes, sizeof(ElfW(Ehdr))), (ssize_t)sizeof(ElfW(Ehdr)));
    close(fd);

    header()->e_phoff = sizeof(ElfW(Ehdr));
    header()->e_phnum = header()->e_shnum = header()->e_shstrndx = 0;
    header()->e_shoff = SECTIONS_AT;
    add_segment(PT_LOAD, 0, FILE_BYTES);
}

static void add_linker(const char *path)
{
    strcpy(file.bytes + LINKER_AT, path);
    add_segment(PT_INTERP, LINKER_AT, strlen(path) + 1);
}

static void add_note(const char *name, unsigned type)
{
    ElfW(Nhdr) note = { .n_namesz = (unsigned)strlen(name) + 1, .n_descsz = 4, .n_type = type };

    memcpy(file.bytes + NOTE_AT, &note, sizeof note);
    strcpy(file.bytes + NOTE_AT + sizeof note, name);
    add_segment(PT_NOTE, NOTE_AT, sizeof note + 12);
}

static void add_soname(void)
{
    ElfW(Dyn) dyn[2] = { { .d_tag = DT_SONAME }, { .d_tag = DT_NULL } };

    memcpy(file.bytes + DYNAMIC_AT, dyn, sizeof dyn);
    add_segment(PT_DYNAMIC, DYNAMIC_AT, sizeof dyn);
}

static void add_section(const char *name)
{
    ElfW(Shdr) names = { .sh_offset = NAMES_AT, .sh_size = strlen(name) + 2 };

    strcpy(file.bytes + NAMES_AT + 1, name);
    memcpy(file.bytes + SECTIONS_AT, &names, sizeof names);
    header()->e_shentsize = sizeof names;
    header()->e_shnum = 1;
}

static enum amph_image_kind kind(void)
{
    struct amph_image image;

    errno = EPROTO;
    amph_image_look(&calls, "/bin/prog", &image);
    cr_assert_eq(errno, EPROTO);
    return image.kind;
}

Test(program_image, static_and_dynamic)
{
    make_program();
    cr_assert_eq(kind(), AMPH_IMAGE_STATIC);
    add_linker("/lib64/ld-linux-x86-64.so.2");
    cr_assert_eq(kind(), AMPH_IMAGE_FORWARDS);

    make_program();
    add_linker("/lib/ld-musl-x86_64.so.1");
    cr_assert_eq(kind(), AMPH_IMAGE_OTHER_LIBC);
}

/* ld.so starts programs, too, into which it loads the preload library. */
Test(program_image, dynamic_linker_itself)
{
    make_program();
    add_soname();
    cr_assert_eq(kind(), AMPH_IMAGE_FORWARDS);
}

Test(program_image, linked_with_the_calls)
{
    make_program();
    add_note(AMPH_NOTE_NAME, AMPH_NOTE_FORWARDS);
    cr_assert_eq(kind(), AMPH_IMAGE_FORWARDS);

    /* a GASNet client that is static: its plain calls are nobody's */
    make_program();
    add_note(AMPH_NOTE_NAME, AMPH_NOTE_JOB);
    cr_assert_eq(kind(), AMPH_IMAGE_STATIC);
}

Test(program_image, go)
{
    make_program();
    add_note("Go", 4);
    cr_assert_eq(kind(), AMPH_IMAGE_GO);

    /* dynamic, and without a build id */
    make_program();
    add_linker("/lib64/ld-linux-x86-64.so.2");
    add_section(".go.buildinfo");
    cr_assert_eq(kind(), AMPH_IMAGE_GO);

    make_program();
    add_linker("/lib64/ld-linux-x86-64.so.2");
    add_section(".gone");
    cr_assert_eq(kind(), AMPH_IMAGE_FORWARDS);
}

Test(program_image, other_machine)
{
    struct amph_image image;
    char text[2048];

    make_program();
    header()->e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS32 : ELFCLASS64;
    cr_assert_eq(kind(), AMPH_IMAGE_OTHER_MACHINE);

    make_program();
    header()->e_ident[EI_DATA] = ELFDATA2MSB;
    memcpy(&header()->e_machine, "\0\x16", 2);
    amph_image_look(&calls, "/bin/prog", &image);
    amph_image_explain(&image, text, sizeof text);
    cr_assert_not_null(strstr(text, "s390x"));
}

Test(program_image, gains_rights)
{
    make_program();
    add_linker("/lib64/ld-linux-x86-64.so.2");
    file.owner = geteuid() + 1;
    cr_assert_eq(kind(), AMPH_IMAGE_FORWARDS);
    file.mode |= S_ISUID;
    cr_assert_eq(kind(), AMPH_IMAGE_PRIVILEGED);
    file.nosuid = true;
    cr_assert_eq(kind(), AMPH_IMAGE_FORWARDS);

    file.nosuid = false;
    file.mode = S_IFREG | 0755;
    file.capable = true;
    cr_assert_eq(kind(), getuid() == 0 ? AMPH_IMAGE_FORWARDS : AMPH_IMAGE_PRIVILEGED);
}

Test(program_image, not_programs)
{
    struct amph_image image;

    make_program();
    file.mode = S_IFIFO | 0755;
    cr_assert_eq(kind(), AMPH_IMAGE_UNKNOWN);

    make_program();
    file.len = 30; /* ends inside of the header */
    cr_assert_eq(kind(), AMPH_IMAGE_UNKNOWN);
    file.len = 0;
    cr_assert_eq(kind(), AMPH_IMAGE_UNKNOWN);

    amph_image_look(&calls, "/nowhere", &image);
    cr_assert_eq(image.kind, AMPH_IMAGE_UNKNOWN);
    cr_assert_not(amph_image_evades(&image));
}

/* valgrind's tools are static, but load the program with its libraries. */
Test(program_image, valgrind)
{
    static const char *const others[] = { "/usr/libexec/valgrind-linux",
                                          "/opt/memcheck-amd64-linux", "/opt/valgrind/x/a-linux",
                                          "/opt/valgrind/prog" };
    struct amph_image image = { .kind = AMPH_IMAGE_STATIC,
                                .path = "/usr/libexec/valgrind/memcheck-amd64-linux" };

    cr_assert_not(amph_image_evades(&image));
    image.kind = AMPH_IMAGE_GO;
    cr_assert(amph_image_evades(&image));

    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        image = (struct amph_image){ .kind = AMPH_IMAGE_STATIC };
        snprintf(image.path, sizeof image.path, "%s", others[i]);
        cr_assert(amph_image_evades(&image), "%s", others[i]);
    }
}

/* A script that is its own interpreter, and one whose first line has no end. */
Test(program_image, scripts)
{
    struct amph_image image;

    make_program();
    strcpy(file.bytes, "#! /bin/prog -x\n");
    cr_assert_eq(kind(), AMPH_IMAGE_UNKNOWN);

    memset(file.bytes + 2, 'x', sizeof file.bytes - 2);
    cr_assert_eq(kind(), AMPH_IMAGE_UNKNOWN);

    strcpy(file.bytes, "#!\t/nowhere\n");
    amph_image_look(&calls, "/bin/script", &image);
    cr_assert_str_eq(image.path, "/nowhere");
}

Test(program_image, every_sentence_fits)
{
    struct amph_image image = { .bits = 32, .machine = EM_386 };
    char text[64];

    memset(image.path, 'p', sizeof image.path - 1);
    for (int k = AMPH_IMAGE_STATIC; k <= AMPH_IMAGE_PRIVILEGED; k++) {
        image.kind = (enum amph_image_kind)k;
        cr_assert(amph_image_evades(&image));
        cr_assert_eq(amph_image_explain(&image, text, sizeof text), sizeof text - 1);
        cr_assert_eq(strlen(text), sizeof text - 1);
    }
}

Test(program_image, damaged_files)
{
    const char *text = getenv("TEST_SEED");
    unsigned seed = text ? (unsigned)atoi(text) : 14;

    printf("# TEST_SEED=%u\n", seed);
    srand(seed);

    for (int i = 0; i < 100000; i++) {
        struct amph_image image;
        char why[2048];

        make_program();
        add_linker("/lib64/ld-linux-x86-64.so.2");
        add_note("Go", 4);
        add_soname();
        add_section(".go.buildinfo");

        for (int k = rand() % 6; k >= 0; k--) {
            int at = rand() % 4 ? rand() % 400 : rand() % FILE_BYTES;
            file.bytes[at] = (char)(rand() % 3 ? rand() : -1);
        }

        if (rand() % 3 == 0)
            file.len = (size_t)(rand() % FILE_BYTES);

        amph_image_look(&calls, "/bin/prog", &image);
        if (amph_image_evades(&image))
            cr_assert_gt(amph_image_explain(&image, why, sizeof why), 0);
    }
}
