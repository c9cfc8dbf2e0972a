/* SPDX-License-Identifier: MIT
 *
 * A message is put together on the stack and leaves by one write. Memory may be what is damaged, and the thread may hold any
 * lock, so nothing here allocates or locks. */
#include "misuse.h"
#include "base/text.h"
#include "os/os.h"

/* Weak, so that the malloc library can put its own names here. */
__attribute__((weak)) const char fatal_free_call[FATAL_CALL_SIZE] = "pool_free";
__attribute__((weak)) const char fatal_alloc_call[FATAL_CALL_SIZE] = "pool_alloc";

void (*fatal_before_abort)(void);

/* The hook comes first: a handler of SIGABRT may allocate, while this thread holds any lock. */
static _Noreturn void end(void)
{
  if (fatal_before_abort)
    fatal_before_abort();
  os_abort();
}

typedef struct line {
  text_t text;
  char buffer[256];
} line_t;

static text_t *line_begin(line_t *line)
{
  line->text = (text_t){line->buffer, sizeof line->buffer - 1, 0};
  text_string(&line->text, "tidepool: ");
  return &line->text;
}

/* A line that is too long is cut. One byte of the buffer is always left for the end of the line, and the line is one write, so
 * that lines of several threads do not mix. */
static void line_end(line_t *line)
{
  size_t length = line->text.length < line->text.size ? line->text.length : line->text.size;
  line->buffer[length++] = '\n';
  os_write_error(line->buffer, length);
}

static void say_call(text_t *text, const char *call, const void *address, const char *what)
{
  text_string(text, call);
  text_char(text, '(');
  text_pointer(text, address);
  text_string(text, "): ");
  text_string(text, what);
}

void fatal_misuse(const char *call, const void *address, const char *what)
{
  line_t line;
  say_call(line_begin(&line), call, address, what);
  line_end(&line);
  end();
}

void fatal_damage(const char *call, const void *address, const char *what, size_t offset, size_t size)
{
  line_t line;
  text_t *text = line_begin(&line);
  say_call(text, call, address, what);
  text_string(text, " at offset ");
  text_number(text, offset);
  text_string(text, " of a block of ");
  text_number(text, size);
  text_string(text, " bytes");
  line_end(&line);
  end();
}

void fatal(const char *what)
{
  line_t line;
  text_string(line_begin(&line), what);
  line_end(&line);
  end();
}

void warn(const char *subject, const char *what)
{
  line_t line;
  text_t *text = line_begin(&line);
  text_string(text, subject);
  text_string(text, ": ");
  text_string(text, what);
  line_end(&line);
}
