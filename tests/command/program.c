/* SPDX-License-Identifier: MIT
 * What test_run.py has run: the program does what its first argument says. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef OWN_MALLOC
/* Enough for what the test has it do. */
void *malloc(size_t size)
{
  static char memory[1 << 20];
  static size_t used;
  void *block = memory + used;
  used += (size + 31) / 16 * 16;
  return used <= sizeof memory ? block : NULL;
}
void free(void *block) { (void)block; }
#endif

/* Whether the library is here is for the loader's list to say. */
static int says_loaded(void)
{
  char line[4096];
  int found = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps))
    found |= strstr(line, "libtidepool-malloc.so") != NULL;
  puts(found ? "loaded" : "not loaded");
  return 0;
}

static int writes_past_the_end(void)
{
  char *volatile block = malloc(100);
  volatile size_t beside = 100;
  block[beside] = 'x';
  free(block);
  return 0;
}

static int loses_a_block(void)
{
  void *volatile block = malloc(1234);
  memset(block, 1, 1234);
  block = NULL;
  return 0;
}

enum { GROWN = 4000, GROWN_SIZE = 1000 };

/* The blocks grow in number to their peak, and then it ends by SIGKILL, or frees all but a tenth. */
static int grows(int signal_of_end)
{
  static void *blocks[GROWN];
  for (int i = 0; i < GROWN; i++)
    blocks[i] = malloc(GROWN_SIZE);
  if (signal_of_end)
    return raise(signal_of_end);
  for (int i = GROWN / 10; i < GROWN; i++)
    free(blocks[i]);
  return 0;
}

int main(int argc, char **argv)
{
  const char *what = argc > 1 ? argv[1] : "loaded";
  if (!strcmp(what, "loaded"))
    return says_loaded();
  if (!strcmp(what, "past"))
    return writes_past_the_end();
  if (!strcmp(what, "loses"))
    return loses_a_block();
  if (!strcmp(what, "elsewhere")) /* it goes to another folder */
    return !malloc(1) || chdir("/") != 0;
  if (!strcmp(what, "grows"))
    return grows(0);
  if (!strcmp(what, "killed"))
    return grows(SIGKILL);
  if (!strcmp(what, "terminated"))
    return grows(SIGTERM);
  if (!strcmp(what, "forks")) { /* the child has more, and ends first */
    free(malloc(1));
    pid_t child = fork();
    if (!child)
      exit(grows(0));
    return waitpid(child, NULL, 0) != child;
  }
  if (!strcmp(what, "signal"))
    return raise(SIGTERM);
  if (!strcmp(what, "arguments")) {
    for (int i = 2; i < argc; i++)
      puts(argv[i]);
    return 0;
  }
  return atoi(what);
}
