/* SPDX-License-Identifier: MIT
 * Heaps whose blocks end at inaccessible pages: where blocks lie, what is a fault, what is said of it, and who goes on. */
#include "debug/guard_pages.h"
#include "heaps.h"
#include "option.h"
#include "os/os.h"
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf out;
static char *volatile target;
static volatile sig_atomic_t faults;
static void *volatile faulted_at;

static void on_fault(int number, siginfo_t *info, void *context)
{
  (void)number, (void)context;
  faults++;
  faulted_at = info->si_addr;
  siglongjmp(out, 1);
}

/* The program's own handler, which was there before: so it goes on after the line. */
static void handle_faults(void)
{
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  must(sigaction(SIGSEGV, &action, NULL) == 0);
}

static bool is_fault(char *address, bool write)
{
  int before = faults;
  target = address;
  if (sigsetjmp(out, 1) == 0) {
    char byte = *(volatile char *)target;
    if (write)
      *(volatile char *)target = byte;
  }
  return faults != before;
}

static pool_heap_t *guarded(size_t budget)
{
  return heap_with((pool_heap_options_t){.name = "walls", .budget = budget, .flags = POOL_HEAP_GUARDED});
}

static void ends_at_a_page(void *argument)
{
  (void)argument;
  pool_heap_t *heap = guarded(0);
  handle_faults(); /* the newer handler decides */
  for (size_t size = 0; size < 40000; size = size * 2 + 16) {
    char *block = pool_heap_alloc(heap, size);
    must(block && pool_usable_size(block) == size && (uintptr_t)block % 16 == 0);
    must(size == 0 || (!is_fault(block, true) && !is_fault(block + size - 1, true)));
    must(is_fault(block + size, false) && faulted_at == block + size);
    char *pages = (char *)((uintptr_t)block / os_page_size() * os_page_size());
    must(is_fault(size ? pages - 1 : block, false));
    for (size_t i = 0; i < size; i++)
      must(block[i] == 0);
    pool_heap_free(heap, block);
    must(is_fault(block, false) && !pool_in_use(block));
    must(is_fault(block + size / 2, false));
  }
  char *aligned = pool_heap_aligned_alloc(heap, 1024, 100);
  must((uintptr_t)aligned % 1024 == 0 && !is_fault(aligned + 99, true));
  char *far = pool_heap_aligned_alloc(heap, 1 << 20, 100);
  must((uintptr_t)far % (1 << 20) == 0 && !is_fault(far + 99, true));
  char *moved = pool_heap_realloc(heap, aligned, 300);
  must(moved && is_fault(aligned, false));
  pool_heap_destroy(heap);
  must(is_fault(moved, false) && is_fault(far, false));
  signal(SIGSEGV, SIG_DFL);
}

/* Addresses are not used again soon. */
static void are_not_used_again(void *argument)
{
  enum { ROUNDS = 20000 };
  static char *seen[ROUNDS];
  (void)argument;
  pool_heap_t *heap = guarded(0);
  for (size_t i = 0; i < ROUNDS; i++) {
    seen[i] = pool_heap_alloc(heap, 32);
    must(seen[i] && (i == 0 || seen[i] > seen[i - 1]));
    pool_heap_free(heap, seen[i]);
  }
  pool_heap_destroy(heap);
}

/* Whole pages count, and what has no room for a page may have room for a block. */
static void keeps_its_budget(void *argument)
{
  (void)argument;
  pool_heap_t *heap = guarded(1 << 20);
  size_t blocks = 0;
  while (pool_heap_alloc(heap, 100)) {
    blocks++;
    must(stats_of(heap).held_bytes <= 1 << 20);
  }
  must(blocks >= (1 << 20) / os_page_size() - 20 && blocks < 2 * (1 << 20) / os_page_size());
  pool_heap_reset(heap);
  must(stats_of(heap).live_blocks == 0 && pool_heap_alloc(heap, 5000));
  pool_heap_destroy(heap);
}

