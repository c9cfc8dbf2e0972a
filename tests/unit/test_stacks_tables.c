/* SPDX-License-Identifier: MIT
 * Tables that are not what they should be: nothing beyond them is read. */
#include "debug/linux_tables.h"
#include "debug/system.h"
#include "unit.h"
#include <link.h>
#include <sys/mman.h>

static uint64_t drawn = 88172645463325252u;
static uint64_t draw(void)
{
  drawn ^= drawn << 13;
  drawn ^= drawn >> 7;
  return drawn ^= drawn << 17;
}

static bool read_nothing(void *context, uintptr_t address, uintptr_t *word)
{
  (void)context;
  *word = address * 3;
  return address % 5 != 0;
}

static void compute_all(const module_t *module, const row_t *row)
{
  registers_t registers = {.known = draw()};
  expression_t e = {module, &registers, read_nothing, NULL, false};
  uintptr_t result = 1;
  for (int column = 0; column < COLUMNS; column++)
    if (row->rules[column] == RULE_EXPRESSION || row->rules[column] == RULE_VAL_EXPRESSION)
      table_compute(&e, row->values[column], &result);
  if (row->cfa_rule == RULE_VAL_EXPRESSION)
    table_compute(&e, row->cfa_value, &result);
  table_compute(&e, (int32_t)(draw() % (module->end - module->start)), &result);
}

/* From the index to the end of what is mapped with it. */
static int find_end(struct dl_phdr_info *info, size_t size, void *context)
{
  module_t *module = context;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && (uintptr_t)module->index - start < info->dlpi_phdr[i].p_filesz)
      module->end = start + info->dlpi_phdr[i].p_filesz;
  }
  return 0;
}

/* A copy that ends where nothing is mapped, and begins there the second time. */
static void mutate(const module_t *of, bool at_end)
{
  size_t page = os_page_size(), size = of->end - (uintptr_t)of->index, room_size = round_up(size, page);
  char *mapped = mmap(NULL, room_size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *copy = mapped + page;
  assert_int_equal(mprotect(copy, room_size, PROT_READ | PROT_WRITE), 0);
  if (at_end)
    copy += (room_size - size) / 16 * 16;
  uintptr_t moved = (uintptr_t)copy - (uintptr_t)of->index, text = (uintptr_t)of->start;
  unsigned found = 0;
  for (int i = 0; i < 3000; i++) {
    memcpy(copy, of->index, size);
    for (uint64_t changes = draw() % 200; changes; changes--)
      copy[i % 4 ? 12 + draw() % (size - 12) : draw() % 64] = (char)draw();
    module_t module = {.start = (uintptr_t)copy, .end = (uintptr_t)copy + size};
    module_set_index(&module, copy);
    for (int j = 0; j < 20; j++) {
      row_t row;
      if (!table_find_row(&module, text + draw() % ((uintptr_t)of->index - text + 4096) + moved, &row))
        continue;
      found++;
      compute_all(&module, &row);
    }
  }
  assert_true(found > 100);
  assert_int_equal(munmap(mapped, room_size + 2 * page), 0);
}

static void mutated_tables(void **state)
{
  (void)state;
  module_t module;
  assert_true(module_find((uintptr_t)mutate, &module) && module.index);
  module.end = 0;
  dl_iterate_phdr(find_end, &module);
  assert_true(module.end > (uintptr_t)module.index);
  mutate(&module, true);
  mutate(&module, false);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(mutated_tables)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
