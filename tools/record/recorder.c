/* SPDX-License-Identifier: MIT
 *
 * Each thread writes its events to a chunk of its own, without a lock. A signal's handler that allocates in the middle of that
 * finds the thread busy and is not recorded; nor is what the recorder itself leads to. */
#include "recorder.h"
#include "os/os.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

__thread self_t self __attribute__((tls_model("initial-exec")));

uint32_t recorder_number;
static uint64_t began_ns;
static pthread_key_t key;

uint64_t clock_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t recorder_now(void) { return clock_now() - began_ns; }
uint64_t recorder_began(void) { return began_ns; }
void clock_begin(void) { began_ns = clock_now(); }

/* Where one of them is blocked its cause ends the process. A program may have the pages of its stacks by a handler of it. */
static const int of_faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};

calm_t calm_begin(void)
{
  calm_t before;
  sigset_t all;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof of_faults / sizeof *of_faults; i++)
    sigdelset(&all, of_faults[i]);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before.cancel);
  pthread_sigmask(SIG_SETMASK, &all, &before.signals);
  return before;
}

void calm_end(calm_t *before)
{
  pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
  pthread_setcancelstate(before->cancel, &before->cancel);
}

void *take_memory(size_t bytes)
{
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory != MAP_FAILED ? memory : NULL;
}

/* ---- streams ---- */

static stream_t *streams; /* all there ever were */
static uint32_t stream_count, thread_count;

