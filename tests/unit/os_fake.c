/* SPDX-License-Identifier: MIT
 * os.h for tests: real memory, a clock that the test moves, a page size of its choice, and failures on demand. Every call
 * that may fail is numbered; os_fake says which numbers do. */
#include "os_fake.h"
#include "base/bits.h"
#include "debug/places.h"
#include "os/os.h"
#include "os/tool.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

os_fake_t os_fake = {.refuse = true, .page_size = 4096, .memory_limit = SIZE_MAX, .now_ms = 1000, .processors = 2};

/* Its memory is real, so its pages are no shorter than the real ones. */
__attribute__((constructor)) static void choose_page_size(void)
{
  os_fake.page_size = max_size(os_fake.page_size, (size_t)sysconf(_SC_PAGESIZE));
}

void os_fake_heal(void)
{
  os_fake.refuse = false;
  os_fake.fail_from = os_fake.fail_to = 0;
  os_fake.fail_kinds = 0;
  os_fake.fail_halfway = os_fake.occupied = false;
  os_fake.locked = os_fake.locked_end = NULL;
  os_fake.during = NULL;
  os_fake.mapped_most = 0;
}

int time_stands_still(void **state)
{
  (void)state;
  os_fake_heal();
  return 0;
}

/* Of all threads at once; a test has one that counts. */
static bool forbidden;
static uint64_t forbidden_count;

bool os_forbid(bool forbid)
{
  bool before = forbidden;
  forbidden = forbid;
  return before;
}

uint64_t os_forbidden_count(void) { return forbidden_count; }

static bool fails(os_call_t kind)
{
  if (forbidden && kind != OS_THREAD_ON_EXIT && kind != OS_FENCE) {
    __atomic_add_fetch(&forbidden_count, 1, __ATOMIC_RELAXED);
    return true;
  }
  uint64_t n = __atomic_add_fetch(&os_fake.calls, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&os_fake.count[kind], 1, __ATOMIC_RELAXED);
  if (os_fake.during)
    os_fake.during(kind);
  bool failing = os_fake.refuse || (n >= os_fake.fail_from && n < os_fake.fail_to) || (os_fake.fail_kinds >> kind & 1);
  if (failing)
    __atomic_add_fetch(&os_fake.failed, 1, __ATOMIC_RELAXED);
  return failing;
}

static void account(size_t bytes) { __atomic_add_fetch(&os_fake.mapped_bytes, bytes, __ATOMIC_RELAXED); }

static bool is_too_much(size_t more)
{
  return os_fake.mapped_most && __atomic_load_n(&os_fake.mapped_bytes, __ATOMIC_RELAXED) + more > os_fake.mapped_most;
}

