/* SPDX-License-Identifier: MIT
 *
 * The screen of top. ncurses has names that are short and everywhere, so it is seen by this file alone. */
#include "command.h"
#include "top.h"
#include <curses.h>
#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct screen {
  top_t *top;
  char *text; /* what is shown, of many lines */
  size_t size;
  int line_at, column_at; /* the first that is shown */
} screen_t;

static void compose(screen_t *screen)
{
  free(screen->text);
  FILE *into = open_memstream(&screen->text, &screen->size);
  if (!into)
    command_fail(COMMAND_FAILED, "no memory");
  top_print(screen->top, into);
  fclose(into);
}

static int lines_of_text(const char *text)
{
  int lines = 0;
  for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
    lines++;
  return lines;
}

/* Where a column of a line of UTF-8 begins, as far as each character takes one. */
static const char *from_column(const char *line, const char *end, int column)
{
  for (; column > 0 && line < end; column--)
    do
      line++;
    while (line < end && ((unsigned char)*line & 0xc0) == 0x80);
  return line;
}

/* What is beyond the right edge would go on in the next line. */
static void draw_line(const screen_t *screen, int row, const char *line, const char *end, bool is_title)
{
  line = from_column(line, end, screen->column_at);
  attrset(is_title ? A_BOLD : A_NORMAL);
  mvaddnstr(row, 0, line, (int)(from_column(line, end, COLS) - line));
  attrset(A_NORMAL);
}

/* The first line stays; the last one of the screen says what the keys do. */
static void draw(screen_t *screen)
{
  int rows = LINES, row = 0, number = 0, most = lines_of_text(screen->text) - (rows - 1);
  screen->line_at = screen->line_at > most ? most : screen->line_at;
  screen->line_at = screen->line_at < 0 ? 0 : screen->line_at;
  erase();
  for (const char *line = screen->text, *end; row < rows - 1 && (end = strchr(line, '\n')) != NULL; line = end + 1, number++)
    if (number == 0 || number > screen->line_at)
      draw_line(screen, row++, line, end, number == 0);
  attrset(A_REVERSE);
  mvprintw(rows - 1, 0, " q: end   sorted by %s: h c l b r n   arrows: move ", top_keys[screen->top->key]);
  attrset(A_NORMAL);
  refresh();
}

static void move_by_key(screen_t *screen, int key)
{
  int page = LINES > 3 ? LINES - 3 : 1;
  switch (key) {
  case KEY_DOWN:
    screen->line_at++;
    break;
  case KEY_UP:
    screen->line_at--;
    break;
  case KEY_NPAGE:
    screen->line_at += page;
    break;
  case KEY_PPAGE:
    screen->line_at -= page;
    break;
  case KEY_HOME:
    screen->line_at = screen->column_at = 0;
    break;
  case KEY_RIGHT:
    screen->column_at += 8;
    break;
  case KEY_LEFT:
    screen->column_at -= screen->column_at ? 8 : 0;
    break;
  default:
    break;
  }
}

static double clock_s(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* False: the user has seen enough. */
static bool obey(screen_t *screen, int key)
{
  const char *letter = key > 0 && key < 128 ? strchr(top_letters, key) : NULL;
  if (key == 'q' || key == 'Q')
    return false;
  if (letter && *letter)
    screen->top->key = (top_key_t)(letter - top_letters);
  move_by_key(screen, key);
  compose(screen);
  draw(screen);
  return true;
}

/* A terminal that is gone has no more keys, and says so at once. */
static bool has_gone(void)
{
  struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
  return poll(&keys, 1, 0) > 0 && keys.revents & (POLLHUP | POLLERR | POLLNVAL);
}

/* Keys are obeyed at once, until it is time for the next look. */
static bool obey_until(screen_t *screen, double until)
{
  for (double left; (left = until - clock_s()) > 0;) {
    timeout((int)(left * 1000) + 1);
    int key = getch();
    if (key == ERR ? has_gone() : !obey(screen, key))
      return false;
  }
  return true;
}

bool top_on_screen(top_t *top, double delay)
{
  screen_t screen = {.top = top};
  if (!top_look(top))
    return true;
  setlocale(LC_CTYPE, "");
  SCREEN *terminal = newterm(NULL, stdout, stdin);
  if (!terminal)
    return false;
  cbreak();
  noecho();
  keypad(stdscr, TRUE);
  curs_set(0);
  bool goes_on = true;
  do {
    compose(&screen);
    draw(&screen);
    goes_on = obey_until(&screen, clock_s() + delay);
  } while (goes_on && top_look(top));
  endwin();
  delscreen(terminal);
  free(screen.text);
  return true;
}
