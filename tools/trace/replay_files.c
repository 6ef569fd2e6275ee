/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that a replay finds when it begins; see replay.h.
 *
 * Layer: tools.  Thread rule: one thread.
 *
 * The recorded calls say what was there before the run: what was read, asked about or opened before
 * any call had made it.  All of it is created again below the replay's folder, with other data.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/trace/replay.h"
#include "tools/trace/trace.h"

enum {
    BLOCK = 1 << 20
};

enum {
    UNKNOWN,
    ABSENT, /* before the run */
    PRESENT
};

struct found {
    uint8_t before; /* the run; of each path */
    bool is_folder, is_link;
    int64_t size;     /* before the run */
    int64_t size_now; /* as the calls up to now have left it */
};

bool replay_path(const struct replay *r, uint32_t file, char *path, size_t room)
{
    const char *name = r->trace->files[file];
    int n = snprintf(path, room, "%s%s%s", r->root, name[0] == '/' ? "" : "/", name);

    /* a name with ".." may lead out of the folder */
    return n > 0 && (size_t)n < room && !strstr(name, "/../") &&
           !(strlen(name) >= 3 && strcmp(name + strlen(name) - 3, "/..") == 0);
}

static void was_there(struct found *f)
{
    if (f->before == UNKNOWN)
        f->before = PRESENT;
}

static void was_not_there(struct found *f)
{
    if (f->before == UNKNOWN)
        f->before = ABSENT;
}

/* Read up to `end`: what the run has not written itself was there before, also if the file was opened with
 * O_CREAT. */
static void was_read(struct found *f, int64_t end)
{
    if (f->size_now >= end)
        return;

    f->before = PRESENT;
    f->size_now = end;
    f->size = f->size < end ? end : f->size;
}

static void was_opened(struct found *f, const struct amph_trace_event *e, const char *name)
{
    bool makes = e->has & AMPH_TRACE_HAS_FLAGS && e->flags & O_CREAT;

    f->is_folder = f->is_folder || e->flags & O_DIRECTORY;
    if (makes || strncmp(name, "mk", 2) == 0)
        was_not_there(f);
    else
        was_there(f);

    if (e->flags & O_TRUNC)
        f->size_now = 0;
}

/* What success of a call says about its file, by what the call's name begins with. */
static const struct sign {
    const char *name;
    bool folder, link, there;
} signs[] = {
    { "mkdir", .folder = true, .there = false },
    { "rmdir", .folder = true, .there = true },
    { "readlink", .link = true, .there = true },
    { "symlink", .there = false },
};

/* Takes the sign of a call.  false: it has none. */
static bool take_sign(struct found *f, const char *name)
{
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const struct sign *s = &signs[i];

        if (strncmp(name, s->name, strlen(s->name)) != 0)
            continue;

        f->is_folder = f->is_folder || s->folder;
        f->is_link = f->is_link || s->link;
        if (s->there)
            was_there(f);
        else
            was_not_there(f);

        return true;
    }

    return false;
}

/* A call that succeeded. */
static void look_at(struct found *all, const struct amph_trace *t, const struct amph_trace_event *e)
{
    struct found *f = &all[e->file];
    enum amph_trace_class cls = amph_trace_class_of(t->names[e->name]);
    const char *name = t->names[e->name] + strspn(t->names[e->name], "_");
    int64_t end = e->offset >= 0 && e->result > 0 ? e->offset + e->result : 0;

    if (cls == AMPH_TRACE_OPEN) {
        was_opened(f, e, name);
    } else if (cls == AMPH_TRACE_READ) {
        was_read(f, end);
    } else if (cls == AMPH_TRACE_WRITE) {
        f->size_now = f->size_now < end ? end : f->size_now;
        if (e->file2) /* what it was copied from, in most cases from the same offset */
            was_read(&all[e->file2], end);
    } else if (cls == AMPH_TRACE_FOLDER) {
        f->is_folder = true;
        was_there(f);
    } else if (take_sign(f, name)) {
        return;
    } else if (strstr(name, "truncate")) {
        f->size_now = e->offset;
        was_there(f);
    } else if (strncmp(name, "rename", 6) == 0 || strncmp(name, "link", 4) == 0) {
        was_there(f);
        was_not_there(&all[e->file2]);
        all[e->file2].size_now = f->size_now;
    } else if (cls == AMPH_TRACE_META && e->has & AMPH_TRACE_HAS_PATH) {
        was_there(f);
    }
}

