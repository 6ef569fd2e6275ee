/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * upcxlate: translates preprocessed UPC to C that uses upcx.h.
 *
 * The parser makes one pass: it reads declarations, statements and expressions and computes their
 * types.  Code that involves shared memory is replaced by edits of token ranges; all other code is
 * written out unchanged.
 *
 *   main.c        command line, input and output
 *   lex.c         splits the text into tokens
 *   sym.c         scopes, names and tags
 *   type.c        types, and their text in C
 *   specs.c       declaration specifiers, structures, unions, enumerations
 *   declarator.c  declarators
 *   declare.c     declarations and function definitions
 *   init.c        initialisers
 *   object.c      shared objects and the start-up table that describes them
 *   stmt.c        statements and function bodies
 *   forall.c      upc_forall
 *   affine.c      how fast an expression grows with a loop variable, for forall.c
 *   expr.c        expressions and their types
 *   unary.c       unary operators, casts, the sizeof family, compiler built-ins
 *   access.c      reads and writes of shared objects
 *   convert.c     conversions, assignment, pointer arithmetic
 *   fold.c        constant expressions
 *   out.c         edits, and the output with #line directives
 *   mem.c         memory, strings, error messages
 *
 * The program's state is `xl`, defined in main.c; no other file has writable globals.  May include:
 * this header and the C library only.
 *
 * Layer: upc-bridge.  Thread rule: one thread.  Memory is released at the end of the program.
 */
#ifndef XLATE_XLATE_H
#define XLATE_XLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- mem.c ---- */
void *xl_alloc(size_t bytes); /* zeroed; lives until the end */
char *xl_strndup(const char *s, size_t n);
__attribute__((format(printf, 1, 2))) char *xl_fmt(const char *fmt, ...);

struct buf {
    char *s;
    size_t len, cap;
};

void xl_buf_add(struct buf *b, const char *s, size_t n);
__attribute__((format(printf, 2, 3))) void xl_buf_fmt(struct buf *b, const char *fmt, ...);

/* Says where and why, and ends the program with status 1. */
__attribute__((noreturn, format(printf, 2, 3))) void xl_refuse(int tok, const char *fmt, ...);
__attribute__((noreturn, format(printf, 1, 2))) void xl_fatal(const char *fmt, ...);

/* ---- main.c ---- */
#define MAX_BLOCK 1048576LL
#define XL_WORD_SLOTS 8192
#define XL_NAME_SLOTS 4096

/* The state of the program.  The first part is shared by the parser's files; each of the structures
 * at the end belongs to the file of that name. */
struct xl_state {
    long long static_threads; /* number of threads given by -T; 0: not known */

    struct token *tokens;
    int ntokens;
    int pos; /* the next token to parse */

    int depth;         /* nesting of the construct that is being parsed; limited */
    int unique_number; /* the last number that xl_unique() returned */
    int deepest_name;  /* the innermost scope of a name used since this was set to 0 */
    bool
        pts_computed; /* a pointer to shared that is not constant was used since this was cleared */
    bool strict_mode; /* the consistency mode of references that state none */
    bool in_function;
    bool in_main;               /* whose name in C is another one */
    struct type *function_type; /* of the function that is being parsed */
    struct type *last_type;     /* of the last expression statement */
    struct label *labels;       /* of the function that is being parsed, newest first */

    /* counters of what was translated, by which loops decide whether they must poll */
    unsigned relaxed_reads; /* of shared memory */
    unsigned calls;         /* of functions */

    struct {
        const char *at, *end; /* the text that is not split into tokens yet */
        int current_file, current_line;
        bool c_code;          /* the words of UPC are names like others */
        struct buf directive; /* lines that go out before the next token */
        struct file *file;    /* names from line markers */
        int nfiles, max_files;
        int max_tokens;                   /* allocated entries of xl.tokens */
        struct word *word[XL_WORD_SLOTS]; /* identifiers, a hash table */
    } lex;

