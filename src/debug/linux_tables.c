/* SPDX-License-Identifier: MIT
 *
 * Searches the index for the entry of a function and runs its program up to the wanted place. The program tells row by row what
 * changes from one place of the code to the next. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "debug/linux_tables.h"
#include "debug/linux_reader.h"
#include <string.h>

#ifdef HAS_TABLES

/* Pointer encodings (DW_EH_PE): the low half is the format, the high half what the address is relative to. */
enum { PE_ABSPTR, PE_ULEB128, PE_UDATA2, PE_UDATA4, PE_UDATA8, PE_SLEB128 = 9, PE_SDATA2, PE_SDATA4, PE_SDATA8 };
enum { PE_FORM = 0x0f, PE_RELATIVE = 0xf0, PE_PCREL = 0x10 };

static uint64_t read_form(reader_t *r, uint8_t encoding)
{
  switch (encoding & PE_FORM) {
  case PE_ABSPTR:
  case PE_UDATA8:
  case PE_SDATA8:
    return reader_bytes(r, 8);
  case PE_ULEB128:
    return reader_uleb(r);
  case PE_SLEB128:
    return (uint64_t)reader_sleb(r);
  case PE_UDATA2:
    return reader_bytes(r, 2);
  case PE_UDATA4:
    return reader_bytes(r, 4);
  case PE_SDATA2:
    return (uint64_t)reader_signed(r, 2);
  case PE_SDATA4:
    return (uint64_t)reader_signed(r, 4);
  default:
    r->failed = true;
    return 0;
  }
}

static uintptr_t read_address(reader_t *r, uint8_t encoding)
{
  uintptr_t here = (uintptr_t)r->at;
  uint8_t relative = encoding & PE_RELATIVE;
  r->failed |= relative && relative != PE_PCREL;
  return read_form(r, encoding) + (relative ? here : 0);
}

/* ---- the index ---- */

/* Returns the entry of the last function that begins at or before the place. NULL: all begin behind it. */
static const uint8_t *search_index(const table_index_t *index, uintptr_t pc)
{
  int64_t place = (int64_t)(pc - (uintptr_t)index);
  uint32_t low = 0, high = index->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (index->entries[middle].function <= place)
      low = middle + 1;
    else
      high = middle;
  }
  return low ? (const uint8_t *)((uintptr_t)index + (uintptr_t)(intptr_t)index->entries[low - 1].fde) : NULL;
}

/* ---- entries ---- */

typedef struct cie {
  uint64_t code_factor;
  int64_t data_factor;
  uint8_t address_encoding;
  bool has_augmentation, is_signal;
  reader_t program;
} cie_t;

typedef struct fde {
  cie_t cie;
  uintptr_t start; /* of the function's code */
  reader_t program;
} fde_t;

/* Returns a reader of the bytes behind an entry's length. It has failed if the entry is outside the module. */
static reader_t open_entry(const module_t *module, uintptr_t at)
{
  reader_t r = {(const uint8_t *)at, (const uint8_t *)module->end, at < module->start || at > module->end};
  uint64_t length = reader_bytes(&r, 4);
  r.failed |= length > (uint64_t)(r.end - r.at);
  if (!r.failed)
    r.end = r.at + length;
  return r;
}

/* Letters: the encoding of addresses, the personality, the language's data, a signal frame, the key that signs return
 * addresses, and tagged memory. Nothing behind an unknown letter can be understood. */
static void read_augmentation(reader_t *r, const char *letters, cie_t *cie)
{
  for (; *letters && !r->failed; letters++)
    switch (*letters) {
    case 'R':
      cie->address_encoding = reader_byte(r);
      break;
    case 'P':
      read_form(r, reader_byte(r));
      break;
    case 'L':
      reader_byte(r);
      break;
    case 'S':
      cie->is_signal = true;
      break;
    case 'B':
    case 'G':
      break;
    default:
      r->failed = true;
    }
}

static bool read_cie(const module_t *module, uintptr_t at, cie_t *cie)
{
  reader_t r = open_entry(module, at);
  bool is_cie = reader_bytes(&r, 4) == 0;
  uint8_t version = reader_byte(&r);
  const char *letters = (const char *)r.at;
  while (reader_byte(&r))
    continue;
  *cie = (cie_t){.code_factor = reader_uleb(&r), .data_factor = reader_sleb(&r), .address_encoding = PE_ABSPTR};
  uint64_t return_column = version == 1 ? reader_byte(&r) : reader_uleb(&r);
  cie->has_augmentation = !r.failed && *letters == 'z';
  if (cie->has_augmentation) {
    uint64_t length = reader_uleb(&r);
    reader_t augmentation = r;
    reader_skip(&r, length);
    augmentation.end = r.at;
    read_augmentation(&augmentation, letters + 1, cie);
    r.failed |= augmentation.failed;
  } else {
    r.failed |= r.failed || *letters;
  }
  cie->program = r;
  return !r.failed && is_cie && (version == 1 || version == 3) && return_column == RETURN_COLUMN;
}

