/* SPDX-License-Identifier: MIT
 *
 * A program whose malloc is the library's, linked statically with it or with it preloaded: what it allocates itself and what
 * the C library allocates for it, in threads, and in a child after a fork that meets them in the middle. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 2000, BLOCKS = 64, FORKS = 50 };

static void check(int good, const char *what)
{
  if (good)
    return;
  fprintf(stderr, "wrong: %s\n", what);
  _exit(1);
}

static void exchange(unsigned char **block, unsigned number)
{
  check(!*block || **block == (unsigned char)(uintptr_t)block, "the contents of a block");
  *block = number % 3 ? realloc(*block, 1 + number * 97 % 40000) : (free(*block), calloc(1 + number % 300, 3));
  check(*block && malloc_usable_size(*block) > 0 && (uintptr_t)*block % 16 == 0, "a block");
  **block = (unsigned char)(uintptr_t)block;
}

static void *allocate(void *context)
{
  unsigned char *blocks[BLOCKS] = {0};
  for (unsigned i = 0; i < ROUNDS; i++)
    exchange(&blocks[i * 31 % BLOCKS], i);
  for (unsigned i = 0; i < BLOCKS; i++)
    free(blocks[i]);
  return context;
}

static void use_alignments(void)
{
  for (size_t alignment = 16; alignment <= 1 << 20; alignment *= 2) {
    void *block = NULL, *second = aligned_alloc(alignment, alignment);
    check(posix_memalign(&block, alignment, 100) == 0 && (uintptr_t)block % alignment == 0, "posix_memalign");
    check(second && (uintptr_t)second % alignment == 0, "aligned_alloc");
    free(block);
    free(second);
  }
}

/* Streams, lines and copies of the C library's are blocks of malloc, and are freed as such. */
static void use_the_c_library(void)
{
  char *line = NULL, *copy;
  size_t size = 0;
  FILE *file = tmpfile();
  check(file && fprintf(file, "%s\n", "a line") == 7 && fseek(file, 0, SEEK_SET) == 0, "a stream");
  check(getline(&line, &size, file) == 7, "getline");
  check((copy = strdup(line)) && !strcmp(copy, "a line\n") && malloc_usable_size(copy) >= 8, "strdup");
  fclose(file);
  free(line);
  free(copy);
}

static void fork_meanwhile(void)
{
  for (int i = 0, status; i < FORKS; i++) {
    pid_t child = fork();
    if (child == 0) {
      allocate(NULL);
      _exit(7);
    }
    check(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child");
  }
}

int main(void)
{
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    check(pthread_create(&threads[i], NULL, allocate, NULL) == 0, "pthread_create");
  fork_meanwhile();
  for (int i = 0; i < THREADS; i++)
    check(pthread_join(threads[i], NULL) == 0, "pthread_join");
  use_alignments();
  use_the_c_library();
  check(malloc(SIZE_MAX) == NULL, "a request for everything");
  return 0;
}
