/* SPDX-License-Identifier: MIT
 * Programs that leak, or seem to: leaks.py has what is said of each. Built for the library's calls, and with MALLOC_NAMES for
 * those of malloc. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "leaking.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef MALLOC_NAMES
#define TAKE(size)        malloc(size)
#define GIVE(block)       free(block)
#define TAKE_ZEROED(size) calloc(1, size)
#else
#include <tidepool.h>
#define TAKE(size)        pool_alloc(size)
#define GIVE(block)       pool_free(block)
#define TAKE_ZEROED(size) pool_zalloc(size)
#endif

static volatile int calls;

static void *kept;
static __thread void *kept_in_thread;
static void *volatile last;

/* A block whose address is nowhere else once this has returned. */
OPAQUE static void take(size_t size, void *volatile *to)
{
  void *block = TAKE(size);
  calls++;
  memset(block, 0, size);
  if (to)
    *to = block;
}

OPAQUE static void take_second(size_t size)
{
  last = TAKE(size);
  last = NULL;
}

/* What calls before it have left on the stack goes. */
OPAQUE static void wipe_stack(void)
{
  volatile char words[32 << 10];
  for (size_t i = 0; i < sizeof words; i++)
    words[i] = 0;
}

static void nothing(void)
{
  void *block;
  take(100, &block);
  GIVE(block);
}

static void lose(void)
{
  for (int i = 0; i < 3; i++)
    take(1000, NULL);
  take_second(100);
}

/* On a 32-bit machine some words of text lead into a block of 5 MiB. */
static void lose_large(void) { take(sizeof(void *) > 4 ? 5 << 20 : 300 << 10, NULL); }
static void keep(void) { take(1000, &kept); }

static void keep_inside(void)
{
  take(1000, &kept);
  kept = (char *)kept + 999;
}

static void keep_in_thread(void) { take(1000, &kept_in_thread); }

static void keep_in_a_mapping(void)
{
  void **mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  take(1000, mapped + 1000);
}

/* Memory as a sanitizer has it beside the program's, in which nothing is a pointer of the program. Here it is the program's. */
static void keep_in_long_mapping(void)
{
  size_t size = (size_t)1 << (sizeof(size_t) > 4 ? 40 : 30);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void **mapped = sizeof(size_t) > 4 ? mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0) : MAP_FAILED;
  bool mapped_all = mapped != MAP_FAILED && madvise(mapped, size, MADV_DONTDUMP) == 0;
  take(1000, mapped_all ? mapped + 1000 : &kept);
}

enum { PAGE_MOST = 64 << 10 };
static union {
  void *kept;
  char page[PAGE_MOST];
} settled __attribute__((aligned(PAGE_MOST)));

static void keep_in_what_was_made_read_only(void)
{
  void **mapped = mmap(NULL, PAGE_MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  take(1000, &settled.kept);
  take(1000, mapped);
  if (mprotect(&settled, sizeof settled, PROT_READ) != 0 || mprotect(mapped, PAGE_MOST, PROT_READ) != 0)
    abort();
}

static void **share(int file)
{
  int anonymous = file < 0 ? MAP_ANONYMOUS : 0;
  void **shared = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | anonymous, file, 0);
  if (shared == MAP_FAILED)
    abort();
  return shared;
}

static void keep_in_shared_memory(void)
{
  int file = memfd_create("kept", MFD_CLOEXEC);
  take(1000, share(-1) + 1000);
  if (file >= 0 && ftruncate(file, 1 << 20) == 0)
    take(1000, share(file) + 1000);
}

/* The child has not touched the page. */
static void keep_in_what_a_child_shares(void)
{
  int status;
  take(1000, share(-1) + 1000);
  pid_t child = fork();
  if (child && (waitpid(child, &status, 0) != child || status != 0))
    abort();
  if (child)
    _exit(0);
}

/* A stack of the program's own, in the middle of static data. */
static struct {
  void *before[1000];
  char stack[256 << 10] __attribute__((aligned(PAGE_MOST)));
  void *behind[1000];
} area;

static void fill_area(void)
{
  memset(&area, 0, sizeof area); /* all of it is touched, and so one stretch */
  take(1000, &kept);
  take(1000, &area.before[0]);
  take(1000, &area.before[999]);
  take(1000, &area.behind[0]);
  wipe_stack();
}

/* Other C libraries, such as musl, have the header alone. */
#ifdef __GLIBC__
static void exit_here(void) { exit(0); }

static void keep_below_a_context(void)
{
  static ucontext_t context, back;
  fill_area();
  if (getcontext(&context) != 0)
    abort();
  context.uc_stack.ss_sp = area.stack;
  context.uc_stack.ss_size = sizeof area.stack;
  context.uc_link = &back;
  makecontext(&context, exit_here, 0);
  swapcontext(&back, &context);
}
#else
static void keep_below_a_context(void) { fill_area(); }
#endif

static void *exit_in_a_thread(void *nothing_else)
{
  (void)nothing_else;
  exit(0);
}

static void keep_below_a_thread(void)
{
  pthread_t thread;
  pthread_attr_t attributes;
  fill_area();
  if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstack(&attributes, area.stack, sizeof area.stack) != 0 ||
      pthread_create(&thread, &attributes, exit_in_a_thread, NULL) != 0)
    abort();
  for (;;)
    sleep(1000);
}

