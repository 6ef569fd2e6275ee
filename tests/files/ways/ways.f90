! SPDX-License-Identifier: BSD-3-Clause
! One file operation of the matrix of ways, in Fortran; see ways.c.  What the language has no statement for is the C library's.
program ways
  use iso_c_binding
  implicit none

  interface
    function c_fopen(path, mode) bind(c, name="fopen")
      import
      character(kind=c_char), intent(in) :: path(*), mode(*)
      type(c_ptr) :: c_fopen
    end function
    function c_fileno(stream) bind(c, name="fileno")
      import
      type(c_ptr), value :: stream
      integer(c_int) :: c_fileno
    end function
    function c_dup2(from, to) bind(c, name="dup2")
      import
      integer(c_int), value :: from, to
      integer(c_int) :: c_dup2
    end function
    function c_lockf(fd, how, len) bind(c, name="lockf")
      import
      integer(c_int), value :: fd, how
      integer(c_long), value :: len
      integer(c_int) :: c_lockf
    end function
    function c_mmap(at, len, prot, flags, fd, off) bind(c, name="mmap")
      import
      type(c_ptr), value :: at
      integer(c_size_t), value :: len
      integer(c_int), value :: prot, flags, fd
      integer(c_long), value :: off
      type(c_ptr) :: c_mmap
    end function
    function c_msync(at, len, flags) bind(c, name="msync")
      import
      type(c_ptr), value :: at
      integer(c_size_t), value :: len
      integer(c_int), value :: flags
      integer(c_int) :: c_msync
    end function
    function c_munmap(at, len) bind(c, name="munmap")
      import
      type(c_ptr), value :: at
      integer(c_size_t), value :: len
      integer(c_int) :: c_munmap
    end function
  end interface

  integer(c_int), parameter :: try = 2, sync = 4
  character(len=1024) :: own, operation, dir, extra
  integer :: status, i

  call get_command_argument(0, own)
  call get_command_argument(1, operation)
  call get_command_argument(2, dir)
  call get_command_argument(3, extra)
  if (extra /= "") open(unit=6, file=in_dir("printed"), status="replace")

  select case (operation)
  case ("read")
    call read_file
  case ("write")
    open(unit=10, file=in_dir("new"), status="new")
    do i = 0, 1999
      write(10, '("line ", i0)') i
    end do
    close(10)
    print '(a)', "written"
  case ("list")
    call run("ls " // trim(dir))
  case ("stat")
    call ask("in", .true.)
    call ask("none", .false.)
  case ("append")
    open(unit=10, file=in_dir("log"), position="append", status="old")
    write(10, '(a)') "second", "third"
    close(10)
    print '(a)', "appended"
  case ("rename")
    call rename(in_dir("old"), in_dir("moved"), status)
    if (status /= 0) error stop "rename"
    call ask("old", .false.)
  case ("mmap")
    call map("in", .false.)
  case ("share")
    call map("map", .true.)
  case ("exec")
    call run("cat " // in_dir("log"))
  case ("lock")
    if (.not. locked()) error stop "lock"
    call run(trim(own) // " trylock " // trim(dir))
  case ("trylock")
    print '(a)', merge("free", "held", locked())
  case ("print")
    do i = 0, 2
      print '("printed ", i0)', i
    end do
  case default
    error stop "no such operation"
  end select

contains

  function in_dir(name) result(path)
    character(len=*), intent(in) :: name
    character(len=:), allocatable :: path
    path = trim(dir) // "/" // name
  end function

  subroutine read_file
    character(len=200) :: line
    integer :: lines, total, k
    lines = 0
    total = 0
    open(unit=10, file=in_dir("in"), status="old", action="read")
    do
      read(10, '(a)', end=9) line
      lines = lines + 1
      total = total + 10
      do k = 1, len_trim(line)
        total = total + iachar(line(k:k))
      end do
    end do
9   close(10)
    print '("lines ", i0, " sum ", i0)', lines, total
  end subroutine

  subroutine ask(name, with_size)
    character(len=*), intent(in) :: name
    logical, intent(in) :: with_size
    logical :: exists
    integer :: bytes
    inquire(file=in_dir(name), exist=exists, size=bytes)
    if (with_size) then
      print '("size ", i0)', bytes
    else
      print '(a, 1x, a)', name, merge("exists ", "missing", exists)
    end if
  end subroutine

  subroutine run(command)
    character(len=*), intent(in) :: command
    integer :: code
    flush(6)
    call execute_command_line(command, exitstat=code)
    if (code /= 0) error stop "the command failed"
  end subroutine

  function open_fd(name, mode) result(fd)
    character(len=*), intent(in) :: name, mode
    integer(c_int) :: fd
    type(c_ptr) :: stream
    stream = c_fopen(in_dir(name) // c_null_char, mode // c_null_char)
    if (.not. c_associated(stream)) error stop "fopen"
    fd = c_fileno(stream)
  end function

  function locked() result(yes)
    logical :: yes
    yes = c_lockf(open_fd("log", "r+"), try, 0_c_long) == 0
  end function

  subroutine map(name, shared)
    character(len=*), intent(in) :: name
    logical, intent(in) :: shared
    integer(c_signed_char), pointer :: bytes(:)
    character(len=6), parameter :: text = "mapped"
    integer(c_size_t) :: len
    integer :: n, k
    type(c_ptr) :: at
    inquire(file=in_dir(name), size=n)
    len = int(n, c_size_t)
    if (shared) then
      at = c_mmap(c_null_ptr, len, 3_c_int, 1_c_int, open_fd(name, "r+"), 0_c_long)
    else
      at = c_mmap(c_null_ptr, len, 1_c_int, 2_c_int, open_fd(name, "r"), 0_c_long)
    end if
    if (transfer(at, 0_c_intptr_t) == -1) error stop "mmap"
    call c_f_pointer(at, bytes, [n])
    if (.not. shared) then
      print '("sum ", i0)', sum(iand(int(bytes), 255))
      return
    end if
    do k = 1, 6
      bytes(k) = int(iachar(text(k:k)), c_signed_char)
    end do
    if (c_msync(at, len, sync) /= 0) error stop "msync"
    if (c_munmap(at, len) /= 0) error stop "munmap"
    print '(a)', "mapped"
  end subroutine
end program
