/* SPDX-License-Identifier: MIT */
#include "any_kernel.h"

kernel_t kernel;

void all_new(void)
{
  kernel = (kernel_t){.address_space = RLIM_INFINITY, .data = RLIM_INFINITY};
  errno = ERRNO_BEFORE;
}

bool errno_is_kept(void) { return errno == ERRNO_BEFORE; }

static int failed(int error)
{
  errno = error;
  return -1;
}

void *kernel_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
  kernel.mmaps++;
  must(!(flags & MAP_FIXED) || kernel.may_map_over);
  if (kernel.mmap)
    return failed(kernel.mmap), MAP_FAILED;
  if (kernel.writable_most && protection & PROT_WRITE && size > kernel.writable_most)
    return failed(ENOMEM), MAP_FAILED;
  if (kernel.next_mapping)
    return kernel.next_mapping;
  return mmap(address, size, protection, kernel.address_is_a_hint ? flags & ~MAP_FIXED_NOREPLACE : flags, file, offset);
}

int kernel_munmap(void *address, size_t size)
{
  kernel.munmaps++;
  return kernel.munmap ? failed(kernel.munmap) : kernel.next_mapping ? 0 : munmap(address, size);
}

void *kernel_mremap(void *address, size_t size, size_t new_size, int flags, ...)
{
  kernel.mremaps++;
  kernel.remap_flags = flags;
  return kernel.mremap ? (failed(kernel.mremap), MAP_FAILED) : mremap(address, size, new_size, flags);
}

int kernel_mprotect(void *address, size_t size, int protection)
{
  return kernel.mprotect ? failed(kernel.mprotect) : mprotect(address, size, protection);
}

int kernel_madvise(void *address, size_t size, int advice)
{
  int error = advice == MADV_DONTNEED          ? kernel.dontneed
              : advice == MADV_DONTNEED_LOCKED ? kernel.dontneed_locked
              : advice == MADV_POPULATE_WRITE  ? kernel.populate
                                               : kernel.huge_pages;
  kernel.advices++;
  if (error)
    return failed(error);
  /* Where this kernel is the one that does not know it. */
  if (madvise(address, size, advice) != 0 && advice == MADV_DONTNEED_LOCKED)
    return madvise(address, size, MADV_DONTNEED);
  return 0;
}

int kernel_mlock(const void *address, size_t size)
{
  return (void)address, (void)size, kernel.mlock ? failed(kernel.mlock) : 0;
}
int kernel_munlock(const void *address, size_t size)
{
  return (void)address, (void)size, kernel.munlock ? failed(kernel.munlock) : 0;
}
static long prlimit_answer(int resource, struct rlimit *limit)
{
  if (kernel.prlimit)
    return failed(kernel.prlimit);
  *limit = (struct rlimit){.rlim_cur = resource == RLIMIT_AS ? kernel.address_space : kernel.data, .rlim_max = RLIM_INFINITY};
  return 0;
}

int kernel_getrlimit(int resource, struct rlimit *limit)
{
  bool is_memory = resource == RLIMIT_AS || resource == RLIMIT_DATA;
  return is_memory ? (int)prlimit_answer(resource, limit) : getrlimit(resource, limit);
}

ssize_t kernel_write(int file, const void *bytes, size_t size)
{
  kernel.writes++;
  if (kernel.interruptions) {
    kernel.interruptions--;
    return failed(EINTR);
  }
  if (kernel.write)
    return failed(kernel.write);
  return write(file, bytes, kernel.write_most ? min_size(size, kernel.write_most) : size);
}

