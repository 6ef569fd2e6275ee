/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workarounds for faults of libfabric: a slow start, addresses on big-endian hosts, half-open
 * connections, pacing inside a host, and (greeting.c) incomplete greetings.
 * Layer: conduits (ofi).  Thread rule: amph_ofi_prepare runs once in a process and serialises itself.
 *
 * Each one redirects a function that libfabric imports (its slot in the global offset table) to a
 * function of ours.  Only libfabric's calls are affected.  If the slot is not found (another object
 * format, a static program), libfabric works as without this file.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <ifaddrs.h>
#include <link.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "conduits/inet.h"
#include "conduits/ofi/ofi.h"

struct swap {
    const char *name;
    void *fn;
    unsigned count; /* slots that were set */
};

/* The needed entries of a dynamic section. */
struct tables {
    const ElfW(Sym) * sym;
    const char *str;
    const ElfW(Rela) * rela[2]; /* of the procedure table, and of all other data */
    size_t bytes[2];
};

/* Returns the address of a dynamic entry.  Most C libraries have made these addresses absolute;
 * in some they are still offsets. */
static const void *at(const struct dl_phdr_info *info, ElfW(Addr) addr)
{
    return (const void *)(addr < info->dlpi_addr ? info->dlpi_addr + addr : addr);
}

static bool read_tables(const struct dl_phdr_info *info, const ElfW(Dyn) * dyn, struct tables *t)
{
    bool rela = true;

    memset(t, 0, sizeof *t);
    for (; dyn->d_tag != DT_NULL; dyn++) {
        if (dyn->d_tag == DT_SYMTAB)
            t->sym = at(info, dyn->d_un.d_ptr);
        else if (dyn->d_tag == DT_STRTAB)
            t->str = at(info, dyn->d_un.d_ptr);
        else if (dyn->d_tag == DT_JMPREL)
            t->rela[0] = at(info, dyn->d_un.d_ptr);
        else if (dyn->d_tag == DT_PLTRELSZ)
            t->bytes[0] = dyn->d_un.d_val;
        else if (dyn->d_tag == DT_RELA)
            t->rela[1] = at(info, dyn->d_un.d_ptr);
        else if (dyn->d_tag == DT_RELASZ)
            t->bytes[1] = dyn->d_un.d_val;
        else if (dyn->d_tag == DT_PLTREL)
            rela = dyn->d_un.d_val == DT_RELA;
    }

    return rela && t->sym && t->str;
}

static size_t symbol_of(const ElfW(Rela) * r)
{
    return sizeof(void *) == 8 ? (size_t)((uint64_t)r->r_info >> 32) : (size_t)(r->r_info >> 8);
}

/* Writes to a slot that the loader may have made read-only. */
static bool set_slot(const struct dl_phdr_info *info, void **slot, void *fn)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)slot & ~(page - 1);
    bool readonly = false;

    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t base = info->dlpi_addr + ph->p_vaddr;

        readonly = readonly || (ph->p_type == PT_GNU_RELRO && (uintptr_t)slot >= base &&
                                (uintptr_t)slot < base + ph->p_memsz);
    }

    if (readonly && mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0)
        return false;

    __atomic_store_n(slot, fn, __ATOMIC_RELEASE);
    if (readonly)
        mprotect((void *)start, page, PROT_READ);

    return true;
}

static int swap_in_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct swap *s = arg;

    const ElfW(Dyn) *dyn = NULL;

    struct tables t;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libfabric.so"))
        return 0;

    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dyn = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);

    if (!dyn || !read_tables(info, dyn, &t))
        return 1;

    for (unsigned k = 0; k < 2; k++)
        for (size_t i = 0; t.rela[k] && i < t.bytes[k] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Rela) *r = &t.rela[k][i];
            size_t sym = symbol_of(r);

            if (sym && r->r_addend == 0 && strcmp(t.str + t.sym[sym].st_name, s->name) == 0)
                s->count += set_slot(info, (void **)(info->dlpi_addr + r->r_offset), s->fn);
        }

    return 1;
}

bool amph_ofi_swap_import(const char *name, void *fn)
{
    struct swap s = { .name = name, .fn = fn };

    dl_iterate_phdr(swap_in_object, &s);
    return s.count > 0;
}

/* ---- a slow start ---- */

/* libfabric 1.17 reads all of /proc/kallsyms twice when it starts, 40 ms each time, to find out
 * whether verbs devices can register the memory of accelerators.  On a host without verbs
 * devices the result is not used, so this function does not open the file there. */
static FILE *fopen_but_symbols(const char *path, const char *mode)
{
    if (strcmp(path, "/proc/kallsyms") == 0) {
        errno = ENOENT;
        return NULL;
    }

    return fopen(path, mode);
}

bool amph_ofi_has_devices(const char *tree)
{
    DIR *dir = opendir(tree);
    bool found = false;

    if (!dir)
        return false;

    for (struct dirent *d; !found && (d = readdir(dir));)
        found = d->d_name[0] != '.';

    closedir(dir);
    return found;
}

/* For each of its providers, and again in each fi_getinfo, libfabric asks the kernel for this host's
 * interfaces: 20 times until an endpoint is open, 35 us each time.  While a list is held, it gets the same one. */
static struct {
    pthread_mutex_t lock;
    unsigned holds;
    unsigned lent; /* how often libfabric has list and has not freed it */
    struct ifaddrs *list;
} interfaces = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void drop_unused_list(void)
{
    if (interfaces.holds > 0 || interfaces.lent > 0 || !interfaces.list)
        return;

    freeifaddrs(interfaces.list);
    interfaces.list = NULL;
}

