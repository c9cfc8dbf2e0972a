/* SPDX-License-Identifier: MIT
 *
 * Walks a stack without the compiler's unwinder, which takes a lock under which it allocates, reads the target even of invalid
 * return addresses, and needs ten times as long for a frame.
 *
 * Most rows say that the CFA is a number of words above the stack or frame pointer, and that the return address and the
 * caller's frame pointer are at fixed words below the CFA. That is a step, of 64 bits, and a table caches steps by code
 * address.
 *
 * Steps drop all other registers. If a frame needs one, the walk starts over, by rows alone. (Compilers' code at calls never
 * needs one; the loader's does.)
 *
 * A word of the stack is read only in a checked page: that of the stack pointer, or one that the kernel was asked about in the
 * same walk. So wrong contents of a step, a table or a frame only end the walk early, or report calls that were not made. A
 * fault needs another thread that unmaps a page just after the check, beyond the end of a stack whose tables have no end. No
 * check is remembered between walks: stacks go away.
 *
 * Frames go up the stack, except those of signals, which may have a stack of their own.
 *
 * The tables of a module are read without a check. Its code has an unfinished call, so it stays loaded, unless the word that
 * leads there is no return address and the module is unloaded at that very moment. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "debug/linux_walk.h"
#include "debug/linux_registers.h"
#include "debug/linux_seen.h"
#include "debug/linux_tables.h"
#include <errno.h>
#include <string.h>

#ifdef HAS_TABLES

typedef struct walk {
  registers_t registers;
  uintptr_t pc;
  bool is_return; /* the call is in front of it, and may be the last instruction of its function */
  bool by_rows, lacks_register;
  seen_t seen, code;       /* of the stack, and of code outside modules */
  module_t module, before; /* current module, and the one before it: calls go to and fro */
} walk_t;

static inline bool read_stack(walk_t *w, uintptr_t address, uintptr_t *word) { return seen_read(&w->seen, address, word); }

static bool read_for_expression(void *walk, uintptr_t address, uintptr_t *word) { return read_stack(walk, address, word); }

/* ---- steps ---- */

typedef enum step_kind { STEP_IS_NONE, STEP_LEADS_ON, STEP_ENDS } step_kind_t;

typedef struct step {
  uint16_t cfa_words;              /* above the base */
  uint16_t return_words, fp_words; /* below the CFA; 0: still in its register */
  uint8_t base_column, kind;
} step_t;
_Static_assert(sizeof(step_t) == sizeof(uint64_t), "a step is one word of the table");

/* Threads write concurrently with each other and with readers. The second word is the mixed place XOR the step, so words of
 * different writers do not match. Mixing in the module's mark keeps a replaced module's steps from use. */
enum { KEPT_LOG2 = 13 };
static struct {
  uint64_t step, place_and_step;
} kept_steps[1 << KEPT_LOG2];

static inline uint64_t mix_place(const walk_t *w, uintptr_t place) { return (w->module.mark ^ place) * 0x9e3779b97f4a7c15u; }

static inline step_t find_step(uint64_t mixed_place)
{
  size_t at = mixed_place >> (WORD_BITS - KEPT_LOG2);
  uint64_t word = __atomic_load_n(&kept_steps[at].step, __ATOMIC_RELAXED);
  step_t step = {.kind = STEP_IS_NONE};
  if (likely((__atomic_load_n(&kept_steps[at].place_and_step, __ATOMIC_RELAXED) ^ word) == mixed_place))
    memcpy(&step, &word, sizeof step);
  return step;
}

static void keep_step(uint64_t mixed_place, step_t step)
{
  size_t at = mixed_place >> (WORD_BITS - KEPT_LOG2);
  uint64_t word;
  memcpy(&word, &step, sizeof word);
  __atomic_store_n(&kept_steps[at].step, word, __ATOMIC_RELAXED);
  __atomic_store_n(&kept_steps[at].place_and_step, mixed_place ^ word, __ATOMIC_RELAXED);
}

