! SPDX-License-Identifier: BSD-3-Clause
! A static Fortran program: formatted and direct access in the directory that is its argument.
program static
    character(len=200) :: dir, line
    logical :: there
    integer :: n
    call get_command_argument(1, dir)
    open(10, file=trim(dir)//'/formatted', status='replace')
    write(10, '(a,i4)') 'by Fortran', 42
    close(10)
    open(10, file=trim(dir)//'/formatted', status='old', position='append')
    write(10, '(a)') 'appended'
    rewind(10)
    read(10, '(a)') line
    close(10)
    print '(a)', trim(line)
    open(11, file=trim(dir)//'/direct', access='direct', recl=8, form='unformatted')
    write(11, rec=3) 17
    close(11)
    inquire(file=trim(dir)//'/direct', exist=there, size=n)
    print '(l2,i5)', there, n
end program
