! SPDX-License-Identifier: BSD-3-Clause
! Fortran's file forms under the directory that is the first argument: formatted, unformatted, direct access, stream, scratch, append,
! backspace and rewind, inquire, internal errors by iostat.  What it prints is compared with a run on local files.
program fwd_fortran
  implicit none
  character(len=512) :: dir, line
  integer :: i, u, ios, rec_len, n
  real(8) :: x(1000), y(1000)
  integer(4) :: block(256)
  logical :: there
  call get_command_argument(1, dir)
  do i = 1, 1000
    x(i) = i * 0.5d0
  end do

  open (newunit=u, file=trim(dir)//'/formatted.txt', status='new', action='write')
  do i = 1, 500
    write (u, '(i6,1x,f12.4,1x,a)') i, x(i), 'line'
  end do
  close (u)
  open (newunit=u, file=trim(dir)//'/formatted.txt', status='old', position='append', action='readwrite')
  write (u, '(a)') 'the last'
  backspace (u)
  read (u, '(a)') line
  print *, 'last: ', trim(line)
  rewind (u)
  n = 0
  do
    read (u, '(a)', iostat=ios) line
    if (ios /= 0) exit
    n = n + 1
  end do
  print *, 'lines', n, 'end', ios < 0
  close (u)

  open (newunit=u, file=trim(dir)//'/unformatted.bin', form='unformatted', status='replace')
  do i = 1, 100
    write (u) i, x
  end do
  rewind (u)
  do i = 1, 100
    read (u) n, y
    if (n /= i .or. any(y /= x)) print *, 'unformatted: record', i, 'differs'
  end do
  read (u, iostat=ios) n
  print *, 'unformatted: end', ios < 0
  close (u)

  inquire (iolength=rec_len) block
  open (newunit=u, file=trim(dir)//'/direct.bin', form='unformatted', access='direct', recl=rec_len, status='replace')
  do i = 200, 1, -1
    block = i
    write (u, rec=i) block
  end do
  do i = 1, 200, 7
    read (u, rec=i) block
    if (any(block /= i)) print *, 'direct: record', i, 'differs'
  end do
  block = 7777
  write (u, rec=50) block
  read (u, rec=201, iostat=ios) block
  print *, 'direct: past the end', ios /= 0
  close (u)

  open (newunit=u, file=trim(dir)//'/stream.bin', form='unformatted', access='stream', status='replace')
  write (u) x
  read (u, pos=8*499 + 1) y(1)
  print *, 'stream:', y(1)
  inquire (unit=u, size=n)
  print *, 'size', n
  close (u)

  call chdir(trim(dir))
  open (newunit=u, status='scratch', form='unformatted')
  write (u) x
  rewind (u)
  read (u) y
  print *, 'scratch', all(x == y)
  close (u)

  inquire (file='direct.bin', exist=there)
  print *, 'there', there
  open (newunit=u, file='none/none', status='old', iostat=ios)
  print *, 'no such file', ios
  open (newunit=u, file='formatted.txt', status='new', iostat=ios)
  print *, 'exists', ios
  open (newunit=u, file='stream.bin', status='old')
  close (u, status='delete')
  inquire (file='stream.bin', exist=there)
  print *, 'deleted', .not. there
end program
