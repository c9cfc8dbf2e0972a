/* SPDX-License-Identifier: MIT
 *
 * A fountain of sparks: thousands are born and die in every frame, and nobody allocates. The pool is full now and then; then
 * the spark is not made, which nobody will notice (OBJECT_POOL_FAIL). Live sparks are updated in one pass through memory.
 *
 *     particles                 draws in the terminal until interrupted
 *     particles --ppm DIR [N]   writes N frames (120) as pictures, DIR/frame-000.ppm and so on
 *     particles --test          200 frames without drawing; checks itself */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>
#include <time.h>

enum {
  WIDTH = 320,
  HEIGHT = 200,
  CAPACITY = 8192,
  BORN_PER_FRAME = 100,
  LIFE_LEAST = 30,
  LIFE_MORE = 60,
  COLUMNS = 80,
  ROWS = 24
};

typedef struct spark {
  float x, y, dx, dy;
  int life, born_with;
} spark_t;

OBJECT_POOL_DEFINE(sparks, spark_t);

typedef struct show {
  sparks_t *sparks;
  unsigned random, frame;
  size_t born, refused, died;
} show_t;

static float chance(show_t *show)
{
  show->random = show->random * 1664525u + 1013904223u;
  return (float)(show->random >> 8) / (float)(1 << 24);
}

static void spawn(show_t *show, float x)
{
  spark_t *spark = sparks_get(show->sparks);
  if (!spark) {
    show->refused++;
    return;
  }
  int life = LIFE_LEAST + (int)(chance(show) * LIFE_MORE);
  *spark = (spark_t){.x = x,
                     .y = HEIGHT - 1,
                     .dx = (chance(show) - 0.5f) * 2.4f,
                     .dy = -3.0f - chance(show) * 2.2f,
                     .life = life,
                     .born_with = life};
  show->born++;
}

/* One linear pass; the spark at hand may go. */
static void move_all(show_t *show)
{
  for (spark_t *s = NULL; (s = sparks_next(show->sparks, s)) != NULL;) {
    s->x += s->dx;
    s->y += s->dy += 0.06f;
    if (--s->life == 0 || s->y >= HEIGHT) {
      sparks_put(show->sparks, s);
      show->died++;
    }
  }
}

static void next_frame(show_t *show)
{
  bool burst = show->frame++ % 50 < 5;
  for (int i = 0; i < BORN_PER_FRAME * (burst ? 8 : 1); i++)
    spawn(show, WIDTH * (0.3f + 0.2f * (float)(i % 3)));
  move_all(show);
}

static unsigned char brighter(unsigned char had, int by) { return (unsigned char)(had + by > 255 ? 255 : had + by); }

static void draw(const show_t *show, unsigned char (*pixel)[WIDTH][3])
{
  memset(pixel, 0, (size_t)HEIGHT * WIDTH * 3);
  for (const spark_t *s = NULL; (s = sparks_next(show->sparks, s)) != NULL;) {
    int x = (int)s->x, y = (int)s->y, heat = 160 * s->life / s->born_with;
    if (x < 0 || x >= WIDTH || y < 0)
      continue;
    pixel[y][x][0] = brighter(pixel[y][x][0], 60 + heat);
    pixel[y][x][1] = brighter(pixel[y][x][1], heat);
    pixel[y][x][2] = brighter(pixel[y][x][2], heat / 4);
  }
}

static unsigned char pixels[HEIGHT][WIDTH][3];

static bool write_picture(const show_t *show, const char *folder)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/frame-%03u.ppm", folder, show->frame - 1);
  FILE *file = fopen(path, "wb");
  if (!file)
    return perror(path), false;
  draw(show, pixels);
  fprintf(file, "P6\n%d %d\n255\n", WIDTH, HEIGHT);
  bool whole = fwrite(pixels, sizeof pixels, 1, file) == 1;
  return fclose(file) == 0 && whole;
}

static void draw_in_terminal(const show_t *show)
{
  static const char shades[] = " .:+*#@";
  int heat[ROWS][COLUMNS] = {{0}};
  for (const spark_t *s = NULL; (s = sparks_next(show->sparks, s)) != NULL;) {
    int x = (int)(s->x * COLUMNS / WIDTH), y = (int)(s->y * ROWS / HEIGHT);
    if (x >= 0 && x < COLUMNS && y >= 0 && y < ROWS)
      heat[y][x]++;
  }
  fputs("\033[H", stdout);
  for (int y = 0; y < ROWS; y++) {
    for (int x = 0; x < COLUMNS; x++)
      putchar(shades[heat[y][x] < 6 ? heat[y][x] : 6]);
    putchar('\n');
  }
  printf("%5zu of %zu live, %zu not made \033[K", sparks_live(show->sparks), sparks_capacity(show->sparks), show->refused);
  fflush(stdout);
}

static void run_in_terminal(show_t *show)
{
  fputs("\033[2J", stdout);
  for (;; next_frame(show)) {
    draw_in_terminal(show);
    nanosleep(&(struct timespec){0, 33 * 1000 * 1000}, NULL);
  }
}

static bool test(show_t *show)
{
  for (int i = 0; i < 200; i++) {
    next_frame(show);
    if (sparks_live(show->sparks) != show->born - show->died)
      return false;
  }
  size_t lit = 0;
  draw(show, pixels);
  for (int y = 0; y < HEIGHT; y++)
    for (int x = 0; x < WIDTH; x++)
      lit += pixels[y][x][0] != 0;
  printf("%zu born, %zu died, %zu live, %zu not made, %zu pixels lit\n", show->born, show->died, sparks_live(show->sparks),
         show->refused, lit);
  return show->born > 20000 && show->refused > 0 && lit > 1000;
}

int main(int argc, char **argv)
{
  show_t show = {.random = 1,
                 .sparks = sparks_create(
                   &(object_pool_options_t){.name = "sparks", .capacity = CAPACITY, .flags = OBJECT_POOL_SINGLE_THREAD})};
  bool good = show.sparks != NULL;
  if (argc >= 3 && !strcmp(argv[1], "--ppm")) {
    for (int frames = argc > 3 ? atoi(argv[3]) : 120; good && frames > 0; frames--) {
      next_frame(&show);
      good = write_picture(&show, argv[2]);
    }
  } else if (argc == 2 && !strcmp(argv[1], "--test")) {
    good = good && test(&show);
  } else if (argc == 1 && good) {
    run_in_terminal(&show);
  } else {
    fputs("usage: particles [--ppm DIR [N] | --test]\n", stderr);
    good = false;
  }
  sparks_destroy(show.sparks);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
