/* SPDX-License-Identifier: MIT
 *
 *   unloaded MODULE
 *
 * Threads end after a plug-in was unloaded with the library in it that they have used, and while another one is loaded in its
 * place. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 20, SKIPPED = 77 };
typedef void module_fn(void);

static pthread_barrier_t used, unloaded;

static void die(const char *why)
{
  fprintf(stderr, "unloaded: %s\n", why);
  exit(1);
}

static void *use_and_end(void *use)
{
  module_fn *function;
  memcpy(&function, &use, sizeof function);
  function();
  pthread_barrier_wait(&used);
  pthread_barrier_wait(&unloaded);
  return NULL;
}

int main(int count, char **arguments)
{
  if (count != 2)
    die("the module is missing");
  pthread_barrier_init(&used, NULL, THREADS + 1);
  pthread_barrier_init(&unloaded, NULL, THREADS + 1);
  for (int round = 0; round < ROUNDS; round++) {
    pthread_t threads[THREADS];
    void *module = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    void *use = module ? dlsym(module, "module_use") : NULL;
    if (!use)
      die(dlerror());
    for (int i = 0; i < THREADS; i++)
      if (pthread_create(&threads[i], NULL, use_and_end, use) != 0)
        die("no thread");
    pthread_barrier_wait(&used);
    if (dlclose(module) != 0)
      die(dlerror());
    if (dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD))
      return SKIPPED; /* musl unloads nothing */
    pthread_barrier_wait(&unloaded);
    for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
  }
  return 0;
}
