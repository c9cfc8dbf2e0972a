/* SPDX-License-Identifier: MIT
 *
 * The list of mappings tells which file is mapped around an address, and that file's symbol table names the function. Neither
 * the loader nor the C library is called: a holder of their locks may wait for the thread that writes the message. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64
#include "base/bits.h"
#include "debug/places.h"
#include "debug/system.h"
#include "os/linux_lines.h"
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static uintptr_t call_before(const void *address) { return round_down((uintptr_t)address, CODE_ALIGNMENT) - 1; }

/* ---- mappings ---- */

typedef struct mapping {
  uintptr_t start, end;
  uint64_t offset; /* of its beginning in the file */
  uint64_t module;
  char path[PATH_SIZE];
} mapping_t;

/* 7f5e0a000000-7f5e0a026000 r-xp 00028000 08:01 1572870    /usr/lib/x86_64-linux-gnu/libc.so.6 */
static bool parse_mapping(const char *line, uintptr_t address, mapping_t *mapping)
{
  line = read_range(line, &mapping->start, &mapping->end);
  if (!line || address < mapping->start || address >= mapping->end)
    return false;
  line = skip_word(skip_word(line));
  mapping->offset = read_hex(&line);
  line = skip_word(line);
  uint64_t device = read_hex(&line); /* major:minor; the major number is enough beside the inode */
  line = skip_word(line);
  mapping->module = device << 48 ^ read_hex(&line);
  line = skip_word(line);
  text_t path = {mapping->path, sizeof mapping->path, 0};
  text_string(&path, line);
  text_finish(&path);
  return true;
}

static bool find_mapping(uintptr_t address, mapping_t *mapping)
{
  char line[LINE_SIZE];
  lines_t lines = {.file = open_file("/proc/self/maps")};
  bool found = false;
  while (lines.file >= 0 && !found && next_line(&lines, line, sizeof line))
    found = parse_mapping(line, address, mapping);
  if (lines.file >= 0)
    close_file(lines.file);
  return found && mapping->path[0] == '/';
}

/* ---- ELF files ---- */

/* An ELF file. It is not trusted: each part is checked to lie within the file. */
typedef struct image {
  const char *start;
  size_t size;
  uint64_t module; /* the module that it belongs to */
} image_t;

static const void *part_of(const image_t *image, uint64_t offset, uint64_t size)
{
  return offset <= image->size && size <= image->size - offset ? image->start + offset : NULL;
}

static bool is_elf(const image_t *image)
{
  const ElfW(Ehdr) *head = part_of(image, 0, sizeof *head);
  return head && !memcmp(head->e_ident, ELFMAG, SELFMAG) &&
         head->e_ident[EI_CLASS] == (sizeof(void *) > 4 ? ELFCLASS64 : ELFCLASS32) && head->e_phentsize == sizeof(ElfW(Phdr)) &&
         (!head->e_shnum || head->e_shentsize == sizeof(ElfW(Shdr)));
}

static void image_close(image_t *image)
{
  if (image->start)
    munmap((void *)(uintptr_t)image->start, image->size);
  *image = (image_t){0};
}

static void image_open(image_t *image, const mapping_t *mapping)
{
  struct stat status;
  int file = open_file(mapping->path);
  *image = (image_t){.module = mapping->module};
  if (file < 0)
    return;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 && (uint64_t)status.st_size <= SIZE_MAX / 4) {
    void *start = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (start != MAP_FAILED) {
      image->start = start;
      image->size = (size_t)status.st_size;
    }
  }
  close_file(file);
  if (image->start && !is_elf(image)) {
    image_close(image);
    image->module = mapping->module;
  }
}

static const ElfW(Shdr) * sections_of(const image_t *image, size_t *count)
{
  const ElfW(Ehdr) *head = part_of(image, 0, sizeof *head);
  *count = head ? head->e_shnum : 0;
  return *count ? part_of(image, head->e_shoff, *count * sizeof(ElfW(Shdr))) : NULL;
}

static bool linked_at(const image_t *image, uint64_t offset, size_t *address)
{
  const ElfW(Ehdr) *head = part_of(image, 0, sizeof *head);
  const ElfW(Phdr) *segment = head ? part_of(image, head->e_phoff, head->e_phnum * sizeof *segment) : NULL;
  for (size_t i = 0; segment && i < head->e_phnum; i++, segment++)
    if (segment->p_type == PT_LOAD && offset >= segment->p_offset && offset - segment->p_offset < segment->p_filesz) {
      *address = (size_t)(offset - segment->p_offset + segment->p_vaddr);
      return true;
    }
  return false;
}

static size_t start_of(const ElfW(Sym) * symbol) { return round_down((size_t)symbol->st_value, CODE_ALIGNMENT); }

static bool is_function_around(const ElfW(Sym) * symbol, size_t address)
{
  unsigned type = symbol->st_info & 15;
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF && address >= start_of(symbol) &&
         address - start_of(symbol) < symbol->st_size;
}

