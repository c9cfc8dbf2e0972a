/* SPDX-License-Identifier: MIT
 * Stacks that are not what they should be: nothing is read that is not there, and nobody waits. */
#include "base/machine.h"
#include "debug/linux_tables.h"
#include "stacks.h"
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

static volatile int after_call;
static os_stack_t stack;
static char *modules[2]; /* where they are */

OPAQUE static void take(void)
{
  stack.most = OS_STACK_MOST;
  os_take_stack(__builtin_return_address(0), &stack);
  must_be_same_at(__builtin_frame_address(0), &stack, __builtin_return_address(0));
  after_call++;
}

static int load(void **state)
{
  (void)state;
  os_load_stacks();
  return 0;
}

/* What a failed assertion would not end. */
enum { STUCK_SECONDS = 600 };

static uint64_t drawn = 88172645463325252u;
static uint64_t draw(void)
{
  drawn ^= drawn << 13;
  drawn ^= drawn >> 7;
  return drawn ^= drawn << 17;
}

/* ---- coroutines ---- */

static ucontext_t outer, inner;
static char *room;
enum { ROOM_SIZE = 64 << 10 };
static uintptr_t false_frame, false_return;

/* What is above the frame that a coroutine begins with is somebody's idea of a caller. It does not return. */
OPAQUE static void run_coroutine(void)
{
  uintptr_t *frame = __builtin_frame_address(0);
  frame[0] = false_frame;
  frame[1] = false_return;
  take();
  swapcontext(&inner, &outer);
  abort();
}

static void take_in_coroutine(uintptr_t frame, uintptr_t address)
{
  false_frame = frame;
  false_return = address;
  assert_int_equal(getcontext(&inner), 0);
  inner.uc_stack.ss_sp = room;
  inner.uc_stack.ss_size = ROOM_SIZE;
  makecontext(&inner, run_coroutine, 0);
  assert_int_equal(swapcontext(&outer, &inner), 0);
  assert_true(stack.count >= 1);
}

static char *map_nothing(size_t size)
{
  char *mapped = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(mapped != MAP_FAILED);
  return mapped;
}

/* The pages around its stack cannot be read. */
static void map_room(void)
{
  room = map_nothing(ROOM_SIZE * 3) + ROOM_SIZE;
  assert_int_equal(mprotect(room, ROOM_SIZE, PROT_READ | PROT_WRITE), 0);
}

static void unmap_room(void) { assert_int_equal(munmap(room - ROOM_SIZE, ROOM_SIZE * 3), 0); }

static void made_up_returns(void **state)
{
  (void)state;
  static const uintptr_t made_up[] = {0, 1, 8, 0xdeaddeaddeaddead, UINTPTR_MAX, UINTPTR_MAX - 4095, 0x7fffffffffff};
  map_room();
  for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++)
    for (size_t j = 0; j < sizeof made_up / sizeof *made_up; j++) {
      take_in_coroutine(made_up[j], made_up[i]);
      assert_int_equal(stack.count, 1);
    }
  unmap_room();
}

static uintptr_t of_large_frame;
OPAQUE static void note_return(void) { of_large_frame = (uintptr_t)__builtin_return_address(0); }
OPAQUE static void large_frame(void)
{
  volatile char large[ROOM_SIZE / 2];
  large[0] = 1;
  note_return();
  after_call += large[0];
}

/* Of a thread whose own stack is near, beyond a page that is not there, or right above. The coroutine's goes and comes back
 * shorter; the thread's goes deeper. */
OPAQUE static void take_deeper(unsigned pages)
{
  volatile char deep[4096];
  deep[0] = (char)pages;
  take_in_coroutine(0, UINTPTR_MAX);
  assert_int_equal(stack.count, 1);
  take();
  assert_true(stack.count > 1);
  if (pages)
    take_deeper(pages - 1);
  after_call += deep[0];
}

