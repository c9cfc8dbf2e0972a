/* SPDX-License-Identifier: MIT */
#include "live.h"
#include "command.h"
#include "debug/export_page.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the file ---- */

static FILE *open_of_process(pid_t pid, const char *name)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  return fopen(path, "re");
}

/* The number that the process has in its own namespace: the last in the line NSpid. */
static long number_inside(pid_t pid)
{
  char line[512];
  long number = pid;
  FILE *status = open_of_process(pid, "status");
  while (status && fgets(line, sizeof line, status))
    if (!strncmp(line, "NSpid:", 6))
      for (char *at = line + 6, *end; number = strtol(at, &end, 10), end != at && *end != '\n'; at = end)
        continue;
  if (status)
    fclose(status);
  return number;
}

/* A process that has ended, but whose parent has not asked how, is no more there. */
static bool is_there(pid_t pid)
{
  char line[512], state = 'X';
  FILE *status = open_of_process(pid, "status");
  while (status && fgets(line, sizeof line, status) && sscanf(line, "State: %c", &state) != 1)
    continue;
  if (status)
    fclose(status);
  return state != 'X' && state != 'Z';
}

static bool has_name(int folder, const char *entry)
{
  char target[sizeof "/memfd:" EXPORT_NAME + 16];
  ssize_t length = readlinkat(folder, entry, target, sizeof target - 1);
  target[length > 0 ? length : 0] = '\0';
  return !strncmp(target, "/memfd:" EXPORT_NAME, strlen("/memfd:" EXPORT_NAME));
}

/* Others could make the memory shorter while it is read, were it not sealed. */
static bool is_sealed(int file)
{
  struct stat about;
  int seals = fcntl(file, F_GET_SEALS);
  return seals >= 0 && seals & F_SEAL_SHRINK && fstat(file, &about) == 0 && about.st_size >= EXPORT_FIRST_BYTES;
}

/* Opens what the next descriptor by that name stands for. -1: there are no more, or errno says why not. */
static int open_next(DIR *folder)
{
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    int file = has_name(dirfd(folder), entry->d_name) ? openat(dirfd(folder), entry->d_name, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0 && is_sealed(file))
      return file;
    if (file >= 0)
      close(file);
  }
  return -1;
}

/* Another library may have shared its figures since, by other memory. */
static bool has_file(const live_t *live, int file)
{
  struct stat about;
  bool is_known = fstat(file, &about) == 0;
  while (is_known && live && live->inode != about.st_ino)
    live = live->next;
  return is_known && live;
}

static DIR *descriptors_of(pid_t pid)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  return opendir(path);
}

static const char *why_no_page(const live_t *live)
{
  const export_page_t *page = live->page;
  if (memcmp(page->mark, EXPORT_MARK, sizeof page->mark) != 0)
    return "what it shares are no figures";
  if (page->version != EXPORT_VERSION || live->text_at < sizeof *page || live->text_at > EXPORT_FIRST_BYTES)
    return "its library is of another version";
  if (page->process != (uint32_t)number_inside(live->pid))
    return "it does not share its figures yet";
  return NULL;
}