static bool find_fde(const module_t *module, uintptr_t pc, fde_t *fde)
{
  const uint8_t *at = module->index ? search_index(module->index, pc) : NULL;
  if (!at)
    return false;
  reader_t r = open_entry(module, (uintptr_t)at);
  uintptr_t here = (uintptr_t)r.at, back = reader_bytes(&r, 4);
  if (r.failed || !back || back > here - module->start || !read_cie(module, here - back, &fde->cie))
    return false;
  fde->start = read_address(&r, fde->cie.address_encoding);
  uintptr_t length = read_form(&r, fde->cie.address_encoding);
  if (fde->cie.has_augmentation)
    reader_skip(&r, reader_uleb(&r));
  fde->program = r;
  return !r.failed && pc - fde->start < length;
}

/* ---- programs ---- */

enum {
  CFA_ADVANCE_LOC = 0x40, /* these three have an operand in their low bits */
  CFA_OFFSET = 0x80,
  CFA_RESTORE = 0xc0,
  CFA_NOP = 0x00,
  CFA_SET_LOC,
  CFA_ADVANCE_LOC1,
  CFA_ADVANCE_LOC2,
  CFA_ADVANCE_LOC4,
  CFA_OFFSET_EXTENDED,
  CFA_RESTORE_EXTENDED,
  CFA_UNDEFINED,
  CFA_SAME_VALUE,
  CFA_REGISTER,
  CFA_REMEMBER_STATE,
  CFA_RESTORE_STATE,
  CFA_DEF_CFA,
  CFA_DEF_CFA_REGISTER,
  CFA_DEF_CFA_OFFSET,
  CFA_DEF_CFA_EXPRESSION,
  CFA_EXPRESSION,
  CFA_OFFSET_EXTENDED_SF,
  CFA_DEF_CFA_SF,
  CFA_DEF_CFA_OFFSET_SF,
  CFA_VAL_OFFSET,
  CFA_VAL_OFFSET_SF,
  CFA_VAL_EXPRESSION,
  CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
  CFA_AARCH64_NEGATE_RA_STATE,
  CFA_GNU_ARGS_SIZE,
  CFA_GNU_NEGATIVE_OFFSET_EXTENDED
};

enum { REMEMBERED_MOST = 4 }; /* compilers use one, around each epilogue inside a function */

typedef struct program {
  const module_t *module;
  const cie_t *cie;
  reader_t r;
  uintptr_t location, pc; /* the row's place, and the wanted one */
  row_t *row;
  unsigned remembered_count;
  row_t initial, remembered[REMEMBERED_MOST];
} program_t;

static int32_t checked(program_t *p, int64_t value)
{
  p->r.failed |= value != (int32_t)value;
  return (int32_t)value;
}

/* Registers without a column are not needed. */
static void set_rule(program_t *p, uint64_t column, rule_t rule, int64_t value)
{
  if (column >= COLUMNS)
    return;
  p->row->rules[column] = (uint8_t)rule;
  p->row->values[column] = checked(p, value);
}

static void set_initial_rule(program_t *p, uint64_t column)
{
  if (column < COLUMNS)
    set_rule(p, column, (rule_t)p->initial.rules[column], p->initial.values[column]);
}

static int64_t factored(program_t *p, uint64_t offset) { return (int64_t)(offset * (uint64_t)p->cie->data_factor); }

/* Returns the offset of an expression in the module. Its length comes first. */
static int64_t read_expression(program_t *p)
{
  int64_t where = (int64_t)((uintptr_t)p->r.at - p->module->start);
  reader_skip(&p->r, reader_uleb(&p->r));
  return where;
}

static void advance(program_t *p, uint64_t delta) { p->location += delta * p->cie->code_factor; }

static void set_cfa(program_t *p, uint64_t column, int64_t offset)
{
  p->r.failed |= column >= COLUMNS;
  p->row->cfa_rule = RULE_REGISTER;
  p->row->cfa_column = (uint8_t)column;
  p->row->cfa_value = checked(p, offset);
}

static void set_cfa_expression(program_t *p)
{
  p->row->cfa_rule = RULE_VAL_EXPRESSION;
  p->row->cfa_value = checked(p, read_expression(p));
}

static void remember(program_t *p)
{
  p->r.failed |= p->remembered_count == REMEMBERED_MOST;
  if (!p->r.failed)
    p->remembered[p->remembered_count++] = *p->row;
}

static void recall(program_t *p)
{
  p->r.failed |= !p->remembered_count;
  if (!p->r.failed)
    *p->row = p->remembered[--p->remembered_count];
}

/* A signed return address is recognized by its bits, so no state is kept. */
static void negate_ra_state(program_t *p) { p->r.failed |= !RETURNS_BY_REGISTER; }

