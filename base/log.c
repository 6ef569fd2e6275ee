/* SPDX-License-Identifier: BSD-3-Clause */
/* The log; see log.h.  Layer: base. */
#include "base/log.h"
#include "base/log_json.h"
#include "base/visible.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/settings/env.h"

struct amph_fatal_hooks amph_fatal_hooks;

static struct {
    char identity[96];
    _Atomic bool error_logged;
    bool (*take)(const char *line, size_t len_bytes);
    _Atomic unsigned word; /* 1 + the index of AMPHORA_LOG's word in force; 0: the environment's */
} state;

void amph_log_identity(const char *who)
{
    snprintf(state.identity, sizeof state.identity, "%s", who);
}

void amph_log_set_sink(bool (*take)(const char *line, size_t len_bytes))
{
    __atomic_store_n(&state.take, take, __ATOMIC_RELEASE);
}

/* The levels in the order of the words in AMPHORA_LOG's row, the first of which is the default. */
static const struct {
    enum amph_log_level level;
    const char *name;
} levels[] = {
    { AMPH_LOG_WARN, "warn" },
    { AMPH_LOG_ERROR, "error" },
    { AMPH_LOG_INFO, "info" },
    { AMPH_LOG_DEBUG, "debug" },
};

static unsigned word_in_force(void)
{
    unsigned word = state.word;

    return word ? word - 1 : amph_env_enum(AMPH_ENV_LOG);
}

static enum amph_log_level level_in_force(void)
{
    return levels[word_in_force()].level;
}

bool amph_log_is_on(enum amph_log_level level)
{
    return level <= level_in_force();
}

void amph_log_set_level(unsigned word)
{
    if (word < AMPH_COUNTOF(levels))
        state.word = word + 1;
}

const char *amph_log_level_name(void)
{
    return levels[word_in_force()].name;
}

static const char *name_of(enum amph_log_level level)
{
    for (size_t i = 0; i < AMPH_COUNTOF(levels); i++)
        if (levels[i].level == level)
            return levels[i].name;

    return "error";
}

/* ---- lines ---- */

/* The request that the thread's messages concern. */
static _Thread_local struct amph_log_request request_now;

struct amph_log_request amph_log_request_set(struct amph_log_request request)
{
    struct amph_log_request before = request_now;

    request_now = request;
    return before;
}

/* Writes the request's id; "" if the messages concern none. */
static const char *request_id(char out[AMPH_LOG_REQUEST_BYTES])
{
    out[0] = 0;
    return request_now.name ? request_now.name(request_now.client, request_now.seq, out) : out;
}

/* A line that is being made.  It is cut where its room ends; room for "\"}\n" is kept. */
struct line {
    char text[1400];
    size_t len;
};

#define LINE_ROOM (sizeof((struct line *)0)->text - 4)

AMPH_PRINTF(2, 3) static void put(struct line *l, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);

    int n = vsnprintf(l->text + l->len, LINE_ROOM - l->len, fmt, ap);

    va_end(ap);
    if (n > 0)
        l->len += (size_t)n < LINE_ROOM - l->len ? (size_t)n : LINE_ROOM - l->len - 1;
}

/* A message may contain a client's path, which must not look like another line. */
static void line_text(struct line *l, const char *message)
{
    char request[AMPH_LOG_REQUEST_BYTES];

    put(l, "amphora: %s%s", state.identity, state.identity[0] ? ": " : "");
    amph_visible(l->text + l->len, LINE_ROOM - l->len - sizeof request - 16, message);
    l->len += strlen(l->text + l->len);
    if (request_id(request)[0])
        put(l, " [request %s]", request);
}

static void put_json(struct line *l, const char *text)
{
    l->len += amph_log_json_text(l->text + l->len, LINE_ROOM - l->len, text);
}

