/* SPDX-License-Identifier: BSD-3-Clause */
/* iofwd-server: a process of the job's server group.  Layer: iofwd.  Thread rule: main. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "iofwd/server.h"

static const char usage[] =
    "usage: iofwd-server\n"
    "Serves files to the compute processes of its job; amphora-run -servers S starts it.  Its settings come from the environment:\n"
    "IOFWD_PREFIX=PATH[=DIR][:...] (what is exported), IOFWD_PIECE, AMPHORA_STATS=1 (counters at the end).\n";

int main(int argc, char **argv)
{
    struct fwd_server *server;
    if (argc > 1) {
        int help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-help") == 0 || strcmp(argv[1], "-h") == 0;
        if (!help)
            fprintf(stderr, "iofwd-server: what is %s?\n", argv[1]);
        fputs(usage, help ? stdout : stderr);
        return help ? 0 : 2;
    }
    if (fwd_server_open(&server) != AMPH_OK)
        return 1;
    int code = fwd_server_run(server);
    fwd_server_close(server);
    fflush(NULL);
    _exit(code);
}
