/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment registry; see env.h.  Layer: base. */
#include "base/settings/env.h"
#include "base/settings/env_accepted.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/platform.h"

extern char **environ;

static const struct amph_env_row rows[AMPH_ENV_COUNT] = {
#define ROW(id, name, type, def, unit, min, max, group, help) \
    { name, AMPH_ENV_TYPE_##type, def, min, max },
    AMPH_ENV_TABLE(ROW)
#undef ROW
};

/* The columns of each row that are only printed. */
static const struct {
    const char *unit, *group, *help;
} texts[AMPH_ENV_COUNT] = {
#define TEXTS(id, name, type, def, unit, min, max, group, help) { unit, group, help },
    AMPH_ENV_TABLE(TEXTS)
#undef TEXTS
};

struct value {
    bool set;
    struct amph_env_value in_force;
};

/* Variables that are accepted without effect. */
static const struct {
    const char *name, *why;
} accepted[] = {
#define ACCEPTED(name, why) { name, why },
    AMPH_ENV_ACCEPTED(ACCEPTED) AMPH_ENV_ACCEPTED_CONDUITS(ACCEPTED)
#undef ACCEPTED
};

static struct {
    pthread_once_t once; /* load */
    bool loaded;         /* load has returned once */
    struct value values[AMPH_ENV_COUNT];
    bool used[AMPH_ENV_COUNT]; /* the value has been asked for; atomic */
    bool warned;               /* about unknown names; atomic */
    /* amph_env_describe's; NULL: not called */
    void (*report)(const char *name, const char *value, bool is_default);
    char *const *initial; /* amph_env_keep's entries, or NULL */
} state = { .once = PTHREAD_ONCE_INIT };

/* The variable's text, or NULL.  A program may change or clear its environment before the settings
 * are read; then the initial environment supplies the text. */
static const char *look_up(const char *name)
{
    const char *text = getenv(name);
    size_t len = strlen(name);

    for (char *const *e = state.initial; !text && e && *e; e++)
        if (strncmp(*e, name, len) == 0 && (*e)[len] == '=')
            text = *e + len + 1;

    return text;
}

static AMPH_NORETURN void no_memory(void)
{
    amph_fatal("no memory for a setting");
}

/* A copy of text that is never freed, because callers keep it.  (A shell frees a variable's memory
 * when the variable changes.) */
static const char *permanent(const char *before, const char *text)
{
    if (before && strcmp(before, text) == 0)
        return before;

    const char *copy = strdup(text);

    if (!copy)
        no_memory();

    return copy;
}

static void read_row(const struct amph_env_row *row, struct value *v)
{
    const char *text = look_up(row->name);
    const char *before = v->in_force.text;
    char why[AMPH_ENV_WHY_BYTES];

    /* for words and numbers, "NAME=" means the same as no NAME */
    v->set = text && (text[0] || row->type == AMPH_ENV_TYPE_STR);
    if (!v->set) {
        if (!amph_env_default(row, &v->in_force))
            no_memory();

        return;
    }

    if (!amph_env_parse(row, text, &v->in_force, why, sizeof why))
        amph_fatal("%s", why);

    if (row->type == AMPH_ENV_TYPE_STR)
        v->in_force.text = permanent(before, text);
}

unsigned amph_text_distance(const char *a, const char *b)
{
    unsigned row[64];
    unsigned n = (unsigned)strlen(b);

    if (n > 63 || strlen(a) > 63)
        return 99;

    for (unsigned j = 0; j <= n; j++)
        row[j] = j;

    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];

        row[0] = i;
        for (unsigned j = 1; j <= n; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
        }
    }

    return row[n];
}

static bool is_setting(const char *name)
{
    for (unsigned i = 0; i < AMPH_ENV_COUNT; i++)
        if (strcmp(name, rows[i].name) == 0)
            return true;

    return false;
}

