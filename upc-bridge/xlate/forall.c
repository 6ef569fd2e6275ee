/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: upc_forall (UPC 1.3, 6.6.2).  In its plain form a thread tests the affinity of every
 * iteration.  Where the variable goes in steps of one length, the affinity grows with it (i, 2 * i
 * + 1, i % THREADS, &a[n - i], a + i) and nothing in the loop's head has an effect, it goes from
 * one iteration of its own to the next; the test stays, so that a step too short is never wrong.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

/* A part of the head: tokens [a, b). */
struct part {
    int a, b;
};

struct head {
    struct part cond, inc, aff;
    struct sym *var;
    int var_tok;
    bool up;
    const char *step; /* NULL: one */
    int limit;        /* first token of what the variable is compared with */
    const char *form; /* of the comparison: its operator in quotes, as upcx_skip wants it */
    const char *aff_text;
    struct type *aff_type;
};

struct sym *xl_name_at(int tok)
{
    return xl.tokens[tok].kind == T_ID && xl.tokens[tok].kw == K_NONE
               ? xl_sym_find(xl.tokens[tok].id)
               : NULL;
}

/* A private integer that nothing changes behind the program's back. */
bool xl_is_plain_integer(const struct sym *s)
{
    return s && s->kind == S_VAR && xl_ty_integer(s->type) &&
           !(s->type->quals & (Q_VOLATILE | Q_SHARED | Q_ATOMIC));
}

/* The length of a step: one token. */
static bool reads_length(struct head *h, int tok)
{
    const struct token *t = &xl.tokens[tok];
    const struct sym *s = xl_name_at(tok);
    bool one = t->kind == T_NUM && t->len == 1 && t->text[0] == '1';

    if (!one)
        h->step = xl_render_bare(tok, tok + 1);

    if (s)
        return xl_is_plain_integer(s) && s != xl_name_at(h->inc.a);

    return t->kind == T_NUM ? xl_is_integer_text(t) : t->kw == K_THREADS;
}

/* i++, ++i, i += n, i = i + n, or down. */
static bool reads_step(struct head *h)
{
    int a = h->inc.a;
    int n = h->inc.b - h->inc.a;
    unsigned op = 0;

    h->var_tok = a;
    if (n == 2) {
        h->var_tok = xl.tokens[a].kind == T_ID ? a : a + 1;
        op = xl.tokens[xl.tokens[a].kind == T_ID ? a + 1 : a].punct;
        h->up = op == P2('+', '+');
        if (op != P2('+', '+') && op != P2('-', '-'))
            return false;
    } else if (n == 3 || (n == 5 && xl_is_punct(a + 1, '=') && xl_name_at(a) &&
                          xl_name_at(a) == xl_name_at(a + 2))) {
        op = xl.tokens[h->inc.b - 2].punct;
        h->up = op == (n == 3 ? P2('+', '=') : '+');
        if ((!h->up && op != (n == 3 ? P2('-', '=') : '-')) || !reads_length(h, h->inc.b - 1))
            return false;
    }

    h->var = op ? xl_name_at(h->var_tok) : NULL;
    return xl_is_plain_integer(h->var) && h->var->type->kind >= TY_INT &&
           h->var->type->kind <= TY_ULLONG && !(h->var->type->quals & Q_CONST);
}

bool xl_is_integer_text(const struct token *t)
{
    bool hex = t->len > 2 && (t->text[1] == 'x' || t->text[1] == 'X');

    for (int i = 0; i < t->len; i++)
        if (strchr(hex ? ".pP" : ".eEfF", t->text[i]))
            return false;

    return true;
}

/* Tokens that are an integer without effects, in which the loop's variable does not occur. */
static bool is_still(const struct head *h, int a, int b)
{
    static const unsigned fine[] = {
        '+', '-', '*', '/', '%', '(', ')', P2('<', '<'), P2('>', '>')
    };

    for (int i = a; i < b; i++) {
        const struct token *t = &xl.tokens[i];
        const struct sym *s = xl_name_at(i);
        bool ok = t->kind == T_NUM ? xl_is_integer_text(t)
                                   : t->kind == T_ID && (t->kw == K_THREADS || t->kw == K_MYTHREAD);

        if (s)
            ok = s != h->var && (s->kind == S_ENUM || xl_is_plain_integer(s));

        for (size_t k = 0; t->kind == T_PUNCT && k < sizeof fine / sizeof *fine; k++)
            ok |= t->punct == fine[k];

        if (!ok)
            return false;
    }

    return b > a;
}

