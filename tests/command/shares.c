/* SPDX-License-Identifier: MIT
 * Does what the lines of its standard input say, and answers each with "done". */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <tidepool.h>
#include <unistd.h>

static pool_heap_t *make_heap(const char *name, size_t budget)
{
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = name, .budget = budget});
  if (!heap)
    abort();
  return heap;
}

static void fill(pool_heap_t *heap, long blocks, size_t size)
{
  for (long i = 0; i < blocks; i++)
    if (!pool_heap_alloc(heap, size))
      abort();
}

static void get_one(const char *name, size_t size)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.name = name, .object_size = size, .capacity = 10});
  if (!pool || !object_pool_get(pool))
    abort();
}

/* Writes past the end of its block, which is found at exit. */
static void damage_one(const char *name, size_t size)
{
  pool_heap_t *heap =
    pool_heap_create(&(pool_heap_options_t){.name = name, .flags = POOL_HEAP_SINGLE_THREAD | POOL_HEAP_CHECKED});
  char *block = heap ? pool_heap_alloc(heap, size) : NULL;
  if (!block)
    abort();
  *(volatile char *)(block + size) = 1;
}

/* So much that every kind of slow path was taken. */
static void work(void)
{
  static void *blocks[20000];
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
    blocks[i] = pool_alloc(1 + i % 3000);
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
    pool_free(blocks[i]);
}

static void close_all(void)
{
  for (int file = 3; file < 1024; file++)
    close(file);
}

/* A handler ends the process in the middle of a call. */
static void end_now(int number)
{
  (void)number;
  exit(3);
}

static void end_by_a_handler(void)
{
  static void *blocks[64];
  signal(SIGALRM, end_now);
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 3000 + getpid() % 100 * 30}, NULL);
  for (size_t i = 0;; i++) {
    pool_free(blocks[i % 64]);
    blocks[i % 64] = pool_alloc(i * 7919 % 300000 + 1);
  }
}

/* Until the next call of it there is no descriptor left. */
static void take_all_descriptors(void)
{
  static bool taken;
  close_all();
  while (!taken && open("/dev/null", O_RDONLY) >= 0)
    continue;
  taken = !taken;
}

static void *churn(void *argument)
{
  for (;;) {
    pool_heap_t *heap = make_heap("churned", 1 << 20);
    fill(heap, 100, 100);
    free(malloc(50000));
    pool_heap_destroy(heap);
  }
  return argument;
}

static void *sleep_for_ever(void *argument)
{
  for (;;)
    pause();
  return argument;
}

static void begin_thread(void *(*run)(void *))
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) != 0)
    abort();
}

/* The child serves the next lines; the parent waits for its end. */
static void serve_in_child(void)
{
  pid_t child = fork();
  if (child > 0) {
    waitpid(child, NULL, 0);
    exit(0);
  }
  printf("child %d\n", (int)getpid());
}

/* Of malloc()'s. */
static char *volatile last;
static void lose_one(void)
{
  last = malloc(12345);
  last = NULL;
}

int main(int argc, char **argv)
{
  char line[256], word[32], name[64];
  (void)argc;
  setvbuf(stdin, NULL, _IONBF, 0); /* nothing is read ahead of an exec */
  setvbuf(stdout, NULL, _IONBF, 0);
  while (fgets(line, sizeof line, stdin)) {
    long blocks = 0, size = 0;
    if (sscanf(line, "%31s %63s %ld %ld", word, name, &blocks, &size) < 1)
      continue;
    if (!strcmp(word, "heap"))
      fill(make_heap(name, 64 << 20), blocks, (size_t)size);
    else if (!strcmp(word, "heaps"))
      for (long i = 0; i < blocks; i++)
        make_heap(name, 0);
    else if (!strcmp(word, "objects"))
      get_one(name, (size_t)size);
    else if (!strcmp(word, "churn"))
      begin_thread(churn);
    else if (!strcmp(word, "thread"))
      begin_thread(sleep_for_ever);
    else if (!strcmp(word, "fork"))
      serve_in_child();
    else if (!strcmp(word, "limit"))
      make_heap(name, SIZE_MAX);
    else if (!strcmp(word, "single"))
      damage_one(name, (size_t)size);
    else if (!strcmp(word, "work"))
      work();
    else if (!strcmp(word, "close"))
      close_all();
    else if (!strcmp(word, "handler"))
      end_by_a_handler();
    else if (!strcmp(word, "descriptors"))
      take_all_descriptors();
    else if (!strcmp(word, "last"))
      pthread_exit(NULL);
    else if (!strcmp(word, "lose"))
      lose_one();
    else if (!strcmp(word, "exec"))
      execlp("sleep", "sleep", "1000", (char *)NULL);
    else if (!strcmp(word, "again"))
      execv(argv[0], argv);
    puts("done");
  }
  return 0;
}
