/* SPDX-License-Identifier: MIT
 *
 * Many threads of a short life ask about each block as soon as they have it: it is live, whoever gives magazines away at that
 * moment, or has just had the block in one. Meanwhile the process forks, and its children ask the same of what they allocate:
 * what the threads were about is as it was for ever there.
 *
 * usage: lives SECONDS THREADS */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tidepool/pool.h>
#include <time.h>
#include <unistd.h>

/* A process of the thread sanitizer that forks has a child which knows of one thread. */
#ifdef __SANITIZE_THREAD__
enum { FORKS = 0 };
#else
enum { FORKS = 1 };
#endif

enum { CLASSES = 8, BLOCKS = 12, ROUNDS = 6, CHILD_BLOCKS = 400, THREADS_MOST = 64 };

static atomic_bool stops;
static atomic_ulong asked, wrong;

static size_t size_of(unsigned c) { return 16 * (size_t)(1 + c % CLASSES); }

static void ask(char *block, size_t size)
{
  if (!block)
    abort();
  *(volatile char *)block = 1;
  if (!pool_in_use(block) || pool_block_start(block + size - 1, NULL) != block)
    atomic_fetch_add(&wrong, 1);
  atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed);
}

static void *live(void *argument)
{
  unsigned first = (unsigned)(uintptr_t)argument;
  for (unsigned round = 0; round < ROUNDS; round++)
    for (unsigned c = 0; c < CLASSES; c++) {
      char *blocks[BLOCKS];
      size_t size = size_of(first + c);
      for (unsigned i = 0; i < BLOCKS; i++)
        ask(blocks[i] = pool_alloc(size), size);
      for (unsigned i = 0; i < BLOCKS; i++)
        pool_free(blocks[i]);
    }
  return NULL;
}

/* One life after the other. */
static void *go_on(void *argument)
{
  for (uintptr_t n = (uintptr_t)argument; !stops; n++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, live, (void *)n))
      abort();
    pthread_join(thread, NULL);
  }
  return NULL;
}

static void fork_once(void)
{
  pid_t child = fork();
  if (!child) {
    atomic_store(&wrong, 0);
    for (unsigned i = 0; i < CLASSES * CHILD_BLOCKS; i++)
      ask(pool_alloc(size_of(i / CHILD_BLOCKS)), size_of(i / CHILD_BLOCKS));
    _exit(wrong != 0);
  }
  int status = 0;
  if (child > 0 && (waitpid(child, &status, 0) != child || status))
    atomic_fetch_add(&wrong, 1);
}

int main(int count, char **arguments)
{
  if (count != 3)
    return 2;
  double seconds = atof(arguments[1]);
  unsigned threads = (unsigned)atoi(arguments[2]);
  pthread_t thread[THREADS_MOST];
  for (unsigned i = 0; i < threads && i < THREADS_MOST; i++)
    if (pthread_create(&thread[i], NULL, go_on, (void *)(uintptr_t)(i * 1000003u)))
      return 2;
  unsigned long forks = 0;
  struct timespec now, start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    if (FORKS)
      fork_once(), forks++;
    else
      usleep(10000);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (!wrong && (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9 < seconds);
  stops = true;
  for (unsigned i = 0; i < threads && i < THREADS_MOST; i++)
    pthread_join(thread[i], NULL);
  printf("%lu blocks asked about, %lu forks, %lu wrong\n", asked, forks, wrong);
  return wrong ? 1 : 0;
}
