/* SPDX-License-Identifier: MIT
 * The version that the header gives to a program, and that the library tells, are the one of meson.build: the first argument.
 */
#include <stdio.h>
#include <string.h>
#include <tidepool.h>

#if TIDEPOOL_VERSION_NUMBER < 1000 || TIDEPOOL_VERSION_NUMBER >= 1000000000
#error "TIDEPOOL_VERSION_NUMBER is no number for the preprocessor"
#endif

static int differs(const char *what, const char *version, const char *expected)
{
  if (strcmp(version, expected) == 0)
    return 0;
  fprintf(stderr, "%s is %s and should be %s\n", what, version, expected);
  return 1;
}

int main(int argc, char **argv)
{
  char numbers[64], number[64];
  if (argc != 2)
    return 2;
  snprintf(numbers, sizeof numbers, "%d.%d.%d", TIDEPOOL_VERSION_MAJOR, TIDEPOOL_VERSION_MINOR, TIDEPOOL_VERSION_PATCH);
  snprintf(number, sizeof number, "%d.%d.%d", TIDEPOOL_VERSION_NUMBER / 1000000, TIDEPOOL_VERSION_NUMBER / 1000 % 1000,
           TIDEPOOL_VERSION_NUMBER % 1000);
  return differs("TIDEPOOL_VERSION", TIDEPOOL_VERSION, argv[1]) | differs("TIDEPOOL_VERSION_MAJOR ...", numbers, argv[1]) |
         differs("TIDEPOOL_VERSION_NUMBER", number, argv[1]) | differs("pool_version()", pool_version(), argv[1]);
}
