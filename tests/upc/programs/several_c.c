/* SPDX-License-Identifier: BSD-3-Clause */
int plain_c(int x);
int plain_c(int x)
{
    return 2 * x + 1;
}
