/* SPDX-License-Identifier: MIT
 *
 * addr2line(1), asked about many addresses of one file at once. */
#ifndef ADDR2LINE_H
#define ADDR2LINE_H

#include <stddef.h>
#include <stdint.h>

typedef enum addr2line { ADDR2LINE_ALL, ADDR2LINE_SOME, ADDR2LINE_IS_NOT_THERE } addr2line_t;

/* Called for each function at the address of that number, the inlined ones first. "??" stands for what is not known. */
typedef void addr2line_fn(size_t number, const char *function, const char *place, void *context);

/* The addresses are those of the file. ADDR2LINE_SOME: it has not answered for all of them. */
addr2line_t addr2line_ask(const char *path, const uint64_t *addresses, size_t count, addr2line_fn *each, void *context);

#endif
