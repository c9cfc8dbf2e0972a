/* SPDX-License-Identifier: MIT */
#include "debug/profile_text.h"
#include "base/text.h"
#include "misuse.h"
#include "option.h"
#include <errno.h>
#include <string.h>

enum { EXIT_WAITS_MS = 2000 };

typedef struct writer {
  char buffer[1024];
  text_t text;
  int file, error;
} writer_t;

static void flush_text(writer_t *writer)
{
  size_t length = min_size(writer->text.length, sizeof writer->buffer);
  if (!writer->error)
    writer->error = os_write(writer->file, writer->buffer, length);
  writer->text = (text_t){writer->buffer, sizeof writer->buffer, 0};
}

/* 1: 512 [3: 1536] @ */
static void say_counts(text_t *text, const profile_line_t *line)
{
  text_number(text, line->live_blocks);
  text_string(text, ": ");
  text_number(text, line->live_bytes);
  text_string(text, " [");
  text_number(text, line->blocks);
  text_string(text, ": ");
  text_number(text, line->bytes);
  text_string(text, "] @");
}

static void write_line(writer_t *writer, const profile_line_t *line)
{
  const void *const *frames;
  size_t count = site_frames(line->site, &frames);
  say_counts(&writer->text, line);
  for (size_t i = 0; i < count; i++) {
    text_char(&writer->text, ' ');
    text_pointer(&writer->text, frames[i]);
  }
  text_string(&writer->text, count ? "\n" : " 0x0\n");
  flush_text(writer);
}

/* Writes a comment, # heap "sessions", which holds for the lines up to the next one. */
static void write_heap_name(writer_t *writer, const char *name)
{
  text_string(&writer->text, "# heap ");
  text_quoted(&writer->text, name);
  text_string(&writer->text, "\n");
  flush_text(writer);
}

static profile_line_t total_of(const profile_copy_t *copy)
{
  profile_line_t sum = {0};
  for (size_t i = 0; i < copy->count; i++) {
    const profile_line_t *line = &copy->lines[i].of;
    sum = (profile_line_t){0, sum.live_blocks + line->live_blocks, sum.live_bytes + line->live_bytes, sum.blocks + line->blocks,
                           sum.bytes + line->bytes};
  }
  return sum;
}

/* Blocks and bytes are those of the samples. Readers scale them up by the mean distance between samples, at the end of the
 * first line. No scaling is needed if each byte is a sample. */
static void write_lines(writer_t *writer, const profile_copy_t *copy)
{
  profile_line_t sum = total_of(copy);
  text_string(&writer->text, "heap profile: ");
  say_counts(&writer->text, &sum);
  text_string(&writer->text, profile_sample_bytes() == 1 ? " heapprofile\n" : " heap_v2/");
  if (profile_sample_bytes() > 1) {
    text_number(&writer->text, profile_sample_bytes());
    text_string(&writer->text, "\n");
  }
  flush_text(writer);
  for (size_t i = 0; i < copy->count && !writer->error; i++) {
    if (!i || strcmp(copy->lines[i].heap, copy->lines[i - 1].heap) != 0)
      write_heap_name(writer, copy->lines[i].heap);
    write_line(writer, &copy->lines[i].of);
  }
  text_string(&writer->text, "\nMAPPED_LIBRARIES:\n");
  flush_text(writer);
}

/* Nothing is written under the lock: the file may be a pipe that this process reads. */
static int write_copy(profile_copy_t *copy, int file)
{
  writer_t writer = {.file = file};
  writer.text = (text_t){writer.buffer, sizeof writer.buffer, 0};
  write_lines(&writer, copy);
  profile_end_copy(copy);
  return writer.error ? writer.error : os_write_mappings(file);
}

int profile_write(const heap_t *heap, int file)
{
  profile_copy_t copy;
  int error = profile_copy_lines(heap, true, &copy);
  profile_write_if_asked();
  return error ? error : write_copy(&copy, file);
}

/* ---- the option's file ---- */

/* The file was requested, and no thread has begun to write it since. */
bool profile_is_asked;
static bool is_being_written;

enum { PATH_SIZE = OPTION_PATH_SIZE + 64 };

static void file_path(char path[PATH_SIZE], const char *suffix)
{
  option_path(path, PATH_SIZE, settings.profile_file);
  text_t text = {path, PATH_SIZE, strlen(path)};
  text_string(&text, suffix);
  text_finish(&text);
}

static int write_to_path(profile_copy_t *copy, const char *path)
{
  int file = os_create_file(path), error = file < 0 ? -file : write_copy(copy, file);
  if (file >= 0)
    os_close_file(file);
  return error;
}

/* A process that is killed meanwhile leaves the old file. Files that cannot be replaced in this way are overwritten. */
static int write_beside(profile_copy_t *copy)
{
  char path[PATH_SIZE], beside[PATH_SIZE];
  file_path(path, "");
  file_path(beside, ".new");
  int file = os_may_replace_file(path) ? os_create_file(beside) : -1;
  if (file < 0)
    return write_to_path(copy, path);
  int error = write_copy(copy, file);
  os_close_file(file);
  return error ? os_remove_file(beside), error : os_rename_file(beside, path);
}