/* i < limit or i <= limit going up, > or >= going down. */
static bool reads_condition(struct head *h)
{
    int a = h->cond.a;

    if (h->cond.b - a < 3 || xl_name_at(a) != h->var || xl.tokens[a + 1].kind != T_PUNCT)
        return false;

    unsigned op = xl.tokens[a + 1].punct;
    if (op != (h->up ? '<' : '>') && op != (h->up ? P2('<', '=') : P2('>', '=')))
        return false;

    h->limit = a + 2;
    if (h->up)
        h->form = op == '<' ? "'<'" : "'{'";
    else
        h->form = op == '>' ? "'>'" : "'}'";

    return is_still(h, h->limit, h->cond.b);
}

/* i, or i plus or minus what does not change. */
static bool follows_variable(const struct head *h, int a, int b)
{
    return b > a && xl_name_at(a) == h->var &&
           (b == a + 1 ||
            ((xl_is_punct(a + 1, '+') || xl_is_punct(a + 1, '-')) && is_still(h, a + 2, b)));
}

/* A shared array of scalars, or a private pointer to such: elements follow each other as the
 * variable's values do. */
static bool is_row(int tok)
{
    const struct sym *s = xl_name_at(tok);

    if (!s || s->kind != S_VAR || s->type->quals & Q_VOLATILE)
        return false;

    bool array = s->type->kind == TY_ARRAY && xl_ty_shared(s->type);
    bool pointer = xl_ty_pts(s->type) && !xl_ty_shared(s->type);

    return (array || pointer) && s->type->of->kind != TY_ARRAY && s->type->of->kind != TY_VOID;
}

/* How far it is to this thread's next iteration, in steps, as C. */
struct way {
    const char *steps; /* NULL: who knows */
    bool exact;        /* where it leads is this thread's: it need not be tested */
};

static bool is_unsigned(const struct type *t)
{
    return t->kind == TY_UINT || t->kind == TY_ULONG || t->kind == TY_ULLONG;
}

/* Of an integer affinity; a number without sign may wrap where it is computed with. */
static struct way way_of_number(const struct head *h, int a, int b, int n)
{
    bool computes;
    const char *by = xl_affine_growth(h->var, a, b, true, &computes);
    const char *var = xl_render_bare(h->var_tok, h->var_tok + 1);
    bool itself = xl_name_at(a) == h->var &&
                  (b == a + 1 ||
                   (b == a + 3 && xl_is_punct(a + 1, '%') && xl.tokens[a + 2].kw == K_THREADS));

    if (itself && !h->step)
        return (struct way){ xl_fmt("upcx_steps((upcx_llong)%s, %d, upcx_l%d)", var, h->up, n),
                             true };

    if (!by || (computes && is_unsigned(h->var->type)))
        return (struct way){ NULL, false };

    const char *sign = h->up ? "" : "-";
    const char *step = h->step ? h->step : "1";

    return (
        struct way){ xl_fmt("upcx_steps_by((upcx_llong)(%s), %s(upcx_llong)(%s) * (%s), &upcx_w%d)",
                            h->aff_text, sign, by, step, n),
                     true };
}

/* Of an element of an array: its index is [a, b). */
static struct way way_of_element(const struct head *h, int a, int b)
{
    bool computes;
    const char *by = xl_affine_growth(h->var, a, b, false, &computes);
    const char *block = xl_ty_block_text(h->aff_type->of);

    if (follows_variable(h, a, b) && !h->step)
        return (struct way){ xl_fmt("upcx_steps_p(%s, %s, %d)", h->aff_text, block, h->up), true };

    if (!by)
        return (struct way){ NULL, false };

    return (struct way){ xl_fmt("upcx_steps_p_by(%s, %s, %s(upcx_llong)(%s) * (%s))", h->aff_text,
                                block, h->up ? "" : "-", by, h->step ? h->step : "1"),
                         false };
}

static struct way way_to_next(const struct head *h, int n)
{
    int a = h->aff.a;
    int b = h->aff.b;
    bool element = xl_is_punct(a, '&') && b - a > 3 && is_row(a + 1) && xl_is_punct(a + 2, '[') &&
                   xl_is_punct(b - 1, ']');

    if (b - a == 3 && xl_is_punct(a, '(') && xl_is_punct(b - 1, ')'))
        a++, b--;

    if (xl_ty_integer(h->aff_type))
        return way_of_number(h, a, b, n);
    if (xl_ty_pts(h->aff_type) && element)
        return way_of_element(h, a + 3, b - 1);
    if (xl_ty_pts(h->aff_type) && b - a > 2 && is_row(a) && xl_is_punct(a + 1, '+'))
        return way_of_element(h, a + 2, b);

    return (struct way){ NULL, false };
}

