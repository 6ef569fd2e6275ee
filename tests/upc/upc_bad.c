/* SPDX-License-Identifier: BSD-3-Clause */
/* Misuse of UPC's library, by name; each ends the job with a sentence.  "late", "exit", "return"
 * and "global_exit_0" are right programs. */
#include "tests/upc/upc_common.h"

UPC_SHARED(, far, int, 1, THREADS);

static int test_main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    upc_lock_t *lock = upc_all_lock_alloc();
    upc_pts_t p = upc_all_alloc((size_t)THREADS, 8);

    if (strcmp(what, "values") == 0)
        upc_barrier_value(MYTHREAD);
    else if (strcmp(what, "wait") == 0)
        upc_wait();
    else if (strcmp(what, "notify") == 0)
        upc_notify(), upc_notify();
    else if (strcmp(what, "wait_value") == 0)
        upc_notify_value(1), upc_wait_value(2);
    else if (strcmp(what, "free") == 0)
        upc_free(upc_pts_offset(p, 64));
    else if (strcmp(what, "free_twice") == 0)
        upc_all_free(p), upc_barrier(), upc_all_free(p), upc_barrier();
    else if (strcmp(what, "unlock") == 0)
        upc_unlock(lock);
    else if (strcmp(what, "lock_twice") == 0 && MYTHREAD == 0)
        upc_lock(lock), upc_lock(lock);
    else if (strcmp(what, "no_lock") == 0)
        upc_lock(NULL);
    else if (strcmp(what, "between") == 0)
        upc_notify(), upc_all_broadcast(p, p, 8, 0);
    else if (strcmp(what, "domain") == 0)
        upc_all_atomicdomain_alloc(UPC_DOUBLE, UPC_XOR, 0);
    else if (strcmp(what, "not_local") == 0)
        (void)upc_pts_local(upc_pts_add(far, sizeof(int), 1, (MYTHREAD + 1) % THREADS));
    else if (strcmp(what, "copy_from_null") == 0)
        upc_memcpy(p, UPC_NULL, 8);
    else if (strcmp(what, "get_from_null") == 0)
        upc_memget(&lock, UPC_NULL, 1);
    else if (strcmp(what, "set_null") == 0)
        upc_memset(UPC_NULL, 1, 8);
    else if (strcmp(what, "put_to_null") == 0)
        upc_sync(upc_memput_nb(UPC_NULL, &lock, 1));
    else if (strcmp(what, "exit") == 0)
        exit(MYTHREAD == 0 ? 3 : 0); /* the others wait for it, and it for them */
    else if (strcmp(what, "global_exit") == 0 && MYTHREAD == 1)
        upc_global_exit(5);
    else if (strcmp(what, "global_exit_0") == 0 && MYTHREAD == 1)
        upc_global_exit(0);
    else if (strcmp(what, "global_exit_0") == 0)
        for (int i = 0;; i++)
            upc_barrier(), upc_poll(); /* until it hears of it */
    else if (strcmp(what, "kill") == 0 && MYTHREAD == 1)
        abort();

    upc_barrier();
    return 0;
}

UPC_MAIN(test_main)