/* More live blocks than there are mappings for. */
static void serves_beyond_the_mappings(void *argument)
{
  enum { MANY = 60000 };
  static char *blocks[MANY];
  (void)argument;
  pool_heap_t *heap = guarded(0);
  for (size_t i = 0; i < MANY; i++) {
    blocks[i] = pool_heap_alloc(heap, 24);
    must(blocks[i] != NULL);
    memset(blocks[i], (int)i, 24);
  }
  must(stats_of(heap).live_blocks == MANY);
  for (size_t i = 0; i < MANY; i++) {
    must(blocks[i][23] == (char)i);
    pool_heap_free(heap, blocks[i]);
  }
  must(stats_of(heap).live_blocks == 0);
  pool_heap_destroy(heap);
}

/* Runs it in a child, and has what it says. Returns its status. */
static int say(void (*run)(pool_heap_t *heap), char *text, size_t size)
{
  int ends[2], status;
  must(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    signal(SIGSEGV, SIG_DFL); /* cmocka has a handler, which would go on */
    run(guarded(0));
    _exit(0);
  }
  close(ends[1]);
  size_t length = 0;
  for (ssize_t n; length < size - 1 && (n = read(ends[0], text + length, size - 1 - length)) > 0;)
    length += (size_t)n;
  text[length] = '\0';
  close(ends[0]);
  must(waitpid(child, &status, 0) == child);
  return status;
}

static void reads_freed(pool_heap_t *heap)
{
  char *block = pool_heap_alloc(heap, 100);
  pool_heap_free(heap, block);
  target = block;
  _exit(((volatile char *)target)[7]);
}

static void writes_past(pool_heap_t *heap)
{
  target = pool_heap_alloc(heap, 112);
  ((volatile char *)target)[112] = 1;
}

static void writes_past_a_little(pool_heap_t *heap)
{
  target = pool_heap_alloc(heap, 100);
  ((volatile char *)target)[101] = 1;
  pool_heap_free(heap, target);
}

static void writes_in_front(pool_heap_t *heap)
{
  target = pool_heap_alloc(heap, 100);
  ((volatile char *)target)[-300] = 1;
  pool_heap_destroy(heap);
}

static void frees_twice(pool_heap_t *heap)
{
  target = pool_heap_alloc(heap, 100);
  pool_heap_free(heap, target);
  pool_heap_free(heap, target);
}

static void frees_inside(pool_heap_t *heap)
{
  target = pool_heap_alloc(heap, 100);
  pool_heap_free(heap, target + 16);
}

static void overruns_in_a_child(pool_heap_t *heap)
{
  target = pool_heap_alloc(heap, 64);
  pid_t child = fork();
  if (child == 0)
    ((volatile char *)target)[64] = 1;
  int status;
  must(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)
    raise(SIGSEGV);
}

static void ignores_faults(pool_heap_t *heap)
{
  signal(SIGSEGV, SIG_IGN);
  reads_freed(heap);
}

static void sends_itself_one(pool_heap_t *heap)
{
  (void)heap;
  raise(SIGSEGV);
}

static void *overrun(void *heap)
{
  writes_past(heap);
  return NULL;
}

static void overruns_in_a_thread(pool_heap_t *heap)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, overrun, heap) == 0);
  pthread_join(thread, NULL);
}

static void overruns_a_shortened_one(pool_heap_t *heap)
{
  (void)heap;
  pool_heap_t *full = guarded(8000);
  char *block = pool_heap_alloc(full, 100);
  must(block && !pool_heap_alloc(full, 100));
  target = pool_heap_realloc(full, block, 60);
  must(target == block);
  ((volatile char *)target)[61] = 1;
  pool_heap_free(full, block);
}

