/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: the output.  Tokens go out as they came, but for the edits; an edit's text may hold
 * other tokens in any order, each announced by a mark (\1 number \2) from which the writer finds
 * out the file and line that it must claim.
 */
#include <stdlib.h>
#include <string.h>

#include "xlate.h"

struct edit {
    int end;
    const char *text;
};

static struct edit *edits; /* by first token */
static const char **before, **after;
static int cap;

static void room(void)
{
    if (cap > ntoks)
        return;

    cap = ntoks + 1;
    edits = xl_alloc(sizeof *edits * (size_t)cap);
    before = xl_alloc(sizeof *before * (size_t)cap);
    after = xl_alloc(sizeof *after * (size_t)cap);
}

void edit(int a, int b, const char *text)
{
    room();
    edits[a].end = b;
    edits[a].text = text;
}

void edit_before(int tok, const char *text)
{
    room();
    before[tok] = before[tok] ? xl_fmt("%s%s", before[tok], text) : text;
}

void edit_after(int tok, const char *text)
{
    room();
    after[tok] = after[tok] ? xl_fmt("%s%s", text, after[tok]) : text;
}

char *render(int a, int b)
{
    struct buf o = { 0 };

    room();
    buf_add(&o, "", 0);

    for (int i = a; i < b;) {
        if (before[i])
            buf_add(&o, before[i], strlen(before[i]));

        if (edits[i].text && edits[i].end > b)
            refuse(i, "this construct is too entangled for upcxlate; write it in two statements");

        if (edits[i].text) {
            buf_fmt(&o, "\1%d\2%s", i, toks[i].space ? " " : "");
            buf_add(&o, edits[i].text, strlen(edits[i].text));
            i = edits[i].end;
        } else {
            buf_fmt(&o, "\1%d\2%s", i, toks[i].space || i == a ? " " : "");
            if (toks[i].kind != T_UPC_PRAGMA)
                buf_add(&o, toks[i].text, (size_t)toks[i].len);

            i++;
        }

        if (after[i - 1])
            buf_add(&o, after[i - 1], strlen(after[i - 1]));
    }

    return o.s;
}

char *render_bare(int a, int b)
{
    char *s = render(a, b);
    char *o = s;

    for (char *p = s; *p; p++) {
        if (*p == '\1')
            p = strchr(p, '\2');
        else if (*p != ' ' || (o > s && o[-1] != ' '))
            *o++ = *p;
    }

    *o = 0;
    return s;
}

/* ---- the writer ---- */
static int out_file = -1, out_line;
static int pragma_done = -1; /* directives of tokens up to this one are out */
static bool fresh = true;    /* at the start of a line */

static void newline(FILE *f)
{
    fputc('\n', f);
    out_line++;
    fresh = true;
}

static void quote_name(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', f);

        fputc(*s, f);
    }
}

static void come_to(FILE *f, int tok)
{
    const struct token *t = &toks[tok];

    if (t->directive && tok > pragma_done) {
        if (!fresh)
            newline(f);

        fputs(t->directive, f);
        out_file = -1;
        pragma_done = tok;
    }

    if (t->file == out_file && t->line >= out_line && t->line <= out_line + 8) {
        while (out_line < t->line)
            newline(f);

        return;
    }

    if (!fresh)
        newline(f);

    fprintf(f, "# %d \"", t->line);
    quote_name(f, lex_file_name(t->file));
    fprintf(f, "\"%s\n", lex_file_flags(t->file));
    out_file = t->file;
    out_line = t->line;
    fresh = true;
}

static void put_text(FILE *f, const char *s)
{
    while (*s) {
        if (*s == '\1') {
            char *e;

            come_to(f, (int)strtol(s + 1, &e, 10));
            s = e + 1;
        } else if (*s == '\n') {
            newline(f);
            s++;
        } else {
            size_t n = strcspn(s, "\1\n");

            fwrite(s, 1, n, f);
            fresh = false;
            s += n;
        }
    }
}

void out_write(FILE *f, int a, int b)
{
    put_text(f, render(a, b));
}

void out_text(FILE *f, const char *text)
{
    if (!fresh)
        newline(f);

    fputs("# 1 \"<upcxlate>\" 3\n", f);
    out_file = -1;
    out_line = 1;
    put_text(f, text);
    if (!fresh)
        newline(f);
}