static bool in_words(int64_t offset, uint16_t *words)
{
  *words = (uint16_t)(offset / WORD);
  return offset > 0 && offset % WORD == 0 && offset / WORD <= UINT16_MAX;
}

/* Finds how many words below the CFA a register is saved; 0: it is in its register. Returns false if it is elsewhere. */
static bool is_saved_below(const row_t *row, unsigned column, uint16_t *words)
{
  *words = 0;
  return row->rules[column] == RULE_SAME_VALUE ||
         (row->rules[column] == RULE_OFFSET && in_words(-(int64_t)row->values[column], words));
}

static bool make_step(const row_t *row, step_t *step)
{
  *step = (step_t){.base_column = row->cfa_column, .kind = STEP_ENDS};
  if (row->rules[RETURN_COLUMN] == RULE_UNDEFINED)
    return true;
  step->kind = STEP_LEADS_ON;
  return !row->is_signal && row->cfa_rule == RULE_REGISTER && row->rules[SP_COLUMN] == RULE_SAME_VALUE &&
         (row->cfa_column == SP_COLUMN || row->cfa_column == FP_COLUMN) &&
         (in_words(row->cfa_value, &step->cfa_words) || !row->cfa_value) &&
         is_saved_below(row, RETURN_COLUMN, &step->return_words) && (step->return_words || RETURNS_BY_REGISTER) &&
         is_saved_below(row, FP_COLUMN, &step->fp_words);
}

static inline bool lacks(walk_t *w, unsigned column)
{
  bool is_missing = !is_known(&w->registers, column);
  w->lacks_register |= is_missing;
  return is_missing;
}

/* Only the innermost frame, or one that a signal interrupted, can have its return address still in the register. */
static inline bool find_caller_pc(walk_t *w, step_t step, uintptr_t cfa, uintptr_t *pc)
{
  if (!RETURNS_BY_REGISTER || step.return_words)
    return read_stack(w, cfa - (uintptr_t)step.return_words * WORD, pc);
  *pc = w->registers.values[RETURN_COLUMN];
  return !w->is_return;
}

static inline void set_caller(walk_t *w, step_t step, uintptr_t cfa)
{
  registers_t *r = &w->registers;
  uintptr_t fp;
  r->known &= BIT(SP_COLUMN) | BIT(FP_COLUMN);
  r->values[SP_COLUMN] = cfa;
  if (!step.fp_words)
    return;
  if (likely(read_stack(w, cfa - (uintptr_t)step.fp_words * WORD, &fp)))
    set_register(r, FP_COLUMN, fp);
  else
    r->known &= ~BIT(FP_COLUMN);
}

/* A return address lies at or above the stack pointer of the function that saved it. One below it belongs to a wrong frame
 * pointer: calls in progress write there, so it would be another one each time. */
static inline bool take_step(walk_t *w, step_t step)
{
  if (step.kind == STEP_ENDS || lacks(w, step.base_column))
    return false;
  uintptr_t cfa = w->registers.values[step.base_column] + (uintptr_t)step.cfa_words * WORD, pc;
  if (unlikely(cfa < w->registers.values[SP_COLUMN] + (uintptr_t)step.return_words * WORD) ||
      !find_caller_pc(w, step, cfa, &pc))
    return false;
  set_caller(w, step, cfa);
  w->pc = without_signature(pc);
  w->is_return = true;
  return true;
}

/* ---- rows ---- */

static bool compute_at(walk_t *w, int32_t where, uintptr_t *result)
{
  expression_t expression = {&w->module, &w->registers, read_for_expression, w, false};
  bool computed = table_compute(&expression, where, result);
  w->lacks_register |= expression.lacks_register;
  return computed;
}

static bool find_cfa(walk_t *w, const row_t *row, uintptr_t *cfa)
{
  *cfa = 0;
  if (row->cfa_rule != RULE_REGISTER)
    return compute_at(w, row->cfa_value, cfa);
  if (lacks(w, row->cfa_column))
    return false;
  *cfa = w->registers.values[row->cfa_column] + (uintptr_t)(intptr_t)row->cfa_value;
  return true;
}

