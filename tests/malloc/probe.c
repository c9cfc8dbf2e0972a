/* SPDX-License-Identifier: MIT
 *
 * What options.py runs under different options. It prints "ok", or a figure.
 *
 * usage: probe work|exhaust|huge-pages|huge-pages-disabled|purge|keep */
#include "testing.h"

#include <sys/prctl.h>
#include <time.h>

static int complain(const char *what)
{
  fprintf(stderr, "probe: %s\n", what);
  return 1;
}

static int work(void)
{
  static void *slots[2000];
  uint32_t random = 42;
  for (size_t i = 0; i < 200000; i++) {
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

static size_t huge_page_bytes(void)
{
  enum { BLOCKS = 64 };
  for (size_t i = 0; i < BLOCKS; i++) {
    char *block = malloc(MIB);
    if (block)
      memset(block, 1, MIB);
  }
  for (size_t i = 0; i < 64 * 1024; i++) {
    char *block = malloc(1000);
    if (block)
      memset(block, 1, 1000);
  }
  return memory_figure("\nAnonHugePages:");
}

/* A phase with 200 MiB live, of which a contiguous twentieth stays; then two seconds of a quiet life. */
static size_t resident_after_a_peak(void)
{
  enum { BLOCKS = 100000, SIZE = 2000 };
  static void *blocks[BLOCKS];
  memset(blocks, 0xff, sizeof blocks);
  size_t before = resident_bytes();
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
  return resident_bytes() - before;
}

static int purge(void)
{
  return resident_after_a_peak() <= 15 * MIB ? 0 : complain("more than 15 MiB are resident, though 10 MiB are live");
}

static int keep(void)
{
  return resident_after_a_peak() > 150 * MIB ? 0 : complain("memory went back although purge_delay_ms is never");
}

static int run(const char *action)
{
  if (strcmp(action, "work") == 0)
    return work();
  if (strcmp(action, "exhaust") == 0)
    return exhaust();
  if (strcmp(action, "purge") == 0)
    return purge();
  if (strcmp(action, "keep") == 0)
    return keep();
  return complain("unknown action");
}

int main(int argc, char **argv)
{
  if (argc != 2)
    return complain("usage: probe ACTION");
  if (strcmp(argv[1], "huge-pages-disabled") == 0 && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
    return complain("prctl");
  if (strncmp(argv[1], "huge-pages", 10) == 0) {
    printf("%zu\n", huge_page_bytes());
    return 0;
  }
  int status = run(argv[1]);
  if (status == 0)
    puts("ok");
  return status;
}
