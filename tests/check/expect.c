/* SPDX-License-Identifier: MIT
 *
 * As in misuse.c, the line is put together on the stack and leaves by one write: what is being checked may be broken. */
#include "check/expect.h"
#include "base/text.h"
#include "os/os.h"

typedef struct line {
  text_t text;
  char buffer[256];
} line_t;

static text_t *violation_begin(line_t *line, const char *name, const char *what)
{
  line->text = (text_t){line->buffer, sizeof line->buffer - 1, 0};
  text_string(&line->text, "tidepool: check: ");
  text_string(&line->text, name);
  text_string(&line->text, " violated: ");
  text_string(&line->text, what);
  return &line->text;
}

static _Noreturn void violation_end(line_t *line)
{
  size_t length = min_size(line->text.length, line->text.size);
  line->buffer[length++] = '\n';
  os_write_error(line->buffer, length);
  os_abort();
}

COLD _Noreturn void violated_at(const char *name, const char *what, const void *where)
{
  line_t line;
  text_t *text = violation_begin(&line, name, what);
  text_string(text, ": ");
  text_pointer(text, where);
  violation_end(&line);
}

COLD static _Noreturn void violated_count(const char *name, const char *what, size_t kept, size_t counted)
{
  line_t line;
  text_t *text = violation_begin(&line, name, what);
  text_string(text, ": ");
  text_number(text, kept);
  text_string(text, ", counted: ");
  text_number(text, counted);
  violation_end(&line);
}

void expect(bool holds, const char *name, const char *what, const void *where)
{
  if (unlikely(!holds))
    violated_at(name, what, where);
}

void expect_count(size_t kept, size_t counted, const char *name, const char *what)
{
  if (unlikely(kept != counted))
    violated_count(name, what, kept, counted);
}
