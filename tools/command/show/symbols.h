/* SPDX-License-Identifier: MIT
 *
 * Which addresses of a program's file belong to functions that its table of symbols names. A file without one has few names
 * left, and tools give what lies between them to the function before. */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct symbols symbols_t;

/* Whether a path has the file that a program ran, which nobody has changed since `ns`, a time since 1970. What replaces a file
 * may be older by its date, as what packages install is, but not by when the system last changed what it says of it. `inode`
 * tells more, where it is not 0: a file that was copied from is as old as it was. */
typedef enum file_state { FILE_SAME, FILE_CHANGED, FILE_GONE } file_state_t;
file_state_t symbols_file_state(const char *path, uint64_t inode, uint64_t ns);

/* The address that a program's file has for what stands at an offset in it. False: none. */
bool symbols_address(const char *path, uint64_t offset, uint64_t *address);

/* NULL: it is no such file, or has no table. A file of any contents may be given. */
symbols_t *symbols_open(const char *path);
bool symbols_cover(const symbols_t *symbols, uint64_t address);
void symbols_close(symbols_t *symbols);

#endif
