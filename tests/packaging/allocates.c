/* SPDX-License-Identifier: MIT
 * A program that allocates: itself, in a thread, in the C library, and in the child of a fork. It has functions of its own with
 * names that the library uses inside, and asks for the rarer names of malloc, each of which the C library may have only
 * together with a malloc. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern int settings, default_heap;
int settings = 1, default_heap = 2;
int lock_acquire(void);
int lock_acquire(void) { return settings + default_heap; }
const char *pool_version(void);
const char *pool_version(void) { return "mine"; }

#define MUST(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "allocates.c:%d: not %s\n", __LINE__, #condition); \
      exit(1); \
    } \
  } while (0)

static void *in_a_thread(void *size)
{
  char *block = calloc((size_t)size, 2);
  MUST(block && block[0] == 0);
  return realloc(block, (size_t)size * 100);
}

static void rare_names(void)
{
  void *block = NULL;
  MUST(posix_memalign(&block, 4096, 100) == 0 && (uintptr_t)block % 4096 == 0);
  MUST(malloc_usable_size(block) >= 100);
  free(block);
  void *(*const aligned[])(size_t, size_t) = {memalign, aligned_alloc};
  for (size_t i = 0; i < 2; i++) {
    block = aligned[i](256, 512);
    MUST(block && (uintptr_t)block % 256 == 0);
    free(block);
  }
  free(valloc(1));
  free(pvalloc(1));
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
  malloc_trim(0);
  MUST(mallinfo2().uordblks > 0);
}

static void in_the_c_library(void)
{
  char *text = NULL;
  size_t length = 0;
  FILE *file = open_memstream(&text, &length);
  MUST(file && fprintf(file, "%s", "text") == 4 && fclose(file) == 0 && strcmp(text, "text") == 0);
  free(text);
}

int main(void)
{
  pthread_t thread;
  void *block;
  int status;
  MUST(pthread_create(&thread, NULL, in_a_thread, (void *)100) == 0 && pthread_join(thread, &block) == 0);
  free(block);
  rare_names();
  in_the_c_library();
  pid_t child = fork();
  if (child == 0) {
    free(malloc(100000));
    _exit(0);
  }
  MUST(waitpid(child, &status, 0) == child && status == 0);
  volatile size_t too_much = PTRDIFF_MAX;
  MUST(malloc(too_much) == NULL && errno == ENOMEM);
  printf("%d %s\n", lock_acquire(), pool_version());
  return 0;
}
