/* SPDX-License-Identifier: MIT
 *
 * A program that includes this ends, before main, where another malloc than libtidepool-malloc's serves it. The loader
 * ignores a library that it cannot find, with one line on standard error: where the path of the build had a space, at which
 * LD_PRELOAD ends a name, tests said OK of glibc's malloc. With ANY_MALLOC=1 in the environment a program takes any. */
#ifndef OURS_H
#define OURS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* By its name: one that the program brings itself would be in the program's file. */
__attribute__((constructor)) static void malloc_is_ours(void)
{
  static const char *const functions[] = {"malloc", "calloc", "realloc", "aligned_alloc", "free"};
  const char *any = getenv("ANY_MALLOC");
  if (any && strcmp(any, "1") == 0)
    return;
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    Dl_info info;
    if (dladdr(dlsym(RTLD_DEFAULT, functions[i]), &info) && strstr(info.dli_fname, "libtidepool-malloc.so"))
      continue;
    const char *preload = getenv("LD_PRELOAD");
    dprintf(STDERR_FILENO, "%s is not libtidepool-malloc's; LD_PRELOAD=%s\n", functions[i], preload ? preload : "");
    _exit(EXIT_FAILURE);
  }
}

#endif
