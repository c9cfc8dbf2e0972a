/* SPDX-License-Identifier: MIT
 *
 *   recorded-heaps WHAT [FILE]
 *
 * What test_record_heaps.py has recorded: a program with heaps and object pools, of which it is known what each does. With
 * START it is linked with the recorder, and begins and ends recordings itself. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tidepool.h>
#include <unistd.h>
#ifdef START
#include "recorded_slot.h"
#include <tidepool/record.h>
#endif

static void expect(bool is_so, int line)
{
  if (is_so)
    return;
  fprintf(stderr, "recorded-heaps: line %d\n", line);
  exit(1);
}
#define EXPECT(condition) expect(condition, __LINE__)

/* ---- what each does ---- */

/* Live at the end: 1,000 bytes in 10 blocks of 100, and 300, 500 and 700 in one each. */
static void use_sessions(pool_heap_t *heap)
{
  void *blocks[4];
  for (int i = 0; i < 10; i++)
    EXPECT(pool_heap_alloc(heap, 100) != NULL);
  EXPECT((blocks[0] = pool_heap_zalloc(heap, 200)) != NULL);
  EXPECT((blocks[0] = pool_heap_realloc(heap, blocks[0], 300)) != NULL);
  EXPECT((blocks[1] = pool_heap_calloc(heap, 5, 100)) != NULL);
  EXPECT((blocks[2] = pool_heap_aligned_alloc(heap, 256, 700)) != NULL);
  EXPECT((blocks[3] = pool_heap_alloc(heap, 40)) != NULL);
  if (pool_resize_in_place(blocks[3], 41))
    pool_heap_free(heap, blocks[3]);
  else
    pool_free(blocks[3]);
  EXPECT(pool_heap_alloc(heap, 64 << 20) == NULL); /* beyond its budget */
}

/* Ten heaps of one name: 5,000 bytes were live in each, and nothing is in the end. Every second one is only reset, and one is
 * used again. */
static void use_requests(pool_heap_t *parent)
{
  for (int i = 0; i < 10; i++) {
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "request", .parent = parent});
    EXPECT(heap != NULL);
    for (int k = 0; k < 5; k++)
      EXPECT(pool_heap_alloc(heap, 1000) != NULL);
    if (i % 2)
      pool_heap_reset(heap);
    pool_heap_destroy(heap);
  }
}

/* Live at the end: 7 objects of 48 bytes. */
static void use_objects(object_pool_t *pool)
{
  void *objects[16], *more[4];
  for (int i = 0; i < 16; i++)
    EXPECT((objects[i] = object_pool_get(pool)) != NULL);
  object_pool_put_all(pool);
  EXPECT(object_pool_get_batch(pool, objects, 8) == 8);
  object_pool_put_batch(pool, objects, 5);
  for (int i = 0; i < 4; i++)
    EXPECT((more[i] = object_pool_get(pool)) != NULL);
  object_pool_put(pool, more[0]);
  EXPECT((more[0] = object_pool_get(pool)) != NULL);
}

static void *first_object(object_pool_t *pool, void *unused)
{
  (void)unused;
  return object_pool_next(pool, NULL);
}

/* Each get but two evicts: 2 objects of 80 bytes are live. */
static void use_evicting(pool_heap_t *heap)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.name = "evicting",
                                                                    .object_size = 80,
                                                                    .capacity = 2,
                                                                    .when_full = OBJECT_POOL_EVICT,
                                                                    .choose_victim = first_object,
                                                                    .heap = heap});
  EXPECT(pool != NULL);
  for (int i = 0; i < 20; i++)
    EXPECT(object_pool_get(pool) != NULL);
}

/* Live at the end: 40 and 50 bytes, and 3 blocks of 60. */
static void use_default(void)
{
  void *blocks[6];
  EXPECT(pool_alloc(40) != NULL);
  EXPECT((blocks[0] = pool_calloc(10, 10)) != NULL);
  EXPECT((blocks[0] = pool_realloc(blocks[0], 50)) != NULL);
  EXPECT((blocks[1] = pool_aligned_alloc(64, 640)) != NULL);
  pool_free_sized(blocks[1], 640);
  EXPECT((blocks[1] = pool_realloc(NULL, 70)) != NULL);
  EXPECT(pool_realloc(blocks[1], 0) == NULL);
  EXPECT(pool_alloc_batch(60, blocks, 6) == 6);
  pool_free_batch(blocks + 3, 3);
}

/* An object pool goes with its heap: nothing of it is live in the end. */
static void use_doomed(void)
{
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "doomed"});
  object_pool_t *pool =
    object_pool_create(&(object_pool_options_t){.name = "doomed too", .object_size = 32, .capacity = 8, .heap = heap});
  EXPECT(heap && pool);
  for (int i = 0; i < 8; i++)
    EXPECT(object_pool_get(pool) != NULL);
  EXPECT(pool_heap_alloc(heap, 900) != NULL);
  pool_heap_destroy(heap);
}

