/* SPDX-License-Identifier: MIT
 *
 * The reader of profiles: the text that profile=FILE and pool_profile_write() write, gperftools, and jemalloc. A file of any
 * contents may be given: what is read takes memory by what is in the file, and what can be read of a damaged one is.
 *
 * A profile has blocks that were hit by a sample, one of so many bytes on average, as in a Poisson process. A block of n bytes
 * is hit with probability 1 - exp(-n / distance), so each that was hit stands for the reciprocal of that, itself included. The
 * sizes of a line are near each other, and their mean is taken for each; google-pprof reckons the same. */
#ifndef PROFILE_H
#define PROFILE_H

#include "recording/heap_names.h"

typedef struct profile_counts {
  uint64_t blocks, bytes;
} profile_counts_t;

typedef struct profile_place {
  profile_counts_t live, all; /* reckoned from those in the profile */
  uint64_t samples, all_samples;
  uint32_t frame_count;
  uint32_t heap;    /* the number of its name; 0: nothing is said of it */
  uint64_t *frames; /* return addresses, innermost first */
} profile_place_t;

/* Code of a file that the process had mapped. */
typedef struct profile_mapping {
  uint64_t start, end, offset, inode;
  char *name;
} profile_mapping_t;

typedef struct profile {
  uint64_t distance; /* of two samples in bytes, on average; 0: each block is in it */
  profile_place_t *places;
  size_t place_count;
  profile_mapping_t *mappings;
  size_t mapping_count;
  heap_names_t heaps;         /* that are named in it */
  uint32_t heap;              /* whose lines are being read */
  profile_counts_t live, all; /* in the file: of how many the rest is reckoned */
  profile_counts_t said_live; /* what its first line says that it has; not of jemalloc's */
  uint64_t written_ns;        /* when the file was, since 1970 */
  uint64_t bad_lines;
  bool is_jemallocs, is_cut_off, has_mappings;
} profile_t;

/* Of the first bytes of a file: whether a profile begins so. */
bool profile_begins(const char *bytes, size_t length);

/* False: `why` says so. Who has a profile gives it to profile_free(). */
bool profile_read(profile_t *profile, const char *path, char why[256]);

/* One line of what is missing in it. False: nothing is. */
bool profile_lacks(const profile_t *profile, char text[256]);

void profile_free(profile_t *profile);

#endif
