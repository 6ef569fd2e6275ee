/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment registry; see env.h.  Layer: base. */
#include "base/env.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/platform.h"

extern char **environ;

enum type { STR, BOOL, INT, SIZE, DUR, ENUM };

struct row {
    const char *name;
    enum type type;
    const char *def, *unit;
    int64_t least, most;
    const char *group, *help;
};

static const struct row rows[AMPH_ENV_COUNT] = {
#define ROW(id, name, type, def, unit, least, most, group, help) { name, type, def, unit, least, most, group, help },
    AMPH_ENV_TABLE(ROW)
#undef ROW
};

struct value {
    bool set;
    const char *text; /* STR: the text; ENUM: the chosen word (owned) */
    int64_t number;   /* BOOL, INT, SIZE, DUR; ENUM: index */
};

/* Accepted variables: nothing reads them. */
static const struct {
    const char *name, *why;
} accepted[] = {
#define ACCEPTED(name, why) { name, why },
    AMPH_ENV_ACCEPTED(ACCEPTED)
    AMPH_ENV_ACCEPTED_CONDUITS(ACCEPTED)
#undef ACCEPTED
};

static struct value values[AMPH_ENV_COUNT];
static bool used[AMPH_ENV_COUNT]; /* by anybody so far */
static void (*teller)(const char *name, const char *value, bool is_default);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *const *kept; /* entries that hold where the environment has none of the name */

/* A number with one of the suffixes; the whole text must be used up. */
struct suffix {
    const char *text;
    double factor;
};

static const struct suffix size_suffixes[] = {
    { "", 1 },         { "B", 1 },        { "K", 1 << 10 },  { "KB", 1 << 10 },       { "KiB", 1 << 10 },      { "M", 1 << 20 },
    { "MB", 1 << 20 }, { "MiB", 1 << 20 }, { "G", 1 << 30 }, { "GB", 1 << 30 },       { "GiB", 1 << 30 },      { "T", 1099511627776. },
    { "TB", 1099511627776. }, { "TiB", 1099511627776. },
};
static const struct suffix time_suffixes[] = { { "", 1e9 }, { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
static const struct suffix no_suffix[] = { { "", 1 } };

static bool parse_number(const char *text, const struct suffix *suffixes, size_t n, int64_t *number_p)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || errno || !(v > -9e18 && v < 9e18))
        return false;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(end, suffixes[i].text) == 0 && v * suffixes[i].factor < 9e18) {
            *number_p = (int64_t)(v * suffixes[i].factor);
            return true;
        }
    return false;
}

bool amph_parse_size(const char *text, uint64_t *bytes_p)
{
    int64_t n;
    if (!parse_number(text, size_suffixes, AMPH_COUNTOF(size_suffixes), &n) || n < 0)
        return false;
    *bytes_p = (uint64_t)n;
    return true;
}

static bool parse_bool(const char *text, int64_t *number_p)
{
    static const char *const words[] = { "0", "1", "no", "yes", "off", "on", "false", "true", "n", "y" };
    for (size_t i = 0; i < AMPH_COUNTOF(words); i++)
        if (strcasecmp(text, words[i]) == 0) {
            *number_p = i & 1;
            return true;
        }
    return false;
}

/* Finds text among the words of "a|b|c"; word NULL asks for the first. */
static bool parse_enum(const char *list, const char *word, struct value *v)
{
    int64_t index = 0;
    for (const char *at = list; *at; index++) {
        size_t len = strcspn(at, "|");
        if (!word || (strlen(word) == len && strncasecmp(at, word, len) == 0)) {
            free((char *)v->text);
            v->text = strndup(at, len);
            v->number = index;
            return v->text != NULL;
        }
        at += len + (at[len] == '|');
    }
    return false;
}

static bool take_text(const char *def, const char *text, struct value *v)
{
    v->text = text;
    return true;
}

static bool take_bool(const char *def, const char *text, struct value *v)
{
    return parse_bool(text, &v->number);
}

static bool take_int(const char *def, const char *text, struct value *v)
{
    return parse_number(text, no_suffix, AMPH_COUNTOF(no_suffix), &v->number);
}

static bool take_size(const char *def, const char *text, struct value *v)
{
    return parse_number(text, size_suffixes, AMPH_COUNTOF(size_suffixes), &v->number);
}

static bool take_time(const char *def, const char *text, struct value *v)
{
    return parse_number(text, time_suffixes, AMPH_COUNTOF(time_suffixes), &v->number);
}

