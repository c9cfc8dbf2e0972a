/* SPDX-License-Identifier: MIT
 *
 * Where a map is from: a process that runs, or a recording that is done again up to a moment. */
#ifndef MAP_PROCESS_H
#define MAP_PROCESS_H

#include "map.h"
#include "show/callers.h"
#include <sys/types.h>

typedef struct map_source {
  char *title;                  /* the process, or what was recorded */
  double seconds, last;         /* of a recording: the moment, and how long it took; less than 0: it is a process */
  bool is_peak;                 /* and the most was live then */
  uint64_t at_bytes, end_bytes; /* of a recording at its peak and at its end: that were asked for and live */
  callers_t callers;            /* of its stacks */
} map_source_t;

/* Maps a process that was started with export=1. Where its heaps know the sites of blocks, `callers` (NULL: not wanted) has
 * their names. False: *why says why not. */
bool map_process(map_t *map, callers_t *callers, pid_t pid, char why[256]);

/* Reads the stacks of all blocks that are known by a number of the process's, and gives them numbers of `callers`. */
struct export_root;
void map_read_sites(map_t *map, memory_t *memory, const struct export_root *root, pid_t pid, callers_t *callers);

/* Asks the system how much is in huge pages. Of a map that was read otherwise that is not known. */
void map_read_huge(map_t *map, pid_t pid);

/* The name of a process, in memory of its own. */
char *map_process_name(pid_t pid);

/* A moment of a recording: in nanoseconds from its beginning, or one of these. */
#define MAP_AT_PEAK UINT64_MAX
#define MAP_AT_END  (UINT64_MAX - 1)

/* Does on `library` what is recorded up to that moment, and maps that. What fails ends the program. */
void map_recording(map_t *map, map_source_t *source, const char *path, const char *library, uint64_t at);

#endif
