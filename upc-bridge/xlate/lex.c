/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: the text that the preprocessor left, as tokens.  Line markers give each token its file
 * and line; #pragma upc becomes a token, every other directive is kept for the output.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xlate.h"

struct file {
    const char *name, *flags;
};

const char *xl_lex_file_name(int file)
{
    return xl.lex.file[file].name;
}

const char *xl_lex_program_name(void)
{
    /* what was read; the first line marker names the source that it was made of */
    return xl.lex.file[xl.lex.nfiles > 1].name;
}

const char *xl_lex_file_flags(int file)
{
    return xl.lex.file[file].flags;
}

/* ---- identifiers ---- */
struct word {
    struct word *next;
    enum keyword kw;
    int len;
    char s[];
};

static struct word *word_get(const char *s, size_t n)
{
    unsigned h = 2166136261u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;

    struct word **slot = &xl.lex.word[h % XL_WORD_SLOTS];

    for (struct word *w = *slot; w; w = w->next)
        if ((size_t)w->len == n && memcmp(w->s, s, n) == 0)
            return w;

    struct word *w = xl_alloc(sizeof *w + n + 1);

    w->len = (int)n;
    memcpy(w->s, s, n);
    w->next = *slot;
    *slot = w;

    return w;
}

const char *xl_intern(const char *s, size_t n)
{
    return word_get(s, n)->s;
}

static const struct {
    const char *name;
    enum keyword kw;
} keywords[] = {
    { "auto", K_AUTO },
    { "break", K_BREAK },
    { "case", K_CASE },
    { "char", K_CHAR },
    { "const", K_CONST },
    { "__const", K_CONST },
    { "__const__", K_CONST },
    { "continue", K_CONTINUE },
    { "default", K_DEFAULT },
    { "do", K_DO },
    { "double", K_DOUBLE },
    { "else", K_ELSE },
    { "enum", K_ENUM },
    { "extern", K_EXTERN },
    { "float", K_FLOAT },
    { "for", K_FOR },
    { "goto", K_GOTO },
    { "if", K_IF },
    { "inline", K_INLINE },
    { "__inline", K_INLINE },
    { "__inline__", K_INLINE },
    { "int", K_INT },
    { "long", K_LONG },
    { "register", K_REGISTER },
    { "restrict", K_RESTRICT },
    { "__restrict", K_RESTRICT },
    { "__restrict__", K_RESTRICT },
    { "return", K_RETURN },
    { "short", K_SHORT },
    { "signed", K_SIGNED },
    { "__signed", K_SIGNED },
    { "__signed__", K_SIGNED },
    { "sizeof", K_SIZEOF },
    { "static", K_STATIC },
    { "struct", K_STRUCT },
    { "switch", K_SWITCH },
    { "typedef", K_TYPEDEF },
    { "union", K_UNION },
    { "unsigned", K_UNSIGNED },
    { "void", K_VOID },
    { "volatile", K_VOLATILE },
    { "__volatile", K_VOLATILE },
    { "__volatile__", K_VOLATILE },
    { "while", K_WHILE },
    { "_Alignas", K_ALIGNAS },
    { "_Alignof", K_ALIGNOF },
    { "__alignof", K_ALIGNOF },
    { "__alignof__", K_ALIGNOF },
    { "_Atomic", K_ATOMIC },
    { "_Bool", K_BOOL },
    { "_Complex", K_COMPLEX },
    { "__complex__", K_COMPLEX },
    { "__complex", K_COMPLEX },
    { "_Generic", K_GENERIC },
    { "_Noreturn", K_NORETURN },
    { "_Static_assert", K_STATIC_ASSERT },
    { "_Thread_local", K_THREAD_LOCAL },
    { "__thread", K_THREAD_LOCAL },
    { "typeof", K_TYPEOF },
    { "__typeof", K_TYPEOF },
    { "__typeof__", K_TYPEOF },
    { "__attribute", K_ATTRIBUTE },
    { "__attribute__", K_ATTRIBUTE },
    { "__extension__", K_EXTENSION },
    { "asm", K_ASM },
    { "__asm", K_ASM },
    { "__asm__", K_ASM },
    { "__label__", K_LABEL },
    { "__auto_type", K_AUTO_TYPE },
    { "__int128", K_INT128 },
    { "__int128_t", K_INT128 },
    { "__uint128_t", K_UINT128 },
    { "_Float16", K_FLOATN },
    { "_Float32", K_FLOATN },
    { "_Float64", K_FLOATN },
    { "_Float128", K_FLOATN },
    { "__float128", K_FLOATN },
    { "_Float32x", K_FLOATN },
    { "_Float64x", K_FLOATN },
    { "__float80", K_FLOATN },
    { "_Decimal32", K_FLOATN },
    { "_Decimal64", K_FLOATN },
    { "_Decimal128", K_FLOATN },
    { "__bf16", K_FLOATN },
    { "shared", K_SHARED },
    { "strict", K_STRICT },
    { "relaxed", K_RELAXED },
    { "THREADS", K_THREADS },
    { "MYTHREAD", K_MYTHREAD },
    { "UPC_MAX_BLOCK_SIZE", K_MAX_BLOCK },
    { "upc_barrier", K_BARRIER },
    { "upc_notify", K_NOTIFY },
    { "upc_wait", K_WAIT },
    { "upc_fence", K_FENCE },
    { "upc_forall", K_FORALL },
    { "upc_blocksizeof", K_BLOCKSIZEOF },
    { "upc_localsizeof", K_LOCALSIZEOF },
    { "upc_elemsizeof", K_ELEMSIZEOF },
};

