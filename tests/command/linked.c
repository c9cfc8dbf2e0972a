/* SPDX-License-Identifier: MIT
 * The program of test_run_debug.py is linked with libtidepool or with libtidepool-malloc. It prints which libraries of tidepool
 * the loader took, or writes past the end of a block. */
#include "linked.h"
#include <stdio.h>
#include <string.h>

static void print_libraries(void)
{
  char line[4096], last[4096] = "";
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) {
    const char *path = strchr(line, '/');
    if (path && strstr(path, "/libtidepool") && strcmp(path, last) != 0)
      fputs(strcpy(last, path), stdout);
  }
  fflush(stdout);
}

int main(int argc, char **argv)
{
  const char *what = argc > 1 ? argv[1] : "";
  char *volatile block = linked_take(100);
  volatile size_t beside = 100;
  if (!strcmp(what, "past"))
    block[beside] = 'x';
  else
    print_libraries();
  if (!strcmp(what, "waits"))
    getchar();
  linked_give(block);
  return 0;
}
