/* SPDX-License-Identifier: MIT
 * Which memory has the name of its heap in /proc/PID/maps, with names=1, and that it loses it. */
#include "heap/heap.h"
#include "levels.h"
#include "os_fake.h"
#include "unit.h"
#include <tidepool/heap.h>

enum { NAMES_MOST = 64 };

static struct {
  const char *from, *to;
  char name[HEAP_NAME_SIZE];
} names[NAMES_MOST];
static size_t name_count;

/* The last name of a place counts. */
static void note(const char *address, size_t size, const char *name)
{
  must(name_count < NAMES_MOST && (uintptr_t)address % os_page_size() == 0 && size % os_page_size() == 0);
  names[name_count].from = address;
  names[name_count].to = address + size;
  strcpy(names[name_count++].name, name ? name : "");
}

static const char *name_at(const void *address)
{
  for (size_t i = name_count; i > 0; i--)
    if ((const char *)address >= names[i - 1].from && (const char *)address < names[i - 1].to)
      return names[i - 1].name;
  return NULL;
}

static void begin(void)
{
  manager_up();
  os_has_names = true;
  os_fake.named = note;
}

/* Of granules, of small units, and of slots: what was set aside has a name, and what another heap may have next has none. */
static void regions(void *argument)
{
  const pool_heap_options_t *options = argument;
  begin();
  pool_heap_t *heap = pool_heap_create(options);
  must(heap);
  void *block = pool_heap_alloc(heap, 100);
  must(block && name_at(block) && !strcmp(name_at(block), options->name));
  pool_heap_destroy(heap);
  must(!*name_at(block));
}

static void regions_test(void **state)
{
  static const pool_heap_options_t options[] = {{.name = "granules", .budget = 512 << 10, .flags = POOL_HEAP_SINGLE_THREAD},
                                                {.name = "dense", .budget = 6 << 20, .flags = POOL_HEAP_DENSE},
                                                {.name = "small units", .budget = 4 << 20},
                                                {.name = "slots", .reserve = 32 << 20}};
  (void)state;
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    in_child_named(options[i].name, regions, (void *)(uintptr_t)&options[i]);
}

static void mappings(void *unused)
{
  (void)unused;
  begin();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "pictures"});
  char *block = pool_heap_alloc(heap, 2 * SLOT); /* a mapping of its own */
  must(block && !strcmp(name_at(block), "pictures") && !strcmp(name_at(block + SLOT), "pictures"));
}

/* What is the caller's has no name of ours, nor what heaps share. */
static void others(void *unused)
{
  (void)unused;
  begin();
  static char memory[1 << 20];
  pool_heap_t *guest =
    pool_heap_create(&(pool_heap_options_t){.name = "guest", .memory = memory, .memory_size = sizeof memory});
  pool_heap_t *plain = pool_heap_create(&(pool_heap_options_t){.name = "plain"});
  must(guest && plain && pool_heap_alloc(guest, 100) && pool_heap_alloc(plain, 100) && !name_count);
}

static void unasked(void *unused)
{
  (void)unused;
  begin();
  os_has_names = false;
  must(pool_heap_create(&(pool_heap_options_t){.name = "granules", .budget = 512 << 10}) && !name_count);
}

IN_CHILD(mappings)
IN_CHILD(others)
IN_CHILD(unasked)

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(regions_test), cmocka_unit_test(mappings_test),
                                     cmocka_unit_test(others_test), cmocka_unit_test(unasked_test)};
  return cmocka_run_group_tests_name("names of memory", tests, time_stands_still, NULL);
}
