/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: statements and function bodies.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

/* #pragma upc strict or relaxed; pos stands on it */
void pragma_upc(void)
{
    xl.strict_mode = xl.tokens[xl.pos++].strict;
}

/* ( expr ) of if, while, switch, do */
static void paren_condition(bool is_switch)
{
    expect('(');

    struct expr e = parse_expr();

    if (is_switch)
        use_value(&e);
    else
        use_condition(&e);

    expect(')');
}

static void expression_statement(void)
{
    struct expr e = parse_expr();

    use_void(&e);
    xl.last_type = e.type;
    expect(';');
}

static bool at_declaration(void)
{
    if (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_STATIC_ASSERT)
        return true;

    return starts_type(xl.pos) && !(is_punct(xl.pos + 1, ':') && xl.tokens[xl.pos].kw == K_NONE);
}

static bool at_attribute(void)
{
    return starts_attribute(xl.pos) ||
           (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_ATTRIBUTE);
}

/* __attribute__((...)) and [[...]] may begin a declaration or be (before) a statement. */
static bool starts_after_attribute(void)
{
    int was = xl.pos;

    skip_attributes(NULL);

    bool yes = at_declaration();

    xl.pos = was;
    return yes;
}

void for_init(void)
{
    if (accept(';'))
        return;

    if (at_declaration()) {
        parse_declaration(true);
        return;
    }

    struct expr e = parse_expr();

    use_void(&e);
    expect(';');
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
    bool empty = is_punct(l->body, ';') || (is_punct(l->body, '{') && is_punct(l->body + 1, '}'));
    bool called = xl.calls != l->calls;

    if (xl.relaxed_reads == l->reads && !called && !(empty && !has_effects(l->first, xl.pos)))
        return;

    int n = unique();

    edit_before(l->first, xl_fmt("{ unsigned upcx_k%d = 0; ", n));
    edit_before(l->body,
                xl_fmt("{ upcx_turn(&upcx_k%d, %d); ", n, called ? POLL_CALLS : POLL_READS));
    edit_after(last, " }");
    edit_after(xl.pos - 1, " }");
}

static void parse_while(int first)
{
    struct loop l = loop_begin(first);

    paren_condition(false);
    l.body = xl.pos;
    parse_statement();
    loop_end(&l, xl.pos - 1);
}

static void parse_do(int first)
{
    struct loop l = loop_begin(first);

    parse_statement();

    int last = xl.pos - 1;

    if (!accept_kw(K_WHILE))
        refuse(xl.pos, "'while' is expected after the body of 'do'");

    paren_condition(false);
    expect(';');
    loop_end(&l, last);
}

static void parse_for(int first)
{
    bool counts = false;

    expect('(');
    scope_push();
    for_init();

    struct loop l = loop_begin(first);

    if (!accept(';')) {
        struct expr e = parse_expr();

        use_condition(&e);
        expect(';');
    }

    if (!accept(')')) {
        counts = xl.relaxed_reads == l.reads;
        struct expr e = parse_expr();

        use_void(&e);
        expect(')');
    }

    l.body = xl.pos;
    parse_statement();
    if (!counts)
        loop_end(&l, xl.pos - 1);

    scope_pop();
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
    if (accept('*')) {
        struct expr e = parse_expr();
        use_value(&e);
    } else if (xl.tokens[xl.pos++].kind != T_ID) {
        refuse(xl.pos - 1, "a label is expected");
    } else if (is_behind(xl.tokens[xl.pos - 1].id)) {
        edit_before(first, "{ upcx_look(); ");
        edit_after(xl.pos, " }");
    }

    expect(';');
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
        edit(a, xl.pos, "upcx_fence()");
    } else if (is_punct(xl.pos, ';')) {
        edit(a, xl.pos, xl_fmt("upcx_%s(0, 0)", what));
    } else {
        struct expr e = parse_expr();

        use_value(&e);
        if (!ty_integer(e.type) && e.type->kind != TY_UNKNOWN)
            refuse(e.a, "the value of upc_%s is an integer, this is '%s'", what, ty_words(e.type));

        edit(a, xl.pos, xl_fmt("upcx_%s(1, (int)(%s))", what, render(e.a, e.b)));
    }

    expect(';');
}

static void parse_return(void)
{
    if (accept(';'))
        return;

    struct expr e = parse_expr();

    if (xl.function_type && xl.function_type->of->kind != TY_VOID)
        convert_to(&e, ty_unqualified(xl.function_type->of), "return", false);
    else
        use_void(&e);

    expect(';');
}

static void parse_asm(void)
{
    while (xl.tokens[xl.pos].kind == T_ID)
        xl.pos++;

    expect('(');
    while (!is_punct(xl.pos, ')')) {
        if (xl.tokens[xl.pos].kind == T_EOF)
            refuse(xl.pos, "asm is never closed");

        if (is_punct(xl.pos, '[')) {
            xl.pos += 2;
            expect(']');
        } else if (is_punct(xl.pos, '(')) {
            xl.pos++;

            struct expr e = parse_expr();

            if (e.place || ty_pts(e.type))
                refuse(e.a, "a shared object in asm");

            expect(')');
        } else {
            xl.pos++;
        }
    }

    expect(')');
    expect(';');
}

static void parse_if(void)
{
    paren_condition(false);
    parse_statement();

    /* A chain of else-if is no nesting. */
    while (accept_kw(K_ELSE)) {
        if (!accept_kw(K_IF)) {
            parse_statement();
            return;
        }

        paren_condition(false);
        parse_statement();
    }
}

