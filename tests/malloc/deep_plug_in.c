/* SPDX-License-Identifier: MIT
 * A plug-in that frees what the C library has allocated for it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <string.h>

typedef void *address_t;
address_t free_of_plug_in(void);
size_t use_text(const char *text);

address_t free_of_plug_in(void)
{
  void (*function)(void *) = free;
  address_t address;
  memcpy(&address, &function, sizeof address);
  return address;
}

size_t use_text(const char *text)
{
  char *copy = strdup(text);
  size_t length = strlen(copy);
  free(copy);
  return length;
}
