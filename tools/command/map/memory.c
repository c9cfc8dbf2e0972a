/* SPDX-License-Identifier: MIT */
#include "memory.h"
#include "command.h"
#include <stdlib.h>
#include <string.h>

/* More than that is copied at once, and is not looked at again. */
enum { COPIED_AT_ONCE = 2 * MEMORY_PAGE };

static unsigned char *page_of(memory_t *memory, uint64_t number)
{
  size_t place = (size_t)(number % MEMORY_PAGES);
  if (!memory->pages)
    memory->pages = malloc((size_t)MEMORY_PAGES * MEMORY_PAGE);
  if (!memory->pages)
    command_fail(COMMAND_FAILED, "map: no memory");
  unsigned char *page = memory->pages + place * MEMORY_PAGE;
  if (memory->tags[place] == number + 1)
    return page;
  memory->tags[place] = 0;
  if (!memory->fetch(memory->context, number * MEMORY_PAGE, page, MEMORY_PAGE))
    return NULL;
  memory->tags[place] = number + 1;
  return page;
}

bool memory_read(memory_t *memory, uint64_t address, void *to, size_t bytes)
{
  unsigned char *at = to;
  if (address + bytes < address)
    return false;
  if (bytes >= COPIED_AT_ONCE)
    return memory->fetch(memory->context, address, to, bytes);
  while (bytes) {
    size_t offset = (size_t)(address % MEMORY_PAGE), part = MEMORY_PAGE - offset < bytes ? MEMORY_PAGE - offset : bytes;
    const unsigned char *page = page_of(memory, address / MEMORY_PAGE);
    if (!page)
      return false;
    memcpy(at, page + offset, part);
    at += part;
    address += part;
    bytes -= part;
  }
  return true;
}

void memory_forget(memory_t *memory) { memset(memory->tags, 0, sizeof memory->tags); }

void memory_finish(memory_t *memory)
{
  free(memory->pages);
  memory->pages = NULL;
  memory_forget(memory);
}