/* Longest first. */
static const char *const operators[] = {
    "...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
    "*=",  "/=",  "%=",  "+=", "-=", "&=", "^=", "|=", "##", "<:", ":>", "<%", "%>", "%:"
};

static const struct {
    const char *digraph;
    char as;
} digraphs[] = { { "<:", '[' }, { ":>", ']' }, { "<%", '{' }, { "%>", '}' } };

/* ---- the text ---- */

__attribute__((noreturn)) static void lex_refuse(const char *why)
{
    fprintf(stderr, "%s:%d: upcxlate: %s\n", xl.lex.file[xl.lex.current_file].name,
            xl.lex.current_line, why);
    exit(1);
}

static int file_get(const char *name, const char *flags)
{
    for (int i = xl.lex.nfiles - 1; i >= 0; i--)
        if (strcmp(xl.lex.file[i].name, name) == 0 && strcmp(xl.lex.file[i].flags, flags) == 0)
            return i;

    if (xl.lex.nfiles == xl.lex.max_files) {
        struct file *f = xl_alloc(sizeof *f * (size_t)(xl.lex.max_files * 2 + 16));

        if (xl.lex.nfiles)
            memcpy(f, xl.lex.file, sizeof *f * (size_t)xl.lex.nfiles);

        xl.lex.file = f;
        xl.lex.max_files = xl.lex.max_files * 2 + 16;
    }

    xl.lex.file[xl.lex.nfiles].name = name;
    xl.lex.file[xl.lex.nfiles].flags = flags;
    return xl.lex.nfiles++;
}

static struct token *token_new(enum token_kind kind, const char *text, size_t len, bool space)
{
    if (xl.ntokens == xl.lex.max_tokens) {
        size_t cap = (size_t)xl.lex.max_tokens * 2 + 4096;
        struct token *t = xl_alloc(sizeof *t * cap);

        if (xl.ntokens)
            memcpy(t, xl.tokens, sizeof *t * (size_t)xl.ntokens);

        xl.tokens = t;
        xl.lex.max_tokens = (int)cap;
    }

    struct token *t = &xl.tokens[xl.ntokens++];

    memset(t, 0, sizeof *t);
    t->kind = kind;
    t->text = text;
    t->len = (int)len;
    t->file = xl.lex.current_file;
    t->line = xl.lex.current_line;
    t->space = space;

    if (xl.lex.directive.len) {
        t->directive = xl.lex.directive.s;
        memset(&xl.lex.directive, 0, sizeof xl.lex.directive);
    }

    return t;
}

/* # 12 "name" flags */
static void line_marker(const char *p, const char *e)
{
    long line = 0;

    while (p < e && isdigit((unsigned char)*p) && line < 100000000)
        line = line * 10 + (*p++ - '0');

    while (p < e && (*p == ' ' || *p == '\t'))
        p++;

    if (p < e && *p == '"') {
        struct buf name = { 0 };

        xl_buf_add(&name, "", 0);
        for (p++; p < e && *p != '"'; p++) {
            if (*p == '\\' && p + 1 < e)
                p++;

            xl_buf_add(&name, p, 1);
        }

        bool system = false;

        for (; p < e; p++)
            system |= *p == '3';

        xl.lex.current_file = file_get(name.s, system ? " 3" : "");
    }

    xl.lex.current_line = (int)line - 1; /* the marker's own newline follows */
}

