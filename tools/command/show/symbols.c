/* SPDX-License-Identifier: MIT
 *
 * The file is mapped, and no offset in it is believed. */
#include "symbols.h"
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct range {
  uint64_t start, end;
} range_t;

struct symbols {
  range_t *functions; /* by their start */
  size_t count;
};

typedef struct file {
  const char *bytes;
  size_t size;
} file_t;

/* NULL: it is not in the file. */
static const void *part(file_t file, uint64_t offset, uint64_t size)
{
  return offset <= file.size && size <= file.size - offset ? file.bytes + offset : NULL;
}

static bool is_right(const ElfW(Ehdr) * header)
{
  unsigned char class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
  return header && !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_ident[EI_CLASS] == class &&
         header->e_shentsize == sizeof(ElfW(Shdr));
}

/* The section of all symbols, or else of those for the loader. */
static bool find_table(file_t file, ElfW(Shdr) * table)
{
  ElfW(Ehdr) header;
  ElfW(Shdr) section;
  bool found = false;
  const void *at = part(file, 0, sizeof header);
  if (!is_right(at))
    return false;
  memcpy(&header, at, sizeof header);
  for (unsigned i = 0; i < header.e_shnum; i++) {
    at = part(file, header.e_shoff + (uint64_t)i * sizeof section, sizeof section);
    if (!at)
      break;
    memcpy(&section, at, sizeof section);
    if (section.sh_type != SHT_SYMTAB && (found || section.sh_type != SHT_DYNSYM))
      continue;
    *table = section;
    found = true;
    if (section.sh_type == SHT_SYMTAB)
      break;
  }
  return found;
}

static int by_start(const void *a, const void *b)
{
  uint64_t first = ((const range_t *)a)->start, second = ((const range_t *)b)->start;
  return (first > second) - (first < second);
}

/* A function without a size may end anywhere. */
static symbols_t *read_table(file_t file, const ElfW(Shdr) * table)
{
  const char *at = part(file, table->sh_offset, table->sh_size);
  size_t count = at ? table->sh_size / sizeof(ElfW(Sym)) : 0;
  symbols_t *symbols = calloc(1, sizeof *symbols);
  range_t *functions = calloc(count + 1, sizeof *functions);
  if (!symbols || !functions) {
    free(symbols);
    free(functions);
    return NULL;
  }
  symbols->functions = functions;
  for (size_t i = 0; i < count; i++) {
    ElfW(Sym) symbol;
    memcpy(&symbol, at + i * sizeof symbol, sizeof symbol);
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF && symbol.st_size)
      functions[symbols->count++] = (range_t){symbol.st_value, symbol.st_value + symbol.st_size};
  }
  qsort(functions, symbols->count, sizeof *functions, by_start);
  return symbols;
}

/* False: it is empty, or no file. */
static bool map_file(const char *path, file_t *file)
{
  struct stat about;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0)
    return false;
  bool is_file = fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0;
  void *mapped = is_file ? mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
  close(descriptor);
  *file = (file_t){mapped, (size_t)about.st_size};
  return mapped != MAP_FAILED;
}

static void unmap_file(file_t file) { munmap((void *)(uintptr_t)file.bytes, file.size); }

symbols_t *symbols_open(const char *path)
{
  ElfW(Shdr) table = {0};
  file_t file;
  if (!map_file(path, &file))
    return NULL;
  symbols_t *symbols = find_table(file, &table) ? read_table(file, &table) : NULL;
  unmap_file(file);
  return symbols;
}

bool symbols_cover(const symbols_t *symbols, uint64_t address)
{
  size_t from = 0, to = symbols->count;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if (symbols->functions[middle].start <= address)
      from = middle + 1;
    else
      to = middle;
  }
  return from && address < symbols->functions[from - 1].end;
}

void symbols_close(symbols_t *symbols)
{
  if (symbols)
    free(symbols->functions);
  free(symbols);
}

/* ---- the file ---- */

static uint64_t ns_of(struct timespec time) { return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec; }

file_state_t symbols_file_state(const char *path, uint64_t inode, uint64_t ns)
{
  struct stat about;
  if (stat(path, &about) != 0 || !S_ISREG(about.st_mode))
    return FILE_GONE;
  bool is_same = (!inode || about.st_ino == inode) && ns_of(about.st_mtim) <= ns && ns_of(about.st_ctim) <= ns;
  return is_same ? FILE_SAME : FILE_CHANGED;
}

static bool find_segment(file_t file, uint64_t offset, uint64_t *address)
{
  ElfW(Ehdr) header;
  ElfW(Phdr) segment;
  const void *at = part(file, 0, sizeof header);
  if (!is_right(at))
    return false;
  memcpy(&header, at, sizeof header);
  for (unsigned i = 0; i < header.e_phnum; i++) {
    at = part(file, header.e_phoff + (uint64_t)i * sizeof segment, sizeof segment);
    if (!at)
      break;
    memcpy(&segment, at, sizeof segment);
    uint64_t page = offset - segment.p_offset + 0xffff; /* a mapping begins at a page, of up to 64 KiB */
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && page < segment.p_filesz + 0xffff) {
      *address = segment.p_vaddr + (offset - segment.p_offset);
      return true;
    }
  }
  return false;
}

bool symbols_address(const char *path, uint64_t offset, uint64_t *address)
{
  file_t file;
  if (!map_file(path, &file))
    return false;
  bool found = find_segment(file, offset, address);
  unmap_file(file);
  return found;
}
