/* SPDX-License-Identifier: MIT
 *
 * What is held where nothing goes on: by a program that has allocated 100 bytes (without an argument), and by threads that have
 * used 200 blocks each and freed them ("threads"). Says it in KiB, the second for each thread. */
#include "testing.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

enum { THREADS = 200, BLOCKS = 200, SIZE_LEAST = 16, SIZES = 500, STACK_BYTES = 256 << 10 };
static sem_t done;

static void *use_a_little(void *seed)
{
  uint32_t number = (uint32_t)(uintptr_t)seed;
  char *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    number = number * 1664525 + 1013904223;
    size_t size = SIZE_LEAST + (number >> 8) % SIZES;
    blocks[i] = malloc(size);
    memset(blocks[i], 1, size);
  }
  for (size_t i = 0; i < BLOCKS; i++)
    free(blocks[i]);
  sem_post(&done);
  for (;;)
    pause();
  return NULL;
}

/* One begins when the one before has done its work. */
static size_t held_by_each(void)
{
  pthread_attr_t attributes;
  pthread_t thread;
  sem_init(&done, 0, 0);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  size_t before = held_bytes();
  for (uintptr_t i = 1; i <= THREADS; i++) {
    assert_int_equal(pthread_create(&thread, &attributes, use_a_little, (void *)i), 0);
    while (sem_wait(&done) != 0)
      continue;
  }
  return (held_bytes() - before) / THREADS;
}

int main(int count, char **arguments)
{
  bool threads = count > 1 && !strcmp(arguments[1], "threads");
  void *volatile block = malloc(100);
  memset(block, 1, 100);
  size_t bytes = threads ? held_by_each() : held_bytes();
  char text[40];
  int length = snprintf(text, sizeof text, "%zu\n", bytes / KIB);
  return write(STDOUT_FILENO, text, (size_t)length) != length;
}