static bool find_register(walk_t *w, const row_t *row, unsigned column, uintptr_t cfa, uintptr_t *value)
{
  int32_t operand = row->values[column];
  uintptr_t at = cfa + (uintptr_t)(intptr_t)operand;
  *value = cfa;
  switch (row->rules[column]) {
  case RULE_SAME_VALUE:
    *value = w->registers.values[column];
    return is_known(&w->registers, column);
  case RULE_OFFSET:
    return read_stack(w, at, value);
  case RULE_VAL_OFFSET:
    *value = at;
    return true;
  case RULE_EXPRESSION:
    return compute_at(w, operand, value) && read_stack(w, *value, value);
  case RULE_VAL_EXPRESSION:
    return compute_at(w, operand, value);
  case RULE_REGISTER:
    if (operand < 0 || operand >= COLUMNS || lacks(w, (unsigned)operand))
      return false;
    *value = w->registers.values[operand];
    return true;
  default:
    return false;
  }
}

/* The caller's stack pointer is the CFA unless the row says otherwise. */
static registers_t registers_of_caller(walk_t *w, const row_t *row, uintptr_t cfa)
{
  registers_t caller = {.known = 0};
  uintptr_t value;
  for (unsigned column = 0; column < COLUMNS; column++)
    if (find_register(w, row, column, cfa, &value))
      set_register(&caller, column, value);
  if (row->rules[SP_COLUMN] == RULE_SAME_VALUE)
    set_register(&caller, SP_COLUMN, cfa);
  return caller;
}

static bool take_row(walk_t *w, const row_t *row)
{
  uintptr_t cfa, sp = w->registers.values[SP_COLUMN];
  bool is_same = row->rules[RETURN_COLUMN] == RULE_SAME_VALUE;
  if (is_same && (!RETURNS_BY_REGISTER || w->is_return))
    return false;
  if (!RETURNS_BY_REGISTER)
    set_register(&w->registers, RETURN_COLUMN, w->pc);
  if (!find_cfa(w, row, &cfa) || (!row->is_signal && cfa < sp + !is_same))
    return false;
  w->registers = registers_of_caller(w, row, cfa);
  if (!is_known(&w->registers, RETURN_COLUMN) || !is_known(&w->registers, SP_COLUMN))
    return false;
  w->pc = without_signature(w->registers.values[RETURN_COLUMN]);
  w->is_return = !row->is_signal;
  return true;
}

/* ---- signals without tables in the C library or the kernel ---- */

static bool is_at_sigreturn(uintptr_t pc)
{
  uintptr_t start = round_down(pc, WORD), words[3];
  seen_t seen = {0, 0};
  for (size_t i = 0; start + i * WORD < pc + sizeof sigreturn_code; i++)
    if (!seen_read(&seen, start + i * WORD, &words[i]))
      return false;
  return !memcmp((const char *)words + (pc - start), sigreturn_code, sizeof sigreturn_code);
}

static bool take_signal(walk_t *w)
{
  uintptr_t context = w->registers.values[SP_COLUMN] + CONTEXT_AT, value;
  if (!is_at_sigreturn(w->pc) || !read_stack(w, context + place_of_pc(), &w->pc))
    return false;
  for (unsigned column = 0; column < COLUMNS; column++)
    if (read_stack(w, context + place_in_context(column), &value))
      set_register(&w->registers, column, value);
    else
      return false;
  w->is_return = false;
  return true;
}

/* ---- the walk ---- */

static inline uintptr_t code_place(const walk_t *w) { return w->pc - w->is_return; }

static inline bool enter_module(walk_t *w)
{
  uintptr_t place = code_place(w);
  if (likely(place >= w->module.start && place < w->module.end))
    return true;
  module_t left = w->module;
  w->module = w->before;
  w->before = left;
  return (place >= w->module.start && place < w->module.end) || module_find(place, &w->module);
}

