/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes rename and link with names relative to directories that are open at different servers.
 *
 * Layer: iofwd.  Thread rule: see client/internal.h.
 *
 * The servers share a file system and export the same trees, so the directory of the new name is
 * opened for this one call at the server of the old name.  The old name's server executes the call,
 * because the old file may have no name (O_TMPFILE) and can then be linked only where it is open.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "iofwd/calls/calls.h"
#include "iofwd/client/internal.h"
#include "iofwd/wire/file.h"

#define RACES_MAX \
    64 /* times that the directory may get another name between asking for its name and opening \
          that */

/* Returns whether one server has both. */
static bool are_together(const struct amph_fwd_file *a, const struct amph_fwd_file *b,
                         uint32_t server)
{
    for (uint32_t i = 0; i < b->nparts; i++)
        if (b->part[i].server == server)
            return true;

    return a->nparts == 0 || b->nparts == 0;
}

/* Opens `dir` by its present name at another server: 0 and the file, EAGAIN if that name now
 * belongs to another directory, or an errno value. */
static int open_there(struct amph_fwd_client *cl, struct amph_client_link *link,
                      const struct amph_fwd_file *dir, struct amph_fwd_file *there)
{
    char name[FWD_PATH_MAX];
    size_t len = 0;
    struct stat was, is;
    struct amph_fwd_args_nameof ask_name = {
        .file = dir, .name = name, .name_cap = sizeof name - 2, .name_len = &len
    };
    struct amph_fwd_args_fstat ask_dir = { .file = dir, .st = &was };
    struct amph_fwd_args_fstat ask_there = { .file = there, .st = &is };
    struct amph_fwd_args_open open_it = { .path = name,
                                          .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW,
                                          .file = there };
    struct amph_fwd_args_close drop = { .file = there };
    int err = amph_client_once(cl, AMPH_FWD_FSTAT, &ask_dir);

    if (!err && !S_ISDIR(was.st_mode))
        err = ENOTDIR;

    if (!err) /* ENOENT: removed, so nothing can be created in it */
        err = amph_client_once(cl, AMPH_FWD_NAMEOF, &ask_name);

    if (err)
        return err;

    memcpy(name + len, "/", 2); /* "": the exported root */
    err = amph_client_simple(cl, link, AMPH_FWD_OPEN, &open_it);
    if (err)
        return err == ENOENT || err == ENOTDIR || err == ELOOP ? EAGAIN : err;

    err = amph_client_once(cl, AMPH_FWD_FSTAT, &ask_there);
    if (!err && (was.st_ino != is.st_ino || was.st_dev != is.st_dev))
        err = EAGAIN;

    if (err)
        (void)amph_client_once(cl, AMPH_FWD_CLOSE, &drop);

    return err;
}

/* Returns the member of a call's record that holds the directory of a path. */
static const struct amph_fwd_file **dir_of_path(void *args, const struct amph_fwd_arg_desc *path)
{
    return (const struct amph_fwd_file **)((char *)args + path->client_at);
}

int amph_client_pair(struct amph_fwd_client *cl, struct amph_client_link *link, enum amph_fwd_id id,
                     void *args)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[id];

    if (desc->arg[0].word != FWD_IN_PATH || desc->arg[1].word != FWD_IN_PATH)
        return EXDEV;

    const struct amph_fwd_file *from = *dir_of_path(args, &desc->arg[0]);
    const struct amph_fwd_file **at = dir_of_path(args, &desc->arg[1]);
    const struct amph_fwd_file *to = *at;
    struct amph_fwd_file there;
    int err = EAGAIN;

    if (!from || !to || are_together(from, to, link->server))
        return EXDEV; /* the server's own result */

    for (int races = 0; races < RACES_MAX && err == EAGAIN; races++)
        err = open_there(cl, link, to, &there);

    if (err)
        return err == EAGAIN ? EXDEV : err;

    struct amph_fwd_args_close drop = { .file = &there };

    *at = &there;
    err = amph_client_simple(cl, link, id, args);
    *at = to;
    (void)amph_client_once(cl, AMPH_FWD_CLOSE, &drop);

    return err;
}
