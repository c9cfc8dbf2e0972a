/* SPDX-License-Identifier: MIT
 *
 * usage: fuzz_pool_standalone [--alone] [--random SEED COUNT] [FILE or FOLDER]...
 *
 * The fuzzer without libFuzzer: replays files, then inputs made of random bytes. With --alone the process has one thread, which
 * does what a second one would do. */
#include "../dice.h"
#include "fuzz_pool.h"
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT_MOST = 1 << 16, RANDOM_MOST = 1500, INPUT_SECONDS = 600 };

static unsigned long replayed;

/* However an input ends the program, the last line says which it was. */
static void say_seed(int signal_number)
{
  char line[80];
  int length = snprintf(line, sizeof line, "fuzz_pool: signal %d in seed %lu\n", signal_number, (unsigned long)fuzz_seed);
  if (write(STDERR_FILENO, line, (size_t)length) == length)
    raise(signal_number);
}

static void watch(int signal_number)
{
  struct sigaction action = {.sa_handler = say_seed, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
  sigaction(signal_number, &action, NULL);
}

static int replay_file(const char *path)
{
  static uint8_t data[INPUT_MOST];
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    return 1;
  }
  size_t size = fread(data, 1, sizeof data, file);
  fclose(file);
  fprintf(stderr, "%s\n", path);
  replayed++;
  return LLVMFuzzerTestOneInput(data, size);
}

static int replay_folder(const char *path)
{
  DIR *folder = opendir(path);
  int failed = folder == NULL;
  for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
    char name[4096];
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    if (entry->d_name[0] != '.')
      failed |= replay_file(name);
  }
  if (folder)
    closedir(folder);
  return failed;
}

static int replay(const char *path)
{
  struct stat about;
  return stat(path, &about) == 0 && S_ISDIR(about.st_mode) ? replay_folder(path) : replay_file(path);
}

static int random_inputs(uint64_t seed, uint64_t count)
{
  static uint8_t data[RANDOM_MOST];
  for (uint64_t end = seed + count; seed < end; seed++) {
    uint64_t dice = seed;
    size_t size = roll(&dice) % RANDOM_MOST;
    for (size_t i = 0; i < size; i++)
      data[i] = (uint8_t)roll(&dice);
    if (isatty(STDERR_FILENO))
      fprintf(stderr, "\rseed %lu ", (unsigned long)seed);
    fuzz_seed = seed;
    alarm(INPUT_SECONDS);
    if (LLVMFuzzerTestOneInput(data, size))
      return 1;
  }
  fprintf(stderr, "\n%lu random inputs\n", (unsigned long)count);
  return 0;
}

int main(int count, char **words)
{
  int failed = 0;
  watch(SIGABRT);
  watch(SIGALRM);
  for (int i = 1; i < count; i++) {
    if (!strcmp(words[i], "--alone")) {
      fuzz_alone = true;
    } else if (!strcmp(words[i], "--random") && i + 2 < count) {
      failed |= random_inputs(strtoull(words[i + 1], NULL, 0), strtoull(words[i + 2], NULL, 0));
      i += 2;
    } else {
      failed |= replay(words[i]);
    }
  }
  fprintf(stderr, "%lu files replayed\n", replayed);
  return failed;
}
