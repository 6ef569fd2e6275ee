/* SPDX-License-Identifier: BSD-3-Clause; expect: the affinity of upc_forall is an integer, a pointer to shared or 'continue' */
#include <upc_relaxed.h>
int main()
{
    upc_forall (int i = 0; i < 3; i++; 1.5) /* here */
        ;
}
