/* SPDX-License-Identifier: MIT
 *
 * The object pools that all use. */
#include "races.h"

object_pool_t *sparks, *embers;

/* A get is never refused, since no thread holds more than its share; and what it has is its own. Some hold all of theirs. */
void step_embers(racer_t *racer, kept_t *kept)
{
  bool all = one_in(&racer->dice, 4);
  (void)kept;
  for (size_t n = 0; n < EMBERS; n++) {
    size_t i = all ? n : below(&racer->dice, EMBERS);
    uint64_t **ember = &racer->embers[i];
    if (!*ember) {
      must((*ember = object_pool_get(embers)) != NULL);
      **ember = racer->number * EMBERS + i;
    } else {
      must(**ember == racer->number * EMBERS + i);
      if (!all)
        object_pool_put(embers, *ember);
      if (!all)
        *ember = NULL;
    }
  }
}

void step_objects(racer_t *racer, kept_t *kept)
{
  size_t i = below(&racer->dice, OBJECTS);
  unsigned at_first = atomic_load(&starving);
  unsigned char *object = racer->objects[i];
  (void)kept;
  if (!object) {
    object = racer->objects[i] = object_pool_get(sparks);
    must(object || excused(racer, at_first));
    if (object)
      memset(object, (int)(racer->number + i), OBJECT_BYTES);
  } else {
    must(object[0] == (unsigned char)(racer->number + i) && memcmp(object, object + 1, OBJECT_BYTES - 1) == 0);
    must(object_pool_in_use(sparks, object));
    object_pool_handle_t handle = object_pool_handle(sparks, object);
    must(object_pool_resolve(sparks, handle) == object);
    object_pool_put(sparks, object);
    racer->objects[i] = NULL;
  }
  if (one_in(&racer->dice, 16))
    object_pool_shrink(sparks, 0);
  if (one_in(&racer->dice, 16))
    for (void *at = object_pool_next(sparks, NULL), *next; at; at = next) {
      next = object_pool_next(sparks, at);
      must(next == NULL || (char *)next > (char *)at);
      if (one_in(&racer->dice, 8))
        break;
    }
}
