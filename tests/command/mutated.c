/* SPDX-License-Identifier: MIT
 *
 *   mutated PROGRAM ROUNDS
 *
 * Whatever a file holds, it can be looked at: a program that is cut off at each of its first bytes and elsewhere, and one with
 * bytes in its headers, and in what these lead to, exchanged at random. That the look ends, and reads no memory but its own, is
 * what counts, under a sanitizer above all. */
#include "mutated.h"
#include "../../tools/command/start/program.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADERS = 4096, FLIPS = 4 };

static char *contents, *changed;
static size_t size;
static const char *library;
static char path[] = "/tmp/tidepool-mutated-XXXXXX";
static unsigned reasons;

static void look_at(const char *bytes, size_t count)
{
  static program_t program;
  FILE *file = fopen(path, "r+b"); /* one that is emptied first is written to the disk when it is closed, on ext4 */
  if (!file || fwrite(bytes, 1, count, file) != count || fflush(file) != 0 || ftruncate(fileno(file), (off_t)count) != 0 ||
      fclose(file) != 0 || chmod(path, 0700) != 0) {
    perror(path);
    exit(1);
  }
  program_look(&program, path, library);
  reasons += program.keeps != NULL;
  if (strlen(program.detail) >= sizeof program.detail)
    abort();
}

static void mutate(uint64_t rounds)
{
  for (uint64_t i = 0; i < rounds; i++) {
    memcpy(changed, contents, size);
    for (int k = 0; k < FLIPS; k++) {
      size_t range = any() % 4 == 0 ? size : any() % 2 ? HEADERS : 1024;
      size_t at = any() % 3 == 0 ? size - 1 - any() % (range < size ? range : size) : any() % (range < size ? range : size);
      changed[at] = (char)(any() % 4 == 0 ? 0xff : any());
    }
    look_at(changed, any() % 8 == 0 ? any() % size : size);
  }
}

int main(int argc, char **argv)
{
  FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  int descriptor = mkstemp(path);
  if (!file || descriptor < 0 || fseek(file, 0, SEEK_END) != 0)
    return 2;
  close(descriptor);
  library = argv[1];
  size = (size_t)ftell(file);
  rewind(file);
  contents = malloc(size);
  changed = malloc(size);
  if (!contents || !changed || fread(contents, 1, size, file) != size)
    return 2;
  fclose(file);
  for (size_t cut = 0; cut <= 1024 && cut <= size; cut++)
    look_at(contents, cut);
  look_at("#!", 2);
  look_at("#!\n", 3);
  look_at("#! \t \n", 6);
  look_at("#!/usr/bin/env\n", 15);
  look_at("#!/usr/bin/env -S A=1", 21);
  reasons = 0;
  mutate(strtoull(argv[2], NULL, 10));
  unlink(path);
  free(contents);
  free(changed);
  printf("%u of %s were said to keep their malloc\n", reasons, argv[2]);
  return reasons == 0; /* a table of contents that was never reached tells nothing */
}
