/* SPDX-License-Identifier: MIT
 *
 * What a program's file tells: why a preloaded library would not be its malloc, and whether it is CPython. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/* CPython allocates small objects from arenas of its own unless PYTHONMALLOC=malloc is set. */
typedef enum python {
  PYTHON_IS_NONE,
  PYTHON_BEFORE_3_12,
  PYTHON_WITH_PERF,     /* since 3.12 its functions have names in a file for perf(1), if it is told so */
  PYTHON_FREE_THREADED, /* it ends at once if PYTHONMALLOC names another allocator than its own */
  PYTHON_IS_UNKNOWN     /* a script with the name of an interpreter, as pyenv(1) puts in front of the real one */
} python_t;

typedef struct program {
  char path[PATH_MAX]; /* of the file that is looked at: the program, or what interprets it */
  bool is_elf;         /* path is that of the program itself, and no shell can interpret it */
  bool breaks;         /* with the library preloaded it would not even begin */
  const char *keeps;   /* why it keeps its own malloc; NULL: nothing is known */
  char detail[64];     /* what `keeps` ends with */
  python_t python;
  bool is_interpreter;      /* of a script: the program's arguments are not its options */
  bool ignores_environment; /* CPython that ignores PYTHONMALLOC, by an option in the first line of the script */
} program_t;

/* Whether the words that follow an interpreter have CPython ignore its variables: -E or -I. */
bool program_python_is_isolated(char *const *words);

/* `name` is looked for as execvp() does it, up to the first that may be run. The file of a script is followed to its
 * interpreter, and through env(1). Nothing is said of what cannot be read, but for its rights, nor of what is no program: that
 * is for exec to say. */
void program_look(program_t *program, const char *name, const char *library);

#endif
