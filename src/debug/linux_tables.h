/* SPDX-License-Identifier: MIT
 *
 * Call frame information in DWARF's terms, as the Linux Standard Base defines the section .eh_frame. Each place of a function's
 * code has a row of rules that restore the registers of its caller. The canonical frame address (CFA) is the stack pointer
 * before the call. A module's index, .eh_frame_hdr, leads to the entry of a function (FDE), which refers to an entry that
 * several share (CIE). FDE and CIE hold programs that make the rows. */
#ifndef DEBUG_LINUX_TABLES_H
#define DEBUG_LINUX_TABLES_H

#include "base/bits.h"

/* Machines on which these tables are used. Elsewhere the compiler's unwinder is (linux_stack.c). */
#if defined __LP64__ && (defined __x86_64__ || (defined __aarch64__ && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__))
#define HAS_TABLES 1
#endif

/* Columns are registers, numbered as on each machine, without vector registers. The column of the return address is a register
 * that a call sets, or stands for the program counter. */
#ifdef __aarch64__
enum { COLUMNS = 32, FP_COLUMN = 29, RETURN_COLUMN = 30, SP_COLUMN = 31, RETURNS_BY_REGISTER = 1 };
#else
enum { COLUMNS = 17, FP_COLUMN = 6, RETURN_COLUMN = 16, SP_COLUMN = 7, RETURNS_BY_REGISTER = 0 };
#endif

/* All linkers make this form: addresses are 32 bits, relative to the index, and sorted. */
typedef struct index_entry {
  int32_t function, fde;
} index_entry_t;

typedef struct table_index {
  uint8_t version, section_encoding, count_encoding, entry_encoding;
  int32_t section; /* .eh_frame */
  uint32_t count;
  index_entry_t entries[];
} table_index_t;

typedef struct module {
  uintptr_t start, end;
  const table_index_t *index; /* NULL: none that can be used */
  uint64_t mark;              /* hash of the index: tells modules at the same place apart */
} module_t;

/* False: no module has code there. Allocates nothing, but takes the loader's lock if the C library lacks _dl_find_object(). */
bool module_find(uintptr_t pc, module_t *module);

/* Sets the index at that address, if it is one, and the mark. */
void module_set_index(module_t *module, const void *index);

typedef enum rule {
  RULE_SAME_VALUE, /* equals the callee's; also the default */
  RULE_UNDEFINED,
  RULE_OFFSET,         /* saved at CFA + value */
  RULE_VAL_OFFSET,     /* is CFA + value */
  RULE_REGISTER,       /* is in register `value` */
  RULE_EXPRESSION,     /* saved at the address that an expression computes; `value` is its offset in the module */
  RULE_VAL_EXPRESSION, /* is the expression's result */
} rule_t;

typedef struct row {
  uint8_t rules[COLUMNS];  /* rule_t */
  int32_t values[COLUMNS]; /* operands of the rules */
  uint8_t cfa_rule;        /* RULE_REGISTER: cfa_column + cfa_value; else RULE_VAL_EXPRESSION */
  uint8_t cfa_column;
  int32_t cfa_value;
  bool is_signal; /* a signal's frame: the code that it leads to did not call */
} row_t;

/* False: no function has a table there, or it has an unknown operation. Reads only bytes of the module, whatever they are. */
bool table_find_row(const module_t *module, uintptr_t pc, row_t *row);

typedef struct registers {
  uintptr_t values[COLUMNS];
  uint64_t known; /* a bit for each register with a value */
} registers_t;

typedef bool read_word_fn(void *context, uintptr_t address, uintptr_t *word);

/* Computes an expression of the module that starts with `*result`. Returns false if it needs an unknown register
 * (lacks_register is set), memory that cannot be read, or an operation that no compiler uses there. */
typedef struct expression {
  const module_t *module;
  const registers_t *registers;
  read_word_fn *read_word;
  void *context;
  bool lacks_register;
} expression_t;
bool table_compute(expression_t *expression, int32_t where, uintptr_t *result);

#endif
