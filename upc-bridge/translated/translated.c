/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions that translated programs (upcxlate) call: program start, shared objects, and each
 * inline function of upc_bridge.h as an external function with the same arguments
 * (upc-bridge/include declares them in UPC).
 *
 * Layer: upc-bridge.  Thread rule: one thread.
 */
#include "upc-bridge/translated/translated.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* environ */

#include "upc-bridge/include/upcx.h"
#include "upc-bridge/upc.h"

static void die(const char *text, const char *a, const char *b)
{
    if (upc_self.mythread == 0)
        fprintf(stderr, "amphora-upc: %s%s%s\n", text, a, b);

    _exit(1);
}

void upcx_null(void)
{
    fprintf(stderr, "amphora-upc: thread %d: a null pointer-to-shared is used to read or write\n",
            upc_self.mythread);
    abort();
}

/* ---- objects ---- */

static void define_object(const struct upcx_object *o)
{
    struct upc_static *s = calloc(1, sizeof *s);

    if (s == NULL) { /* perhaps in this process alone, so it says so whatever its thread */
        fprintf(stderr,
                "amphora-upc: out of memory for the shared object %s; raise the limits of memory "
                "(ulimit -v and -d)\n",
                o->name);
        _exit(1);
    }

    s->pts = o->pts;
    s->name = o->name;
    s->elem_size = o->size;
    s->block = o->block;
    s->count = o->count;
    s->initial = o->initial;
    upc_static_add(s);
}

void upcx_unit_add(struct upcx_unit *unit)
{
    struct upcx_unit **tail = &amph_upc.translated.units;

    while (*tail)
        tail = &(*tail)->next;

    *tail = unit;
    for (struct upcx_object *const *o = unit->objects; *o; o++)
        if ((*o)->kind)
            define_object(*o);
}

/* Returns the definition of the object that another file declares as o; NULL if it is not in UPC. */
static const struct upcx_object *definition(const struct upcx_object *o)
{
    for (struct upcx_unit *u = amph_upc.translated.units; u; u = u->next)
        for (struct upcx_object *const *d = u->objects; *d; d++)
            if ((*d)->kind == 1 && (*d)->pts == o->pts)
                return *d;

    return NULL;
}

/* Checks that declarations and definitions of shared objects agree, because the linker only compares
 * their names. */
static void check_declarations(void)
{
    for (struct upcx_unit *u = amph_upc.translated.units; u; u = u->next)
        for (struct upcx_object *const *at = u->objects; *at; at++) {
            const struct upcx_object *o = *at;
            const struct upcx_object *d = o->kind == 0 ? definition(o) : NULL;

            if (d == NULL)
                continue;

            if (o->size != d->size)
                die("an element's size differs between the files that declare ", o->name, "");

            if (o->block() != d->block())
                die("the block size differs between the files that declare ", o->name, "");

            if (o->count() && o->count() != d->count())
                die("the number of elements differs between the files that declare ", o->name, "");
        }
}

void upcx_object_set(upcx_pts object, const char *name, const void *value, size_t bytes,
                     size_t size, size_t block, size_t count)
{
    if (bytes / size > count)
        die("there are more initial values than elements of the shared array ", name, "");

    for (size_t i = 0; i < bytes / size; i++)
        upcx_put(upcx_add(object, (ptrdiff_t)i, size, block), (const char *)value + i * size, size);
}

/* ---- start ---- */

static int call_main(int argc, char **argv)
{
    check_declarations();
    for (struct upcx_unit *u = amph_upc.translated.units; u; u = u->next)
        u->values();

    return amph_upc.translated.user_main(argc, argv, environ);
}

int upcx_main(int argc, char **argv, char **envp, int (*call)(int, char **, char **))
{
    int threads = amph_upc.translated.units ? amph_upc.translated.units->threads : 0;

    (void)envp;
    amph_upc.translated.user_main = call;

    for (struct upcx_unit *u = amph_upc.translated.units; u; u = u->next)
        if (u->threads != threads) {
            fprintf(stderr,
                    "amphora-upc: %s and %s were compiled for different numbers of threads "
                    "(amphora-upcc -T)\n",
                    amph_upc.translated.units->file, u->file);
            return 1;
        }

    return upc_run(argc, argv, call_main, UPC_PTS_FORM, threads);
}

/* ---- statements ---- */

void upcx_barrier(int has_value, int value)
{
    if (has_value)
        upc_barrier_value(value);
    else
        upc_barrier();
}

void upcx_notify(int has_value, int value)
{
    if (has_value)
        upc_notify_value(value);
    else
        upc_notify();
}

void upcx_wait(int has_value, int value)
{
    if (has_value)
        upc_wait_value(value);
    else
        upc_wait();
}

/* ---- the library ---- */

/* clang-format off */
UPCX_VALUE(upc_pts_t, global_alloc, (size_t n, size_t b), (n, b))
UPCX_VALUE(upc_pts_t, all_alloc, (size_t n, size_t b), (n, b))
UPCX_VALUE(upc_pts_t, alloc, (size_t n), (n))
UPCX_VOID(free, (upc_pts_t p), (p))
UPCX_VOID(all_free, (upc_pts_t p), (p))
/* clang-format on */

/* clang-format off */
UPCX_VALUE(size_t, threadof, (upc_pts_t p), (p))
UPCX_VALUE(size_t, phaseof, (upc_pts_t p), (p))
UPCX_VALUE(upc_pts_t, resetphase, (upc_pts_t p), (p))
UPCX_VALUE(size_t, addrfield, (upc_pts_t p), (p))
UPCX_VALUE(size_t, affinitysize, (size_t total, size_t nbytes, size_t thread), (total, nbytes, thread))
UPCX_VALUE(void *, cast, (upc_pts_t p), (p))
/* clang-format on */

/* clang-format off */
UPCX_VOID(memcpy, (upc_pts_t dst, upc_pts_t src, size_t n), (dst, src, n))
UPCX_VOID(memget, (void *dst, upc_pts_t src, size_t n), (dst, src, n))
UPCX_VOID(memput, (upc_pts_t dst, const void *src, size_t n), (dst, src, n))
UPCX_VOID(memset, (upc_pts_t dst, int c, size_t n), (dst, c, n))
UPCX_VALUE(upc_handle_t, memcpy_nb, (upc_pts_t dst, upc_pts_t src, size_t n), (dst, src, n))
UPCX_VALUE(upc_handle_t, memget_nb, (void *dst, upc_pts_t src, size_t n), (dst, src, n))
UPCX_VALUE(upc_handle_t, memput_nb, (upc_pts_t dst, const void *src, size_t n), (dst, src, n))
UPCX_VALUE(upc_handle_t, memset_nb, (upc_pts_t dst, int c, size_t n), (dst, c, n))
UPCX_VOID(memcpy_nbi, (upc_pts_t dst, upc_pts_t src, size_t n), (dst, src, n))
UPCX_VOID(memget_nbi, (void *dst, upc_pts_t src, size_t n), (dst, src, n))
UPCX_VOID(memput_nbi, (upc_pts_t dst, const void *src, size_t n), (dst, src, n))
UPCX_VOID(memset_nbi, (upc_pts_t dst, int c, size_t n), (dst, c, n))
/* clang-format on */
