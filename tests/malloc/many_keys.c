/* SPDX-License-Identifier: MIT
 *
 * A program that takes many thread keys before it allocates for the first time. For values of the first 32 there is room in
 * each thread; for others glibc allocates, and a thread whose first allocation that is must still be known when it ends. */
#include "ours.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/wait.h>

enum { KEYS = 40, WARM = 300, THREADS = 1000, MOST_GROWTH = 2 << 20 };
static pthread_key_t keys[KEYS];

static void *first_for_a_key(void *last)
{
  pthread_setspecific(keys[KEYS - 1], last);
  for (size_t size = 1; size < 4000; size += 100) {
    void *volatile block = malloc(size);
    free(block);
  }
  return NULL;
}

static bool in_a_thread(void *(*work)(void *))
{
  pthread_t thread;
  return pthread_create(&thread, NULL, work, keys) == 0 && pthread_join(thread, NULL) == 0;
}

/* Nothing here allocates. An emulator's own memory would count. */
static size_t resident_bytes(void)
{
  if (getenv("EMULATED"))
    return 0;
  char text[100] = "";
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
  close(file);
  const char *second = length > 0 ? strchr(text, ' ') : NULL;
  return second ? strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

static void *fork_here(void *argument)
{
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    free(malloc(100));
    _exit(0);
  }
  waitpid(child, &status, 0);
  if (status != 0)
    dprintf(STDERR_FILENO, "many_keys: the child of a fork ended with %x\n", status);
  return status == 0 ? NULL : argument;
}

int main(void)
{
  for (size_t i = 0; i < KEYS; i++)
    if (pthread_key_create(&keys[i], NULL) != 0)
      return 1;
  size_t before = 0;
  for (size_t i = 0; i < WARM + THREADS; i++) {
    if (i == WARM)
      before = resident_bytes();
    if (!in_a_thread(first_for_a_key))
      return 1;
  }
  size_t growth = resident_bytes() - before;
  if (growth > MOST_GROWTH && growth < SIZE_MAX / 2) {
    dprintf(STDERR_FILENO, "many_keys: %zu bytes stay of %d threads that have ended\n", growth, THREADS);
    return 1;
  }
  mallinfo2(); /* looks at all threads that are known */
  pthread_t thread;
  void *failed;
  return pthread_create(&thread, NULL, fork_here, keys) != 0 || pthread_join(thread, &failed) != 0 || failed;
}
