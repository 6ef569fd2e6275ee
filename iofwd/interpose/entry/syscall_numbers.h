/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers that syscall.c uses for calls which a machine lacks, or whose system call takes other
 * arguments than the function of the C library.  No kernel assigns these numbers.  A program that
 * uses the machine's real number therefore reaches the kernel, which refuses the descriptor of a
 * forwarded file.
 *
 * Layer: iofwd (interposer).  Thread rule: constants.
 */
#ifndef AMPH_IOFWD_NUMBERS_H
#define AMPH_IOFWD_NUMBERS_H

#include <sys/syscall.h>

#define AMPH_IP_KERNEL_NUMBERS 512 /* programs may use the numbers below this one */
#define AMPH_IP_ABSENT(n) (AMPH_IP_KERNEL_NUMBERS + (n))
#define AMPH_IP_ALL_NUMBERS AMPH_IP_ABSENT(80)

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_getxattrat 464
#define SYS_listxattrat 465
#define SYS_removexattrat 466
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#ifndef SYS_file_getattr
#define SYS_file_getattr 468
#define SYS_file_setattr 469
#endif

/* Newer machines have only the calls that take a directory. */
#ifndef SYS_open
#define SYS_open AMPH_IP_ABSENT(0)
#define SYS_creat AMPH_IP_ABSENT(1)
#define SYS_dup2 AMPH_IP_ABSENT(2)
#define SYS_stat AMPH_IP_ABSENT(3)
#define SYS_lstat AMPH_IP_ABSENT(4)
#define SYS_access AMPH_IP_ABSENT(5)
#define SYS_getdents AMPH_IP_ABSENT(6)
#define SYS_mkdir AMPH_IP_ABSENT(7)
#define SYS_rmdir AMPH_IP_ABSENT(8)
#define SYS_mknod AMPH_IP_ABSENT(9)
#define SYS_unlink AMPH_IP_ABSENT(10)
#define SYS_rename AMPH_IP_ABSENT(11)
#define SYS_link AMPH_IP_ABSENT(12)
#define SYS_symlink AMPH_IP_ABSENT(13)
#define SYS_readlink AMPH_IP_ABSENT(14)
#define SYS_chmod AMPH_IP_ABSENT(15)
#define SYS_chown AMPH_IP_ABSENT(16)
#define SYS_lchown AMPH_IP_ABSENT(17)
#define SYS_utimes AMPH_IP_ABSENT(18)
#define SYS_futimesat AMPH_IP_ABSENT(19)
#endif
#ifndef SYS_poll
#define SYS_poll AMPH_IP_ABSENT(49)
#endif
#ifndef SYS_epoll_wait
#define SYS_epoll_wait AMPH_IP_ABSENT(50)
#endif
#if __SIZEOF_POINTER__ == 4 && \
    defined SYS__newselect /* the older number takes one pointer to all arguments */
#undef SYS_select
#define SYS_select SYS__newselect
#elif !defined SYS_select
#define SYS_select AMPH_IP_ABSENT(51)
#endif
#ifndef SYS_fadvise64
#define SYS_fadvise64 AMPH_IP_ABSENT(52)
#endif
#ifndef SYS_bind /* through socketcall, which takes a pointer to the arguments */
#define SYS_bind AMPH_IP_ABSENT(53)
#define SYS_connect AMPH_IP_ABSENT(54)
#define SYS_sendto AMPH_IP_ABSENT(55)
#define SYS_sendmsg AMPH_IP_ABSENT(56)
#define SYS_sendmmsg AMPH_IP_ABSENT(57)
#define SYS_getsockname AMPH_IP_ABSENT(58)
#define SYS_getpeername AMPH_IP_ABSENT(59)
#endif
#ifndef SYS_utime
#define SYS_utime AMPH_IP_ABSENT(20)
#endif
#ifndef SYS_sync_file_range /* sync_file_range2 takes the flags as another argument */
#define SYS_sync_file_range AMPH_IP_ABSENT(21)
#endif
#if !defined SYS_mmap || defined __s390x__ /* there mmap takes one pointer to its arguments */
#undef SYS_mmap
#define SYS_mmap AMPH_IP_ABSENT(22)
#endif
#ifndef SYS_newfstatat
#define SYS_newfstatat AMPH_IP_ABSENT(23)
#endif
#ifndef SYS_fork
#define SYS_fork AMPH_IP_ABSENT(61)
#define SYS_vfork AMPH_IP_ABSENT(62)
#endif

/* On 32-bit machines an offset takes two words, and these calls write other records or take numbers
 * of 16 bits. */
#if __SIZEOF_POINTER__ == 4
#undef SYS_lseek
#undef SYS_pread64
#undef SYS_pwrite64
#undef SYS_preadv
#undef SYS_pwritev
#undef SYS_preadv2
#undef SYS_pwritev2
#undef SYS_truncate
#undef SYS_ftruncate
#undef SYS_fallocate
#undef SYS_readahead
#undef SYS_sendfile
#undef SYS_stat
#undef SYS_lstat
#undef SYS_fstat
#undef SYS_statfs
#undef SYS_fstatfs
#undef SYS_getdents
#undef SYS_chown
#undef SYS_lchown
#undef SYS_fchown
#undef SYS_utimensat
#undef SYS_utimes
#undef SYS_futimesat
#undef SYS_fcntl
#undef SYS_fadvise64
#define SYS_lseek AMPH_IP_ABSENT(24)
#define SYS_pread64 AMPH_IP_ABSENT(25)
#define SYS_pwrite64 AMPH_IP_ABSENT(26)
#define SYS_preadv AMPH_IP_ABSENT(27)
#define SYS_pwritev AMPH_IP_ABSENT(28)
#define SYS_preadv2 AMPH_IP_ABSENT(29)
#define SYS_pwritev2 AMPH_IP_ABSENT(30)
#define SYS_truncate AMPH_IP_ABSENT(31)
#define SYS_ftruncate AMPH_IP_ABSENT(32)
#define SYS_fallocate AMPH_IP_ABSENT(33)
#define SYS_readahead AMPH_IP_ABSENT(34)
#define SYS_sendfile AMPH_IP_ABSENT(35)
#define SYS_stat AMPH_IP_ABSENT(36)
#define SYS_lstat AMPH_IP_ABSENT(37)
#define SYS_fstat AMPH_IP_ABSENT(38)
#define SYS_statfs AMPH_IP_ABSENT(39)
#define SYS_fstatfs AMPH_IP_ABSENT(40)
#define SYS_getdents AMPH_IP_ABSENT(41)
#define SYS_chown AMPH_IP_ABSENT(42)
#define SYS_lchown AMPH_IP_ABSENT(43)
#define SYS_fchown AMPH_IP_ABSENT(44)
#define SYS_utimensat AMPH_IP_ABSENT(45)
#define SYS_utimes AMPH_IP_ABSENT(46)
#define SYS_futimesat AMPH_IP_ABSENT(47)
#define SYS_fcntl AMPH_IP_ABSENT(48)
#define SYS_fadvise64 AMPH_IP_ABSENT(52)
#endif

#endif
