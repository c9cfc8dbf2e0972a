/* SPDX-License-Identifier: MIT */
#include "heap/export.h"
#include "base/text.h"
#include "heap/export_page.h"
#include "heap/heap.h"
#include "misuse.h"
#include "option.h"

size_t (*export_figures)(char *buffer, size_t size);

static export_page_t *page;
static uint32_t page_process; /* which has it: a child that was made without fork() finds the pointer, and no page */

typedef char path_t[64];

static void name_file(path_t path, bool is_complete)
{
  text_t text = {path, sizeof(path_t), 0};
  text_string(&text, is_complete ? EXPORT_FOLDER EXPORT_NAME : EXPORT_FOLDER "." EXPORT_NAME);
  text_number(&text, os_process());
  text_char(&text, '.');
  text_number(&text, os_process_namespace());
  text_finish(&text);
}

/* Another thread may be at the same place of the file, if two processes ask: so the sequence is odd meanwhile. What does not
 * fit is not there at all: half a text is none. */
static void write_figures(void)
{
  uint64_t capacity = __atomic_load_n(&page->capacity, __ATOMIC_ACQUIRE);
  size_t most = EXPORT_MOST - sizeof *page, size = capacity < most ? (size_t)capacity : most;
  __atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  size_t length = export_figures((char *)(page + 1), size);
  page->length = length < size ? (uint32_t)length : 0;
  page->needed = length + 1;
  page->written_ms = os_now_ms();
  __atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_RELEASE);
}

/* Who asks between the look and the answer is told what was written before, and asks again. */
static void answer_for_ever(void)
{
  for (;;) {
    uint32_t asked = __atomic_load_n(&page->asked, __ATOMIC_ACQUIRE);
    if (asked == page->answered) {
      os_wait_shared(&page->asked, asked);
      continue;
    }
    write_figures();
    __atomic_store_n(&page->answered, asked, __ATOMIC_RELEASE);
    os_wake_shared(&page->answered);
  }
}

/* A file that has the name is complete, and its process has it mapped. One that is left of a process of the same number is
 * replaced. */
static int make_page(void)
{
  path_t path, temporary;
  void *mapped;
  name_file(path, true);
  name_file(temporary, false);
  int error = os_share_page(temporary, EXPORT_FIRST_BYTES, EXPORT_MOST, &mapped);
  if (error)
    return error;
  page = mapped;
  *page = (export_page_t){.mark = EXPORT_MARK,
                          .version = EXPORT_VERSION,
                          .header_bytes = sizeof *page,
                          .capacity = EXPORT_FIRST_BYTES - sizeof *page};
  page_process = os_process();
  error = os_rename(temporary, path);
  if (error) {
    os_remove(temporary);
    return error;
  }
  error = os_start_thread(answer_for_ever);
  if (error)
    os_remove(path);
  return error;
}

COLD static void begin(void)
{
  int error = make_page();
  if (!error)
    return;
  if (page)
    os_unmap(page, EXPORT_MOST);
  page = NULL;
  path_t path;
  name_file(path, true);
  warn(path, EXPORT_IS_OFF);
}

void export_begin_if(void)
{
  static bool begun;
  if (settings.export && export_figures && manager_is_up() && !__atomic_exchange_n(&begun, true, __ATOMIC_RELAXED))
    begin();
}

void export_end(void)
{
  path_t path;
  if (!page || page_process != os_process())
    return;
  name_file(path, true);
  os_remove(path);
}

/* ---- forks ---- */

static THREAD_LOCAL bool was_alone;

void export_fork_prepare(void) { was_alone = page && page_process == os_process() && os_threads() == 2; }

void export_fork_child(void)
{
  page = NULL;
  if (was_alone)
    begin();
}
