/* SPDX-License-Identifier: MIT
 * Threads that allocate ask for the profile by its signal, all at once. The file has to be of one piece then, and
 * of now.
 *
 * usage: profile_signals FILE SIGNAL ROUNDS */
#include "ours.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, BLOCKS = 200, PLACES = 16 };

static const char *path;
static int asked_by, rounds;
static pthread_barrier_t barrier;
static void *blocks[THREADS][BLOCKS];

static void fail(int round, const char *what)
{
  fprintf(stderr, "round %d: %s\n", round, what);
  exit(1);
}

/* Lines of many places, so that the file is longer than one write. */
#define PLACE(n) \
  case n: \
    return malloc(size)
static void *take(int place, size_t size)
{
  switch (place % PLACES) {
    PLACE(0);
    PLACE(1);
    PLACE(2);
    PLACE(3);
    PLACE(4);
    PLACE(5);
    PLACE(6);
    PLACE(7);
    PLACE(8);
    PLACE(9);
    PLACE(10);
    PLACE(11);
    PLACE(12);
    PLACE(13);
    PLACE(14);
  default:
    return malloc(size);
  }
}

/* How many blocks it says that there are live; those of its lines are as many. */
static unsigned long long live_in_file(int round)
{
  unsigned long long total = 0, sum = 0, n;
  char line[4096];
  int heads = 0, ends = 0;
  FILE *file = fopen(path, "r");
  if (!file)
    fail(round, "no file");
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "heap profile: %llu:", &total) == 1)
      heads++;
    else if (!strcmp(line, "MAPPED_LIBRARIES:\n"))
      ends++;
    else if (!ends && line[0] != '\n' && sscanf(line, "%llu:", &n) == 1)
      sum += n;
  }
  fclose(file);
  if (heads != 1 || ends != 1 || sum != total)
    fail(round, "the file is not of one piece");
  return total;
}

static void *work(void *index_)
{
  int index = (int)(size_t)index_;
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < BLOCKS; i++)
      blocks[index][i] = take(i + round, (size_t)(1 + i) * 30);
    pthread_barrier_wait(&barrier);
    raise(asked_by);
    free(malloc(10));
    pthread_barrier_wait(&barrier);
    if (!index && live_in_file(round) < THREADS * BLOCKS)
      fail(round, "the file is of before");
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < BLOCKS; i++) {
      if (i == index * 10)
        raise(asked_by);
      free(blocks[index][i]);
    }
  }
  return NULL;
}

int main(int argument_count, char **arguments)
{
  pthread_t threads[THREADS];
  if (argument_count != 4)
    return 2;
  path = arguments[1];
  asked_by = atoi(arguments[2]);
  rounds = atoi(arguments[3]);
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (size_t i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, work, (void *)i);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
