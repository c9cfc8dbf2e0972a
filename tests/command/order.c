/* SPDX-License-Identifier: MIT
 *
 * The order of events of several threads: where the times of a recording do not tell, the addresses do. */
#include "recording_image.h"

enum { X = 0x1000, Y = 0x2000, Z = 0x3000 };

static char path[] = "/tmp/tidepool-order-XXXXXX";
static int file;
static unsigned wrong;

/* Reads what was written: a letter for each event, and the thread of it. */
static void read_as(const char *name, const char *wanted, uint64_t unknown, uint64_t missed)
{
  static const char letters[RECORDING_OPS] = {
    [RECORDING_ALLOC] = 'a',  [RECORDING_ALIGNED] = 'l', [RECORDING_FREE] = 'f',   [RECORDING_REALLOC] = 'r',
    [RECORDING_FAILED] = 'x', [RECORDING_SITE] = 's',    [RECORDING_MODULE] = 'm', [RECORDING_HEAP] = 'h'};
  char why[256] = "", text[256] = "";
  size_t length = 0;
  uint64_t last = 0;
  event_t event;
  image_write(file);
  recording_t *recording = recording_open(path, why);
  if (!recording)
    abort();
  while (recording_next(recording, &event) && length < sizeof text - 8) {
    wrong += event.ns < last;
    last = event.ns;
    length += (size_t)sprintf(text + length, "%s%c%u", length ? " " : "", letters[event.op], event.thread);
  }
  const recording_facts_t *facts = recording_facts(recording);
  bool is_right = !strcmp(text, wanted) && facts->unknown == unknown && facts->missed == missed && !facts->damaged_chunks;
  if (!is_right)
    printf("%s: %s, not %s; unknown %llu, missed %llu\n", name, text, wanted, (unsigned long long)facts->unknown,
           (unsigned long long)facts->missed);
  wrong += !is_right;
  recording_close(recording);
}

/* Two or three streams of a thread each. */
static void begin(size_t *one, size_t *two, size_t *three)
{
  image_begin();
  *one = image_add(1, 1, 0);
  *two = image_add(2, 2, 0);
  if (three)
    *three = image_add(3, 3, 0);
}

static void one_after_the_other(void)
{
  size_t one, two;
  begin(&one, &two, NULL);
  image_alloc(one, 10, X, 100);
  image_free(two, 20, X);
  image_alloc(one, 30, X, 100);
  image_free(two, 40, X);
  read_as("times", "a1 f2 a1 f2", 0, 0);
}

/* The clock of the second is 50 ns behind. */
static void clocks_that_differ(void)
{
  size_t one, two;
  begin(&one, &two, NULL);
  image_alloc(two, 100, X, 100);
  image_free(one, 60, X);
  image_alloc(one, 120, X, 100);
  image_free(two, 115, X);
  read_as("a clock behind", "a2 f1 a1 f2", 0, 0);
  begin(&one, &two, NULL);
  image_alloc(one, 100, X, 100);
  image_free(one, 200, X);
  image_alloc(two, 150, X, 100);
  read_as("an allocation before the free", "a1 f1 a2", 0, 0);
  begin(&one, &two, NULL);
  image_alloc(one, 100, X, 100);
  image_free(two, 100, X);
  image_alloc(one, 100, X, 100);
  image_free(two, 100, X);
  read_as("one time for all", "a1 f2 a1 f2", 0, 0);
}

static void reallocations(void)
{
  size_t one, two, three;
  begin(&one, &two, &three);
  image_alloc(one, 10, X, 100);
  image_alloc(three, 20, Y, 100);
  image_realloc(one, 100, 100, X, Y, 200);
  image_alloc(two, 150, X, 100); /* had it before the other was back */
  image_free(three, 120, Y);     /* and this one began before that was free */
  read_as("a realloc between", "a1 a3 f3 r1 a2", 0, 0);
  begin(&one, &two, NULL);
  image_alloc(one, 10, X, 100);
  image_alloc(two, 20, Y, 100);
  image_realloc(two, 90, 160, Y, Z, 200);
  image_realloc(one, 100, 100, X, Y, 200); /* got what the other left, and was back first */
  read_as("one realloc after the other", "a1 a2 r2 r1", 0, 0);
  begin(&one, &two, NULL);
  image_alloc(one, 10, X, 100);
  image_realloc(one, 20, 5, X, X, 200);
  image_free(two, 22, X);
  read_as("in place", "a1 r1 f2", 0, 0);
}

static void what_is_missing(void)
{
  size_t one, two;
  begin(&one, &two, NULL);
  image_free(one, 10, X);
  image_alloc(one, 20, X, 100);
  image_alloc(one, 30, X, 100);
  image_realloc(two, 40, 5, Y, Z, 200);
  image_realloc(two, 50, 5, Z, X, 200);
  read_as("unknown and missed", "a1 f1 a1 a2 f2 r2", 2, 2);
}

static void other_events(void)
{
  size_t one, two;
  begin(&one, &two, NULL);
  image_module(one, "library");
  image_site(one, 1, 3);
  image_aligned(one, 10, X, 100, 6);
  image_thread(one, 3);
  image_failed(one, 20, UINT64_MAX);
  image_free(two, 15, X);
  read_as("others", "m1 s1 l1 f2 x3", 0, 0);
}

/* What a heap ends at once comes newest first, and then what its object pools have; what others have stays. */
static void heaps(void)
{
  size_t one, two, three;
  begin(&one, &two, &three);
  image_heap(one, 0, 1, 0, RECORDING_KIND_HEAP, "heap");
  image_in(one, 1);
  image_alloc(one, 10, X, 100);
  image_in(two, 2);
  image_alloc(two, 20, Y, 100);
  image_in(two, 0);
  image_alloc(two, 30, Z, 100);
  image_drop(three, 40, 1);
  image_heap(three, 45, 2, 1, RECORDING_KIND_OBJECT_POOL, "described after its first object");
  image_alloc(one, 50, X, 100);
  image_drop(one, 60, 1);
  image_drop(one, 70, 1);
  image_drop(one, 80, 77);
  image_free(two, 90, Z);
  read_as("drops", "h1 a1 a2 a2 f3 h3 a1 f1 f1 f2", 0, 0);
  begin(&one, &two, NULL);
  image_in(one, 1);
  image_alloc(one, 10, X, 100);
  image_alloc(one, 20, X, 100);
  image_in(two, 1);
  image_alloc(two, 30, X, 100);
  read_as("an object is taken from its user", "a1 f1 a1 f2 a2", 0, 0);
  begin(&one, &two, NULL);
  image_in(one, 1);
  image_alloc(one, 10, X, 100);
  image_realloc(one, 20, 50, X, Y, 200);
  image_drop(two, 40, 1);
  read_as("a drop while a block moves", "a1 f2 a1", 0, 0);
  begin(&one, &two, NULL);
  image_in(one, 1);
  image_alloc(one, 10, X, 100);
  image_drop(one, 20, 1);
  image_heap(two, 30, 1, 0, RECORDING_KIND_HEAP, "another, of a thread that had done nothing yet");
  read_as("a heap where another was", "a1 f1 h2", 0, 0);
}

int main(void)
{
  file = mkstemp(path);
  if (file < 0)
    return 2;
  one_after_the_other();
  clocks_that_differ();
  reallocations();
  what_is_missing();
  other_events();
  heaps();
  unlink(path);
  return wrong != 0;
}
