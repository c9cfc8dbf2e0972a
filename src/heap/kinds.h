/* SPDX-License-Identifier: MIT
 * The kind of call that allocated a block decides which calls may free it. */
#ifndef KINDS_H
#define KINDS_H

typedef enum block_kind { KIND_ANY, KIND_MALLOC, KIND_NEW, KIND_NEW_ARRAY } block_kind_t;
enum { KIND_BITS = 2 };

/* Return the kind that an allocating call makes, or that a freeing call frees. */
block_kind_t kind_allocated_by(const char *call);
block_kind_t kind_freed_by(const char *call);

#endif