    struct {
        struct sym *names[XL_NAME_SLOTS]; /* hash table; the newest entry hides older ones */
        struct tag *tags[XL_NAME_SLOTS];
        struct undo *undos; /* what to remove at the end of a scope */
        int level;          /* 0: file scope */
    } sym;

    struct type *basic; /* type.c: [TY_OPAQUE], by kind */

    struct {
        struct sym *first, **tail; /* shared objects in the order of their declarations */
        struct buf hoisted; /* text for file scope, before the current external declaration */
        struct buf values;  /* statements that run once all objects exist */
    } object;

    struct {
        struct edit *edits;           /* by first token */
        const char **before, **after; /* text to insert, by token */
        int max_tokens;               /* allocated entries of each */
        int file, line;               /* the position that the output claims */
        int pragma_done;              /* directives of tokens up to this one are written */
        bool line_start;              /* the next character begins a line */
    } out;

    struct {
        char *chunk; /* free part of the newest block */
        size_t chunk_left_bytes;
        void *blocks; /* newest first; each links to the one before, so leak checkers find them */
    } mem;
};

extern struct xl_state xl;

/* ---- lex.c ---- */
enum token_kind {
    T_EOF,
    T_ID,
    T_NUM,
    T_CHAR,
    T_STR,
    T_PUNCT,
    T_UPC_PRAGMA
};

enum keyword {
    K_NONE,
    K_AUTO,
    K_BREAK,
    K_CASE,
    K_CHAR,
    K_CONST,
    K_CONTINUE,
    K_DEFAULT,
    K_DO,
    K_DOUBLE,
    K_ELSE,
    K_ENUM,
    K_EXTERN,
    K_FLOAT,
    K_FOR,
    K_GOTO,
    K_IF,
    K_INLINE,
    K_INT,
    K_LONG,
    K_REGISTER,
    K_RESTRICT,
    K_RETURN,
    K_SHORT,
    K_SIGNED,
    K_SIZEOF,
    K_STATIC,
    K_STRUCT,
    K_SWITCH,
    K_TYPEDEF,
    K_UNION,
    K_UNSIGNED,
    K_VOID,
    K_VOLATILE,
    K_WHILE,
    K_ALIGNAS,
    K_ALIGNOF,
    K_ATOMIC,
    K_BOOL,
    K_COMPLEX,
    K_GENERIC,
    K_NORETURN,
    K_STATIC_ASSERT,
    K_THREAD_LOCAL,
    K_TYPEOF,
    K_ATTRIBUTE,
    K_EXTENSION,
    K_ASM,
    K_LABEL,
    K_AUTO_TYPE,
    K_INT128,
    K_UINT128,
    K_FLOATN,
    K_SHARED,
    K_STRICT,
    K_RELAXED,
    K_THREADS,
    K_MYTHREAD,
    K_MAX_BLOCK,
    K_BARRIER,
    K_NOTIFY,
    K_WAIT,
    K_FENCE,
    K_FORALL,
    K_BLOCKSIZEOF,
    K_LOCALSIZEOF,
    K_ELEMSIZEOF,
    K_END
};

struct token {
    enum token_kind kind;
    enum keyword kw;
    unsigned punct;   /* the characters of an operator, first one lowest */
    const char *text; /* not terminated; identifiers are interned through id */
    const char *id;
    int len;
    int file, line;
    bool space;            /* white space precedes it */
    bool strict;           /* T_UPC_PRAGMA: strict, not relaxed */
    const char *directive; /* lines before it, copied unchanged (#pragma) */
};

const char *xl_lex_file_name(int file);
const char *xl_lex_program_name(void);   /* of the source that the preprocessor began with */
const char *xl_lex_file_flags(int file); /* of its line markers: " 3 4" for system headers */
const char *xl_intern(const char *s, size_t n);
void xl_lex(const char *text, size_t len, const char *name);
#define P1(a) ((unsigned)(a))
#define P2(a, b) ((unsigned)(a) | (unsigned)(b) << 8)
#define P3(a, b, c) (P2(a, b) | (unsigned)(c) << 16)

