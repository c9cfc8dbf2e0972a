/* SPDX-License-Identifier: MIT
 *
 * Every other of very many large blocks is freed. A hole in the address space for each would take all the mappings that the
 * system allows a process, so that nobody could map anything: not the first small block, not a thread's stack. */
#include "ours.h"
#include "testing.h"
#include <sys/mman.h>

enum { SIZE = 4200 << 10, SMALL_BLOCKS = 100000, THREADS = 20, MAPPINGS_MOST = 100000 };

/* Enough to use up the mappings. 0: that cannot be, or nobody knows how many there are. */
static size_t blocks_needed(void)
{
  char text[32] = "";
  int file = open("/proc/sys/vm/max_map_count", O_RDONLY);
  if (file < 0 || read(file, text, sizeof text - 1) <= 0)
    return 0;
  close(file);
  unsigned long most = strtoul(text, NULL, 10);
  return most > MAPPINGS_MOST ? 0 : 2 * most + 20000;
}

static void *take_one(void *argument)
{
  (void)argument;
  void *block = malloc(opaque(100000));
  free(block);
  return block ? NULL : "malloc failed in a thread";
}

/* Plain code: nothing else has taken a small block before, and the blocks' addresses are no block either. */
static const char *fill_and_look(size_t count)
{
  void **blocks = mmap(NULL, count * sizeof *blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (blocks == MAP_FAILED)
    return NULL;
  size_t taken = 0;
  while (taken < count && (blocks[taken] = malloc(opaque(SIZE))) != NULL)
    taken++;
  for (size_t i = 0; i < taken; i += 2)
    free(blocks[i]);
  for (size_t i = 0; taken == count && i < SMALL_BLOCKS; i++)
    if (!malloc(opaque(2000)))
      return "a small block was refused";
  for (size_t i = 0; taken == count && i < THREADS; i++) {
    pthread_t thread;
    void *wrong = NULL;
    if (!malloc(opaque(64 * MIB)))
      return "a large block was refused";
    if (pthread_create(&thread, NULL, take_one, NULL) != 0)
      return "a thread was refused";
    pthread_join(thread, &wrong);
    if (wrong)
      return wrong;
  }
  for (size_t i = 1; i < taken; i += 2)
    free(blocks[i]);
  return NULL;
}

int main(void)
{
  enum { SKIPPED = 77 };
  size_t count = blocks_needed();
  const char *wrong = count ? fill_and_look(count) : NULL;
  if (wrong)
    fprintf(stderr, "%s\n", wrong);
  return wrong ? 1 : count ? 0 : SKIPPED;
}
