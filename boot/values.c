/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The values that one process has published; see kind.h.
 *
 * Layer: boot.  Thread rule: serialised by the owner.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "boot/kind.h"

const struct amph_value *amph_boot_values_get(const struct amph_values *v, const char *key)
{
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->at[i].key, key) == 0)
            return &v->at[i];

    return NULL;
}

static struct amph_value *values_add(struct amph_values *v, const char *key)
{
    if (v->n >= AMPH_VALUES_MAX)
        return NULL;

    struct amph_value *at = realloc(v->at, (v->n + 1) * sizeof *at);
    if (!at)
        return NULL;

    v->at = at;

    char *copy = strdup(key);
    if (!copy)
        return NULL;

    at[v->n] = (struct amph_value){ .key = copy };
    return &at[v->n++];
}

enum amph_status amph_boot_values_set(struct amph_values *v, const char *key, const void *data,
                                      size_t len_bytes)
{
    void *copy = malloc(len_bytes + 1);

    if (!copy)
        return AMPH_ERR_NOMEM;

    if (len_bytes)
        memcpy(copy, data, len_bytes);

    struct amph_value *value = (struct amph_value *)amph_boot_values_get(v, key);

    if (!value && !(value = values_add(v, key))) {
        free(copy);
        return AMPH_ERR_NOMEM;
    }

    free(value->data);
    value->data = copy;
    value->len_bytes = len_bytes;

    return AMPH_OK;
}

void amph_boot_values_free(struct amph_values *v)
{
    for (size_t i = 0; i < v->n; i++) {
        free(v->at[i].key);
        free(v->at[i].data);
    }

    free(v->at);
    v->at = NULL;
    v->n = 0;
}
