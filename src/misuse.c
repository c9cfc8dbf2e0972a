/* SPDX-License-Identifier: MIT
 *
 * A message is put together on the stack and leaves by one write. Memory may be what is damaged, and the thread may hold any
 * lock, so nothing here allocates or locks. Without a system there is nowhere to say it, and its parts go to the firmware. */
#include "misuse.h"
#include "base/text.h"
#include "os/os.h"
#include "os/places.h"

/* Weak, so that the malloc library can put its own names here. */
__attribute__((weak)) const char fatal_free_call[FATAL_CALL_SIZE] = "pool_free";
__attribute__((weak)) const char fatal_alloc_call[FATAL_CALL_SIZE] = "pool_alloc";
__attribute__((weak)) const char fatal_calloc_call[FATAL_CALL_SIZE] = "pool_calloc";

void (*fatal_before_abort)(void);
const char *(*fatal_heap_name)(const struct pool_heap *heap);

/* The hook comes first: a handler of SIGABRT may allocate, while this thread holds any lock. */
static _Noreturn void end(void)
{
  if (fatal_before_abort)
    fatal_before_abort();
  os_abort();
}

typedef struct line {
  text_t text;
  char buffer[1536]; /* two names of 31 bytes, each of which may be quoted as six; and some places */
} line_t;

static text_t *line_begin(line_t *line)
{
  line->text = (text_t){line->buffer, sizeof line->buffer - 1, 0};
  text_string(&line->text, "tidepool: ");
  return &line->text;
}

/* A line that is too long is cut. One byte of the buffer is always left for the end of the line, and the line is one write, so
 * that lines of several threads do not mix. */
static void line_end_by(line_t *line, void (*write)(const char *text, size_t length))
{
  size_t length = line->text.length < line->text.size ? line->text.length : line->text.size;
  line->buffer[length++] = '\n';
  write(line->buffer, length);
}

static void line_end(line_t *line) { line_end_by(line, os_write_error); }

/* ---- where it was ---- */

enum { FRAMES_TOLD = 4, FRAMES_TOLD_INSIDE = 8, FRAMES_TOLD_MOST = OS_STACK_MOST };

static bool is_shared(const char *file)
{
  while (*file && !(file[0] == '.' && file[1] == 's' && file[2] == 'o'))
    file++;
  return *file != '\0';
}

/* Frames of the manager itself may come first, and say nothing. Where the program has it inside, nothing tells which they are,
 * so there are more. False: nothing was said. */
static bool say_frames(text_t *text, const char *before, const frames_told_t *told, size_t most, size_t most_inside)
{
  place_t own = {.address = (const char *)(uintptr_t)say_frames + 1};
  size_t said = 0;
  places_find(&own, 1);
  bool apart = is_shared(own.file);
  for (size_t i = 0; i < told->count && said < (apart ? most : most_inside); i++) {
    place_t place = {.address = told->frames[i]};
    places_find(&place, 1);
    if (apart && !said && place.module == own.module)
      continue;
    text_string(text, said++ ? " < " : before);
    place_say(text, &place);
  }
  return said != 0;
}

static frames_told_t allocated_by, freed_by;

void fatal_say_places(const frames_told_t *allocated, const frames_told_t *freed)
{
  allocated_by = *allocated;
  freed_by = *freed;
}

static void say_places(text_t *text)
{
  if (!HAS_SYSTEM)
    return;
  say_frames(text, ", allocated by ", &allocated_by, FRAMES_TOLD_MOST, FRAMES_TOLD_MOST);
  say_frames(text, ", freed by ", &freed_by, FRAMES_TOLD_MOST, FRAMES_TOLD_MOST);
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
  if (!HAS_SYSTEM)
    os_end(call, address, what);
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

/* The default heap is named only beside another. */
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
  if (!HAS_SYSTEM)
    os_end(call, address, what);
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
  if (!HAS_SYSTEM)
    os_end("pool_heap_free", address, what);
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
  if (!HAS_SYSTEM)
    os_end(call, (const char *)address + offset, what);
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

void fatal_exhausted(const char *call, const struct pool_heap *heap, size_t size)
{
  if (!HAS_SYSTEM)
    os_end(call, NULL, EXHAUSTED);
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
  if (!HAS_SYSTEM)
    os_end("tidepool", NULL, what);
  line_t line;
  text_string(line_begin(&line), what);
  line_end(&line);
  end();
}

/* ---- an access that is a fault ---- */

enum { ACCESS_LINE = 1024 };

void warn_of_access(const access_told_t *told)
{
  if (!HAS_SYSTEM)
    return;
  char buffer[ACCESS_LINE];
  text_t text = {buffer, sizeof buffer - 1, 0};
  ptrdiff_t offset = (const char *)told->address - (const char *)told->block;
  text_string(&text, "tidepool: ");
  text_string(&text, told->access);
  text_char(&text, ' ');
  text_pointer(&text, told->address);
  text_string(&text, offset < 0 ? " at offset -" : " at offset ");
  text_number(&text, offset < 0 ? -(size_t)offset : (size_t)offset);
  text_string(&text, " of a block of ");
  text_number(&text, told->size);
  text_string(&text, " bytes");
  if (told->heap) {
    text_string(&text, " of heap ");
    text_quoted(&text, told->heap);
  }
  say_frames(&text, " by ", &told->by, 1, 1);
  say_frames(&text, ", allocated by ", &told->allocated_by, FRAMES_TOLD, FRAMES_TOLD_INSIDE);
  if (told->freed && !say_frames(&text, ", freed by ", &told->freed_by, FRAMES_TOLD, FRAMES_TOLD_INSIDE))
    text_string(&text, ", already freed");
  size_t length = text.length < text.size ? text.length : text.size;
  buffer[length++] = '\n';
  os_write_error(buffer, length);
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
void warn_at_exit(const char *subject, const char *what)
{
  warn_by(subject, what, HAS_SYSTEM ? os_write_kept_error : os_write_error);
}
