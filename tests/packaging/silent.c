/* SPDX-License-Identifier: MIT
 * A program that has no call of malloc itself; the C library allocates for it. */
#include <stdio.h>

int main(void)
{
  char line[16];
  FILE *file = fopen("/dev/null", "r");
  return !file || fgets(line, sizeof line, file) != NULL || fclose(file) != 0;
}