static void *map(void *hint, size_t size, int flags)
{
  int saved = errno;
  void *p = mmap(hint, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  errno = saved;
  if (p == MAP_FAILED)
    return NULL;
  account(size);
  return p;
}

enum { LONGEST_WITH_HOLES = 1 << 30 };

/* What is mapped of a range: an arena unmaps its end with the holes in it. Looks at long steps, and at short ones where
 * something is missing. */
static size_t mapped_of(const char *p, size_t size, size_t step)
{
  static _Thread_local unsigned char pages[(64 << 20) / 4096];
  size_t mapped = 0;
  for (size_t at = 0; at < size; at += step) {
    size_t bytes = size - at < step ? size - at : step;
    if (mincore((void *)(uintptr_t)(p + at), bytes, pages) == 0)
      mapped += bytes;
    else if (step > os_fake.page_size)
      mapped += mapped_of(p + at, bytes, step / 32);
  }
  return mapped;
}

static void unmap(void *p, size_t size)
{
  int saved = errno;
  if (!size)
    return;
  size_t mapped = size <= LONGEST_WITH_HOLES ? mapped_of(p, size, 32 * 32 * os_fake.page_size) : size;
  munmap(p, size);
  account(-mapped);
  errno = saved;
}

size_t os_page_size(void) { return os_fake.page_size; }

/* As aligned as is asked, and no more, so that nobody can count on more. */
void *os_map(size_t size, size_t alignment)
{
  alignment = max_size(alignment, os_fake.page_size);
  if (fails(OS_MAP) || is_too_much(size) || alignment > SIZE_MAX / 2 || size > SIZE_MAX - 2 * alignment)
    return NULL;
  char *p = map(NULL, size + 2 * alignment, 0);
  if (!p)
    return NULL;
  char *aligned = (char *)round_up((uintptr_t)p, alignment);
  aligned += (uintptr_t)aligned & alignment ? 0 : alignment;
  unmap(p, (size_t)(aligned - p));
  unmap(aligned + size, (size_t)(p + 2 * alignment - aligned));
  return aligned;
}

os_mapped_t os_map_at(void *address, size_t size)
{
  if (fails(OS_MAP_AT) || is_too_much(size))
    return os_fake.occupied ? OS_OCCUPIED : OS_NO_MEMORY;
  return map(address, size, MAP_FIXED_NOREPLACE) ? OS_MAPPED : OS_OCCUPIED;
}

bool os_unmap(void *address, size_t size)
{
  if (fails(OS_UNMAP))
    return false;
  unmap(address, size);
  return true;
}

bool os_purge(void *address, size_t size)
{
  int saved = errno;
  bool locked = os_fake.locked_end > (char *)address && os_fake.locked < (char *)address + size;
  bool fail = fails(OS_PURGE) || locked;
  size_t before = locked && os_fake.locked > (char *)address ? (size_t)(os_fake.locked - (char *)address) : 0;
  if (fail && os_fake.fail_halfway)
    size = round_down(locked ? before : size / 2, os_fake.page_size);
  if (!fail || os_fake.fail_halfway)
    fail |= size && madvise(address, size, MADV_DONTNEED) != 0;
  errno = saved;
  return !fail;
}

void *os_remap(void *address, size_t size, size_t new_size, bool may_move)
{
  int saved = errno;
  void *p = fails(OS_REMAP) || (new_size > size && is_too_much(new_size - size))
              ? MAP_FAILED
              : mremap(address, size, new_size, may_move ? MREMAP_MAYMOVE : 0);
  errno = saved;
  if (p == MAP_FAILED)
    return NULL;
  account(new_size - size);
  return p;
}

/* A refusal comes when the place is unmapped already, as the system does it. */
os_mapped_t os_remap_to(void *from, size_t size, void *to, size_t new_size)
{
  bool fail = fails(OS_REMAP);
  if (forbidden)
    return OS_OCCUPIED;
  int saved = errno;
  unmap(to, new_size);
  bool moved = !fail && mremap(from, size, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
  errno = saved;
  if (!moved)
    return os_map_at(to, new_size) == OS_NO_MEMORY ? OS_NO_MEMORY : OS_OCCUPIED;
  account(new_size - size);
  return OS_MAPPED;
}

void os_guard(void *address, size_t size) { mprotect(address, size, PROT_NONE); }

/* Close enough to what is mapped for the thread sanitizer, as in window.c. Where that is low (qemu), the window is above it. */
char *os_window(unsigned attempt, size_t *size)
{
  enum { SLOTS = ADDRESS_BITS == 64 ? 256 : 40, AWAY = ADDRESS_BITS == 64 ? 40 : 4 };
  static uint64_t turn;
  char *probe = attempt < 4 ? mmap(NULL, os_fake.page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
  if (!probe)
    return NULL;
  munmap(probe, os_fake.page_size);
  *size = SLOTS * OS_WINDOW_ALIGNMENT;
  uintptr_t away = (AWAY + turn++ % 8) * OS_WINDOW_ALIGNMENT, below = *size + away, at = (uintptr_t)probe;
  return (char *)round_down(at > below ? at - below : at + away, OS_WINDOW_ALIGNMENT);
}

void os_wish_huge_pages(void *address, size_t size, bool wanted)
{
  if (os_fake.wished)
    os_fake.wished(address, size, wanted);
}

bool os_has_names;
void os_name_now(const void *address, size_t size, const char *name)
{
  if (os_fake.named)
    os_fake.named(address, size, name);
}

bool os_grants_huge_pages(void) { return !os_fake.grants_nothing; }
size_t os_huge_page_size(void) { return os_fake.huge_page_size; }
void os_split_huge_page(void *address) { os_fake.split_last = address, os_fake.splits++; }

bool os_prefault(void *address, size_t size)
{
  if (fails(OS_PREFAULT))
    return false;
  for (size_t i = 0; i < size; i += 4096) {
    volatile char *p = (char *)address + i;
    *p = *p;
  }
  return true;
}

bool os_lock_memory(void *address, size_t size)
{
  (void)address, (void)size;
  return !fails(OS_LOCK_MEMORY);
}

bool os_unlock_memory(void *address, size_t size)
{
  (void)address, (void)size;
  return !fails(OS_UNLOCK_MEMORY);
}

size_t os_memory_limit = SIZE_MAX, os_memory_most = SIZE_MAX;
void os_read_limits(void) { os_memory_limit = os_memory_most = os_fake.memory_limit; }
uint64_t os_random(unsigned turn) { return turn; }
uint64_t os_now_ms(void) { return __atomic_load_n(&os_fake.now_ms, __ATOMIC_RELAXED); }

unsigned os_processor(void) { return os_fake.processor; }
unsigned os_processors(void) { return os_fake.processors; }
bool os_has_nodes;
unsigned os_node(void) { return os_fake.node; }

/* Any sleep will do: a waiter looks again. */
void os_wait(uint32_t *word, uint32_t value, uint32_t most_us)
{
  (void)word, (void)value, (void)most_us;
  __atomic_fetch_add(&os_fake.waits, 1, __ATOMIC_RELAXED);
  usleep(50);
}

void os_wake(uint32_t *word)
{
  if (os_fake.woken)
    os_fake.woken(word);
}

/* The fence itself is the real one. */
bool os_can_fence_others(void) { return !os_fake.no_fence && syscall(SYS_membarrier, 1 << 4, 0, 0) == 0; }
bool os_fence_others(void) { return !fails(OS_FENCE) && syscall(SYS_membarrier, 1 << 3, 0, 0) == 0; }

static pthread_key_t exit_key;
static bool exit_key_exists;

bool os_on_thread_exit(void (*at_exit)(void *))
{
  exit_key_exists = !fails(OS_THREAD_ON_EXIT) && pthread_key_create(&exit_key, at_exit) == 0;
  return exit_key_exists;
}

bool os_thread_may_be_over(void) { return os_fake.may_be_over; }

bool os_thread_on_exit(void *argument)
{
  return exit_key_exists && !fails(OS_THREAD_ON_EXIT) && pthread_setspecific(exit_key, argument) == 0;
}

static void (*prepare_fork)(void);
static void prepare_and_tell(void)
{
  prepare_fork();
  if (os_fake.forking)
    os_fake.forking();
}

bool os_on_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
  prepare_fork = prepare;
  return pthread_atfork(prepare_and_tell, parent, child) == 0;
}

void os_note_environment(char **variables) { (void)variables; }
bool os_is_privileged(void) { return false; }
const char *os_environment(const char *name) { return getenv(name); }

void os_write_error(const char *text, size_t length)
{
  if (write(STDERR_FILENO, text, length) < 0)
    return;
}

bool os_keep_error(void) { return true; }
void os_write_kept_error(const char *text, size_t length) { os_write_error(text, length); }

int os_create_file(const char *path) { return (void)path, -EACCES; }
bool os_may_replace_file(const char *path) { return (void)path, false; }
int os_rename_file(const char *from, const char *to) { return (void)from, (void)to, EACCES; }
void os_remove_file(const char *path) { (void)path; }
void os_close_file(int file) { (void)file; }
int os_share_memory(const char *name, size_t size, os_shared_t *shared) { return (void)name, (void)size, (void)shared, EACCES; }
bool os_is_shared(const os_shared_t *shared) { return (void)shared, false; }
bool os_share_more(os_shared_t *shared, size_t size) { return (void)shared, (void)size, false; }
void os_end_shared(os_shared_t *shared) { (void)shared; }
int os_start_thread(os_helper_t which, void (*run)(void))
{
  (void)which;
  (void)run;
  if (os_fake.starting)
    os_fake.starting();
  return EAGAIN;
}
bool os_join_thread(os_helper_t which, unsigned most_ms) { return (void)which, (void)most_ms, false; }
void os_wait_shared(uint32_t *word, uint32_t value, unsigned most_ms) { (void)word, (void)value, (void)most_ms; }
void os_wake_shared(uint32_t *word) { (void)word; }
bool os_watch_signal(int number, void (*act)(void)) { return (void)number, (void)act, false; }
int os_write_mappings(int file) { return (void)file, 0; }
bool os_append(const char *path, const char *text, size_t length)
{
  FILE *file = fopen(path, "a");
  bool done = file && fwrite(text, 1, length, file) == length;
  return file && fclose(file) == 0 && done;
}

uint32_t os_process(void) { return 1; }

void os_abort(void) { abort(); }

int os_write(int file, const char *text, size_t length) { return write(file, text, length) == (ssize_t)length ? 0 : EIO; }
void *os_reserve(size_t size)
{
  bool refused = fails(OS_MAP) || (os_fake.reserved_most && size > os_fake.reserved_most);
  void *p = refused ? MAP_FAILED : mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return NULL;
  account(size);
  return p;
}

bool os_open(void *address, size_t size) { return !fails(OS_OPEN) && mprotect(address, size, PROT_READ | PROT_WRITE) == 0; }

bool os_close(void *address, size_t size)
{
  return !fails(OS_CLOSE) &&
         mmap(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == address;
}

void os_exclude_from_dumps(void *address, size_t size, bool exclude) { (void)address, (void)size, (void)exclude; }
size_t os_mappings_now(void) { return 0; }
size_t os_mappings_most(void) { return os_fake.mappings_most ? os_fake.mappings_most : 65530; }
void os_watch_faults(os_fault_fn *say) { os_fake.fault = say; }

/* There is no tool, and no malloc to take from. */
os_tool_t os_tool;
void os_look_for_tool(void) {}
bool os_tool_may_take(void) { return false; }
bool os_tool_serves(size_t size, size_t alignment) { return (void)size, (void)alignment, false; }
void *os_tool_take(size_t size, size_t alignment)
{
  (void)size, (void)alignment;
  return NULL;
}
void os_tool_give(void *block) { (void)block; }
void os_tool_close(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_open_new(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_open(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_begin_silence(void) {}
void os_tool_end_silence(void) {}
void os_tool_begin_blocks(const void *owner, bool in_block) { (void)owner, (void)in_block; }
void os_tool_end_blocks(const void *owner, bool in_block) { (void)owner, (void)in_block; }
void os_tool_leave_block(const void *owner, const void *block) { (void)owner, (void)block; }
void os_tool_begin_block(const void *owner, const void *block, size_t size) { (void)owner, (void)block, (void)size; }
void os_tool_end_block(const void *owner, const void *block, size_t size) { (void)owner, (void)block, (void)size; }
void os_tool_report_block(const void *owner, const void *block) { (void)owner, (void)block; }
void os_tool_forget(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_begin_root(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_end_root(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_leave_order(const void *address) { (void)address; }
void os_tool_meet_order(const void *address) { (void)address; }

/* Stacks are of one address, and places have no names. */
void os_load_stacks(void) {}

void os_take_stack_at(const void *const *frame, const void *from, os_stack_t *stack)
{
  (void)frame;
  stack->count = from && stack->most;
  if (stack->count)
    stack->frames[0] = from;
}

void places_find(place_t *places, size_t count)
{
  for (size_t i = 0; i < count; i++)
    places[i] = (place_t){.address = places[i].address};
}

void places_find_lines(place_t *places, size_t count) { (void)places, (void)count; }
void place_say(text_t *text, const place_t *place) { text_pointer(text, place->address); }

bool os_visit_memory(os_visit_memory_fn *visit, void *context)
{
  (void)visit, (void)context;
  return false;
}

void os_visit_touched(uintptr_t start, uintptr_t end, os_visit_memory_fn *visit, void *context)
{
  visit(start, end, false, context);
}

bool os_copy_memory(void *to, uintptr_t from, size_t size)
{
  memcpy(to, (const void *)from, size);
  return true;
}

unsigned os_threads(void) { return 0; }
unsigned os_started_threads(void) { return 0; }
