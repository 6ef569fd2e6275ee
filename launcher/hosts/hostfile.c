/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads host files and assigns slots to processes; see hostfile.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/hosts/hostfile.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "boot/control.h"
#include "launcher/common/message.h"

enum {
    MAX_SLOTS = 1000000,
    MAX_FILE_BYTES = 1 << 24
};

static void free_paths(struct amph_paths *paths, uint32_t n)
{
    for (uint32_t i = 0; i < n && paths; i++) {
        free(paths[i].name);
        for (size_t k = 0; k < AMPH_NPATHS; k++)
            free(paths[i].path[k]);
    }

    free(paths);
}

void amph_hostfile_free(struct amph_hostfile *list)
{
    for (uint32_t i = 0; i < list->nhosts; i++)
        free(list->host[i]);

    free_paths(list->paths, list->nhosts);
    free_paths(list->kinds, list->nkinds);
    free(list->host);
    free(list->slot);
    memset(list, 0, sizeof *list);
}

static bool find_host(struct amph_hostfile *list, const char *name, uint32_t *index_p)
{
    for (uint32_t i = 0; i < list->nhosts; i++)
        if (strcmp(list->host[i], name) == 0) {
            *index_p = i;
            return true;
        }

    char **host = realloc(list->host, (list->nhosts + 1) * sizeof *host);
    if (!host)
        return false;

    list->host = host;

    struct amph_paths *paths = realloc(list->paths, (list->nhosts + 1) * sizeof *paths);
    if (!paths)
        return false;

    list->paths = paths;
    paths[list->nhosts] = (struct amph_paths){ 0 };
    if (!(host[list->nhosts] = strdup(name)))
        return false;

    *index_p = list->nhosts++;
    return true;
}

static bool add_slots(struct amph_hostfile *list, const char *name, uint32_t count, uint32_t line)
{
    uint32_t index;
    uint32_t before = list->nhosts;

    if (!find_host(list, name, &index))
        return false;

    bool known = index < before;

    if (known && list->slot[list->nslots - 1] != index && !list->again_line)
        list->again_line = line;

    uint32_t *slot = realloc(list->slot, ((size_t)list->nslots + count) * sizeof *slot);
    if (!slot)
        return false;

    list->slot = slot;
    for (uint32_t i = 0; i < count; i++)
        slot[list->nslots++] = index;

    return true;
}

/* Parses "program=PATH server-program=PATH run=PATH", in any order; each may be missing. */
static bool parse_paths(struct amph_paths *paths, char *text)
{
    static const char *const words[AMPH_NPATHS] = { [AMPH_PATH_PROGRAM] = "program=",
                                                    [AMPH_PATH_SERVER] = "server-program=",
                                                    [AMPH_PATH_RUN] = "run=" };

    for (char *save, *w = strtok_r(text, " \t\r", &save); w; w = strtok_r(NULL, " \t\r", &save)) {
        size_t k = 0;

        while (k < AMPH_NPATHS && strncmp(w, words[k], strlen(words[k])) != 0)
            k++;

        if (k == AMPH_NPATHS || !w[strlen(words[k])] ||
            paths->path[k]) /* unknown, empty or given twice */
            return false;
        if (!(paths->path[k] = strdup(w + strlen(words[k]))))
            return false;
    }

    return true;
}

static struct amph_paths *kind_of(struct amph_hostfile *list, const char *name, size_t len)
{
    for (uint32_t i = 0; i < list->nkinds; i++)
        if (strncmp(list->kinds[i].name, name, len) == 0 && !list->kinds[i].name[len])
            return &list->kinds[i];

    struct amph_paths *kinds = realloc(list->kinds, (list->nkinds + 1) * sizeof *kinds);
    if (!kinds)
        return NULL;

    list->kinds = kinds;
    kinds[list->nkinds] = (struct amph_paths){ .name = strndup(name, len) };
    return kinds[list->nkinds].name ? &kinds[list->nkinds++] : NULL;
}

