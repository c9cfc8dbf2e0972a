/* SPDX-License-Identifier: MIT
 * The window, random numbers and os_forbid(), which every system with address spaces has alike. */
#include "base/bits.h"
#include "base/machine.h"
#include "os/os.h"
#include "os/parts.h"
#include "os/tool.h"

static THREAD_LOCAL bool forbidden;
static uint64_t forbidden_count;

bool os_forbid(bool forbid)
{
  bool before = forbidden;
  forbidden = forbid;
  return before;
}

bool os_refuses(void)
{
  if (unlikely(forbidden))
    __atomic_fetch_add(&forbidden_count, 1, __ATOMIC_RELAXED);
  return forbidden;
}

uint64_t os_forbidden_count(void) { return __atomic_load_n(&forbidden_count, __ATOMIC_RELAXED); }

/* ---- the window ---- */

enum { WINDOW_ATTEMPTS = 16 };

uint64_t os_random(unsigned turn)
{
  uint64_t number = (os_entropy() + turn * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u; /* the upper half depends on all bits */
  return (number ^ number >> 32) * 0x94d049bb133111ebu >> 1;
}

/* Chooses the stretch by an address that the kernel has chosen. */
#if UINTPTR_MAX > UINT32_MAX
/* The kernel maps from the top downwards, close to existing mappings, so the stretch is far below one of them. Programs and
 * their break are in the middle, at two thirds of the address space. The thread sanitizer has shadows except in the topmost 1.5
 * TiB. If the kernel maps upwards from a low address (valgrind, some emulators), the stretch is above its mappings. Later
 * attempts look anywhere, if the program has mapped everything near. */
enum {
  WINDOW_SHARE = 8, /* the stretch is this part of the address space, and begins in a range of the same length */
  WINDOW_SHARE_OF_SHADOWS =
    1024 /* the stretch ends within the topmost 1.5 TiB, of which the kernel places its mappings at random in the first TiB */
};
#ifdef UNDER_SANITIZER
static size_t window_share(void) { return WINDOW_SHARE_OF_SHADOWS; }
#else
static size_t window_share(void) { return os_tool.has_shadows ? WINDOW_SHARE_OF_SHADOWS : WINDOW_SHARE; }
#endif
#define ADDRESSES_LOW (64 * GIB)

static uintptr_t stretch_near(uintptr_t chosen, unsigned attempt, size_t *length)
{
  bool upwards = chosen < ADDRESSES_LOW;
  size_t addresses = upwards ? 32 * ADDRESSES_LOW : chosen, share = window_share();
  *length = round_down(addresses / share, OS_WINDOW_ALIGNMENT);
  if (!*length)
    return 0; /* the address space is too small for an aligned stretch */
  size_t least = addresses / (4 * share), most = attempt < WINDOW_ATTEMPTS / 2 ? least + *length : addresses - *length - least;
  size_t distance = least + (size_t)(os_random(attempt) % (most - least));
  return upwards ? 2 * ADDRESSES_LOW + distance : addresses - distance - *length;
}
#else
/* A process has 2 to 4 GiB of addresses. The program with its break is below the stretch, in the lowest third. An eighth above
 * the stretch, and more between, is left to the kernel's mappings. A low kernel mapping means that the kernel maps upwards
 * (qemu, an unlimited stack), or that there are no addresses above it, which later attempts assume. */
enum { WINDOW_PARTS = 6, WINDOW_OF = 16 }; /* the stretch's share of the addresses; it begins anywhere in one more part */
#define ADDRESSES_LOW (2 * GIB)

static uintptr_t stretch_near(uintptr_t chosen, unsigned attempt, size_t *length)
{
  bool upwards = chosen < ADDRESSES_LOW && attempt < WINDOW_ATTEMPTS / 2;
  size_t part = (upwards ? 3 * GIB : chosen) / WINDOW_OF;
  *length = round_down(part * WINDOW_PARTS, OS_WINDOW_ALIGNMENT);
  size_t distance = (size_t)(os_random(attempt) % (part + 1));
  return upwards ? ADDRESSES_LOW - 2 * part + distance : chosen - 2 * part - distance - *length;
}
#endif

/* A page is mapped to see where the kernel maps. The stretch is random, so that programs cannot predict addresses of blocks. */
char *os_window(unsigned attempt, size_t *size)
{
  char *probe = attempt < WINDOW_ATTEMPTS ? os_map(os_page_size(), 1) : NULL;
  if (!probe)
    return NULL;
  os_unmap(probe, os_page_size());
  uintptr_t start = stretch_near((uintptr_t)probe, attempt, size);
  return (char *)round_down(start, OS_WINDOW_ALIGNMENT);
}
