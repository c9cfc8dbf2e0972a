/* SPDX-License-Identifier: MIT
 * The typed wrappers: that they do what their untyped namesakes do, and that a wrong type does not compile (each of the macros
 * below makes a line of one). */
#include <stdio.h>
#include <stdlib.h>
#include <tidepool/object_pool.h>

struct particle {
  float x, y;
};
struct enemy {
  int health;
};

OBJECT_POOL_DEFINE(particles, struct particle);
OBJECT_POOL_DEFINE(enemies, struct enemy);

#define require(condition) ((condition) ? (void)0 : (fprintf(stderr, "line %d: %s\n", __LINE__, #condition), exit(1)))

int main(void)
{
  object_pool_options_t options = {.capacity = 10, .when_full = OBJECT_POOL_GROW};
  particles_t *particles = particles_create(&options);
  enemies_t *enemies = enemies_create(&options);
  require(particles && enemies && !particles_create(NULL) && options.object_size == 0);
  struct particle *p = particles_get(particles), *some[20];
#ifdef PUT_OTHER
  enemies_put(enemies, p);
#endif
#ifdef GET_OTHER
  struct enemy *wrong = particles_get(particles);
#endif
#ifdef NEXT_OTHER
  enemies_next(enemies, p);
#endif
#ifdef OTHER_POOL
  particles_put(enemies, p);
#endif
  p->x = 1;
  object_pool_handle_t handle = particles_handle(particles, p);
  require(particles_resolve(particles, handle) == p && particles_in_use(particles, p));
  require(particles_next(particles, NULL) == p && !particles_next(particles, p));
  require(particles_live(particles) == 1 && particles_capacity(particles) == 10);
  require(particles_get_batch(particles, some, 20) == 20);
  particles_put_batch(particles, some, 20);
  particles_put(particles, p);
  require(!particles_resolve(particles, handle) && particles_shrink(particles, 0) == 10);
  require(enemies_get(enemies) != NULL);
  enemies_put_all(enemies);
  require(enemies_live(enemies) == 0);
  particles_put(NULL, p);
  particles_put_all(NULL);
  require(!particles_get(NULL) && !particles_next(NULL, p) && !particles_in_use(NULL, p) && !particles_live(NULL));
  particles_destroy(particles);
  particles_destroy(NULL);
  enemies_destroy(enemies);
  return 0;
}
