/* SPDX-License-Identifier: BSD-3-Clause; expect: the affinity of upc_forall is an integer */
#include <upc_relaxed.h>
int a[10];
int main()
{
    upc_forall (int i = 0; i < 3; i++; &a[i]) /* here */
        ;
}
