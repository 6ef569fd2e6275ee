/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the environment, the arguments and the slot of each process; see environment.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "base/wire.h"
#include "boot/boot.h"
#include "boot/control.h"
#include "launcher/agent/agent.h"
#include "launcher/common/program.h"
#include "launcher/hosts/hostfile.h"
#include "launcher/master/environment.h"
#include "launcher/master/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/log.h"
#include "conduits/conduit.h"
#include "launcher/master/jobdir.h"
#include "launcher/common/message.h"

extern char **environ;

/* ---- checks ---- */

static enum amph_status check_conduit(const struct amph_launch *l)
{
    const char *conduit = l->o->conduit ? l->o->conduit : amph_env_str(AMPH_ENV_CONDUIT);

    /* A check loads libfabric.  Common conduits are therefore checked by the processes only, which
     * have to load it anyway. */
    bool usual = !amph_conduit_is_network(conduit) ||
                 strcmp(conduit, amph_conduit_default_network()) == 0;

    if (!usual && !amph_conduit_find(conduit)) {
        amph_say("there is no conduit %s in this build or on this machine; take another "
                 "of " AMPH_CONDUIT_WORDS " (amphora-info says "
                 "why this one is not here)",
                 conduit);
        return AMPH_ERR_ARG;
    }

    if (!amph_conduit_is_one_host(conduit) || l->job.nhosts == 1)
        return AMPH_OK;

    amph_say("the conduit %s joins the processes of one host only, and this job has %u; take "
             "another of " AMPH_CONDUIT_WORDS " by -conduit",
             conduit, l->job.nhosts);
    return AMPH_ERR_ARG;
}

/* Checks one PREFIX[=DIR] and appends it with an absolute directory. */
static enum amph_status check_prefix(FILE *out, const char *entry, size_t len, bool here)
{
    const char *equal = memchr(entry, '=', len);
    int prefix_len = (int)(equal ? (size_t)(equal - entry) : len);
    struct stat st;
    char dir[4096], cwd[4096];

    snprintf(dir, sizeof dir, "%.*s", (int)(equal ? len - (size_t)prefix_len - 1 : len),
             equal ? equal + 1 : entry);
    if (entry[0] != '/') {
        amph_say(
            "-iofwd %.*s: the prefix must be an absolute path, such as /data or /data=/srv/data",
            (int)len, entry);
        return AMPH_ERR_ARG;
    }

    if (here && (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))) {
        amph_say("-iofwd %.*s: the servers' directory \"%s\" %s; create it, or name another one "
                 "after \"=\"",
                 (int)len, entry, dir,
                 stat(dir, &st) < 0 ? "does not exist" : "is not a directory");
        return AMPH_ERR_ARG;
    }

    if (strspn(entry, "/") == (size_t)prefix_len) {
        amph_say("-iofwd %.*s: the root directory cannot be forwarded as a whole; name one below "
                 "it, such as /data",
                 (int)len, entry);
        return AMPH_ERR_ARG;
    }

    bool relative = dir[0] != '/';
    if (relative && !getcwd(cwd, sizeof cwd)) {
        amph_say("-iofwd %.*s: the working directory cannot be found: %m; go to one that exists, "
                 "or name an "
                 "absolute directory",
                 (int)len, entry);
        return AMPH_ERR_SYS;
    }

    return fprintf(out, "%.*s=%s%s%s", prefix_len, entry, relative ? cwd : "", relative ? "/" : "",
                   dir) < 0
               ? AMPH_ERR_NOMEM
               : AMPH_OK;
}

static enum amph_status check_prefixes(struct amph_launch *l, const char *text, bool here)
{
    size_t size;
    enum amph_status st = AMPH_OK;
    FILE *out = open_memstream(&l->prefixes, &size);

    if (!out)
        return AMPH_ERR_NOMEM;

    for (const char *at = text; *at && st == AMPH_OK;) {
        size_t len = strcspn(at, ":");

        st = check_prefix(out, at, len, here);
        at += len + (at[len] == ':');
        if (*at && fputc(':', out) == EOF)
            st = AMPH_ERR_NOMEM;
    }

