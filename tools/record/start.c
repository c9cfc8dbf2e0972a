/* SPDX-License-Identifier: MIT
 *
 * When the process is recorded: from its start, where its environment says so, or when it asks for it. */
#include "claim.h"
#include "recorder.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tidepool/record.h>
#include <unistd.h>

enum { PAGE = 4096, FRAMES_USUAL = 16 };

static uint8_t nowhere[RECORDER_HERE + 1];
uint8_t *recorder_is_on = nowhere;
const void *recorder_only;
recording_kind_t recorder_only_kind;

/* What the program has asked for. */
typedef enum state { STATE_OFF, STATE_CHANGES, STATE_ON } state_t;
static state_t state;
static pid_t recorded_process;

/* PID:NAMESPACE:CLOCKS:BEGAN:FRAMES:FILE. Programs clear their environment, and write over it, before they have children. */
static char wish[PATH_MAX + 128];

static void keep_wish(void)
{
  const char *set = getenv("TIDEPOOL_RECORD");
  if (set && strlen(set) < sizeof wish)
    strcpy(wish, set);
}

/* The first process of each namespace has the number 1, and a process that has ended leaves its number to another. When it
 * began says nothing where it cannot be known, or by another clock: a program may have become one that has those. */
static bool is_process(long pid, const claim_t *of)
{
  if (pid != getpid())
    return false;
  claim_t own = claim_of_process();
  bool compares = of->began && own.began && of->clocks == own.clocks;
  return of->processes == own.processes && (!compares || of->began == own.began);
}

/* Other processes are recorded if the file has a name for each of them. */
static bool read_wish(char path[PATH_MAX], unsigned *frames)
{
  int at = 0;
  long pid = 0;
  claim_t of = {0, 0, 0};
  if (sscanf(wish, "%ld:%" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%u:%n", &pid, &of.processes, &of.clocks, &of.began, frames, &at) !=
        5 ||
      !at || *frames > RECORDING_FRAMES_MOST)
    return false;
  return (claim_path(path, wish + at) || is_process(pid, &of)) && *path;
}

/* A child keeps the page that its parent had. */
static bool has_page(void)
{
  if (recorder_is_on != nowhere) {
    recorder_is_on[RECORDER_HERE] = 1;
    return true;
  }
  uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return false;
  madvise(page, PAGE, MADV_WIPEONFORK);
  page[RECORDER_HERE] = 1;
  __atomic_store_n(&recorder_is_on, page, __ATOMIC_RELEASE);
  return true;
}

static bool begin_tables(unsigned frames)
{
  streams_renew();
  clock_begin();
  return sites_begin(frames);
}

static void begin(void)
{
  static char path[PATH_MAX]; /* the stack may be a coroutine's, and there is one thread */
  unsigned frames = FRAMES_USUAL;
  if (!read_wish(path, &frames) || !has_page() || !begin_tables(frames))
    return;
  if (file_begin(path, frames))
    __atomic_store_n(recorder_is_on, 1, __ATOMIC_RELEASE);
}

static bool become_child(void)
{
  recorder_is_on[0] = recorder_is_on[RECORDER_HERE] = 0; /* before Linux 4.14 pages keep what is in them */
  state = STATE_OFF;
  recorder_only = NULL;
  recorded_process = getpid();
  file_go_on_in_child(self.busy);
  heaps_go_on_in_child();
  return streams_go_on_in_child();
}

void recorder_go_on_in_child(void)
{
  calm_t before = calm_begin();
  bool was_busy = self.busy;
  if (become_child()) {
    self.busy = true;
    begin();
    self.busy = was_busy;
  }
  calm_end(&before);
}

void recorder_begin(void)
{
  static uint32_t begun;
  if (!environ || __atomic_exchange_n(&begun, 1, __ATOMIC_RELAXED))
    return;
  calm_t before = calm_begin();
  bool was_busy = self.busy;
  self.busy = true;
  recorded_process = getpid();
  keep_wish();
  if (streams_begin() && pthread_atfork(NULL, NULL, recorder_go_on_in_child) == 0)
    begin();
  self.busy = was_busy;
  calm_end(&before);
}

__attribute__((constructor)) static void load(void) { recorder_begin(); }

__attribute__((destructor)) static void unload(void)
{
  if (*recorder_is_on)
    file_end();
}

/* ---- what the program asks for ---- */

enum { START_WAITS_MS = 100, STOP_WAITS_MS = 1000 };

static bool try_state(state_t from, state_t to)
{
  return __atomic_compare_exchange_n(&state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* A recording that has ended by itself, on a disk that is full, leaves its state to who begins the next. */
static bool may_change(void)
{
  return !*recorder_is_on && (try_state(STATE_OFF, STATE_CHANGES) || try_state(STATE_ON, STATE_CHANGES));
}

/* A thread that is in an event of the last recording might go on to write to this one. */
static bool start_inside(const void *only, recording_kind_t kind, int file)
{
  if (!may_change()) {
    errno = EBUSY;
    return false;
  }
  bool is_on = false;
  if (!streams_end(START_WAITS_MS))
    errno = EBUSY;
  else if (!has_page() || !begin_tables(FRAMES_USUAL))
    errno = ENOMEM;
  else
    is_on = file_begin_at(file, FRAMES_USUAL);
  if (is_on) {
    recorder_only = only;
    recorder_only_kind = kind;
    __atomic_store_n(recorder_is_on, 1, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&state, is_on ? STATE_ON : STATE_OFF, __ATOMIC_RELEASE);
  return is_on;
}

static bool start(const void *only, recording_kind_t kind, int file)
{
  recorder_begin();
  int kept = errno;
  calm_t before = calm_begin();
  if (getpid() != recorded_process) /* no handler of pthread_atfork() was called */
    become_child();
  bool was_busy = self.busy;
  self.busy = true;
  bool is_on = start_inside(only, kind, file);
  self.busy = was_busy;
  calm_end(&before);
  errno = is_on ? kept : errno;
  return is_on;
}

static bool start_one(const void *only, recording_kind_t kind, int file)
{
  if (!only)
    errno = EINVAL;
  return only && start(only, kind, file);
}

bool pool_record_start(int fd) { return start(NULL, RECORDING_KIND_HEAP, fd); }
bool pool_record_start_heap(pool_heap_t *heap, int fd) { return start_one(heap, RECORDING_KIND_HEAP, fd); }
bool pool_record_start_object_pool(object_pool_t *pool, int fd) { return start_one(pool, RECORDING_KIND_OBJECT_POOL, fd); }

void pool_record_stop(void)
{
  int kept = errno, cancel;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
  bool was_busy = self.busy;
  self.busy = true;
  if (getpid() == recorded_process && try_state(STATE_ON, STATE_CHANGES)) {
    bool was_on = __atomic_exchange_n(recorder_is_on, 0, __ATOMIC_SEQ_CST);
    streams_end(STOP_WAITS_MS);
    calm_t before = calm_begin();
    recorder_only = NULL;
    if (was_on)
      file_end();
    file_close();
    __atomic_store_n(&state, STATE_OFF, __ATOMIC_RELEASE);
    calm_end(&before);
  }
  self.busy = was_busy;
  pthread_setcancelstate(cancel, &cancel);
  errno = kept;
}
