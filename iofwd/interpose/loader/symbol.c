/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dlsym: functions that a program looks up in the handle of a library (Python's ctypes, Java's JNA and
 * FFM).  The C library's, where they are found, would miss forwarded files; this library's are returned
 * instead, if it defines them.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 *
 * With RTLD_DEFAULT and RTLD_NEXT the linker searches from the object that holds the return address.  So such
 * a call must be a jump to the C library's dlsym, with the return address of our caller.  On 64-bit PowerPC
 * compilers make no such jumps to addresses that are found at run time: there dlsym is not caught.
 *
 * Besides: is a function the C library's, and is this library in front of that?
 */
#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/platform.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/state.h"
#include "iofwd/interpose/loader/elf_deps.h"

/* ---- is a function the C library's? ---- */

static bool is_libc(const struct dl_phdr_info *info)
{
    const char *slash = strrchr(info->dlpi_name, '/');

    return strcmp(slash ? slash + 1 : info->dlpi_name, LIBC_SO) == 0;
}

/* Notes where the C library's code is. */
static int note_libc(struct dl_phdr_info *info, size_t size, void *unused)
{
    if (!is_libc(info))
        return 0;

    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];

        if (h->p_type == PT_LOAD && (h->p_flags & PF_X)) {
            __atomic_store_n(&amph_ip_loader.libc_code, info->dlpi_addr + h->p_vaddr,
                             __ATOMIC_RELAXED);
            __atomic_store_n(&amph_ip_loader.libc_code_len, h->p_memsz, __ATOMIC_RELEASE);
        }
    }

    return 1;
}

static bool is_of_libc(const void *function)
{
    if (!__atomic_load_n(&amph_ip_loader.libc_code_len, __ATOMIC_ACQUIRE))
        dl_iterate_phdr(note_libc, NULL);

    return (uintptr_t)function - __atomic_load_n(&amph_ip_loader.libc_code, __ATOMIC_RELAXED) <
           __atomic_load_n(&amph_ip_loader.libc_code_len, __ATOMIC_ACQUIRE);
}

/* ---- the order of the objects: is this library in front of the C library? ---- */

/* Where the linker has put this library's first byte. */
extern const char __ehdr_start[] AMPH_HIDDEN;

/* The linker's list of objects begins in the order in which it searches them. */
static int find_first(struct dl_phdr_info *info, size_t size, void *in_front_p)
{
    const bool own = info->dlpi_addr == (uintptr_t)__ehdr_start;

    *(bool *)in_front_p = own;
    return own || is_libc(info);
}

/* The address of a function does not tell: a program that is not position-independent may have an entry of its own
 * for it, which then is its address everywhere; on s390x it has one for each function that it calls. */
bool amph_ip_is_in_front(void)
{
    bool in_front = false;

    dl_iterate_phdr(find_first, &in_front);
    return in_front;
}

struct position {
    unsigned before; /* objects so far */
    bool found;
};

static int count_before(struct dl_phdr_info *info, size_t size, void *position_p)
{
    struct position *position = position_p;

    position->found = info->dlpi_addr == (uintptr_t)__ehdr_start;

    /* the kernel's page has a place in the list, and no functions that count */
    bool counts = strncmp(info->dlpi_name, "linux-", 6) != 0;

    position->before += !position->found && counts;
    return position->found;
}

/* Is only the program in front of this library? */
static bool is_second(void)
{
    struct position position = { 0, false };

    dl_iterate_phdr(count_before, &position);
    return position.found && position.before == 1;
}

/* ---- does the program have a malloc of its own? ---- */

/* Is it the entry of the program for a function that it only calls?  That is the function's address everywhere in a
 * program that is not position-independent and takes the address. */
static bool is_programs_entry(const void *function)
{
    void *symbol = NULL;
    Dl_info info;

    return dladdr1(function, &info, &symbol, RTLD_DL_SYMENT) && symbol &&
           ((const ElfW(Sym) *)symbol)->st_shndx == SHN_UNDEF;
}

bool amph_ip_has_own_malloc(void)
{
    const void *function = dlsym(RTLD_DEFAULT, "malloc");

    /* the definition is behind the program, and so behind this library if no other is between */
    if (is_programs_entry(function) && is_second())
        function = dlsym(RTLD_NEXT, "malloc");

    return !is_of_libc(function);
}

/* ---- what a program gets ---- */

#ifndef __powerpc64__

/* A call that ends a function jumps. */
#if defined __has_attribute && __has_attribute(musttail)
#define JUMPS
#define JUMP __attribute__((musttail))
#else
#define JUMPS __attribute__((optimize("O2", "optimize-sibling-calls")))
#define JUMP
#endif

/* Versions of dlsym: that of glibc 2.34, of machines that came to glibc later, and of older glibcs by machine. */
static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.35", "GLIBC_2.36",
                                        "GLIBC_2.17", "GLIBC_2.4",  "GLIBC_2.2.5",
                                        "GLIBC_2.2",  "GLIBC_2.0",  "GLIBC_2.27" };

static amph_ip_dlsym_fn find_real(void)
{
    void *real = NULL;

    for (size_t i = 0; i < AMPH_COUNTOF(versions) && !real; i++)
        real = dlvsym(RTLD_NEXT, "dlsym", versions[i]);

    __atomic_store_n(&amph_ip_loader.dlsym, (amph_ip_dlsym_fn)(uintptr_t)real, __ATOMIC_RELAXED);
    return (amph_ip_dlsym_fn)(uintptr_t)real;
}

/* This library, behind which the linker searches the C library, the only one that it needs. */
static void *own_handle(void)
{
    void *own = __atomic_load_n(&amph_ip_loader.own, __ATOMIC_ACQUIRE);
    const char *path = own ? NULL : amph_ip_library_path();

    if (own || !path)
        return own;

    own = libc_dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    __atomic_store_n(&amph_ip_loader.own, own, __ATOMIC_RELEASE);
    return own;
}

/* Not if a library behind this one defines the function, too: our function calls that, which may be the one that looks
 * up the C library's. */
static void *in_front_of(void *function, const char *name, amph_ip_dlsym_fn real)
{
    bool ours = is_of_libc(function) && real(RTLD_NEXT, name) == function;
    void *own = ours ? own_handle() : NULL;

    return own ? real(own, name) : function;
}

/* Is it the C library's answer that counts, whatever it is?  The linker searches from the caller on; or nothing is
 * forwarded or recorded. */
static bool is_left_to_libc(const void *handle)
{
    return handle == RTLD_DEFAULT || handle == RTLD_NEXT || amph_ip_inside ||
           !(amph_ip_state.on || amph_ip_state.trace);
}

void *caught(void *restrict handle,
             const char *restrict name) __asm__("dlsym") JUMPS AMPH_IP_EXPORT;

void *caught(void *restrict handle, const char *restrict name)
{
    amph_ip_dlsym_fn real = __atomic_load_n(&amph_ip_loader.dlsym, __ATOMIC_RELAXED);

    if (AMPH_UNLIKELY(!real))
        real = find_real();

    if (is_left_to_libc(handle))
        JUMP return real(handle, name);

    void *found = real(handle, name);

    return found ? in_front_of(found, name, real) : NULL;
}

#endif
