/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entry of iofwd-run, and whether it can execute the program itself; see quick.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/attach/quick/quick.h"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <sys/resource.h>

#include "base/platform.h"
#include "base/program/note.h"
#include "launcher/attach/exported.h"
#include "launcher/attach/quick/kernel.h"
#include "launcher/common/program.h"

enum {
    ENTRIES_MAX = 1000, /* of the environment */
    NEW_ENTRIES = 3,
    STACK_BYTES = 256 << 10 /* more than iofwd-attach needs */
};

/* What the kernel gives to a new program. */
struct process {
    char **argv, **env;
    const char *name; /* the path by which it was executed, or NULL */
    struct amph_quick_user user;
};

/* The command line and the environment, as far as they matter here. */
struct request {
    const char *file;     /* the address file; NULL: not named */
    const char *prefixes; /* NULL: those of the servers */
    char **program;
    const char *path, *runtime_dir; /* PATH, XDG_RUNTIME_DIR, or NULL */
};

_Noreturn void amph_quick_main(long *stack);

/* The kernel enters here with the arguments on the stack. */
__asm__(".globl _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "    xorl %ebp, %ebp\n"
        "    movq %rsp, %rdi\n"
        "    andq $-16, %rsp\n"
        "    call amph_quick_main\n"
        "    hlt\n"
        ".size _start, . - _start\n");

/* This program is static, but what it starts forwards: a process that forwards must not warn of it. */
__attribute__((section(".note.amphora"), used, aligned(4))) static const struct amph_note note = {
    .namesz = sizeof AMPH_NOTE_NAME, .descsz = 0, .type = AMPH_NOTE_FORWARDS, .name = AMPH_NOTE_NAME
};

/* ---- what the user wants ---- */

/* Is this -servers or -iofwd, with one dash or two? */
static bool is_option(const char *word, const char *name)
{
    return word[0] == '-' && amph_quick_equal(word + 1 + (word[1] == '-'), name);
}

/* Takes the command line apart.  Returns false if it has an option that iofwd-attach must see. */
static bool take_words(char **argv, struct request *r)
{
    char **at = argv + 1;

    for (; *at && at[0][0] == '-'; at++) {
        if (amph_quick_equal(*at, "--")) {
            at++;
            break;
        }

        if (is_option(*at, "preload")) /* which is what it does */
            continue;

        if (!at[1] || !at[1][0])
            return false;

        if (is_option(*at, "servers"))
            r->file = at[1];
        else if (is_option(*at, "iofwd"))
            r->prefixes = at[1];
        else
            return false;

        at++;
    }

    r->program = at;
    return *at && at[0][0];
}

/* Looks at the environment.  Returns false if a setting there is iofwd-attach's business. */
static bool take_environment(char **env, struct request *r)
{
    for (; *env; env++) {
        const char *value = *env + amph_quick_span(*env, '=', '=');

        value += *value == '=';
        if (amph_quick_begins(*env, "AMPHORA_JOB=")) {
            if (!r->file && value[0])
                r->file = value;
        } else if (amph_quick_begins(*env, "PATH=")) {
            r->path = value;
        } else if (amph_quick_begins(*env, "XDG_RUNTIME_DIR=")) {
            r->runtime_dir = value;
        } else if (amph_quick_begins(*env, "LD_PRELOAD=")) {
            if (value[0])
                return false;
        } else if (!amph_quick_begins(*env, "IOFWD_PREFIX=") &&
                   !amph_quick_begins(*env, "IOFWD_NEAR=") &&
                   (amph_quick_begins(*env, "AMPHORA_") || amph_quick_begins(*env, "IOFWD_") ||
                    amph_quick_begins(*env, "GASNET_"))) {
            return false;
        }
    }

    return true;
}

/* The default address file, as amph_boot_standing_default names it. */
static void name_default(const struct request *r, const struct amph_quick_user *user,
                         struct amph_quick_text *path)
{
    if (r->runtime_dir && r->runtime_dir[0] == '/') {
        amph_quick_add(path, r->runtime_dir);
        amph_quick_add(path, "/iofwd-servers");
        return;
    }

    amph_quick_add(path, "/tmp/iofwd-servers-");
    amph_quick_add_number(path, user->uid);
}

/* ---- the program and the library ---- */

static bool may_execute(const char *path)
{
    return amph_quick_call(SYS_access, (long)path, 1 /* X_OK */, 0, 0) == 0;
}

