/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends of MPI-IO's requests: MPI_Wait, MPI_Test and their forms for several requests, caught by their
 * names in the C interface and in the profiling interface.
 *
 * Layer: iofwd (interposer).  Thread rule: see mpi_io.h.
 *
 * As long as no request of MPI-IO is in flight, a call is passed on as it came.  It has no record of its
 * own: most of these calls wait for messages.
 */
#include <stdlib.h>
#include <string.h>

#include "iofwd/interpose/entry/mpi_io.h"
#include "iofwd/interpose/entry/record_request.h"

#define EXPORTED __attribute__((visibility("default")))

/* Some requests that a call looks at, while it is made. */
struct looking {
    uint64_t *key;  /* of each; 0: it is none of MPI-IO's in flight */
    void *statuses; /* of each, the program's or our own */
    void *own;      /* our own, to free; NULL: the program has given some */
    uint64_t one_key;
    uint64_t one_status[32];
};

static const char *status_at(const struct looking *l, int i)
{
    return (const char *)l->statuses + (size_t)i * amph_ip_mpi_status_bytes();
}

/* Both libraries: that the program ignores statuses is one of the first two addresses. */
static bool is_ignored(uintptr_t statuses)
{
    return statuses <= 1;
}

/* Looks which of the n requests are ours.  statuses: how many the call may fill.  false: none is, or there is
 * no memory. */
static bool look(struct looking *l, int n, uintptr_t requests, uintptr_t statuses, int nstatuses)
{
    bool any = false;

    if (!amph_ip_request_any() || n <= 0)
        return false;

    l->own = NULL;
    l->key = n == 1 ? &l->one_key : calloc((size_t)n, sizeof *l->key);
    if (!l->key)
        return false;

    for (int i = 0; i < n; i++) {
        uint64_t key = amph_ip_mpi_request_key(requests, i);

        l->key[i] = amph_ip_request_is_in_flight(key) ? key : 0;
        any = any || l->key[i];
    }

    l->statuses = (void *)statuses;
    if (any && is_ignored(statuses)) {
        size_t bytes = (size_t)nstatuses * amph_ip_mpi_status_bytes();

        l->statuses = l->one_status;
        if (bytes > sizeof l->one_status)
            l->statuses = l->own = calloc(1, bytes);
    }

    if (any && l->statuses)
        return true;

    if (n > 1)
        free(l->key);

    return false;
}

static void forget(struct looking *l)
{
    if (l->key != &l->one_key)
        free(l->key);

    free(l->own);
}

/* Request i has ended, and its status is number `at` of those that the call has filled. */
static void end_one(const struct looking *l, int n, int i, int at, int code)
{
    if (i < 0 || i >= n || !l->key[i])
        return;

    int64_t moved = code == 0 ? amph_ip_mpi_bytes((uintptr_t)status_at(l, at)) : 0;

    amph_ip_request_end(l->key[i], moved > 0 ? moved : 0,
                        code == 0 ? 0 : amph_ip_mpi_error_class(code));
}

static void end_all(const struct looking *l, int n, int code)
{
    for (int i = 0; i < n; i++)
        end_one(l, n, i, i, code);
}

/* ---- the calls ---- */

typedef int wait_fn(uintptr_t, uintptr_t);
typedef int waitall_fn(int, uintptr_t, uintptr_t);
typedef int waitany_fn(int, uintptr_t, int *, uintptr_t);
typedef int waitsome_fn(int, uintptr_t, int *, int *, uintptr_t);
typedef int test_fn(uintptr_t, int *, uintptr_t);
typedef int testall_fn(int, uintptr_t, int *, uintptr_t);
typedef int testany_fn(int, uintptr_t, int *, int *, uintptr_t);

static int do_wait(bool profiling, uintptr_t request, uintptr_t status)
{
    wait_fn *real = (wait_fn *)amph_ip_mpi_real(AMPH_IP_MPI_WAIT, profiling);
    struct looking l;

    if (!look(&l, 1, request, status, 1))
        return real(request, status);

    int code = real(request, (uintptr_t)l.statuses);

    end_one(&l, 1, 0, 0, code);
    forget(&l);
    return code;
}

static int do_test(bool profiling, uintptr_t request, int *flag, uintptr_t status)
{
    test_fn *real = (test_fn *)amph_ip_mpi_real(AMPH_IP_MPI_TEST, profiling);
    struct looking l;

    if (!look(&l, 1, request, status, 1))
        return real(request, flag, status);

    int code = real(request, flag, (uintptr_t)l.statuses);

    if (code != 0 || *flag)
        end_one(&l, 1, 0, 0, code);

    forget(&l);
    return code;
}

static int do_waitall(bool profiling, int n, uintptr_t requests, uintptr_t statuses)
{
    waitall_fn *real = (waitall_fn *)amph_ip_mpi_real(AMPH_IP_MPI_WAITALL, profiling);
    struct looking l;

    if (!look(&l, n, requests, statuses, n))
        return real(n, requests, statuses);

    int code = real(n, requests, (uintptr_t)l.statuses);

    end_all(&l, n, code);
    forget(&l);
    return code;
}

