/* SPDX-License-Identifier: MIT
 * A message is assembled on the stack and written by one call. Memory may be damaged, and the thread may hold any lock, so
 * nothing here allocates or locks. Firmware has embedded/misuse.c instead. */
#include "misuse.h"
#include "base/text.h"
#include "os/os.h"

/* The malloc library replaces the names. */
REPLACEABLE const char fatal_free_call[FATAL_CALL_SIZE] = "pool_free";
REPLACEABLE const char fatal_alloc_call[FATAL_CALL_SIZE] = "pool_alloc";
REPLACEABLE const char fatal_calloc_call[FATAL_CALL_SIZE] = "pool_calloc";

void (*fatal_before_abort)(void);
const char *(*fatal_heap_name)(const struct pool_heap *heap);
void (*fatal_say_frames)(struct text *text, const char *before, const frames_told_t *told);

/* The hook comes first, because a handler of SIGABRT may allocate while this thread holds any lock. */
static _Noreturn void end(void)
{
  if (fatal_before_abort)
    fatal_before_abort();
  os_abort();
}

typedef struct line {
  text_t text;
  char buffer[1536]; /* two names of 31 bytes, each of which may be quoted as six, and some return addresses */
} line_t;

static text_t *line_begin(line_t *line)
{
  line->text = (text_t){line->buffer, sizeof line->buffer - 1, 0};
  text_string(&line->text, "tidepool: ");
  return &line->text;
}

/* Truncates long lines; one byte is reserved for the newline. Each line is one write, so that lines of threads do not mix. */
static void line_end_by(line_t *line, void (*write)(const char *text, size_t length))
{
  size_t length = line->text.length < line->text.size ? line->text.length : line->text.size;
  line->buffer[length++] = '\n';
  write(line->buffer, length);
}

static void line_end(line_t *line) { line_end_by(line, os_write_error); }

/* ---- return addresses ---- */

static frames_told_t allocated_by, freed_by;

void fatal_say_places(const frames_told_t *allocated, const frames_told_t *freed)
{
  allocated_by = *allocated;
  freed_by = *freed;
}

static void say_places(text_t *text)
{
  if (fatal_say_frames) {
    fatal_say_frames(text, ", allocated by ", &allocated_by);
    fatal_say_frames(text, ", freed by ", &freed_by);
  }
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

static const char *name_of(const struct pool_heap *heap) { return heap && fatal_heap_name ? fatal_heap_name(heap) : NULL; }

static void say_heap(text_t *text, const struct pool_heap *heap)
{
  const char *name = name_of(heap);
  text_string(text, name ? "heap " : "the default heap");
  if (name)
    text_quoted(text, name);
}

/* Names the default heap only beside another heap. */
static void say_block(text_t *text, const struct pool_heap *heap, size_t size, const struct pool_heap *given_to)
{
  text_string(text, "a block of ");
  text_number(text, size);
  text_string(text, " bytes");
  if (name_of(heap) || (given_to && given_to != heap)) {
    text_string(text, " of ");
    say_heap(text, heap);
  }
}

static void say_what_is_known(text_t *text, const struct pool_heap *heap, size_t size, const struct pool_heap *given_to)
{
  if (heap) {
    text_string(text, ": ");
    say_block(text, heap, size, given_to);
  }
  if (given_to && given_to != heap && (heap || name_of(given_to))) {
    text_string(text, ", given to ");
    say_heap(text, given_to);
  }
}

void fatal_misuse_of_block(const char *call, const void *address, const char *what, const struct pool_heap *heap, size_t size,
                           const struct pool_heap *given_to)
{
  line_t line;
  text_t *text = line_begin(&line);
  say_call(text, call, address, what);
  say_what_is_known(text, heap, size, given_to);
  say_places(text);
  line_end(&line);
  end();
}

void fatal_late_misuse(const void *address, const char *what, const struct pool_heap *heap, size_t size,
                       const struct pool_heap *given_to)
{
  line_t line;
  text_t *text = line_begin(&line);
  say_call(text, name_of(given_to) ? "pool_heap_free" : fatal_free_call, address, what);
  text_string(text, ", " SEEN_LATE);
  say_what_is_known(text, heap, size, given_to);
  say_places(text);
  line_end(&line);
  end();
}

void fatal_damage(const char *call, const void *address, const char *what, ptrdiff_t offset, const struct pool_heap *heap,
                  size_t size)
{
  line_t line;
  text_t *text = line_begin(&line);
  say_call(text, call, address, what);
  text_string(text, offset < 0 ? " at offset -" : " at offset ");
  text_number(text, offset < 0 ? -(size_t)offset : (size_t)offset);
  text_string(text, " of ");
  say_block(text, heap, size, NULL);
  say_places(text);
  line_end(&line);
  end();
}

static void say_pool(text_t *text, const char *pool)
{
  text_string(text, " of pool ");
  text_quoted(text, pool);
}

void fatal_misuse_of_object(const char *call, const void *object, const char *what, const char *pool)
{
  line_t line;
  text_t *text = line_begin(&line);
  say_call(text, call, object, what);
  say_pool(text, pool);
  line_end(&line);
  end();
}

void fatal_damage_of_object(const char *call, const void *object, const char *what, size_t offset, size_t size,
                            const char *pool)
{
  line_t line;
  text_t *text = line_begin(&line);
  say_call(text, call, object, what);
  text_string(text, ", at offset ");
  text_number(text, offset);
  text_string(text, " of an object of ");
  text_number(text, size);
  text_string(text, " bytes");
  say_pool(text, pool);
  line_end(&line);
  end();
}

void fatal_exhausted(const char *call, const struct pool_heap *heap, size_t size)
{
  line_t line;
  text_t *text = line_begin(&line);
  text_string(text, call);
  text_char(text, '(');
  if (name_of(heap)) {
    say_heap(text, heap);
    text_string(text, ", ");
  }
  text_number(text, size);
  text_string(text, "): " EXHAUSTED);
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

static void warn_by(const char *subject, const char *what, void (*write)(const char *text, size_t length))
{
  line_t line;
  text_t *text = line_begin(&line);
  text_string(text, subject);
  text_string(text, ": ");
  text_string(text, what);
  line_end_by(&line, write);
}

void warn(const char *subject, const char *what) { warn_by(subject, what, os_write_error); }
void warn_at_exit(const char *subject, const char *what) { warn_by(subject, what, os_write_kept_error); }
