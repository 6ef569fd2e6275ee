/* SPDX-License-Identifier: BSD-3-Clause */
/* For trap_calls.sh: PROGRAM int80|x32 FILE opens the file by the numbers of another architecture, and
 * exits 0 if that was possible. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;

    if (strcmp(argv[1], "x32") == 0)
        return syscall(0x40000000 | SYS_open, argv[2], O_RDONLY) >= 0 ? 0 : 1;

    /* a 32-bit call takes 32-bit addresses */
    char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
                     -1, 0);
    long result;

    if (low == MAP_FAILED)
        return 2;

    strncpy(low, argv[2], 4095);
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(5L), "b"(low), "c"(0L), "d"(0L) : "memory");
    return result >= 0 ? 0 : 1;
}