static void warn_unknown(const char *entry)
{
    char name[64];
    size_t len = strcspn(entry, "=");

    if (len >= sizeof name)
        return;

    memcpy(name, entry, len);
    name[len] = 0;

    if (is_setting(name))
        return;

    const char *nearest = NULL;
    unsigned shortest = 99;

    for (unsigned i = 0; i < AMPH_ENV_COUNT; i++) {
        unsigned d = amph_text_distance(name, rows[i].name);

        if (d < shortest) {
            shortest = d;
            nearest = rows[i].name;
        }
    }

    if (shortest <= strlen(strchr(name, '_') + 1) / 3 + 1)
        amph_warn("there is no setting %s; did you mean %s? (amphora-info -c lists them)", name,
                  nearest);
    else
        amph_warn("there is no setting %s (amphora-info -c lists all)", name);
}

/* Is this one of the variables that Amphora's programs set for each other? */
static bool is_private(const char *entry)
{
    return strncmp(entry, "AMPHORA_PRIVATE_", 16) == 0 || strncmp(entry, "IOFWD_PRIVATE_", 14) == 0;
}

static void load(void)
{
    for (unsigned i = 0; i < AMPH_ENV_COUNT; i++)
        read_row(&rows[i], &state.values[i]);

    __atomic_store_n(&state.loaded, true, __ATOMIC_RELEASE);
}

bool amph_env_is_loaded(void)
{
    return __atomic_load_n(&state.loaded, __ATOMIC_ACQUIRE);
}

/* Warns about unknown names.  Not part of load, because a warning asks for the log level. */
static void warn_once(void)
{
    /* spinning waits read a setting in each round, so this first look must be cheap */
    if (__atomic_load_n(&state.warned, __ATOMIC_RELAXED) ||
        __atomic_exchange_n(&state.warned, true, __ATOMIC_RELAXED))
        return;

    /* one warning a job: the launcher or process 0 prints it */
    if (state.values[AMPH_ENV_RANK].in_force.number > 0)
        return;

    for (char **e = environ; e && *e; e++)
        if ((strncmp(*e, "AMPHORA_", 8) == 0 || strncmp(*e, "IOFWD_", 6) == 0) && !is_private(*e))
            warn_unknown(*e);
}

static const struct value *look(enum amph_env_id id)
{
    pthread_once(&state.once, load);
    warn_once();
    return &state.values[id];
}

static void report_row(unsigned i)
{
    char text[1024];

    amph_env_show(&rows[i], &state.values[i].in_force, text, sizeof text);
    state.report(rows[i].name, text, !state.values[i].set);
}

static const struct value *get(enum amph_env_id id)
{
    const struct value *v = look(id);

    if (AMPH_UNLIKELY(!__atomic_load_n(&state.used[id], __ATOMIC_RELAXED)))
        if (!__atomic_exchange_n(&state.used[id], true, __ATOMIC_RELAXED) && state.report)
            report_row(id);

    return v;
}

/* Reports a variable named GASNET_* that is in none of the tables. */
static void report_unknown(const char *entry,
                           void (*report)(const char *name, const char *value, bool is_default))
{
    char name[64], text[1024];
    size_t len = strcspn(entry, "=");

    if (len >= sizeof name || !entry[len])
        return;

    memcpy(name, entry, len);
    name[len] = 0;

    for (unsigned i = 0; i < AMPH_ENV_COUNT; i++)
        if (strcmp(name, rows[i].name) == 0)
            return;

    for (size_t i = 0; i < AMPH_COUNTOF(accepted); i++)
        if (strcmp(name, accepted[i].name) == 0)
            return;

    snprintf(text, sizeof text, "%s [no effect: nothing here reads it]", entry + len + 1);
    report(name, text, false);
}

