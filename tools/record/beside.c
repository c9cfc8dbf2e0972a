/* SPDX-License-Identifier: MIT */
#include "beside.h"
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

bool beside_is_used;
static beside_t *all;
static uint32_t unloaded;

static bool holds(const beside_t *of, uint32_t now)
{
  return (int32_t)(__atomic_load_n(&of->unloaded, __ATOMIC_RELAXED) - now) >= 0;
}

beside_t *beside_find(const beside_kind_t *kind, const void *caller)
{
  uint32_t now = __atomic_load_n(&unloaded, __ATOMIC_ACQUIRE);
  for (beside_t *of = __atomic_load_n(&all, __ATOMIC_ACQUIRE); of; of = of->next)
    if (of->kind == kind && (uintptr_t)caller - of->start < of->end - of->start && holds(of, now))
      return of;
  return NULL;
}

static bool is_in_this(const void *address)
{
  Dl_info of, own;
  return dladdr(address, &of) && dladdr(__extension__(void *) beside_symbol, &own) && of.dli_fbase == own.dli_fbase;
}

/* Another thread may have closed it meanwhile, and then it is unloaded here: nothing is renewed, since that is who asks. */
static void close_module(void *module)
{
  uint64_t before = sites_unloaded();
  next_dlclose(module);
  if (sites_unloaded() == before)
    return;
  sites_forget_modules();
  __atomic_add_fetch(&unloaded, 1, __ATOMIC_RELEASE);
}

void *beside_symbol(const void *caller, const char *name)
{
  Dl_info about;
  void *module = dladdr(caller, &about) && about.dli_fname ? dlopen(about.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  void *found = module ? dlsym(module, name) : NULL;
  if (module)
    close_module(module);
  return found && !is_in_this(found) ? found : NULL;
}

/* The segments of the module that the address is in. */
typedef struct range {
  uintptr_t of, start, end;
} range_t;

static int note_range(struct dl_phdr_info *info, size_t size, void *to)
{
  range_t *range = to;
  uintptr_t from = UINTPTR_MAX, end = 0;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD)
      continue;
    uintptr_t at = info->dlpi_addr + segment->p_vaddr;
    from = at < from ? at : from;
    end = at + segment->p_memsz > end ? at + segment->p_memsz : end;
  }
  if (from > range->of || range->of >= end)
    return 0;
  range->start = from;
  range->end = end;
  return 1;
}

/* Not entered yet; NULL: the module has none, or there is none. */
static beside_t *look_for(const beside_kind_t *kind, const void *caller)
{
  range_t range = {.of = (uintptr_t)caller};
  bool was_busy = self.busy;
  beside_t *of = take_memory(kind->bytes);
  self.busy = true; /* the loader allocates */
  bool is_good = of && dl_iterate_phdr(note_range, &range) && kind->fill(of, caller);
  self.busy = was_busy;
  if (!is_good) {
    if (of)
      munmap(of, kind->bytes);
    return NULL;
  }
  of->kind = kind;
  of->start = range.start;
  of->end = range.end;
  return of;
}

/* Two threads may make one of the same module each. What is found is found with the loader's lock. */
beside_t *beside_make(const beside_kind_t *kind, const void *caller)
{
  uint32_t now = __atomic_load_n(&unloaded, __ATOMIC_ACQUIRE);
  beside_t *of = look_for(kind, caller);
  if (!of)
    return NULL;
  of->unloaded = now;
  of->next = __atomic_load_n(&all, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&all, &of->next, of, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
  __atomic_store_n(&beside_is_used, true, __ATOMIC_RELEASE);
  return of;
}

/* Whether what would be found now is what was found then. */
static bool is_there(const beside_t *of)
{
  beside_t *now = look_for(of->kind, (const void *)of->start);
  if (!now)
    return false;
  bool is_same =
    now->start == of->start && now->end == of->end && memcmp(now + 1, of + 1, of->kind->functions - sizeof *of) == 0;
  munmap(now, of->kind->bytes);
  return is_same;
}

/* Who calls meanwhile finds those that are renewed already. Where two threads unload at once, some are not. */
void beside_forget(void)
{
  uint32_t before = __atomic_load_n(&unloaded, __ATOMIC_ACQUIRE);
  for (beside_t *of = __atomic_load_n(&all, __ATOMIC_ACQUIRE); of; of = of->next)
    if (holds(of, before) && is_there(of))
      __atomic_store_n(&of->unloaded, before + 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&unloaded, 1, __ATOMIC_RELEASE);
}
