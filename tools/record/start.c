/* SPDX-License-Identifier: MIT
 *
 * When the process is recorded: from its start, where its environment says so, or when it asks for it. */
#include "recorder.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tidepool/record.h>
#include <unistd.h>

enum { PAGE = 4096, FRAMES_USUAL = 16 };

static uint8_t nowhere;
uint8_t *recorder_is_on = &nowhere;
const void *recorder_only;

/* What the program has asked for. */
typedef enum state { STATE_OFF, STATE_CHANGES, STATE_ON, STATE_STUCK } state_t;
static state_t state;

/* PID:FRAMES:FILE. Programs clear their environment, and write over it, before they have children. */
static char wish[PATH_MAX + 64];

static void keep_wish(void)
{
  const char *set = getenv("TIDEPOOL_RECORD");
  if (set && strlen(set) < sizeof wish)
    strcpy(wish, set);
}

/* Other processes are recorded if the file has a name for each of them. */
static bool read_wish(char path[PATH_MAX], unsigned *frames)
{
  int at = 0;
  long pid = 0;
  if (sscanf(wish, "%ld:%u:%n", &pid, frames, &at) != 2 || !at || *frames > RECORDING_FRAMES_MOST)
    return false;
  const char *name = wish + at, *mark = strstr(name, "%p");
  if (!mark && pid != getpid())
    return false;
  int length = mark ? snprintf(path, PATH_MAX, "%.*s%d%s", (int)(mark - name), name, (int)getpid(), mark + 2)
                    : snprintf(path, PATH_MAX, "%s", name);
  return length > 0 && length < PATH_MAX;
}

/* A child keeps the page that its parent had. */
static bool has_page(void)
{
  if (recorder_is_on != &nowhere)
    return true;
  uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return false;
  madvise(page, PAGE, MADV_WIPEONFORK);
  __atomic_store_n(&recorder_is_on, page, __ATOMIC_RELEASE);
  return true;
}

static void begin_tables(unsigned frames)
{
  clock_begin();
  sites_begin(frames);
  heaps_begin();
}

static void begin(void)
{
  char path[PATH_MAX];
  unsigned frames = FRAMES_USUAL;
  if (!read_wish(path, &frames) || !has_page())
    return;
  begin_tables(frames);
  if (file_begin(path, frames))
    *recorder_is_on = 1;
}

static void go_on_in_child(void)
{
  *recorder_is_on = 0;
  state = STATE_OFF;
  recorder_only = NULL;
  if (!streams_go_on_in_child())
    return;
  begin();
  stream.busy = false;
}

void recorder_begin(void)
{
  static uint32_t begun;
  if (!environ || __atomic_exchange_n(&begun, 1, __ATOMIC_RELAXED))
    return;
  bool was_busy = stream.busy;
  stream.busy = true;
  keep_wish();
  if (streams_begin() && pthread_atfork(NULL, NULL, go_on_in_child) == 0)
    begin();
  stream.busy = was_busy;
}

__attribute__((constructor)) static void load(void) { recorder_begin(); }

__attribute__((destructor)) static void unload(void)
{
  if (*recorder_is_on)
    file_end();
}

/* ---- what the program asks for ---- */

static bool try_state(state_t from, state_t to)
{
  return __atomic_compare_exchange_n(&state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Says EBUSY where a thread did not come out of an event, as after a jump out of a signal's handler in the middle of one: it
 * might go on to write to what is there now. */
static bool start(const void *only, int file)
{
  recorder_begin();
  if (*recorder_is_on || !try_state(STATE_OFF, STATE_CHANGES)) {
    errno = EBUSY;
    return false;
  }
  bool was_busy = stream.busy, is_on = false;
  stream.busy = true;
  if (has_page()) {
    begin_tables(FRAMES_USUAL);
    streams_renew();
    recorder_only = only;
    is_on = file_begin_at(file, FRAMES_USUAL);
  }
  __atomic_store_n(&state, is_on ? STATE_ON : STATE_OFF, __ATOMIC_RELEASE);
  stream.busy = was_busy;
  if (is_on)
    __atomic_store_n(recorder_is_on, 1, __ATOMIC_RELEASE);
  return is_on;
}

bool pool_record_start(int fd) { return start(NULL, fd); }
bool pool_record_start_heap(pool_heap_t *heap, int fd) { return start(heap, fd); }
bool pool_record_start_object_pool(object_pool_t *pool, int fd) { return start(pool, fd); }

/* Where threads do not come out of their events, nothing begins again. */
void pool_record_stop(void)
{
  int kept = errno;
  if (try_state(STATE_ON, STATE_CHANGES)) {
    bool was_on = __atomic_exchange_n(recorder_is_on, 0, __ATOMIC_SEQ_CST);
    bool are_idle = streams_end();
    if (was_on)
      file_end();
    file_close();
    __atomic_store_n(&state, are_idle ? STATE_OFF : STATE_STUCK, __ATOMIC_RELEASE);
  }
  errno = kept;
}
