/* SPDX-License-Identifier: MIT
 *
 * A table of stacks, by a sum of 64 bits that stands for all of their addresses: two stacks of one sum would be taken for one.
 * A stack that is new enters it once, and the thread that entered it writes it down, with the modules that came since. */
#include "debug/linux_find_object.h"
#include "debug/system.h"
#include "recorder.h"
#include <link.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PLACES_LOG2 = 20, PLACES = 1 << PLACES_LOG2, TAKEN_MOST = PLACES / 8 * 7, WAITS_MOST = 10000 };

#define MIX 0x9e3779b97f4a7c15u

/* Taken at the first recording: a program that is linked with the recorder may lock all of its memory. */
static uint64_t *sums; /* PLACES of each */
static uint32_t *numbers;
static uint32_t taken;   /* numbers, of stacks */
static uint32_t entered; /* stacks and modules */
static unsigned frames_most;

static uint64_t sum_with(uint64_t sum, uint64_t word)
{
  sum = (sum ^ word) * MIX;
  return sum ^ sum >> 32;
}

/* Where the sum stands. *is_new: it did not before. PLACES: the table is full. */
static size_t place_of(uint64_t sum, bool *is_new)
{
  sum += !sum;
  *is_new = false;
  for (size_t i = sum >> (64 - PLACES_LOG2);; i = (i + 1) % PLACES) {
    uint64_t there = __atomic_load_n(&sums[i], __ATOMIC_RELAXED);
    if (there == sum)
      return i;
    if (there)
      continue;
    if (__atomic_load_n(&entered, __ATOMIC_RELAXED) >= TAKEN_MOST)
      return PLACES;
    *is_new = __atomic_compare_exchange_n(&sums[i], &there, sum, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (*is_new)
      __atomic_add_fetch(&entered, 1, __ATOMIC_RELAXED);
    if (*is_new || there == sum)
      return i;
  }
}

/* ---- modules ----
 *
 * The C library of GNU says since 2.35 without a lock which module an address is in. With an older one all are listed under the
 * loader's lock, when there is one more. */

static uint32_t generation; /* how often modules were unloaded */

static int note_unloaded(struct dl_phdr_info *info, size_t size, void *unloaded)
{
  (void)size;
  *(uint64_t *)unloaded = info->dlpi_subs;
  return 1;
}

uint64_t sites_unloaded(void)
{
  uint64_t unloaded = 0;
  dl_iterate_phdr(note_unloaded, &unloaded);
  return unloaded;
}

void sites_forget_modules(void) { __atomic_add_fetch(&generation, 1, __ATOMIC_RELAXED); }

typedef struct module {
  uint64_t start, bytes, added;
  const char *name; /* "": the program's */
} module_t;

/* The program is another file's name, and a library's may be one of the folder of that moment. */
static bool full_name(const char *name, char full[RECORDING_NAME_MOST])
{
  size_t length = 0;
  if (!*name) {
    ssize_t read = readlink("/proc/self/exe", full, RECORDING_NAME_MOST - 1);
    full[read > 0 ? read : 0] = '\0';
    return true;
  }
  if (*name != '/' && strchr(name, '/')) {
    if (!getcwd(full, RECORDING_NAME_MOST - 1))
      return false;
    length = strlen(full);
    full[length++] = '/';
  }
  size_t more = strlen(name);
  if (length + more >= RECORDING_NAME_MOST)
    return false;
  memcpy(full + length, name, more + 1);
  return true;
}

/* The stack may be a coroutine's, of a few kilobytes, so the name is made in the chunk, behind where it will be. */
static void write_module(const module_t *module)
{
  enum { NUMBERS_MOST = 64 };
  if (!stream_has_room(NUMBERS_MOST + RECORDING_NAME_MOST))
    return;
  char *name = (char *)self.stream->at + NUMBERS_MOST;
  size_t length = full_name(module->name, name) ? strlen(name) : 0;
  if (!length) {
    memset(name, 0, RECORDING_NAME_MOST);
    return;
  }
  uint8_t *first = begin_put();
  put_number(module->added);
  put_number(module->start);
  put_number(module->bytes);
  put_number(length);
  uint8_t *at = self.stream->at;
  memmove(at, name, length);
  memset(at + length, 0, (size_t)((uint8_t *)name + RECORDING_NAME_MOST - (at + length)));
  self.stream->at += length;
  end_put(first, RECORDING_MODULE);
}

static void see_module(const module_t *module)
{
  bool is_new;
  uint64_t sum = sum_with(sum_with(1 + __atomic_load_n(&generation, __ATOMIC_RELAXED), module->added), module->start);
  for (const char *c = module->name; *c; c++)
    sum = sum_with(sum, (unsigned char)*c);
  size_t place = place_of(sum, &is_new);
  if (!is_new)
    return;
  __atomic_store_n(&numbers[place], UINT32_MAX, __ATOMIC_RELEASE);
  write_module(module);
}

static void see_modules_of(const os_stack_t *stack)
{
  found_object_t found = {.start = NULL};
  for (size_t i = 0; i < stack->count; i++) {
    uintptr_t place = (uintptr_t)stack->frames[i] - 1;
    if (place - (uintptr_t)found.start < (uintptr_t)found.end - (uintptr_t)found.start ||
        find_object((void *)place, &found) != 0)
      continue;
    see_module(&(module_t){(uintptr_t)found.start, (uintptr_t)found.end - (uintptr_t)found.start, found.map->l_addr,
                           found.map->l_name ? found.map->l_name : ""});
  }
}

static unsigned long long loaded_before;

static int see_listed(struct dl_phdr_info *info, size_t size, void *loaded)
{
  uint64_t from = UINT64_MAX, to = 0;
  (void)size;
  if (info->dlpi_adds == __atomic_load_n(&loaded_before, __ATOMIC_RELAXED))
    return 1;
  *(unsigned long long *)loaded = info->dlpi_adds;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD)
      continue;
    from = segment->p_vaddr < from ? segment->p_vaddr : from;
    to = segment->p_vaddr + segment->p_memsz > to ? segment->p_vaddr + segment->p_memsz : to;
  }
  if (from < to)
    see_module(&(module_t){info->dlpi_addr + from, to - from, info->dlpi_addr, info->dlpi_name ? info->dlpi_name : ""});
  return 0;
}

