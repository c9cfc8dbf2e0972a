/* SPDX-License-Identifier: MIT
 *
 * The map of a process that runs: where its manager is says the page that it shares, and its memory is read by way of /proc.
 * The file stays that of the program it was opened of, whatever becomes of the process. */
#include "map_process.h"
#include "command.h"
#include "debug/export_root.h"
#include "live/live.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

typedef struct remote {
  int file;
  bool has_ended;
} remote_t;

/* Addresses beyond those of files are none of a program. */
static bool fetch(void *context, uint64_t address, void *to, size_t bytes)
{
  remote_t *remote = context;
  size_t got = 0;
  while (got < bytes && address + bytes <= INT64_MAX) {
    ssize_t more = pread(remote->file, (char *)to + got, bytes - got, (off_t)(address + got));
    if (more < 0 && errno == EINTR)
      continue;
    remote->has_ended |= more == 0;
    if (more <= 0)
      return false;
    got += (size_t)more;
  }
  return got == bytes;
}

static int open_of_process(pid_t pid, const char *name)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  return open(path, O_RDONLY | O_CLOEXEC);
}

static const char *why_no_memory(int error)
{
  if (error == EACCES || error == EPERM)
    return "this user may not read its memory: root may, and where kernel.yama.ptrace_scope is 0, who started it";
  return error == ENOENT || error == ESRCH ? "it has ended" : strerror(error);
}

static bool find_root(const live_t *live, export_root_t *root, char why[256])
{
  const export_head_t *head = (const export_head_t *)(const void *)live->page;
  const char *reason = NULL;
  if (live->text_at < sizeof *head)
    reason = "its library is of a version before this one, and says nothing of where its heaps are";
  else if (head->root.layout != export_layout())
    reason = "its library is of another version than this program: the tidepool of that one can map it";
  else
    *root = head->root;
  if (reason)
    snprintf(why, 256, "%s", reason);
  return reason == NULL;
}

static bool read_map(map_t *map, callers_t *callers, const live_t *live, const export_root_t *root, char why[256])
{
  static memory_t memory;
  remote_t remote = {open_of_process(live->pid, "mem"), false};
  if (remote.file < 0) {
    snprintf(why, 256, "%s", why_no_memory(errno));
    return false;
  }
  memory = (memory_t){.fetch = fetch, .context = &remote};
  bool is_read = map_read(map, &memory, root, why);
  if (is_read && callers && map->block_count)
    map_read_sites(map, &memory, root, live->pid, callers);
  if (is_read)
    map_read_huge(map, live->pid);
  if (remote.has_ended || (!is_read && live_is_over(live))) {
    snprintf(why, 256, "it has ended");
    is_read = false;
  }
  memory_finish(&memory);
  close(remote.file);
  return is_read;
}

bool map_process(map_t *map, callers_t *callers, pid_t pid, char why[256])
{
  live_t live;
  export_root_t root;
  *map = (map_t){.heaps = NULL};
  if (!live_open(&live, pid, why))
    return false;
  bool is_read = find_root(&live, &root, why) && read_map(map, callers, &live, &root, why);
  if (is_read && live_find_more(&live))
    command_say("map: process %d has two libraries, and this is the memory of one of them", (int)pid);
  live_close(&live);
  return is_read;
}

char *map_process_name(pid_t pid)
{
  char name[64] = "", number[32];
  int file = open_of_process(pid, "comm");
  ssize_t length = file >= 0 ? read(file, name, sizeof name - 1) : 0;
  if (file >= 0)
    close(file);
  name[length > 0 ? length : 0] = '\0';
  name[strcspn(name, "\n")] = '\0';
  snprintf(number, sizeof number, "process %d", (int)pid);
  return COMMAND_JOIN(number, *name ? ", " : "", name);
}
