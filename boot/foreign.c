/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kinds `pmix`, `pmi2` and `pmi1`: joining under another launcher's process manager.  Layer:
 * boot.  Thread rule: as boot.h; a server has a thread of its own that waits for the end of the
 * compute processes.
 *
 * A process manager provides one key space and one fence for all processes of the job.  Joining
 * takes a first fence.  After it every process knows the host of each process (node name, boot id,
 * name space), the key that process 0 has made, and, by AMPHORA_SERVERS, which processes are
 * servers.  The exchange takes a second fence.  If there are servers, a third fence ends the job:
 * compute processes enter it when they leave, which tells the servers that the last one has left.
 * Names in the key space: aj (job), aN-h (host), aN-f (facts), aN-v-KEY (values) of process N.
 *
 * Programs that are not clients of this library also take part in the first two fences (the preload
 * library does that for them: claim.h), and then leave the process manager.
 */
#include "boot/kvs.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "boot/claim.h"
#include "boot/control.h"
#include "boot/kind.h"
#include "boot/standing.h"

struct foreign {
    struct amph_boot base;
    struct amph_kvs *kvs;
    struct amph_values values; /* published before the exchange */
    pthread_t waiter;          /* of a server: waits in the last fence */
    bool waits;
    /* pipe: 'D' when the compute processes have left, 'S' when the process manager has ended */
    int news[2];
};

static struct foreign *own(struct amph_boot *boot)
{
    return (struct foreign *)boot;
}

static bool foreign_never(void)
{
    /* file clients get the servers' addresses from the process that has joined */
    return false;
}

/* ---- joining ---- */

/* Writes "NODE BOOT-ID NAMESPACE", which identifies a host.  All three are needed: containers share
 * boot ids, cloned machines share node names, and processes of different network name spaces reach
 * neither each other's loopback nor each other's abstract sockets. */
static void host_text(char *text, size_t cap)
{
    struct utsname u;
    struct stat ns = { 0 };
    char boot_id[40] = "-";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, boot_id, sizeof boot_id - 1) : 0;

    if (fd >= 0)
        close(fd);

    if (n > 0)
        boot_id[n] = 0;

    boot_id[strcspn(boot_id, "\n")] = 0;
    if (uname(&u) != 0)
        snprintf(u.nodename, sizeof u.nodename, "localhost");

    if (stat("/proc/self/ns/net", &ns) != 0)
        ns.st_ino = 0;

    snprintf(text, cap, "%s %s %ju", u.nodename, boot_id, (uintmax_t)ns.st_ino);
}

static enum amph_status put_own(struct foreign *p)
{
    char name[32], host[160];
    uint8_t secret[8 + AMPH_KEY_BYTES];

    host_text(host, sizeof host);
    snprintf(name, sizeof name, "a%u-h", p->kvs->rank);

    enum amph_status st = p->kvs->ops->put(p->kvs, name, host, strlen(host));

    if (st == AMPH_OK && p->kvs->rank == 0) {
        amph_random(secret, sizeof secret);
        st = p->kvs->ops->put(p->kvs, "aj", secret, sizeof secret);
    }

    return st == AMPH_OK ? p->kvs->ops->fence(p->kvs) : st;
}

static enum amph_status get_secret(struct foreign *p)
{
    void *data;
    size_t len;
    enum amph_status st = p->kvs->ops->get(p->kvs, 0, "aj", &data, &len);

    if (st != AMPH_OK)
        return st;

    struct amph_rd r;

    amph_rd_init(&r, data, len);
    p->base.job.id = amph_rd_u64(&r);

    const void *key = amph_rd_bytes(&r, AMPH_KEY_BYTES);

    if (key)
        memcpy(p->base.job.key, key, AMPH_KEY_BYTES);

    free(data);
    return key ? AMPH_OK : AMPH_ERR_PROTO;
}

/* Returns the index of a host text, and adds it if it is new.  name_hosts removes the boot id
 * later. */
static uint32_t host_index(struct amph_jobdesc *job, char *text)
{
    for (uint32_t h = job->nhosts;
         h-- > 0;) /* backwards, because processes of one host are usually consecutive */
        if (strcmp(job->host_name[h], text) == 0) {
            free(text);
            return h;
        }

    job->host_name[job->nhosts] = text;
    return job->nhosts++;
}

