/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of servers as text and as JSON; see ctl.h.  Layer: tools. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "base/settings/counters.h"
#include "tools/ctl/ctl.h"

/* ---- numbers ---- */

const char *ctl_bytes(double bytes, char out[16])
{
    static const char *const units[] = { "", "K", "M", "G", "T", "P" };
    size_t i = 0;

    while (bytes >= 9999.5 && i + 1 < AMPH_COUNTOF(units)) {
        bytes /= 1024;
        i++;
    }

    snprintf(out, 16, bytes < 99.95 && i > 0 ? "%.1f%s" : "%.0f%s", bytes, units[i]);
    return out;
}

const char *ctl_time(double ns, char out[16])
{
    static const struct {
        double ns;
        const char *name;
    } units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" } };

    if (ns == 0)
        return strcpy(out, "-");

    for (size_t i = 0; i < AMPH_COUNTOF(units); i++)
        if (ns >= units[i].ns) {
            snprintf(out, 16, "%.*f%s", ns < 100 * units[i].ns, ns / units[i].ns, units[i].name);
            return out;
        }

    snprintf(out, 16, "%.0fns", ns);
    return out;
}

/* ---- JSON ---- */

void ctl_json_text(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 ||
                 c >= 0x7f) /* bytes of other encodings as Latin-1, so that it is valid */
            fprintf(out, "\\u%04x", c);
        else
            putc(c, out);
    }

    putc('"', out);
}

static void json_latency(const struct amph_fwd_latency *l)
{
    static const struct {
        const char *name;
        double share;
    } shares[] = { { "p50_ns", 0.5 }, { "p90_ns", 0.9 }, { "p99_ns", 0.99 }, { "p999_ns", 0.999 } };
    uint64_t n = 0;

    for (unsigned i = 0; i < FWD_WATCH_LATENCY_BUCKETS; i++)
        n += l->count[i];

    printf("{\"count\":%" PRIu64 ",\"sum_ns\":%" PRIu64, n, l->sum_ns);
    for (size_t i = 0; i < AMPH_COUNTOF(shares); i++)
        printf(",\"%s\":%.0f", shares[i].name, amph_fwd_latency_share_ns(l, shares[i].share));

    putchar('}');
}

static void json_cell(const struct ctl_cell *cell)
{
    ctl_json_text(stdout, cell->name);
    putchar(':');

    if (cell->kind == FWD_ITEM_TEXT)
        ctl_json_text(stdout, cell->text ? cell->text : "");
    else if (cell->kind == FWD_ITEM_LATENCY && cell->latency)
        json_latency(cell->latency);
    else
        printf("%" PRIu64, cell->value);
}

/* Prints one object a line.  A list's rows get the number of their server. */
static void json_row(const struct ctl_row *row, uint32_t server, bool *first)
{
    printf("%s\n{", *first ? "" : ",");
    *first = false;

    if (!ctl_cell_of(row, "server"))
        printf("\"server\":%" PRIu32 "%s", server, row->n ? "," : "");

    for (size_t i = 0; i < row->n; i++) {
        fputs(i ? "," : "", stdout);
        json_cell(&row->cell[i]);
    }

    putchar('}');
}

static void json_unreachable(uint32_t server, const char *why, bool *first)
{
    printf("%s\n{\"server\":%" PRIu32 ",\"state\":\"unreachable\",\"reason\":", *first ? "" : ",",
           server);
    *first = false;
    ctl_json_text(stdout, why);
    putchar('}');
}

/* ---- status ---- */

/* Returns whether a cell is shown: counters of clients and conduits that are 0 are left out. */
static bool is_shown(const struct ctl_cell *cell, const struct amph_counters_row *counter)
{
    return cell->value || !counter || strncmp(cell->name, "server_", 7) == 0;
}

static void print_counters(const struct ctl_row *row)
{
    for (size_t i = 0; i < row->n; i++) {
        const struct ctl_cell *cell = &row->cell[i];
        const struct amph_counters_row *counter = amph_counters_find(cell->name);

        if (cell->kind == FWD_ITEM_TEXT)
            printf("    %-22s %s\n", cell->name, cell->text ? cell->text : "");
        else if (cell->kind == FWD_ITEM_VALUE && is_shown(cell, counter))
            printf("    %-22s %" PRIu64 "%s%s%s%s\n", cell->name, cell->value, counter ? " " : "",
                   counter ? counter->unit : "", counter ? ": " : "", counter ? counter->help : "");
    }
}

static void print_status(uint32_t server, const struct ctl_row *row)
{
    char written[16], read[16], p50[16], p99[16];
    const struct ctl_cell *latency = ctl_cell_of(row, "latency");
    const struct amph_fwd_latency none = { .sum_ns = 0 };
    const struct amph_fwd_latency *l = latency && latency->latency ? latency->latency : &none;

    printf("%6" PRIu32 " %-12.12s %8" PRIu64 " %-9s %7" PRIu64 " %7" PRIu64 " %6" PRIu64
           " %10" PRIu64 " %7" PRIu64 " %8s %8s %8s %8s %8" PRIu64 "s\n",
           server, ctl_text_of(row, "host"), ctl_value_of(row, "process"),
           ctl_text_of(row, "state"), ctl_value_of(row, "server_clients"),
           ctl_value_of(row, "server_files"), ctl_value_of(row, "server_queued"),
           ctl_value_of(row, "server_calls"), ctl_value_of(row, "server_errors"),
           ctl_bytes((double)ctl_value_of(row, "server_bytes_written"), written),
           ctl_bytes((double)ctl_value_of(row, "server_bytes_read"), read),
           ctl_time(amph_fwd_latency_share_ns(l, 0.5), p50),
           ctl_time(amph_fwd_latency_share_ns(l, 0.99), p99),
           ctl_value_of(row, "uptime_ns") / 1000000000);
}

