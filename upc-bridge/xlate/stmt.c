/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: statements and function bodies.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

/* #pragma upc strict or relaxed; pos is at it */
void xl_pragma_upc(void)
{
    xl.strict_mode = xl.tokens[xl.pos++].strict;
}

/* ( expr ) of if, while, switch, do */
static void paren_condition(bool is_switch)
{
    xl_expect('(');

    struct expr e = xl_parse_expr();

    if (is_switch)
        xl_use_value(&e);
    else
        xl_use_condition(&e);

    xl_expect(')');
}

static void expression_statement(void)
{
    struct expr e = xl_parse_expr();

    xl_use_void(&e);
    xl.last_type = e.type;
    xl_expect(';');
}

static bool at_declaration(void)
{
    if (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_STATIC_ASSERT)
        return true;

    return xl_starts_type(xl.pos) &&
           !(xl_is_punct(xl.pos + 1, ':') && xl.tokens[xl.pos].kw == K_NONE);
}

static bool at_attribute(void)
{
    return xl_starts_attribute(xl.pos) ||
           (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_ATTRIBUTE);
}

/* __attribute__((...)) and [[...]] may begin a declaration or be (before) a statement. */
static bool starts_after_attribute(void)
{
    int was = xl.pos;

    xl_skip_attributes(NULL);

    bool yes = at_declaration();

    xl.pos = was;
    return yes;
}

void xl_for_init(void)
{
    if (xl_accept(';'))
        return;

    if (at_declaration()) {
        xl_parse_declaration(true);
        return;
    }

    struct expr e = xl_parse_expr();

    xl_use_void(&e);
    xl_expect(';');
}

/* ---- loops ---- */

/*
 * A thread that waits in a loop for what others write into its memory has to let their messages in,
 * which over a network is work for its own process.  Strict reads see to that by themselves
 * (upcx_fence); a loop that may wait otherwise, by relaxed reads, in a function that it calls, or
 * with an empty body, polls now and then.  A loop that counts ends by itself.
 */
#define POLL_READS 1023 /* turns between two polls, less one: they are short */
#define POLL_CALLS 63   /* and where each makes calls */

struct loop {
    int first, body; /* tokens */
    unsigned reads, calls;
};

static struct loop loop_begin(int first)
{
    return (struct loop){
        .first = first, .body = xl.pos, .reads = xl.relaxed_reads, .calls = xl.calls
    };
}

static bool has_effects(int a, int b)
{
    static const unsigned effects[] = { P2('+', '+'), P2('-', '-'), '=' };

    for (int i = a; i < b; i++)
        for (size_t k = 0; xl.tokens[i].kind == T_PUNCT && k < sizeof effects / sizeof *effects;
             k++)
            if (xl.tokens[i].punct == effects[k])
                return true;

    return false;
}

/* The body of l, whose last token is last; pos is behind the loop. */
static void loop_end(const struct loop *l, int last)
{
    bool empty = xl_is_punct(l->body, ';') ||
                 (xl_is_punct(l->body, '{') && xl_is_punct(l->body + 1, '}'));
    bool called = xl.calls != l->calls;

    if (xl.relaxed_reads == l->reads && !called && !(empty && !has_effects(l->first, xl.pos)))
        return;

    int n = xl_unique();

    xl_edit_before(l->first, xl_fmt("{ unsigned upcx_k%d = 0; ", n));
    xl_edit_before(l->body,
                   xl_fmt("{ upcx_turn(&upcx_k%d, %d); ", n, called ? POLL_CALLS : POLL_READS));
    xl_edit_after(last, " }");
    xl_edit_after(xl.pos - 1, " }");
}

static void parse_while(int first)
{
    struct loop l = loop_begin(first);

    paren_condition(false);
    l.body = xl.pos;
    xl_parse_statement();
    loop_end(&l, xl.pos - 1);
}

static void parse_do(int first)
{
    struct loop l = loop_begin(first);

    xl_parse_statement();

    int last = xl.pos - 1;

    if (!xl_accept_kw(K_WHILE))
        xl_refuse(xl.pos, "'while' is expected after the body of 'do'");

    paren_condition(false);
    xl_expect(';');
    loop_end(&l, last);
}

static void parse_for(int first)
{
    bool counts = false;

    xl_expect('(');
    xl_scope_push();
    xl_for_init();

    struct loop l = loop_begin(first);

    if (!xl_accept(';')) {
        struct expr e = xl_parse_expr();

        xl_use_condition(&e);
        xl_expect(';');
    }

    if (!xl_accept(')')) {
        counts = xl.relaxed_reads == l.reads;
        struct expr e = xl_parse_expr();

        xl_use_void(&e);
        xl_expect(')');
    }

    l.body = xl.pos;
    xl_parse_statement();
    if (!counts)
        loop_end(&l, xl.pos - 1);

    xl_scope_pop();
}

/* The labels of this function so far. */
struct label {
    const char *name;
    struct label *next;
};

