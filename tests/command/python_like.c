/* SPDX-License-Identifier: MIT
 *
 * To whoever looks at its file this is CPython. It prints what it was told. */
#include <stdio.h>
#include <stdlib.h>

int Py_BytesMain(void);
int Py_BytesMain(void)
{
  const char *value = getenv("PYTHONMALLOC"), *perf = getenv("PYTHONPERFSUPPORT");
  printf("%s%s\n", value ? value : "not set", perf ? ", perf" : "");
  return 0;
}

#ifdef FREE_THREADED
void _Py_MergeZeroLocalRefcount(void);
void _Py_MergeZeroLocalRefcount(void) {}
#endif

#ifdef WITH_PERF
void PyUnstable_PerfMapState_Init(void);
void PyUnstable_PerfMapState_Init(void) {}
#endif

int main(void) { return Py_BytesMain(); }