NOINLINE static bool step_by_row(walk_t *w, uint64_t mixed_place)
{
  row_t row;
  step_t step;
  if (!table_find_row(&w->module, code_place(w), &row))
    return take_signal(w);
  if (w->by_rows || !make_step(&row, &step))
    return take_row(w, &row);
  keep_step(mixed_place, step);
  return take_step(w, step);
}

/* Returns false if this is the last frame to store. */
static inline bool add_frame(walk_t *w, const void *from, os_stack_t *stack)
{
  if (stack->count || (const void *)w->pc == from)
    stack->frames[stack->count++] = (const void *)w->pc;
  return stack->count < stack->most;
}

#ifdef __aarch64__
static const uint8_t pops_frame[] = {0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6}; /* ldp x29, x30, [sp], 16; ret */
static const uint8_t skips_word[] = {0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6};
#else
static const uint8_t pops_frame[] = {0x5d, 0xc3};                   /* pop %rbp; ret */
static const uint8_t skips_word[] = {0x48, 0x83, 0xc4, 0x08, 0xc3}; /* add $8, %rsp; ret */
#endif

/* CPython calls its evaluator from code that it generates, one piece for each function, so that perf(1) can name it. No module
 * has a table for that code. But it is enough to recognize that it only pops two words after the call. */
static bool take_trampoline(walk_t *w, const void *from, os_stack_t *stack)
{
  uintptr_t start = round_down(w->pc, WORD), words[2], sp = w->registers.values[SP_COLUMN], fp, pc;
  if (!w->is_return || !seen_read(&w->code, start, &words[0]) || !seen_read(&w->code, start + WORD, &words[1]))
    return false;
  const char *code = (const char *)words + (w->pc - start);
  size_t known = sizeof words - (w->pc - start);
  bool pops = known >= sizeof pops_frame && !memcmp(code, pops_frame, sizeof pops_frame);
  bool skips = known >= sizeof skips_word && !memcmp(code, skips_word, sizeof skips_word);
  if ((!pops && !skips) || !read_stack(w, sp, &fp) || !read_stack(w, sp + WORD, &pc) || !add_frame(w, from, stack))
    return false;
  w->registers.known &= BIT(SP_COLUMN) | BIT(FP_COLUMN);
  w->registers.values[SP_COLUMN] = sp + 2 * WORD;
  if (pops)
    set_register(&w->registers, FP_COLUMN, fp);
  w->pc = without_signature(pc);
  return true;
}

static inline bool step_out(walk_t *w)
{
  uint64_t mixed_place = mix_place(w, code_place(w));
  step_t step = w->by_rows ? (step_t){.kind = STEP_IS_NONE} : find_step(mixed_place);
  return likely(step.kind) ? take_step(w, step) : step_by_row(w, mixed_place);
}

static void walk(walk_t *w, const void *from, unsigned passed_most, os_stack_t *stack)
{
  while ((stack->count || passed_most--) &&
         (likely(enter_module(w)) ? add_frame(w, from, stack) && step_out(w) : take_trampoline(w, from, stack)))
    continue;
}

/* The registers are captured here, so this frame must stay until the walk is over. */
NOINLINE static bool take_all(const void *const *frame, const void *from, unsigned passed_most, os_stack_t *stack, bool by_rows)
{
  walk_t w;
  capture(&w.registers, &w.pc);
  w.is_return = w.lacks_register = false;
  w.by_rows = by_rows;
  w.module.start = w.module.end = w.before.start = w.before.end = 0;
  w.code = (seen_t){0, 0};
  w.seen = seen_around(w.registers.values[SP_COLUMN]);
  if (!by_rows && registers_of_caller_at(&w.registers, frame, from)) {
    w.pc = (uintptr_t)from;
    w.is_return = true;
  }
  stack->count = 0;
  walk(&w, from, passed_most, stack);
  return !w.lacks_register;
}

void walk_take(const void *const *frame, const void *from, unsigned passed_most, os_stack_t *stack)
{
  if (!seen_is_ready())
    return;
  int saved = errno;
  if (unlikely(!take_all(frame, from, passed_most, stack, false)))
    take_all(frame, from, passed_most, stack, true);
  errno = saved;
}

#endif