static int write_to_file(bool waits)
{
  profile_copy_t copy;
  int error = profile_copy_lines(NULL, waits, &copy);
  if (error)
    return error;
  error = write_beside(&copy);
  profile_end_copy(&copy);
  return error;
}

/* Warns once: later writes would fail in the same way. */
static void say_if_lost(int error)
{
  static bool is_said;
  char path[PATH_SIZE];
  if (!error || __atomic_exchange_n(&is_said, true, __ATOMIC_RELAXED))
    return;
  file_path(path, "");
  warn_at_exit(path, PROFILE_IS_LOST);
}

/* A thread that finds another one writing leaves the request to it: the writer looks again when it is done. */
static bool begin_writing(void) { return !__atomic_exchange_n(&is_being_written, true, __ATOMIC_SEQ_CST); }
static void end_writing(void) { __atomic_store_n(&is_being_written, false, __ATOMIC_SEQ_CST); }
static bool is_asked(void) { return __atomic_load_n(&profile_is_asked, __ATOMIC_SEQ_CST); }
static void ask(bool asked) { __atomic_store_n(&profile_is_asked, asked, __ATOMIC_SEQ_CST); }

/* The holder of the lock looks for requests after releasing it, maybe before this one, so there is a second attempt. */
static int write_once(bool waits)
{
  ask(false);
  int error = write_to_file(waits);
  if (error != EBUSY)
    return error;
  ask(true);
  return write_to_file(waits);
}

static bool write_while_asked(bool waits)
{
  int error = 0;
  while (error != EBUSY && is_asked() && begin_writing()) {
    error = write_once(waits);
    end_writing();
    if (error != EBUSY)
      say_if_lost(error);
  }
  return error != EBUSY;
}

COLD void profile_write_asked(void) { write_while_asked(true); }

/* ---- at the peak ---- */

enum { PEAK_STEP_BYTES = 1 << 20, PEAK_STEP_SHIFT = 4 };
static uint64_t peak_bytes, next_peak_bytes; /* live bytes at the last peak (0: there was none), and those of the next */

static uint64_t next_peak_of(uint64_t live) { return live + max_size(live >> PEAK_STEP_SHIFT, PEAK_STEP_BYTES); }

/* A file from another run must not be taken for this one's. */
static void begin_peaks(void)
{
  char path[PATH_SIZE];
  file_path(path, ".peak");
  if (os_may_replace_file(path))
    os_remove_file(path);
}

COLD static void ask_at_peak(uint64_t live)
{
  uint64_t due = __atomic_load_n(&next_peak_bytes, __ATOMIC_RELAXED);
  if (live < due ||
      !__atomic_compare_exchange_n(&next_peak_bytes, &due, next_peak_of(live), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    return;
  if (!__atomic_exchange_n(&peak_bytes, live, __ATOMIC_RELAXED))
    begin_peaks();
  ask(true);
}

void profile_write_at_peak(void)
{
  uint64_t live = profile_live_bytes();
  if (settings.profile_file[0] && live >= __atomic_load_n(&next_peak_bytes, __ATOMIC_RELAXED))
    ask_at_peak(live);
  profile_write_if_asked();
}

/* The file holds the peak's profile, or one that a signal requested. */
static void keep_peak(void)
{
  char path[PATH_SIZE], kept[PATH_SIZE];
  uint64_t peak = __atomic_load_n(&peak_bytes, __ATOMIC_RELAXED);
  file_path(path, "");
  file_path(kept, ".peak");
  if (next_peak_of(profile_live_bytes()) < peak && os_may_replace_file(path) && os_may_replace_file(kept))
    os_rename_file(path, kept);
}

/* Waits for a writer or a change, with a limit: a signal handler that ends the process may have interrupted one. */
void profile_write_file(void)
{
  uint64_t until = os_now_ms() + EXIT_WAITS_MS;
  keep_peak();
  ask(true);
  while (!write_while_asked(false) || __atomic_load_n(&is_being_written, __ATOMIC_ACQUIRE)) {
    if (os_now_ms() > until) {
      say_if_lost(EBUSY);
      break;
    }
    os_nap();
  }
}

/* Runs in the signal handler. The interrupted thread may hold the lock. */
static void write_at_signal(void)
{
  ask(true);
  write_while_asked(false);
}

void profile_watch_signal(void)
{
  if (settings.profile_signal)
    os_watch_signal(settings.profile_signal, write_at_signal);
}

static bool names_process(const char *name)
{
  const char *form = strchr(name, '%');
  while (form && form[1] == '%')
    form = strchr(form + 2, '%');
  return form && (form[1] == 'p' || (form[1] && names_process(form + 1)));
}

void profile_fork_child(void)
{
  end_writing();
  ask(false);
  peak_bytes = 0;
  if (!names_process(settings.profile_file))
    next_peak_bytes = UINT64_MAX;
}
