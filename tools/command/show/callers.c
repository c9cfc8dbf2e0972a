/* SPDX-License-Identifier: MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "callers.h"
#include "addr2line.h"
#include "command.h"
#include "perf_map.h"
#include "symbols.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *grown(void *array, size_t count, size_t size)
{
  array = reallocarray(array, count, size);
  if (!array)
    command_fail(COMMAND_FAILED, "show: no memory");
  return array;
}

/* ---- what is recorded ---- */

enum { MODULES_MOST = 10000 };

/* It was read before, and nothing has come in its place. */
static bool is_newest(const callers_t *callers, const event_t *event)
{
  for (size_t i = callers->module_count; i--;) {
    const module_t *module = &callers->modules[i];
    if (event->address < module->start + module->bytes && module->start < event->address + event->size)
      return module->start == event->address && module->bytes == event->size && module->added == event->added &&
             !strcmp(module->name, event->name);
  }
  return false;
}

static void add_module(callers_t *callers, const event_t *event)
{
  if (callers->module_count == MODULES_MOST || is_newest(callers, event))
    return;
  callers->modules = grown(callers->modules, callers->module_count + 1, sizeof *callers->modules);
  callers->modules[callers->module_count++] =
    (module_t){.start = event->address, .bytes = event->size, .added = event->added, .name = strdup(event->name)};
}

static void add_stack(callers_t *callers, const event_t *event)
{
  size_t count = event->site + 1u;
  if (event->site > RECORDING_SITES_MOST)
    return;
  if (count > callers->stack_count) {
    callers->stacks = grown(callers->stacks, count, sizeof *callers->stacks);
    memset(callers->stacks + callers->stack_count, 0, (count - callers->stack_count) * sizeof *callers->stacks);
    callers->stack_count = count;
  }
  call_stack_t *stack = &callers->stacks[event->site];
  free(stack->frames);
  stack->count = event->frame_count;
  stack->modules = (uint32_t)callers->module_count;
  stack->frames = grown(NULL, event->frame_count + 1u, sizeof *stack->frames);
  if (event->frame_count)
    memcpy(stack->frames, event->frames, event->frame_count * sizeof *stack->frames);
}

void callers_visit(const event_t *event, void *context)
{
  callers_t *callers = context;
  if (event->op == RECORDING_MODULE)
    add_module(callers, event);
  else
    add_stack(callers, event);
}

/* ---- names ---- */

typedef struct named {
  uint64_t address;
  size_t module; /* module_count: none has it */
  size_t first;  /* of its names among the numbers: the function, in front of it those that are inlined there */
  uint32_t count;
} named_t;

/* Each address once. */
typedef struct addresses {
  named_t *of;
  size_t count;
} addresses_t;

static int by_place(const void *a, const void *b)
{
  const named_t *first = a, *second = b;
  int order = (first->address > second->address) - (first->address < second->address);
  return order ? order : (first->module > second->module) - (first->module < second->module);
}

/* The one that was loaded last, where one was unloaded and another is in its place. */
static size_t module_of(const callers_t *callers, uint64_t address, size_t known)
{
  for (size_t i = known; i--;)
    if (address - callers->modules[i].start < callers->modules[i].bytes)
      return i;
  for (size_t i = known; i < callers->module_count; i++) /* another thread wrote of it, and is read later */
    if (address - callers->modules[i].start < callers->modules[i].bytes)
      return i;
  return callers->module_count;
}

static named_t place_at(const callers_t *callers, const call_stack_t *stack, uint32_t frame)
{
  uint64_t address = stack->frames[frame];
  return (named_t){.address = address, .module = module_of(callers, address - 1, stack->modules)};
}

static addresses_t collect(const callers_t *callers)
{
  size_t all = 0, at = 0;
  for (size_t i = 0; i < callers->stack_count; i++)
    all += callers->stacks[i].count;
  addresses_t addresses = {grown(NULL, all + 1, sizeof *addresses.of), 0};
  for (size_t i = 0; i < callers->stack_count; i++)
    for (uint32_t k = 0; k < callers->stacks[i].count; k++)
      addresses.of[at++] = place_at(callers, &callers->stacks[i], k);
  qsort(addresses.of, all, sizeof *addresses.of, by_place);
  for (size_t i = 0; i < all; i++)
    if (!i || by_place(&addresses.of[i], &addresses.of[i - 1]) != 0)
      addresses.of[addresses.count++] = addresses.of[i];
  return addresses;
}