int ctl_status(struct ctl_set *set, bool json, bool all)
{
    uint32_t dead = 0;
    bool first = true;

    if (json)
        fputs("{\"servers\":[", stdout);
    else
        printf("%6s %-12s %8s %-9s %7s %7s %6s %10s %7s %8s %8s %8s %8s %9s\n", "SERVER", "HOST",
               "PROCESS", "STATE", "CLIENTS", "FILES", "QUEUE", "CALLS", "ERRORS", "WRITTEN",
               "READ", "P50", "P99", "UP");

    for (uint32_t i = 0; i < set->n; i++) {
        struct ctl_rows rows;
        bool ok = ctl_ask(set, i, FWD_WATCH_STATUS, "", &rows) && rows.n > 0;

        dead += !ok;
        if (!ok && json)
            json_unreachable(i, set->server[i].why, &first);
        else if (!ok)
            printf("%6" PRIu32 " unreachable: %s\n", i, set->server[i].why);
        else if (json)
            json_row(&rows.row[0], i, &first);
        else
            print_status(i, &rows.row[0]);

        if (ok && all && !json)
            print_counters(&rows.row[0]);

        ctl_rows_free(&rows);
    }

    if (json)
        fputs("\n]}\n", stdout);

    if (dead)
        return ctl_fail("%" PRIu32 " of %" PRIu32 " servers of %s cannot be reached", dead, set->n,
                        set->file);

    return 0;
}

/* ---- clients, files ---- */

/* Texts come last, because they may be long. */
static void print_title(enum amph_fwd_watch list)
{
    printf("%6s", "SERVER");
    for (int texts = 0; texts < 2; texts++)
        for (unsigned i = 0; i < FWD_COLUMN_COUNT; i++) {
            const struct amph_fwd_column *c = &amph_fwd_columns[i];

            if (c->list != list || (c->form == FWD_FORM_TEXT) != texts)
                continue;

            if (c->form == FWD_FORM_LATENCY)
                printf(" %8s %8s", "P50", "P99");
            else
                printf(texts ? " %-8s" : " %8s", c->title);
        }

    putchar('\n');
}

static void print_cell(const struct amph_fwd_column *c, const struct ctl_row *row)
{
    const struct ctl_cell *cell = ctl_cell_of(row, c->name);
    uint64_t value = cell ? cell->value : 0;
    char a[16], b[16], text[CTL_TEXT_BYTES];

    if (c->form == FWD_FORM_BYTES || c->form == FWD_FORM_LEVEL_BYTES)
        printf(" %8s", ctl_bytes((double)value, a));
    else if (c->form == FWD_FORM_LATENCY && cell && cell->latency)
        printf(" %8s %8s", ctl_time(amph_fwd_latency_share_ns(cell->latency, 0.5), a),
               ctl_time(amph_fwd_latency_share_ns(cell->latency, 0.99), b));
    else if (c->form == FWD_FORM_TEXT)
        printf(" %-8s", amph_visible(text, sizeof text, ctl_text_of(row, c->name)));
    else
        printf(" %8" PRIu64, value);
}

static void print_row(enum amph_fwd_watch list, uint32_t server, const struct ctl_row *row)
{
    printf("%6" PRIu32, server);
    for (int texts = 0; texts < 2; texts++)
        for (unsigned i = 0; i < FWD_COLUMN_COUNT; i++) {
            const struct amph_fwd_column *c = &amph_fwd_columns[i];

            if (c->list == list && (c->form == FWD_FORM_TEXT) == texts)
                print_cell(c, row);
        }

    putchar('\n');
}

int ctl_list(struct ctl_set *set, enum amph_fwd_watch list, bool json)
{
    uint32_t dead = 0;
    bool first = true;

    if (json)
        printf("{\"%s\":[", list == FWD_WATCH_CLIENTS ? "clients" : "files");
    else
        print_title(list);

    for (uint32_t i = 0; i < set->n; i++) {
        struct ctl_rows rows;
        bool ok = ctl_ask(set, i, list, "", &rows);

        dead += !ok;
        if (!ok)
            ctl_fail("server %" PRIu32 " cannot be reached: %s", i, set->server[i].why);

        for (size_t k = 0; k < rows.n; k++)
            if (json)
                json_row(&rows.row[k], i, &first);
            else
                print_row(list, i, &rows.row[k]);

        ctl_rows_free(&rows);
    }

    if (json)
        fputs("\n]}\n", stdout);

    return dead ? 1 : 0;
}