static const char *map_page(live_t *live, int file)
{
  struct stat about;
  void *page = mmap(NULL, EXPORT_FIRST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  live->file = file;
  if (page == MAP_FAILED || fstat(file, &about) != 0)
    return strerror(errno);
  live->inode = about.st_ino;
  live->page = page;
  live->text_at = live->page->header_bytes;
  return why_no_page(live);
}

static const char *why_no_descriptor(pid_t pid, int error)
{
  if (!is_there(pid))
    return "there is no such process";
  if (error == EACCES || error == EPERM)
    return "this user may not see it";
  return error ? strerror(error) : "it does not share its figures (yet): start it by tidepool run -o export=1 PROGRAM";
}

bool live_open(live_t *live, pid_t pid, char why[256])
{
  signal(SIGXFSZ, SIG_IGN); /* a limit on files is an error that can be said */
  DIR *folder = descriptors_of(pid);
  const char *reason = why_no_descriptor(pid, folder ? 0 : errno);
  *live = (live_t){.pid = pid, .file = -1};
  for (int file; folder && reason && (file = open_next(folder)) >= 0;) {
    live_close(live);
    live->pid = pid;
    reason = map_page(live, file);
  }
  if (folder)
    closedir(folder);
  if (!reason)
    return true;
  snprintf(why, 256, "%s", reason);
  live_close(live);
  return false;
}

static live_t *new_live(pid_t pid)
{
  live_t *live = calloc(1, sizeof *live);
  if (!live)
    command_fail(COMMAND_FAILED, "no memory");
  *live = (live_t){.pid = pid, .file = -1};
  return live;
}

enum { LIBRARIES_MOST = 4 };

/* Whose memory is shared no more; that of the first says that all is over. */
static void drop_ended(live_t *live)
{
  while (live->next) {
    live_t *next = live->next;
    if (!live_is_over(next)) {
      live = next;
      continue;
    }
    live->next = next->next;
    next->next = NULL;
    live_close(next);
    free(next);
  }
}

bool live_find_more(live_t *live)
{
  DIR *folder = descriptors_of(live->pid);
  live_t *last = live;
  int count = 1;
  for (; last->next; last = last->next)
    count++;
  for (int file; folder && count < LIBRARIES_MOST && (file = open_next(folder)) >= 0;) {
    if (has_file(live, file)) {
      close(file);
      continue;
    }
    live_t *more = new_live(live->pid);
    if (map_page(more, file)) {
      live_close(more);
      free(more);
    } else {
      last = last->next = more;
      count++;
    }
  }
  if (folder)
    closedir(folder);
  return live->next;
}

void live_close(live_t *live)
{
  if (live->next)
    live_close(live->next);
  free(live->next);
  if (live->page)
    munmap(live->page, EXPORT_FIRST_BYTES);
  if (live->file >= 0)
    close(live->file);
  free(live->text);
  *live = (live_t){.file = -1};
}

bool live_is_over(const live_t *live)
{
  DIR *folder = descriptors_of(live->pid);
  struct stat about;
  bool found = false;
  for (const struct dirent *entry; folder && !found && (entry = readdir(folder)) != NULL;)
    found = has_name(dirfd(folder), entry->d_name) && fstatat(dirfd(folder), entry->d_name, &about, 0) == 0 &&
            about.st_ino == live->inode;
  if (folder)
    closedir(folder);
  return !found || !is_there(live->pid);
}

/* ---- a question ---- */

static uint32_t answers(const export_page_t *page) { return __atomic_load_n(&page->answered, __ATOMIC_ACQUIRE); }
static bool is_answered(const export_page_t *page, uint32_t asked) { return (int32_t)(answers(page) - asked) >= 0; }

static bool wait_for_answer(export_page_t *page, uint32_t asked, uint64_t until_ms)
{
  for (;;) {
    uint32_t answered = answers(page);
    uint64_t now = now_ms();
    if (is_answered(page, asked) || now >= until_ms)
      return is_answered(page, asked);
    uint64_t left = until_ms - now;
    syscall(SYS_futex, &page->answered, FUTEX_WAIT, answered,
            &(struct timespec){(time_t)(left / 1000), (long)(left % 1000 * 1000000)}, NULL, 0);
  }
}

static uint32_t ask(export_page_t *page)
{
  uint32_t asked = __atomic_add_fetch(&page->asked, 1, __ATOMIC_ACQ_REL);
  syscall(SYS_futex, &page->asked, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  return asked;
}

/* Makes the memory longer, and then says so to the process. */
static bool make_room(live_t *live, uint64_t needed, char why[256])
{
  export_page_t *page = live->page;
  uint64_t most = EXPORT_MOST - live->text_at, capacity = needed + needed / 4 + EXPORT_FIRST_BYTES;
  if (needed > most) {
    snprintf(why, 256, "its figures take more than %d MiB", EXPORT_MOST >> 20);
    return false;
  }
  capacity = capacity > most ? most : capacity;
  int error = posix_fallocate(live->file, 0, (off_t)(live->text_at + capacity));
  if (error) {
    snprintf(why, 256, "no room for its figures: %s", strerror(error));
    return false;
  }
  uint64_t before = __atomic_load_n(&page->capacity, __ATOMIC_RELAXED);
  while (before < capacity &&
         !__atomic_compare_exchange_n(&page->capacity, &before, capacity, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    continue;
  return true;
}

typedef enum copied { COPIED, COPIED_TOO_LITTLE, COPIED_NOTHING, COPIED_BETWEEN } copied_t;

/* The process may still write the answer to somebody who has waited no longer: then the sequence has changed. */
static copied_t copy_text(live_t *live)
{
  const export_page_t *page = live->page;
  uint32_t sequence = __atomic_load_n(&page->sequence, __ATOMIC_ACQUIRE);
  size_t length = page->length;
  uint64_t needed = page->needed;
  copied_t copied = COPIED;
  if (length > EXPORT_MOST || sequence % 2)
    return COPIED_BETWEEN;
  if (!length)
    copied = needed ? COPIED_TOO_LITTLE : COPIED_NOTHING;
  char *text = realloc(live->text, length + 1);
  if (!text)
    command_fail(COMMAND_FAILED, "no memory");
  live->text = text;
  ssize_t got = pread(live->file, text, length, (off_t)live->text_at);
  live->length = got > 0 ? (size_t)got : 0;
  text[live->length] = 0;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  uint64_t written = page->written_ms, now = now_ms();
  live->age = written && now > written ? (double)(now - written) / 1000 : 0;
  return __atomic_load_n(&page->sequence, __ATOMIC_RELAXED) == sequence ? copied : COPIED_BETWEEN;
}

enum { MORE_ROOM_MOST = 8, RETRY_MS = 2, TURN_MS = 5000 };

static void sleep_ms(long ms) { nanosleep(&(struct timespec){0, ms * 1000000}, NULL); }

/* Processes ask in turn, because an answer overwrites the last one. TURN_MS without an answer: the one that asks is stopped. */
static bool begin_asking(const live_t *live)
{
  uint32_t answered = 0;
  for (uint64_t until = 0; flock(live->file, LOCK_EX | LOCK_NB) != 0; sleep_ms(RETRY_MS)) {
    uint32_t before = answered;
    answered = answers(live->page);
    until = until && answered == before ? until : now_ms() + TURN_MS;
    if (now_ms() >= until)
      return false;
  }
  return true;
}

static const char *why_no_answer(const live_t *live)
{
  if (live_is_over(live))
    return is_there(live->pid) ? "it does not share its figures any more: it is another program now" : "it has ended";
  return live->page->written_ms ? "it does not answer" : "it does not answer, and never did";
}

static bool ask_alone(live_t *live, int milliseconds, char why[256])
{
  uint64_t until = now_ms() + (uint64_t)milliseconds;
  int more_room = 0;
  for (;;) {
    bool answered = wait_for_answer(live->page, ask(live->page), until);
    copied_t copied = copy_text(live);
    if (copied == COPIED) {
      live->age = answered ? 0 : live->age;
      return true;
    }
    if (answered && copied == COPIED_TOO_LITTLE) {
      if (!make_room(live, live->page->needed, why))
        return false;
      if (more_room++ < MORE_ROOM_MOST) /* what has more heaps each time may need more each time */
        until = now_ms() + (uint64_t)milliseconds;
    }
    if (now_ms() >= until) {
      snprintf(why, 256, "%s", why_no_answer(live));
      return false;
    }
  }
}

static bool ask_library(live_t *live, int milliseconds, char why[256])
{
  if (!begin_asking(live)) {
    snprintf(why, 256, "another process is asking it, and has not finished");
    return false;
  }
  bool done = ask_alone(live, milliseconds, why);
  live->answered = answers(live->page);
  flock(live->file, LOCK_UN);
  return done;
}

/* What one of them does not need the others have. */
bool live_ask(live_t *live, int milliseconds, char why[256])
{
  uint64_t until = now_ms() + (uint64_t)milliseconds, left = 0;
  double age = -1;
  drop_ended(live);
  live_find_more(live);
  for (const live_t *l = live; l; l = l->next)
    left++;
  *why = '\0';
  for (live_t *l = live; l; l = l->next, left--) {
    uint64_t now = now_ms();
    bool done = ask_library(l, now < until ? (int)((until - now) / left) : 0, why);
    l->is_answered = done && l->age == 0;
    if (done && (age < 0 || l->age < age))
      age = l->age;
  }
  if (age >= 0)
    live->age = age;
  return age >= 0;
}

bool live_goes_on(const live_t *live)
{
  bool goes_on = false;
  for (; live && !goes_on; live = live->next)
    goes_on = answers(live->page) != live->answered || __atomic_load_n(&live->page->sequence, __ATOMIC_RELAXED) % 2;
  return goes_on;
}

/* ---- all ---- */

static bool shares(pid_t pid)
{
  DIR *folder = descriptors_of(pid);
  bool found = false;
  for (const struct dirent *entry; folder && !found && (entry = readdir(folder)) != NULL;)
    found = has_name(dirfd(folder), entry->d_name);
  if (folder)
    closedir(folder);
  return found;
}

static int by_number(const void *a, const void *b)
{
  pid_t first = *(const pid_t *)a, second = *(const pid_t *)b;
  return (first > second) - (first < second);
}

pid_t *live_list(size_t *count)
{
  pid_t *pids = NULL;
  size_t room = 0;
  DIR *folder = opendir("/proc");
  *count = 0;
  for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
    pid_t pid = command_pid(entry->d_name);
    if (!pid || !shares(pid))
      continue;
    if (*count == room) {
      room = room * 2 + 16;
      pids = reallocarray(pids, room, sizeof *pids);
      if (!pids)
        command_fail(COMMAND_FAILED, "no memory");
    }
    pids[(*count)++] = pid;
  }
  if (folder)
    closedir(folder);
  if (*count)
    qsort(pids, *count, sizeof *pids, by_number);
  return pids;
}