/* Is the file below one of the prefixes (PREFIX[=DIR][:...])? */
static bool is_below(const char *path, const char *prefixes)
{
    while (*prefixes) {
        size_t entry = amph_quick_span(prefixes, ':', ':');
        size_t len = amph_quick_span(prefixes, '=', ':');
        size_t same = 0;

        while (len && prefixes[len - 1] == '/')
            len--;

        while (same < len && path[same] == prefixes[same])
            same++;

        if (len && same == len && path[len] == '/')
            return true;

        prefixes += entry + (prefixes[entry] == ':');
    }

    return false;
}

/* Finds the program along PATH.  A folder that may be searched may be executed, too: the caller sees that
 * it is no program, and leaves it to iofwd-attach.  So are programs below the prefixes. */
static bool find_program(const struct request *r, const char *prefixes,
                         struct amph_quick_text *path)
{
    const char *name = r->program[0];
    const char *at = r->path ? r->path : "/usr/local/bin:/usr/bin:/bin";

    if (amph_quick_base(name) != name) {
        amph_quick_add(path, name);
        return !path->cut && may_execute(path->buf);
    }

    while (*at) {
        size_t len = amph_quick_span(at, ':', ':');

        path->len = 0;
        amph_quick_add_part(path, len ? at : ".", len ? len : 1);
        amph_quick_add(path, "/");
        amph_quick_add(path, name);
        if (path->cut || is_below(path->buf, prefixes))
            return false;
        if (may_execute(path->buf))
            return true;

        at += len + (at[len] == ':');
    }

    return false;
}

/* Puts the absolute path of this program into path.  If it was executed by that path, this needs no look at /proc,
 * whose first one takes 20 us. */
static bool find_self(const char *name, struct amph_quick_text *path)
{
    int fd = name && amph_quick_is_clean(name) ? amph_quick_open_linkless(name, 0) : -1;

    if (fd >= 0) {
        amph_quick_close(fd);
        amph_quick_add(path, name);
        return !path->cut;
    }

    long n = amph_quick_readlink("/proc/self/exe", path->buf, path->cap);

    if (n <= 0 || (size_t)n >= path->cap)
        return false;

    path->buf[n] = 0;
    return true;
}

/* Puts the folder of this program into dir, without a slash at the end. */
static bool find_own_folder(const char *name, struct amph_quick_text *dir)
{
    if (!find_self(name, dir))
        return false;

    dir->len = (size_t)(amph_quick_base(dir->buf) - dir->buf);
    if (dir->len == 0)
        return false;

    dir->buf[--dir->len] = 0;
    return true;
}

/* The library, in the order of amph_program_library; entry has room for PATH_MAX bytes more. */
static bool find_library(const struct amph_quick_text *dir, struct amph_quick_text *entry)
{
    static const char *const places[] = { "/../lib/amphora/", "/.libs/" };
    size_t start = entry->len;

    for (size_t i = 0; i <= AMPH_COUNTOF(places); i++) {
        entry->len = start;
        amph_quick_add(entry, i < AMPH_COUNTOF(places) ? dir->buf : AMPH_MODULEDIR "/");
        if (i < AMPH_COUNTOF(places))
            amph_quick_add(entry, places[i]);

        amph_quick_add(entry, AMPH_PRELOAD_NAME);

        const char *path = entry->buf + start;

        if (amph_quick_call(SYS_access, (long)path, 0 /* F_OK */, 0, 0) == 0)
            return !entry->cut && !path[amph_quick_span(path, ':', ' ')] &&
                   amph_quick_is_library(path);
    }

    return false;
}

/* ---- executing ---- */

/* Is there room for the functions here, which have their buffers on the stack? */
static bool has_stack(void)
{
    struct rlimit stack;

    return amph_quick_call(SYS_prlimit64, 0, RLIMIT_STACK, 0, (long)&stack) == 0 &&
           stack.rlim_cur >= STACK_BYTES;
}

/* Copies the environment without the variables that this program sets.  Returns the number of entries. */
static size_t copy_environment(char **env, char **copy)
{
    size_t n = 0;

    for (; *env && n < ENTRIES_MAX; env++)
        if (!amph_quick_begins(*env, "AMPHORA_JOB=") && !amph_quick_begins(*env, "IOFWD_PREFIX=") &&
            !amph_quick_begins(*env, "LD_PRELOAD="))
            copy[n++] = *env;

    return n;
}

