/* SPDX-License-Identifier: MIT */
#include "perf_map.h"
#include "command.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct function {
  uint64_t start, bytes;
  char *name;
} function_t;

struct perf_map {
  function_t *functions; /* by their start */
  size_t count, room;
};

/* Anybody may put a file there, and the number may be another process's by now. */
static FILE *open_file(uint64_t process, uint64_t since_ns)
{
  char path[64];
  struct stat about;
  snprintf(path, sizeof path, "/tmp/perf-%" PRIu64 ".map", process);
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (file < 0)
    return NULL;
  bool is_right = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && (about.st_uid == geteuid() || geteuid() == 0) &&
                  (uint64_t)about.st_mtim.tv_sec * 1000000000 + (uint64_t)about.st_mtim.tv_nsec >= since_ns;
  FILE *opened = is_right ? fdopen(file, "r") : NULL;
  if (!opened)
    close(file);
  return opened;
}

/* CPython's py::answer:/srv/report.py is answer (report.py). */
static char *name_of(const char *text)
{
  const char *path = !strncmp(text, "py::", 4) ? strrchr(text, ':') : NULL, *slash = path ? strrchr(path, '/') : NULL;
  if (!path || path < text + 4)
    return COMMAND_JOIN(text);
  char *function = strndup(text + 4, (size_t)(path - text - 4));
  if (!function)
    command_fail(COMMAND_FAILED, "no memory");
  char *name = COMMAND_JOIN(function, " (", slash ? slash + 1 : path + 1, ")");
  free(function);
  return name;
}

static void add_function(perf_map_t *map, const char *line)
{
  function_t function;
  int at = 0;
  if (sscanf(line, "%" SCNx64 " %" SCNx64 " %n", &function.start, &function.bytes, &at) != 2 || !at || !line[at])
    return;
  if (map->count == map->room) {
    map->room = 2 * map->room + 256;
    map->functions = reallocarray(map->functions, map->room, sizeof *map->functions);
    if (!map->functions)
      command_fail(COMMAND_FAILED, "no memory");
  }
  function.name = name_of(line + at);
  map->functions[map->count++] = function;
}

static int by_start(const void *a, const void *b)
{
  uint64_t first = ((const function_t *)a)->start, second = ((const function_t *)b)->start;
  return (first > second) - (first < second);
}

perf_map_t *perf_map_open(uint64_t process, uint64_t since_ns)
{
  FILE *file = open_file(process, since_ns);
  perf_map_t *map = file ? calloc(1, sizeof *map) : NULL;
  char *line = NULL;
  size_t room = 0;
  while (map && getline(&line, &room, file) > 0) {
    line[strcspn(line, "\n")] = '\0';
    add_function(map, line);
  }
  if (map && map->count)
    qsort(map->functions, map->count, sizeof *map->functions, by_start);
  if (file)
    fclose(file);
  free(line);
  return map;
}

void perf_map_close(perf_map_t *map)
{
  for (size_t i = 0; map && i < map->count; i++)
    free(map->functions[i].name);
  if (map)
    free(map->functions);
  free(map);
}

const char *perf_map_name(const perf_map_t *map, uint64_t address)
{
  size_t from = 0, to = map ? map->count : 0;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if (map->functions[middle].start <= address)
      from = middle + 1;
    else
      to = middle;
  }
  const function_t *function = from ? &map->functions[from - 1] : NULL;
  return function && address - function->start < function->bytes ? function->name : NULL;
}
