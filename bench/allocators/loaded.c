/* SPDX-License-Identifier: MIT */
#include ALLOCATOR_HEADER

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77 };

#define STATIC_TLS_TUNABLE "glibc.rtld.optional_static_tls"

loaded_functions_t loaded;

static _Noreturn void skip(const char *what, const char *why)
{
  fprintf(stderr, "bench-%s: skipped: %s%s\n", ALLOCATOR_NAME, what, why);
  exit(EXIT_SKIPPED);
}

/* jemalloc keeps more thread-local data than the loader leaves room for in a library that comes late. Only the
 * environment of a new program can ask for more room, so this one starts itself again, once. */
static void restart_with_static_tls(char **argv)
{
  const char *tunables = getenv("GLIBC_TUNABLES");
  if (tunables && strstr(tunables, STATIC_TLS_TUNABLE))
    return;
  char extended[512];
  int length =
    snprintf(extended, sizeof extended, "%s%s" STATIC_TLS_TUNABLE "=16384", tunables ? tunables : "", tunables ? ":" : "");
  if (length >= (int)sizeof extended || setenv("GLIBC_TUNABLES", extended, 1) != 0)
    return;
  execv("/proc/self/exe", argv);
}

static void *library;

void *loaded_symbol(const char *name)
{
  void *address = dlsym(library, name);
  if (!address)
    skip(dlerror(), "");
  if (address == dlsym(RTLD_DEFAULT, name))
    skip(name, " is the C library's: it has none of its own");
  return address;
}

void allocator_load(char **argv)
{
  static const char *const names[] = ALLOCATOR_SYMBOLS;
  library = dlopen(ALLOCATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  const char *error = library ? "" : dlerror();
  if (strstr(error, "static TLS"))
    restart_with_static_tls(argv);
  if (!library)
    skip(error, ALLOCATOR_SOURCE);
  *(void **)&loaded.alloc = loaded_symbol(names[0]);
  *(void **)&loaded.calloc = loaded_symbol(names[1]);
  *(void **)&loaded.realloc = loaded_symbol(names[2]);
  *(void **)&loaded.aligned_alloc = loaded_symbol(names[3]);
  *(void **)&loaded.free = loaded_symbol(names[4]);
}
