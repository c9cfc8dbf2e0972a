/* SPDX-License-Identifier: MIT */
#include "live.h"
#include "command.h"
#include "heap/export_page.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
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

static unsigned long long namespace_of(const char *process)
{
  char path[64];
  struct stat namespace;
  snprintf(path, sizeof path, "/proc/%s/ns/pid", process);
  return stat(path, &namespace) == 0 ? (unsigned long long)namespace.st_ino : 0;
}

/* A process sees another /dev/shm than we do if it is in a container. */
static int open_page(pid_t pid)
{
  char process[16], path[128], *below_root;
  snprintf(process, sizeof process, "%d", (int)pid);
  snprintf(path, sizeof path, EXPORT_FOLDER EXPORT_NAME "%ld.%llu", number_inside(pid), namespace_of(process));
  below_root = COMMAND_JOIN("/proc/", process, "/root", path);
  int file = open(below_root, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  free(below_root);
  return file >= 0 ? file : open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* The file says whose it is by nothing but its name, which anybody may have taken. That the process has it mapped proves it;
 * and that it is still the program that made it. */
typedef enum mapped { MAPPED, MAPPED_NOT, MAPPED_UNKNOWN } mapped_t; /* the last: the user may not see it */

static mapped_t find_mapping(pid_t pid, const struct stat *file)
{
  char *line = NULL;
  size_t room = 0;
  bool found = false;
  FILE *maps = open_of_process(pid, "maps");
  if (!maps)
    return errno == ENOENT ? MAPPED_NOT : MAPPED_UNKNOWN;
  while (!found && getline(&line, &room, maps) > 0) {
    unsigned major_number, minor_number;
    unsigned long long inode;
    found = sscanf(line, "%*s %*s %*s %x:%x %llu", &major_number, &minor_number, &inode) == 3 && inode == file->st_ino &&
            makedev(major_number, minor_number) == file->st_dev;
  }
  free(line);
  fclose(maps);
  return found ? MAPPED : MAPPED_NOT;
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

static const char *why_not_open(pid_t pid, int error)
{
  if (!is_there(pid))
    return "there is no such process";
  if (error == ENOENT)
    return "it does not share its figures: it is not run with export=1";
  return strerror(error);
}

static const char *why_no_page(live_t *live, const struct stat *file)
{
  const export_page_t *page = live->page;
  mapped_t mapped = find_mapping(live->pid, file);
  if (mapped == MAPPED_UNKNOWN)
    return "this user may not see it";
  if (mapped == MAPPED_NOT)
    return is_there(live->pid) ? "it does not share its figures any more: it is another program now" : "it has ended";
  if (memcmp(page->mark, EXPORT_MARK, sizeof page->mark) != 0)
    return "what it shares are no figures";
  live->text_at = page->header_bytes;
  if (page->version != EXPORT_VERSION || live->text_at < sizeof *page || live->text_at > EXPORT_FIRST_BYTES)
    return "its library is of another version";
  return NULL;
}

static const char *map_page(live_t *live)
{
  struct stat file;
  if (fstat(live->file, &file) != 0)
    return strerror(errno);
  if (!S_ISREG(file.st_mode) || file.st_size < EXPORT_FIRST_BYTES)
    return "what it shares are no figures";
  void *page = mmap(NULL, EXPORT_FIRST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, live->file, 0);
  if (page == MAP_FAILED)
    return strerror(errno);
  live->page = page;
  return why_no_page(live, &file);
}

bool live_open(live_t *live, pid_t pid, char why[256])
{
  *live = (live_t){.pid = pid, .file = open_page(pid)};
  const char *reason = live->file < 0 ? why_not_open(pid, errno) : map_page(live);
  if (!reason)
    return true;
  snprintf(why, 256, "%s", reason);
  live_close(live);
  return false;
}

void live_close(live_t *live)
{
  if (live->page)
    munmap(live->page, EXPORT_FIRST_BYTES);
  if (live->file >= 0)
    close(live->file);
  free(live->text);
  *live = (live_t){.file = -1};
}

bool live_is_over(const live_t *live)
{
  struct stat file;
  return fstat(live->file, &file) != 0 || find_mapping(live->pid, &file) == MAPPED_NOT;
}

/* ---- a question ---- */

static bool is_answered(const export_page_t *page, uint32_t asked)
{
  return (int32_t)(__atomic_load_n(&page->answered, __ATOMIC_ACQUIRE) - asked) >= 0;
}

static bool wait_for_answer(export_page_t *page, uint32_t asked, uint64_t until_ms)
{
  for (;;) {
    uint32_t answered = __atomic_load_n(&page->answered, __ATOMIC_ACQUIRE);
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

/* Makes the file longer, and then says so to the process. Nobody makes it shorter. */
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

/* The process may write the answer to somebody else meanwhile: then the sequence has changed. */
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
  live->age = now > written ? (double)(now - written) / 1000 : 0;
  return __atomic_load_n(&page->sequence, __ATOMIC_RELAXED) == sequence ? copied : COPIED_BETWEEN;
}

enum { MORE_ROOM_MOST = 8 };

bool live_ask(live_t *live, int milliseconds, char why[256])
{
  int more_room = 0;
  uint64_t until = now_ms() + (uint64_t)milliseconds;
  for (;;) {
    bool answered = wait_for_answer(live->page, ask(live->page), until);
    switch (copy_text(live)) {
    case COPIED:
      live->age = answered ? 0 : live->age;
      return true;
    case COPIED_TOO_LITTLE:
      if (!make_room(live, live->page->needed, why))
        return false;
      if (more_room++ < MORE_ROOM_MOST) /* what has more heaps each time may need more each time */
        until = now_ms() + (uint64_t)milliseconds;
      break;
    case COPIED_NOTHING:
    case COPIED_BETWEEN:
      break;
    }
    if (now_ms() >= until) {
      snprintf(why, 256, "%s", live_is_over(live) ? "it has ended" : "it does not answer, and never did");
      return false;
    }
  }
}

/* ---- all ---- */

static int by_number(const void *a, const void *b)
{
  pid_t first = *(const pid_t *)a, second = *(const pid_t *)b;
  return (first > second) - (first < second);
}

/* A file whose process does not have it mapped is one that nobody will ever write to again: it gets its name when it is. */
static bool is_of_process(int folder, const char *name, pid_t pid)
{
  struct stat file;
  if (fstatat(folder, name, &file, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(file.st_mode))
    return false;
  mapped_t mapped = find_mapping(pid, &file);
  if (mapped == MAPPED_NOT && file.st_uid == geteuid())
    unlinkat(folder, name, 0);
  return mapped == MAPPED;
}

pid_t *live_list(size_t *count)
{
  pid_t *pids = NULL;
  size_t room = 0;
  unsigned long long here = namespace_of("self");
  DIR *folder = opendir(EXPORT_FOLDER);
  *count = 0;
  for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
    int pid, length = 0;
    unsigned long long namespace;
    if (sscanf(entry->d_name, EXPORT_NAME "%d.%llu%n", &pid, &namespace, &length) != 2 || entry->d_name[length] || pid <= 0 ||
        namespace != here || !is_of_process(dirfd(folder), entry->d_name, pid))
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
