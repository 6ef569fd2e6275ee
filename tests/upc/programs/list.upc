/* SPDX-License-Identifier: BSD-3-Clause */
/* A linked list of shared structures: each thread puts its nodes in front, under a lock; thread 0 turns it round. */
#include <upc_strict.h>
#include "check.h"
#define EACH 25

struct node {
    int owner, value;
    shared struct node *next;
};
typedef shared struct node *node_ptr;

shared struct node *shared head;
shared int length;
upc_lock_t *lock;

static void push(int value)
{
    node_ptr n = (node_ptr)upc_alloc(sizeof(struct node));
    n->owner = MYTHREAD;
    n->value = value;
    upc_lock(lock);
    n->next = head;
    head = n;
    length++;
    upc_unlock(lock);
}

static node_ptr reverse(node_ptr list)
{
    node_ptr done = NULL;
    while (list) {
        node_ptr rest = list->next;
        list->next = done;
        done = list;
        list = rest;
    }
    return done;
}

int main()
{
    lock = upc_all_lock_alloc();
    for (int i = 0; i < EACH; i++)
        push(i);
    upc_barrier;
    if (MYTHREAD == 0)
        head = reverse(head);
    upc_barrier;
    int n = 0, last[64] = { 0 };
    for (shared struct node *p = head; p != NULL; p = p->next, n++) {
        CHECK(upc_threadof(p) == p->owner);
        CHECK(p->value == last[p->owner]++);
        CHECK((*p).value == ((node_ptr)p)->value);
    }
    CHECK(n == length && n == EACH * THREADS);
    upc_barrier;
    if (MYTHREAD == THREADS - 1)
        for (node_ptr p = head, rest; p && (rest = p->next, 1); p = rest)
            upc_free(p);
    upc_barrier;
    return 0;
}