static void *take_beside_own(void *unused)
{
  char *whole = room;
  for (unsigned pages = 0; pages < 20; pages++) {
    take_deeper(pages);
    room = pages % 2 ? whole : whole + ROOM_SIZE / 2;
    assert_int_equal(mprotect(whole, ROOM_SIZE / 2, pages % 2 ? PROT_READ | PROT_WRITE : PROT_NONE), 0);
  }
  /* Another one's stack was between the coroutine's and the thread's, and goes. */
  room = whole - ROOM_SIZE / 2;
  for (int is_there = 1; is_there >= 0; is_there--) {
    assert_int_equal(mprotect(whole, ROOM_SIZE / 2, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(mprotect(whole + ROOM_SIZE / 2, ROOM_SIZE / 2, is_there ? PROT_READ | PROT_WRITE : PROT_NONE), 0);
    take_in_coroutine((uintptr_t)whole, of_large_frame);
    assert_int_equal(stack.count, 2);
  }
  room = whole;
  return unused;
}

static void stack_beside_the_thread_s(void **state)
{
  (void)state;
  enum { OWN_SIZE = 192 << 10 };
  if (SANITIZED) /* which wants larger stacks */
    skip();
  large_frame();
  for (size_t between = 0; between <= os_page_size(); between += os_page_size()) {
    pthread_t thread;
    pthread_attr_t attributes;
    char *mapped = map_nothing(ROOM_SIZE + between + OWN_SIZE), *own = mapped + ROOM_SIZE + between;
    room = mapped;
    assert_int_equal(mprotect(room, ROOM_SIZE, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(mprotect(own, OWN_SIZE, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, own, OWN_SIZE), 0);
    assert_int_equal(pthread_create(&thread, &attributes, take_beside_own, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_attr_destroy(&attributes), 0);
    assert_int_equal(munmap(mapped, ROOM_SIZE + between + OWN_SIZE), 0);
  }
}

/* The frame of what seems to have called would end where nothing is mapped. */
static void stack_that_ends_too_early(void **state)
{
  (void)state;
  map_room();
  large_frame();
  for (int i = 0; i < 3; i++) {
    take_in_coroutine((uintptr_t)room, of_large_frame);
    assert_int_equal(stack.count, 2);
  }
  unmap_room();
}

/* Any place of the code seems to have called, and any word to be the frame of its caller. */
static void garbage(void **state)
{
  (void)state;
  module_t module, c_library;
  map_room();
  assert_true(module_find((uintptr_t)take, &module) && module_find((uintptr_t)qsort, &c_library));
  for (int i = 0; i < 30000; i++) {
    const module_t *m = i % 2 ? &module : &c_library;
    uintptr_t address = m->start + draw() % (m->end - m->start);
    uintptr_t frame = draw() % 4 ? (uintptr_t)room + draw() % (ROOM_SIZE + 4096) / 8 * 8 : draw();
    for (size_t word = 0; word < 16; word++)
      ((uintptr_t *)(room + ROOM_SIZE))[-(ptrdiff_t)(1 + word)] = m->start + draw() % (m->end - m->start);
    take_in_coroutine(frame, address);
  }
  unmap_room();
}

/* ---- code without tables ---- */

typedef void caller_t(void (*call)(void));

/* Code that only pops two words behind the call is known to the walk: CPython makes such code. */
static const struct {
  bool is_known;
  unsigned char code[24];
} codes_that_call[] = {
#ifdef __aarch64__
  {true,
   {0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x00, 0x00, 0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6}},
  {false,
   {0xfd, 0x7b, 0xbe, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x00, 0x00, 0x3f, 0xd6, 0xfd, 0x7b, 0xc2, 0xa8, 0xc0, 0x03, 0x5f, 0xd6}},
#else
  {true, {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3}},
  {true, {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3}},
  {false, {0x48, 0x83, 0xec, 0x18, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x18, 0xc3}},
#endif
};

OPAQUE static void take_beneath(void)
{
  take();
  after_call++;
}

static bool is_in(const void *address, const void *code)
{
  return (uintptr_t)address - (uintptr_t)code < sizeof codes_that_call->code;
}

static void call_by(const void *code, bool is_known)
{
  caller_t *call;
  memcpy(&call, &code, sizeof call);
  for (int i = 0; i < 3; i++) {
    call(take_beneath);
    assert_true(is_known ? stack.count > 2 && is_in(stack.frames[1], code) : stack.count == 1);
    call(take); /* the first address is in no module */
    assert_true(is_in(stack.frames[0], code) && (is_known ? stack.count > 1 : stack.count == 1));
  }
}

static void code_without_tables(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof codes_that_call / sizeof *codes_that_call; i++) {
    void *code = mmap(NULL, os_page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(code != MAP_FAILED);
    memcpy(code, codes_that_call[i].code, sizeof codes_that_call[i].code);
    __builtin___clear_cache(code, (char *)code + sizeof codes_that_call[i].code);
    assert_int_equal(mprotect(code, os_page_size(), PROT_READ | PROT_EXEC), 0);
    call_by(code, codes_that_call[i].is_known);
    assert_int_equal(munmap(code, os_page_size()), 0);
  }
}

/* ---- modules that come and go ---- */

typedef void module_fn(void (*call)(void *), void *argument);

static void take_for(void *taken)
{
  take();
  *(os_stack_t *)taken = stack;
}

static size_t count_by_module(const char *path, uintptr_t *address)
{
  os_stack_t taken = {.count = 0};
  void *library = dlopen(path, RTLD_NOW);
  if (!library)
    fail_msg("%s: %s", path, dlerror());
  void *found = dlsym(library, "call_from_module");
  module_fn *call;
  memcpy(&call, &found, sizeof call);
  call(take_for, &taken);
  *address = (uintptr_t)taken.frames[1];
  assert_int_equal(dlclose(library), 0);
  return taken.count;
}

/* The same address in the module, but another length of its frame: what was found of the first must not be used for the second.
 */
static void module_in_place_of_another(void **state)
{
  (void)state;
  uintptr_t first, second;
  size_t count = count_by_module(modules[0], &first), same_places = 0;
  assert_true(count > 3);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(count_by_module(modules[i % 2], &second), count);
    same_places += first == second;
    first = second;
  }
  print_message("the same place %d times\n", (int)same_places);
}

static bool is_over;

static void *walk_until_over(void *unused)
{
  os_stack_t own;
  while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
    own.most = OS_STACK_MOST;
    os_take_stack(__builtin_extract_return_addr(__builtin_return_address(0)), &own);
    must(own.count >= 1);
  }
  return unused;
}

static void modules_beside_walks(void **state)
{
  (void)state;
  pthread_t threads[2];
  uintptr_t address;
  is_over = false;
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, walk_until_over, NULL), 0);
  for (int i = 0; i < 300; i++)
    assert_true(count_by_module(modules[i % 2], &address) > 3);
  __atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* ---- the compiler's unwinder ---- */

#if defined __GLIBC__ && !defined UNDER_SANITIZER
/* Stands for the C library's in all of the process. */
static bool walks_in_malloc;
static unsigned walked_in_malloc;
extern void *__libc_malloc(size_t size);

void *malloc(size_t size)
{
  if (__atomic_load_n(&walks_in_malloc, __ATOMIC_RELAXED)) {
    os_stack_t own = {.most = 8};
    os_take_stack(__builtin_return_address(0), &own);
    walked_in_malloc++;
  }
  return __libc_malloc(size);
}

struct bases {
  void *of_text, *of_data, *function;
};
extern const void *_Unwind_Find_FDE(void *pc, struct bases *bases);
extern void __register_frame(void *begin), __deregister_frame(void *begin);

/* As a JIT would write it: an entry for some bytes of data, which are code. */
enum { REGISTERED = 64, TABLE_WORDS = 16 };
static _Alignas(8) uint32_t registered[REGISTERED][TABLE_WORDS];
static char jit_code[REGISTERED][16];

static void write_table(uint32_t *table, const char *code)
{
  uint64_t range[] = {(uintptr_t)code, 16};
  static const uint32_t common[] = {12, 0, 0x00010001 /* version 1, no augmentation, code factor 1 */, 0x00001078};
  memcpy(table, common, sizeof common);
  table[4] = 20;
  table[5] = 20; /* back to the first */
  memcpy(&table[6], range, sizeof range);
  table[10] = table[11] = 0;
}

/* It allocates under its lock, when it is asked the first time. */
static void allocation_of_the_unwinder(void **state)
{
  (void)state;
  alarm(STUCK_SECONDS);
  for (int i = 0; i < REGISTERED; i++) {
    write_table(registered[i], jit_code[i]);
    __atomic_store_n(&walks_in_malloc, true, __ATOMIC_RELAXED);
    __register_frame(registered[i]);
    struct bases bases;
    const void *found = _Unwind_Find_FDE(jit_code[i] + 8, &bases);
    __atomic_store_n(&walks_in_malloc, false, __ATOMIC_RELAXED);
    assert_ptr_equal(found, &registered[i][4]);
  }
  for (int i = 0; i < REGISTERED; i++)
    __deregister_frame(registered[i]);
  alarm(0);
  assert_true(walked_in_malloc > REGISTERED);
}
#else
static void allocation_of_the_unwinder(void **state)
{
  (void)state;
  skip();
}
#endif

int main(int count, char **arguments)
{
  if (count != 3)
    return 1;
  modules[0] = arguments[1];
  modules[1] = arguments[2];
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(made_up_returns),           cmocka_unit_test(stack_beside_the_thread_s),
    cmocka_unit_test(stack_that_ends_too_early), cmocka_unit_test(garbage),
    cmocka_unit_test(code_without_tables),       cmocka_unit_test(module_in_place_of_another),
    cmocka_unit_test(modules_beside_walks),      cmocka_unit_test(allocation_of_the_unwinder),
  };
  return cmocka_run_group_tests(tests, load, NULL);
}