static enum amph_status get_hosts(struct foreign *p)
{
    struct amph_jobdesc *job = &p->base.job;
    char name[32];

    job->host_name = calloc(p->kvs->size, sizeof *job->host_name);
    job->proc = calloc(p->kvs->size, sizeof *job->proc);
    if (!job->host_name || !job->proc)
        return AMPH_ERR_NOMEM;

    for (uint32_t i = 0; i < p->kvs->size; i++) {
        void *text;
        size_t len;

        snprintf(name, sizeof name, "a%u-h", i);

        enum amph_status st = p->kvs->ops->get(p->kvs, i, name, &text, &len);
        if (st != AMPH_OK)
            return st;

        ((char *)text)[len] = 0;
        job->proc[i].host = host_index(job, text);
    }

    job->several_machines = job->nhosts > 1;
    for (uint32_t h = 0; h < job->nhosts; h++)
        *strchrnul((char *)job->host_name[h], ' ') = 0;

    return AMPH_OK;
}

static enum amph_status split(struct foreign *p)
{
    struct amph_jobdesc *job = &p->base.job;
    uint32_t servers = (uint32_t)amph_env_int(AMPH_ENV_SERVERS);
    uint32_t size = p->kvs->size;

    if (servers >= size) {
        amph_error("AMPHORA_SERVERS=%u leaves no compute process in a job of %u; start more "
                   "processes or fewer servers",
                   servers, size);
        return AMPH_ERR_ARG;
    }

    uint32_t compute = size - servers;

    job->nproc[AMPH_COMPUTE] = compute;
    job->nproc[AMPH_SERVER] = servers;
    p->base.self = p->kvs->rank;
    p->base.group = p->kvs->rank >= compute ? AMPH_SERVER : AMPH_COMPUTE;
    if (servers == 0)
        return AMPH_OK;
    if (!(job->server_of = calloc(compute, sizeof *job->server_of)))
        return AMPH_ERR_NOMEM;

    for (uint32_t c = 0; c < compute; c++)
        job->server_of[c] = compute + c % servers;

    return AMPH_OK;
}

/* Thread of a server: waits in the last fence, which the compute processes enter when they
 * leave. */
static void *wait_for_compute(void *arg)
{
    struct foreign *p = arg;
    char word = p->kvs->ops->fence(p->kvs) == AMPH_OK ? 'D' : 'S';

    while (write(p->news[1], &word, 1) < 0 && errno == EINTR)
        ;

    return NULL;
}

/* Starts that thread at the first query for events; lookups need the connection until then. */
static void start_waiting(struct foreign *p)
{
    p->waits = amph_thread_start(&p->waiter, false, 0, wait_for_compute, p) == 0;
    if (!p->waits)
        amph_fatal(
            "the I/O server cannot start a thread that waits for the end of the compute processes");
}

static void foreign_close(struct amph_boot *boot)
{
    struct foreign *p = own(boot);

    amph_boot_values_free(&p->values);

    /* otherwise the waiting thread owns them, and the process manager's connection */
    for (int i = 0; i < 2 && !p->waits; i++)
        if (p->news[i] >= 0)
            close(p->news[i]);

    if (p->kvs && !p->waits)
        p->kvs->ops->close(p->kvs);
}

/* Refuses a program that has called MPI_Init: the MPI library uses the process manager's
 * connection and would count the servers as its own processes. */
static enum amph_status check_mpi(void)
{
    int (*initialized)(int *) = NULL;
    int yes = 0;

    *(void **)&initialized = amph_env_int(AMPH_ENV_SERVERS) > 0
                                 ? dlsym(RTLD_DEFAULT, "MPI_Initialized")
                                 : NULL;
    if (initialized && initialized(&yes) == 0 && yes) {
        amph_error_shared("MPI_Init was called before this program joined its job, and "
                          "AMPHORA_SERVERS=%d asks for servers among the "
                          "processes: MPI would count them as its own; initialise gasnet first, or "
                          "start the servers by "
                          "iofwd-server -daemon",
                          (int)amph_env_int(AMPH_ENV_SERVERS));
        return AMPH_ERR_STATE;
    }

    return AMPH_OK;
}

/* Claims the rank's join for a GASNet client; an error if a plain program of this rank has
 * joined. */
static enum amph_status check_plain(void)
{
    char *text = NULL;
    enum amph_claim claim = amph_boot_claim(&text);

