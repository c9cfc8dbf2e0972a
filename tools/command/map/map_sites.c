/* SPDX-License-Identifier: MIT
 *
 * The places at which a process's blocks were allocated, with their names: the stacks are in the memory of the process, and
 * which file is where in /proc. */
#include "command.h"
#include "debug/export_root.h"
#include "map_process.h"
#include "map_read.h"
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- modules ---- */

/* The name is the process's, which may see another file by it, or have put something there that a reader would wait for. */
static FILE *open_module(const char *path, uint64_t inode)
{
  struct stat about;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  FILE *opened =
    file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_ino == inode ? fdopen(file, "r") : NULL;
  if (file >= 0 && !opened)
    close(file);
  return opened;
}

/* How far the file's addresses are from where they are mapped, of the part that begins at that offset. False: it has none. */
static bool find_bias(const char *path, uint64_t inode, uint64_t offset, uint64_t start, uint64_t *added)
{
  FILE *file = open_module(path, inode);
  ElfW(Ehdr) head;
  ElfW(Phdr) part;
  bool found = false;
  if (!file)
    return false;
  if (fread(&head, sizeof head, 1, file) == 1 && !memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_phentsize == sizeof part &&
      fseek(file, (long)head.e_phoff, SEEK_SET) == 0)
    for (unsigned i = 0; i < head.e_phnum && !found && fread(&part, sizeof part, 1, file) == 1; i++)
      if (part.p_type == PT_LOAD && offset >= part.p_offset / MEMORY_PAGE * MEMORY_PAGE &&
          offset < part.p_offset + part.p_filesz) {
        *added = start - (part.p_vaddr - part.p_offset + offset);
        found = true;
      }
  fclose(file);
  return found;
}

static void add_module(callers_t *callers, const char *path, uint64_t inode, uint64_t start, uint64_t end, uint64_t offset)
{
  uint64_t added = 0;
  if (*path != '/' || !find_bias(path, inode, offset, start, &added))
    return;
  callers->modules = reallocarray(callers->modules, callers->module_count + 1, sizeof *callers->modules);
  if (!callers->modules)
    command_fail(COMMAND_FAILED, "map: no memory");
  callers->modules[callers->module_count++] =
    (module_t){.start = start, .bytes = end - start, .added = added, .inode = inode, .name = strdup(path)};
}

/* The mappings with code, as long as their lines are whole. */
static void read_modules(callers_t *callers, pid_t pid)
{
  char path[64], *line = NULL;
  size_t room = 0;
  snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
  FILE *maps = fopen(path, "re");
  while (maps && getline(&line, &room, maps) > 0) {
    unsigned long long start, end, offset, inode;
    char rights[8];
    int name = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%llx-%llx %7s %llx %*s %llu %n", &start, &end, rights, &offset, &inode, &name) == 5 && name &&
        rights[2] == 'x')
      add_module(callers, line + name, inode, start, end, offset);
  }
  if (maps)
    fclose(maps);
  free(line);
}

/* ---- stacks ---- */

typedef struct reader {
  memory_t *memory;
  uint64_t chunks;
  uint32_t taken;
  callers_t *callers;
  map_table_t seen; /* the number of a site, and its number in the callers */
} reader_t;

/* The frames of a site, innermost first; 0: there is no such site. */
static uint32_t read_frames(const reader_t *reader, uint32_t site, uint64_t frames[SITE_FRAMES_MOST])
{
  site_record_t record;
  uintptr_t addresses[SITE_FRAMES_MOST];
  uint64_t chunk =
    site && site < reader->taken ? memory_word(reader->memory, reader->chunks + (site >> SITE_CHUNK_LOG2) * sizeof(char *)) : 0;
  uint64_t at = chunk + (uint64_t)(site & ((1u << SITE_CHUNK_LOG2) - 1)) * SITE_UNIT;
  if (!chunk || !memory_read(reader->memory, at, &record, sizeof record) || record.count > SITE_FRAMES_MOST ||
      !memory_read(reader->memory, at + sizeof record, addresses, record.count * sizeof *addresses))
    return 0;
  for (uint32_t i = 0; i < record.count; i++)
    frames[i] = addresses[i];
  return record.count;
}

static uint32_t add_stack(reader_t *reader, uint32_t site)
{
  callers_t *callers = reader->callers;
  uint64_t frames[SITE_FRAMES_MOST];
  uint32_t count = read_frames(reader, site, frames), number = (uint32_t)callers->stack_count;
  if (!count)
    return 0;
  callers->stacks = reallocarray(callers->stacks, number + 1u, sizeof *callers->stacks);
  uint64_t *copied = malloc(count * sizeof *copied);
  if (!callers->stacks || !copied)
    command_fail(COMMAND_FAILED, "map: no memory");
  memcpy(copied, frames, count * sizeof *copied);
  callers->stacks[number] = (call_stack_t){.count = count, .frames = copied, .modules = (uint32_t)callers->module_count};
  callers->stack_count++;
  return number;
}

static uint32_t number_of_site(reader_t *reader, uint32_t site)
{
  uint32_t number = map_table_get(&reader->seen, site);
  if (number == MAP_NONE && site) {
    number = add_stack(reader, site);
    map_table_put(&reader->seen, site, number);
  }
  return site ? number : 0;
}

void map_read_sites(map_t *map, memory_t *memory, const export_root_t *root, pid_t pid, callers_t *callers)
{
  reader_t reader = {.memory = memory, .chunks = root->site_chunks, .callers = callers};
  struct timespec now;
  memory_read(memory, root->sites_taken, &reader.taken, sizeof reader.taken);
  reader.taken = reader.taken < SITES_END ? reader.taken : SITES_END;
  read_modules(callers, pid);
  callers->stacks = calloc(1, sizeof *callers->stacks); /* 0 is no site */
  if (!callers->stacks)
    command_fail(COMMAND_FAILED, "map: no memory");
  callers->stack_count = 1;
  for (size_t i = 0; i < map->block_count; i++)
    map->blocks[i].site = number_of_site(&reader, map->blocks[i].site);
  map_table_free(&reader.seen);
  clock_gettime(CLOCK_REALTIME, &now);
  callers_name(callers, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec, "map");
}
