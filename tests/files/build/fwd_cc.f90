! SPDX-License-Identifier: BSD-3-Clause
! A Fortran program for fwd_cc.sh: each form of access in the directory that is its argument.
program forms
    implicit none
    character(len=500) :: dir, line, name
    character(len=5) :: word
    logical :: there, open_now
    integer :: n, code, pos
    real :: x(3)
    integer :: i

    call get_command_argument(1, dir)
    dir = trim(dir)//'/'

    ! formatted, and behind its end
    open(10, file=trim(dir)//'formatted', status='replace', action='readwrite')
    write(10, '(a,i4,f8.3)') 'row', 42, 1.5
    write(10, *) 1, 2.5, 'list'
    close(10)
    open(10, file=trim(dir)//'formatted', status='old', position='append')
    write(10, '(a)') 'appended'
    rewind(10)
    do
        read(10, '(a)', iostat=code) line
        if (code /= 0) exit
        print '(a)', trim(line)
    end do
    backspace(10)
    close(10)

    ! unformatted
    open(11, file=trim(dir)//'unformatted', form='unformatted', status='new')
    write(11) 1.0, 2.0, 3.0
    write(11) 4.0, 5.0, 6.0
    rewind(11)
    read(11)
    read(11) x
    print '(3f5.1)', x
    close(11)

    ! direct
    open(12, file=trim(dir)//'direct', access='direct', recl=16, form='unformatted')
    do i = 5, 1, -1
        write(12, rec=i) i, i * i
    end do
    read(12, rec=3) n, code
    print '(2i4)', n, code
    close(12)

    ! stream
    open(13, file=trim(dir)//'stream', access='stream', form='unformatted')
    write(13) 'abcdefghij'
    write(13, pos=4) 'XY'
    read(13, pos=3) word
    inquire(13, pos=pos)
    print '(a,i4)', word, pos
    close(13)

    ! inquire
    inquire(file=trim(dir)//'direct', exist=there, size=n, opened=open_now)
    print '(2l2,i5)', there, open_now, n
    inquire(file=trim(dir)//'none', exist=there)
    print '(l2)', there
    open(14, file=trim(dir)//'none', status='old', iostat=code)
    print '(l2)', code /= 0

    ! scratch
    open(15, status='scratch', form='formatted')
    write(15, '(a)') 'kept for a while'
    rewind(15)
    read(15, '(a)') line
    print '(a)', trim(line)
    inquire(15, name=name)
    print '(l2)', len_trim(name) > 0
    close(15)

    ! deleted at its end
    open(16, file=trim(dir)//'deleted', status='new')
    write(16, '(a)') 'gone'
    close(16, status='delete')
    inquire(file=trim(dir)//'deleted', exist=there)
    print '(l2)', there
end program