static void add_label(const char *name)
{
    struct label *l = xl_alloc(sizeof *l);

    *l = (struct label){ .name = name, .next = xl.labels };
    xl.labels = l;
}

static bool is_behind(const char *name)
{
    for (const struct label *l = xl.labels; l; l = l->next)
        if (strcmp(l->name, name) == 0)
            return true;

    return false;
}

/* A jump back is a loop, too. */
static void parse_goto(int first)
{
    if (xl_accept('*')) {
        struct expr e = xl_parse_expr();
        xl_use_value(&e);
    } else if (xl.tokens[xl.pos++].kind != T_ID) {
        xl_refuse(xl.pos - 1, "a label is expected");
    } else if (is_behind(xl.tokens[xl.pos - 1].id)) {
        xl_edit_before(first, "{ upcx_look(); ");
        xl_edit_after(xl.pos, " }");
    }

    xl_expect(';');
}

/* upc_barrier, upc_notify, upc_wait, upc_fence */
static void parse_sync(int a)
{
    enum keyword kw = xl.tokens[a].kw;
    const char *what = "wait";

    if (kw == K_BARRIER)
        what = "barrier";
    else if (kw == K_NOTIFY)
        what = "notify";

    if (kw == K_FENCE) {
        xl_edit(a, xl.pos, "upcx_fence()");
    } else if (xl_is_punct(xl.pos, ';')) {
        xl_edit(a, xl.pos, xl_fmt("upcx_%s(0, 0)", what));
    } else {
        struct expr e = xl_parse_expr();

        xl_use_value(&e);
        if (!xl_ty_integer(e.type) && e.type->kind != TY_UNKNOWN)
            xl_refuse(e.a, "the value of upc_%s is an integer, this is '%s'", what,
                      xl_ty_words(e.type));

        xl_edit(a, xl.pos, xl_fmt("upcx_%s(1, (int)(%s))", what, xl_render(e.a, e.b)));
    }

    xl_expect(';');
}

static void parse_return(int first)
{
    if (xl_accept(';'))
        return;

    struct expr e = xl_parse_expr();

    if (xl.function_type && xl.function_type->of->kind != TY_VOID)
        xl_convert_to(&e, xl_ty_unqualified(xl.function_type->of), "return", false);
    else
        xl_use_void(&e);

    xl_expect(';');
}

static void parse_asm(int first)
{
    while (xl.tokens[xl.pos].kind == T_ID)
        xl.pos++;

    xl_expect('(');
    while (!xl_is_punct(xl.pos, ')')) {
        if (xl.tokens[xl.pos].kind == T_EOF)
            xl_refuse(xl.pos, "asm is never closed");

        if (xl_is_punct(xl.pos, '[')) {
            xl.pos += 2;
            xl_expect(']');
        } else if (xl_is_punct(xl.pos, '(')) {
            xl.pos++;

            struct expr e = xl_parse_expr();

            if (e.place || xl_ty_pts(e.type))
                xl_refuse(e.a, "a shared object in asm");

            xl_expect(')');
        } else {
            xl.pos++;
        }
    }

    xl_expect(')');
    xl_expect(';');
}

static void parse_if(int first)
{
    paren_condition(false);
    xl_parse_statement();

    /* A chain of else-if is no nesting. */
    while (xl_accept_kw(K_ELSE)) {
        if (!xl_accept_kw(K_IF)) {
            xl_parse_statement();
            return;
        }

        paren_condition(false);
        xl_parse_statement();
    }
}

static void parse_label_value(void)
{
    struct expr e = xl_parse_conditional();

    xl_use_value(&e);
    if (xl_accept(P3('.', '.', '.'))) {
        e = xl_parse_conditional();
        xl_use_value(&e);
    }

    xl_expect(':');
}

static void parse_switch(int first)
{
    paren_condition(true);
    xl_parse_statement();
}

static void parse_break_or_continue(int first)
{
    xl_expect(';');
}

static void parse_case(int first)
{
    parse_label_value();
    xl_parse_statement();
}

static void parse_default(int first)
{
    xl_expect(':');
    xl_parse_statement();
}

/* Parses a statement behind its keyword, which is token `first`. */
typedef void (*statement_parser)(int first);

static const statement_parser statement_parsers[K_END] = {
    [K_BARRIER] = parse_sync,
    [K_NOTIFY] = parse_sync,
    [K_WAIT] = parse_sync,
    [K_FENCE] = parse_sync,
    [K_IF] = parse_if,
    [K_FOR] = parse_for,
    [K_FORALL] = xl_parse_forall,
    [K_WHILE] = parse_while,
    [K_SWITCH] = parse_switch,
    [K_DO] = parse_do,
    [K_RETURN] = parse_return,
    [K_GOTO] = parse_goto,
    [K_BREAK] = parse_break_or_continue,
    [K_CONTINUE] = parse_break_or_continue,
    [K_ASM] = parse_asm,
    [K_CASE] = parse_case,
    [K_DEFAULT] = parse_default,
};

static void keyword_statement(enum keyword kw)
{
    if (!statement_parsers[kw]) {
        expression_statement();
        return;
    }

    int first = xl.pos++;

    statement_parsers[kw](first);
}