/* Parses the rest of a line "arch=NAME PATHS", which is for all hosts of that machine type. */
static bool parse_kind(struct amph_hostfile *list, char *text)
{
    size_t len = strcspn(text, " \t\r");
    struct amph_paths *kind = len > 0 ? kind_of(list, text, len) : NULL;

    return kind && parse_paths(kind, text + len);
}

/* Returns the length of the host name at the beginning of text, 0 if there is no valid one.  An
 * IPv6 address is in brackets, which are not counted: "[::1]" returns 3. */
static size_t name_length(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    struct in6_addr address;
    char copy[INET6_ADDRSTRLEN];

    if (*text != '[')
        return strspn(text, letters);

    /* % precedes the interface of a link-local address */
    size_t len = strcspn(++text, "]");
    size_t digits = strcspn(text, "]%");

    if (!text[len] || digits >= sizeof copy ||
        (digits < len && strspn(text + digits + 1, letters) != len - digits - 1))
        return 0;

    snprintf(copy, sizeof copy, "%.*s", (int)digits, text);
    return inet_pton(AF_INET6, copy, &address) == 1 ? len : 0;
}

/* Parses one line without its comment: "NAME", "NAME:COUNT" or "NAME slots=COUNT", then paths. */
static bool parse_line(struct amph_hostfile *list, char *text, uint32_t line)
{
    text += strspn(text, " \t\r");
    if (strncmp(text, "arch=", 5) == 0)
        return parse_kind(list, text + 5);

    size_t len = name_length(text);
    bool bracket = *text == '[';

    if (len == 0)
        return *text == 0;

    char *rest = text + len + 2 * bracket;
    char *end;
    long count = 1;

    text += bracket;
    if (*rest == ':' || strncmp(rest + strspn(rest, " \t"), "slots=", 6) == 0) {
        char *digits = strpbrk(rest, ":=") + 1;

        count = strtol(digits, &end, 10);
        if (end == digits || count < 1 || count > MAX_SLOTS ||
            list->nslots + (uint32_t)count > MAX_SLOTS)
            return false;

        *rest = 0;
        rest = end;
    }

    if (*rest && !strchr(" \t\r", *rest))
        return false;

    if (*rest)
        *rest++ = 0;

    text[len] = 0; /* replaces the closing bracket */

    uint32_t index;

    return len <= 255 && add_slots(list, text, (uint32_t)count, line) &&
           find_host(list, text, &index) && parse_paths(&list->paths[index], rest);
}

/* Adds the slots of one more file. */
static enum amph_status append(struct amph_hostfile *list, const char *name, const char *text)
{
    uint32_t line = 0;
    uint32_t before = list->nslots;

    while (*text) {
        char copy[4096];
        size_t len = strcspn(text, "\n");
        size_t keep = strcspn(text, "\n#");

        snprintf(copy, sizeof copy, "%.*s", (int)(keep < sizeof copy ? keep : sizeof copy - 1),
                 text);
        line++;
        errno = 0;

        if (keep >= sizeof copy || !parse_line(list, copy, line)) {
            if (errno == ENOMEM) {
                amph_hostfile_free(list);
                return AMPH_ERR_NOMEM;
            }

            int shown = (int)(len < 60 ? len : 60);

            if (name[0] == '-')
                amph_say("%s: \"%.*s\" cannot be read; it takes a host name (or [IPv6 address]) or "
                         "NAME:COUNT",
                         name, shown, text);
            else
                amph_say("line %u of the host file %s cannot be read: \"%.*s\"; a line is a host "
                         "name (or [IPv6 address]), NAME:COUNT or "
                         "NAME slots=COUNT, then, if need be, program=, server-program= or "
                         "run=PATH, each once, and # starts a comment",
                         line, name, shown, text);

            amph_hostfile_free(list);
            return AMPH_ERR_ARG;
        }

        text += len + (text[len] == '\n');
    }

    if (list->nslots > before)
        return AMPH_OK;