void amph_env_describe(void (*report)(const char *name, const char *value, bool is_default))
{
    char text[1024];

    state.report = report;
    for (unsigned i = 0; i < AMPH_ENV_COUNT; i++)
        if (__atomic_load_n(&state.used[i], __ATOMIC_RELAXED))
            report_row(i);

    for (size_t i = 0; i < AMPH_COUNTOF(accepted); i++) {
        const char *value = getenv(accepted[i].name);

        if (!value)
            continue;

        snprintf(text, sizeof text, "%s [no effect: %s]", value, accepted[i].why);
        report(accepted[i].name, text, false);
    }

    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, "GASNET_", 7) == 0)
            report_unknown(*e, report);
}

uint64_t amph_env_exit_timeout_ns(uint64_t nprocs)
{
    if (amph_env_is_set(AMPH_ENV_EXITTIMEOUT))
        return amph_env_ns(AMPH_ENV_EXITTIMEOUT);

    uint64_t max = amph_env_ns(AMPH_ENV_EXITTIMEOUT_MAX);
    uint64_t min = amph_env_ns(AMPH_ENV_EXITTIMEOUT_MIN);
    uint64_t per_process = amph_env_ns(AMPH_ENV_EXITTIMEOUT_FACTOR);

    if (min >= max || per_process > (max - min) / (nprocs ? nprocs : 1))
        return max;

    return min + nprocs * per_process;
}

const char *amph_env_str(enum amph_env_id id)
{
    return get(id)->in_force.text;
}

bool amph_env_bool(enum amph_env_id id)
{
    return get(id)->in_force.number != 0;
}

int64_t amph_env_int(enum amph_env_id id)
{
    return get(id)->in_force.number;
}

uint64_t amph_env_size(enum amph_env_id id)
{
    return (uint64_t)get(id)->in_force.number;
}

uint64_t amph_env_ns(enum amph_env_id id)
{
    return (uint64_t)get(id)->in_force.number;
}

unsigned amph_env_enum(enum amph_env_id id)
{
    return (unsigned)get(id)->in_force.number;
}

bool amph_env_is_set(enum amph_env_id id)
{
    return get(id)->set;
}

bool amph_env_read(enum amph_env_id id, const char *text, int64_t *number_p, char *why,
                   size_t why_bytes)
{
    struct amph_env_value v = { 0 };
    bool ok = amph_env_parse(&rows[id], text, &v, why, why_bytes);

    if (ok)
        *number_p = v.number;

    if (rows[id].type == AMPH_ENV_TYPE_ENUM)
        free((char *)v.text);

    return ok;
}

const char *amph_env_name(enum amph_env_id id)
{
    return rows[id].name;
}

const char *amph_env_foreign(const char *name)
{
    return look_up(name);
}

void amph_env_keep(char *const *entries)
{
    state.initial = entries;
}

void amph_env_reload(void)
{
    pthread_once(&state.once, load);
    load();
}

void amph_env_print(FILE *out)
{
    const char *group = "";
    char text[1024];

    for (unsigned i = 0; i < AMPH_ENV_COUNT; i++) {
        const struct value *v = look((enum amph_env_id)i);

        if (strcmp(group, texts[i].group) != 0)
            fprintf(out, "# %s\n", group = texts[i].group);

        /* the value of a time has its unit */
        const char *unit = rows[i].type == AMPH_ENV_TYPE_DUR ? "" : texts[i].unit;

        amph_env_show(&rows[i], &v->in_force, text, sizeof text);
        fprintf(out, "%s=%s  (%s; %s%s%s) %s\n", rows[i].name, text,
                v->set ? "environment" : "default", amph_env_allowed(&rows[i]), unit[0] ? ", " : "",
                unit, texts[i].help);
    }

    fprintf(out, "# accepted, without effect\n");
    for (size_t i = 0; i < AMPH_COUNTOF(accepted); i++) {
        const char *value = getenv(accepted[i].name);
        fprintf(out, "%s=%s  (%s) %s\n", accepted[i].name, value ? value : "",
                value ? "environment" : "not set", accepted[i].why);
    }
}