    /* without the text, the job would forward nothing */
    if (fclose(out) != 0 || !l->prefixes)
        st = st == AMPH_OK ? AMPH_ERR_NOMEM : st;

    return st;
}

/* Returns whether this host has processes of the group. */
static bool is_here(const struct amph_launch *l, enum amph_group group)
{
    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++)
        if ((i >= l->job.nproc[AMPH_COMPUTE]) == (group == AMPH_SERVER) &&
            !l->hosts->remote[l->job.proc[i].host])
            return true;

    return false;
}

/* Finds the library that catches file calls. */
static enum amph_status find_preload(struct amph_launch *l)
{
    bool is_used_here = is_here(l, AMPH_COMPUTE);

    errno = 0;
    l->preload = amph_program_library(AMPH_PRELOAD_NAME);
    if (!l->preload && !is_used_here)
        l->preload = strdup(AMPH_MODULEDIR "/" AMPH_PRELOAD_NAME);

    if (l->preload)
        return !is_used_here || amph_program_can_preload(l->preload) ? AMPH_OK : AMPH_ERR_NOENT;

    if (errno == ENOMEM)
        return AMPH_ERR_NOMEM;

    amph_say("the library %s, which forwards file calls, is found neither beside amphora-run nor "
             "in %s; install amphora again",
             AMPH_PRELOAD_NAME, AMPH_MODULEDIR);
    return AMPH_ERR_NOENT;
}

enum amph_status amph_launch_setting_prepare(struct amph_launch *l)
{
    const char *text = l->o->prefixes;

    if (!text && l->o->nservers && amph_env_str(AMPH_ENV_IOFWD_PREFIX)[0])
        text = amph_env_str(AMPH_ENV_IOFWD_PREFIX);

    if (text && l->o->nservers == 0) {
        if (amph_env_bool(AMPH_ENV_IOFWD_OPTIONAL))
            return check_conduit(l);

        amph_say("-iofwd %s needs at least one server; add -servers 1", text);
        return AMPH_ERR_ARG;
    }

    enum amph_status st = check_conduit(l);

    if (!text && l->o->nservers && !l->o->server_given)
        amph_say("warning: -servers %u is given, but neither -iofwd nor IOFWD_PREFIX says which "
                 "files: no file call is forwarded, and "
                 "calls of iofwd.h fail",
                 l->o->nservers);

    if (st != AMPH_OK || !text)
        return st == AMPH_OK && amph_env_str(AMPH_ENV_IOFWD_TRACE_DIR)[0] ? find_preload(l) : st;

    if (!text[strspn(text, ":")]) {
        amph_say("-iofwd needs a prefix: PREFIX[=DIR], such as /data or /data=/srv/data");
        return AMPH_ERR_ARG;
    }

    /* if all servers are on other hosts, they check their directory themselves */
    if ((st = check_prefixes(l, text, is_here(l, AMPH_SERVER))) != AMPH_OK)
        return st;

    return find_preload(l);
}

enum amph_status amph_launch_setting_write_file(struct amph_launch *l)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/" AMPH_JOBDIR_FILE, l->directory);
    return amph_boot_jobfile_write(path, &l->file);
}

/* ---- bodies of frames ---- */

/* A body that lacks a setting or an argument must not be sent.  A stream in memory does not remember that one of its
 * writes has failed (ferror), so each is looked at. */
static AMPH_NORETURN void no_memory(void)
{
    amph_fatal("there is no memory for the arguments and environments of the job's processes");
}

static void put_bytes(FILE *out, const void *bytes, size_t len)
{
    if (fwrite(bytes, 1, len, out) != len)
        no_memory();
}

/* Ends a stream, whose text is then there. */
static void close_stream(FILE *out, char *const *text)
{
    if (fclose(out) != 0 || !*text)
        no_memory();
}

static void put_text(FILE *out, const char *text)
{
    uint8_t head[4];
    struct amph_wr w;

    amph_wr_init(&w, head, sizeof head);
    amph_wr_u32(&w, (uint32_t)strlen(text));
    put_bytes(out, head, sizeof head);
    put_bytes(out, text, strlen(text));
}

static void put_u8(FILE *out, uint8_t v)
{
    put_bytes(out, &v, 1);
}

