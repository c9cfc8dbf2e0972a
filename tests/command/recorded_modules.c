/* SPDX-License-Identifier: MIT
 *
 *   recorded-modules FIRST SECOND THIRD
 *
 * A program without tidepool, whose plug-ins have one each: blocks go back to the library that they are of, whichever plug-ins
 * are loaded and unloaded meanwhile; and a call of one does not wait for the loader, which may wait for it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct module {
  void *handle;
  void *(*take)(size_t);
  void (*give)(void *);
} module_t;

static module_t modules[2];
static volatile int is_over;

void (*module_waits)(void);

static module_t load(const char *path)
{
  module_t module = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
  if (!module.handle) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  *(void **)&module.take = dlsym(module.handle, "module_take");
  *(void **)&module.give = dlsym(module.handle, "module_give");
  return module;
}

static void *use(void *argument)
{
  const module_t *module = argument;
  do {
    char *block = module->take(100);
    if (!block)
      abort();
    memset(block, 7, 100);
    module->give(block);
  } while (!is_over);
  return NULL;
}

static void wait_for_user(void)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, use, &modules[0]) == 0)
    pthread_join(thread, NULL);
}

int main(int count, char **paths)
{
  pthread_t threads[2];
  if (count != 4)
    return 2;
  alarm(600);
  for (int i = 0; i < 2; i++)
    modules[i] = load(paths[i + 1]);
  for (int i = 0; i < 2; i++)
    if (pthread_create(&threads[i], NULL, use, &modules[i]) != 0)
      return 1;
  for (int i = 0; i < 300; i++) {
    module_t third = load(paths[3]);
    third.give(third.take(50));
    dlclose(third.handle);
  }
  is_over = 1;
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  module_waits = wait_for_user;
  module_t third = load(paths[3]);
  third.give(third.take(50));
  puts("done");
  return 0;
}
