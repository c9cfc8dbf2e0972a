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
  char stats_file[OPTION_PATH_SIZE]; /* "": to standard error; %p is the number of the process */
  bool checked;
  uint8_t sites; /* of the default heap; and how many addresses a site has, in any heap: 0 is one there */
  bool abort_on_exhausted;
  uint8_t leaks; /* bits of option_leaks_t */
  bool check_at_exit;
  bool guarded;
  uint8_t all;                         /* bits of option_all_t: of all heaps, and not of the default one alone */
  uint32_t guard_sample;               /* one block in so many is walled; 0: none */
  uint8_t blocks;                      /* option_blocks_t: where all heaps have them from */
  bool names;                          /* mappings have names */
  bool deepbind;                       /* plug-ins keep RTLD_DEEPBIND */
  bool export;                         /* other processes may ask for the figures */
  uint8_t background;                  /* option_background_t: a thread of the library's own returns memory */
  uint8_t profile_signal;              /* that has the profile written; 0: none */
  uint64_t sample_bytes;               /* of that profile; 0: as many as are usual */
  char profile_file[OPTION_PATH_SIZE]; /* "": there is no profile from the start on */
} options_t;

typedef enum option_leaks { LEAKS_AT_DESTROY = 1 << 0, LEAKS_AT_EXIT = 1 << 1 } option_leaks_t;

typedef enum option_background { BACKGROUND_NONE, BACKGROUND_PURGES, BACKGROUND_REACHES_ALL } option_background_t;

typedef enum option_all { ALL_CHECKED = 1 << 0, ALL_GUARDED = 1 << 1 } option_all_t;

typedef enum option_blocks { BLOCKS_BY_TOOL, BLOCKS_OWN, BLOCKS_OF_MALLOC } option_blocks_t;

extern INTERNAL options_t settings;

/* Reads the environment, once; unknown keys and bad values are warned of and ignored. */
void option_read(void);

/* False: unknown key, bad value, or the options have been read already. */
bool option_set(const char *key, const char *value);

/* Why that was. The first returns the key and its values in texts of its own, NULL for an unknown one; the second the key that
 * an unknown one is likely to mean, or NULL. */
const char *option_known(const char *key, const char **values);
const char *option_nearest(const char *key);
bool option_are_settled(void);

/* What a process may have beside another of them. */
#ifdef TIDEPOOL_IS_MALLOC
#define LIBRARY_NAME "libtidepool-malloc"
#else
#define LIBRARY_NAME "libtidepool"
#endif

/* A name of a file as an option has it: "%p" becomes the number of the process, and "%%" a percent sign, so that processes of
 * one program do not share a file. */
void option_path(char *path, size_t size, const char *name);

/* Sites of several addresses are asked for, or a profile, by the environment or so far. It may be asked before the options are
 * read. */
bool option_wants_stacks(void);

/* Says whether the option needs the debug library. option_refuse_debug() reports those that were set, in one line, and has them
 * as if they were not. */
bool option_is_debug(const char *key);
void option_refuse_debug(void);

#endif