static void line_json(struct line *l, enum amph_log_level level, const char *message)
{
    char request[AMPH_LOG_REQUEST_BYTES];
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    put(l, "{\"time\":%lld.%06ld,\"level\":\"%s\",\"process\":\"", (long long)now.tv_sec,
        now.tv_nsec / 1000, name_of(level));
    put_json(l, state.identity[0] ? state.identity : program_invocation_short_name);
    put(l, "\",\"pid\":%ld", (long)getpid());

    if (request_id(request)[0])
        put(l, ",\"request\":\"%s\"", request);

    put(l, ",\"message\":\"");
    put_json(l, message);
    memcpy(l->text + l->len, "\"}", 2);
    l->len += 2;
}

/* Writes one message, in one write(2). */
static void emit(enum amph_log_level level, const char *fmt, va_list ap)
{
    int saved = errno;
    char message[1024];
    struct line l = { .len = 0 };

    if (vsnprintf(message, sizeof message, fmt, ap) < 0)
        message[0] = 0;

    if (amph_env_is_loaded() && amph_env_enum(AMPH_ENV_LOG_FORMAT))
        line_json(&l, level, message);
    else
        line_text(&l, message);

    l.text[l.len++] = '\n';

    bool (*take)(const char *, size_t) = __atomic_load_n(&state.take, __ATOMIC_ACQUIRE);

    if (!take || !take(l.text, l.len))
        while (write(STDERR_FILENO, l.text, l.len) < 0 && errno == EINTR)
            ;

    errno = saved;
}

void amph_log(enum amph_log_level level, const char *fmt, ...)
{
    int saved = errno; /* for %m: reading the level may change it */

    if (!amph_log_is_on(level))
        return;

    if (level == AMPH_LOG_ERROR)
        state.error_logged = true;

    va_list ap;

    errno = saved;
    va_start(ap, fmt);
    emit(level, fmt, ap);
    va_end(ap);
}

void amph_log_always(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    emit(AMPH_LOG_INFO, fmt, ap);
    va_end(ap);
}

/* ---- messages that one process logs for all ---- */

static uint64_t hash(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);

    return h;
}

/* Is this the first process of the job on this host to log message `number`?  The first one creates a
 * file beside the job's address file; the launcher removes it with the directory. */
static bool is_first_of_job(const char *job, uint64_t number)
{
    char path[PATH_MAX];
    const char *end = strrchr(job, '/');
    int n = snprintf(path, sizeof path, "%.*s/" AMPH_LOG_SHARED_FILE "%016" PRIx64,
                     end ? (int)(end - job) : 0, job, number);

    if (!end || n < 0 || (size_t)n >= sizeof path)
        return true;

    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool exists = fd < 0 && errno == EEXIST;

    if (fd >= 0)
        close(fd);

    return !exists;
}

/* The same for processes with the same parent.  The first one binds an abstract socket name, which the
 * kernel frees when the process ends. */
static bool is_first_child(uint64_t number)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    int n = snprintf(sun.sun_path + 1, sizeof sun.sun_path - 1,
                     "amphora-" AMPH_LOG_SHARED_FILE "%ld-%ld-%016" PRIx64, (long)getuid(),
                     (long)getppid(), number);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&sun,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0)
        return true; /* fd stays open */

    bool exists = errno == EADDRINUSE;

    close(fd);
    return !exists;
}

void amph_log_shared(enum amph_log_level level, const char *fmt, ...)
{
    char text[900];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);

    const char *job = amph_env_str(AMPH_ENV_JOB);

    if (level == AMPH_LOG_ERROR)
        state.error_logged = true;

    bool launched = job[0] && amph_env_int(AMPH_ENV_RANK) >= 0;
    bool first = launched ? is_first_of_job(job, hash(text)) : is_first_child(hash(text));

    if (first)
        amph_log(level, "%s", text);
}

bool amph_log_error_said(void)
{
    return state.error_logged;
}

void amph_fatal(const char *fmt, ...)
{
    va_list ap;

    if (amph_fatal_hooks.await_cause)
        amph_fatal_hooks.await_cause();

    va_start(ap, fmt);
    emit(AMPH_LOG_ERROR, fmt, ap);
    va_end(ap);
    if (amph_fatal_hooks.look)
        amph_fatal_hooks.look();

    if (amph_fatal_hooks.end_job)
        amph_fatal_hooks.end_job(1);

    _exit(1);
}