static void put_u32(FILE *out, uint32_t v)
{
    uint8_t bytes[4];
    struct amph_wr w;

    amph_wr_init(&w, bytes, sizeof bytes);
    amph_wr_u32(&w, v);
    put_bytes(out, bytes, sizeof bytes);
}

/* A list of strings whose count is written at its end. */
struct list {
    char *text;
    size_t len;
    FILE *out;
    uint32_t n;
};

static void list_add(struct list *list, const char *text)
{
    put_text(list->out, text);
    list->n++;
}

static void list_set(struct list *list, const char *name, const char *value)
{
    char *text;

    if (asprintf(&text, "%s=%s", name, value) < 0)
        no_memory();

    list_add(list, text);
    free(text);
}

static void list_set_number(struct list *list, const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof text, "%u", value);
    list_set(list, name, text);
}

static void list_open(struct list *list)
{
    *list = (struct list){ 0 };
    if (!(list->out = open_memstream(&list->text, &list->len)))
        no_memory();
}

static void list_close(struct list *list, FILE *out)
{
    close_stream(list->out, &list->text);
    put_u32(out, list->n);
    put_bytes(out, list->text, list->len);
    free(list->text);
}

/* Settings of an outer launcher, which would make our processes use its servers. */
static bool is_foreign(const char *entry)
{
    return strncmp(entry, "PMI_", 4) == 0 || strncmp(entry, "PMIX_", 5) == 0 ||
           strncmp(entry, "AMPHORA_PRIVATE_", 16) == 0 || strncmp(entry, "IOFWD_PRIVATE_", 14) == 0;
}

/* Settings that are only valid on the host where they were set. */
static bool is_of_host(const char *entry)
{
    static const char *const names[] = {
        "SSH_CONNECTION=", "SSH_CLIENT=",      "SSH_TTY=",        "SSH_AUTH_SOCK=",
        "HOSTNAME=",       "XDG_RUNTIME_DIR=", "XDG_SESSION_ID=", "DBUS_SESSION_BUS_ADDRESS="
    };

    for (size_t i = 0; i < AMPH_COUNTOF(names); i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;

    return false;
}

static enum amph_status send_stream(struct amph_lagent *agent, uint16_t type, FILE *out,
                                    char **text, size_t *len)
{
    close_stream(out, text);
    amph_tree_report(agent, type, *text, *len);
    free(*text);
    return AMPH_OK;
}

enum amph_status amph_launch_setting_agent(struct amph_launch *l, struct amph_lagent *agent)
{
    char *text = NULL;
    char cwd[4096];
    size_t len = 0;
    struct list env;
    FILE *out = open_memstream(&text, &len);

    if (!out)
        no_memory();

    list_open(&env);
    put_text(out, getcwd(cwd, sizeof cwd) ? cwd : "/");
    put_u8(out, (uint8_t)l->o->bind);
    put_u32(out, agent->remote ? sizeof l->file.key : 0);
    put_bytes(out, l->file.key, agent->remote ? sizeof l->file.key : 0);

    for (char **e = environ; *e; e++)
        if (!is_foreign(*e) && !(agent->remote && is_of_host(*e)))
            list_add(&env, *e);

    list_close(&env, out);
    return send_stream(agent, AMPH_AGENT_SETUP, out, &text, &len);
}

/* Adds LD_PRELOAD without our library; if `add`, with it at the end. */
static void set_preload(struct list *list, const char *add)
{
    char *text = amph_program_preload_list(add);

    if (!text && add)
        no_memory(); /* its file calls would not be forwarded */

    if (text && text[0])
        list_set(list, "LD_PRELOAD", text);
    else if (amph_env_foreign("LD_PRELOAD"))
        list_add(list, "LD_PRELOAD"); /* removed */

    free(text);
}

/* Returns the address by which the job's hosts reach each other: on other hosts the address that
 * ssh connected to, on this machine the address from which the first other host was reached.  ""
 * if it is not known. */
static const char *address_of(const struct amph_launch *l, const struct amph_lagent *agent)
{
    if (agent->remote)
        return agent->address;

    for (uint32_t i = 0; i < l->nagents; i++)
        if (l->agents[i].remote && !l->agents[i].above)
            return l->agents[i].seen_from;

    return "";
}

/* Computes the index of a process among the processes of its machine, and their number.  All
 * pretended hosts are one machine. */
static void slot_of(const struct amph_launch *l, uint32_t rank, uint32_t *slot_p,
                    uint32_t *nslots_p)
{
    uint32_t host = l->job.proc[rank].host;

    *slot_p = *nslots_p = 0;
    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++) {
        uint32_t other = l->job.proc[i].host;
        bool same = l->agents[host].remote ? other == host : !l->agents[other].remote;

        *nslots_p += same;
        *slot_p += same && i < rank;
    }
}