/* What a row of each type takes; def: the row's default, of an ENUM its words. */
static const struct {
    bool (*take)(const char *def, const char *text, struct value *v);
    const char *allowed; /* NULL: the words */
} types[] = {
    [STR] = { take_text, "any text" },       [BOOL] = { take_bool, "0 or 1" },
    [INT] = { take_int, "a whole number" },  [SIZE] = { take_size, "a size such as 64K" },
    [DUR] = { take_time, "a time such as 5ms" }, [ENUM] = { parse_enum, NULL },
};

static bool parse(const struct row *row, const char *text, struct value *v)
{
    return types[row->type].take(row->def, text, v);
}

static const char *allowed(const struct row *row)
{
    return types[row->type].allowed ? types[row->type].allowed : row->def;
}

/* The program may have changed its environment by the time that the settings are read, or cleared it. */
static const char *look_up(const char *name)
{
    const char *text = getenv(name);
    size_t len = strlen(name);
    for (char *const *e = kept; !text && e && *e; e++)
        if (strncmp(*e, name, len) == 0 && (*e)[len] == '=')
            text = *e + len + 1;
    return text;
}

/* A shell gives the memory of a variable free when it gets another value.  What was given out before stays. */
static const char *lasting(const char *before, const char *text)
{
    if (before && strcmp(before, text) == 0)
        return before;
    const char *copy = strdup(text);
    if (!copy)
        amph_fatal("no memory for a setting");
    return copy;
}

static void read_row(const struct row *row, struct value *v)
{
    const char *text = look_up(row->name), *before = v->text;
    v->set = text && (text[0] || row->type == STR); /* NAME= is as good as no NAME where a word or a number belongs */
    if (!parse(row, row->type == ENUM ? NULL : row->def, v))
        abort(); /* a default that does not parse is our own mistake */
    if (!v->set)
        return;
    if (!parse(row, text, v))
        amph_fatal("%s=\"%s\" is not allowed; it takes %s", row->name, text, allowed(row));
    if (row->type == STR)
        v->text = lasting(before, text);
    if ((row->least || row->most) && (v->number < row->least || v->number > row->most))
        amph_fatal("%s=\"%s\" is out of bounds; least %" PRId64 ", most %" PRId64, row->name, text, row->least, row->most);
}

unsigned amph_text_distance(const char *a, const char *b)
{
    unsigned row[64], n = (unsigned)strlen(b);
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

static void warn_unknown(const char *entry)
{
    char name[64];
    size_t len = strcspn(entry, "=");
    if (len >= sizeof name)
        return;
    memcpy(name, entry, len);
    name[len] = 0;
    const char *nearest = NULL;
    unsigned least = 99;
    for (unsigned i = 0; i < AMPH_ENV_COUNT; i++) {
        unsigned d = amph_text_distance(name, rows[i].name);
        if (d == 0)
            return;
        if (d < least)
            least = d, nearest = rows[i].name;
    }
    amph_warn("there is no setting %s; did you mean %s? (amphora-info -c lists them)", name, nearest);
}

/* Variables that other programs of ours set for each other; nobody types them. */
static bool is_private(const char *entry)
{
    return strncmp(entry, "AMPHORA_PRIVATE_", 16) == 0 || strncmp(entry, "IOFWD_PRIVATE_", 14) == 0;
}

static void load(void)
{
    for (unsigned i = 0; i < AMPH_ENV_COUNT; i++)
        read_row(&rows[i], &values[i]);
}

/* Not part of the once: the warning itself asks for the log level. */
static void warn_once(void)
{
    static bool warned;
    if (__atomic_exchange_n(&warned, true, __ATOMIC_RELAXED))
        return;
    /* One warning a job is enough: the launcher gives it, and a program started by hand. */
    if (values[AMPH_ENV_RANK].number > 0)
        return;
    for (char **e = environ; e && *e; e++)
        if ((strncmp(*e, "AMPHORA_", 8) == 0 || strncmp(*e, "IOFWD_", 6) == 0) && !is_private(*e))
            warn_unknown(*e);
}

static const struct value *look(enum amph_env_id id)
{
    pthread_once(&once, load);
    warn_once();
    return &values[id];
}

/* In the largest unit that gives a number of at least 1. */
static void show_time(int64_t ns, char *buf, size_t len)
{
    size_t unit = 1; /* ns; larger ones follow */
    while (unit + 1 < AMPH_COUNTOF(time_suffixes) && (double)ns >= time_suffixes[unit + 1].factor)
        unit++;
    snprintf(buf, len, "%g%s", (double)ns / time_suffixes[unit].factor, time_suffixes[unit].text);
}

static void show(const struct row *row, const struct value *v, char *buf, size_t len)
{
    if (row->type == STR || row->type == ENUM)
        snprintf(buf, len, "%s", v->text);
    else if (row->type == DUR)
        show_time(v->number, buf, len);
    else
        snprintf(buf, len, "%" PRId64, v->number);
}

static void tell_row(unsigned i)
{
    char text[1024];
    show(&rows[i], &values[i], text, sizeof text);
    teller(rows[i].name, text, !values[i].set);
}

static const struct value *get(enum amph_env_id id)
{
    const struct value *v = look(id);
    if (AMPH_UNLIKELY(!__atomic_load_n(&used[id], __ATOMIC_RELAXED)))
        if (!__atomic_exchange_n(&used[id], true, __ATOMIC_RELAXED) && teller)
            tell_row(id);
    return v;
}

/* A variable of GASNET_*: tells it if it stands in none of the tables. */
static void tell_unknown(const char *entry, void (*tell)(const char *name, const char *value, bool is_default))
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
    tell(name, text, false);
}