    amph_say("the host file %s names no host; write one host name a line", name);
    amph_hostfile_free(list);
    return AMPH_ERR_ARG;
}

enum amph_status amph_hostfile_parse(struct amph_hostfile *list, const char *name, const char *text)
{
    memset(list, 0, sizeof *list);
    return append(list, name, text);
}

static char *read_text(const char *name)
{
    struct stat st;
    int fd = open(name, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0) {
        amph_say("cannot read the host file %s: %m", name);
        if (fd >= 0)
            close(fd);

        return NULL;
    }

    char *text = malloc(MAX_FILE_BYTES + 1);
    size_t len = 0;
    ssize_t n = 0;

    while (text && len < MAX_FILE_BYTES && (n = read(fd, text + len, MAX_FILE_BYTES - len)) > 0)
        len += (size_t)n;

    int error = errno;

    close(fd);
    if (!text || n < 0 || len == MAX_FILE_BYTES || memchr(text, 0, len)) {
        amph_say("cannot read the host file %s: %s", name,
                 !text || n < 0 ? strerror(error) : "it is not a text file");
        free(text);
        return NULL;
    }

    text[len] = 0;
    return text;
}

/* Makes pretended hosts for -N without a host file. */
static enum amph_status pretend_hosts(struct amph_hostfile *list, uint32_t nhosts)
{
    memset(list, 0, sizeof *list);
    for (uint32_t i = 0; i < nhosts; i++) {
        char name[32];

        snprintf(name, sizeof name, "host%u", i);
        if (!add_slots(list, name, 1, 0))
            return AMPH_ERR_NOMEM;
    }

    return AMPH_OK;
}

static enum amph_status read_hostfile(const struct amph_options *o, struct amph_hostfile *list)
{
    if (o->host_list)
        return amph_hostfile_parse(list, "-host", o->host_list);

    if (o->hosts) {
        char *text = read_text(o->hosts);
        enum amph_status st = text ? amph_hostfile_parse(list, o->hosts, text) : AMPH_ERR_ARG;

        free(text);
        return st;
    }

    if (o->nhosts > 1 && o->nhosts != UINT32_MAX)
        return pretend_hosts(list, o->nhosts < o->ncompute ? o->nhosts : o->ncompute);

    char name[256] = "";

    memset(list, 0, sizeof *list);
    if (gethostname(name, sizeof name - 1) != 0 || !name[0])
        snprintf(name, sizeof name, "localhost");

    return add_slots(list, name, o->ncompute + o->nservers, 0) ? AMPH_OK : AMPH_ERR_NOMEM;
}

/* Returns the name of the host file for messages. */
static const char *source(const struct amph_options *o)
{
    if (o->host_list)
        return "-host";

    return o->hosts ? o->hosts : "(none)";
}

/* -server-hosts: takes the servers' slots from a separate host file.  Unused slots of the first
 * host file are dropped. */
static enum amph_status add_servers(const struct amph_options *o, struct amph_hostfile *list)
{
    if (list->nslots < o->ncompute) {
        amph_say("the host file %s has %u slots, but %u compute processes are to be started; add "
                 "lines, or write NAME:COUNT",
                 source(o), list->nslots, o->ncompute);
        return AMPH_ERR_ARG;
    }

    char *text = read_text(o->server_hosts);

    list->nslots = o->ncompute;
    list->again_line = 0;

    enum amph_status st = text ? append(list, o->server_hosts, text) : AMPH_ERR_ARG;

    free(text);
    if (st != AMPH_OK)
        return st;

    list->again_line = 0; /* the user has placed servers beside compute processes on purpose */
    if (list->nslots - o->ncompute >= o->nservers) {
        list->nslots = o->ncompute + o->nservers;
        return AMPH_OK;
    }

    amph_say("the servers' host file %s has %u slots, but %u servers are to be started; add "
             "lines, or write NAME:COUNT",
             o->server_hosts, list->nslots - o->ncompute, o->nservers);
    return AMPH_ERR_ARG;
}