typedef struct all {
  pool_heap_t *sessions;
  object_pool_t *messages;
} all_t;

static all_t make(void)
{
  all_t all;
  all.sessions = pool_heap_create(&(pool_heap_options_t){.name = "sessions", .budget = 16 << 20});
  all.messages =
    object_pool_create(&(object_pool_options_t){.name = "messages", .object_size = 48, .capacity = 16, .heap = all.sessions});
  EXPECT(all.sessions && all.messages);
  return all;
}

static void use(all_t all)
{
  use_sessions(all.sessions);
  use_objects(all.messages);
  use_evicting(all.sessions);
  use_requests(all.sessions);
  use_default();
  use_doomed();
}

/* ---- many threads ---- */

enum { THREADS = 4, ROUNDS = 20000 };

static void *use_in_thread(void *heap)
{
  pool_heap_t *own = pool_heap_create(&(pool_heap_options_t){.name = "of a thread"});
  void *kept[16] = {NULL};
  for (unsigned i = 0; i < ROUNDS; i++) {
    void **at = &kept[i * 7 % 16];
    pool_free(*at);
    EXPECT((*at = pool_heap_alloc(i % 3 ? heap : own, 16 + i % 200)) != NULL);
    if (i % 1000 == 999) {
      for (size_t k = 0; k < 16; k++) {
        pool_free(kept[k]);
        kept[k] = NULL;
      }
      pool_heap_reset(own);
    }
  }
  for (size_t k = 0; k < 16; k++)
    pool_free(kept[k]);
  pool_heap_destroy(own);
  return NULL;
}

static void use_threads(void)
{
  pthread_t threads[THREADS];
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "shared"});
  for (int i = 0; i < THREADS; i++)
    EXPECT(pthread_create(&threads[i], NULL, use_in_thread, heap) == 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

/* ---- what the program asks for itself ---- */

#ifdef START
static int open_for(const char *path, int flags)
{
  int file = open(path, flags | O_CREAT | O_TRUNC, 0600);
  EXPECT(file >= 0);
  return file;
}

/* What was there before is known by name all the same, and the file is the program's to close. */
static void start_late(const char *path)
{
  all_t all = make();
  EXPECT(pool_heap_alloc(all.sessions, 5000) != NULL);
  int file = open_for(path, O_WRONLY);
  EXPECT(pool_record_start(file));
  close(file);
  EXPECT(!pool_record_start(0) && errno == EBUSY);
  use(all);
  pool_record_stop();
  pool_record_stop();
  EXPECT(pool_heap_alloc(all.sessions, 6000) != NULL);
}

static void start_one(const char *path, bool is_pool)
{
  all_t all = make();
  int file = open_for(path, O_RDWR);
  EXPECT(is_pool ? pool_record_start_object_pool(all.messages, file) : pool_record_start_heap(all.sessions, file));
  use(all);
  EXPECT(malloc(100) != NULL);
  pool_record_stop();
}

/* Threads are at work meanwhile, and each recording is whole. */
static volatile bool is_over;

static void *work(void *heap)
{
  while (!is_over) {
    void *block = pool_heap_alloc(heap, 123), *other = malloc(45);
    EXPECT(block && other);
    pool_heap_free(heap, block);
    free(other);
  }
  return NULL;
}

static void start_often(const char *path)
{
  pthread_t threads[THREADS];
  all_t all = make();
  char name[4096];
  for (int i = 0; i < THREADS; i++)
    EXPECT(pthread_create(&threads[i], NULL, work, all.sessions) == 0);
  for (int i = 0; i < 10; i++) {
    snprintf(name, sizeof name, "%s.%d", path, i);
    int file = open_for(name, O_RDWR);
    EXPECT(pool_record_start(file));
    close(file);
    usleep(20000);
    EXPECT(pool_heap_alloc(all.sessions, 77) != NULL);
    pool_record_stop();
  }
  is_over = true;
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

static void start_wrongly(void)
{
  int ends[2];
  EXPECT(pipe(ends) == 0);
  EXPECT(!pool_record_start(ends[1]) && errno == EINVAL);
  EXPECT(!pool_record_start(-1) && errno == EBADF);
  EXPECT(!pool_record_start(open("/dev/null", O_RDWR)) && errno == EINVAL);
}

/* A child is not recorded, and may begin a recording of its own. */
static void start_and_fork(const char *path)
{
  all_t all = make();
  char name[4096];
  int status, file = open_for(path, O_RDWR);
  EXPECT(pool_record_start(file));
  pid_t child = fork();
  if (!child) {
    EXPECT(pool_heap_alloc(all.sessions, 11111) != NULL);
    snprintf(name, sizeof name, "%s.child", path);
    EXPECT(pool_record_start(open_for(name, O_RDWR)));
    EXPECT(pool_heap_alloc(all.sessions, 22222) != NULL);
    pool_record_stop();
    _exit(0);
  }
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  EXPECT(pool_heap_alloc(all.sessions, 33333) != NULL);
  pool_record_stop();
}

/* An object pool that is recorded alone ends with its heap, and another is at its address then. */
static void start_pool_of_heap(const char *path)
{
  object_pool_t *pools[2];
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "first"});
  for (int i = 0; i < 2; i++) {
    pools[i] = object_pool_create(
      &(object_pool_options_t){.name = i ? "second" : "first", .object_size = 64, .capacity = 100, .heap = heap});
    EXPECT(i || pool_record_start_object_pool(pools[i], open_for(path, O_RDWR)));
    for (int objects = i ? 50 : 10; objects; objects--)
      EXPECT(object_pool_get(pools[i]) != NULL);
    if (i)
      pool_heap_reset(heap);
    else {
      pool_heap_destroy(heap);
      heap = pool_heap_create(&(pool_heap_options_t){.name = "second"});
    }
  }
  EXPECT(pools[0] == pools[1]);
  pool_record_stop();
}

