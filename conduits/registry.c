/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of conduits, the choice of one, and loading the module of those that need libfabric.
 * Layer: conduits.  Thread rule: any thread; the first call that needs the module loads it once.
 */
#include <dlfcn.h>
#include <libgen.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/log.h"
#include "conduits/conduit.h"
#include "conduits/emulate.h"
#include "conduits/port.h"
#include "conduits/psm_absent.h"

#define MODULE "amphora_ofi.so"
#define MODULE_ENTRY "amph_ofi_conduits"
#define MAX_CONDUITS 8

/* Present where a program links the conduits statically. */
extern const struct amph_conduit_ops *const *amph_ofi_conduits(void) __attribute__((weak));
#pragma weak amph_conduit_port_ofi_ops

/* The conduits that need no module. */
static const struct built_in {
    const struct amph_conduit_ops *ops;
    bool one_host; /* reaches processes of this host only */
    bool datagram; /* sends datagrams, which the wire may lose */
    enum amph_self_start self_start;
} built_in[] = {
    { &amph_smp_ops, .one_host = true, .self_start = AMPH_SELF_START_SETTING },
    { &amph_udp_ops, .datagram = true, .self_start = AMPH_SELF_START_ARGUMENT },
};

/* The names that no row of a conduit holds. */
static const char auto_name[] = "auto";
static const char default_network[] = "tcp";

/* All state of conduits/ itself. */
static struct {
    pthread_once_t once;
    const struct amph_conduit_ops *list[MAX_CONDUITS + 1]; /* NULL ends it */
    void *module;                                          /* dlopen's handle, or NULL */
    char module_error[512];                                /* why no module was loaded, or "" */
    bool module_exists;                                    /* the error is of one that exists */
} state = { .once = PTHREAD_ONCE_INIT };

enum amph_status amph_conduit_no_prepare(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                         size_t *len_bytes_p, void **buf_p)
{
    return AMPH_ERR_NOSYS;
}

enum amph_status amph_conduit_no_commit(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                        const struct amph_am *am)
{
    return AMPH_ERR_NOSYS;
}

enum amph_status amph_conduit_no_atomic(struct amph_cx *cx, uint32_t peer,
                                        const struct amph_rmem *rmem, uint64_t offset,
                                        unsigned opcode, unsigned type, uint64_t operand1,
                                        uint64_t operand2, uint64_t *result, struct amph_op *done)
{
    return AMPH_ERR_NOSYS;
}

void amph_conduit_no_flush(struct amph_cx *cx)
{
}

struct amph_cx_counts amph_conduit_no_counts(struct amph_cx *cx, uint32_t peer)
{
    return (struct amph_cx_counts){ 0 };
}

void amph_conduit_no_peer_gone(struct amph_cx *cx, uint32_t peer)
{
}

void amph_conduit_no_tick(struct amph_cx *cx, uint64_t now_ns)
{
}

static int is_libc(struct dl_phdr_info *info, size_t size, void *arg)
{
    return strstr(info->dlpi_name, "libc.so") != NULL;
}

/* Calls dlopen and restores all signal handlers.  Some libraries that libfabric loads
 * (libinfinipath) install handlers that print a trace and call exit(1), so the job would see an
 * exit code instead of the signal that killed the process. */
static void *load_quietly(const char *path)
{
    struct sigaction before[NSIG], after;

    for (int sig = 1; sig < NSIG; sig++)
        if (sigaction(sig, NULL, &before[sig]) != 0)
            before[sig].sa_handler = SIG_ERR;

    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    for (int sig = 1; sig < NSIG; sig++)
        if (before[sig].sa_handler != SIG_ERR && sigaction(sig, NULL, &after) == 0 &&
            after.sa_handler != before[sig].sa_handler)
            sigaction(sig, &before[sig], NULL);

    return module;
}

/* The object that defines a function; NULL: an unknown one, or a program's entry that leads elsewhere. */
static const void *definer(const void *function)
{
    Dl_info info;
    void *entry = NULL;

    if (!dladdr1(function, &info, &entry, RTLD_DL_SYMENT) || !entry)
        return NULL;

    return ((const ElfW(Sym) *)entry)->st_shndx == SHN_UNDEF ? NULL : info.dli_fbase;
}

/* libfabric frees by free what it has from posix_memalign.  A malloc whose memory the C library frees (OpenFOAM's calls
 * __libc_malloc) does no harm. */