void xl_parse_statement(void)
{
    const struct token *t = &xl.tokens[xl.pos];
    struct type *value = xl_ty_basic(TY_VOID);

    xl_deeper();
    if (t->kind == T_UPC_PRAGMA)
        xl_refuse(xl.pos, "#pragma upc must be at file scope or at the beginning of a block");

    while (t->kind == T_ID && t->kw == K_NONE && xl_is_punct(xl.pos + 1, ':')) { /* labels */
        add_label(t->id);
        xl.pos += 2;
        xl_skip_attributes(NULL);
        t = &xl.tokens[xl.pos];
        if (xl_is_punct(xl.pos, '}')) { /* C2x allows it, gcc too */
            xl_shallower();
            return;
        }
    }

    if (xl_is_punct(xl.pos, '{')) {
        xl_parse_compound(true);
    } else if (xl_accept(';')) {
        ;
    } else if (at_attribute()) {
        xl_skip_attributes(NULL);
        if (!xl_accept(';'))
            xl_parse_statement();
    } else if (t->kind == T_ID && t->kw != K_NONE && t->kw != K_EXTENSION) {
        xl.last_type = value;
        keyword_statement(t->kw);
        value = xl.last_type;
    } else {
        expression_statement();
        value = xl.last_type;
    }

    xl.last_type = value;
    xl_shallower();
}

void xl_parse_compound(bool new_scope)
{
    bool was = xl.strict_mode;

    xl_expect('{');
    xl_deeper();
    if (new_scope)
        xl_scope_push();

    while (!xl_is_punct(xl.pos, '}')) {
        if (xl.tokens[xl.pos].kind == T_EOF)
            xl_refuse(xl.pos, "the program ends inside a block");

        xl.last_type = xl_ty_basic(TY_VOID);
        if (xl.tokens[xl.pos].kind == T_UPC_PRAGMA) {
            xl_pragma_upc();
        } else if (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_LABEL) {
            while (!xl_is_punct(xl.pos, ';') && xl.tokens[xl.pos].kind != T_EOF)
                xl.pos++;

            xl_expect(';');
        } else if (at_declaration() && !(at_attribute() && !starts_after_attribute())) {
            xl_parse_declaration(false);
        } else {
            xl_parse_statement();
        }
    }

    xl.pos++;
    if (new_scope)
        xl_scope_pop();

    xl_shallower();
    xl.strict_mode = was;
}

/* After the body of main, which is called upcx_user_main in C: the value that it gives without a
 * return, and the C function main, which starts the run-time library. */
static void end_main(struct type *fn)
{
    int params = 0;

    for (const struct param *p = fn->params; p; p = p->next)
        params++;

    if (params == 1 || params > 3)
        xl_refuse(xl.pos - 1, "main takes no parameters, or argc and argv, or argc, argv and envp");

    const char *arguments = "argc, argv, envp";

    if (params == 0)
        arguments = "";
    else if (params == 2)
        arguments = "argc, argv";

    /* A compiler that asks for prototypes asks for none of main. */
    if (!fn->no_proto || params == 0) {
        struct type *prototype = xl_ty_copy(fn);

        prototype->no_proto = false;
        xl_buf_fmt(&xl.object.hoisted, "%s;\n",
                   xl_ty_text(prototype, "upcx_user_main", xl.pos - 1));
    }

    bool gives_int = fn->of->kind != TY_VOID;

    if (gives_int) /* C11, 5.1.2.2.3: only for a function that is called main */
        xl_edit_before(xl.pos - 1, "return 0; ");

    xl_edit_after(xl.pos - 1,
                  xl_fmt("\nstatic int upcx_call_main(int argc, char **argv, char **envp) "
                         "{ (void)argc; (void)argv; (void)envp; %supcx_user_main(%s); %s}\n"
                         "int main(int argc, char **argv, char **envp) "
                         "{ return upcx_main(argc, argv, envp, upcx_call_main); }\n",
                         gives_int ? "return " : "", arguments, gives_int ? "" : "return 0; "));
}

void xl_parse_function_body(struct type *fn, const char *name)
{
    struct type *outer = xl.function_type;
    struct label *outer_labels = xl.labels;
    bool is_main = name && strcmp(name, "main") == 0 && xl_scope_level() == 0;

    xl.labels = NULL;
    xl.function_type = fn;
    xl.in_function = true;
    xl.in_main = is_main;
    if (is_main)
        xl_edit_after(xl.pos, " static const char upcx_func_main[] "
                              "__attribute__((__unused__)) = \"main\";");

    xl_scope_push();

    for (struct param *p = fn->params; p; p = p->next)
        if (p->name)
            xl_sym_add(S_VAR, p->name, p->type, xl.pos);

    xl_parse_compound(false);
    xl_scope_pop();
    xl.in_function = xl.in_main = false;
    xl.function_type = outer;
    xl.labels = outer_labels;

    if (is_main)
        end_main(fn);
}