static struct found *look(const struct replay *r)
{
    const struct amph_trace *t = r->trace;
    struct found *all = calloc(t->nfiles + 1, sizeof *all);

    for (size_t i = 0; all && i < t->nevents; i++) {
        const struct amph_trace_event *e = &t->events[i];

        if (!e->file || !r->chosen[e->file])
            continue;
        if (!(e->has & AMPH_TRACE_HAS_FAILED) && e->end_ns)
            look_at(all, t, e);
        else if (e->err == ENOENT && e->has & AMPH_TRACE_HAS_PATH)
            was_not_there(&all[e->file]);
        else if (e->err == EEXIST)
            was_there(&all[e->file]);
    }

    return all;
}

/* Is the folder made by the run itself? */
static bool is_made_later(const struct replay *r, const struct found *all, const uint32_t *later,
                          const char *path)
{
    for (size_t i = 0; later[i]; i++)
        if (strcmp(r->trace->files[later[i]], path + strlen(r->root)) == 0)
            return all[later[i]].before == ABSENT;

    return false;
}

/* Makes the folders that lead to a path, but for those that the run makes. */
static bool make_folders(const struct replay *r, const struct found *all, const uint32_t *later,
                         char *path)
{
    for (char *slash = strchr(path + strlen(r->root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;

        bool is_later = is_made_later(r, all, later, path);
        bool ok = is_later || mkdir(path, 0777) == 0 || errno == EEXIST;

        *slash = '/';
        if (is_later || !ok)
            return is_later;
    }

    return true;
}

static bool fill(int fd, int64_t size)
{
    char *block = malloc(BLOCK);
    bool ok = block != NULL;

    for (size_t i = 0; ok && i < BLOCK; i++)
        block[i] = (char)(i * 2654435761u >> 13);

    for (int64_t at = 0; ok && at < size; at += BLOCK) {
        size_t n = size - at < BLOCK ? (size_t)(size - at) : (size_t)BLOCK;

        ok = pwrite(fd, block, n, at) == (ssize_t)n;
    }

    free(block);
    return ok;
}

static bool make_file(const struct found *f, const char *path)
{
    if (f->is_folder)
        return mkdir(path, 0777) == 0 || errno == EEXIST;
    if (f->is_link)
        return symlink("target", path) == 0;

    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0)
        return errno == EISDIR; /* other paths lead through it */

    bool ok = fill(fd, f->size);

    return close(fd) == 0 && ok;
}

/* The folders that the run makes; 0 behind the last.  NULL: no memory. */
static uint32_t *find_later(const struct replay *r, const struct found *all)
{
    uint32_t *later = calloc(r->trace->nfiles + 1, sizeof *later);
    size_t n = 0;

    for (uint32_t f = 1; later && f < r->trace->nfiles; f++)
        if (all[f].is_folder && all[f].before == ABSENT)
            later[n++] = f;

    return later;
}

/* First all folders: a path that was only asked about may lead to others. */
static bool make_all(const struct replay *r)
{
    struct found *all = look(r);
    uint32_t *later = all ? find_later(r, all) : NULL;
    char path[8192];
    bool ok = later != NULL;

    if (ok && mkdir(r->root, 0777) != 0) {
        trace_fail("-prefix: %s cannot be made: %s", r->root, strerror(errno));
        ok = false;
    }

    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t f = 1; ok && f < r->trace->nfiles; f++) {
            if (!r->chosen[f] || !replay_path(r, f, path, sizeof path))
                continue;

            if (pass == 0)
                ok = make_folders(r, all, later, path);
            else
                ok = all[f].before != PRESENT || make_file(&all[f], path);

            if (!ok)
                trace_fail("%s cannot be made: %s", path, strerror(errno));
        }

    free(later);
    free(all);
    return ok;
}

bool replay_make_files(const struct replay *r)
{
    int status = 0;

    fflush(stdout);
    pid_t pid = fork();

    if (pid == 0)
        _exit(make_all(r) ? 0 : 1);

    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return !trace_fail("no process can be started: %s", strerror(errno));

    return status == 0;
}
