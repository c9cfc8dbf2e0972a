/* SPDX-License-Identifier: MIT
 *
 * Becoming a program that has libraries preloaded: what run and record do alike. What fails ends this one, with a line. */
#ifndef PRELOAD_H
#define PRELOAD_H

#include <stdbool.h>

#define PRELOAD_MALLOC "libtidepool-malloc.so." LIBRARY_VERSION
#define PRELOAD_RECORD "libtidepool-record.so." LIBRARY_VERSION

/* The debug libraries have the names of the plain ones, in a folder of their own. The second is for programs that are linked
 * with libtidepool. */
#define PRELOAD_DEBUG_FOLDER "tidepool-debug/"
#define PRELOAD_DEBUG_MALLOC PRELOAD_DEBUG_FOLDER PRELOAD_MALLOC
#define PRELOAD_DEBUG_OWN    PRELOAD_DEBUG_FOLDER "libtidepool.so." LIBRARY_VERSION

/* What parses the program with its arguments, which end the command's, and knows nothing else. */
struct argp_state;
int preload_program(int key, struct argp_state *state, char ***program);

/* The library of that name that belongs to this program: where both were installed, or in the folder of a build. NULL: it is
 * not there. */
char *preload_installed(const char *name);

/* The path of the library that is given, or of the one that belongs to this program. The loader goes on without what it cannot
 * find, so this is found before. */
char *preload_find(const char *command, const char *name, const char *given);

/* What the options in the environment need: the debug library, and to see each object of a program that allocates from arenas
 * of its own. An option that is off needs nothing. */
typedef enum preload_need { NEEDS_NOTHING, NEEDS_DEBUG = 1 << 0, NEEDS_BLOCKS = 1 << 1 } preload_need_t;
preload_need_t preload_need(void);

/* Adds text to a variable of the environment, with the separator where there is some already. */
void preload_set(const char *command, const char *name, const char *value);

/* What CPython is told by its variables: nothing; to have each object in a block of malloc; and to name its functions in a file
 * as for perf(1), where its version can. */
typedef enum preload_python { PYTHON_AS_IT_IS, PYTHON_BLOCKS, PYTHON_BLOCKS_AND_NAMES } preload_python_t;

typedef struct preload {
  const char *before;  /* the malloc library (NULL: nothing) */
  const char *library; /* the program's malloc */
  const char *own;     /* what a program that is linked with libtidepool gets in its place (NULL: what the loader finds) */
} preload_t;

/* Chooses the plain libraries, or the debug libraries if they are needed. A library that is given is preloaded alone. */
preload_t preload_choose(const char *command, const char *given, preload_need_t need);

/* Becomes the program, with these libraries. A line says so if the program keeps its own malloc, and if CPython is told
 * something, or cannot be. */
_Noreturn void preload_become(const char *command, const preload_t *libraries, char **program, preload_python_t python);

#endif