/* Where there are no stacks, one address would be the manager's own, and is not told. */
#if defined __arm__ || !defined __GLIBC__ /* Debian's musl-gcc links no table that an unwinder finds */
#define ALLOCATED_BY ""
#else
#define ALLOCATED_BY "allocated by "
#endif

static void says_what_it_was(void **state)
{
  (void)state;
  static const struct {
    void (*run)(pool_heap_t *heap);
    int signal;
    const char *words, *also;
  } cases[] = {
    {reads_freed, SIGSEGV, " at offset 7 of a block of 100 bytes of heap \"walls\"", "freed"},
    {writes_past, SIGSEGV, " at offset 112 of a block of 112 bytes of heap \"walls\"", ALLOCATED_BY},
    {writes_past_a_little, SIGABRT, "written past its end at offset 101 of a block of 100 bytes of heap \"walls\"", ""},
    {writes_in_front, SIGABRT, "written before its beginning at offset -300 of a block of 100 bytes of heap \"walls\"", ""},
    {frees_twice, SIGABRT, "freed twice: a block of 100 bytes of heap \"walls\"", ""},
    {overruns_a_shortened_one, SIGABRT, "written past its end at offset 61 of a block of 60 bytes of heap \"walls\"", ""},
    {frees_inside, SIGABRT, "not a block of any heap", ""},
    {overruns_in_a_child, SIGSEGV, " at offset 64 of a block of 64 bytes", ""},
    {ignores_faults, SIGSEGV, "", ""},
    {sends_itself_one, SIGSEGV, "", ""},
    {overruns_in_a_thread, SIGSEGV, " at offset 112 of a block of 112 bytes", ""},
  };
  char text[2000];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int status = say(cases[i].run, text, sizeof text);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != cases[i].signal || !strstr(text, cases[i].words) ||
        !strstr(text, cases[i].also)) {
      fprintf(stderr, "case %zu: status %x: %s\n", i, (unsigned)status, text);
      must(SANITIZED);
    }
  }
}

/* One that was there before goes on after the line, as if there were no other. */
static void goes_on_to_an_older_handler(void *argument)
{
  (void)argument;
  handle_faults();
  pool_heap_t *heap = guarded(0);
  char *block = pool_heap_alloc(heap, 48);
  for (int i = 0; i < 3; i++)
    must(is_fault(block + 48, false) && faulted_at == block + 48 && faults == i + 1);
  must(!is_fault(block, true));
  pool_heap_destroy(heap);
}

/* With room for no second block, one becomes shorter where it is, as a call that must not fail does. */
static void becomes_shorter(unsigned flags)
{
  enum { PAGES = 4 };
  size_t page = os_page_size();
  pool_heap_t *heap = heap_with((pool_heap_options_t){.name = "walls", .budget = 8000 + PAGES * page, .flags = flags});
  char *blocks[PAGES + 4];
  size_t count = 0, sizes[] = {3000, 2000, 100, 99, 16, 1};
  for (char *block; (block = pool_heap_alloc(heap, 3001)) != NULL; count++) {
    must(count < PAGES + 4);
    memset(blocks[count] = block, (int)count, 3001);
  }
  must(count > 0);
  for (size_t s = 0; s < COUNT_OF(sizes); s++)
    for (size_t i = 0; i < count; i++) {
      char *block = pool_heap_realloc(heap, blocks[i], sizes[s]);
      must(block == blocks[i] && pool_usable_size(block) == sizes[s] && block[0] == (char)i && block[sizes[s] - 1] == (char)i);
      must(check_heap(heap));
    }
  must(stats_of(heap).live_bytes == count && stats_of(heap).live_blocks == count);
  for (size_t i = 0; i < count; i++)
    pool_heap_free(heap, blocks[i]);
  must(stats_of(heap).live_bytes == 0 && stats_of(heap).live_blocks == 0 && pool_heap_alloc(heap, 3001));
  pool_heap_destroy(heap);
}