/* The loop's condition, which first goes upcx_b<n> steps on to the next iteration of this thread;
 * one that is known to be this thread's is stored in upcx_l<n>.  NULL: not this loop. */
static const char *skipping(struct head *h, const char *cond, int n)
{
    struct way way = { NULL, false };

    if (reads_step(h) && reads_condition(h))
        way = way_to_next(h, n);

    if (!way.steps)
        return NULL;

    const char *var = xl_render_bare(h->var_tok, h->var_tok + 1);
    const char *limit = xl_render_bare(h->limit, h->cond.b);
    const char *length = h->step ? h->step : "1";
    const char *type = xl_ty_text(xl_ty_unqualified(h->var->type), "", h->var_tok);

    return xl_fmt("(%s) && (!upcx_f%d || (upcx_b%d = %s, upcx_l%d = (upcx_llong)%s, %s = "
                  "(%s)upcx_skip((upcx_llong)%s, (upcx_llong)(%s), %s, "
                  "(upcx_llong)(%s), upcx_b%d), upcx_l%d = upcx_last(upcx_l%d, upcx_b%d, %d, "
                  "(upcx_llong)%s, (upcx_llong)(%s), "
                  "(upcx_llong)(%s)), (%s)))",
                  cond, n, n, way.steps, n, var, var, type, var, limit, h->form, length, n, n, n, n,
                  way.exact, var, limit, length, cond);
}

/* The affinity; nothing where all threads run all of it. */
static const char *affinity(struct head *h)
{
    struct expr e = xl_parse_expr();

    xl_use_value(&e);
    h->aff_text = xl_render(e.a, e.b);
    h->aff_type = e.type;
    if (xl_ty_pts(e.type))
        return xl_fmt("upcx_here_p(%s)", h->aff_text);

    if (!xl_ty_integer(e.type) && e.type->kind != TY_UNKNOWN)
        xl_refuse(
            e.a,
            "the affinity of upc_forall is an integer, a pointer to shared or 'continue', this "
            "is '%s'",
            xl_ty_words(e.type));

    return xl_fmt("upcx_here((upcx_llong)(%s))", h->aff_text);
}

/* Parses one expression of the head up to its `;`, which may be empty.  Returns its text. */
static const char *parse_part(struct part *p, void (*use)(struct expr *))
{
    const char *text = "";

    p->a = xl.pos;
    if (!xl_is_punct(xl.pos, ';')) {
        struct expr e = xl_parse_expr();

        use(&e);
        text = xl_render(e.a, e.b);
    }

    p->b = xl.pos;
    xl_expect(';');
    return text;
}

/* Parses the affinity up to the `)`.  Returns the test of whether this thread executes an iteration; NULL: each
 * one does. */
static const char *parse_affinity(struct head *h)
{
    const char *test = NULL;

    h->aff.a = xl.pos;
    if (!xl_accept_kw(K_CONTINUE) && !xl_is_punct(xl.pos, ')'))
        test = affinity(h);

    h->aff.b = xl.pos;
    xl_expect(')');
    return test;
}

void xl_parse_forall(int a)
{
    struct head h = { .form = NULL };
    int n = xl_unique();

    xl_expect('(');
    xl_scope_push();

    int init = xl.pos;

    xl_for_init();

    int init_end = xl.pos;
    const char *cond = parse_part(&h.cond, xl_use_condition);
    const char *inc = parse_part(&h.inc, xl_use_void);
    const char *test = parse_affinity(&h);
    const char *skip = test ? skipping(&h, cond, n) : NULL;
    const char *var = skip ? xl_render_bare(h.var_tok, h.var_tok + 1) : NULL;

    if (skip) /* only where the next one is not known is it tested */
        test = xl_fmt("upcx_l%d == (upcx_llong)%s || %s", n, var, test);

    const char *known = skip ? xl_fmt("upcx_llong upcx_l%d = -1, upcx_b%d; struct upcx_walk "
                                      "upcx_w%d = { 0, 0, 0, 0 }; (void)&upcx_w%d; ",
                                      n, n, n, n)
                             : "";

    if (test)
        xl_edit(a, xl.pos,
                xl_fmt("{ __attribute__((cleanup(upcx_forall_end))) int upcx_f%d = "
                       "upcx_forall_begin(); %sfor (%s %s; %s) "
                       "if (!upcx_f%d || %s) {",
                       n, known, xl_render(init, init_end), skip ? skip : cond, inc, n, test));
    else
        xl_edit(a, xl.pos, xl_fmt("{ for (%s %s; %s) {", xl_render(init, init_end), cond, inc));

    xl_parse_statement();
    xl_edit_after(xl.pos - 1, " } }");
    xl_scope_pop();
}
