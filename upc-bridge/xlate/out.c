/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: the output.  Tokens go out as they came, but for the edits; an edit's text may hold
 * other tokens in any order, each announced by a mark (\1 number \2) from which the writer finds
 * out the file and line that it must claim.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xlate.h"

struct edit {
    int end;
    const char *text;
};

static void room(void)
{
    if (xl.out.max_tokens > xl.ntokens)
        return;

    xl.out.max_tokens = xl.ntokens + 1;
    xl.out.edits = xl_alloc(sizeof *xl.out.edits * (size_t)xl.out.max_tokens);
    xl.out.before = xl_alloc(sizeof *xl.out.before * (size_t)xl.out.max_tokens);
    xl.out.after = xl_alloc(sizeof *xl.out.after * (size_t)xl.out.max_tokens);
}

void xl_edit(int a, int b, const char *text)
{
    room();
    xl.out.edits[a].end = b;
    xl.out.edits[a].text = text;
}

void xl_edit_before(int tok, const char *text)
{
    room();
    xl.out.before[tok] = xl.out.before[tok] ? xl_fmt("%s%s", xl.out.before[tok], text) : text;
}

void xl_edit_after(int tok, const char *text)
{
    room();
    xl.out.after[tok] = xl.out.after[tok] ? xl_fmt("%s%s", text, xl.out.after[tok]) : text;
}

char *xl_render(int a, int b)
{
    struct buf o = { 0 };

    room();
    xl_buf_add(&o, "", 0);

    for (int i = a; i < b;) {
        if (xl.out.before[i])
            xl_buf_add(&o, xl.out.before[i], strlen(xl.out.before[i]));

        if (xl.out.edits[i].text && xl.out.edits[i].end > b)
            xl_refuse(i,
                      "this construct is too entangled for upcxlate; write it in two statements");

        if (xl.out.edits[i].text) {
            xl_buf_fmt(&o, "\1%d\2%s", i, xl.tokens[i].space ? " " : "");
            xl_buf_add(&o, xl.out.edits[i].text, strlen(xl.out.edits[i].text));
            i = xl.out.edits[i].end;
        } else {
            xl_buf_fmt(&o, "\1%d\2%s", i, xl.tokens[i].space || i == a ? " " : "");
            if (xl.tokens[i].kind != T_UPC_PRAGMA)
                xl_buf_add(&o, xl.tokens[i].text, (size_t)xl.tokens[i].len);

            i++;
        }

        if (xl.out.after[i - 1])
            xl_buf_add(&o, xl.out.after[i - 1], strlen(xl.out.after[i - 1]));
    }

    return o.s;
}

char *xl_render_bare(int a, int b)
{
    char *s = xl_render(a, b);
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

static void newline(FILE *f)
{
    fputc('\n', f);
    xl.out.line++;
    xl.out.line_start = true;
}

static void quote_name(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', f);

        fputc(*s, f);
    }
}

/* Writes the directives before the tokens up to this one, also before those that something else has
 * replaced. */
static void put_directives(FILE *f, int tok)
{
    while (xl.out.pragma_done < tok) {
        const char *directive = xl.tokens[++xl.out.pragma_done].directive;

        if (!directive)
            continue;

        if (!xl.out.line_start)
            newline(f);

        fputs(directive, f);
        xl.out.file = -1; /* the next line needs a marker */
        xl.out.line_start = true;
    }
}

static void come_to(FILE *f, int tok)
{
    const struct token *t = &xl.tokens[tok];

    put_directives(f, tok);

    if (t->file == xl.out.file && t->line >= xl.out.line && t->line <= xl.out.line + 8) {
        while (xl.out.line < t->line)
            newline(f);

        return;
    }

    if (!xl.out.line_start)
        newline(f);

    fprintf(f, "# %d \"", t->line);
    quote_name(f, xl_lex_file_name(t->file));
    fprintf(f, "\"%s\n", xl_lex_file_flags(t->file));
    xl.out.file = t->file;
    xl.out.line = t->line;
    xl.out.line_start = true;
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
            xl.out.line_start = false;
            s += n;
        }
    }
}

void xl_out_write(FILE *f, int a, int b)
{
    put_text(f, xl_render(a, b));
}

void xl_out_text(FILE *f, const char *text)
{
    if (!xl.out.line_start)
        newline(f);

    fputs("# 1 \"<upcxlate>\" 3\n", f);
    xl.out.file = -1;
    xl.out.line = 1;
    put_text(f, text);
    if (!xl.out.line_start)
        newline(f);
}