static void becomes_shorter_at_the_limit(void *argument)
{
  (void)argument;
  becomes_shorter(POOL_HEAP_GUARDED);
  becomes_shorter(POOL_HEAP_GUARDED | POOL_HEAP_SITES);
  becomes_shorter(POOL_HEAP_GUARDED | POOL_HEAP_ZERO_ON_FREE);
  becomes_shorter(POOL_HEAP_GUARDED | POOL_HEAP_SINGLE_THREAD);
}

static void knows_its_largest(void *argument)
{
  (void)argument;
  for (size_t budget = 6000; budget < 2 << 20; budget = budget * 3 / 2) {
    pool_heap_t *heap = guarded(budget);
    size_t largest = pool_heap_largest(heap);
    void *block = pool_heap_alloc(heap, largest);
    must(!largest || block);
    pool_heap_free(heap, block);
    must(!pool_heap_alloc(heap, largest + 1));
    pool_heap_destroy(heap);
  }
}

/* Where the system may not be asked, blocks that are freed stay accessible until a later call. */
static void closes_later_what_it_may_not_close(void *argument)
{
  enum { COUNT = 20 };
  (void)argument;
  pool_heap_t *heap = guarded(0);
  char *blocks[COUNT];
  for (size_t i = 0; i < COUNT; i++)
    blocks[i] = pool_heap_alloc(heap, 100);
  handle_faults();
  pool_forbid_system_calls(true);
  for (size_t i = 0; i < COUNT; i++)
    pool_heap_free(heap, blocks[i]);
  pool_forbid_system_calls(false);
  for (size_t i = 0; i < COUNT; i++)
    pool_heap_free(heap, pool_heap_alloc(heap, 100));
  for (size_t i = 0; i < COUNT; i++)
    must(is_fault(blocks[i], false));
  pool_heap_destroy(heap);
}

/* However much a program allocates, those of production take some hundredth of its time. */
static void samples_are_no_burden(void *argument)
{
  enum { AT_ONCE = 64, A_SECOND = 500, MS = 300 };
  (void)argument;
  settings.guard_sample = 1000;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.name = "sampled"});
  uint64_t begin = os_now_ms();
  size_t count = 0;
  while (os_now_ms() < begin + MS)
    for (int i = 0; i < 100; i++) {
      void *block = pool_heap_alloc(heap, 40000); /* of no magazine: each is drawn for itself */
      guard_pages_look_t look;
      must(block != NULL);
      count += guard_pages_look(block, &look);
      pool_heap_free(heap, block);
    }
  uint64_t spent = os_now_ms() - begin;
  must(count > 0 && count <= AT_ONCE + spent * A_SECOND / 1000 + 2);
  pool_heap_destroy(heap);
}

IN_CHILD(ends_at_a_page)
IN_CHILD(are_not_used_again)
IN_CHILD(keeps_its_budget)
IN_CHILD(serves_beyond_the_mappings)
IN_CHILD(goes_on_to_an_older_handler)
IN_CHILD(samples_are_no_burden)
IN_CHILD(becomes_shorter_at_the_limit)
IN_CHILD(knows_its_largest)
IN_CHILD(closes_later_what_it_may_not_close)

/* Sanitizers have handlers of their own, which say something else. */
int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(ends_at_a_page_test),
    cmocka_unit_test(are_not_used_again_test),
    cmocka_unit_test(keeps_its_budget_test),
    cmocka_unit_test(serves_beyond_the_mappings_test),
    cmocka_unit_test(goes_on_to_an_older_handler_test),
    cmocka_unit_test(samples_are_no_burden_test),
    cmocka_unit_test(becomes_shorter_at_the_limit_test),
    cmocka_unit_test(knows_its_largest_test),
    cmocka_unit_test(closes_later_what_it_may_not_close_test),
    cmocka_unit_test(says_what_it_was),
  };
  return cmocka_run_group_tests_name("guarded", tests, NULL, NULL);
}