static bool word_is(const char **p, const char *e, const char *w)
{
    const char *q = *p;

    while (q < e && (*q == ' ' || *q == '\t'))
        q++;

    size_t n = strlen(w);
    if ((size_t)(e - q) < n || memcmp(q, w, n) != 0 ||
        ((size_t)(e - q) > n && (isalnum((unsigned char)q[n]) || q[n] == '_')))
        return false;

    *p = q + n;
    return true;
}

/* What follows "#pragma upc" up to e. */
static void lex_pragma(const char *p, const char *e)
{
    if (word_is(&p, e, "c_code")) {
        xl.lex.c_code = true;
    } else if (word_is(&p, e, "upc_code")) {
        xl.lex.c_code = false;
    } else if (word_is(&p, e, "strict")) {
        token_new(T_UPC_PRAGMA, xl.lex.at, (size_t)(e - xl.lex.at), true)->strict = true;
    } else if (word_is(&p, e, "relaxed")) {
        token_new(T_UPC_PRAGMA, xl.lex.at, (size_t)(e - xl.lex.at), true);
    } else {
        while (p < e && (*p == ' ' || *p == '\t'))
            p++;

        fprintf(stderr,
                "%s:%d: upcxlate: warning: '#pragma upc %.*s' is unknown; it has no effect\n",
                xl.lex.file[xl.lex.current_file].name, xl.lex.current_line,
                (int)strcspn(p, " \t\r\n"), p);
    }
}

/* Puts a line marker in front of a directive that is kept, for the C compiler's messages. */
static void mark_directive(void)
{
    xl_buf_fmt(&xl.lex.directive, "# %d \"", xl.lex.current_line);
    for (const char *s = xl.lex.file[xl.lex.current_file].name; *s; s++)
        xl_buf_fmt(&xl.lex.directive, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);

    xl_buf_fmt(&xl.lex.directive, "\"%s\n", xl_lex_file_flags(xl.lex.current_file));
}

/* A line that begins with '#'; at points to it. */
static void lex_directive(void)
{
    const char *e = memchr(xl.lex.at, '\n', (size_t)(xl.lex.end - xl.lex.at));

    if (e == NULL)
        e = xl.lex.end;

    const char *p = xl.lex.at + 1;

    while (p < e && (*p == ' ' || *p == '\t'))
        p++;

    const char *q = p;

    if (p < e && isdigit((unsigned char)*p)) {
        line_marker(p, e);
    } else if (word_is(&q, e, "line")) {
        while (q < e && (*q == ' ' || *q == '\t'))
            q++;

        line_marker(q, e);
    } else if (q = p, word_is(&q, e, "pragma") && word_is(&q, e, "upc")) {
        lex_pragma(q, e);
    } else if (q = p, word_is(&q, e, "pragma") && word_is(&q, e, "pupc")) {
        ; /* for instrumented code, which this is not */
    } else {
        mark_directive();
        xl_buf_add(&xl.lex.directive, xl.lex.at, (size_t)(e - xl.lex.at));
        xl_buf_add(&xl.lex.directive, "\n", 1);
    }

    xl.lex.at = e;
}

/* Inside quotes; at points to the opening one. */
static const char *quoted(const char *p)
{
    char q = *p;

    for (p++; p < xl.lex.end && *p != q && *p != '\n'; p++) {
        if (*p == '\\' && p + 1 < xl.lex.end)
            p++;

        if (*p == '\1')
            lex_refuse("a control character (code 1) inside quotes; write \\1");
    }

    if (p >= xl.lex.end || *p != q)
        lex_refuse(q == '"' ? "a string does not end on its line"
                            : "a character constant does not end on its line");

    return p + 1;
}

/* \u00e9 or \U000000e9, as a part of a name */
static bool is_universal(const char *p)
{
    return *p == '\\' && p + 1 < xl.lex.end && (p[1] == 'u' || p[1] == 'U');
}

static bool begins_word(const char *p)
{
    return isalpha((unsigned char)*p) || *p == '_' || *p == '$' || (unsigned char)*p >= 0x80 ||
           is_universal(p);
}