/* None of its blocks is lost at any time, and none lives long. */
static void *volatile table[5000];
static void *take_and_give(void *nothing_else)
{
  (void)nothing_else;
  while (!kept) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
      table[i] = TAKE(100);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
      GIVE(table[i]);
      table[i] = NULL;
    }
  }
  return NULL;
}

static void keep_beside_a_thread(void)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, take_and_give, NULL) != 0)
    abort();
  usleep(20000);
}

/* Of a long block two pages are touched. */
static void keep_in_a_long_block(void)
{
  enum { LONG = 1 << 30 };
  char *block = TAKE(LONG);
  calls++;
  if (!block)
    abort();
  madvise(block + PAGE_MOST - (uintptr_t)block % PAGE_MOST, LONG - 2 * PAGE_MOST, MADV_NOHUGEPAGE);
  kept = block;
  take(1000, (void **)(block + LONG - 1000));
  take(1000, (void **)(block + LONG / 2));
}

static void keep_in_malloc(void)
{
  kept = malloc(sizeof(void *));
  take(1000, kept);
}

static void keep_a_list(void)
{
  take(1000, &kept);
  take(200, (void **)kept);
  take(9 << 20, *(void ***)kept + 5);
}

/* Each leads to the other, and nothing to them. */
OPAQUE static void lose_a_ring(void)
{
  void **first, **second;
  take(64, (void **)&first);
  take(64, (void **)&second);
  *first = second;
  *second = first;
}

static void *sleep_for_long(void *nothing_else)
{
  (void)nothing_else;
  sleep(1000);
  return NULL;
}

static void lose_beside_a_thread(void)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, sleep_for_long, NULL) != 0)
    abort();
  lose();
}

/* A page of a block that is reached cannot be read. */
static void lose_beside_what_is_hidden(void)
{
  take(5 << 20, &kept);
  char *page = (char *)kept + 2 * PAGE_MOST - (uintptr_t)kept % PAGE_MOST;
  if (mprotect(page, PAGE_MOST, PROT_NONE) != 0)
    abort();
  lose_beside_a_thread();
}

static void wait_for_children(int number)
{
  int saved = errno, status;
  (void)number;
  while (waitpid(-1, &status, WNOHANG) > 0)
    continue;
  errno = saved;
}

static void lose_beside_a_handler(void)
{
  signal(SIGCHLD, wait_for_children);
  lose();
}

static void lose_without_standard_error(void)
{
  lose();
  close(STDERR_FILENO);
}

/* Ten places, of which the last takes most. */
#define PLACE(n) \
  OPAQUE static void place_##n(void) \
  { \
    last = TAKE_ZEROED(100 * ((n) + 1)); \
    last = NULL; \
  }
PLACE(0)
PLACE(1)
PLACE(2)
PLACE(3)
PLACE(4)
PLACE(5)
PLACE(6)
PLACE(7)
PLACE(8)
PLACE(9)

static void lose_in_many_places(void)
{
  place_0(), place_1(), place_2(), place_3(), place_4(), place_5(), place_6(), place_7(), place_8(), place_9();
}

static const program_t programs[] = {
  {"nothing", nothing},
  {"lose", lose},
  {"lose-large", lose_large},
  {"keep", keep},
  {"keep-inside", keep_inside},
  {"keep-in-thread", keep_in_thread},
  {"keep-in-a-mapping", keep_in_a_mapping},
  {"keep-in-long-mapping", keep_in_long_mapping},
  {"keep-in-what-was-made-read-only", keep_in_what_was_made_read_only},
  {"keep-in-shared-memory", keep_in_shared_memory},
  {"keep-in-what-a-child-shares", keep_in_what_a_child_shares},
  {"keep-below-a-context", keep_below_a_context},
  {"keep-below-a-thread", keep_below_a_thread},
  {"keep-beside-a-thread", keep_beside_a_thread},
  {"keep-in-a-long-block", keep_in_a_long_block},
  {"keep-in-malloc", keep_in_malloc},
  {"keep-a-list", keep_a_list},
  {"lose-a-ring", lose_a_ring},
  {"lose-beside-a-thread", lose_beside_a_thread},
  {"lose-beside-what-is-hidden", lose_beside_what_is_hidden},
  {"lose-beside-a-handler", lose_beside_a_handler},
  {"lose-without-standard-error", lose_without_standard_error},
  {"lose-in-many-places", lose_in_many_places},
  {NULL, NULL},
};

static const program_t *find(const program_t *program, const char *name)
{
  while (program->name && strcmp(program->name, name) != 0)
    program++;
  return program->name ? program : NULL;
}

int main(int count, char **arguments)
{
  printf("a buffer of the C library\n"); /* which is not given back before the end */
  const program_t *program = count > 1 ? find(programs, arguments[1]) : NULL;
#ifndef MALLOC_NAMES
  program = program || count < 2 ? program : find(heap_programs, arguments[1]);
#endif
  if (!program)
    return 1;
  program->run();
  nothing(); /* registers hold another block then */
  wipe_stack();
  return 0;
}