static void check_malloc(void)
{
    const void *frees = definer(dlsym(RTLD_DEFAULT, "free"));
    const void *aligned = definer(dlsym(RTLD_DEFAULT, "posix_memalign"));

    if (frees && aligned && frees != aligned)
        amph_warn("this program has a malloc of its own, but no posix_memalign that belongs to it, "
                  "as libfabric needs; it may crash over tcp and verbs: choose "
                  "AMPHORA_CONDUIT=udp");
}

/* Keeps an error for the message that explains why there is no network: that of the first module that exists, else the
 * last one.  why: NULL where a module was loaded. */
static void note_error(const char *why, bool exists)
{
    if (why && state.module_exists)
        return;

    snprintf(state.module_error, sizeof state.module_error, "%s", why ? why : "");
    state.module_exists = exists;
}

/* Tries to load the module from one directory. */
static amph_conduit_module_fn load_from(const char *dir, const char *sub)
{
    char path[4096];

    snprintf(path, sizeof path, "%s%s/%s", dir, sub, MODULE);

    bool exists = access(path, R_OK) == 0;

    if (exists)
        amph_conduit_skip_psm(dir, sub);

    void *module = load_quietly(path);
    void *entry = module ? dlsym(module, MODULE_ENTRY) : NULL;
    amph_conduit_module_fn fn;

    note_error(entry ? NULL : dlerror(), exists);

    memcpy(&fn, &entry, sizeof fn);
    if (fn) {
        state.module = module;
        check_malloc();
    }

    return fn;
}

/* Searches the directory of libamphora (build tree), its subdirectory amphora/ (installed), and the
 * configured directory. */
static amph_conduit_module_fn find_module(void)
{
    Dl_info info;
    char self[4096];
    amph_conduit_module_fn fn = NULL;

    if (amph_ofi_conduits)
        return amph_ofi_conduits;

    if (!dl_iterate_phdr(is_libc, NULL)) {
        snprintf(state.module_error, sizeof state.module_error,
                 "a static program has the networks it was linked with, this one has "
                 "none; link it with pkg-config amphora-net");
        return NULL;
    }

    if (dladdr((void *)(uintptr_t)amph_conduit_find, &info) && info.dli_fname) {
        snprintf(self, sizeof self, "%s", info.dli_fname);

        const char *dir = dirname(self);

        fn = load_from(dir, "");
        if (!fn)
            fn = load_from(dir, "/amphora");
    }

    return fn ? fn : load_from(AMPH_MODULEDIR, "");
}

/* Fills the list.  udp comes after tcp, because tcp moves large data with less work and is to be
 * the choice of auto. */
static void fill(void)
{
    unsigned n = 0;

    state.list[n++] = &amph_smp_ops;

    amph_conduit_module_fn module = find_module();

    for (const struct amph_conduit_ops *const *ops = module ? module() : NULL;
         ops && *ops && n < MAX_CONDUITS; ops++)
        state.list[n++] = *ops;

    if (n < MAX_CONDUITS)
        state.list[n++] = &amph_udp_ops;
}

const struct amph_conduit_ops *const *amph_conduit_list(void)
{
    pthread_once(&state.once, fill);
    return state.list;
}

const struct amph_conduit_ops *amph_conduit_find(const char *name)
{
    for (size_t i = 0; i < AMPH_COUNTOF(built_in); i++)
        if (strcmp(name, built_in[i].ops->name) == 0)
            return built_in[i].ops;

    for (const struct amph_conduit_ops *const *ops = amph_conduit_list(); *ops; ops++)
        if (strcmp((*ops)->name, name) == 0)
            return *ops;

    return NULL;
}

const void *amph_conduit_module_symbol(const char *name)
{
    amph_conduit_list();
    if (strcmp(name, AMPH_PORT_OFI_ENTRY) == 0 && &amph_conduit_port_ofi_ops)
        return &amph_conduit_port_ofi_ops;

    return state.module ? dlsym(state.module, name) : NULL;
}

/* Finds the network called name and probes it; logs why it cannot be used. */
static enum amph_status find_usable(const char *name, const struct amph_conduit_ops **ops_p)
{
    char why[512] = "";
    const struct amph_conduit_ops *ops = amph_conduit_find(name);

