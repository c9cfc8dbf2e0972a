/* SPDX-License-Identifier: MIT
 * Options of the process-wide manager: TIDEPOOL_OPTIONS="key=value,key=value", or option_set() before first use. */
#ifndef OPTION_H
#define OPTION_H

#include "base/low_water.h"

typedef enum option_huge_pages { HUGE_PAGES_NEVER, HUGE_PAGES_AUTO, HUGE_PAGES_ALWAYS } option_huge_pages_t;

enum {
  PURGE_DELAY_DEFAULT_MS = 100,
  TICKS_PER_DELAY = LOW_WATER_EPOCHS,
  OPTION_PATH_SIZE = 256,
  SITES_MOST = 16,
  CACHE_BYTES_DEFAULT = 64 << 20,
  CACHE_BYTES_MOST = 1 << 30,
  SAMPLE_BYTES_LOG2_MOST = 31,
  SIGNAL_MOST = 64
};
#define PURGE_NEVER UINT32_MAX

typedef struct options {
  uint32_t purge_delay_ms;
  uint64_t cache_bytes; /* of the caches of all threads together */
  uint8_t huge_pages;   /* option_huge_pages_t */
  bool stats_at_exit;
  char stats_file[OPTION_PATH_SIZE]; /* "": to standard error; %p is the process ID */
  bool checked;
  uint8_t sites; /* for the default heap. Also the addresses of a site in any heap, where 0 means one */
  bool abort_on_exhausted;
  uint8_t leaks; /* bits of option_leaks_t */
  bool check_at_exit;
  bool guarded;
  uint8_t all;                         /* bits of option_all_t: the option applies to all heaps, not only to the default one */
  uint32_t guard_sample;               /* one block in so many ends at an inaccessible page; 0: none */
  uint8_t blocks;                      /* option_blocks_t: the source of the blocks of all heaps */
  bool names;                          /* mappings have names */
  bool deepbind;                       /* plug-ins keep RTLD_DEEPBIND */
  bool export;                         /* other processes may read the figures */
  uint8_t background;                  /* option_background_t: a thread of the library returns memory */
  uint8_t profile_signal;              /* a signal that writes the profile; 0: none */
  uint64_t sample_bytes;               /* of that profile; 0: the default */
  char profile_file[OPTION_PATH_SIZE]; /* "": no profile from the start */
} options_t;

typedef enum option_leaks { LEAKS_AT_DESTROY = 1 << 0, LEAKS_AT_EXIT = 1 << 1 } option_leaks_t;

typedef enum option_background { BACKGROUND_NONE, BACKGROUND_PURGES, BACKGROUND_REACHES_ALL } option_background_t;

typedef enum option_all { ALL_CHECKED = 1 << 0, ALL_GUARDED = 1 << 1 } option_all_t;

typedef enum option_blocks { BLOCKS_BY_TOOL, BLOCKS_OWN, BLOCKS_OF_MALLOC } option_blocks_t;

#ifdef TIDEPOOL_EMBEDDED
static const options_t settings; /* firmware has no options */
#else
extern INTERNAL options_t settings;
#endif

/* Reads the environment, once. Unknown keys, invalid values, and options that need a debug library which is not there are
 * reported and ignored. */
void option_read(bool has_debug);

/* Returns false if the key is unknown, the value is invalid, or the options have been read already. */
bool option_set(const char *key, const char *value);

/* These explain a failure. option_known() returns the key and its values as constant texts, or NULL if it is unknown.
 * option_nearest() returns the key that an unknown one is likely to mean, or NULL. */
const char *option_known(const char *key, const char **values);
const char *option_nearest(const char *key);
bool option_are_settled(void);

/* A process may have both libraries. */
#ifdef TIDEPOOL_IS_MALLOC
#define LIBRARY_NAME "libtidepool-malloc"
#else
#define LIBRARY_NAME "libtidepool"
#endif

/* Expands a file name: "%p" is the process ID, "%l" the library's name, "%%" a percent sign. So processes share no file. */
void option_path(char *path, size_t size, const char *name);

/* Returns whether sites of several addresses, or a profile, are requested so far. It also reads the environment. */
bool option_wants_stacks(void);

/* Returns whether the option with this value needs the debug library. */
bool option_needs_debug(const char *key, const char *value);

#endif
