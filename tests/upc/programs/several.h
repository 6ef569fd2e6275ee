/* SPDX-License-Identifier: BSD-3-Clause */
#define N 12
#ifdef WRONG_BLOCK
extern shared[2] int table[];
#else
extern shared[3] int table[];
#endif
extern shared int counter;
extern shared[3] int *cursor;
struct item {
    double weight;
    shared struct item *next;
};

shared struct item *make(double weight, shared struct item *next);
extern double private_value;
int plain_c(int x);
