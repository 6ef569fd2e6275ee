/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input of a fuzzer that derives a sequence of actions from it, byte by byte.  A program sets both
 * variables before it begins; behind the end all bytes are 0.
 */
#ifndef AMPH_TESTS_FUZZ_INPUT_H
#define AMPH_TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

static const uint8_t *input;
static size_t input_left;

static uint8_t next(void)
{
    if (!input_left)
        return 0;

    input_left--;
    return *input++;
}

#endif