static int getifaddrs_held(struct ifaddrs **list_p)
{
    int result = 0;

    pthread_mutex_lock(&interfaces.lock);
    if (interfaces.holds == 0) {
        pthread_mutex_unlock(&interfaces.lock);
        return getifaddrs(list_p);
    }

    if (!interfaces.list)
        result = getifaddrs(&interfaces.list);

    if (result == 0) {
        interfaces.lent++;
        *list_p = interfaces.list;
    }

    pthread_mutex_unlock(&interfaces.lock);
    return result;
}

static void freeifaddrs_held(struct ifaddrs *list)
{
    pthread_mutex_lock(&interfaces.lock);

    bool held = list && list == interfaces.list;

    if (held) {
        interfaces.lent--;
        drop_unused_list();
    }

    pthread_mutex_unlock(&interfaces.lock);
    if (!held)
        freeifaddrs(list);
}

void amph_ofi_interfaces_hold(void)
{
    pthread_mutex_lock(&interfaces.lock);
    interfaces.holds++;
    pthread_mutex_unlock(&interfaces.lock);
}

void amph_ofi_interfaces_release(void)
{
    pthread_mutex_lock(&interfaces.lock);
    interfaces.holds--;
    drop_unused_list();
    pthread_mutex_unlock(&interfaces.lock);
}

/* Both or neither: a list from one must not be freed by the other. */
static void share_interfaces(void)
{
    if (amph_ofi_swap_import("freeifaddrs", (void *)(uintptr_t)freeifaddrs_held))
        (void)amph_ofi_swap_import("getifaddrs", (void *)(uintptr_t)getifaddrs_held);
}

static void start_libfabric(void)
{
    struct fi_param *params;
    int count;
    bool swapped = !amph_ofi_has_devices("/sys/class/infiniband") &&
                   amph_ofi_swap_import("fopen", (void *)(uintptr_t)fopen_but_symbols);

    bool knows_absent = amph_ofi_absent_begin();

    share_interfaces();
    amph_ofi_interfaces_hold();
    if (fi_getparams(&params, &count) == 0)
        fi_freeparams(params);

    amph_ofi_interfaces_release();
    if (knows_absent)
        amph_ofi_absent_end();

    if (swapped)
        amph_ofi_swap_import("fopen", (void *)(uintptr_t)fopen);
}

/* ---- addresses on 64-bit big-endian hosts ---- */

/* The tcp providers, in all versions since 1.17, pass a pointer to size_t where getsockname
 * expects socklen_t.  On a 64-bit big-endian host getsockname then reads the upper half, which
 * is 0.  No correct caller passes 0. */
static int getsockname_of_size(int fd, struct sockaddr *sa, socklen_t *len)
{
    if (*len != 0)
        return getsockname(fd, sa, len);

    size_t *size = (size_t *)(void *)len;
    socklen_t real = (socklen_t)*size;
    int ret = getsockname(fd, sa, &real);

    *size = real;
    return ret;
}

/* ---- half-open connections ---- */

/* If a firewall forgets or resets a connection, often only one side learns of it.  That side connects again,
 * and the tcp providers reject it as long as the other side considers the old connection alive. */
void amph_ofi_keep_alive(int fd)
{
    const int on = 1;
    const int idle_s = 20;
    const int between_s = 5;
    const int probes = 6;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/* ---- connections inside this host ---- */

static bool has_address_of(int fd, const struct sockaddr_storage *other)
{
    struct sockaddr_storage own = { 0 };
    socklen_t len = sizeof own;
    uint8_t blob[2][AMPH_INET_BLOB_BYTES];

    if (getsockname(fd, (struct sockaddr *)&own, &len) != 0 || own.ss_family != other->ss_family)
        return false;

    size_t bytes = amph_conduit_inet_put(&own, blob[0]);

    amph_conduit_inet_put(other, blob[1]);
    return amph_conduit_inet_same_host(blob[0], blob[1], bytes);
}

/* The system's congestion control may be one that estimates the rate of a path and sends no faster (BBR).  Inside
 * the host there is no path, but a peer that polls seldom makes the estimate low for long.  Reno is in
 * every kernel and allowed to every process. */
static void send_without_pace(int fd, const struct sockaddr_storage *peer)
{
    static const char name[] = "reno";

    if (has_address_of(fd, peer) &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, sizeof name - 1) != 0)
        amph_debug("tcp: the congestion control %s was refused: %m", name);
}

static bool is_internet(const struct sockaddr *sa)
{
    return sa->sa_family == AF_INET || sa->sa_family == AF_INET6;
}

void amph_ofi_accepted(int fd)
{
    struct sockaddr_storage peer = { 0 };
    socklen_t len = sizeof peer;

    if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
        is_internet((struct sockaddr *)&peer))
        send_without_pace(fd, &peer);
}

/* ---- libfabric's calls of connect ---- */

static int connect_prepared(int fd, const struct sockaddr *sa, socklen_t len)
{
    struct sockaddr_storage peer = { 0 };

    if (!is_internet(sa) || len > sizeof peer)
        return connect(fd, sa, len);

    amph_ofi_keep_alive(fd);

    int ret = connect(fd, sa, len);
    int err = errno;

    /* now the connection has an address of its own */
    memcpy(&peer, sa, len);
    send_without_pace(fd, &peer);
    errno = err;

    return ret;
}

static void prepare(void)
{
    start_libfabric();
    if (!amph_ofi_swap_import("connect", (void *)(uintptr_t)connect_prepared))
        amph_debug("libfabric's connect was not found; half-open connections are not detected, and "
                   "connections inside this host are paced");

    if (AMPH_BIG_ENDIAN && sizeof(size_t) == 8 &&
        !amph_ofi_swap_import("getsockname", (void *)(uintptr_t)getsockname_of_size))
        amph_debug("libfabric's getsockname was not found; tcp may fail on this host");
}

void amph_ofi_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
}
