/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upc_random SEED: writes a program that is UPC and, with -DPLAIN, C.  One thread runs random
 * statements over shared objects of many layouts (private ones in C) and prints all of them at the
 * end; both programs must print the same, on any number of threads. Expressions have no side
 * effects but at their root, and indices stay inside their arrays, so C defines the answer (with
 * -fwrapv).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long long state;

static unsigned pick(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % n;
}

/* Objects of the program: arrays of 16 in the last dimension counted together. */
static const struct {
    const char *decl, *lvalue; /* lvalue: one %s is an index from 0 to 7 */
} objects[] = {
    { "S(1) int a[16];", "a[%s]" },
    { "S(3) unsigned b[16];", "b[%s]" },
    { "S() long c[16];", "c[%s + 8]" },
    { "S(2) short d[8][8];", "d[%s][(i + 3) & 7]" },
    { "S(7) unsigned char e[3][4][8];", "e[i % 3][j & 3][%s]" },
    { "S(5) struct pair f[8];", "f[%s].x" },
    { "S(4) struct pair g[8];", "g[i & 7].y[%s]" },
    { "S(1) struct pair h[8];", "h[%s].z.w" },
    { "S(1) long s;", "s" },
    { "S(1) struct pair one;", "one.y[%s]" },
    { "S(64) signed char m[8][8];", "m[j & 7][%s]" },
};
#define NOBJECTS (sizeof objects / sizeof *objects)

static char pool[1 << 20];
static size_t used;

static const char *say(const char *fmt, ...)
{
    char *s = pool + used;
    va_list ap;

    va_start(ap, fmt);
    used += (size_t)vsnprintf(s, sizeof pool - used, fmt, ap) + 1;
    va_end(ap);
    if (used >= sizeof pool)
        exit(1);

    return s;
}

static const char *value(int depth);

static const char *index_text(int depth)
{
    return pick(3) ? say("((%s) & 7)", value(depth - 1)) : say("%u", pick(8));
}

/* Something that can be read and written. */
static const char *place(int depth)
{
    switch (pick(10)) {
    case 0:
        return "i";
    case 1:
        return "j";
    case 2:
        return say("p[%s]", index_text(depth));
    case 3:
        return say("(*(p + %s))", index_text(depth));
    case 4:
        return say("q->y[%s]", index_text(depth));
    case 5:
        return say("(*q).x");
    case 6:
        return say("sp[%s]", index_text(depth));
    case 7:
        return say("(&r[%s])->z.w", index_text(depth));
    default:
        return say(objects[pick(NOBJECTS)].lvalue, index_text(depth));
    }
}

static const char *value(int depth)
{
    static const char *const ops[] = { "+", "-",  "*",  "&",  "|",  "^",  "<",
                                       ">", "<=", ">=", "==", "!=", "&&", "||" };

    if (depth <= 0)
        return pick(3) ? place(0) : say("%d", (int)pick(2000) - 1000);

    switch (pick(16)) {
    case 0:
        return say("(%s ? %s : %s)", value(depth - 1), value(depth - 1), value(depth - 1));
    case 1:
        return say("(- %s)", value(depth - 1));
    case 2:
        return say("(~%s)", value(depth - 1));
    case 3:
        return say("(!%s)", value(depth - 1));
    case 4:
        return say("(%s / ((%s & 7) + 1))", value(depth - 1), value(depth - 1));
    case 5:
        return say("((int)%s << (%s & 7))", value(depth - 1), value(depth - 1));
    case 6:
        return say("(%s)(%s)", pick(2) ? "short" : "unsigned char", value(depth - 1));
    case 7:
        return say("same(&a[%s], %s)", index_text(depth), value(depth - 1));
    case 8:
        return say("(long)(&a[%s] - p)", index_text(depth));
    case 9:
        return say("(p %s a + %s)", pick(2) ? "==" : "<", index_text(depth));
    case 10:
        return say("({ struct pair t = f[%s]; t.x + t.y[%s]; })", index_text(depth),
                   index_text(depth));
    case 11:
        return say("(int)sizeof(%s)", place(depth - 1));
    default:
        return say("(%s %s %s)", value(depth - 1), ops[pick(sizeof ops / sizeof *ops)],
                   value(depth - 1));
    }
}

