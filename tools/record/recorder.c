/* SPDX-License-Identifier: MIT
 *
 * Each thread writes its events to a chunk of its own, without a lock. A signal's handler that allocates in the middle of that
 * finds the stream busy and is not recorded; nor is what the recorder itself leads to. */
#include "recorder.h"
#include "os/os.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { WAITS_MOST = 1000 };

__thread stream_t stream __attribute__((tls_model("initial-exec")));

static uint64_t began_ns;
static pthread_key_t key;

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t recorder_now(void) { return now_ns() - began_ns; }

void clock_begin(void) { began_ns = now_ns(); }

/* ---- streams ---- */

/* What threads that have ended wrote to. Others go on there: or each, however short, would take a chunk of the file. */
enum { PARKED_MOST = 256 };
typedef enum parked_state { PARKED_NONE, PARKED_CHANGES, PARKED_STREAM } parked_state_t;
static struct {
  uint32_t state; /* the acquire of who takes it pairs with the release of who put it */
  stream_t stream;
} parked[PARKED_MOST];
static uint32_t streams, threads;

static bool change(size_t i, parked_state_t from)
{
  uint32_t expected = from;
  return __atomic_load_n(&parked[i].state, __ATOMIC_RELAXED) == from &&
         __atomic_compare_exchange_n(&parked[i].state, &expected, PARKED_CHANGES, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static bool take_parked(void)
{
  for (size_t i = 0; i < PARKED_MOST; i++) {
    if (!change(i, PARKED_STREAM))
      continue;
    const stream_t *from = &parked[i].stream;
    stream.at = from->at, stream.end = from->end, stream.number = from->number;
    stream.last_ns = from->last_ns, stream.last_place = from->last_place, stream.heap = from->heap;
    __atomic_store_n(&parked[i].state, PARKED_NONE, __ATOMIC_RELEASE);
    return true;
  }
  return false;
}

static bool put_parked(void)
{
  for (size_t i = 0; i < PARKED_MOST; i++) {
    if (!change(i, PARKED_NONE))
      continue;
    parked[i].stream = stream;
    __atomic_store_n(&parked[i].state, PARKED_STREAM, __ATOMIC_RELEASE);
    return true;
  }
  return false;
}

void stream_park(void)
{
  if (stream.at && !put_parked())
    file_give_chunk(stream.end - RECORDING_CHUNK);
  stream.at = stream.end = NULL;
  stream.number = 0;
  stream.last_ns = 0;
}

/* ---- threads ----
 *
 * Threads that have a stream are in a list, for who stops the recording. The lock is held for a few steps, and by nobody who is
 * in an event that a signal's handler could interrupt to come here: a handler finds the thread busy. */

static stream_t *watched;
static uint32_t watched_lock;

static void lock_watched(void)
{
  while (__atomic_exchange_n(&watched_lock, 1, __ATOMIC_ACQUIRE))
    sched_yield();
}

static void unlock_watched(void) { __atomic_store_n(&watched_lock, 0, __ATOMIC_RELEASE); }

static void enter_list(void)
{
  lock_watched();
  stream.next = watched;
  stream.previous = NULL;
  if (watched)
    watched->previous = &stream;
  watched = &stream;
  unlock_watched();
}

static void leave_list(void)
{
  lock_watched();
  if (stream.next)
    stream.next->previous = stream.previous;
  if (stream.previous)
    stream.previous->next = stream.next;
  else
    watched = stream.next;
  unlock_watched();
}

/* What the thread allocates after this, in other destructors, takes a stream for each event. */
static void end_stream(void *unused)
{
  (void)unused;
  bool was_busy = stream.busy;
  stream.busy = stream.has_ended = true;
  leave_list();
  stream_park();
  stream.busy = was_busy;
}

static void watch_thread(void)
{
  if (stream.is_watched)
    return;
  stream.is_watched = true;
  uint32_t number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
  stream.thread = number < RECORDING_THREADS_MOST ? number : RECORDING_THREADS_MOST;
  pthread_setspecific(key, &stream); /* any value but NULL */
  enter_list();
}

bool streams_begin(void) { return pthread_key_create(&key, end_stream) == 0; }

/* What a stream has is not written to any more. */
static void end_chunk(stream_t *of)
{
  if (of->at)
    file_give_chunk(of->end - RECORDING_CHUNK);
  of->at = of->end = NULL;
  of->number = of->heap = 0;
  of->last_ns = of->last_place = 0;
}

static bool wait_for(const stream_t *of)
{
  for (unsigned i = 0; __atomic_load_n(&of->busy, __ATOMIC_ACQUIRE); i++) {
    if (of == &stream || i == WAITS_MOST)
      return false;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return true;
}

/* A thread that was just before its event sees that the recording is over, or is seen to be busy. */
bool streams_end(void)
{
  bool are_idle = true;
  if (!os_can_fence_others() || !os_fence_others())
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  lock_watched();
  for (const stream_t *of = watched; of; of = of->next)
    are_idle &= wait_for(of);
  for (stream_t *of = watched; are_idle && of; of = of->next)
    end_chunk(of);
  unlock_watched();
  for (size_t i = 0; are_idle && i < PARKED_MOST; i++)
    if (change(i, PARKED_STREAM)) {
      end_chunk(&parked[i].stream);
      __atomic_store_n(&parked[i].state, PARKED_NONE, __ATOMIC_RELEASE);
    }
  return are_idle;
}

/* Numbers of threads are theirs, and go on. */
void streams_renew(void) { streams = 0; }

/* The chunks are the parent's. If a signal's handler has forked in the middle of an event, that goes on in the child: into
 * memory of its own, which nobody reads. */
bool streams_go_on_in_child(void)
{
  bool is_watched = stream.is_watched && !stream.has_ended;
  watched_lock = 0;
  watched = is_watched ? &stream : NULL;
  stream.next = stream.previous = NULL;
  if (stream.busy) {
    if (stream.end)
      mmap(stream.end - RECORDING_CHUNK, RECORDING_CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
           0);
    return false;
  }
  watched = NULL;
  stream = (stream_t){.busy = true};
  memset(parked, 0, sizeof parked);
  streams = threads = 0;
  return true;
}

/* The times of a stream go on from one chunk to the next, so none is before the head's. */
static bool begin_chunk(void)
{
  uint8_t *chunk = file_next_chunk();
  if (!chunk)
    return false;
  recording_chunk_t *chunk_head = (recording_chunk_t *)(void *)chunk;
  if (stream.end)
    file_give_chunk(stream.end - RECORDING_CHUNK);
  if (!stream.number) {
    stream.number = __atomic_add_fetch(&streams, 1, __ATOMIC_RELAXED);
    stream.last_ns = recorder_now();
  }
  stream.at = chunk + sizeof *chunk_head;
  stream.end = chunk + RECORDING_CHUNK;
  stream.last_place = 0;
  stream.heap = 0;
  chunk_head->stream = stream.number;
  chunk_head->thread = stream.thread;
  chunk_head->from_ns = stream.last_ns;
  __atomic_store_n(&chunk_head->mark, RECORDING_CHUNK_MARK, __ATOMIC_RELEASE);
  return true;
}

void stream_take(void)
{
  int kept = errno;
  watch_thread();
  if (!take_parked())
    begin_chunk();
  else if (stream_has_room(RECORDING_EVENT_MOST)) {
    uint8_t *first = begin_put();
    put_number(stream.thread);
    end_put(first, RECORDING_THREAD);
  }
  errno = kept;
}

/* The last byte of a chunk is never written, so that each chunk ends with a 0. */
bool stream_has_room(size_t bytes) { return (size_t)(stream.end - stream.at) > bytes || begin_chunk(); }

/* ---- events ---- */

static void put_time(uint64_t now)
{
  put_number(now > stream.last_ns ? now - stream.last_ns : 0);
  stream.last_ns = now > stream.last_ns ? now : stream.last_ns;
}

static void put_address(const void *address)
{
  uint64_t place = (uintptr_t)address / 8;
  put_difference(place, stream.last_place);
  stream.last_place = place;
}

/* Which heap the next event is of, if that is another than before. */
static void put_heap(uint32_t heap)
{
  if (stream.heap == heap)
    return;
  uint8_t *first = begin_put();
  put_number(heap);
  end_put(first, RECORDING_IN);
  stream.heap = heap;
}

/* The site comes first: it may write itself, to this chunk or to the next. */
void record_block(uint32_t heap, recording_op_t op, const void *block, size_t size, size_t alignment, const void *caller)
{
  uint64_t now = recorder_now();
  uint32_t site = site_of_caller(caller);
  if (!stream_has_room(RECORDING_EVENT_MOST))
    return;
  put_heap(heap);
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
  uint8_t *first = begin_put();
  put_time(now);
  put_address(block);
  end_put(first, RECORDING_FREE);
}

void record_realloc(uint32_t heap, uint64_t began, const void *old, const void *block, size_t size, const void *caller)
{
  uint64_t now = recorder_now();
  uint32_t site = site_of_caller(caller);
  if (!stream_has_room(RECORDING_EVENT_MOST))
    return;
  put_heap(heap);
  uint8_t *first = begin_put();
  put_time(began);
  put_address(old);
  put_number(now - stream.last_ns);
  put_address(block);
  put_number(size);
  put_number(site);
  end_put(first, RECORDING_REALLOC);
}

void record_drop(uint32_t heap)
{
  uint64_t now = recorder_now();
  if (!stream_has_room(RECORDING_EVENT_MOST))
    return;
  uint8_t *first = begin_put();
  put_time(now);
  put_number(heap);
  end_put(first, RECORDING_DROP);
}