    free(text);
    if (claim == AMPH_CLAIM_MINE)
        amph_boot_claimed(AMPH_CLAIM_CLIENT, NULL, -1);

    if (claim != AMPH_CLAIM_PLAIN && claim != AMPH_CLAIM_FAILED)
        return AMPH_OK;

    amph_error("a program that is no GASNet client has used forwarded files before in this process "
               "or beside it (a script, under the "
               "preload library), and has so joined the job; this one cannot join it as well: let "
               "the script leave such files alone, or "
               "give LD_PRELOAD to the GASNet program only, inside the script");
    return AMPH_ERR_STATE;
}

static enum amph_status open_with(const struct amph_kvs_ops *ops, struct amph_boot **boot_p)
{
    struct foreign *p = calloc(1, sizeof *p);

    if (!p)
        return AMPH_ERR_NOMEM;

    p->news[0] = p->news[1] = -1;

    enum amph_status st = check_mpi();

    if (st == AMPH_OK)
        st = check_plain();

    if (st == AMPH_OK)
        st = ops->open(&p->kvs);

    if (st == AMPH_OK)
        st = split(p);

    if (st == AMPH_OK && p->base.group == AMPH_SERVER && pipe2(p->news, O_CLOEXEC | O_NONBLOCK) < 0)
        st = AMPH_ERR_SYS;

    if (st == AMPH_OK)
        st = put_own(p);

    if (st == AMPH_OK)
        st = get_secret(p);

    if (st == AMPH_OK)
        st = get_hosts(p);

    if (st != AMPH_OK) {
        foreign_close(&p->base);
        amph_boot_jobdesc_free(&p->base.job);
        free(p);
        return st;
    }

    *boot_p = &p->base;
    return AMPH_OK;
}

static enum amph_status pmi1_open(bool join, struct amph_boot **boot_p)
{
    return open_with(&amph_boot_kvs_pmi1, boot_p);
}

static enum amph_status pmi2_open(bool join, struct amph_boot **boot_p)
{
    return open_with(&amph_boot_kvs_pmi2, boot_p);
}

static enum amph_status pmix_open(bool join, struct amph_boot **boot_p)
{
    return open_with(&amph_boot_kvs_pmix, boot_p);
}

/* ---- publishing and asking ---- */

static enum amph_status put_value(struct foreign *p, const char *key, const void *value,
                                  size_t len_bytes)
{
    char name[64];

    snprintf(name, sizeof name, "a%u-v-%s", p->kvs->rank, key);
    return p->kvs->ops->put(p->kvs, name, value, len_bytes);
}

static enum amph_status foreign_publish(struct amph_boot *boot, const char *key, const void *value,
                                        size_t len_bytes)
{
    /* stored until the exchange, because a key may be put only once, and the last value counts */
    if (boot->exchanged)
        return put_value(own(boot), key, value, len_bytes);

    return amph_boot_values_set(&own(boot)->values, key, value, len_bytes);
}

static enum amph_status foreign_state(struct amph_boot *boot)
{
    return boot->exchanged ? AMPH_ERR_STATE : AMPH_OK; /* the exchange sends the facts */
}

static enum amph_status put_all(struct foreign *p)
{
    uint8_t facts[AMPH_CONTROL_FACTS_BYTES];
    char name[32];
    struct amph_wr w;

    amph_wr_init(&w, facts, sizeof facts);
    amph_boot_facts_put(&w, &p->base.job.proc[p->kvs->rank]);
    snprintf(name, sizeof name, "a%u-f", p->kvs->rank);

    enum amph_status st = p->kvs->ops->put(p->kvs, name, facts, amph_wr_len(&w));

    for (size_t i = 0; i < p->values.n && st == AMPH_OK; i++)
        st = put_value(p, p->values.at[i].key, p->values.at[i].data, p->values.at[i].len_bytes);

    return st;
}

static enum amph_status get_facts(struct foreign *p, uint32_t rank)
{
    char name[32];
    void *data;
    size_t len;
    struct amph_rd r;

    snprintf(name, sizeof name, "a%u-f", rank);

    enum amph_status st = p->kvs->ops->get(p->kvs, rank, name, &data, &len);
    if (st != AMPH_OK)
        return st;

