/* SPDX-License-Identifier: MIT
 *
 * What keeps a preloaded library from being a program's malloc, as far as its file tells. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <limits.h>
#include <stdbool.h>

typedef struct program {
  char path[PATH_MAX]; /* of the file that is looked at: the program, or what interprets it */
  bool is_elf;         /* path is that of the program itself, and no shell can interpret it */
  bool breaks;         /* with the library preloaded it would not even begin */
  const char *keeps;   /* why it keeps its own malloc; NULL: nothing is known */
  char detail[64];     /* what `keeps` ends with */
} program_t;

/* `name` is looked for as execvp() does it, up to the first that may be run. The file of a script is followed to its
 * interpreter, and through env(1). Nothing is said of what cannot be read, but for its rights, nor of what is no program: that
 * is for exec to say. */
void program_look(program_t *program, const char *name, const char *library);

#endif
