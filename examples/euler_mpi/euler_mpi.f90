! SPDX-License-Identifier: BSD-3-Clause
!
! Linearised Euler equations on a structured grid: a pulse of pressure in a uniform flow, with MPI.
!
!   euler_mpi NAMELIST DIRECTORY
!
! Written in plain Fortran and MPI; it knows nothing of Amphora.  The square is periodic in x and y, and each
! rank has a band of rows.  Space: central differences of fourth order; time: Runge-Kutta of fourth order.
! Lengths are in units of the square's side, velocities in units of the speed of sound.  Each rank writes files
! of its own into DIRECTORY:
!
!   scalar.STEP.RANK    pressure and density         (stream)
!   vector.STEP.RANK    the two velocities           (stream)
!   restart.STEP.RANK   everything, to start again   (sequential, unformatted)
!
! and rank 0 also energy.txt (formatted, appended to) and pressure.ppm, a picture of the last step.
program euler_mpi
  use mpi
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  implicit none

  integer, parameter :: halo = 2, fields = 4
  integer, parameter :: p = 1, rho = 2, u = 3, v = 4

  integer :: nx = 96, ny = 96, steps = 40, every = 10, restart_every = 20, restart_from = 0
  real(real64) :: cfl = 0.8_real64, mach = 0.3_real64, width = 0.05_real64
  namelist /euler/ nx, ny, steps, every, restart_every, restart_from, cfl, mach, width

  integer :: rank, ranks, error, rows, first, step, below, above
  real(real64) :: h, dt
  real(real64), allocatable :: now(:, :, :), stage(:, :, :), change(:, :, :), sum_of(:, :, :)
  character(len=4096) :: settings, directory

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call read_settings()

  ! The rows of this rank, and its neighbours in the ring.
  rows = ny / ranks + merge(1, 0, rank < mod(ny, ranks))
  first = rank * (ny / ranks) + min(rank, mod(ny, ranks))
  below = mod(rank + ranks - 1, ranks)
  above = mod(rank + 1, ranks)
  if (ny / ranks < halo) call stop_all('each rank needs two rows or more; give fewer ranks or a larger ny')

  h = 1.0_real64 / nx
  dt = cfl * h / (1.0_real64 + mach)
  allocate (now(1 - halo:nx + halo, 1 - halo:rows + halo, fields))
  allocate (stage, change, sum_of, mold=now)

  if (restart_from > 0) then
    call read_restart(restart_from)
  else
    call set_pulse()
    call write_energy(0, 'replace')
  end if

  do step = restart_from + 1, steps
    call advance()
    if (mod(step, every) == 0) then
      call write_fields(step)
      call write_energy(step, 'unknown')
    end if
    if (mod(step, restart_every) == 0) call write_restart(step)
  end do

  call write_picture()
  call MPI_Finalize(error)

