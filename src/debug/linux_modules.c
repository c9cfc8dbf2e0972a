/* SPDX-License-Identifier: MIT
 *
 * Finds the module with code at an address. glibc does that since 2.35 without a lock. Others list their modules under a lock.
 * A static program finds its headers through the auxiliary vector. Names that libraries may lack are weak. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "debug/linux_find_object.h"
#include "debug/linux_tables.h"
#include "debug/system.h"
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#ifdef HAS_TABLES

#pragma weak dl_iterate_phdr

enum { SECTION_ENCODING = 0x1b, COUNT_ENCODING = 0x03, ENTRY_ENCODING = 0x3b }; /* pcrel, sdata4; udata4; datarel, sdata4 */

enum { MARK_WORDS = 32 };
#define MARK_FACTOR 0x9e3779b97f4a7c15u
static uint64_t mix_mark(uint64_t sum, uint64_t word) { return (sum ^ word) * MARK_FACTOR; }

static size_t index_length(const table_index_t *index) { return sizeof *index + index->count * sizeof *index->entries; }

static bool is_index(const module_t *module, const table_index_t *index)
{
  uintptr_t at = (uintptr_t)index;
  return at >= module->start && at <= module->end && module->end - at >= sizeof *index && at % _Alignof(table_index_t) == 0 &&
         index->version == 1 && index->count_encoding == COUNT_ENCODING && index->entry_encoding == ENTRY_ENCODING &&
         index->count && index_length(index) <= module->end - at;
}

static uint64_t mix_tables(const module_t *module, uint64_t sum)
{
  const table_index_t *i = module->index;
  uintptr_t at = (uintptr_t)&i->section + (uintptr_t)(intptr_t)i->section;
  uint64_t words[MARK_WORDS];
  if (i->section_encoding != SECTION_ENCODING || at < module->start || at > module->end || module->end - at < sizeof words)
    return sum;
  memcpy(words, (const void *)at, sizeof words);
  uint64_t a = sum, b = 0, c = 0, d = 0; /* four sums, so that no multiplication waits for another */
  for (const uint64_t *word = words; word < words + MARK_WORDS; word += 4) {
    a = a * MARK_FACTOR + word[0];
    b = b * MARK_FACTOR + word[1];
    c = c * MARK_FACTOR + word[2];
    d = d * MARK_FACTOR + word[3];
  }
  return mix_mark(mix_mark(mix_mark(a ^ a >> 32, b), c), d);
}

/* The mark tells a library from its rebuilt successor, which may have its index at the same address. It would need as many
 * functions, the first and last at the same places, a table of the same length, and the same beginning. If so, a walk may end
 * early or report calls that were not made. (The notes behind the file's header would tell the two apart. But a program may
 * have made that page inaccessible, and checking takes longer than walking the frames of a module.) */
void module_set_index(module_t *module, const void *index)
{
  const table_index_t *i = index;
  module->index = is_index(module, i) ? i : NULL;
  module->mark = mix_mark(0, (uintptr_t)index);
  if (!module->index)
    return;
  uint64_t first, last;
  memcpy(&first, &i->entries[0], sizeof first);
  memcpy(&last, &i->entries[i->count - 1], sizeof last);
  module->mark = mix_mark(mix_mark(mix_mark(module->mark, (uint64_t)i->count << 32 | (uint32_t)i->section), first), last);
  module->mark = mix_tables(module, module->mark);
}

typedef struct search {
  uintptr_t pc;
  module_t *module;
} search_t;

/* Finds a segment that holds the address, and the index in a loaded one. */
static int look_at_module(struct dl_phdr_info *info, size_t size, void *context)
{
  const search_t *search = context;
  (void)size;
  uintptr_t index = 0;
  bool holds = false;
  module_t module = {UINTPTR_MAX, 0, NULL, 0};
  for (const ElfW(Phdr) *at = info->dlpi_phdr, *end = at + info->dlpi_phnum; at < end; at++) {
    uintptr_t start = info->dlpi_addr + at->p_vaddr;
    if (at->p_type == PT_GNU_EH_FRAME)
      index = start;
    if (at->p_type != PT_LOAD)
      continue;
    holds |= search->pc - start < at->p_memsz;
    module.start = min_size(module.start, start);
    module.end = max_size(module.end, start + at->p_memsz);
  }
  if (holds) {
    *search->module = module;
    module_set_index(search->module, (const void *)index);
  }
  return holds;
}

/* Returns the distance from linked to loaded addresses. The program headers follow the file's, unless stated otherwise. */
static uintptr_t base_of(const ElfW(Phdr) * headers, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (headers[i].p_type == PT_PHDR)
      return (uintptr_t)headers - headers[i].p_vaddr;
    if (headers[i].p_type == PT_LOAD && !headers[i].p_offset)
      return (uintptr_t)headers - sizeof(ElfW(Ehdr)) - headers[i].p_vaddr;
  }
  return 0;
}

static bool look_at_program(search_t *search)
{
  const ElfW(Phdr) *headers = (const void *)getauxval(AT_PHDR);
  size_t count = headers ? getauxval(AT_PHNUM) : 0;
  struct dl_phdr_info program = {.dlpi_addr = base_of(headers, count), .dlpi_phdr = headers, .dlpi_phnum = (ElfW(Half))count};
  return look_at_module(&program, sizeof program, search);
}

static bool names_loader(void)
{
  const ElfW(Phdr) *headers = (const void *)getauxval(AT_PHDR);
  for (size_t left = headers ? getauxval(AT_PHNUM) : 0; left; left--)
    if (headers[left - 1].p_type == PT_INTERP)
      return true;
  return false;
}

/* A static program allocates while the data of find_object() is being set up. That never has its index, only its code. */
static bool is_alone(void)
{
  enum { UNKNOWN, ALONE, LOADED };
  static uint32_t known; /* constant once set */
  uint32_t kind = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (unlikely(kind == UNKNOWN)) {
    kind = names_loader() ? LOADED : ALONE;
    __atomic_store_n(&known, kind, __ATOMIC_RELAXED);
  }
  return kind == ALONE;
}

bool module_find(uintptr_t pc, module_t *module)
{
  search_t search = {pc, module};
  found_object_t found;
  if (unlikely(is_alone()))
    return look_at_program(&search);
  if (!find_object)
    return dl_iterate_phdr && dl_iterate_phdr(look_at_module, &search);
  if (find_object((void *)pc, &found) != 0)
    return false;
  module->start = (uintptr_t)found.start;
  module->end = (uintptr_t)found.end;
  module_set_index(module, found.index);
  return true;
}

#endif