static void parse_label_value(void)
{
    struct expr e = parse_conditional();

    use_value(&e);
    if (accept(P3('.', '.', '.'))) {
        e = parse_conditional();
        use_value(&e);
    }

    expect(':');
}

static void keyword_statement(enum keyword kw)
{
    int a = xl.pos;

    xl.pos++;
    switch (kw) {
    case K_BARRIER:
    case K_NOTIFY:
    case K_WAIT:
    case K_FENCE:
        parse_sync(a);
        break;
    case K_IF:
        parse_if();
        break;
    case K_FOR:
        parse_for(a);
        break;
    case K_FORALL:
        parse_forall(a);
        break;
    case K_WHILE:
        parse_while(a);
        break;
    case K_SWITCH:
        paren_condition(true);
        parse_statement();
        break;
    case K_DO:
        parse_do(a);
        break;
    case K_RETURN:
        parse_return();
        break;
    case K_GOTO:
        parse_goto(a);
        break;
    case K_BREAK:
    case K_CONTINUE:
        expect(';');
        break;
    case K_ASM:
        parse_asm();
        break;
    case K_CASE:
        parse_label_value();
        parse_statement();
        break;
    case K_DEFAULT:
        expect(':');
        parse_statement();
        break;
    default:
        xl.pos = a;
        expression_statement();
    }
}

void parse_statement(void)
{
    const struct token *t = &xl.tokens[xl.pos];
    struct type *value = ty_basic(TY_VOID);

    deeper();
    if (t->kind == T_UPC_PRAGMA)
        refuse(xl.pos, "#pragma upc stands at file scope or at the beginning of a block");

    while (t->kind == T_ID && t->kw == K_NONE && is_punct(xl.pos + 1, ':')) { /* labels */
        add_label(t->id);
        xl.pos += 2;
        skip_attributes(NULL);
        t = &xl.tokens[xl.pos];
        if (is_punct(xl.pos, '}')) { /* C2x allows it, gcc too */
            shallower();
            return;
        }
    }

    if (is_punct(xl.pos, '{')) {
        parse_compound(true);
    } else if (accept(';')) {
        ;
    } else if (at_attribute()) {
        skip_attributes(NULL);
        if (!accept(';'))
            parse_statement();
    } else if (t->kind == T_ID && t->kw != K_NONE && t->kw != K_EXTENSION) {
        xl.last_type = value;
        keyword_statement(t->kw);
        value = xl.last_type;
    } else {
        expression_statement();
        value = xl.last_type;
    }

    xl.last_type = value;
    shallower();
}

void parse_compound(bool new_scope)
{
    bool was = xl.strict_mode;

    expect('{');
    deeper();
    if (new_scope)
        scope_push();

    while (!is_punct(xl.pos, '}')) {
        if (xl.tokens[xl.pos].kind == T_EOF)
            refuse(xl.pos, "the program ends inside a block");

        xl.last_type = ty_basic(TY_VOID);
        if (xl.tokens[xl.pos].kind == T_UPC_PRAGMA) {
            pragma_upc();
        } else if (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_LABEL) {
            while (!is_punct(xl.pos, ';') && xl.tokens[xl.pos].kind != T_EOF)
                xl.pos++;

            expect(';');
        } else if (at_declaration() && !(at_attribute() && !starts_after_attribute())) {
            parse_declaration(false);
        } else {
            parse_statement();
        }
    }

    xl.pos++;
    if (new_scope)
        scope_pop();

    shallower();
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
        refuse(xl.pos - 1, "main takes no parameters, or argc and argv, or argc, argv and envp");

    const char *arguments = "argc, argv, envp";

    if (params == 0)
        arguments = "";
    else if (params == 2)
        arguments = "argc, argv";

    /* A compiler that asks for prototypes asks for none of main. */
    if (!fn->no_proto || params == 0) {
        struct type *prototype = ty_copy(fn);

        prototype->no_proto = false;
        buf_fmt(&xl.object.hoisted, "%s;\n", ty_text(prototype, "upcx_user_main", xl.pos - 1));
    }

    bool gives_int = fn->of->kind != TY_VOID;

    if (gives_int) /* C11, 5.1.2.2.3: only for a function that is called main */
        edit_before(xl.pos - 1, "return 0; ");

    edit_after(xl.pos - 1,
               xl_fmt("\nstatic int upcx_call_main(int argc, char **argv, char **envp) "
                      "{ (void)argc; (void)argv; (void)envp; %supcx_user_main(%s); %s}\n"
                      "int main(int argc, char **argv, char **envp) "
                      "{ return upcx_main(argc, argv, envp, upcx_call_main); }\n",
                      gives_int ? "return " : "", arguments, gives_int ? "" : "return 0; "));
}

void parse_function_body(struct type *fn, const char *name)
{
    struct type *outer = xl.function_type;
    struct label *outer_labels = xl.labels;
    bool is_main = name && strcmp(name, "main") == 0 && scope_level() == 0;

    xl.labels = NULL;
    xl.function_type = fn;
    xl.in_function = true;
    xl.in_main = is_main;
    if (is_main)
        edit_after(xl.pos, " static const char upcx_func_main[] "
                           "__attribute__((__unused__)) = \"main\";");

    scope_push();

    for (struct param *p = fn->params; p; p = p->next)
        if (p->name)
            sym_add(S_VAR, p->name, p->type, xl.pos);

    parse_compound(false);
    scope_pop();
    xl.in_function = xl.in_main = false;
    xl.function_type = outer;
    xl.labels = outer_labels;

    if (is_main)
        end_main(fn);
}