/* Prefers a global name if there are several. */
static const ElfW(Sym) * search_symbols(const image_t *image, const ElfW(Shdr) * table, size_t address)
{
  size_t count = (size_t)(table->sh_size / sizeof(ElfW(Sym)));
  const ElfW(Sym) *symbol = part_of(image, table->sh_offset, table->sh_size), *found = NULL;
  for (size_t i = 0; symbol && i < count; i++, symbol++)
    if (is_function_around(symbol, address) && (!found || symbol->st_info >> 4 == STB_GLOBAL))
      if (!found || found->st_info >> 4 != STB_GLOBAL)
        found = symbol;
  return found;
}

/* Drops the suffix of functions that the compiler derived: f.constprop.0 becomes f. */
static size_t length_of_function(const char *name, size_t most)
{
  size_t length = 0;
  while (length < most && name[length] && (!length || name[length] != '.'))
    length++;
  return length;
}

static void copy_name(char *to, const char *from, size_t most)
{
  text_t text = {to, PLACE_NAME_SIZE, 0};
  for (size_t i = 0; i < most && from[i]; i++)
    text_char(&text, from[i]);
  text_finish(&text);
}

/* The full table includes static functions. Stripped files have only the dynamic one. */
static void find_function(const image_t *image, place_t *place)
{
  size_t count;
  const ElfW(Shdr) *sections = sections_of(image, &count);
  static const unsigned kinds[] = {SHT_SYMTAB, SHT_DYNSYM};
  for (size_t k = 0; sections && k < 2; k++)
    for (size_t i = 0; i < count; i++) {
      const ElfW(Sym) *symbol = sections[i].sh_type == kinds[k] && sections[i].sh_link < count
                                  ? search_symbols(image, &sections[i], place->module_address)
                                  : NULL;
      const ElfW(Shdr) *names = symbol ? &sections[sections[i].sh_link] : NULL;
      const char *name = names && symbol->st_name < names->sh_size ? part_of(image, names->sh_offset, names->sh_size) : NULL;
      if (!name)
        continue;
      name += symbol->st_name;
      copy_name(place->function, name, length_of_function(name, (size_t)(names->sh_size - symbol->st_name)));
      place->offset = place->module_address + 1 - start_of(symbol);
      return;
    }
}

static bool has_section(const image_t *image, const char *wanted)
{
  size_t count, length = strlen(wanted) + 1;
  const ElfW(Ehdr) *head = part_of(image, 0, sizeof *head);
  const ElfW(Shdr) *sections = sections_of(image, &count);
  const ElfW(Shdr) *names = sections && head->e_shstrndx < count ? &sections[head->e_shstrndx] : NULL;
  for (size_t i = 0; names && i < count; i++) {
    const char *name =
      sections[i].sh_name < names->sh_size ? part_of(image, names->sh_offset + sections[i].sh_name, length) : NULL;
    if (name && !memcmp(name, wanted, length))
      return true;
  }
  return false;
}

static const char *last_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* The image is kept for the next place: most are in the same module. */
static void look_up_place(place_t *place, image_t *image)
{
  mapping_t mapping;
  place->offset = place->module_address = 0;
  place->function[0] = place->file[0] = 0;
  place->module = 0;
  place->has_lines = false;
  uintptr_t call = call_before(place->address);
  if (!place->address || !find_mapping(call, &mapping))
    return;
  if (image->module != mapping.module) {
    image_close(image);
    image_open(image, &mapping);
  }
  uint64_t offset = call - mapping.start + mapping.offset;
  copy_name(place->file, last_name(mapping.path), SIZE_MAX);
  place->module = mapping.module;
  place->offset = (size_t)offset + 1;
  if (!image->start || !linked_at(image, offset, &place->module_address))
    return;
  place->offset = place->module_address + 1;
  place->has_lines = has_section(image, ".debug_line") || has_section(image, ".zdebug_line");
  find_function(image, place);
}

void places_find(place_t *places, size_t count)
{
  int saved = errno;
  image_t image = {0};
  for (size_t i = 0; i < count; i++)
    look_up_place(&places[i], &image);
  image_close(&image);
  errno = saved;
}

static void say_hex(text_t *text, size_t number) { text_pointer(text, (const void *)number); }

void place_say(text_t *text, const place_t *place)
{
  if (!place->file[0]) {
    text_pointer(text, place->address);
    return;
  }
  text_string(text, place->function[0] ? place->function : place->file);
  text_char(text, '+');
  say_hex(text, place->offset);
  if (place->function[0]) {
    text_string(text, " (");
    text_string(text, place->file);
    text_char(text, ')');
  }
}

/* ---- source lines ---- */

enum { PLACES_AT_ONCE = 64, HEX_SIZE = 20, TOOL_MS_MOST = 10000 };

