/* SPDX-License-Identifier: MIT
 *
 * What is in a block, and in one that is zeroed or gone. */
#include "../dice.h"
#include "model.h"
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
  PAGE = 4096,            /* a stride: nothing rests on its being the machine's */
  DENSE_MOST = 64 << 10,  /* every byte of a block has a pattern up to here */
  SPARSE_LEAST = 64 << 20 /* and from here on 64 bytes between its ends */
};

/* In a large block whole pages at both ends, and of each page in between its first and last bytes and some in the middle. */
static size_t step_at(size_t i, size_t size)
{
  if (size <= DENSE_MOST || i < PAGE || i + PAGE >= size)
    return 1;
  size_t at = i % PAGE, left = size - PAGE - i, step = 1;
  if (size >= SPARSE_LEAST)
    step = size / 64;
  else if (at >= 8 && at < PAGE - 8)
    step = (at < PAGE / 2 ? PAGE / 2 : PAGE - 8) - at;
  return step < left ? step : left;
}

void fill(const slot_t *slot)
{
  for (size_t i = 0; i < slot->size; i += step_at(i, slot->size))
    slot->block[i] = (char)byte_of(slot->key, i);
}

void verify(const slot_t *slot, const char *block, size_t kept)
{
  for (size_t i = 0; i < kept && i < slot->size; i += step_at(i, slot->size))
    must((unsigned char)block[i] == byte_of(slot->key, i));
}

/* Every byte; of a huge block every 64th and the ends of each page. */
void must_be_zero(const char *block, size_t size)
{
  if (size <= HUGE_LEAST) {
    must(size == 0 || (block[0] == 0 && memcmp(block, block + 1, size - 1) == 0));
    return;
  }
  size_t step = size >= SPARSE_LEAST ? (size_t)64 * PAGE : 64;
  for (size_t i = 0; i < size; i += step)
    must(block[i] == 0);
  for (size_t i = PAGE; i <= size && size < SPARSE_LEAST; i += PAGE)
    must(block[i - 1] == 0);
}

/* Memory that the manager took back and may have given to the system: the system says what is there, if anything. */
void must_be_wiped(const char *from, size_t size)
{
  static char there[PAGE];
  for (size_t at = 0; at < size;) {
    const char *page_end = (const char *)(((uintptr_t)(from + at) | (PAGE - 1)) + 1);
    size_t bytes = size - at < (size_t)(page_end - (from + at)) ? size - at : (size_t)(page_end - (from + at));
    struct iovec here = {there, bytes}, remote = {(void *)(uintptr_t)(from + at), bytes};
    ssize_t got = process_vm_readv(getpid(), &here, 1, &remote, 1, 0);
    must(got < 0 || (there[0] == 0 && memcmp(there, there + 1, (size_t)got - 1) == 0));
    at += bytes;
  }
  errno = 0;
}