static void statement(int depth)
{
    static const char *const assign[] = { "=", "+=", "-=", "*=", "&=", "|=", "^=", "=" };
    unsigned k = pick(20);

    used = 0;
    if (k < 9)
        printf("    %s %s %s;\n", place(2), assign[pick(8)], value(3));
    else if (k == 9)
        printf("    %s%s;\n", place(2), pick(2) ? "++" : "--");
    else if (k == 10)
        printf("    { long t = %s%s; i = (int)t & 1023; }\n", pick(2) ? "--" : "++",
               say(objects[pick(NOBJECTS)].lvalue, index_text(2)));
    else if (k == 11)
        printf("    { long t = %s++; j = (int)t & 1023; }\n",
               say(objects[pick(NOBJECTS)].lvalue, index_text(2)));
    else if (k == 12)
        printf("    p = %s + %s;\n", pick(2) ? "a" : "&a[0]", index_text(2));
    else if (k == 13)
        printf("    p = a + 4, %s, %s;\n", pick(2) ? "p++" : "p += 3", pick(2) ? "--p" : "p -= 2");
    else if (k == 14)
        printf("    q = &f[%s], sp = p, r = h, *sp += 1;\n", index_text(2));
    else if (k == 15)
        printf("    f[%s] = %s[%s];\n", index_text(2), pick(2) ? "f" : "g", index_text(1));
    else if (k == 16)
        printf("    { struct pair t = g[%s]; t.x ^= %s; h[%s] = t; }\n", index_text(1), value(2),
               index_text(1));
    else if (k == 17 && depth > 0) {
        printf("    if (%s) {\n", value(2));
        statement(depth - 1);
        printf("    } else {\n");
        statement(depth - 1);
        printf("    }\n");
    } else if (k == 18 && depth > 0) {
        printf("    for (int n = 0; n < %u; n++) {\n", 1 + pick(4));
        statement(depth - 1);
        printf("    }\n");
    } else
        printf("    D[%s] = D[%s] * 0.5 + (%s & 255), F[%s] -= (float)D[%s] / 3;\n", index_text(1),
               index_text(1), value(1), index_text(1), index_text(1));

    printf("    i &= 1023, j &= 1023;\n");
}

int main(int argc, char **argv)
{
    state = 88172645463325252ull + 7919ull * (unsigned)(argc > 1 ? atoi(argv[1]) : 1);
    for (int k = 0; k < 20; k++)
        pick(2);

    puts("#include <stdio.h>\n"
         "#ifdef PLAIN\n#define S(b)\n#define MYTHREAD 0\n#define upc_barrier\n#define shared\n"
         "#else\n#include <upc_relaxed.h>\n#define S(b) shared [b]\n#endif\n"
         "struct pair { int x; short y[8]; struct { long w; } z; };");
    for (size_t k = 0; k < NOBJECTS; k++)
        puts(objects[k].decl);

    puts("S(2) double D[8];\nS(3) float F[8];\nshared int *shared sp = a;\n"
         "static long same(S(1) int *x, long y) { return *x == y ? 3 : *x & y; }\n"
         "static int i = 1, j = 2;");
    for (int f = 0; f < 3; f++) {
        printf("static void part%d(void)\n{\n    S(1) int *p = a;\n    S(5) struct pair *q = f;\n  "
               "  S(1) struct pair *r = &h[0];\n",
               f);
        for (int k = 0; k < 25; k++)
            statement(2);

        puts("    (void)p, (void)q, (void)r;\n}");
    }

    puts("static void print(void)\n{\n    int x, y, z;");
    puts("    for (x = 0; x < 16; x++) printf(\"%d %u %ld\\n\", a[x], b[x], c[x]);\n"
         "    for (x = 0; x < 8; x++) {\n        for (y = 0; y < 8; y++) printf(\"%d %d \", "
         "d[x][y], m[x][y]);\n"
         "        printf(\"%d %d %ld %a %a\\n\", f[x].x, g[x].x, h[x].z.w, D[x], F[x]);\n"
         "        for (y = 0; y < 8; y++) printf(\"%d %d %d \", f[x].y[y], g[x].y[y], "
         "h[x].y[y]);\n    }\n"
         "    for (x = 0; x < 3; x++) for (y = 0; y < 4; y++) for (z = 0; z < 8; z++) printf(\"%d "
         "\", e[x][y][z]);\n"
         "    printf(\"%ld %d %d %d\\n\", s, one.y[1], i, j);\n}");
    puts("int main()\n{\n    upc_barrier;\n    if (MYTHREAD == 0) {\n        part0(), part1(), "
         "part2();\n        print();\n    }\n"
         "    upc_barrier;\n    return 0;\n}");

    return 0;
}
