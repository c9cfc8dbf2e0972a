/* SPDX-License-Identifier: MIT */
#include "debug/export.h"
#include "debug/export_root.h"
#include "heap/tick.h"
#include "misuse.h"
#include "option.h"

enum {
  LOOK_MS = 1000, /* interval at which the thread checks whether it is the last, and whether the shared memory is still open */
  TEXT_AT = sizeof(export_head_t), /* offset in the shared memory */
  END_MS = 2000 /* limit, because the thread may wait for a lock whose holder ends the process in a signal handler */
};

size_t (*export_figures)(char *buffer, size_t size);

static os_shared_t shared;
static export_page_t *page;   /* at shared.start; NULL: there is none (any more) */
static uint32_t page_process; /* the process that has the thread: a child made without fork() has neither thread nor page */
static bool ends;

/* ---- the thread ---- */

/* Other processes can write to the page, so its length is not trusted. */
static size_t room_for_text(void)
{
  uint64_t wanted = __atomic_load_n(&page->capacity, __ATOMIC_ACQUIRE);
  size_t bytes = wanted < EXPORT_MOST - TEXT_AT ? (size_t)wanted + TEXT_AT : EXPORT_MOST;
  if (bytes > shared.size && os_share_more(&shared, bytes))
    page = shared.start;
  return min_size(bytes, shared.size) - TEXT_AT;
}

/* An earlier reader may still read the text, so the sequence is odd meanwhile. A text that does not fit is omitted. */
static void write_figures(void)
{
  size_t size = room_for_text();
  uint32_t sequence = page->sequence | 1;
  __atomic_store_n(&page->sequence, sequence, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  size_t length = export_figures((char *)page + TEXT_AT, size);
  page->length = length < size ? (uint32_t)length : 0;
  page->needed = length + 1;
  page->written_ms = os_now_ms();
  __atomic_store_n(&page->sequence, sequence + 1, __ATOMIC_RELEASE);
}

static uint64_t number_of(const volatile void *address) { return (uintptr_t)address; }

static void note_root(export_root_t *root)
{
  *root = (export_root_t){.layout = export_layout(),
                          .default_heap = number_of(&default_heap),
                          .window = number_of(&class_window),
                          .slots = number_of(space_slots),
                          .huge_ranges = number_of(&huge_ranges),
                          .threads = number_of(threads_list()),
                          .lost_threads = number_of(threads_lost_list()),
                          .site_chunks = number_of(sites_place().chunks),
                          .sites_taken = number_of(sites_place().taken)};
}

static int make_page(void)
{
  int error = os_share_memory(EXPORT_NAME, EXPORT_FIRST_BYTES, &shared);
  if (error)
    return error;
  page_process = os_process();
  page = shared.start;
  *page = (export_page_t){
    .mark = EXPORT_MARK, .header_bytes = TEXT_AT, .capacity = EXPORT_FIRST_BYTES - TEXT_AT, .process = page_process};
  note_root(&((export_head_t *)shared.start)->root);
  __atomic_store_n(&page->version, EXPORT_VERSION, __ATOMIC_RELEASE);
  return 0;
}

static bool is_ending(void) { return __atomic_load_n(&ends, __ATOMIC_ACQUIRE); }

/* The last thread of a program ends it. A program may close all descriptors: memory is then shared anew, now or later. */
static bool goes_on(void)
{
  if (is_ending() || !helpers_beside())
    return false;
  if (page && os_is_shared(&shared))
    return true;
  if (page)
    os_end_shared(&shared);
  page = NULL;
  make_page();
  return true;
}

static bool has_question(void) { return page && __atomic_load_n(&page->asked, __ATOMIC_ACQUIRE) != page->answered; }

static void wait_for_question(void)
{
  static uint32_t nothing;
  if (!is_ending())
    os_wait_shared(page ? &page->asked : &nothing, page ? page->answered : 0, LOOK_MS);
}

static void answer(void)
{
  uint32_t asked = __atomic_load_n(&page->asked, __ATOMIC_ACQUIRE);
  write_figures();
  __atomic_store_n(&page->answered, asked, __ATOMIC_RELEASE);
  os_wake_shared(&page->answered);
}

/* A reader that asks between the look and the answer gets the text that was written before, and asks again. */
static void answer_for_ever(void)
{
  uint64_t looked = os_now_ms();
  for (;;) {
    if (!has_question())
      wait_for_question();
    if (is_ending() || os_now_ms() - looked >= LOOK_MS) {
      if (!goes_on())
        return;
      looked = os_now_ms();
    }
    if (has_question())
      answer();
  }
}

/* ---- start and stop ---- */

COLD static void begin(void)
{
  int error = make_page();
  if (!error) {
    error = os_start_thread(OS_EXPORT, answer_for_ever);
    if (error) {
      os_end_shared(&shared);
      page = NULL;
      page_process = 0;
    }
  }
  if (error)
    warn("export=1", EXPORT_IS_OFF);
}

void export_begin_if(void)
{
  static bool begun;
  if (settings.export && helpers_may_begin && manager_is_up() && !__atomic_exchange_n(&begun, true, __ATOMIC_RELAXED))
    begin();
}

/* The thread sleeps at a word of the page, which may be unmapped by now. */
static void wake(void)
{
  export_page_t *at = __atomic_load_n(&page, __ATOMIC_RELAXED);
  if (at)
    os_wake_shared(&at->asked);
}

void export_end(void)
{
  if (!page_process || page_process != os_process())
    return;
  __atomic_store_n(&ends, true, __ATOMIC_SEQ_CST);
  if (helpers_join(OS_EXPORT, wake, END_MS))
    helpers_note_end();
}

/* ---- forks ---- */

bool export_is_there(void) { return page && page_process == os_process(); }

bool export_fork_child(void)
{
  if (!page)
    return false;
  page = NULL;
  shared.size = 0; /* not mapped in the child */
  os_end_shared(&shared);
  return true;
}

void export_begin_due(void)
{
  if (helpers_take_due(HELPER_EXPORT))
    begin();
}
