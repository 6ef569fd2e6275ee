/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of the recovery records: the table that a new image takes over from the image before
 * it, whatever that program has written there, and what servers answer while files are opened again.
 * Run by tests/fuzz/fuzz.sh.
 *
 * An input begins with the bytes of some records; what follows are actions, each a byte and what it
 * takes: files are adopted, opened, locked, renamed, recovered and closed, and servers die.  Each
 * answer of a server comes from the input.
 */
#include "iofwd/client/recovery/record.c"
#include "tests/fuzz/fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    SERVERS = 3,
    FIRST = 2, /* absolute number of server 0 */
    RECORDS = 3,
    FILES = 4,
    ACTIONS = 60
};

struct amph_client_state amph_client_state = { .lock = PTHREAD_MUTEX_INITIALIZER };
_Thread_local struct amph_client_thread amph_client_thread;

static struct amph_fwd_client *client;
static struct table *previous;

static void expect(bool ok, const char *what)
{
    if (ok)
        return;

    fprintf(stderr, "not so: %s\n", what);
    abort();
}

/* ---- in place of the client ---- */

void amph_client_sigguard_enter(struct amph_client_sigguard *g)
{
}

void amph_client_sigguard_leave(struct amph_client_sigguard *g)
{
}

void amph_client_check(struct amph_fwd_client *cl)
{
}

int amph_client_link_to(struct amph_fwd_client *cl, uint32_t server,
                        struct amph_client_link **link_p)
{
    if (server < cl->first || server - cl->first >= cl->nlinks)
        return EBADF;

    *link_p = &cl->link[server - cl->first];
    return atomic_load(&(*link_p)->state) == AMPH_CLIENT_LINK_DEAD ? EIO : 0;
}

void amph_client_link_dead(struct amph_fwd_client *cl, struct amph_client_link *link,
                           const char *why)
{
    if (atomic_exchange(&link->state, AMPH_CLIENT_LINK_DEAD) != AMPH_CLIENT_LINK_DEAD)
        atomic_fetch_add(&cl->deaths, 1);
}

/* A call's result: mostly success.  The server may die over it. */
static int answer(void)
{
    static const int errors[] = { EIO, ENOENT, ESTALE, ENOLCK, EBADF, ESPIPE, ENOMEM };
    uint8_t how = next();

    amph_client_thread.offset_moves.calls++;
    amph_client_thread.offset_moves.moves += how & 1;
    if (how > 250)
        amph_client_link_dead(client, &client->link[how % SERVERS], "a test");

    return how < 200 ? 0 : errors[how % AMPH_COUNTOF(errors)];
}

static void fill_name(const struct amph_fwd_args_nameof *a)
{
    size_t n = next() * 20u;

    *a->name_len = n < a->name_cap ? n : a->name_cap;
    memset(a->name, 'n', *a->name_len);
}

int amph_client_once(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args)
{
    int err = answer();

    if (err)
        return err;

    switch (id) {
    case AMPH_FWD_FSTAT:
        *((struct amph_fwd_args_fstat *)args)->st = (struct stat){ .st_ino = next() & 1 };
        break;
    case AMPH_FWD_NAMEOF:
        fill_name(args);
        break;
    case AMPH_FWD_GETFLAGS:
        *((struct amph_fwd_args_getflags *)args)->flags = next();
        break;
    case AMPH_FWD_LSEEK:
        *((struct amph_fwd_args_lseek *)args)->pos = next();
        break;
    case AMPH_FWD_OPEN:
        *((struct amph_fwd_args_open *)args)->file = (struct amph_fwd_file){
            .nparts = 1, .part = { { FIRST + next() % SERVERS, next() % FILES } }
        };
        break;
    case AMPH_FWD_SETLOCK:
    case AMPH_FWD_PSETLOCK: {
        const struct flock *l = ((struct amph_fwd_args_setlock *)args)->lock;

        expect(l->l_start >= 0 && l->l_len >= 0, "a recorded lock is one that fcntl takes");
        break;
    }
    default:
        break;
    }

    return 0;
}

int amph_client_simple(struct amph_fwd_client *cl, struct amph_client_link *link,
                       enum amph_fwd_id id, void *args)
{
    return amph_client_once(cl, id, args);
}

/* ---- actions ---- */

static struct amph_fwd_file some_file(void)
{
    uint8_t which = next();