static bool run_for_location(program_t *p, uint8_t opcode)
{
  switch (opcode) {
  case CFA_NOP:
    return true;
  case CFA_SET_LOC:
    p->location = read_address(&p->r, p->cie->address_encoding);
    return true;
  case CFA_ADVANCE_LOC1:
    advance(p, reader_bytes(&p->r, 1));
    return true;
  case CFA_ADVANCE_LOC2:
    advance(p, reader_bytes(&p->r, 2));
    return true;
  case CFA_ADVANCE_LOC4:
    advance(p, reader_bytes(&p->r, 4));
    return true;
  case CFA_REMEMBER_STATE:
    remember(p);
    return true;
  case CFA_RESTORE_STATE:
    recall(p);
    return true;
  case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC:
  case CFA_AARCH64_NEGATE_RA_STATE:
    negate_ra_state(p);
    return true;
  case CFA_GNU_ARGS_SIZE:
    reader_uleb(&p->r);
    return true;
  default:
    return false;
  }
}

static bool run_for_cfa(program_t *p, uint8_t opcode)
{
  uint64_t column = p->row->cfa_column;
  switch (opcode) {
  case CFA_DEF_CFA:
    column = reader_uleb(&p->r);
    set_cfa(p, column, (int64_t)reader_uleb(&p->r));
    return true;
  case CFA_DEF_CFA_SF:
    column = reader_uleb(&p->r);
    set_cfa(p, column, factored(p, (uint64_t)reader_sleb(&p->r)));
    return true;
  case CFA_DEF_CFA_REGISTER:
    set_cfa(p, reader_uleb(&p->r), p->row->cfa_value);
    return true;
  case CFA_DEF_CFA_OFFSET:
    set_cfa(p, column, (int64_t)reader_uleb(&p->r));
    return true;
  case CFA_DEF_CFA_OFFSET_SF:
    set_cfa(p, column, factored(p, (uint64_t)reader_sleb(&p->r)));
    return true;
  case CFA_DEF_CFA_EXPRESSION:
    set_cfa_expression(p);
    return true;
  default:
    return false;
  }
}

static void run_for_column(program_t *p, uint8_t opcode)
{
  uint64_t column = reader_uleb(&p->r);
  switch (opcode) {
  case CFA_OFFSET_EXTENDED:
    set_rule(p, column, RULE_OFFSET, factored(p, reader_uleb(&p->r)));
    break;
  case CFA_OFFSET_EXTENDED_SF:
    set_rule(p, column, RULE_OFFSET, factored(p, (uint64_t)reader_sleb(&p->r)));
    break;
  case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
    set_rule(p, column, RULE_OFFSET, -factored(p, reader_uleb(&p->r)));
    break;
  case CFA_VAL_OFFSET:
    set_rule(p, column, RULE_VAL_OFFSET, factored(p, reader_uleb(&p->r)));
    break;
  case CFA_VAL_OFFSET_SF:
    set_rule(p, column, RULE_VAL_OFFSET, factored(p, (uint64_t)reader_sleb(&p->r)));
    break;
  case CFA_RESTORE_EXTENDED:
    set_initial_rule(p, column);
    break;
  case CFA_UNDEFINED:
    set_rule(p, column, RULE_UNDEFINED, 0);
    break;
  case CFA_SAME_VALUE:
    set_rule(p, column, RULE_SAME_VALUE, 0);
    break;
  case CFA_REGISTER:
    set_rule(p, column, RULE_REGISTER, (int64_t)reader_uleb(&p->r));
    break;
  case CFA_EXPRESSION:
    set_rule(p, column, RULE_EXPRESSION, read_expression(p));
    break;
  case CFA_VAL_EXPRESSION:
    set_rule(p, column, RULE_VAL_EXPRESSION, read_expression(p));
    break;
  default:
    p->r.failed = true;
  }
}

static void run_one(program_t *p)
{
  uint8_t opcode = reader_byte(&p->r), operand = opcode & 0x3f;
  switch (opcode & 0xc0) {
  case CFA_ADVANCE_LOC:
    advance(p, operand);
    break;
  case CFA_OFFSET:
    set_rule(p, operand, RULE_OFFSET, factored(p, reader_uleb(&p->r)));
    break;
  case CFA_RESTORE:
    set_initial_rule(p, operand);
    break;
  default:
    if (!run_for_location(p, opcode) && !run_for_cfa(p, opcode))
      run_for_column(p, opcode);
  }
}

/* Rules behind the step to a later place do not apply to this one. */
static bool run_program(program_t *p, reader_t program)
{
  p->r = program;
  while (!p->r.failed && p->r.at < p->r.end && p->location <= p->pc)
    run_one(p);
  return !p->r.failed;
}

bool table_find_row(const module_t *module, uintptr_t pc, row_t *row)
{
  fde_t fde;
  if (!find_fde(module, pc, &fde))
    return false;
  program_t p; /* not cleared: most of it is unused remembered rows */
  p.module = module;
  p.cie = &fde.cie;
  p.location = fde.start;
  p.pc = pc;
  p.row = row;
  p.remembered_count = 0;
  *row = (row_t){.is_signal = fde.cie.is_signal};
  if (!run_program(&p, fde.cie.program))
    return false;
  p.initial = *row;
  return run_program(&p, fde.program) && row->cfa_rule != RULE_SAME_VALUE;
}

#endif
