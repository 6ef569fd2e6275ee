/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: the text that the preprocessor left, as tokens.  Line markers give each token its file
 * and line; #pragma upc becomes a token, every other directive is kept for the output.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "xlate.h"

struct token *toks;
int ntoks;
static int cap_toks;

struct file {
    const char *name, *flags;
};

static struct file *files;
static int nfiles, cap_files;

const char *lex_file_name(int file)
{
    return files[file].name;
}

const char *lex_program_name(void)
{
    /* what was read; the first line marker names the source that it was made of */
    return files[nfiles > 1].name;
}

const char *lex_file_flags(int file)
{
    return files[file].flags;
}

/* ---- identifiers ---- */
struct word {
    struct word *next;
    enum keyword kw;
    int len;
    char s[];
};

static struct word *words[8192];

static struct word *word_get(const char *s, size_t n)
{
    unsigned h = 2166136261u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;

    struct word **at = &words[h % 8192];

    for (struct word *w = *at; w; w = w->next)
        if ((size_t)w->len == n && memcmp(w->s, s, n) == 0)
            return w;

    struct word *w = xl_alloc(sizeof *w + n + 1);

    w->len = (int)n;
    memcpy(w->s, s, n);
    w->next = *at;
    *at = w;

    return w;
}

const char *intern(const char *s, size_t n)
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
    { "_Float16", K_FLOATN },
    { "_Float32", K_FLOATN },
    { "_Float64", K_FLOATN },
    { "_Float128", K_FLOATN },
    { "__float128", K_FLOATN },
    { "_Float32x", K_FLOATN },
    { "_Float64x", K_FLOATN },
    { "__float80", K_FLOATN },
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
static const char *at, *end;
static int cur_file, cur_line;
static struct buf directive;

__attribute__((noreturn)) static void lex_refuse(const char *why)
{
    fprintf(stderr, "%s:%d: upcxlate: %s\n", files[cur_file].name, cur_line, why);
    exit(1);
}

static int file_get(const char *name, const char *flags)
{
    for (int i = nfiles - 1; i >= 0; i--)
        if (strcmp(files[i].name, name) == 0 && strcmp(files[i].flags, flags) == 0)
            return i;

    if (nfiles == cap_files) {
        struct file *f = xl_alloc(sizeof *f * (size_t)(cap_files * 2 + 16));

        if (nfiles)
            memcpy(f, files, sizeof *f * (size_t)nfiles);

        files = f;
        cap_files = cap_files * 2 + 16;
    }

    files[nfiles].name = name;
    files[nfiles].flags = flags;
    return nfiles++;
}

static struct token *token_new(enum token_kind kind, const char *text, size_t len, bool space)
{
    if (ntoks == cap_toks) {
        size_t cap = (size_t)cap_toks * 2 + 4096;
        struct token *t = xl_alloc(sizeof *t * cap);

        if (ntoks)
            memcpy(t, toks, sizeof *t * (size_t)ntoks);

        toks = t;
        cap_toks = (int)cap;
    }

    struct token *t = &toks[ntoks++];

    memset(t, 0, sizeof *t);
    t->kind = kind;
    t->text = text;
    t->len = (int)len;
    t->file = cur_file;
    t->line = cur_line;
    t->space = space;

    if (directive.len) {
        t->directive = directive.s;
        memset(&directive, 0, sizeof directive);
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

        buf_add(&name, "", 0);
        for (p++; p < e && *p != '"'; p++) {
            if (*p == '\\' && p + 1 < e)
                p++;

            buf_add(&name, p, 1);
        }

        bool system = false;

        for (; p < e; p++)
            system |= *p == '3';

        cur_file = file_get(name.s, system ? " 3" : "");
    }

    cur_line = (int)line - 1; /* the marker's own newline follows */
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

/* A line that begins with '#'; at stands on it. */
static void lex_directive(void)
{
    const char *e = memchr(at, '\n', (size_t)(end - at));

    if (e == NULL)
        e = end;

    const char *p = at + 1;

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
        token_new(T_UPC_PRAGMA, at, (size_t)(e - at), true);
    } else {
        buf_add(&directive, at, (size_t)(e - at));
        buf_add(&directive, "\n", 1);
    }

