/* SPDX-License-Identifier: MIT
 * What the C library gives a program at its start is there, whatever the manager does before: environment.py has the options.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Before all libraries have begun. */
static void allocate_early(void)
{
  void *volatile block = malloc(100);
  free(block);
}
#ifdef EARLY
__attribute__((section(".preinit_array"), used)) static void (*early)(void) = allocate_early;
#endif

int main(int count, char **arguments, char **variables)
{
  const char *set = getenv("SET_BY_TEST");
  allocate_early();
  if (count != 2 || strcmp(arguments[1], "argument") != 0)
    return puts("arguments are missing"), 1;
  if (environ != variables || !set || strcmp(set, "value") != 0)
    return puts("the environment is missing"), 1;
  if (strcmp(program_invocation_name, arguments[0]) != 0)
    return puts("the program's name is missing"), 1;
  return 0;
}