/* Executes the program with the preload library.  Returns if iofwd-attach is needed. */
static AMPH_NOINLINE void try_to_execute(const struct process *p, const struct amph_quick_text *dir)
{
    struct request r = { .file = NULL };
    struct amph_quick_servers servers;
    char default_bytes[PATH_MAX], program_bytes[PATH_MAX], library_bytes[2 * PATH_MAX];
    char job_bytes[PATH_MAX + 16], prefix_bytes[PATH_MAX + 16];
    struct amph_quick_text name = { default_bytes, 0, sizeof default_bytes, false };
    struct amph_quick_text program = { program_bytes, 0, sizeof program_bytes, false };
    struct amph_quick_text library = { library_bytes, 0, sizeof library_bytes, false };
    struct amph_quick_text job = { job_bytes, 0, sizeof job_bytes, false };
    struct amph_quick_text prefix = { prefix_bytes, 0, sizeof prefix_bytes, false };
    char *env[ENTRIES_MAX + NEW_ENTRIES + 1];

    if (!take_words(p->argv, &r) || !take_environment(p->env, &r))
        return;

    if (!r.file) {
        name_default(&r, &p->user, &name);
        r.file = default_bytes;
    }

    amph_quick_add(&library, "LD_PRELOAD=");
    if (name.cut || !amph_quick_read_servers(r.file, &p->user, &servers))
        return;

    const char *prefixes = r.prefixes ? r.prefixes : servers.prefixes;

    if (amph_attach_not_exported(prefixes, servers.prefixes))
        return; /* iofwd-attach says so */

    if (!find_program(&r, prefixes, &program) || !amph_quick_suits(program_bytes, &p->user) ||
        !find_library(dir, &library))
        return;

    amph_quick_add(&job, "AMPHORA_JOB=");
    amph_quick_add(&job, servers.path);
    amph_quick_add(&prefix, "IOFWD_PREFIX=");
    amph_quick_add(&prefix, prefixes);

    size_t n = copy_environment(p->env, env);

    if (job.cut || prefix.cut || n == ENTRIES_MAX)
        return;

    env[n++] = job_bytes;
    env[n++] = prefix_bytes;
    env[n++] = library_bytes;
    env[n] = NULL;
    (void)amph_quick_call(SYS_execve, (long)program_bytes, (long)r.program, (long)env, 0);
}

/* Executes iofwd-attach, which is beside this program or where it was installed. */
static void execute_attach(const struct process *p, struct amph_quick_text *dir)
{
    amph_quick_add(dir, "/" AMPH_ATTACH_NAME);
    if (!dir->cut)
        (void)amph_quick_call(SYS_execve, (long)dir->buf, (long)p->argv, (long)p->env, 0);

    (void)amph_quick_call(SYS_execve, (long)(AMPH_BINDIR "/" AMPH_ATTACH_NAME), (long)p->argv,
                          (long)p->env, 0);
}

static void read_facts(const ElfW(auxv_t) * fact, struct process *p)
{
    struct amph_quick_user *user = &p->user;

    for (; fact->a_type != AT_NULL; fact++)
        switch (fact->a_type) {
        case AT_UID:
            user->uid = fact->a_un.a_val;
            break;
        case AT_EUID:
            user->euid = fact->a_un.a_val;
            break;
        case AT_GID:
            user->gid = fact->a_un.a_val;
            break;
        case AT_EGID:
            user->egid = fact->a_un.a_val;
            break;
        case AT_EXECFN:
            p->name = (const char *)fact->a_un.a_val;
            break;
        default:
            break;
        }
}

_Noreturn void amph_quick_main(long *stack)
{
    static const char missing[] = "iofwd-run: the program " AMPH_ATTACH_NAME
                                  ", which is part of it, is found neither beside "
                                  "iofwd-run nor in " AMPH_BINDIR "; install amphora again\n";
    struct process p = { .argv = (char **)(stack + 1) };
    char dir_bytes[PATH_MAX];
    struct amph_quick_text dir = { dir_bytes, 0, sizeof dir_bytes, false };

    p.env = p.argv + stack[0] + 1;

    char **end = p.env;

    while (*end)
        end++;

    read_facts((const void *)(end + 1), &p);

    if (stack[0] > 0 && find_own_folder(p.name, &dir)) {
        if (has_stack())
            try_to_execute(&p, &dir);
    } else {
        dir.cut = true; /* not known */
    }

    execute_attach(&p, &dir);
    (void)amph_quick_call(SYS_write, 2, (long)missing, sizeof missing - 1, 0);

    for (;;)
        (void)amph_quick_call(SYS_exit_group, 1, 0, 0, 0);
}
