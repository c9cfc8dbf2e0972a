/* SPDX-License-Identifier: MIT
 *
 * A library with handlers for forks, registered when it is loaded, which is before the program and, for a preloaded library,
 * may be before that. Its lock is held around a fork and around its own work, which allocates: as many libraries do it. */
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *kept[3];

static void allocate(int which)
{
  free(kept[which]);
  kept[which] = malloc((size_t)(which + 1) * 30000);
}

static void before(void)
{
  pthread_mutex_lock(&lock);
  allocate(0);
}

static void in_parent(void)
{
  allocate(1);
  pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
  allocate(2);
  pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch(void)
{
  if (pthread_atfork(before, in_parent, in_child) != 0)
    abort();
}

void early_handlers_work(void);

void early_handlers_work(void)
{
  void *blocks[8];
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < 8; i++)
    blocks[i] = malloc(40000 + i * 7919);
  for (size_t i = 0; i < 8; i++)
    free(blocks[i]);
  pthread_mutex_unlock(&lock);
}
