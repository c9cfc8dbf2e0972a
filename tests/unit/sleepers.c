/* SPDX-License-Identifier: MIT */
#include "sleepers.h"
#include <unistd.h>

_Alignas(4096) char buffer[4 << 20];
pthread_barrier_t all_there;

bool see_block(const pool_block_t *block, void *context)
{
  (void)context;
  return block->start != NULL;
}

void *use_and_end(void *argument)
{
  void *blocks[50];
  (void)argument;
  for (size_t i = 0; i < 50; i++)
    blocks[i] = pool_alloc(50 * i);
  for (size_t i = 0; i < 50; i++)
    pool_free(blocks[i]);
  return NULL;
}

void *sleep_for_ever(void *argument)
{
  (void)argument;
  use_and_end(NULL);
  pthread_barrier_wait(&all_there);
  while (pause() != 0) {}
  return NULL;
}
