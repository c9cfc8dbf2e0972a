/* SPDX-License-Identifier: MIT
 * A library that opens a plug-in which is found by the library's own run path alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>

void *open_plug_in(const char *name, int mode);

/* Not the last call, so that it is this library that calls. */
void *open_plug_in(const char *name, int mode)
{
  void *volatile handle = dlopen(name, mode);
  return handle;
}