    amph_rd_init(&r, data, len);
    amph_boot_facts_get(&r, &p->base.job.proc[rank]);
    free(data);

    return r.bad ? AMPH_ERR_PROTO : AMPH_OK;
}

static enum amph_status foreign_lookup(struct amph_boot *boot, uint32_t rank, const char *key,
                                       uint64_t timeout_ns, void **value_p, size_t *len_p)
{
    char name[64];

    snprintf(name, sizeof name, "a%u-v-%s", rank, key);
    return own(boot)->kvs->ops->get(own(boot)->kvs, rank, name, value_p, len_p);
}

/* Collects all values in one block of memory, which the handle owns. */
static enum amph_status collect_values(struct amph_boot *boot, const char *key)
{
    uint32_t n = boot->job.nproc[boot->group];
    uint32_t first = amph_boot_first(boot, boot->group);
    uint8_t *mem = malloc((size_t)n * AMPH_CONTROL_VALUE_MAX);
    size_t at = 0;

    if (!(boot->value_mem = mem))
        return AMPH_ERR_NOMEM;

    for (uint32_t i = 0; i < n; i++) {
        void *data;
        enum amph_status st = foreign_lookup(boot, first + i, key, 0, &data, &boot->value_len[i]);

        boot->value[i] = mem + at;
        if (st == AMPH_ERR_NOENT)
            continue; /* published nothing: an empty value, as with amphora-run */
        if (st != AMPH_OK)
            return st;

        memcpy(mem + at, data, boot->value_len[i]);
        at += boot->value_len[i];
        free(data);
    }

    return AMPH_OK;
}

/* Gives the servers' addresses to the file client of this process and to those of its child
 * processes, which do not use the process manager. */
static enum amph_status offer_servers(struct foreign *p)
{
    const struct amph_jobdesc *job = &p->base.job;
    struct amph_standing set = { .id = job->id,
                                 .ncompute = job->nproc[AMPH_COMPUTE],
                                 .n = job->nproc[AMPH_SERVER] };
    char rank[16];
    enum amph_status st = AMPH_OK;

    memcpy(set.key, job->key, sizeof set.key);
    snprintf(set.conduit, sizeof set.conduit, "%s",
             job->nhosts > 1 ? amph_env_str(AMPH_ENV_CONDUIT) : "");
    snprintf(set.prefix, sizeof set.prefix, "%s", amph_env_str(AMPH_ENV_IOFWD_PREFIX));
    if (!(set.server = calloc(set.n, sizeof *set.server)))
        return AMPH_ERR_NOMEM;

    for (uint32_t i = 0; i < set.n && st == AMPH_OK; i++) {
        struct amph_standing_server *s = &set.server[i];
        const struct amph_proc *proc = &job->proc[set.ncompute + i];
        void *control = NULL;

        st = foreign_lookup(&p->base, set.ncompute + i, AMPH_BOOT_CONTROL_KEY, 0, &control,
                            &s->value_len);
        if (st == AMPH_OK && s->value_len <= sizeof s->value)
            memcpy(s->value, control, s->value_len);
        else if (st == AMPH_OK)
            st = AMPH_ERR_PROTO;

        snprintf(s->host, sizeof s->host, "%s", job->host_name[proc->host]);
        s->pid = proc->pid;
        free(control);
    }

    char *text = st == AMPH_OK ? amph_boot_standing_print(&set) : NULL; /* kept */

    amph_boot_standing_free(&set);
    if (st == AMPH_ERR_NOENT)
        return AMPH_OK; /* the server group does not run I/O servers */
    if (!text)
        return st == AMPH_OK ? AMPH_ERR_NOMEM : st;

    amph_boot_standing_own(text);

    char *line = strdup(text);

    for (char *c = line; c && *c; c++)
        *c = *c == '\n' ? ';' : *c;

    snprintf(rank, sizeof rank, "%u", p->base.self);
    if (!line || setenv(amph_env_name(AMPH_ENV_IOFWD_OWN_SERVERS), line, 1) != 0 ||
        setenv(amph_env_name(AMPH_ENV_RANK), rank, 1) != 0)
        st = AMPH_ERR_NOMEM;

    free(line);
    amph_env_reload();
    return st;
}

