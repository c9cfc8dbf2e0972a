/* SPDX-License-Identifier: MIT
 *
 * Included before everything else in the library's own sources, where they are compiled for `races`: a pause, mostly none,
 * before each atomic operation of the slow paths and around each call that changes mappings. So what others do falls between
 * any two of them, and the sources stay as they are. A function-like macro is not expanded within itself, and the name alone is
 * what it was. */
#ifndef PAUSES_H
#define PAUSES_H

#include <sys/mman.h>
#include <unistd.h>

void race_pause(void);

/* What is written in assembly where that macro is, is written with atomic operations elsewhere. */
#undef __GCC_ASM_FLAG_OUTPUTS__

#define __atomic_load_n(...)             (race_pause(), __atomic_load_n(__VA_ARGS__))
#define __atomic_store_n(...)            (race_pause(), __atomic_store_n(__VA_ARGS__))
#define __atomic_exchange_n(...)         (race_pause(), __atomic_exchange_n(__VA_ARGS__))
#define __atomic_compare_exchange_n(...) (race_pause(), __atomic_compare_exchange_n(__VA_ARGS__))
#define __atomic_fetch_add(...)          (race_pause(), __atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_sub(...)          (race_pause(), __atomic_fetch_sub(__VA_ARGS__))
#define __atomic_add_fetch(...)          (race_pause(), __atomic_add_fetch(__VA_ARGS__))

#define PAUSE_AROUND(call) \
  (__extension__({ \
    race_pause(); \
    __auto_type result_ = (call); \
    race_pause(); \
    result_; \
  }))
#define mmap(...)    PAUSE_AROUND(mmap(__VA_ARGS__))
#define munmap(...)  PAUSE_AROUND(munmap(__VA_ARGS__))
#define mremap(...)  PAUSE_AROUND(mremap(__VA_ARGS__))
#define madvise(...) PAUSE_AROUND(madvise(__VA_ARGS__))
#define syscall(...) PAUSE_AROUND(syscall(__VA_ARGS__))

#endif