    at = e;
}

/* Inside quotes; at stands on the opening one. */
static const char *quoted(const char *p)
{
    char q = *p;

    for (p++; p < end && *p != q && *p != '\n'; p++) {
        if (*p == '\\' && p + 1 < end)
            p++;

        if (*p == '\1')
            lex_refuse("a control character (code 1) inside quotes; write \\1");
    }

    if (p >= end || *p != q)
        lex_refuse(q == '"' ? "a string does not end on its line"
                            : "a character constant does not end on its line");

    return p + 1;
}

static void lex_word(bool space)
{
    const char *p = at;

    while (p < end &&
           (isalnum((unsigned char)*p) || *p == '_' || *p == '$' || (unsigned char)*p >= 0x80))
        p++;

    size_t n = (size_t)(p - at);

    if (p < end && (*p == '"' || *p == '\'') && (n == 1 || (n == 2 && *p == '"')) &&
        strchr("LuU", *at)) {
        const char *e = quoted(p);

        token_new(*p == '"' ? T_STR : T_CHAR, at, (size_t)(e - at), space);
        at = e;
        return;
    }

    struct word *w = word_get(at, n);
    struct token *t = token_new(T_ID, at, n, space);

    t->id = w->s;
    t->kw = w->kw;

    /* Headers of the system are C: there these are names like others. */
    if (w->kw >= K_SHARED && files[cur_file].flags[0])
        t->kw = K_NONE;

    at = p;
}

static void lex_number(bool space)
{
    const char *p = at;

    while (p < end && (isalnum((unsigned char)*p) || *p == '.' || *p == '_' ||
                       ((*p == '+' || *p == '-') && strchr("eEpP", p[-1]))))
        p++;

    token_new(T_NUM, at, (size_t)(p - at), space);
    at = p;
}

static void lex_punct(bool space)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        size_t n = strlen(operators[i]);

        if ((size_t)(end - at) < n || memcmp(at, operators[i], n) != 0)
            continue;

        struct token *t = token_new(T_PUNCT, at, n, space);

        for (size_t k = 0; k < n; k++)
            t->punct |= (unsigned)(unsigned char)at[k] << (8 * k);

        for (size_t k = 0; k < sizeof digraphs / sizeof *digraphs; k++)
            if (strcmp(operators[i], digraphs[k].digraph) == 0)
                t->punct = (unsigned)digraphs[k].as;

        at += n;
        return;
    }

    if (!strchr("[](){}.&*+-~!/%<>^|?:;=,", *at) || *at == 0)
        lex_refuse(xl_fmt("a character that C does not know (code %d)", (unsigned char)*at));

    struct token *t = token_new(T_PUNCT, at, 1, space);

    t->punct = (unsigned char)*at++;
}

void lex(const char *text, size_t len, const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        word_get(keywords[i].name, strlen(keywords[i].name))->kw = keywords[i].kw;

    at = text;
    end = text + len;
    if (memchr(text, 0, len))
        fatal("%s: not a text: it holds a byte 0", name);

    cur_file = file_get(name, "");
    cur_line = 1;

    bool line_start = true;
    bool space = false;

    while (at < end) {
        if (ntoks > 50000000)
            lex_refuse("the program is too long");

        char c = *at;

        if (c == '\n') {
            cur_line++;
            line_start = space = true;
            at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            space = true;
            at++;
        } else if (c == '#' && line_start) {
            lex_directive();
        } else if (c == '"' || c == '\'') {
            const char *e = quoted(at);

            token_new(c == '"' ? T_STR : T_CHAR, at, (size_t)(e - at), space);
            at = e;
            line_start = space = false;
        } else {
            if (isdigit((unsigned char)c) ||
                (c == '.' && at + 1 < end && isdigit((unsigned char)at[1])))
                lex_number(space);
            else if (isalpha((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80)
                lex_word(space);
            else
                lex_punct(space);

            line_start = space = false;
        }
    }

    token_new(T_EOF, end, 0, true);
}
