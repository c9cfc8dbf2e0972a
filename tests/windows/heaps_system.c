/* SPDX-License-Identifier: MIT
 * What tests of heaps ask of the system. Windows has no filters of system calls, and children end by codes, not signals. */
#include "../heap/heaps.h"
#include <windows.h>

#include <psapi.h> /* after <windows.h> */

void no_more_system_calls(void) {}

void in_sealed_child(void (*run)(void *), void *argument)
{
  (void)run, (void)argument;
  skip();
}

void ends_by_signal(void (*run)(void *), void *argument, int signal)
{
  (void)run, (void)argument, (void)signal;
  skip();
}

bool is_resident(const void *block, size_t size)
{
  PSAPI_WORKING_SET_EX_INFORMATION page;
  size_t count = 0, pages = 0;
  for (uintptr_t at = round_down((uintptr_t)block, 4096); at < (uintptr_t)block + size; at += 4096, pages++) {
    page.VirtualAddress = (void *)at;
    must(QueryWorkingSetEx(GetCurrentProcess(), &page, sizeof page));
    count += page.VirtualAttributes.Valid;
  }
  if (count != pages)
    print_error("%zu of %zu pages are in memory\n", count, pages);
  return count == pages;
}

bool may_lock(size_t size)
{
  void *memory = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  must(memory);
  bool may = VirtualLock(memory, size);
  VirtualFree(memory, 0, MEM_RELEASE);
  return may;
}

uint64_t now_ns(void)
{
  LARGE_INTEGER now, per_second;
  QueryPerformanceCounter(&now);
  QueryPerformanceFrequency(&per_second);
  return (uint64_t)now.QuadPart * (1000000000u / (uint64_t)per_second.QuadPart);
}
