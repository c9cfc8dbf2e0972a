/* SPDX-License-Identifier: MIT
 *
 * A live block may be looked at while its thread is anywhere in taking it, shrinking it or giving it back: another thread ends
 * the process, or the process is the child of a fork. Here a tracer stops one side at each of its instructions in turn, and the
 * other side goes on. Skipped where the system lets nobody trace, or cannot stop after an instruction. */
#include "debug/head.h"
#include "traced.h"
#include <sys/mman.h>

enum { USABLE = 256, SIZE = 100, LESS = 40, CYCLES = 3, LOOKS = 200 };

static char *memory; /* of both sides */

static headed_t by(const char *call) { return (headed_t){memory, USABLE, NULL, call, false, false, 77, false}; }

static void be_live(size_t size) { must(head_open(by("open"), size, 1, true) == memory + HEAD_FRONT); }

/* With a link, as the quarantine leaves it. */
static void be_returned(void)
{
  must(head_close(by("close")));
  head_link(memory, memory);
}

static void owner(void)
{
  for (int i = 0; i < CYCLES; i++) {
    be_live(SIZE);
    head_shorten(by("shorten"), LESS);
    be_returned();
  }
}

static void verifier(void)
{
  for (int i = 0; i < LOOKS; i++)
    head_verify_live(by("look"), false);
}

static void setup(void)
{
  memory = mmap(NULL, USABLE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  must(memory != MAP_FAILED);
  head_open(by("open"), SIZE, 1, false);
  be_returned();
}

static void owner_stops(void *unused)
{
  (void)unused;
  setup();
  bool is_traced;
  size_t seen[HEAD_FREED + 1] = {0};
  pid_t child = traced_start(owner);
  if (!child)
    return;
  while (traced_step(child, &is_traced)) {
    seen[head_look(memory, USABLE).state]++;
    head_verify_live(by("look"), false);
  }
  must(!is_traced || (seen[HEAD_NONE] && seen[HEAD_LIVE] && seen[HEAD_FREED]));
}

/* The block is taken and given back so often that a look finds it live, given back, and live again. */
static void verifier_stops(void *unused)
{
  (void)unused;
  setup();
  bool is_traced;
  pid_t child = traced_start(verifier);
  if (!child)
    return;
  for (size_t steps = 0; traced_step(child, &is_traced); steps++) {
    size_t every = 1 + steps / 1000 % 100;
    if (steps % every)
      continue;
    if (head_look(memory, USABLE).state == HEAD_LIVE)
      be_returned();
    else
      be_live(SIZE);
  }
}

IN_CHILD(owner_stops)
IN_CHILD(verifier_stops)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(owner_stops_test),
    cmocka_unit_test(verifier_stops_test),
  };
  return cmocka_run_group_tests_name("head_steps", tests, NULL, NULL);
}
