/* SPDX-License-Identifier: MIT
 *
 * Which addresses of a program's file belong to functions that its table of symbols names. A file without one has few names
 * left, and tools give what lies between them to the function before. */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct symbols symbols_t;

/* NULL: it is no such file, or has no table. A file of any contents may be given. */
symbols_t *symbols_open(const char *path);
bool symbols_cover(const symbols_t *symbols, uint64_t address);
void symbols_close(symbols_t *symbols);

#endif