/* realloc() to nothing frees the block, which another thread has before it returns. */
static void *take_slot(void *unused)
{
  void *volatile block = malloc(SLOT_BYTES);
  EXPECT(block != NULL);
  slot_was_handed_on = 1;
  return unused;
}

static void start_and_empty(const char *path)
{
  pthread_t thread;
  EXPECT(pool_record_start(open_for(path, O_RDWR)));
  void *volatile block = malloc(SLOT_BYTES);
  EXPECT(pthread_create(&thread, NULL, take_slot, NULL) == 0);
  EXPECT(!realloc(block, 0));
  pthread_join(thread, NULL);
  pool_record_stop();
}

/* Whose file it was, another process may record to it once the recording is over; also where the program has closed the
 * recorder's descriptor, as daemons close all. */
static void start_after_another(const char *path, bool closes)
{
  int ready[2], status;
  EXPECT(pipe(ready) == 0);
  pid_t other = fork();
  if (!other) {
    char byte;
    EXPECT(read(ready[0], &byte, 1) == 1);
    EXPECT(pool_record_start(open(path, O_RDWR)));
    pool_record_stop();
    _exit(0);
  }
  EXPECT(pool_record_start(open_for(path, O_RDWR)));
  for (int i = 3; closes && i < 1024; i++)
    if (i != ready[1])
      close(i);
  EXPECT(malloc(10) != NULL);
  pool_record_stop();
  EXPECT(write(ready[1], "", 1) == 1);
  EXPECT(waitpid(other, &status, 0) == other && status == 0);
}

/* A thread that has done nothing for a while makes a heap where another thread's was. */
static pthread_barrier_t barrier;

static void *make_second(void *first)
{
  EXPECT(malloc(10) != NULL);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "second"});
  EXPECT(heap == first);
  for (int i = 0; i < 10; i++)
    EXPECT(pool_heap_alloc(heap, 1000) != NULL);
  return NULL;
}

static void start_again(const char *path)
{
  pthread_t thread;
  EXPECT(pool_record_start(open_for(path, O_RDWR)) && pthread_barrier_init(&barrier, NULL, 2) == 0);
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "first"});
  EXPECT(pthread_create(&thread, NULL, make_second, heap) == 0);
  pthread_barrier_wait(&barrier);
  usleep(5000);
  for (int i = 0; i < 100; i++)
    EXPECT(pool_heap_alloc(heap, 100) != NULL);
  pool_heap_destroy(heap);
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  pool_record_stop();
}

static bool start(const char *what, const char *path)
{
  if (!strcmp(what, "again"))
    start_again(path);
  else if (!strcmp(what, "late"))
    start_late(path);
  else if (!strcmp(what, "heap") || !strcmp(what, "object-pool"))
    start_one(path, *what == 'o');
  else if (!strcmp(what, "often"))
    start_often(path);
  else if (!strcmp(what, "wrongly"))
    start_wrongly();
  else if (!strcmp(what, "fork"))
    start_and_fork(path);
  else if (!strcmp(what, "pool-of-heap"))
    start_pool_of_heap(path);
  else if (!strcmp(what, "empty"))
    start_and_empty(path);
  else if (!strcmp(what, "after") || !strcmp(what, "after-close"))
    start_after_another(path, what[5] != 0);
  else
    return false;
  return true;
}
#else
static bool start(const char *what, const char *path)
{
  (void)what, (void)path;
  return false;
}
#endif

int main(int count, char **arguments)
{
  const char *what = count > 1 ? arguments[1] : "", *path = count > 2 ? arguments[2] : "";
  if (start(what, path))
    return 0;
  if (!strcmp(what, "use"))
    use(make());
  else if (!strcmp(what, "threads"))
    use_threads();
  else
    return 2;
  return 0;
}