/* The tool's environment omits the preloaded manager and its options. */
static char **environment_of_tool(size_t *bytes)
{
  size_t count = 0, kept = 0;
  while (environ && environ[count])
    count++;
  *bytes = round_up((count + 1) * sizeof(char *), os_page_size());
  char **variables = os_map(*bytes, os_page_size());
  for (size_t i = 0; variables && i < count; i++)
    if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 && strncmp(environ[i], "TIDEPOOL_OPTIONS=", 17) != 0)
      variables[kept++] = environ[i];
  return variables;
}

static bool spawn(pid_t *process, char *const *arguments, int output)
{
  posix_spawn_file_actions_t actions;
  size_t bytes;
  char **variables = environment_of_tool(&bytes);
  if (!variables)
    return false;
  bool spawned = posix_spawn_file_actions_init(&actions) == 0;
  if (spawned) {
    spawned = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) == 0 &&
              posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
              posix_spawnp(process, arguments[0], &actions, NULL, arguments, variables) == 0;
    posix_spawn_file_actions_destroy(&actions);
  }
  os_unmap(variables, bytes);
  return spawned;
}

/* As struct pollfd of <poll.h>, and the kernel's timespec. */
typedef struct wait_for {
  int file;
  short events, happened;
} wait_for_t;
typedef struct wait_length {
  long seconds, nanoseconds;
} wait_length_t;

static bool wait_for_output(int file, uint64_t until_ms)
{
  for (;;) {
    uint64_t now = os_now_ms(), left = until_ms > now ? until_ms - now : 0;
    if (!left)
      return false; /* a tool may write endlessly */
    wait_for_t input = {file, 1 /* POLLIN */, 0};
    wait_length_t length = {(long)(left / 1000), (long)(left % 1000) * 1000000};
    long ready = syscall(SYS_ppoll, &input, 1, &length, NULL, 0);
    if (ready > 0)
      return true;
    if (!ready || errno != EINTR)
      return false;
  }
}

/* /home/me/server.c:41 (discriminator 3), or ??:0 if unknown */
static void take_line(place_t *place, const char *line)
{
  const char *name = last_name(line), *colon = strrchr(name, ':');
  if (name[0] == '?' || !colon || colon[1] < '1' || colon[1] > '9')
    return;
  const char *more = strstr(colon, " (");
  copy_name(place->file, name, more ? (size_t)(more - name) : SIZE_MAX);
}

static void read_answers(int file, uint64_t until_ms, place_t **places, size_t count)
{
  char line[LINE_SIZE];
  lines_t lines = {.file = file, .wait = wait_for_output, .until_ms = until_ms};
  for (size_t i = 0; i < count && next_line(&lines, line, sizeof line); i++)
    take_line(places[i], line);
}

static void ask_tool(const char *path, uint64_t until_ms, place_t **places, size_t count)
{
  char hex[PLACES_AT_ONCE][HEX_SIZE];
  char *arguments[PLACES_AT_ONCE + 4] = {(char *)(uintptr_t) "addr2line", (char *)(uintptr_t) "-e", (char *)(uintptr_t)path};
  for (size_t i = 0; i < count; i++) {
    text_t text = {hex[i], HEX_SIZE, 0};
    say_hex(&text, places[i]->module_address);
    text_finish(&text);
    arguments[3 + i] = hex[i];
  }
  int ends[2];
  pid_t process;
  if (pipe2(ends, O_CLOEXEC) != 0)
    return;
  bool spawned = spawn(&process, arguments, ends[1]);
  close_file(ends[1]);
  if (spawned) {
    read_answers(ends[0], until_ms, places, count);
    kill(process, SIGKILL); /* it has ended or takes too long; a handler of the program may have waited for it already */
    while (syscall(SYS_wait4, process, NULL, 0, NULL) < 0 && errno == EINTR)
      continue;
  }
  close_file(ends[0]);
}

/* Handles one module at a time, that of the first remaining place. A set-user-ID program must not trust PATH for the tool. */
void places_find_lines(place_t *places, size_t count)
{
  int saved = errno;
  uint64_t until_ms = os_now_ms() + TOOL_MS_MOST;
  if (os_is_privileged())
    return;
  for (size_t i = 0; i < count && os_now_ms() < until_ms; i++) {
    place_t *same[PLACES_AT_ONCE];
    size_t found = 0;
    mapping_t mapping;
    if (!places[i].has_lines || !find_mapping(call_before(places[i].address), &mapping))
      continue;
    for (size_t j = i; j < count && found < PLACES_AT_ONCE; j++)
      if (places[j].has_lines && places[j].module == places[i].module)
        same[found++] = &places[j];
    for (size_t j = 0; j < found; j++)
      same[j]->has_lines = false;
    ask_tool(mapping.path, until_ms, same, found);
  }
  errno = saved;
}