static int do_testall(bool profiling, int n, uintptr_t requests, int *flag, uintptr_t statuses)
{
    testall_fn *real = (testall_fn *)amph_ip_mpi_real(AMPH_IP_MPI_TESTALL, profiling);
    struct looking l;

    if (!look(&l, n, requests, statuses, n))
        return real(n, requests, flag, statuses);

    int code = real(n, requests, flag, (uintptr_t)l.statuses);

    if (code != 0 || *flag)
        end_all(&l, n, code);

    forget(&l);
    return code;
}

static int do_waitany(bool profiling, int n, uintptr_t requests, int *index, uintptr_t status)
{
    waitany_fn *real = (waitany_fn *)amph_ip_mpi_real(AMPH_IP_MPI_WAITANY, profiling);
    struct looking l;

    if (!look(&l, n, requests, status, 1))
        return real(n, requests, index, status);

    int code = real(n, requests, index, (uintptr_t)l.statuses);

    end_one(&l, n, *index, 0, code);
    forget(&l);
    return code;
}

static int do_testany(bool profiling, int n, uintptr_t requests, int *index, int *flag,
                      uintptr_t status)
{
    testany_fn *real = (testany_fn *)amph_ip_mpi_real(AMPH_IP_MPI_TESTANY, profiling);
    struct looking l;

    if (!look(&l, n, requests, status, 1))
        return real(n, requests, index, flag, status);

    int code = real(n, requests, index, flag, (uintptr_t)l.statuses);

    if (code != 0 || *flag)
        end_one(&l, n, *index, 0, code);

    forget(&l);
    return code;
}

/* MPI_Waitsome and MPI_Testsome. */
static int do_some(enum amph_ip_mpi_wait which, bool profiling, int n, uintptr_t requests,
                   int *count, int *indices, uintptr_t statuses)
{
    waitsome_fn *real = (waitsome_fn *)amph_ip_mpi_real(which, profiling);
    struct looking l;

    if (!look(&l, n, requests, statuses, n))
        return real(n, requests, count, indices, statuses);

    int code = real(n, requests, count, indices, (uintptr_t)l.statuses);

    for (int i = 0; i < *count && i < n; i++)
        end_one(&l, n, indices[i], i, code);

    forget(&l);
    return code;
}

/* ---- their names ---- */

EXPORTED wait_fn MPI_Wait, PMPI_Wait;
EXPORTED test_fn MPI_Test, PMPI_Test;
EXPORTED waitall_fn MPI_Waitall, PMPI_Waitall;
EXPORTED testall_fn MPI_Testall, PMPI_Testall;
EXPORTED waitany_fn MPI_Waitany, PMPI_Waitany;
EXPORTED testany_fn MPI_Testany, PMPI_Testany;
EXPORTED waitsome_fn MPI_Waitsome, PMPI_Waitsome, MPI_Testsome, PMPI_Testsome;

int MPI_Wait(uintptr_t request, uintptr_t status)
{
    return do_wait(false, request, status);
}

int PMPI_Wait(uintptr_t request, uintptr_t status)
{
    return do_wait(true, request, status);
}

int MPI_Test(uintptr_t request, int *flag, uintptr_t status)
{
    return do_test(false, request, flag, status);
}

int PMPI_Test(uintptr_t request, int *flag, uintptr_t status)
{
    return do_test(true, request, flag, status);
}

int MPI_Waitall(int n, uintptr_t requests, uintptr_t statuses)
{
    return do_waitall(false, n, requests, statuses);
}

int PMPI_Waitall(int n, uintptr_t requests, uintptr_t statuses)
{
    return do_waitall(true, n, requests, statuses);
}

int MPI_Testall(int n, uintptr_t requests, int *flag, uintptr_t statuses)
{
    return do_testall(false, n, requests, flag, statuses);
}

int PMPI_Testall(int n, uintptr_t requests, int *flag, uintptr_t statuses)
{
    return do_testall(true, n, requests, flag, statuses);
}

int MPI_Waitany(int n, uintptr_t requests, int *index, uintptr_t status)
{
    return do_waitany(false, n, requests, index, status);
}

int PMPI_Waitany(int n, uintptr_t requests, int *index, uintptr_t status)
{
    return do_waitany(true, n, requests, index, status);
}

int MPI_Testany(int n, uintptr_t requests, int *index, int *flag, uintptr_t status)
{
    return do_testany(false, n, requests, index, flag, status);
}

int PMPI_Testany(int n, uintptr_t requests, int *index, int *flag, uintptr_t status)
{
    return do_testany(true, n, requests, index, flag, status);
}

int MPI_Waitsome(int n, uintptr_t requests, int *count, int *indices, uintptr_t statuses)
{
    return do_some(AMPH_IP_MPI_WAITSOME, false, n, requests, count, indices, statuses);
}

int PMPI_Waitsome(int n, uintptr_t requests, int *count, int *indices, uintptr_t statuses)
{
    return do_some(AMPH_IP_MPI_WAITSOME, true, n, requests, count, indices, statuses);
}

int MPI_Testsome(int n, uintptr_t requests, int *count, int *indices, uintptr_t statuses)
{
    return do_some(AMPH_IP_MPI_TESTSOME, false, n, requests, count, indices, statuses);
}

int PMPI_Testsome(int n, uintptr_t requests, int *count, int *indices, uintptr_t statuses)
{
    return do_some(AMPH_IP_MPI_TESTSOME, true, n, requests, count, indices, statuses);
}
