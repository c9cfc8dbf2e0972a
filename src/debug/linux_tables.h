/* SPDX-License-Identifier: MIT
 *
 * Call frame information, as DWARF names it and the Linux Standard Base has it in the section .eh_frame: for each place of a
 * function's code a row of rules, by which the registers of the function's caller are found. The canonical frame address (CFA)
 * is what the stack pointer was before the call. A module's index, .eh_frame_hdr, leads to the entry of a function (FDE), and
 * that to what several have in common (CIE). Both hold programs that make the rows. */
#ifndef OS_LINUX_TABLES_H
#define OS_LINUX_TABLES_H

#include "base/bits.h"

/* Where frames are walked by these tables. Elsewhere the compiler's unwinder does it (linux_stack.c). */
#if defined __LP64__ && (defined __x86_64__ || (defined __aarch64__ && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__))
#define HAS_TABLES 1
#endif

/* The columns of the table are registers, by the numbers that each machine gives them. Vector registers are left out. That of
 * the return address is a register that a call sets, or stands for the program counter. */
#ifdef __aarch64__
enum { COLUMNS = 32, FP_COLUMN = 29, RETURN_COLUMN = 30, SP_COLUMN = 31, RETURNS_BY_REGISTER = 1 };
#else
enum { COLUMNS = 17, FP_COLUMN = 6, RETURN_COLUMN = 16, SP_COLUMN = 7, RETURNS_BY_REGISTER = 0 };
#endif

/* Every linker makes it like this: addresses are 32 bits, relative to the index, and in order. */
typedef struct index_entry {
  int32_t function, fde;
} index_entry_t;

typedef struct table_index {
  uint8_t version, section_encoding, count_encoding, entry_encoding;
  int32_t section; /* .eh_frame */
  uint32_t count;
  index_entry_t entries[];
} table_index_t;

/* Where a module is mapped. Nothing beyond is read. */
typedef struct module {
  uintptr_t start, end;
  const table_index_t *index; /* NULL: it has none that can be used */
  uint64_t mark;              /* of what is in the index: another module has another, also at the same place */
} module_t;

/* False: no module has code there. Nothing is allocated. With a C library that has no _dl_find_object(), the loader's lock is
 * taken. */
bool module_find(uintptr_t pc, module_t *module);

/* The index at that place, if it is one, and the mark. */
void module_set_index(module_t *module, const void *index);

/* How a register of the caller is found. */
typedef enum rule {
  RULE_SAME_VALUE, /* it is the callee's, also where nothing is said of it */
  RULE_UNDEFINED,
  RULE_OFFSET,         /* saved at CFA+value */
  RULE_VAL_OFFSET,     /* is CFA+value */
  RULE_REGISTER,       /* is in the register `value` */
  RULE_EXPRESSION,     /* saved at the address that an expression computes; `value` is where that stands in the module */
  RULE_VAL_EXPRESSION, /* is what it computes */
} rule_t;

typedef struct row {
  uint8_t rules[COLUMNS];  /* rule_t */
  int32_t values[COLUMNS]; /* what a rule needs */
  uint8_t cfa_rule;        /* RULE_REGISTER: that register, and cfa_value; else RULE_VAL_EXPRESSION */
  uint8_t cfa_column;
  int32_t cfa_value;
  bool is_signal; /* the frame of a signal: what it leads to did not call */
} row_t;

/* False: no function has a table there, or it says something that is not known here. Only bytes of the module are read,
 * whatever is in them. */
bool table_find_row(const module_t *module, uintptr_t pc, row_t *row);

/* Registers as they are in one frame. */
typedef struct registers {
  uintptr_t values[COLUMNS];
  uint64_t known; /* of which of them there is a value: a bit for each */
} registers_t;

typedef bool read_word_fn(void *context, uintptr_t address, uintptr_t *word);

/* Computes the expression that stands in the module, beginning with what is in `*result`. False: it wants a register that is
 * not known (and that is said), memory that cannot be read, or an operation that no compiler has in such a table. */
typedef struct expression {
  const module_t *module;
  const registers_t *registers;
  read_word_fn *read_word;
  void *context;
  bool lacks_register;
} expression_t;
bool table_compute(expression_t *expression, int32_t where, uintptr_t *result);

#endif