long kernel_syscall(long number, ...)
{
  long a[6];
  va_list list;
  va_start(list, number);
  for (size_t i = 0; i < 6; i++)
    a[i] = va_arg(list, long);
  va_end(list);
  int error = number == SYS_getrandom    ? kernel.getrandom
              : number == SYS_membarrier ? kernel.membarrier
              : number == SYS_futex      ? kernel.futex
              : number == SYS_sysinfo    ? kernel.sysinfo
              : number == SYS_prctl      ? kernel.prctl
                                         : 0;
  if (number == SYS_prctl) { /* this kernel may know no names */
    kernel.names++;
    strncpy(kernel.name, (const char *)a[4], sizeof kernel.name - 1);
    errno = error ? error : errno;
    return error ? -1 : 0;
  }
  if (number == SYS_write)
    return kernel_write((int)a[0], (const void *)a[1], (size_t)a[2]);
  if (number == SYS_openat && kernel.file)
    a[1] = (long)kernel.file;
  if (number == SYS_prlimit64)
    return prlimit_answer((int)a[1], (struct rlimit *)a[3]);
  if (number == SYS_futex)
    __atomic_store_n(&kernel.futex_operation, (int)a[1], __ATOMIC_RELAXED);
  if (number == SYS_futex && a[3])
    kernel.timed_waits++;
  if (number == SYS_getrandom && kernel.random && !error && (size_t)a[1] <= sizeof kernel.random)
    return memcpy((void *)a[0], &kernel.random, (size_t)a[1]), a[1];
  return error ? failed(error) : syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int kernel_clock_gettime(clockid_t clock, struct timespec *time)
{
  if (kernel.clock)
    return failed(kernel.clock);
  int result = clock_gettime(clock, time);
  time->tv_sec += kernel.later;
  return result;
}

unsigned long kernel_getauxval(unsigned long type)
{
  if (type == 27 /* AT_RSEQ_FEATURE_SIZE */ && !kernel.rseq_has_node)
    return 0;
  if (kernel.no_auxiliary_vector && type != AT_PAGESZ)
    return (unsigned long)failed(ENOENT) + 1;
  return getauxval(type);
}

int kernel_pthread_key_create(pthread_key_t *key, void (*at_exit)(void *))
{
  int error = kernel.key ? kernel.key : pthread_key_create(key, at_exit);
  if (!error && ++kernel.keys > kernel.keys_most)
    kernel.keys_most = kernel.keys;
  return error;
}
int kernel_pthread_key_delete(pthread_key_t key)
{
  kernel.keys--;
  return pthread_key_delete(key);
}
int kernel_pthread_setspecific(pthread_key_t key, const void *value)
{
  return kernel.setspecific ? kernel.setspecific : pthread_setspecific(key, value);
}
int kernel_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
  return kernel.atfork ? kernel.atfork : pthread_atfork(prepare, parent, child);
}

#ifdef __GLIBC__
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);

int kernel_register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library)
{
  return kernel.atfork ? kernel.atfork : __register_atfork(prepare, parent, child, library);
}
#endif

int kernel_sched_getaffinity(pid_t process, size_t size, cpu_set_t *set)
{
  if (!kernel.processors)
    return sched_getaffinity(process, size, set);
  CPU_ZERO_S(size, set);
  for (int i = 0; i < kernel.processors; i++)
    CPU_SET_S(i, size, set);
  return 0;
}

int kernel_getcpu(unsigned *processor, unsigned *node)
{
  *processor = 0;
  *node = kernel.node;
  errno = kernel.getcpu ? kernel.getcpu : errno;
  return kernel.getcpu ? -1 : 0;
}

bool is_readable(const void *page)
{
  int ends[2], saved = errno;
  must(pipe(ends) == 0);
  bool readable = write(ends[1], page, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  errno = saved;
  return readable;
}

bool is_mapped(const void *page)
{
  unsigned char there;
  int saved = errno;
  bool mapped = mincore((void *)(uintptr_t)page, 1, &there) == 0;
  errno = saved;
  return mapped;
}

char *some_pages(void)
{
  char *p = mmap(NULL, SOME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must(p != MAP_FAILED);
  all_new();
  return p;
}

char *free_addresses(void)
{
  char *p = mmap(NULL, 3 * SOME, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  must(p != MAP_FAILED && munmap(p + SOME, SOME) == 0);
  all_new();
  return p + SOME;
}

char order[20];
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));

/* The C library's own, where it has them. */
void kernel_IO_list_lock(void)
{
  strcat(order, "l");
  if (_IO_list_lock)
    _IO_list_lock();
}

void kernel_IO_list_unlock(void)
{
  strcat(order, "u");
  if (_IO_list_unlock)
    _IO_list_unlock();
}
