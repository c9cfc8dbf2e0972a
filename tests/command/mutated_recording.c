/* SPDX-License-Identifier: MIT
 *
 *   mutated_recording ROUNDS
 *
 * Whatever a file holds, it is a recording or is refused with words; reading it ends, and each event that is read fits those
 * before it: a slot is a block's from its allocation to its free. What can be read can be made a plan, too. */
#include "../../tools/command/replay/plan.h"
#include "mutated.h"
#include "recording/heap_names.h"
#include "recording_image.h"
#include <sys/mman.h>

enum { BLOCKS = 64, SLOTS = 1 << 20, EVENTS = 400 };

static char path[] = "/tmp/tidepool-mutated-XXXXXX";
static int file;
static uint64_t sizes[SLOTS];
static bool is_live[SLOTS];
static uint32_t slot_heaps[SLOTS];

/* ---- one that is good ---- */

static uint32_t heaps[IMAGE_CHUNKS], heap_of[BLOCKS]; /* of each chunk's next block, and of each block */

static void enter_heap(size_t chunk)
{
  if (any() % 4 == 0)
    image_in(chunk, heaps[chunk] = (uint32_t)(any() % 4));
}

static void add_event(size_t chunk, uint64_t ns, uint64_t *addresses)
{
  uint64_t *address = &addresses[any() % BLOCKS], fresh = 0x7f0000000000 + any() % (1u << 30) * 16;
  uint64_t size = any() % 4 ? any() % 1000 : any() % (1u << 30);
  enter_heap(chunk);
  if (!*address && any() % 4 == 0)
    image_aligned(chunk, ns, *address = fresh, size, any() % 12);
  else if (!*address)
    image_alloc(chunk, ns, *address = fresh, size);
  else if (any() % 3 == 0) {
    image_realloc(chunk, ns, 3, *address, fresh, size);
    *address = fresh;
  } else {
    image_free(chunk, ns, *address);
    *address = 0;
  }
  heap_of[address - addresses] = heaps[chunk];
}

/* Three streams; the first has two chunks. Blocks are freed by other threads than theirs, and some by their heap's end: so many
 * it returns. */
static size_t make_image(void)
{
  uint64_t addresses[BLOCKS] = {0};
  size_t chunks[4];
  image_begin();
  for (size_t i = 0; i < 4; i++)
    chunks[i] = image_add((uint32_t)i % 3 + 1, (uint32_t)i % 3 + 1, i == 3 ? EVENTS * 21 : i);
  memset(heaps, 0, sizeof heaps);
  image_module(chunks[0], "/usr/lib/library.so");
  image_heap(chunks[0], 0, 1, 0, RECORDING_KIND_HEAP, "heap");
  image_heap(chunks[1], 1, 2, 0, RECORDING_KIND_HEAP, "heap");
  image_heap(chunks[2], 2, 3, 1, RECORDING_KIND_OBJECT_POOL, "");
  image_site(chunks[0], 1, 4);
  for (uint64_t i = 1; i <= EVENTS * 3; i++) {
    size_t chunk = chunks[i >= EVENTS * 2 ? 1 + any() % 3 : any() % 3];
    add_event(chunk, i * 10 + EVENTS, addresses);
    if (any() % 64 == 0)
      image_thread(chunk, (uint32_t)(any() % 10) + 1);
  }
  image_failed(chunks[1], EVENTS * 40, 12345);
  image_drop(chunks[1], EVENTS * 40 + 1, 1);
  size_t dropped = 0;
  for (size_t i = 0; i < BLOCKS; i++)
    dropped += addresses[i] && heap_of[i] % 2; /* the first, and the third in it */
  return dropped;
}

/* ---- what is read ---- */

static void follow(const event_t *event, uint64_t *live)
{
  bool allocates = event->op == RECORDING_ALLOC || event->op == RECORDING_ZEROED || event->op == RECORDING_ALIGNED;
  if (!allocates && event->op != RECORDING_FREE && event->op != RECORDING_REALLOC)
    return;
  expect(event->slot < SLOTS, "a slot is too high");
  expect(is_live[event->slot] != allocates, "a block is there twice, or not at all");
  expect(allocates || event->old_size == sizes[event->slot], "a block has another size");
  expect(event->heap <= RECORDING_HEAPS_MOST, "a number of a heap is too high");
  expect(event->op != RECORDING_FREE || event->heap == slot_heaps[event->slot], "a block is of another heap");
  slot_heaps[event->slot] = event->heap;
  *live -= allocates ? 0 : sizes[event->slot];
  is_live[event->slot] = event->op != RECORDING_FREE;
  sizes[event->slot] = event->op != RECORDING_FREE ? event->size : 0;
  *live += sizes[event->slot];
}

