/* SPDX-License-Identifier: MIT
 *
 * The names of functions that a process made at run time, in the file that it writes for perf(1): /tmp/perf-PID.map. */
#ifndef PERF_MAP_H
#define PERF_MAP_H

#include <stdint.h>

typedef struct perf_map perf_map_t;

/* NULL: the process has left none since that moment, in nanoseconds since 1970, or it is not this user's. */
perf_map_t *perf_map_open(uint64_t process, uint64_t since_ns);
void perf_map_close(perf_map_t *map);

/* NULL: the address is in no function of it. */
const char *perf_map_name(const perf_map_t *map, uint64_t address);

#endif
