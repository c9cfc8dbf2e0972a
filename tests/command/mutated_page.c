/* SPDX-License-Identifier: MIT
 * What a process shares with tidepool top, with bytes of its head changed at random, is read; here it is shared by this very
 * process. Nothing may be read outside of it, and no answer may take longer than was allowed.
 *
 * usage: mutated_page ROUNDS */
#include "../../tools/command/command.h"
#include "../../tools/command/live/live.h"
#include "../dice.h"
#include "debug/export_page.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What main.c has. */
pid_t command_pid(const char *text) { return (pid_t)atoi(text); }

void command_fail(int status, const char *format, ...)
{
  fprintf(stderr, "%s\n", format);
  exit(status);
}

static export_page_t *share(void)
{
  int file = memfd_create(EXPORT_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0 || ftruncate(file, EXPORT_FIRST_BYTES) != 0 || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return NULL;
  void *page = mmap(NULL, EXPORT_FIRST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return page == MAP_FAILED ? NULL : page;
}

static uint64_t dice = 1;
static uint32_t draw(uint32_t n) { return (uint32_t)below(&dice, n); }

static void mutate(export_page_t *page)
{
  unsigned char *bytes = (unsigned char *)page;
  for (uint32_t changes = draw(4); changes--;)
    bytes[draw(sizeof *page)] = (unsigned char)(draw(3) ? draw(256) : 0);
}

int main(int argc, char **argv)
{
  static const char text[] = "{\"heaps\":[]}";
  export_page_t *page = share();
  int rounds = argc > 1 ? atoi(argv[1]) : 0, asked = 0, answers = 0;
  if (!page) {
    puts("no memory can be shared");
    return 77;
  }
  for (int i = 0; i < rounds; i++) {
    live_t live;
    char why[256] = "";
    *page = (export_page_t){.mark = EXPORT_MARK,
                            .version = EXPORT_VERSION,
                            .header_bytes = sizeof *page,
                            .answered = 1000,
                            .process = (uint32_t)getpid(),
                            .length = sizeof text - 1,
                            .needed = sizeof text,
                            .capacity = EXPORT_FIRST_BYTES - sizeof *page};
    memcpy(page + 1, text, sizeof text);
    if (i)
      mutate(page);
    if (!live_open(&live, getpid(), why)) {
      if (!i || !why[0])
        return 1;
      continue;
    }
    asked++;
    bool answered = live_ask(&live, 1, why);
    if (answered ? !live.text || live.text[live.length] != 0 : !why[0])
      return 2;
    answers += answered && live.length == sizeof text - 1 && memcmp(live.text, text, sizeof text) == 0;
    live_close(&live);
  }
  printf("%d asked, %d answered as they should\n", asked, answers);
  return asked > rounds / 2 && answers > rounds / 4 ? 0 : 3;
}
