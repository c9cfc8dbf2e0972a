/* SPDX-License-Identifier: MIT
 *
 * Evaluates the DWARF expressions of call frame information: an address is computed from registers and memory on a small stack.
 * The C library uses them for signal frames, linkers for the table that leads to functions of other modules, and compilers for
 * functions that align their stack. None of these jumps or divides. */
#include "debug/linux_reader.h"
#include "debug/linux_tables.h"

#ifdef HAS_TABLES

enum {
  OP_DEREF = 0x06,
  OP_CONST1U = 0x08, /* followed by 1S, 2U, 2S */
  OP_CONST8S = 0x0f, /* and so on */
  OP_CONSTU,
  OP_CONSTS,
  OP_DUP,
  OP_DROP,
  OP_AND = 0x1a,
  OP_MINUS = 0x1c,
  OP_OR = 0x21,
  OP_PLUS,
  OP_PLUS_UCONST,
  OP_SHL,
  OP_SHR,
  OP_GE = 0x2a,
  OP_LIT0 = 0x30,
  OP_LIT31 = 0x4f,
  OP_BREG0 = 0x70,
  OP_BREG31 = 0x8f
};

enum { OPERANDS_MOST = 8 };

typedef struct machine {
  expression_t *e;
  reader_t r;
  unsigned count;
  uintptr_t operands[OPERANDS_MOST];
} machine_t;

static void push_operand(machine_t *m, uintptr_t operand)
{
  m->r.failed |= m->count == OPERANDS_MOST;
  if (!m->r.failed)
    m->operands[m->count++] = operand;
}

static uintptr_t pop_operand(machine_t *m)
{
  m->r.failed |= !m->count;
  return m->r.failed ? 0 : m->operands[--m->count];
}

static uintptr_t value_of(machine_t *m, unsigned column)
{
  const registers_t *registers = m->e->registers;
  bool is_there = column < COLUMNS && registers->known >> column & 1;
  m->e->lacks_register |= !is_there;
  m->r.failed |= !is_there;
  return is_there ? registers->values[column] : 0;
}

static uintptr_t word_at(machine_t *m, uintptr_t address)
{
  uintptr_t word = 0;
  m->r.failed |= m->r.failed || !m->e->read_word(m->e->context, address, &word);
  return word;
}

static uintptr_t read_constant(machine_t *m, uint8_t op)
{
  size_t size = (size_t)1 << (op - OP_CONST1U) / 2;
  bool has_sign = (op - OP_CONST1U) % 2;
  return has_sign ? (uintptr_t)reader_signed(&m->r, size) : reader_bytes(&m->r, size);
}

/* Returns false if the operation has two operands, or is unknown. */
static bool compute_one(machine_t *m, uint8_t op)
{
  uintptr_t top;
  switch (op) {
  case OP_CONSTU:
    push_operand(m, reader_uleb(&m->r));
    return true;
  case OP_CONSTS:
    push_operand(m, (uintptr_t)reader_sleb(&m->r));
    return true;
  case OP_DUP:
    top = pop_operand(m), push_operand(m, top), push_operand(m, top);
    return true;
  case OP_DROP:
    pop_operand(m);
    return true;
  case OP_DEREF:
    push_operand(m, word_at(m, pop_operand(m)));
    return true;
  case OP_PLUS_UCONST:
    top = pop_operand(m), push_operand(m, top + reader_uleb(&m->r));
    return true;
  default:
    return false;
  }
}

static void compute_two(machine_t *m, uint8_t op)
{
  uintptr_t top = pop_operand(m), second = pop_operand(m);
  switch (op) {
  case OP_AND:
    push_operand(m, second & top);
    break;
  case OP_MINUS:
    push_operand(m, second - top);
    break;
  case OP_OR:
    push_operand(m, second | top);
    break;
  case OP_PLUS:
    push_operand(m, second + top);
    break;
  case OP_SHL:
    push_operand(m, top < WORD_BITS ? second << top : 0);
    break;
  case OP_SHR:
    push_operand(m, top < WORD_BITS ? second >> top : 0);
    break;
  case OP_GE:
    push_operand(m, (intptr_t)second >= (intptr_t)top);
    break;
  default:
    m->r.failed = true;
  }
}

static void compute(machine_t *m, uint8_t op)
{
  if (op >= OP_LIT0 && op <= OP_LIT31)
    push_operand(m, op - OP_LIT0);
  else if (op >= OP_BREG0 && op <= OP_BREG31)
    push_operand(m, value_of(m, op - OP_BREG0) + (uintptr_t)reader_sleb(&m->r));
  else if (op >= OP_CONST1U && op <= OP_CONST8S)
    push_operand(m, read_constant(m, op));
  else if (!compute_one(m, op))
    compute_two(m, op);
}

bool table_compute(expression_t *expression, int32_t where, uintptr_t *result)
{
  const module_t *module = expression->module;
  machine_t m = {.e = expression, .operands = {*result}, .count = 1};
  m.r.at = (const uint8_t *)(module->start + (uintptr_t)(intptr_t)where);
  m.r.end = (const uint8_t *)module->end;
  uint64_t length = reader_uleb(&m.r);
  m.r.failed |= length > (uint64_t)(m.r.end - m.r.at);
  if (!m.r.failed)
    m.r.end = m.r.at + length;
  while (!m.r.failed && m.r.at < m.r.end)
    compute(&m, reader_byte(&m.r));
  *result = pop_operand(&m);
  return !m.r.failed;
}

#endif