    return (struct amph_fwd_file){ .nparts = 1,
                                   .part = { { FIRST + which % SERVERS, which >> 4 & 3 } } };
}

static struct amph_client_record *some_record(void)
{
    struct amph_fwd_file file = some_file();
    return amph_client_record_find(&file);
}

static void open_file(void)
{
    char path[300];
    size_t n = next() + 1u;
    struct amph_fwd_file file = some_file();

    memset(path, 'p', n);
    path[0] = '/';
    path[n] = 0;
    if (!amph_client_record_find(&file))
        amph_client_record_add(
            client, &(struct amph_fwd_args_open){ .path = path, .flags = next(), .file = &file });
}

static void lock_file(void)
{
    struct amph_client_record *e = some_record();

    if (!e)
        return;

    e->flock_op = next() & 3;
    amph_fwd_ranges_set(&e->locks, (struct amph_fwd_range){ .from = next(),
                                                            .to = 256 + next(),
                                                            .type = next() & 1,
                                                            .kind = next() & 1 });
}

static void move_names(void)
{
    struct amph_fwd_args_rename a = { .from = next() & 1 ? "/p" : "/", .to = "/another/name" };
    amph_client_record_renamed(&a);
}

static void act(uint8_t what)
{
    struct amph_client_record *e;
    struct amph_fwd_file file;

    switch (what & 7) {
    case 0:
        file = some_file();
        amph_client_failover_adopt(client, &file);
        if ((e = amph_client_record_find(&file)) != NULL && e->path[0] != 'n')
            expect(strlen(e->path) < sizeof e->shared->path, "a path is a whole one");

        break;
    case 1:
        open_file();
        break;
    case 2:
        lock_file();
        break;
    case 3:
        if ((e = some_record()) != NULL)
            amph_client_record_recover(client, e);

        break;
    case 4:
        amph_client_link_dead(client, &client->link[what % SERVERS], "a test");
        break;
    case 5:
        amph_client_recover_locks(client);
        break;
    case 6:
        if (what & 8)
            move_names();
        else if (what & 16)
            amph_client_failover_exec();
        else
            amph_client_failover_child();

        break;
    default:
        file = some_file();
        amph_client_record_remove(&file);
        break;
    }
}

/* Writes what the previous image left: any bytes, but calls in flight, for which a recovery waits, and
 * numbers of threads, which are this machine's. */
static void fill_table(void)
{
    uint32_t n = next() % (RECORDS + 1);

    memset(previous->slot, 0, (RECORDS + 2) * sizeof previous->slot[0]);
    for (uint32_t i = 0; i < n; i++) {
        struct amph_client_shared *s = &previous->slot[i];
        size_t bytes = input_left < sizeof *s ? input_left : sizeof *s;

        memcpy(s, input, bytes);
        input += bytes;
        input_left -= bytes;
        atomic_store(&s->users, 1 + next() % 3);
        s->name = some_file().part[0];
        atomic_store(&s->flights, 0);
        atomic_store(&s->mover, next() & 1 ? (uint64_t)next() << 32 : 0);
        atomic_store(&s->locks_of, next() & 1 ? (int32_t)getpid() : next());
    }

    atomic_store(&previous->next, n);
}

static void forget_all(void)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        while (all.bucket[i]) {
            struct amph_client_record *e = all.bucket[i];

            expect(!e->pinned, "no record stays in use");
            all.bucket[i] = e->next;
            free_entry(e);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (!previous) {
        setenv("AMPHORA_ON_SERVER_DEATH", "failover", 1);
        expect(map_table(-1), "memory");
        previous = all.table;
    }

    client = calloc(1, sizeof *client);
    expect(client && (client->link = calloc(SERVERS, sizeof *client->link)), "memory");
    client->first = FIRST;
    client->nlinks = client->nservers = SERVERS;
    client->failover = true;
    for (uint32_t i = 0; i < SERVERS; i++) {
        client->servers[i] = client->link[i].server = FIRST + i;
        atomic_store(&client->link[i].state, AMPH_CLIENT_LINK_READY);
    }

    input = bytes;
    input_left = len;
    fill_table();
    for (unsigned n = 0; n < ACTIONS && input_left; n++)
        act(next());

    forget_all();
    free(client->link);
    free(client);
    return 0;
}