/* Reads from process 0's values whether the compute processes are plain programs. */
static enum amph_status learn_plain(struct foreign *p)
{
    struct amph_jobdesc *job = &p->base.job;
    void *word;
    size_t len;
    enum amph_status st = job->nproc[AMPH_SERVER]
                              ? foreign_lookup(&p->base, 0, AMPH_BOOT_PLAIN_KEY, 0, &word, &len)
                              : AMPH_ERR_NOENT;

    job->plain = st == AMPH_OK;
    if (job->plain)
        free(word);

    if (st != AMPH_OK && st != AMPH_ERR_NOENT)
        return st;

    bool own_word = amph_boot_values_get(&p->values, AMPH_BOOT_PLAIN_KEY) != NULL;
    if (p->base.group == AMPH_SERVER || own_word == job->plain)
        return AMPH_OK;

    amph_error("of the compute processes of this job some are GASNet clients and some are not; "
               "start them as jobs of their own");
    return AMPH_ERR_STATE;
}

static enum amph_status foreign_exchange(struct amph_boot *boot, const char *key)
{
    enum amph_status st = amph_boot_alloc_values(boot, boot->job.nproc[boot->group]);

    if (st == AMPH_OK)
        st = put_all(own(boot));

    if (st == AMPH_OK)
        st = own(boot)->kvs->ops->fence(own(boot)->kvs);

    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&boot->job) && st == AMPH_OK; i++)
        st = get_facts(own(boot), i);

    if (st == AMPH_OK)
        st = learn_plain(own(boot));

    if (st == AMPH_OK)
        st = collect_values(boot, key);

    bool clients = boot->group == AMPH_COMPUTE && boot->job.nproc[AMPH_SERVER] > 0;

    return st == AMPH_OK && clients ? offer_servers(own(boot)) : st;
}

static enum amph_status foreign_wait_servers(struct amph_boot *boot, uint64_t timeout_ns)
{
    return boot->exchanged ? AMPH_OK : AMPH_ERR_STATE; /* the exchange's fence has delivered them */
}

/* ---- leaving ---- */

static int foreign_fd(const struct amph_boot *boot)
{
    return ((const struct foreign *)boot)->news[0];
}

static enum amph_status foreign_progress(struct amph_boot *boot, struct amph_boot_event *event_p)
{
    char word;

    if (boot->group == AMPH_SERVER && boot->exchanged && !boot->left && !own(boot)->waits &&
        !boot->job.plain)
        start_waiting(own(boot));

    if (own(boot)->news[0] < 0 || read(own(boot)->news[0], &word, 1) != 1)
        return AMPH_AGAIN; /* a process manager reports no events to compute processes: it ends them */

    *event_p = (struct amph_boot_event){ .kind = word == 'D' ? AMPH_BOOT_DRAIN : AMPH_BOOT_LOST,
                                         .rank = AMPH_RANK_NONE };
    return AMPH_OK;
}

static void foreign_abort(struct amph_boot *boot, int code)
{
    own(boot)->kvs->ops->abort(own(boot)->kvs, code);
}

static enum amph_status foreign_leave(struct amph_boot *boot, bool exit_called, int code)
{
    struct foreign *p = own(boot);

    if (exit_called && code != 0) {
        foreign_abort(boot, code);
        return AMPH_OK;
    }

    if (p->waits) {
        pthread_join(p->waiter, NULL);
        p->waits = false;
    } else if (boot->exchanged && boot->job.nproc[AMPH_SERVER] && !boot->job.plain) {
        p->kvs->ops->fence(p->kvs); /* if it fails, the servers are notified as well */
    }

    return p->kvs->ops->finalize(p->kvs);
}

#define FOREIGN_KIND(words, opens) \
    { \
        .name = words, .belongs = foreign_never, .open = opens, .publish = foreign_publish, \
        .state = foreign_state, .exchange = foreign_exchange, .lookup = foreign_lookup, \
        .wait_servers = foreign_wait_servers, .fd = foreign_fd, .progress = foreign_progress, \
        .leave = foreign_leave, .abort = foreign_abort, .close = foreign_close \
    }

const struct amph_boot_kind amph_boot_pmi1 = FOREIGN_KIND("pmi1", pmi1_open);
const struct amph_boot_kind amph_boot_pmi2 = FOREIGN_KIND("pmi2", pmi2_open);
const struct amph_boot_kind amph_boot_pmix = FOREIGN_KIND("pmix", pmix_open);