/* Heaps have names that a reader can print and look up. */
static void name_heaps(heap_names_t *names, const event_t *event)
{
  if (event->op == RECORDING_HEAP)
    expect(heap_names_describe(names, event), "no memory");
  else
    expect(heap_names_of(names, event->heap) < names->count, "a heap has no number");
}

static void end_names(heap_names_t *names)
{
  uint32_t to[HEAP_NAMES_MOST], before = names->count;
  heap_names_end(names, to);
  for (uint32_t i = 0; i < before; i++)
    expect(to[i] < names->count, "a heap has lost its name");
  heap_names_free(names);
}

static bool read_file(uint64_t *events, bool *is_damaged)
{
  heap_names_t names;
  char why[256] = "", lacks[256];
  uint64_t live = 0, last = 0;
  event_t event;
  recording_t *recording = recording_open(path, why);
  expect(recording || (*why && strlen(why) < sizeof why), "it was refused without words");
  if (!recording)
    return false;
  memset(is_live, 0, sizeof is_live);
  expect(heap_names_begin(&names), "no memory");
  while (recording_next(recording, &event)) {
    expect(event.ns >= last, "time goes back");
    expect(event.op != RECORDING_MODULE || strlen(event.name) <= RECORDING_NAME_MOST, "a name is too long");
    last = event.ns;
    name_heaps(&names, &event);
    follow(&event, &live);
  }
  const recording_facts_t *facts = recording_facts(recording);
  expect(facts->live_bytes == live && !recording_error(recording), "the sums are wrong");
  *is_damaged = recording_lacks(facts, lacks);
  *events = facts->events;
  end_names(&names);
  recording_close(recording);
  return true;
}

static bool has_plan(void)
{
  char why[256] = "";
  recording_t *recording = recording_open(path, why);
  int made = recording ? plan_make(recording, why) : -1;
  expect(made >= 0 || *why, "a plan was refused without words");
  if (recording)
    recording_close(recording);
  if (made < 0)
    return false;
  plan_t *plan = plan_map(made);
  expect(plan && plan->operation_count && plan->batch_count <= plan->operation_count, "a plan is none");
  munmap(plan, plan->bytes);
  close(made);
  return true;
}

/* ---- changes ---- */

/* Where there is something: in the head, or among the events of a chunk. */
static size_t any_place(void)
{
  size_t chunk = any() % image_count;
  size_t used = chunk ? (size_t)(image_chunks[chunk].at - image) - chunk * RECORDING_CHUNK : 128;
  return chunk * RECORDING_CHUNK + any() % (any() % 8 == 0 ? 32 : used + 16);
}

static void change(void)
{
  static const uint8_t values[] = {0, 1, 4, 5, 7, 8, 9, 10, 0x7f, 0x80, 0xff};
  uint8_t byte = any() % 2 ? values[any() % sizeof values] : (uint8_t)any();
  size_t at = any_place();
  for (uint64_t count = any() % 8 ? 1 : any() % 12; count > 0; count--, at++)
    if (pwrite(file, &byte, 1, (off_t)at) != 1)
      abort();
}

/* Exchanges two chunks, or has one twice. */
static void shuffle(void)
{
  size_t from = any() % image_count, to = any() % (image_count + 1);
  if (pwrite(file, image + from * RECORDING_CHUNK, RECORDING_CHUNK, (off_t)(to * RECORDING_CHUNK)) != RECORDING_CHUNK)
    abort();
}

static void mutate(void)
{
  image_write(file);
  for (uint64_t changes = 1 + any() % 4; changes > 0; changes--)
    change();
  if (any() % 8 == 0)
    shuffle();
  if (any() % 8 == 0 && ftruncate(file, (off_t)(any() % (image_count * RECORDING_CHUNK + 100))) != 0)
    abort();
}

int main(int argc, char **argv)
{
  uint64_t rounds = argc == 2 ? strtoull(argv[1], NULL, 10) : 0, taken = 0, whole = 0, events = 0;
  bool is_damaged = true;
  file = mkstemp(path);
  if (file < 0)
    return 2;
  size_t dropped = make_image();
  image_write(file);
  expect(read_file(&events, &is_damaged) && !is_damaged && events == EVENTS * 3 + 1 + dropped && dropped,
         "the good one is not read");
  for (uint64_t i = 0; i < rounds; i++) {
    mutate();
    bool is_taken = read_file(&events, &is_damaged);
    taken += is_taken;
    whole += is_taken && !is_damaged;
    if (i % 16 == 0)
      expect(has_plan() || !is_taken || !events || is_damaged, "there is no plan");
  }
  unlink(path);
  printf("%llu of %llu were recordings, %llu of them whole\n", (unsigned long long)taken, (unsigned long long)rounds,
         (unsigned long long)whole);
  return taken < rounds / 10 || taken == rounds || whole == taken; /* each would tell little */
}