/* Names are found by a sum of their characters. The numbers are those of the names of each address, one behind the other. */
typedef struct table {
  uint32_t *of; /* numbers of names from 1 on; 0: none */
  size_t size;  /* a power of two, twice as many as there are names, or more */
  uint32_t *numbers;
  size_t number_count, number_room;
} table_t;

static size_t place_of(const callers_t *callers, const table_t *table, const char *name)
{
  uint64_t sum = 0;
  for (const char *c = name; *c; c++)
    sum = (sum ^ (unsigned char)*c) * 0x9e3779b97f4a7c15u;
  size_t at = (size_t)(sum >> 20) & (table->size - 1);
  while (table->of[at] && strcmp(callers->names[table->of[at] - 1], name) != 0)
    at = (at + 1) & (table->size - 1);
  return at;
}

static void table_grow(callers_t *callers, table_t *table)
{
  enum { FIRST = 256 };
  table->size = table->size ? 2 * table->size : FIRST;
  table->of = grown(table->of, table->size, sizeof *table->of);
  memset(table->of, 0, table->size * sizeof *table->of);
  callers->names = grown(callers->names, table->size / 2, sizeof *callers->names);
  for (size_t i = 0; i < callers->name_count; i++)
    table->of[place_of(callers, table, callers->names[i])] = (uint32_t)i + 1;
}

static uint32_t number_of(callers_t *callers, table_t *table, const char *name)
{
  if (2 * callers->name_count >= table->size)
    table_grow(callers, table);
  size_t at = place_of(callers, table, name);
  if (!table->of[at]) {
    callers->names[callers->name_count++] = strdup(name);
    table->of[at] = (uint32_t)callers->name_count;
  }
  return table->of[at] - 1;
}

static void add_number(callers_t *callers, table_t *table, const char *name)
{
  if (table->number_count == table->number_room) {
    table->number_room = 2 * table->number_room + 256;
    table->numbers = grown(table->numbers, table->number_room, sizeof *table->numbers);
  }
  table->numbers[table->number_count++] = number_of(callers, table, name);
}

