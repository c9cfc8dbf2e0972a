/* SPDX-License-Identifier: MIT
 * Memory may be damaged and the thread may hold any lock, so nothing here allocates or takes a lock. */
#include "debug/messages.h"
#include "base/text.h"
#include "debug/places.h"
#include "debug/system.h"

enum { FRAMES_TOLD = 4, FRAMES_TOLD_INSIDE = 8 };

static bool is_shared(const char *file)
{
  while (*file && !(file[0] == '.' && file[1] == 's' && file[2] == 'o'))
    file++;
  return *file != '\0';
}

/* Leading frames of the manager are uninformative and skipped. They cannot be recognized if the program contains the manager,
 * so more frames are named then. Returns false if none was named. */
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

void messages_say_frames(text_t *text, const char *before, const frames_told_t *told)
{
  say_frames(text, before, told, OS_STACK_MOST, OS_STACK_MOST);
}

enum { ACCESS_LINE = 1024 };

void warn_of_access(const access_told_t *told)
{
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
