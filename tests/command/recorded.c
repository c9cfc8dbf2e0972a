/* SPDX-License-Identifier: MIT
 *
 *   recorded WHAT [NUMBER]
 *
 * What test_record.py has recorded: the program does as its arguments say. What it does for a NUMBER of rounds is known: the
 * recordings of two numbers differ by just that. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, BOX_ROOM = 1 << 16 };

static unsigned long rounds;

static void *checked(void *block)
{
  if (!block)
    abort();
  *(volatile char *)block = 1;
  return block;
}

/* ---- what threads hand to each other ---- */

typedef struct box {
  pthread_mutex_t lock;
  size_t count;
  void *blocks[BOX_ROOM];
} box_t;

static box_t boxes[THREADS];

static void put(box_t *box, void *block)
{
  pthread_mutex_lock(&box->lock);
  if (box->count == BOX_ROOM)
    abort();
  box->blocks[box->count++] = block;
  pthread_mutex_unlock(&box->lock);
}

static void *take(box_t *box)
{
  pthread_mutex_lock(&box->lock);
  void *block = box->count ? box->blocks[--box->count] : NULL;
  pthread_mutex_unlock(&box->lock);
  return block;
}

/* ---- known operations ---- */

/* Each round: 11 calls by the thread, one of them a free of what another has handed over, or later; a block of 24 bytes stays.
 */
static void do_round(size_t thread)
{
  void *of[4];
  of[0] = checked(malloc(100));
  of[1] = checked(calloc(3, 50));
  of[2] = checked(aligned_alloc(64, 128));
  if (posix_memalign(&of[3], 256, 300) != 0)
    abort();
  of[0] = checked(realloc(of[0], 1000));
  of[0] = checked(realloc(of[0], 10));
  for (int i = 0; i < 3; i++)
    free(of[i]);
  put(&boxes[(thread + 1) % THREADS], of[3]);
  free(take(&boxes[thread]));
  checked(malloc(24));
}

static void *do_rounds(void *thread)
{
  for (unsigned long i = 0; i < rounds; i++)
    do_round((size_t)thread);
  return NULL;
}

static void run(void *(*what)(void *))
{
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) /* before the first thread comes to all of them */
    pthread_mutex_init(&boxes[i].lock, NULL);
  for (size_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, what, (void *)i) != 0)
      abort();
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

/* Every block that was handed over is freed here at the last. */
static int known(void)
{
  run(do_rounds);
  for (size_t i = 0; i < THREADS; i++)
    for (void *block; (block = take(&boxes[i]));)
      free(block);
  return 0;
}

/* Blocks of many sizes grow, shrink and go round: where one thread's old block is another's new one, times do not tell. */
static void *exchange(void *thread)
{
  unsigned random = (unsigned)(size_t)thread + 1;
  for (unsigned long i = 0; i < rounds; i++) {
    random = random * 1103515245 + 12345;
    void *block = take(&boxes[random >> 16 & (THREADS - 1)]);
    block = checked(realloc(block, 1 + (random >> 8) % 4000));
    if (random >> 24 & 1)
      free(block);
    else
      put(&boxes[random >> 18 & (THREADS - 1)], block);
  }
  return NULL;
}

/* ---- others ---- */

static pthread_key_t key;

/* Destructors allocate, too, behind the recorder's own. */
static void destroy(void *block)
{
  free(block);
  free(checked(malloc(60)));
}

static void *one_block(void *unused)
{
  (void)unused;
  free(checked(malloc(50)));
  pthread_setspecific(key, checked(malloc(70)));
  return checked(malloc(100));
}

/* A few at once, as often as it takes. */
static int come_and_go(void)
{
  if (pthread_key_create(&key, destroy) != 0)
    return 1;
  for (unsigned long i = 0; i < rounds; i += THREADS)
    run(one_block);
  return 0;
}

static void pairs(unsigned long count)
{
  for (unsigned long i = 0; i < count; i++)
    free(checked(malloc(16 + i % 500)));
}

static int forks(void)
{
  clearenv();
  pid_t child = fork();
  if (child == 0) {
    for (unsigned long i = 0; i < rounds; i++)
      checked(malloc(1000));
    exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  checked(malloc(77));
  return status;
}

static int executes(char *program)
{
  static char what[] = "known", none[] = "0";
  char *const arguments[] = {program, what, none, NULL};
  pairs(rounds);
  execv(program, arguments);
  return 1;
}

/* Its own files get all the numbers, and nothing but what it writes may be in them. */
static int closes(const char *path)
{
  struct stat about;
  for (int i = 3; i < 4096; i++)
    close(i);
  for (int i = 3; i < 900; i++)
    if (open(path, O_RDWR | O_CREAT, 0600) < 0)
      return 2;
  pairs(rounds);
  return stat(path, &about) != 0 || about.st_size != 0;
}

static volatile sig_atomic_t handled;

static void handle(int number)
{
  (void)number;
  handled++;
  free(checked(malloc(33)));
}

/* The library's malloc may not be entered again; the test has few signals, which are handled where the program asks for it. */
static int signals(void)
{
  struct sigaction action = {.sa_handler = handle};
  sigaction(SIGALRM, &action, NULL);
  for (unsigned long i = 0; i < rounds; i++) {
    raise(SIGALRM);
    free(checked(malloc(16)));
  }
  return handled != (sig_atomic_t)rounds;
}

int main(int argc, char **argv)
{
  const char *what = argc > 1 ? argv[1] : "known";
  rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
  if (!strcmp(what, "known"))
    return known();
  if (!strcmp(what, "exchange")) {
    run(exchange);
    return 0;
  }
  if (!strcmp(what, "threads"))
    return come_and_go();
  if (!strcmp(what, "fork"))
    return forks();
  if (!strcmp(what, "exec"))
    return executes(argv[0]);
  if (!strcmp(what, "closes"))
    return closes(argv[3]);
  if (!strcmp(what, "signals"))
    return signals();
  pairs(rounds);
  if (!strcmp(what, "kill"))
    raise(SIGKILL);
  if (!strcmp(what, "fails"))
    return malloc(PTRDIFF_MAX) != NULL;
  return write(STDOUT_FILENO, "went on\n", 8) != 8;
}
