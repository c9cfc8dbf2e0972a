/* SPDX-License-Identifier: MIT
 *
 * Included before all else when the files of os/ are compiled for the tests of them: what they ask of the C library and the
 * kernel goes to functions of any_kernel.c, which do as old kernels do, or as ones that refuse. */
#ifndef UNIT_KERNEL_H
#define UNIT_KERNEL_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void *kernel_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int kernel_munmap(void *address, size_t size);
void *kernel_mremap(void *address, size_t size, size_t new_size, int flags, ...);
int kernel_mprotect(void *address, size_t size, int protection);
int kernel_madvise(void *address, size_t size, int advice);
int kernel_mlock(const void *address, size_t size);
int kernel_munlock(const void *address, size_t size);
long kernel_syscall(long number, ...);
ssize_t kernel_write(int file, const void *bytes, size_t size);
int kernel_getrlimit(int resource, struct rlimit *limit);
int kernel_clock_gettime(clockid_t clock, struct timespec *time);
unsigned long kernel_getauxval(unsigned long type);
int kernel_pthread_key_create(pthread_key_t *key, void (*at_exit)(void *));
int kernel_pthread_key_delete(pthread_key_t key);
int kernel_pthread_setspecific(pthread_key_t key, const void *value);
int kernel_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int kernel_register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
int kernel_sched_getaffinity(pid_t process, size_t size, cpu_set_t *set);
int kernel_getcpu(unsigned *processor, unsigned *node);
void kernel_IO_list_lock(void);
void kernel_IO_list_unlock(void);

#ifndef KERNEL_ITSELF
#define mmap                kernel_mmap
#define munmap              kernel_munmap
#define mremap              kernel_mremap
#define mprotect            kernel_mprotect
#define madvise             kernel_madvise
#define mlock               kernel_mlock
#define munlock             kernel_munlock
#define syscall(...)        kernel_syscall(__VA_ARGS__, 0L, 0L, 0L, 0L, 0L, 0L) /* six are read, however many are given */
#define write(...)          kernel_write(__VA_ARGS__)
#define getrlimit           kernel_getrlimit
#define clock_gettime       kernel_clock_gettime
#define getauxval           kernel_getauxval
#define pthread_key_create  kernel_pthread_key_create
#define pthread_key_delete  kernel_pthread_key_delete
#define pthread_setspecific kernel_pthread_setspecific
#define pthread_atfork      kernel_pthread_atfork
#define __register_atfork   kernel_register_atfork
#define sched_getaffinity   kernel_sched_getaffinity
#define getcpu              kernel_getcpu
#define _IO_list_lock       kernel_IO_list_lock
#define _IO_list_unlock     kernel_IO_list_unlock
#endif

#endif