/* ---- out.c ---- */
/* The text of tokens [a, b) with the edits inside it. */
char *xl_render(int a, int b);
char *xl_render_bare(int a, int b); /* without marks, for text that is used elsewhere */
/* From now on the tokens [a, b) read as this text. */
void xl_edit(int a, int b, const char *text);
void xl_edit_before(int tok, const char *text);
void xl_edit_after(int tok, const char *text);
void xl_out_write(FILE *f, int a, int b); /* top level */
void xl_out_text(FILE *f, const char *text);

/* ---- type.c ---- */
enum type_kind {
    TY_UNKNOWN,
    TY_VOID,
    TY_BOOL,
    TY_CHAR,
    TY_SCHAR,
    TY_UCHAR,
    TY_SHORT,
    TY_USHORT,
    TY_INT,
    TY_UINT,
    TY_LONG,
    TY_ULONG,
    TY_LLONG,
    TY_ULLONG,
    TY_INT128,
    TY_UINT128,
    TY_FLOAT,
    TY_DOUBLE,
    TY_LDOUBLE,
    TY_FLOATN,
    TY_CFLOAT,
    TY_CDOUBLE,
    TY_CLDOUBLE,
    TY_ENUM,
    TY_RECORD,
    TY_OPAQUE,
    TY_POINTER,
    TY_ARRAY,
    TY_FUNCTION
};

enum {
    Q_CONST = 1,
    Q_VOLATILE = 2,
    Q_RESTRICT = 4,
    Q_ATOMIC = 8,
    Q_SHARED = 16,
    Q_STRICT = 32,
    Q_RELAXED = 64
};

/* The block size of a shared type: a constant, or for [*] in a program whose number of threads is
 * not known, the C text that computes it.
 */
struct block {
    long long value;  /* 0: indefinite */
    const char *text; /* NULL: value counts */
    bool star;        /* [*], before the declarator is known */
    bool given;
};

struct member {
    const char *name; /* NULL: an unnamed structure or union inside */
    struct type *type;
    bool bits;
    struct member *next;
};

struct record {
    bool is_union, is_enum, complete;
    bool attributed; /* an attribute may change its layout */
    const char *tag; /* made up where the program gives none */
    int level;       /* scope it was declared in */
    struct member *members;
};

struct param {
    const char *name;
    struct type *type;
    struct param *next;
};

struct type {
    enum type_kind kind;
    unsigned quals;
    struct block block;
    struct type *of; /* pointer, array, function: of what */
    struct record *rec;
    const char *name;    /* opaque types and _FloatN: how C writes them */
    const char *dim;     /* array: its size as C; NULL: [] */
    long long dim_value; /* when known at translation time, else -1 */
    bool dim_threads;    /* its size depends on THREADS, which is not known */
    bool dim_varies;     /* its size is known when the program runs only */
    struct param *params;
    bool variadic, no_proto;
    bool attributed; /* a typedef's attribute changes its alignment */
};

void xl_ty_start(void); /* before all other functions on types */
/* The type of a kind below TY_OPAQUE; there is one of each. */
struct type *xl_ty_basic(enum type_kind kind);
struct type *xl_ty_qualified(struct type *t, unsigned quals, const struct block *b);
struct type *xl_ty_unqualified(struct type *t);
struct type *xl_ty_pointer(struct type *of);
struct type *xl_ty_copy(const struct type *t);
struct type *xl_ty_element(struct type *t); /* below all array levels */
bool xl_ty_shared(struct type *t);          /* an object of it lies in the shared space */
bool xl_ty_pts(struct type *t);             /* pointer to shared */
bool xl_ty_involves_shared(struct type *t); /* somewhere in its derivation */
bool xl_ty_integer(struct type *t);
bool xl_ty_arithmetic(struct type *t);
bool xl_ty_scalar(struct type *t);
bool xl_ty_varies(struct type *t);               /* variably modified */
bool xl_ty_same(struct type *a, struct type *b); /* compatible, qualifiers of the top level apart */
bool xl_ty_same_block(struct type *a, struct type *b);
const char *xl_ty_text(
    struct type *t, const char *name,
    int tok); /* a declaration of name, or a type name, in C; shared pointers are upcx_pts */