/* -N: distributes each of the two groups block-wise over the first hosts of the list.  All
 * blocks have the same length, except that the first ones may be longer by one. */
static enum amph_status distribute_blocks(const struct amph_options *o, struct amph_hostfile *list)
{
    const uint32_t count[] = { o->ncompute, o->server_hosts ? 0 : o->nservers };
    uint32_t total = count[0] + count[1];
    uint32_t n = 0;
    uint32_t nhosts = o->nhosts < list->nhosts ? o->nhosts : list->nhosts;
    uint32_t *slot = malloc(total * sizeof *slot);

    if (!slot)
        return AMPH_ERR_NOMEM;

    if (o->nhosts != UINT32_MAX && o->nhosts > list->nhosts && (o->hosts || o->host_list))
        amph_say("warning: -N %u asks for more hosts than the host file has; its %u hosts are used",
                 o->nhosts, list->nhosts);

    for (size_t g = 0; g < AMPH_COUNTOF(count); g++) {
        uint32_t over = nhosts < count[g] ? nhosts : count[g];

        for (uint32_t h = 0; h < over; h++)
            for (uint32_t run = count[g] / over + (h < count[g] % over); run; run--)
                slot[n++] = h;
    }

    free(list->slot);
    list->slot = slot;
    list->nslots = total;
    list->again_line = 0;

    return AMPH_OK;
}

/* Checks that there are enough slots. */
static enum amph_status check_slots(const struct amph_options *o, const struct amph_hostfile *list)
{
    if (list->nslots >= o->ncompute + o->nservers)
        return AMPH_OK;

    if (o->nservers && list->nslots >= o->ncompute)
        amph_say("the host file %s has no slot for %u of the %u servers: it has %u slots, and %u "
                 "compute processes take the "
                 "first ones; add lines, or write NAME:COUNT",
                 source(o), o->ncompute + o->nservers - list->nslots, o->nservers, list->nslots,
                 o->ncompute);
    else
        amph_say("the host file %s has %u slots, but %u compute processes and %u servers are to "
                 "be started; add lines, or write "
                 "NAME:COUNT",
                 source(o), list->nslots, o->ncompute, o->nservers);

    return AMPH_ERR_ARG;
}

/* Appends "NAME: 0-3 6" for one host. */
static size_t print_host(char *text, size_t cap, const struct amph_jobdesc *job, uint32_t host)
{
    uint32_t total = amph_boot_jobdesc_total(job);
    size_t n = (size_t)snprintf(text, cap, "%s:", job->host_name[host]);

    for (uint32_t i = 0; i < total && n < cap; i++) {
        uint32_t first = i;

        if (job->proc[i].host != host)
            continue;

        while (i + 1 < total && job->proc[i + 1].host == host)
            i++;

        n += (size_t)(i > first ? snprintf(text + n, cap - n, " %u-%u", first, i)
                                : snprintf(text + n, cap - n, " %u", i));
    }

    return n < cap ? n : cap - 1;
}

static void warn_again(const struct amph_jobdesc *job, const char *file, uint32_t line)
{
    char text[1024] = "";
    size_t n = 0;

    for (uint32_t h = 0; h < job->nhosts && n < sizeof text - 3; h++) {
        n += print_host(text + n, sizeof text - n, job, h);
        n += (size_t)snprintf(text + n, sizeof text - n, h + 1 < job->nhosts ? "; " : "");
    }

    amph_say("warning: line %u of %s repeats a host that was named before another host; the "
             "resulting mapping "
             "(absolute numbers) is: %s",
             line, file, text);
}

/* Copies the slots that the job uses to the job description.  Hosts are numbered in the order of
 * their first process. */
static enum amph_status assign_slots(const struct amph_options *o, struct amph_hostfile *list,
                                     struct amph_jobdesc *job, struct amph_hostset *hosts)
{
    uint32_t total = o->ncompute + o->nservers;
    bool has_names = true;
    uint32_t *index = malloc(list->nhosts * sizeof *index);

