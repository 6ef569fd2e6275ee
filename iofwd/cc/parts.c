/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This installation's libraries, and the words that they add to a command; see cc.h.
 *
 * Layer: iofwd/cc.
 *
 * Everything goes to the linker by -Wl or -Xlinker: a file among the compiler's own inputs would be read in
 * the language of -x, and would change the names of its auxiliary outputs.
 */
#include "iofwd/cc/cc.h"

#include <string.h>
#include <unistd.h>

#include "base/program/install.h"

struct paths {
    const char *modules; /* folder of the preload library */
    const char *args;    /* file of the --wrap options */
    const char *archives;
};

static struct paths find(void)
{
    struct paths p;
    const char *bin = amph_install_bin();

    if (!bin)
        amph_cc_die(1, "/proc/self/exe cannot be read; is /proc mounted?");

    if (access(amph_cc_text("%s/libiofwd.la", bin), R_OK) == 0) { /* a build tree */
        p.modules = p.archives = amph_cc_text("%s/.libs", bin);
        p.args = amph_cc_text("%s/iofwd/calls/iofwd-wrap.args", bin);
        return p;
    }

    p.modules = amph_cc_text("%s", amph_install_moved(AMPH_MODULEDIR, bin));
    p.archives = amph_cc_text("%s", amph_install_moved(AMPH_LIBDIR, bin));
    p.args = amph_cc_text("%s/iofwd-wrap.args", p.modules);

    return p;
}

static const char *existing(const char *path, const char *remedy)
{
    if (access(path, R_OK) != 0)
        amph_cc_die(1, "%s is missing; %s", path, remedy);

    return path;
}

/* Adds options of the linker; the last argument is NULL. */
static void add_linker(struct amph_cc_words *command, const char *const words[])
{
    const char *joined = "-Wl";
    bool comma = false;

    for (size_t i = 0; words[i]; i++)
        comma = comma || strchr(words[i], ',');

    for (size_t i = 0; words[i]; i++) {
        joined = amph_cc_text("%s,%s", joined, words[i]);
        if (comma) {
            amph_cc_words_add(command, "-Xlinker");
            amph_cc_words_add(command, words[i]);
        }
    }

    if (!comma)
        amph_cc_words_add(command, joined);
}

/* Adds the interposer as the first needed library, even if the program's own objects do not call
 * it, because its libraries may. */
static void add_dynamic(struct amph_cc_words *command, const struct amph_cc_words *args)
{
    const struct paths p = find();
    const char *library = existing(amph_cc_text("%s/libiofwd_preload.so", p.modules),
                                   "install Amphora completely");

    add_linker(command,
               (const char *[]){ "--push-state", "--no-as-needed", library, "--pop-state", NULL });
    amph_cc_words_add_all(command, args);
    add_linker(command, (const char *[]){ "-rpath", p.modules, NULL });
}

static void add_static(struct amph_cc_words *command, const struct amph_cc_words *args)
{
    static const char remedy[] = "link dynamically, or install an Amphora that was configured with "
                                 "--enable-static";
    const struct paths p = find();
    const char *names[] = { existing(amph_cc_text("%s/libiofwd_wrap.a", p.archives), remedy),
                            existing(amph_cc_text("%s/libiofwd.a", p.archives), remedy),
                            existing(amph_cc_text("%s/libamphora.a", p.archives), remedy), NULL };

    amph_cc_words_add_all(command, args);
    amph_cc_words_add(command, amph_cc_text("@%s", existing(p.args, remedy)));
    add_linker(command, names);
    amph_cc_words_split(command, AMPH_CC_LIBS);
}

void amph_cc_parts_add(struct amph_cc_words *command, enum amph_cc_kind kind,
                       const struct amph_cc_words *args)
{
    if (kind == AMPH_CC_DYNAMIC)
        add_dynamic(command, args);
    else if (kind == AMPH_CC_STATIC)
        add_static(command, args);
    else
        amph_cc_words_add_all(command, args);
}
