/* SPDX-License-Identifier: MIT
 *
 * A thread opens libtidepool, and another one forks while the library's constructor makes its key. The child must be able to
 * allocate.
 *
 * usage: fork_while_loading libtidepool.so */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STUCK_SECONDS = 600, FORK_MS = 500 };
static bool in_key, forked;
static const char *library;

/* Instead of the C library's, which the constructor calls. The first call lasts until there is a child, or until the fork has
 * had time to begin: it may wait for the constructor. */
int pthread_key_create(pthread_key_t *key, void (*at_end)(void *))
{
  int (*create)(pthread_key_t *, void (*)(void *)) = NULL;
  *(void **)&create = dlsym(RTLD_NEXT, "pthread_key_create");
  __atomic_store_n(&in_key, true, __ATOMIC_RELEASE);
  for (int i = 0; i < FORK_MS && !__atomic_load_n(&forked, __ATOMIC_ACQUIRE); i++)
    usleep(1000);
  __atomic_store_n(&forked, true, __ATOMIC_RELEASE);
  return create(key, at_end);
}

static void *load(void *argument) { return dlopen(library, RTLD_NOW | RTLD_GLOBAL) ? argument : NULL; }

static int allocate_in_child(void)
{
  alarm(STUCK_SECONDS);
  void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL), *(*allocate)(size_t) = NULL;
  if (handle)
    *(void **)&allocate = dlsym(handle, "tidepool_alloc");
  return allocate && allocate(100) ? 0 : 1;
}

int main(int argc, char **argv)
{
  pthread_t thread;
  library = argc > 1 ? argv[1] : "";
  if (pthread_create(&thread, NULL, load, argv) != 0)
    return 1;
  for (int i = 0; i < STUCK_SECONDS * 1000 && !__atomic_load_n(&in_key, __ATOMIC_ACQUIRE); i++)
    usleep(1000);
  pid_t child = fork();
  if (child == 0)
    _exit(allocate_in_child());
  __atomic_store_n(&forked, true, __ATOMIC_RELEASE);
  int status = -1;
  void *loaded = NULL;
  waitpid(child, &status, 0);
  pthread_join(thread, &loaded);
  if (!in_key || !loaded || status != 0)
    fprintf(stderr, "in the constructor: %d, loaded: %d, the child ended with %x\n", in_key, loaded != NULL, status);
  return !in_key || !loaded || status != 0;
}
