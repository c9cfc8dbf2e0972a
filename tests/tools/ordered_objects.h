/* SPDX-License-Identifier: MIT
 * A part of ordered.c: objects that have locks, and objects that another thread puts than the one that got them. */
#ifndef ORDERED_OBJECTS_H
#define ORDERED_OBJECTS_H

/* ---- locks in objects, and in memory of the program after a heap ---- */

/* It begins with what stays as long as the object is constructed, free or not. */
typedef struct locked {
  pthread_mutex_t lock;
  sem_t free;
  long word;
} locked_t;

static bool make_locked(void *object, void *context)
{
  locked_t *at = object;
  at->word = (long)(context != NULL);
  return pthread_mutex_init(&at->lock, NULL) == 0 && sem_init(&at->free, 0, 1) == 0;
}
static void end_locked(void *object, void *context)
{
  locked_t *at = object;
  (void)context;
  pthread_mutex_destroy(&at->lock);
  sem_destroy(&at->free);
}
static void *use_locked(void *none)
{
  for (int i = 0; i < ROUNDS; i++) {
    locked_t *at = object_pool_get(objects);
    must(at != NULL, "no object");
    pthread_mutex_lock(&at->lock);
    sem_wait(&at->free);
    at->word++;
    sem_post(&at->free);
    pthread_mutex_unlock(&at->lock);
    object_pool_put(objects, at);
  }
  return none;
}
static void locks_in_objects(void)
{
  for (int in_memory = 0; in_memory < 2; in_memory++) {
    pool_heap_options_t options = {.memory = memory, .memory_size = REGION};
    heap = in_memory ? pool_heap_create(&options) : NULL;
    objects = object_pool_create(&(object_pool_options_t){
      .object_size = sizeof(locked_t), .capacity = THREADS, .construct = make_locked, .destruct = end_locked, .heap = heap});
    must(objects != NULL, "no pool");
    use_locked(NULL);
    together(use_locked);
    object_pool_destroy(objects);
    objects = NULL;
    pool_heap_destroy(heap);
    for (size_t at = 0; in_memory && at + sizeof(locked_t) <= REGION / 64; at += sizeof(locked_t)) { /* where all of it was */
      locked_t *locked = (locked_t *)(memory + at);
      memset(locked, 0, sizeof *locked);
      must(make_locked(locked, NULL), "no lock");
      pthread_mutex_lock(&locked->lock);
      pthread_mutex_unlock(&locked->lock);
      end_locked(locked, NULL);
    }
    heap = NULL;
  }
}

/* ---- what a hook has made ready, another thread has put ---- */

static bool make_words(void *object, void *context)
{
  (void)context;
  memset(object, 1, SIZE);
  return true;
}
static void reset_words(void *object, void *context)
{
  (void)context;
  memset(object, 2, SIZE);
}
static void *get_two(void *none)
{
  must(object_pool_get(objects) && object_pool_get(objects), "no object");
  return none;
}
static void *put_all(void *none)
{
  object_pool_put_all(objects);
  return none;
}
static void *evict(void *none)
{
  must(object_pool_get(objects) != NULL, "no object");
  return none;
}
static void put_by_others(void)
{
  for (int eager = 0; eager < 2; eager++) {
    object_pool_options_t options = {.capacity = 2,
                                     .construct = make_words,
                                     .reset = reset_words,
                                     .when_full = OBJECT_POOL_EVICT,
                                     .choose_victim = first_live,
                                     .reset_time = eager ? OBJECT_POOL_RESET_ON_PUT : OBJECT_POOL_RESET_ON_GET};
    objects = made(options);
    one_after_the_other(get_two, evict);
    one_after_the_other(get_two, put_all);
    object_pool_destroy(objects);
    objects = NULL;
  }
}

#endif
