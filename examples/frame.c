/* SPDX-License-Identifier: MIT
 *
 * What is needed for one frame only: a renderer collects draw commands while it walks its scene, sorts them, draws them, and
 * lets go of all of them at once (object_pool_put_all), without a look at any. Nobody has to remember what to free; a
 * command kept into the next frame by mistake is found out by its handle. A rich scene needs more than the pool was made for:
 * it grows (OBJECT_POOL_GROW), and is shrunk again when the scene is poor.
 *
 *     frame            draws one frame as text
 *     frame --test     300 frames; checks itself */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>

enum { WIDTH = 60, HEIGHT = 18, USUAL = 256 };

typedef struct command {
  struct command *next; /* further away */
  int x, y, size, depth;
  char ink;
} command_t;

OBJECT_POOL_DEFINE(commands, command_t);

typedef struct renderer {
  commands_t *commands;
  command_t *first;
  char picture[HEIGHT][WIDTH + 1];
} renderer_t;

static bool add(renderer_t *r, int x, int y, int size, int depth, char ink)
{
  command_t *command = commands_get(r->commands);
  if (!command)
    return false;
  *command = (command_t){.x = x, .y = y, .size = size, .depth = depth, .ink = ink, .next = r->first};
  r->first = command;
  return true;
}

static command_t *merge(command_t *a, command_t *b)
{
  command_t *sorted = NULL, **end = &sorted;
  while (a && b) {
    command_t **nearer = a->depth >= b->depth ? &a : &b;
    *end = *nearer;
    end = &(*nearer)->next;
    *nearer = (*nearer)->next;
  }
  *end = a ? a : b;
  return sorted;
}

/* The furthest first, so that nearer ones are painted over them. */
static command_t *sort(command_t *list)
{
  if (!list || !list->next)
    return list;
  command_t *slow = list;
  for (const command_t *fast = list->next; fast && fast->next; fast = fast->next->next)
    slow = slow->next;
  command_t *back = slow->next;
  slow->next = NULL;
  return merge(sort(list), sort(back));
}

static void paint(renderer_t *r, const command_t *c)
{
  for (int y = c->y; y < c->y + c->size && y < HEIGHT; y++)
    for (int x = c->x; x < c->x + 2 * c->size && x < WIDTH; x++)
      if (x >= 0 && y >= 0)
        r->picture[y][x] = c->ink;
}

static bool describe_scene(renderer_t *r, unsigned frame, int things)
{
  bool good = true;
  for (int i = 0; i < things; i++) {
    unsigned h = ((unsigned)i * 2654435761u) ^ frame * 40503u;
    good =
      add(r, (int)(h % WIDTH), (int)(h / 64 % HEIGHT), 1 + (int)(h / 4096 % 4), (int)(h >> 20), (char)('A' + i % 26)) && good;
  }
  return good;
}

/* Returns how many commands the frame took, 0: not all could be had. */
static size_t draw_frame(renderer_t *r, unsigned frame, int things)
{
  for (int y = 0; y < HEIGHT; y++)
    memset(r->picture[y], '.', WIDTH);
  r->first = NULL;
  if (!describe_scene(r, frame, things))
    return 0;
  size_t count = commands_live(r->commands);
  for (const command_t *c = sort(r->first); c; c = c->next)
    paint(r, c);
  commands_put_all(r->commands);
  return count;
}

/* Rich scenes between frames 100 and 150. */
static bool test(renderer_t *r)
{
  object_pool_handle_t kept = {0, 0};
  size_t most = 0;
  for (unsigned frame = 0; frame < 300; frame++) {
    int things = frame >= 100 && frame < 150 ? 5000 : 150;
    if (draw_frame(r, frame, things) != (size_t)things || commands_live(r->commands) != 0 ||
        commands_resolve(r->commands, kept))
      return false;
    most = commands_capacity(r->commands) > most ? commands_capacity(r->commands) : most;
    command_t *command = commands_get(r->commands);
    kept = commands_handle(r->commands, command);
    if (commands_resolve(r->commands, kept) != command)
      return false;
    commands_put_all(r->commands);
    if (frame % 50 == 0)
      commands_shrink(r->commands, USUAL);
  }
  printf("at most %zu commands held, %zu in the end\n", most, commands_capacity(r->commands));
  return most >= 5000 && commands_capacity(r->commands) == USUAL;
}

int main(int argc, char **argv)
{
  renderer_t r = {.commands = commands_create(&(object_pool_options_t){
                    .name = "commands", .capacity = USUAL, .when_full = OBJECT_POOL_GROW, .flags = OBJECT_POOL_SINGLE_THREAD})};
  bool good = r.commands != NULL;
  if (argc == 2 && !strcmp(argv[1], "--test")) {
    good = good && test(&r);
  } else if (argc == 1 && good) {
    good = draw_frame(&r, 1, 60) != 0;
    for (int y = 0; y < HEIGHT; y++)
      puts(r.picture[y]);
  } else {
    fputs("usage: frame [--test]\n", stderr);
    good = false;
  }
  commands_destroy(r.commands);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