const char *xl_ty_words(struct type *t); /* for messages, in UPC */
const char *xl_ty_count(struct type *t); /* elements below all array levels, as C */
const char *xl_ty_block_text(struct type *t);
struct type *xl_ty_arith(struct type *a, struct type *b); /* usual arithmetic conversions */
struct type *xl_ty_promote(struct type *a);
struct type *xl_ty_decay(struct type *t);
long long xl_ty_size(struct type *t); /* -1: not known here */
/* An object of it may have bytes that belong to no member. */
bool xl_ty_padded(struct type *t);

/* ---- sym.c ---- */
enum sym_kind {
    S_VAR,
    S_TYPEDEF,
    S_ENUM
};

struct sym {
    enum sym_kind kind;
    const char *name, *cname;
    struct type *type;
    long long value; /* enumeration constant */
    int storage;     /* keyword or K_NONE */
    int level, tok;
    bool defined, used, object; /* object: shared, with a descriptor at start-up */
    /* shared object: its initialiser as C, and the private type to build it in */
    const char *init, *init_type;
    struct sym *shadowed, *next_object;
};

struct sym *xl_sym_find(const char *name);
struct sym *xl_sym_here(const char *name); /* this scope only */
struct sym *xl_sym_add(enum sym_kind kind, const char *name, struct type *type, int tok);
struct record *xl_tag_find(const char *name);
struct record *xl_tag_here(const char *name);
void xl_tag_add(const char *name, struct record *r);
void xl_scope_push(void);
void xl_scope_pop(void);
int xl_scope_level(void);

/* ---- fold.c ---- */
struct expr {
    int a, b; /* tokens [a, b) */
    struct type *type;
    bool lvalue, place; /* place: an lvalue in the shared space */
    bool bits;          /* a bit-field */
    bool is_const;      /* integer constant expression */
    long long value;
    bool null;    /* null pointer constant */
    bool threads; /* constant but for THREADS, which is not known */
    bool string;
    struct type *bits_in; /* place that is a bit-field: of this structure, whose place it holds */
    const char *bits_name;
    /* place: a pointer to shared, and elements to go on from there (NULL: none) */
    const char *base, *idx;
    struct sym *sym;
};

struct expr xl_fold_binary(unsigned op, struct expr x, struct expr y);

/* ---- declare.c, declarator.c, specs.c ---- */
struct specs {
    struct type *type;
    int storage; /* K_TYPEDEF, K_EXTERN, K_STATIC, K_AUTO, K_REGISTER or K_NONE */
    /* is_auto: __auto_type */
    bool is_inline, is_noreturn, is_auto, thread_local_, has_def, rewritten;
    int def_a, def_b; /* tokens of the structure, union or enumeration defined here */
    int tok;
    const char *attributes;
};

struct decl {
    const char *name;
    struct type *type;
    int tok, a, b;
    const char *attributes, *asm_name;
    bool knr;
};

bool xl_starts_type(int tok);
bool xl_starts_attribute(int tok);
void xl_skip_parens(void); /* past a ( ... ) of any contents; pos is at '(' */
void xl_parse_specs(struct specs *s);
void xl_parse_declarator(struct decl *d, struct type *base, bool abstract_ok);
/* Computes the block size of [*]: all of the array, shared out evenly; not yet if the size is the
 * initialiser's. */
void xl_resolve_star(struct type *t, int tok);
/* as a parameter: arrays and functions are pointers */
struct type *xl_adjust_param(struct type *t, int tok);
struct type *xl_parse_type_name(void);
bool xl_parse_qualifier(unsigned *quals, struct block *b);
void xl_parse_declaration(bool in_for); /* one declaration, its ';' included; edits registered */
void xl_parse_external(void);           /* a declaration or function definition at file scope */
void xl_skip_attributes(
    const char **text); /* attributes and asm labels at pos; appended to *text */