contains

  ! Ends all ranks after one sentence.
  subroutine stop_all(sentence)
    character(len=*), intent(in) :: sentence

    write (error_unit, '(a, i0, 2a)') 'euler_mpi: rank ', rank, ': ', sentence
    call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine stop_all

  subroutine check(status, what, file)
    integer, intent(in) :: status
    character(len=*), intent(in) :: what, file

    if (status /= 0) call stop_all(trim(file)//' cannot be '//what)
  end subroutine check

  subroutine read_settings()
    integer :: unit, status

    if (command_argument_count() /= 2) call stop_all('usage: euler_mpi NAMELIST DIRECTORY')
    call get_command_argument(1, settings)
    call get_command_argument(2, directory)

    open (newunit=unit, file=trim(settings), status='old', action='read', iostat=status)
    call check(status, 'opened', settings)
    read (unit, nml=euler, iostat=status)
    call check(status, 'read: is there a namelist &euler in it?', settings)
    close (unit)

    if (nx < 2 * halo .or. ny < 2 * halo .or. every < 1 .or. restart_every < 1 .or. cfl <= 0) &
      call stop_all(trim(settings)//': nx and ny must be at least 4, the intervals at least 1, cfl positive')
  end subroutine read_settings

  ! The name of a rank's own file.
  function file_of(kind, at) result(name)
    character(len=*), intent(in) :: kind
    integer, intent(in) :: at
    character(len=:), allocatable :: name
    character(len=32) :: suffix

    write (suffix, '(".", i6.6, ".", i4.4)') at, rank
    name = trim(directory)//'/'//kind//trim(suffix)
  end function file_of

  subroutine set_pulse()
    integer :: i, j
    real(real64) :: r2

    now = 0
    do j = 1, rows
      do i = 1, nx
        r2 = ((i - 0.5_real64) * h - 0.4_real64)**2 + ((first + j - 0.5_real64) / ny - 0.5_real64)**2
        now(i, j, p) = exp(-r2 / width**2)
        now(i, j, rho) = now(i, j, p)
      end do
    end do
  end subroutine set_pulse

  ! ---- numerics ----

  ! Fills the two rows and columns around the band.
  subroutine exchange(f)
    real(real64), intent(inout) :: f(1 - halo:, 1 - halo:, :)
    real(real64) :: out(nx, halo, fields), in(nx, halo, fields)

    out = f(1:nx, rows - halo + 1:rows, :)
    call MPI_Sendrecv(out, size(out), MPI_DOUBLE_PRECISION, above, 1, in, size(in), MPI_DOUBLE_PRECISION, &
                      below, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    f(1:nx, 1 - halo:0, :) = in

    out = f(1:nx, 1:halo, :)
    call MPI_Sendrecv(out, size(out), MPI_DOUBLE_PRECISION, below, 2, in, size(in), MPI_DOUBLE_PRECISION, &
                      above, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    f(1:nx, rows + 1:rows + halo, :) = in

    f(1 - halo:0, :, :) = f(nx - halo + 1:nx, :, :)
    f(nx + 1:nx + halo, :, :) = f(1:halo, :, :)
  end subroutine exchange

  ! The change in time of each field.
  subroutine rate(f, r)
    real(real64), intent(inout) :: f(1 - halo:, 1 - halo:, :)
    real(real64), intent(out) :: r(1 - halo:, 1 - halo:, :)
    real(real64) :: divergence
    integer :: i, j

    call exchange(f)
    r = 0
    do j = 1, rows
      do i = 1, nx
        divergence = along_x(f, i, j, u) + along_y(f, i, j, v)
        r(i, j, p) = -mach * along_x(f, i, j, p) - divergence
        r(i, j, rho) = -mach * along_x(f, i, j, rho) - divergence
        r(i, j, u) = -mach * along_x(f, i, j, u) - along_x(f, i, j, p)
        r(i, j, v) = -mach * along_x(f, i, j, v) - along_y(f, i, j, p)
      end do
    end do
  end subroutine rate

  pure real(real64) function along_x(f, i, j, k)
    real(real64), intent(in) :: f(1 - halo:, 1 - halo:, :)
    integer, intent(in) :: i, j, k

    along_x = (8 * (f(i + 1, j, k) - f(i - 1, j, k)) - (f(i + 2, j, k) - f(i - 2, j, k))) / (12 * h)
  end function along_x

  pure real(real64) function along_y(f, i, j, k)
    real(real64), intent(in) :: f(1 - halo:, 1 - halo:, :)
    integer, intent(in) :: i, j, k

    along_y = (8 * (f(i, j + 1, k) - f(i, j - 1, k)) - (f(i, j + 2, k) - f(i, j - 2, k))) * ny / 12
  end function along_y

  subroutine advance()
    real(real64), parameter :: weight(4) = [1, 2, 2, 1] / 6.0_real64
    real(real64), parameter :: forward(4) = [0.5_real64, 0.5_real64, 1.0_real64, 0.0_real64]
    integer :: k

    stage = now
    sum_of = 0
    do k = 1, 4
      call rate(stage, change)
      sum_of = sum_of + weight(k) * change
      stage = now + forward(k) * dt * change
    end do
    now = now + dt * sum_of
  end subroutine advance

  ! ---- files ----

  subroutine write_stream(name, one, two)
    character(len=*), intent(in) :: name
    integer, intent(in) :: one, two
    integer :: unit, status

    open (newunit=unit, file=name, access='stream', form='unformatted', status='replace', action='write', &
          iostat=status)
    call check(status, 'made', name)
    write (unit, iostat=status) nx, rows, first, now(1:nx, 1:rows, one), now(1:nx, 1:rows, two)
    call check(status, 'written', name)
    close (unit, iostat=status)
    call check(status, 'written', name)
  end subroutine write_stream

  subroutine write_fields(at)
    integer, intent(in) :: at

    call write_stream(file_of('scalar', at), p, rho)
    call write_stream(file_of('vector', at), u, v)
  end subroutine write_fields

  subroutine write_restart(at)
    integer, intent(in) :: at
    integer :: unit, status, k

    open (newunit=unit, file=file_of('restart', at), form='unformatted', status='replace', action='write', &
          iostat=status)
    call check(status, 'made', file_of('restart', at))
    write (unit, iostat=status) nx, ny, ranks, at
    do k = 1, fields
      if (status == 0) write (unit, iostat=status) now(1:nx, 1:rows, k)
    end do
    call check(status, 'written', file_of('restart', at))
    close (unit, iostat=status)
    call check(status, 'written', file_of('restart', at))
  end subroutine write_restart

  subroutine read_restart(at)
    integer, intent(in) :: at
    integer :: unit, status, k, was(4)

    now = 0
    open (newunit=unit, file=file_of('restart', at), form='unformatted', status='old', action='read', &
          iostat=status)
    call check(status, 'opened', file_of('restart', at))
    read (unit, iostat=status) was
    call check(status, 'read', file_of('restart', at))
    if (any(was /= [nx, ny, ranks, at])) &
      call stop_all(file_of('restart', at)//' is of another grid or number of ranks')

    do k = 1, fields
      if (status == 0) read (unit, iostat=status) now(1:nx, 1:rows, k)
    end do
    call check(status, 'read', file_of('restart', at))
    close (unit)
  end subroutine read_restart

  ! One line a step.  Rank 0 adds in the order of the ranks, so that the digits are always the same.
  subroutine write_energy(at, status_of_file)
    integer, intent(in) :: at
    character(len=*), intent(in) :: status_of_file
    real(real64) :: mine, all_of(0:ranks - 1)
    integer :: unit, status

    mine = sum(now(1:nx, 1:rows, p)**2 + now(1:nx, 1:rows, u)**2 + now(1:nx, 1:rows, v)**2) / (2.0_real64 * nx * ny)
    call MPI_Gather(mine, 1, MPI_DOUBLE_PRECISION, all_of, 1, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, error)
    if (rank /= 0) return

    open (newunit=unit, file=trim(directory)//'/energy.txt', status=status_of_file, position='append', &
          action='write', iostat=status)
    call check(status, 'opened', 'energy.txt')
    write (unit, '(i6, es24.16)', iostat=status) at, sum(all_of)
    call check(status, 'written', 'energy.txt')
    close (unit, iostat=status)
    call check(status, 'written', 'energy.txt')
    print '(a, i6, a, es24.16)', 'step', at, ', energy', sum(all_of)
  end subroutine write_energy

  ! Blue is low pressure, white none, red high.
  subroutine write_picture()
    real(real64) :: scale, largest
    character(len=1), allocatable :: mine(:, :, :), picture(:, :, :)
    integer, allocatable :: counts(:), starts(:)
    integer :: i, j, unit, status, k
    character(len=32) :: header

    largest = maxval(abs(now(1:nx, 1:rows, p)))
    call MPI_Allreduce(largest, scale, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
    allocate (mine(3, nx, rows))
    do j = 1, rows
      do i = 1, nx
        mine(:, i, j) = colour(now(i, j, p) / max(scale, tiny(scale)))
      end do
    end do

    counts = [(3 * nx * (ny / ranks + merge(1, 0, k < mod(ny, ranks))), k=0, ranks - 1)]
    starts = [(sum(counts(1:k)), k=0, ranks - 1)]
    allocate (picture(3, nx, ny))
    call MPI_Gatherv(mine, size(mine), MPI_CHARACTER, picture, counts, starts, MPI_CHARACTER, 0, MPI_COMM_WORLD, error)
    if (rank /= 0) return

    write (header, '(a, i0, 1x, i0, a)') 'P6 ', nx, ny, ' 255'
    open (newunit=unit, file=trim(directory)//'/pressure.ppm', access='stream', form='unformatted', &
          status='replace', action='write', iostat=status)
    call check(status, 'made', 'pressure.ppm')
    write (unit, iostat=status) trim(header), new_line('a'), picture(:, :, ny:1:-1)
    call check(status, 'written', 'pressure.ppm')
    close (unit, iostat=status)
    call check(status, 'written', 'pressure.ppm')
  end subroutine write_picture

  pure function colour(x) result(rgb)
    real(real64), intent(in) :: x
    character(len=1) :: rgb(3)
    character(len=1) :: faded

    faded = achar_of(1 - abs(x))
    rgb = [merge(achar_of(1.0_real64), faded, x > 0), faded, merge(faded, achar_of(1.0_real64), x > 0)]
  end function colour

  pure character(len=1) function achar_of(x)
    real(real64), intent(in) :: x

    achar_of = char(nint(255 * min(1.0_real64, max(0.0_real64, x))))
  end function achar_of
end program euler_mpi