void amph_env_tell(void (*tell)(const char *name, const char *value, bool is_default))
{
    char text[1024];
    teller = tell;
    for (unsigned i = 0; i < AMPH_ENV_COUNT; i++)
        if (__atomic_load_n(&used[i], __ATOMIC_RELAXED))
            tell_row(i);
    for (size_t i = 0; i < AMPH_COUNTOF(accepted); i++) {
        const char *value = getenv(accepted[i].name);
        if (!value)
            continue;
        snprintf(text, sizeof text, "%s [no effect: %s]", value, accepted[i].why);
        tell(accepted[i].name, text, false);
    }
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, "GASNET_", 7) == 0)
            tell_unknown(*e, tell);
}

uint64_t amph_env_exit_timeout_ns(uint64_t nprocs)
{
    if (amph_env_is_set(AMPH_ENV_EXITTIMEOUT))
        return amph_env_ns(AMPH_ENV_EXITTIMEOUT);
    uint64_t most = amph_env_ns(AMPH_ENV_EXITTIMEOUT_MAX), least = amph_env_ns(AMPH_ENV_EXITTIMEOUT_MIN);
    uint64_t each = amph_env_ns(AMPH_ENV_EXITTIMEOUT_FACTOR);
    if (least >= most || each > (most - least) / (nprocs ? nprocs : 1))
        return most;
    return least + nprocs * each;
}

const char *amph_env_str(enum amph_env_id id)
{
    return get(id)->text;
}
bool amph_env_bool(enum amph_env_id id)
{
    return get(id)->number != 0;
}
int64_t amph_env_int(enum amph_env_id id)
{
    return get(id)->number;
}
uint64_t amph_env_size(enum amph_env_id id)
{
    return (uint64_t)get(id)->number;
}
uint64_t amph_env_ns(enum amph_env_id id)
{
    return (uint64_t)get(id)->number;
}
unsigned amph_env_enum(enum amph_env_id id)
{
    return (unsigned)get(id)->number;
}
bool amph_env_is_set(enum amph_env_id id)
{
    return get(id)->set;
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
    kept = entries;
}
void amph_env_reload(void)
{
    pthread_once(&once, load);
    load();
}

void amph_env_print(FILE *out)
{
    const char *group = "";
    char text[1024];
    for (unsigned i = 0; i < AMPH_ENV_COUNT; i++) {
        const struct value *v = look((enum amph_env_id)i);
        if (strcmp(group, rows[i].group) != 0)
            fprintf(out, "# %s\n", group = rows[i].group);
        show(&rows[i], v, text, sizeof text);
        fprintf(out, "%s=%s  (%s; %s%s%s) %s\n", rows[i].name, text, v->set ? "environment" : "default", allowed(&rows[i]),
                rows[i].unit[0] ? ", " : "", rows[i].unit, rows[i].help);
    }
    fprintf(out, "# accepted, without effect\n");
    for (size_t i = 0; i < AMPH_COUNTOF(accepted); i++) {
        const char *value = getenv(accepted[i].name);
        fprintf(out, "%s=%s  (%s) %s\n", accepted[i].name, value ? value : "", value ? "environment" : "not set", accepted[i].why);
    }
}
