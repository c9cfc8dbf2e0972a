/* SPDX-License-Identifier: MIT
 *
 * A pool of threads under a limit on memory: each has served some requests, one after the other, and sleeps. What they have
 * cached must be so little that nothing was refused, and most of the limit is left.
 *
 * usage: sleepers THREADS MIB */
#include "ours.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ROUNDS = 50, BLOCKS = 8, SIZE_MOST = 32000, STACK = 64 << 10 };

static pthread_barrier_t asleep;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int refused;

static void *serve_and_sleep(void *argument)
{
  unsigned seed = (unsigned)(size_t)argument * 7919 + 1;
  void *blocks[BLOCKS];
  pthread_mutex_lock(&turn);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      seed = seed * 1103515245 + 12345;
      size_t size = 16 + (seed >> 8) % SIZE_MOST;
      blocks[i] = malloc(size);
      refused += !blocks[i];
      if (blocks[i])
        memset(blocks[i], 1, size);
    }
    for (int i = 0; i < BLOCKS; i++)
      free(blocks[i]);
  }
  pthread_mutex_unlock(&turn);
  pthread_barrier_wait(&asleep);
  pause();
  return NULL;
}

int main(int argc, char **argv)
{
  if (argc != 3)
    return 2;
  size_t threads = strtoul(argv[1], NULL, 10), limit = strtoul(argv[2], NULL, 10) << 20, left = 0;
  pthread_attr_t attributes;
  pthread_t thread;
  setrlimit(RLIMIT_DATA, &(struct rlimit){limit, limit});
  pthread_barrier_init(&asleep, NULL, (unsigned)threads + 1);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK);
  for (size_t i = 0; i < threads; i++)
    if (pthread_create(&thread, &attributes, serve_and_sleep, (void *)i) != 0)
      return 2;
  pthread_barrier_wait(&asleep);
  while (malloc(10000))
    left += 10000;
  printf("%d refused, %zu MiB of %zu left\n", refused, left >> 20, limit >> 20);
  return refused || left < limit / 8 * 5;
}
