/* SPDX-License-Identifier: MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "callers.h"
#include "command.h"
#include "symbols.h"
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

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
  uint32_t name;
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

/* Names are found by a sum of their characters. */
typedef struct table {
  uint32_t *of; /* numbers of names from 1 on; 0: none */
  size_t size;  /* a power of two, more than there can be names */
} table_t;

static uint32_t number_of(callers_t *callers, table_t *table, const char *name)
{
  uint64_t sum = 0;
  for (const char *c = name; *c; c++)
    sum = (sum ^ (unsigned char)*c) * 0x9e3779b97f4a7c15u;
  size_t at = (size_t)(sum >> 20) & (table->size - 1);
  while (table->of[at] && strcmp(callers->names[table->of[at] - 1], name) != 0)
    at = (at + 1) & (table->size - 1);
  if (!table->of[at]) {
    callers->names[callers->name_count++] = strdup(name);
    table->of[at] = (uint32_t)callers->name_count;
  }
  return table->of[at] - 1;
}

static const char *base_of(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* What addr2line does not know. A return address is that of the next instruction. */
static void name_by_place(const callers_t *callers, const named_t *named, char name[512])
{
  if (named->module == callers->module_count) {
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

/* False: it cannot be run. */
static bool run_tool(const char *file, FILE *questions, FILE *answers)
{
  char *const words[] = {(char[]){"addr2line"}, (char[]){"-f"}, (char[]){"-C"}, (char[]){"-e"}, strdup(file), NULL};
  posix_spawn_file_actions_t actions;
  pid_t pid;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(questions), 0);
  posix_spawn_file_actions_adddup2(&actions, fileno(answers), 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1, 0);
  int error = posix_spawnp(&pid, words[0], &actions, NULL, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  free(words[4]);
  return !error && waitpid(pid, NULL, 0) == pid;
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

/* For each address two lines: the function, and where it is. */
static void read_answers(callers_t *callers, table_t *table, addresses_t *addresses, size_t module, FILE *answers)
{
  const module_t *of = &callers->modules[module];
  symbols_t *symbols = symbols_open(of->name);
  char *name = NULL, *line = NULL;
  size_t name_room = 0, line_room = 0;
  rewind(answers);
  for (size_t i = 0; i < addresses->count; i++) {
    if (addresses->of[i].module != module)
      continue;
    if (getline(&name, &name_room, answers) <= 0 || getline(&line, &line_room, answers) <= 0)
      break;
    name[strcspn(name, "\n")] = '\0';
    if (!is_known(symbols, name, line, addresses->of[i].address - 1 - of->added))
      continue;
    if (callers->with_lines)
      add_line(&name, &name_room, line);
    addresses->of[i].name = number_of(callers, table, name);
  }
  free(name);
  free(line);
  symbols_close(symbols);
}

static void ask_of_module(callers_t *callers, table_t *table, addresses_t *addresses, size_t module)
{
  FILE *questions = tmpfile(), *answers = tmpfile();
  size_t count = 0;
  for (size_t i = 0; questions && i < addresses->count; i++)
    if (addresses->of[i].module == module) {
      fprintf(questions, "0x%" PRIx64 "\n", addresses->of[i].address - 1 - callers->modules[module].added);
      count++;
    }
  if (count && answers && fflush(questions) == 0) {
    rewind(questions);
    if (run_tool(callers->modules[module].name, questions, answers))
      read_answers(callers, table, addresses, module, answers);
    else
      callers->no_tool = true;
  }
  if (questions)
    fclose(questions);
  if (answers)
    fclose(answers);
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

static void name_stacks(callers_t *callers, const addresses_t *addresses)
{
  for (size_t i = 0; i < callers->stack_count; i++) {
    call_stack_t *stack = &callers->stacks[i];
    stack->names = grown(NULL, stack->count + 1u, sizeof *stack->names);
    for (uint32_t k = 0; k < stack->count; k++) {
      const named_t wanted = place_at(callers, stack, k);
      const named_t *named = bsearch(&wanted, addresses->of, addresses->count, sizeof wanted, by_place);
      stack->names[k] = named ? named->name : 0;
    }
    cut_start(callers, stack);
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
  table_t table = {.size = 16};
  while (table.size <= 2 * addresses.count)
    table.size *= 2;
  table.of = grown(NULL, table.size, sizeof *table.of);
  memset(table.of, 0, table.size * sizeof *table.of);
  callers->names = grown(NULL, 2 * addresses.count + 1, sizeof *callers->names);
  for (size_t i = 0; i < addresses.count; i++) {
    char name[512];
    name_by_place(callers, &addresses.of[i], name);
    addresses.of[i].name = number_of(callers, &table, name);
  }
  bool *used = find_used(callers, &addresses);
  for (size_t i = 0; i < callers->module_count && !callers->no_tool; i++)
    if (used[i] && is_file(callers, &callers->modules[i], ns))
      ask_of_module(callers, &table, &addresses, i);
  free(used);
  name_stacks(callers, &addresses);
  find_same(callers);
  free(table.of);
  free(addresses.of);
  if (callers->no_tool)
    command_say("%s: addr2line(1) is not there, so functions have no names", command);
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