static void see_modules(const os_stack_t *stack)
{
  unsigned long long loaded = 0;
  if (find_object)
    see_modules_of(stack);
  else if (!dl_iterate_phdr(see_listed, &loaded))
    __atomic_store_n(&loaded_before, loaded, __ATOMIC_RELAXED);
}

/* ---- stacks ---- */

static void write_site(uint32_t number, const os_stack_t *stack)
{
  uint64_t last = 0;
  if (!stream_has_room(32 + stack->count * 10))
    return;
  uint8_t *first = begin_put();
  put_number(number);
  put_number(stack->count);
  for (size_t i = 0; i < stack->count; i++) {
    uint64_t frame = (uintptr_t)stack->frames[i];
    put_difference(frame, last);
    last = frame;
  }
  end_put(first, RECORDING_SITE);
}

/* Who enters a stack may be stopped meanwhile, also by what waits for the number. */
static uint32_t wait_for_number(size_t place)
{
  uint32_t number = 0;
  for (unsigned i = 0; i < WAITS_MOST && !number; i++) {
    if (i)
      sched_yield();
    number = __atomic_load_n(&numbers[place], __ATOMIC_ACQUIRE);
  }
  return number;
}

/* One function is known without a look at the stack. */
static void take_stack(const void *caller, os_stack_t *stack)
{
  stack->most = frames_most;
  stack->count = 0;
  if (frames_most <= 1) {
    stack->frames[stack->count++] = caller;
    return;
  }
  os_take_stack_at(self.frame, caller, stack);
}

uint32_t site_of_caller(const void *caller)
{
  bool is_new;
  os_stack_t stack;
  if (!frames_most)
    return 0;
  take_stack(caller, &stack);
  uint64_t sum = stack.count | (uint64_t)__atomic_load_n(&generation, __ATOMIC_RELAXED) << 32;
  for (size_t i = 0; i < stack.count; i++)
    sum = sum_with(sum, (uintptr_t)stack.frames[i]);
  size_t place = place_of(sum, &is_new);
  if (place == PLACES)
    return 0;
  if (is_new) {
    uint32_t number = __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
    see_modules(&stack);
    write_site(number, &stack);
    __atomic_store_n(&numbers[place], number, __ATOMIC_RELEASE);
    return number;
  }
  return wait_for_number(place);
}

/* A child has its parent's, and would copy what it only wants to be rid of. Memory that is locked cannot go. */
static void empty(void *array, size_t bytes)
{
  if (madvise(array, bytes, MADV_DONTNEED) != 0)
    memset(array, 0, bytes);
}

bool sites_begin(unsigned frames)
{
  frames_most = frames < OS_STACK_MOST ? frames : OS_STACK_MOST;
  sums = sums ? sums : take_memory(PLACES * sizeof *sums);
  numbers = numbers ? numbers : take_memory(PLACES * sizeof *numbers);
  if (!sums || !numbers)
    return false;
  if (frames > 1)
    os_load_stacks();
  if (taken) {
    empty(sums, PLACES * sizeof *sums);
    empty(numbers, PLACES * sizeof *numbers);
    taken = entered = 0;
    loaded_before = 0;
  }
  return true;
}