static void lex_word(bool space)
{
    const char *p = xl.lex.at;

    while (p < xl.lex.end && (begins_word(p) || isdigit((unsigned char)*p)))
        p += is_universal(p) ? 2 : 1;

    size_t n = (size_t)(p - xl.lex.at);

    if (p < xl.lex.end && (*p == '"' || *p == '\'') && (n == 1 || (n == 2 && *p == '"')) &&
        strchr("LuU", *xl.lex.at)) {
        const char *e = quoted(p);

        token_new(*p == '"' ? T_STR : T_CHAR, xl.lex.at, (size_t)(e - xl.lex.at), space);
        xl.lex.at = e;
        return;
    }

    struct word *w = word_get(xl.lex.at, n);
    struct token *t = token_new(T_ID, xl.lex.at, n, space);

    t->id = w->s;
    t->kw = w->kw;

    /* Headers of the system are C, and so is what #pragma upc c_code says: there these are names
     * like others. */
    if (w->kw >= K_SHARED && (xl.lex.c_code || xl.lex.file[xl.lex.current_file].flags[0]))
        t->kw = K_NONE;

    xl.lex.at = p;
}

static void lex_number(bool space)
{
    const char *p = xl.lex.at;

    while (p < xl.lex.end &&
           (isalnum((unsigned char)*p) || *p == '.' || *p == '_' ||
            ((*p == '+' || *p == '-') && strchr("eEpP", p[-1])) ||
            (*p == '\'' && p + 1 < xl.lex.end && isalnum((unsigned char)p[1])))) /* 1'000 */
        p++;

    token_new(T_NUM, xl.lex.at, (size_t)(p - xl.lex.at), space);
    xl.lex.at = p;
}

static void lex_punct(bool space)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        size_t n = strlen(operators[i]);

        if ((size_t)(xl.lex.end - xl.lex.at) < n || memcmp(xl.lex.at, operators[i], n) != 0)
            continue;

        struct token *t = token_new(T_PUNCT, xl.lex.at, n, space);

        for (size_t k = 0; k < n; k++)
            t->punct |= (unsigned)(unsigned char)xl.lex.at[k] << (8 * k);

        for (size_t k = 0; k < sizeof digraphs / sizeof *digraphs; k++)
            if (strcmp(operators[i], digraphs[k].digraph) == 0)
                t->punct = (unsigned)digraphs[k].as;

        xl.lex.at += n;
        return;
    }

    if (!strchr("[](){}.&*+-~!/%<>^|?:;=,", *xl.lex.at) || *xl.lex.at == 0)
        lex_refuse(xl_fmt("a character that C does not know (code %d)", (unsigned char)*xl.lex.at));

    struct token *t = token_new(T_PUNCT, xl.lex.at, 1, space);

    t->punct = (unsigned char)*xl.lex.at++;
}

void xl_lex(const char *text, size_t len, const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        word_get(keywords[i].name, strlen(keywords[i].name))->kw = keywords[i].kw;

    xl.lex.at = text;
    xl.lex.end = text + len;
    if (memchr(text, 0, len))
        xl_fatal("%s: not a text: it holds a byte 0", name);

    xl.lex.current_file = file_get(name, "");
    xl.lex.current_line = 1;

    bool line_start = true;
    bool space = false;

    while (xl.lex.at < xl.lex.end) {
        if (xl.ntokens > 50000000)
            lex_refuse("the program is too long");

        char c = *xl.lex.at;

        if (c == '\n') {
            xl.lex.current_line++;
            line_start = space = true;
            xl.lex.at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            space = true;
            xl.lex.at++;
        } else if (c == '#' && line_start) {
            lex_directive();
        } else if (c == '"' || c == '\'') {
            const char *e = quoted(xl.lex.at);

            token_new(c == '"' ? T_STR : T_CHAR, xl.lex.at, (size_t)(e - xl.lex.at), space);
            xl.lex.at = e;
            line_start = space = false;
        } else {
            if (isdigit((unsigned char)c) ||
                (c == '.' && xl.lex.at + 1 < xl.lex.end && isdigit((unsigned char)xl.lex.at[1])))
                lex_number(space);
            else if (begins_word(xl.lex.at))
                lex_word(space);
            else
                lex_punct(space);

            line_start = space = false;
        }
    }

    token_new(T_EOF, xl.lex.end, 0, true);
}