/* ---- object.c ---- */
void xl_object_declare(struct specs *s, struct decl *d, struct sym *y, bool has_init);
void xl_object_text(struct specs *s, struct decl *d, struct sym *y, struct buf *out);
void xl_object_initialise(struct sym *y, int a, int b); /* its value is written in tokens [a, b) */
/* a private static whose value is known at start-up only */
void xl_static_initialise(struct sym *y, int a, int b, bool in_block);
void xl_object_write_all(FILE *f, const char *file);
/* file-scope text that goes before the current external declaration */
const char *xl_hoist_take(void);

/* ---- init.c ---- */
/* At '{' or a value; edits registered.  Returns how many elements it gives an array whose size is left
 * out, or -1: not known. */
long long xl_parse_initialiser(struct type *t);

/* ---- expr.c ---- */
struct expr xl_parse_expr(void);
struct expr xl_parse_assign(void);
struct expr xl_parse_conditional(void);
bool xl_accept(unsigned punct);
void xl_expect(unsigned punct);
bool xl_is_punct(int tok, unsigned punct);
bool xl_accept_kw(enum keyword k);
void xl_deeper(void);
void xl_shallower(void);
int xl_unique(void);
struct expr xl_parse_cast(void);
struct expr xl_parse_unary(void);
struct expr xl_parse_postfix(void);
/* what follows a primary expression, or a compound literal */
struct expr xl_parse_postfix_of(struct expr e);
const char *xl_size_text(struct type *t, int tok);
/* forms of the compiler's own that take types; pos is at the name */
struct expr xl_parse_builtin(const char *name);
struct type *xl_builtin_result(const char *name);
bool xl_builtin_is_form(const char *name);
struct expr xl_value_of(int a,
                        struct type *t); /* an expression from token a to pos that is a value */

/* ---- access.c ---- */
const char *xl_place_text(struct expr *e); /* the address of a place, as an upcx_pts */
/* lvalue conversion and decay; afterwards xl_render(a, b) is the value */
void xl_use_value(struct expr *e);
void xl_use_void(struct expr *e);
void xl_use_condition(struct expr *e);
void xl_store(struct expr *lhs, unsigned op, struct expr *rhs, int op_tok);
void xl_step(struct expr *e, bool up, bool after);
const char *xl_mode_suffix(struct type *t);
const char *xl_value_text(struct expr *e); /* use_value, then its text */

/* ---- convert.c ---- */
void xl_convert_to(struct expr *e, struct type *to, const char *what, bool is_cast);
void xl_pointer_add(struct expr *p, struct expr *n, bool minus, struct expr *out);
struct type *xl_binary_type(unsigned op, int op_tok, struct expr *x, struct expr *y);
const char *xl_element_size(struct type *pointee, int tok);
const char *xl_pts_scaled(struct type *pointee, const char *n);

/* ---- stmt.c ---- */
void xl_parse_function_body(struct type *fn, const char *name);
void xl_parse_compound(bool new_scope);
void xl_parse_statement(void);
void xl_for_init(void); /* the first part of a loop, its ';' included */
void xl_pragma_upc(void);

/* ---- forall.c ---- */
void xl_parse_forall(int a); /* a: the word upc_forall, pos behind it */

/* forall.c, affine.c */
/* of a variable or an enumeration's constant; NULL: none is there */
struct sym *xl_name_at(int tok);
/* private, and nothing changes it behind the program's back */
bool xl_is_plain_integer(const struct sym *s);
bool xl_is_integer_text(const struct token *t);
/* By how much tokens [a, b) grow where var grows by one, as C; NULL: that differs, or who knows.
 * threads: up to multiples of THREADS. *computes_p: there is more than the variable. */
const char *xl_affine_growth(const struct sym *var, int a, int b, bool threads, bool *computes_p);

#endif
