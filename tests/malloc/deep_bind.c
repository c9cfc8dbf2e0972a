/* SPDX-License-Identifier: MIT
 *
 * Plug-ins that are opened with RTLD_DEEPBIND: they have the program's malloc, unless the option deepbind keeps the flag. Who
 * opens them stays the caller: its run path leads to the plug-in, and its namespace is where it goes.
 *
 * usage: deep_bind LIBRARY PLUG_IN: a library that opens plug-ins, and one that its run path leads to */
#include "ours.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <unistd.h>

typedef void *open_plug_in_t(const char *name, int mode);
typedef void *free_of_plug_in_t(void);
typedef size_t use_text_t(const char *text);

#define MUST(condition) must(condition, #condition)
static void must(bool is_true, const char *what)
{
  const char *error = is_true ? NULL : dlerror();
  if (!is_true) {
    fprintf(stderr, "%s failed: %s\n", what, error ? error : "");
    exit(1);
  }
}

static void *symbol(void *handle, const char *name)
{
  void *found = dlsym(handle, name);
  MUST(found != NULL);
  return found;
}

static Lmid_t namespace_of(void *handle)
{
  Lmid_t space = -2;
  MUST(dlinfo(handle, RTLD_DI_LMID, &space) == 0);
  return space;
}

static bool has_our_free(void *plug_in)
{
  Dl_info info;
  free_of_plug_in_t *free_of_plug_in = (free_of_plug_in_t *)symbol(plug_in, "free_of_plug_in");
  MUST(dladdr(free_of_plug_in(), &info) != 0);
  return strstr(info.dli_fname, "libtidepool-malloc.so") != NULL;
}

static void use(void *plug_in) { MUST(((use_text_t *)symbol(plug_in, "use_text"))("some text") == 9); }

int main(int argc, char **argv)
{
  MUST(argc == 3);
  /* It would lead every caller to the plug-in. */
  if (getenv("LD_LIBRARY_PATH") && unsetenv("LD_LIBRARY_PATH") == 0)
    execv("/proc/self/exe", argv);
  const char *options = getenv("TIDEPOOL_OPTIONS"), *name = strrchr(argv[2], '/') + 1;
  bool keeps = options && strstr(options, "deepbind=1");
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  MUST(library != NULL && namespace_of(library) == LM_ID_BASE);
  MUST(dlopen("no-such-plug-in.so", RTLD_NOW | RTLD_DEEPBIND) == NULL && dlerror() != NULL);
  MUST(dlopen(name, RTLD_NOW) == NULL); /* the program's own run path leads elsewhere */

  void *other = dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  MUST(other != NULL && namespace_of(other) != LM_ID_BASE);
  use(other); /* all of it is another C library's */
  void *library_there = dlmopen(namespace_of(other), argv[1], RTLD_NOW | RTLD_LOCAL);
  MUST(library_there != NULL && namespace_of(library_there) == namespace_of(other));
  void *there = ((open_plug_in_t *)symbol(library_there, "open_plug_in"))(name, RTLD_NOW | RTLD_DEEPBIND);
  MUST(there == other);

  void *plug_in = ((open_plug_in_t *)symbol(library, "open_plug_in"))(name, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  MUST(plug_in != NULL && plug_in != other && namespace_of(plug_in) == LM_ID_BASE);
  MUST(has_our_free(plug_in) != keeps);
  if (!keeps)
    use(plug_in);
  MUST(dlmopen(LM_ID_BASE, argv[2], RTLD_NOW | RTLD_DEEPBIND) == plug_in);
  return 0;
}