static void set_all(struct list *list, struct amph_launch *l, struct amph_lproc *p)
{
    char file[4096];
    uint32_t first = p->group == AMPH_SERVER ? l->job.nproc[AMPH_COMPUTE] : 0;
    const struct amph_lagent *agent = amph_launch_agent_of(p);

    snprintf(file, sizeof file, "%s/" AMPH_JOBDIR_FILE, l->directory);
    if (!agent->remote) /* other agents use their own library */
        list_set(list, amph_env_name(AMPH_ENV_JOB), file);

    const char *address = l->job.several_machines && !amph_env_is_set(AMPH_ENV_INTERFACE)
                              ? address_of(l, agent)
                              : "";

    if (*address)
        list_set(list, amph_env_name(AMPH_ENV_INTERFACE), address);

    if (amph_launch_clocks_number(agent)) {
        char number[24];

        snprintf(number, sizeof number, "%llu",
                 (unsigned long long)amph_launch_clocks_number(agent));
        list_set(list, AMPH_PRIVATE_CLOCK, number);
    }

    list_set_number(list, amph_env_name(AMPH_ENV_RANK), p->rank);
    list_set_number(list, amph_env_name(AMPH_ENV_SERVERS), l->job.nproc[AMPH_SERVER]);

    if (l->o->conduit || amph_env_is_set(AMPH_ENV_CONDUIT))
        list_set(list, amph_env_name(AMPH_ENV_CONDUIT),
                 l->o->conduit ? l->o->conduit : amph_env_str(AMPH_ENV_CONDUIT));
    else
        list_add(
            list,
            amph_env_name(
                AMPH_ENV_CONDUIT)); /* removed: a program uses the conduit that it was built for */

    list_set(list, amph_env_name(AMPH_ENV_ON_SERVER_DEATH), l->o->on_server_death);
    list_set_number(list, "PMI_RANK", p->rank - first);
    list_set_number(list, "PMI_SIZE", l->job.nproc[p->group]);

    if (l->prefixes)
        list_set(list, amph_env_name(AMPH_ENV_IOFWD_PREFIX), l->prefixes);
    else
        list_add(list,
                 amph_env_name(AMPH_ENV_IOFWD_PREFIX)); /* removed: this job forwards nothing */

    const char *preload = l->preload && agent->remote && agent->preload && *agent->preload
                              ? agent->preload
                              : l->preload;

    set_preload(list, p->group == AMPH_COMPUTE ? preload : NULL);
}

enum amph_status amph_launch_setting_spawn(struct amph_launch *l, struct amph_lproc *p)
{
    char *text = NULL;
    size_t len = 0;
    struct list args, env;
    FILE *out = open_memstream(&text, &len);
    const char *file = amph_tree_program(p);
    char *server[] = { (char *)file, NULL };
    uint32_t slot, nslots;

    /* main has put the path before the command line */
    char **argv = p->group == AMPH_SERVER ? server : l->o->program + 1;
    if (!out)
        no_memory();

    list_open(&args);
    list_open(&env);
    put_u32(out, p->rank);
    put_u8(out, AMPH_SPAWN_PMI | (p->rank == 0 ? AMPH_SPAWN_INPUT : 0));
    slot_of(l, p->rank, &slot, &nslots);
    put_u32(out, slot);
    put_u32(out, nslots);
    list_add(&args, file);
    for (char **a = argv; *a; a++)
        list_add(&args, *a);

    set_all(&env, l, p);
    list_close(&args, out);
    list_close(&env, out);

    return send_stream(amph_launch_agent_of(p), AMPH_AGENT_SPAWN, out, &text, &len);
}
