/* SPDX-License-Identifier: MIT
 * What a block was allocated by, as far as it matters by what it is freed. */
#ifndef KINDS_H
#define KINDS_H

typedef enum block_kind { KIND_ANY, KIND_MALLOC, KIND_NEW, KIND_NEW_ARRAY } block_kind_t;
enum { KIND_BITS = 2 };

/* By the names of the calls: of the one that allocates, and of the one that frees what is of that kind. */
block_kind_t kind_allocated_by(const char *call);
block_kind_t kind_freed_by(const char *call);

#endif