    job->host_name = calloc(list->nhosts, sizeof *job->host_name);
    job->proc = calloc(total, sizeof *job->proc);
    hosts->remote = calloc(list->nhosts, sizeof *hosts->remote);
    hosts->paths = calloc(list->nhosts, sizeof *hosts->paths);

    if (!index || !job->host_name || !job->proc || !hosts->remote || !hosts->paths) {
        free(index);
        return AMPH_ERR_NOMEM;
    }

    job->nproc[AMPH_COMPUTE] = o->ncompute;
    job->nproc[AMPH_SERVER] = o->nservers;
    memset(index, 0xff, list->nhosts * sizeof *index);

    for (uint32_t i = 0; i < total; i++) {
        uint32_t at = i < o->ncompute ? i : list->nslots - o->nservers + (i - o->ncompute);
        uint32_t *h = &index[list->slot[at]];

        if (*h == UINT32_MAX) {
            *h = job->nhosts;
            hosts->paths[*h] = list->paths[list->slot[at]]; /* ownership moves */
            list->paths[list->slot[at]] = (struct amph_paths){ 0 };
            job->host_name[job->nhosts] = strdup(list->host[list->slot[at]]);
            has_names &= job->host_name[job->nhosts++] != NULL;
        }

        job->proc[i].host = *h;
    }

    free(index);
    hosts->kinds = list->kinds;
    hosts->nkinds = list->nkinds;
    list->kinds = NULL;
    list->nkinds = 0;

    return has_names ? AMPH_OK : AMPH_ERR_NOMEM;
}

const char *amph_hostset_path(const struct amph_hostset *hosts, uint32_t host, const char *machine,
                              enum amph_path which)
{
    struct utsname here = { .machine = "" };

    if (hosts->paths[host].path[which])
        return hosts->paths[host].path[which];

    if (!hosts->remote[host] && uname(&here) == 0)
        machine = here.machine;

    for (uint32_t i = 0; i < hosts->nkinds && machine; i++)
        if (hosts->kinds[i].path[which] && strcmp(hosts->kinds[i].name, machine) == 0)
            return hosts->kinds[i].path[which];

    return NULL;
}

void amph_hostset_free(struct amph_hostset *hosts, uint32_t nhosts)
{
    free(hosts->remote);
    free_paths(hosts->paths, nhosts);
    free_paths(hosts->kinds, hosts->nkinds);
    memset(hosts, 0, sizeof *hosts);
}

enum amph_status amph_hostfile_job(const struct amph_options *o, struct amph_jobdesc *job,
                                   struct amph_hostset *hosts_p)
{
    struct amph_hostfile list;

    memset(job, 0, sizeof *job);
    memset(hosts_p, 0, sizeof *hosts_p);

    enum amph_status st = read_hostfile(o, &list);
    if (st != AMPH_OK)
        goto done;

    st = o->nhosts ? distribute_blocks(o, &list) : AMPH_OK;
    if (st == AMPH_OK && o->server_hosts && o->nservers)
        st = add_servers(o, &list);

    if (st == AMPH_OK)
        st = check_slots(o, &list);

    if (st == AMPH_OK)
        st = assign_slots(o, &list, job, hosts_p);

    if (st == AMPH_OK)
        st = amph_launch_map_servers(job, o->map);

    if (st == AMPH_OK && (o->hosts || o->host_list || o->server_hosts))
        st = amph_hosts_find(job, o->ssh || amph_env_is_set(AMPH_ENV_SSH), o->pretend,
                             hosts_p->remote);

    for (uint32_t h = 0; st == AMPH_OK && h < job->nhosts; h++)
        job->several_machines |= hosts_p->remote[h];

    if (st == AMPH_OK && list.again_line)
        warn_again(job, source(o), list.again_line);

    amph_hostfile_free(&list);
done:
    if (st == AMPH_ERR_NOMEM)
        amph_say(
            "there is no memory for the hosts and processes of the job; ask for fewer processes");

    return st;
}
