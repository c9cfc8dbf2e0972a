/* SPDX-License-Identifier: MIT
 *
 * What options.py runs under different options. It prints "ok", or a figure.
 *
 * usage: probe work|exhaust|exhaust-at-once|exhaust-aligned|exhaust-by-product|huge-pages|purge|keep|close-error|cancelled
 *        probe reuse-files FILE */
#include "ours.h"
#include "testing.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static int complain(const char *what)
{
  fprintf(stderr, "probe: %s\n", what);
  return 1;
}

static int work(void)
{
  static void *slots[2000];
  uint32_t random = 42;
  for (size_t i = 0; i < 20000; i++) { /* each takes two system calls where all blocks are guarded */
    uint32_t number = next_random(&random);
    void **slot = &slots[number % COUNT_OF(slots)];
    size_t size = number % 200 == 0 ? number % 300000 : number % 2000;
    if (number & 1) {
      *slot = realloc(*slot, size + 1);
    } else {
      free(*slot);
      *slot = malloc(size + 1);
    }
    if (!*slot)
      return complain("no memory");
    memset(*slot, (int)i, malloc_usable_size(*slot));
  }
  for (size_t i = 0; i < COUNT_OF(slots); i++)
    free(slots[i]);
  return 0;
}

static int exhaust(void) { return malloc(opaque((size_t)1 << 55)) ? complain("a block of 32 PiB") : 0; }

/* Requests that are refused before anything else is looked at. */
static int exhaust_at_once(void) { return malloc(opaque(SIZE_MAX / 2 + 1)) ? complain("a block of half of all") : 0; }
static int exhaust_aligned(void) { return aligned_alloc(64, opaque(SIZE_MAX / 2 + 1)) ? complain("an aligned one") : 0; }
static int exhaust_by_product(void) { return calloc(opaque(SIZE_MAX / 2), 4) ? complain("a block of more than all") : 0; }

/* Of the address space in which blocks are, the bytes for which huge pages were asked; whether there are any is up to the
 * kernel. SIZE_MAX: it does not tell. */
static size_t advised_bytes(void)
{
  size_t kib = 0, advised = 0;
  bool tells = false;
  char line[1024];
  FILE *file = fopen("/proc/self/smaps", "r");
  while (file && fgets(line, sizeof line, file)) {
    sscanf(line, "Size: %zu", &kib);
    if (strncmp(line, "VmFlags:", 8) == 0) {
      tells = true;
      advised += strstr(line, " hg") ? kib * KIB : 0;
    }
  }
  if (file)
    fclose(file);
  return tells ? advised : SIZE_MAX;
}

enum { SMALL_BLOCKS = 64 * 1024, SMALL = 1000, LARGE_BLOCKS = 4, LARGE = 8 << 20 };

static size_t huge_page_bytes(void)
{
  for (size_t i = 0; i < SMALL_BLOCKS + LARGE_BLOCKS; i++) {
    size_t size = i < SMALL_BLOCKS ? SMALL : LARGE;
    char *block = malloc(size);
    if (block)
      memset(block, 1, size);
  }
  return advised_bytes();
}

/* A phase with 200 MiB live, of which a contiguous twentieth stays; then two seconds of a quiet life. */
static size_t held_after_a_peak(void)
{
  enum { BLOCKS = 100000, SIZE = 2000 };
  static void *blocks[BLOCKS];
  memset(blocks, 0xff, sizeof blocks);
  size_t before = held_bytes();
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(SIZE);
    memset(blocks[i], 1, SIZE);
  }
  for (size_t i = 0; i < BLOCKS / 20 * 19; i++)
    free(blocks[i]);
  struct timespec pause = {0, 2000000};
  for (size_t i = 0; i < 1000; i++) {
    free(malloc(opaque(i)));
    nanosleep(&pause, NULL);
  }
  return held_bytes() - before;
}

static int purge(void)
{
  return held_after_a_peak() <= 15 * MIB ? 0 : complain("more than 15 MiB are held, though 10 MiB are live");
}

static int keep(void)
{
  return held_after_a_peak() > 150 * MIB ? 0 : complain("memory went back although purge_delay_ms is never");
}

/* As the programs of coreutils do at exit. */
static int close_error(void)
{
  int status = work();
  return fclose(stderr) == 0 ? status : 1;
}

/* Closes all files that it does not know, and has every number that there is stand for one file. */
static int reuse_files(const char *path)
{
  enum { FILES = 1024 };
  int status = work();
  for (int file = STDERR_FILENO; file < FILES; file++)
    close(file);
  for (int file = STDERR_FILENO; file >= 0 && file < FILES;)
    file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  return status;
}

static void *sleep_on(void *unused)
{
  for (;;)
    pause();
  return unused;
}

/* A thread that is to be cancelled ends the process: what it calls then must be no cancellation point. */
static int exit_cancelled(void)
{
  pthread_t other;
  if (work() || pthread_create(&other, NULL, sleep_on, NULL) != 0 || pthread_cancel(pthread_self()) != 0)
    return complain("no second thread");
  exit(7);
}

static int run(const char *action, const char *path)
{
  if (strcmp(action, "work") == 0)
    return work();
  if (strcmp(action, "close-error") == 0)
    return close_error();
  if (strcmp(action, "cancelled") == 0)
    return exit_cancelled();
  if (strcmp(action, "reuse-files") == 0 && path)
    return reuse_files(path);
  if (strcmp(action, "exhaust") == 0)
    return exhaust();
  if (strcmp(action, "exhaust-at-once") == 0)
    return exhaust_at_once();
  if (strcmp(action, "exhaust-aligned") == 0)
    return exhaust_aligned();
  if (strcmp(action, "exhaust-by-product") == 0)
    return exhaust_by_product();
  if (strcmp(action, "purge") == 0)
    return purge();
  if (strcmp(action, "keep") == 0)
    return keep();
  return complain("unknown action");
}

int main(int argc, char **argv)
{
  if (argc != 2 && argc != 3)
    return complain("usage: probe ACTION");
  if (strcmp(argv[1], "huge-pages") == 0) {
    printf("%zu\n", huge_page_bytes());
    return 0;
  }
  int status = run(argv[1], argv[2]);
  if (status == 0)
    puts("ok");
  return status;
}