static stream_t *take_free(void)
{
  for (stream_t *of = __atomic_load_n(&streams, __ATOMIC_ACQUIRE); of; of = of->next) {
    uint32_t state = STREAM_FREE;
    if (__atomic_load_n(&of->state, __ATOMIC_RELAXED) == STREAM_FREE &&
        __atomic_compare_exchange_n(&of->state, &state, STREAM_IN_EVENT, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return of;
  }
  return NULL;
}

/* As many as there are threads at once, beside whose chunks a page is little. */
static stream_t *make(void)
{
  stream_t *of = take_memory(sizeof *of);
  if (!of)
    return NULL;
  of->state = STREAM_IN_EVENT;
  of->next = __atomic_load_n(&streams, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&streams, &of->next, of, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
  return of;
}

/* What the thread allocates after this, in other destructors, has a stream for each event. A signal's handler that allocates
 * in the middle of this is not recorded: it would give the stream away first. */
static void end_thread(void *unused)
{
  (void)unused;
  self.has_ended = true;
  if (self.busy)
    return;
  self.busy = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  stream_t *of = self.stream;
  self.stream = NULL;
  if (of)
    __atomic_store_n(&of->state, STREAM_FREE, __ATOMIC_RELEASE);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  self.busy = false;
}

/* What frees alone may be the end of a thread, after the last destructor of a key: so that is no reason to wait for one. */
stream_t *stream_take(bool keeps)
{
  int kept = errno;
  stream_t *of = take_free();
  of = of ? of : make();
  if (of && keeps && !self.is_watched) {
    self.is_watched = true;
    pthread_setspecific(key, &self); /* any value but NULL */
  }
  errno = kept;
  return self.stream = of;
}

static void end_chunk(stream_t *of)
{
  uint8_t *chunk = of->end ? of->end - RECORDING_CHUNK : NULL;
  if (!chunk)
    return;
  file_leave_chunk(chunk);
  of->at = NULL;
  __atomic_store_n(&of->end, NULL, __ATOMIC_RELEASE);
  file_give_chunk(chunk);
}

bool streams_begin(void) { return pthread_key_create(&key, end_thread) == 0; }

/* False: it is not idle, or this thread's own. */
static bool is_idle(const stream_t *of, uint64_t until)
{
  while (__atomic_load_n(&of->state, __ATOMIC_ACQUIRE) == STREAM_IN_EVENT) {
    if (of == self.stream || clock_now() > until)
      return false;
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
  }
  return true;
}

/* The recording is off. Who was just before its event sees that, or is seen to be in it. */
bool streams_end(unsigned most_ms)
{
  bool are_idle = true;
  uint64_t until = clock_now() + (uint64_t)most_ms * 1000000;
  if (!os_can_fence_others() || !os_fence_others())
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  for (stream_t *of = __atomic_load_n(&streams, __ATOMIC_ACQUIRE); of; of = of->next)
    if (is_idle(of, until))
      end_chunk(of);
    else
      are_idle = false;
  return are_idle;
}

void streams_renew(void)
{
  stream_count = thread_count = 0;
  recorder_number++;
}

/* The chunks are the parent's. If a signal's handler has forked in the middle of an event, that goes on in the child: into
 * memory of its own, which nobody reads. Streams of threads that are not here any more are left alone. */
bool streams_go_on_in_child(void)
{
  stream_t *own = self.stream;
  recorder_number++;
  thread_count = self.thread = 0;
  if (self.busy && own) {
    if (own->coming)
      file_replace_chunk(own->coming);
    if (own->end)
      file_replace_chunk(own->end - RECORDING_CHUNK);
    own->next = NULL;
    streams = own;
    return false;
  }
  for (stream_t *of = streams; of; of = of->next) {
    if (of->coming && (!of->end || of->coming != of->end - RECORDING_CHUNK))
      file_give_chunk(of->coming);
    of->coming = NULL;
    end_chunk(of);
  }
  streams = self.stream = NULL;
  return !self.busy;
}

/* The times of a stream go on from one chunk to the next, so none is before the head's. */
static bool begin_chunk_in_calm(void)
{
  stream_t *of = self.stream;
  uint8_t *chunk = file_next_chunk(&of->coming);
  if (!chunk)
    return false;
  recording_chunk_t *chunk_head = (recording_chunk_t *)(void *)chunk;
  end_chunk(of);
  if (!of->number) {
    of->number = __atomic_add_fetch(&stream_count, 1, __ATOMIC_RELAXED);
    of->last_ns = recorder_now();
    of->chunks = 0;
  }
  of->at = chunk + sizeof *chunk_head;
  __atomic_store_n(&of->end, chunk + RECORDING_CHUNK, __ATOMIC_RELEASE);
  __atomic_store_n(&of->coming, NULL, __ATOMIC_RELEASE);
  of->last_place = 0;
  of->heap = 0;
  of->is_fine = false;
  of->thread = self.thread;
  chunk_head->stream = of->number;
  chunk_head->thread = of->thread;
  chunk_head->number = ++of->chunks;
  chunk_head->from_ns = of->last_ns;
  __atomic_store_n(&chunk_head->mark, RECORDING_CHUNK_MARK, __ATOMIC_RELEASE);
  file_count_chunk();
  return true;
}

static bool begin_chunk(void)
{
  calm_t before = calm_begin();
  bool has_begun = begin_chunk_in_calm();
  calm_end(&before);
  return has_begun;
}

/* Each recording counts its own. */
static void number_thread(void)
{
  if (self.thread && self.recording == recorder_number)
    return;
  uint32_t number = __atomic_add_fetch(&thread_count, 1, __ATOMIC_RELAXED);
  self.thread = number < RECORDING_THREADS_MOST ? number : RECORDING_THREADS_MOST;
  self.recording = recorder_number;
}

void stream_renew(void)
{
  stream_t *of = self.stream;
  int kept = errno;
  number_thread();
  if (of->recording != recorder_number) {
    end_chunk(of);
    of->number = 0;
    of->recording = recorder_number;
  }
  if (!of->at)
    begin_chunk();
  else if (of->thread != self.thread && stream_has_room(RECORDING_EVENT_MOST) && of->thread != self.thread) {
    uint8_t *first = begin_put();
    put_number(self.thread);
    end_put(first, RECORDING_THREAD);
    of->thread = self.thread;
  }
  errno = kept;
}

/* The last byte of a chunk is never written, so that each chunk ends with a 0. A handler that waited for a new chunk may have
 * forked by clone() alone. */
bool stream_has_room(size_t bytes)
{
  stream_t *of = self.stream;
  bool has_room = (size_t)(of->end - of->at) > bytes || begin_chunk();
  if (has_room && unlikely(!recorder_is_here()))
    file_replace_chunk(of->end - RECORDING_CHUNK);
  return has_room;
}

/* ---- events ---- */

static void put_address(const void *address)
{
  uint64_t place = self.stream->is_fine ? (uintptr_t)address : (uintptr_t)address / 8;
  put_difference(place, self.stream->last_place);
  self.stream->last_place = place;
}

/* Objects of fewer than eight bytes lie at any address. */
static void admit(const void *address)
{
  stream_t *of = self.stream;
  if (likely((uintptr_t)address % 8 == 0) || of->is_fine)
    return;
  put_byte(RECORDING_FINE);
  of->is_fine = true;
  of->last_place *= 8;
}

/* Which heap the next event is of, if that is another than before. */
static void put_heap(uint32_t heap)
{
  if (self.stream->heap == heap)
    return;
  uint8_t *first = begin_put();
  put_number(heap);
  end_put(first, RECORDING_IN);
  self.stream->heap = heap;
}

/* The site comes first: it may write itself, to this chunk or to the next. */
void record_block(uint32_t heap, recording_op_t op, const void *block, size_t size, size_t alignment, const void *caller)
{
  uint64_t now = recorder_now();
  uint32_t site = site_of_caller(caller);
  if (!stream_has_room(RECORDING_EVENT_MOST))
    return;
  put_heap(heap);
  admit(block);
  uint8_t *first = begin_put();
  put_time(now);
  if (block)
    put_address(block);
  put_number(size);
  put_number(site);
  if (block && op == RECORDING_ALIGNED)
    put_number((uint64_t)__builtin_ctzll(alignment));
  end_put(first, block ? op : RECORDING_FAILED);
}

void record_free(const void *block)
{
  uint64_t now = recorder_now();
  if (!stream_has_room(RECORDING_EVENT_MOST))
    return;
  admit(block);
  uint8_t *first = begin_put();
  put_time(now);
  put_address(block);
  end_put(first, RECORDING_FREE);
}

/* Of a block that was there before the recording nothing is known. */
void record_realloc(uint32_t heap, uint64_t began, const void *old, const void *block, size_t size, const void *caller)
{
  if (began < began_ns) {
    record_block(heap, RECORDING_ALLOC, block, size, 1, caller);
    return;
  }
  uint64_t now = recorder_now();
  uint32_t site = site_of_caller(caller);
  if (!stream_has_room(RECORDING_EVENT_MOST))
    return;
  put_heap(heap);
  admit(old);
  admit(block);
  uint8_t *first = begin_put();
  put_time(began - began_ns);
  put_address(old);
  put_number(now > self.stream->last_ns ? now - self.stream->last_ns : 0);
  put_address(block);
  put_number(size);
  put_number(site);
  end_put(first, RECORDING_REALLOC);
}

/* Those that there was no room for have one number, and others of them go on. */
void record_drop(uint32_t heap)
{
  if (heap == RECORDING_HEAPS_MOST)
    return;
  uint64_t now = recorder_now();
  if (!stream_has_room(RECORDING_EVENT_MOST))
    return;
  uint8_t *first = begin_put();
  put_time(now);
  put_number(heap);
  end_put(first, RECORDING_DROP);
}