    if (!ops) {
        const char *reason = state.module_error[0] ? state.module_error
                                                   : "this build does not have it";

        amph_error_shared("there is no conduit %s: %s (amphora-info shows what there is)", name,
                          reason);
        return AMPH_ERR_NOSYS;
    }

    enum amph_status st = ops->probe(why, sizeof why);

    if (st != AMPH_OK) {
        amph_error_shared("the conduit %s cannot be used here: %s (amphora-info shows what can)",
                          name, why);
        return st;
    }

    *ops_p = ops;
    return AMPH_OK;
}

const char *amph_conduit_effective_name(const char *built)
{
    if (built && !amph_env_is_set(AMPH_ENV_CONDUIT))
        return built;

    return amph_env_str(AMPH_ENV_CONDUIT);
}

static bool is_auto(const char *name)
{
    return strcmp(name, auto_name) == 0;
}

/* Returns the row of a conduit that needs no module; one without properties for all others. */
static const struct built_in *built_in_of(const char *name)
{
    static const struct built_in no_row;

    for (size_t i = 0; i < AMPH_COUNTOF(built_in); i++)
        if (strcmp(name, built_in[i].ops->name) == 0)
            return &built_in[i];

    return &no_row;
}

bool amph_conduit_is_one_host(const char *name)
{
    return built_in_of(name)->one_host;
}

bool amph_conduit_is_datagram(const char *name)
{
    return built_in_of(name)->datagram;
}

enum amph_self_start amph_conduit_self_start(const char *name)
{
    return built_in_of(name)->self_start;
}

bool amph_conduit_is_network(const char *name)
{
    return !is_auto(name) && !amph_conduit_is_one_host(name);
}

bool amph_conduit_network_is_named(void)
{
    return amph_env_is_set(AMPH_ENV_CONDUIT) &&
           amph_conduit_is_network(amph_env_str(AMPH_ENV_CONDUIT));
}

const char *amph_conduit_default_network(void)
{
    return default_network;
}

enum amph_status amph_conduit_choose(bool one_host, const struct amph_conduit_ops **ops_p)
{
    return amph_conduit_choose_for(NULL, one_host, ops_p);
}

enum amph_status amph_conduit_choose_for(const char *built, bool one_host,
                                         const struct amph_conduit_ops **ops_p)
{
    const bool from_env = !built || amph_env_is_set(AMPH_ENV_CONDUIT);
    const char *name = amph_conduit_effective_name(built);
    const bool smp = amph_env_bool(AMPH_ENV_SMP);

    if (amph_conduit_is_one_host(name) && (!one_host || !smp)) {
        amph_error("the conduit %s (%s) reaches one host only%s; choose %s or %s by "
                   "AMPHORA_CONDUIT or amphora-run -conduit",
                   name, from_env ? "by AMPHORA_CONDUIT" : "for which this program was built",
                   smp ? ", and this job has several" : ", and AMPHORA_SMP=0 forbids it",
                   default_network, auto_name);
        return AMPH_ERR_ARG;
    }

    *ops_p = NULL;
    if (amph_conduit_is_one_host(name))
        return AMPH_OK;

    /* A network that is named is used, or an error is reported, even if all processes share
     * memory. */
    if (!is_auto(name))
        return find_usable(name, ops_p);
    if (one_host && smp)
        return AMPH_OK;

    for (const struct amph_conduit_ops *const *ops = amph_conduit_list(); *ops; ops++) {
        char why[512];

        if (!amph_conduit_is_one_host((*ops)->name) && (*ops)->probe(why, sizeof why) == AMPH_OK) {
            *ops_p = *ops;
            return AMPH_OK;
        }
    }

    /* None can be used: the error says why the usual one cannot. */
    return find_usable(default_network, ops_p);
}

enum amph_status amph_conduit_open(const struct amph_conduit_ops *ops,
                                   const struct amph_cx_config *cfg, struct amph_cx **cx_p)
{
    static const unsigned word_emulate = 1; /* of AMPHORA_RMA's row */

    if (ops != &amph_smp_ops && amph_env_enum(AMPH_ENV_RMA) == word_emulate)
        return amph_conduit_emulate_open(ops, cfg, cx_p);

    enum amph_status st = ops->open(cfg, cx_p);
    if (st != AMPH_OK || (*cx_p)->caps.native_rma)
        return st;

    ops->close(*cx_p);
    return amph_conduit_emulate_open(ops, cfg, cx_p);
}