static const char *base_of(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* What addr2line does not know. A return address is that of the next instruction. */
static void name_by_place(const callers_t *callers, const perf_map_t *map, const named_t *named, char name[512])
{
  if (named->module == callers->module_count) {
    const char *known = perf_map_name(map, named->address - 1);
    if (known)
      snprintf(name, 512, "%s", known);
    else
      snprintf(name, 512, "0x%" PRIx64, named->address);
    return;
  }
  const module_t *module = &callers->modules[named->module];
  snprintf(name, 512, "%.400s+0x%" PRIx64, base_of(module->name), named->address - module->added);
}

/* ---- addr2line ---- */

/* A module may be code that the kernel has put there, which has no file. */
static bool is_file(callers_t *callers, const module_t *module, uint64_t ns)
{
  file_state_t state = symbols_file_state(module->name, module->inode, ns);
  if (state == FILE_CHANGED)
    callers->changed = module->name;
  if (state == FILE_GONE && *module->name == '/')
    callers->gone = module->name;
  return state == FILE_SAME;
}

/* Modules that have an address in a stack; of the others nobody wants to know whether they are still there. */
static bool *find_used(const callers_t *callers, const addresses_t *addresses)
{
  bool *used = grown(NULL, callers->module_count + 1, sizeof *used);
  memset(used, 0, (callers->module_count + 1) * sizeof *used);
  for (size_t i = 0; i < addresses->count; i++)
    used[addresses->of[i].module] = true;
  return used;
}

/* What has a line has a function. Else the name may be that of the last function before it which has one. */
static bool is_known(const symbols_t *symbols, const char *name, const char *line, uint64_t address)
{
  return strcmp(name, "??") != 0 && *name && (*line != '?' || (symbols && symbols_cover(symbols, address)));
}

/* The line is that of a path, a number, and perhaps which of several places that the line was compiled to. */
static void add_line(char **name, size_t *room, const char *line)
{
  const char *file = base_of(line), *colon = strrchr(line, ':');
  size_t length = strlen(*name), digits = colon ? strspn(colon + 1, "0123456789") : 0;
  if (!digits || colon[1] == '0')
    return;
  size_t of_line = (size_t)(colon + 1 + digits - file);
  *room = length + sizeof " at " + of_line;
  *name = grown(*name, *room, 1);
  snprintf(*name + length, *room - length, " at %.*s", (int)of_line, file);
}

/* What is known takes the place of what was made up. */
typedef struct asked {
  callers_t *callers;
  table_t *table;
  const symbols_t *symbols;
  const uint64_t *addresses; /* of the file */
  named_t **named;
  size_t last; /* the number of the address that had a name last */
} asked_t;

static void add_answer(size_t number, const char *function, const char *place, void *context)
{
  asked_t *asked = context;
  named_t *named = asked->named[number];
  size_t room = strlen(function) + 1;
  if (!is_known(asked->symbols, function, place, asked->addresses[number]))
    return;
  char *name = grown(NULL, room, 1);
  memcpy(name, function, room);
  if (asked->callers->with_lines)
    add_line(&name, &room, place);
  if (asked->last != number)
    *named = (named_t){named->address, named->module, asked->table->number_count, 0};
  asked->last = number;
  named->count++;
  add_number(asked->callers, asked->table, name);
  free(name);
}

static void ask_of_module(callers_t *callers, table_t *table, addresses_t *addresses, size_t module)
{
  const module_t *of = &callers->modules[module];
  uint64_t *wanted = grown(NULL, addresses->count + 1, sizeof *wanted);
  named_t **named = grown(NULL, addresses->count + 1, sizeof *named);
  size_t count = 0;
  for (size_t i = 0; i < addresses->count; i++)
    if (addresses->of[i].module == module) {
      wanted[count] = addresses->of[i].address - 1 - of->added;
      named[count++] = &addresses->of[i];
    }
  symbols_t *symbols = symbols_open(of->name);
  asked_t asked = {callers, table, symbols, wanted, named, SIZE_MAX};
  addr2line_t answer = addr2line_ask(of->name, wanted, count, add_answer, &asked);
  callers->no_tool |= answer == ADDR2LINE_IS_NOT_THERE;
  if (answer == ADDR2LINE_SOME)
    callers->unanswered = of->name;
  symbols_close(symbols);
  free(wanted);
  free(named);
}

static bool is_function(const char *name, const char *function)
{
  size_t length = strlen(function);
  return !strncmp(name, function, length) && (!name[length] || !strncmp(name + length, " at ", 4));
}

static bool is_one_of(const char *name, const char *const *functions)
{
  while (*functions && !is_function(name, *functions))
    functions++;
  return *functions != NULL;
}

/* What is before main() and the function of a thread is the C library's, and the same in each stack. */
static void cut_start(const callers_t *callers, call_stack_t *stack)
{
  enum { BEFORE_MAIN_MOST = 4 };
  static const char *const starts[] = {"clone3", "__clone3", "clone", "__clone", NULL}, *const threads[] = {"start_thread",
                                                                                                            NULL};
  static const char *const mains[] = {"_start", "__libc_start_main_impl", "__libc_start_main", "__libc_start_call_main", NULL};
  uint32_t count = stack->count;
  for (uint32_t k = count; k > 1 && count - k <= BEFORE_MAIN_MOST; k--)
    if (is_function(callers->names[stack->names[k - 1]], "main")) {
      stack->count = k;
      return;
    }
  if (count > 2 && is_one_of(callers->names[stack->names[count - 1]], starts) &&
      is_one_of(callers->names[stack->names[count - 2]], threads))
    stack->count = count - 2;
  while (stack->count > 1 && is_one_of(callers->names[stack->names[stack->count - 1]], mains)) /* main() has jumped on */
    stack->count--;
}

/* There are as many names as frames, and those of what is inlined in them. */
static void name_stack(const callers_t *callers, const addresses_t *addresses, const table_t *table, call_stack_t *stack)
{
  uint32_t count = 0;
  stack->names = grown(NULL, 1, sizeof *stack->names);
  for (uint32_t k = 0; k < stack->count; k++) {
    const named_t wanted = place_at(callers, stack, k);
    const named_t *named = bsearch(&wanted, addresses->of, addresses->count, sizeof wanted, by_place);
    stack->names = grown(stack->names, count + named->count, sizeof *stack->names);
    for (uint32_t i = 0; i < named->count; i++)
      stack->names[count++] = table->numbers[named->first + i];
  }
  stack->count = count;
}

static void name_stacks(callers_t *callers, const addresses_t *addresses, const table_t *table)
{
  for (size_t i = 0; i < callers->stack_count; i++) {
    name_stack(callers, addresses, table, &callers->stacks[i]);
    cut_start(callers, &callers->stacks[i]);
  }
}

/* One call may be compiled to several places, and one function's calls in a line are one to who reads it. */
static const callers_t *compared;

static int by_names(const void *a, const void *b)
{
  const call_stack_t *first = &compared->stacks[*(const uint32_t *)a], *second = &compared->stacks[*(const uint32_t *)b];
  if (first->count != second->count)
    return first->count < second->count ? -1 : 1;
  return memcmp(first->names, second->names, first->count * sizeof *first->names);
}

static void find_same(callers_t *callers)
{
  uint32_t *order = grown(NULL, callers->stack_count + 1, sizeof *order);
  callers->same = grown(NULL, callers->stack_count + 1, sizeof *callers->same);
  for (size_t i = 0; i < callers->stack_count; i++)
    order[i] = (uint32_t)i;
  compared = callers;
  qsort(order, callers->stack_count, sizeof *order, by_names);
  for (size_t i = 0; i < callers->stack_count; i++)
    callers->same[order[i]] = i && !by_names(&order[i], &order[i - 1]) ? callers->same[order[i - 1]] : order[i];
  free(order);
}

void callers_name(callers_t *callers, uint64_t ns, const char *command)
{
  addresses_t addresses = collect(callers);
  table_t table = {.size = 0};
  perf_map_t *map = callers->process ? perf_map_open(callers->process, ns) : NULL;
  for (size_t i = 0; i < addresses.count; i++) {
    char name[512];
    name_by_place(callers, map, &addresses.of[i], name);
    addresses.of[i].first = table.number_count;
    addresses.of[i].count = 1;
    add_number(callers, &table, name);
  }
  perf_map_close(map);
  bool *used = find_used(callers, &addresses);
  for (size_t i = 0; i < callers->module_count && !callers->no_tool; i++)
    if (used[i] && is_file(callers, &callers->modules[i], ns))
      ask_of_module(callers, &table, &addresses, i);
  free(used);
  name_stacks(callers, &addresses, &table);
  find_same(callers);
  free(table.of);
  free(table.numbers);
  free(addresses.of);
  if (callers->no_tool)
    command_say("%s: addr2line(1) is not there, so functions have no names", command);
  if (callers->unanswered)
    command_say("%s: addr2line(1) did not answer for all of %s, so some of its functions have no names", command,
                callers->unanswered);
  if (callers->changed)
    command_say("%s: %s has changed since it was recorded, so its functions have no names", command, callers->changed);
  if (callers->gone)
    command_say("%s: %s is not there any more, so its functions have no names", command, callers->gone);
}

void callers_free(callers_t *callers)
{
  for (size_t i = 0; i < callers->module_count; i++)
    free(callers->modules[i].name);
  for (size_t i = 0; i < callers->stack_count; i++) {
    free(callers->stacks[i].frames);
    free(callers->stacks[i].names);
  }
  for (size_t i = 0; i < callers->name_count; i++)
    free(callers->names[i]);
  free(callers->modules);
  free(callers->stacks);
  free(callers->names);
  free(callers->same);
}
