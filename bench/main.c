/* SPDX-License-Identifier: MIT
 *
 * One program for each allocator. Before anything runs it makes sure that the process uses the C library's malloc: the
 * harness must cost the same beside every allocator, and a preloaded library would be measured under a wrong name. */
#include "bench.h"
#include "subjects.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char scratch[BENCH_MAX_THREADS][SCRATCH_SIZE] __attribute__((aligned(PAGE)));

void *bench_scratch(const bench_state_t *state) { return scratch[bench_thread(state)]; }

_Noreturn void bench_out_of_memory(void)
{
  fprintf(stderr, "bench-%s: out of memory\n", ALLOCATOR_NAME);
  _Exit(EXIT_FAILURE);
}

static const void *object_of(const char *function)
{
  Dl_info info;
  return dladdr(dlsym(RTLD_DEFAULT, function), &info) ? info.dli_fbase : NULL;
}

/* 100 KiB: more than any free list of glibc keeps, less than what it maps singly, so its own figures must show the block. */
static bool counted_by_c_library(void)
{
  size_t before = mallinfo2().uordblks;
  void *block = malloc(100 * KIB);
  bool counted = mallinfo2().uordblks > before;
  free(block);
  return counted;
}

static bool malloc_is_the_c_library_s(void)
{
  static const char *const functions[] = {"malloc", "calloc", "realloc", "aligned_alloc", "free"};
  for (size_t i = 0; i < COUNT_OF(functions); i++)
    if (object_of(functions[i]) != object_of("mallinfo2"))
      return false;
  return counted_by_c_library();
}

/* What compiled the programs, and tidepool beside them; a report asks for it. */
#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

int main(int argc, char **argv)
{
  if (argc == 2 && strcmp(argv[1], "--compiler") == 0)
    return puts(COMPILER) < 0;
#define SUBJECT_ADDRESS(name) &name##_subject,
  static const bench_subject_t *const subjects[] = {SUBJECTS(SUBJECT_ADDRESS) OWN_SUBJECTS(SUBJECT_ADDRESS)};
  allocator_load(argv);
  if (!malloc_is_the_c_library_s()) {
    fprintf(stderr, "bench-%s: malloc in this process is not the C library's; is a library preloaded?\n", ALLOCATOR_NAME);
    return EXIT_FAILURE;
  }
  memset(scratch, 1, sizeof scratch);
  return bench_run(argc, argv, ALLOCATOR_NAME, subjects, COUNT_OF(subjects));
}
