/* SPDX-License-Identifier: MIT
 *
 * A file of any contents may be given: each offset and size out of it is only ever handed to pread(), which has no more than
 * there is, and each loop over what it counts has a bound of its own. */
#include "program.h"
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
  INTERPRETERS_MOST = 5, /* that the kernel follows, and more than it does through env */
  SYMBOLS_MOST = 1 << 22,
  SYMBOLS_AT_ONCE = 128,
  NAMES_MOST = 1 << 27,
  DYNAMIC_MOST = 1 << 12
};

typedef ElfW(Ehdr) header_t;
typedef ElfW(Phdr) segment_t;
typedef ElfW(Shdr) section_t;
typedef ElfW(Sym) symbol_t;
typedef ElfW(Dyn) dynamic_t;

static bool read_at(int file, void *to, size_t size, uint64_t offset)
{
  return offset <= INT64_MAX && pread(file, to, size, (off_t)offset) == (ssize_t)size;
}

/* ---- where the file is ---- */

static bool is_program(const char *path)
{
  struct stat about;
  return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

static bool find(char path[PATH_MAX], const char *name)
{
  if (strchr(name, '/'))
    return (size_t)snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && is_program(path);
  const char *folders = getenv("PATH");
  for (const char *folder = folders ? folders : "/bin:/usr/bin"; *name;) {
    size_t length = strcspn(folder, ":");
    bool fits = (size_t)snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, folder, length ? "/" : "", name) < PATH_MAX;
    if (length < PATH_MAX && fits && is_program(path))
      return true;
    if (!folder[length])
      break;
    folder += length + 1;
  }
  return false;
}

/* ---- scripts ---- */

/* Puts into `name` what interprets the script that begins with `line`: the first word, or the first one that env would run. */
static bool interpreter_of(char *line, char name[PATH_MAX])
{
  char *rest = NULL, *word = strtok_r(line, " \t", &rest);
  if (!word)
    return false;
  const char *base = strrchr(word, '/');
  if (!strcmp(base ? base + 1 : word, "env"))
    while ((word = strtok_r(NULL, " \t", &rest)) && (*word == '-' || strchr(word, '='))) {}
  return word && (size_t)snprintf(name, PATH_MAX, "%s", word) < PATH_MAX;
}

/* False: the file is no script. */
static bool read_interpreter(int file, char name[PATH_MAX])
{
  char line[256] = "";
  ssize_t length = pread(file, line, sizeof line - 1, 0);
  if (length < 2 || line[0] != '#' || line[1] != '!')
    return false;
  line[strcspn(line, "\n")] = '\0';
  return interpreter_of(line + 2, name);
}

/* ---- programs ---- */

static bool is_segment(int file, const header_t *header, unsigned i, uint32_t type, segment_t *segment)
{
  return header->e_phentsize == sizeof *segment &&
         read_at(file, segment, sizeof *segment, header->e_phoff + (uint64_t)i * sizeof *segment) && segment->p_type == type;
}

static bool find_segment(int file, const header_t *header, uint32_t type, segment_t *segment)
{
  for (unsigned i = 0; i < header->e_phnum; i++)
    if (is_segment(file, header, i, type, segment))
      return true;
  return false;
}

/* The name of the loader, without its folder. False: the program has none. */
static bool read_loader(int file, const header_t *header, char name[64])
{
  segment_t segment;
  char path[PATH_MAX] = "";
  if (!find_segment(file, header, PT_INTERP, &segment))
    return false;
  if (segment.p_filesz >= sizeof path || !read_at(file, path, segment.p_filesz, segment.p_offset))
    return false;
  const char *base = strrchr(path, '/');
  snprintf(name, 64, "%s", base ? base + 1 : path);
  return true;
}

/* A static program that can be loaded anywhere says that it is a program. What does not is a loader, which can be run too. */
static bool says_it_is_a_program(int file, const header_t *header)
{
  segment_t segment;
  dynamic_t entry;
  if (header->e_type == ET_EXEC)
    return true;
  if (!find_segment(file, header, PT_DYNAMIC, &segment))
    return false;
  for (unsigned i = 0; i < DYNAMIC_MOST && read_at(file, &entry, sizeof entry, segment.p_offset + i * sizeof entry); i++) {
    if (entry.d_tag == DT_NULL)
      break;
    if (entry.d_tag == DT_FLAGS_1)
      return entry.d_un.d_val & DF_1_PIE;
  }
  return false;
}

/* The section's bytes in memory of its own; NULL: they are not all there, or too many. */
static char *read_section(int file, const section_t *section)
{
  size_t size = section->sh_size;
  char *bytes = size && size <= NAMES_MOST ? malloc(size) : NULL;
  if (bytes && !read_at(file, bytes, size, section->sh_offset)) {
    free(bytes);
    return NULL;
  }
  return bytes;
}

static bool is_malloc(const symbol_t *symbol, const char *names, size_t size)
{
  static const char name[] = "malloc";
  return symbol->st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL && size >= sizeof name &&
         symbol->st_name <= size - sizeof name && !memcmp(names + symbol->st_name, name, sizeof name);
}

static bool has_malloc(int file, const section_t *section, const char *names, size_t size)
{
  uint64_t count = section->sh_size / sizeof(symbol_t);
  for (uint64_t at = 0; at < count && at < SYMBOLS_MOST; at += SYMBOLS_AT_ONCE) {
    symbol_t symbols[SYMBOLS_AT_ONCE];
    size_t many = count - at < SYMBOLS_AT_ONCE ? count - at : SYMBOLS_AT_ONCE;
    if (!read_at(file, symbols, many * sizeof *symbols, section->sh_offset + at * sizeof *symbols))
      return false;
    for (size_t i = 0; i < many; i++)
      if (is_malloc(&symbols[i], names, size))
        return true;
  }
  return false;
}

/* Names are looked up in the program first, and in what is preloaded after it. */
static bool exports_malloc(int file, const header_t *header)
{
  section_t section, names;
  bool found = false;
  for (unsigned i = 0; i < header->e_shnum && header->e_shentsize == sizeof section && !found; i++) {
    if (!read_at(file, &section, sizeof section, header->e_shoff + (uint64_t)i * sizeof section) ||
        section.sh_type != SHT_DYNSYM ||
        !read_at(file, &names, sizeof names, header->e_shoff + (uint64_t)section.sh_link * sizeof names))
      continue;
    char *bytes = read_section(file, &names);
    found = bytes && has_malloc(file, &section, bytes, names.sh_size);
    free(bytes);
  }
  return found;
}

static bool is_elf(const header_t *header) { return !memcmp(header->e_ident, ELFMAG, SELFMAG); }

static bool is_elf_file(int file)
{
  header_t header;
  return read_at(file, &header, SELFMAG, 0) && is_elf(&header);
}

static bool is_for_machine_of(const header_t *header, const header_t *other)
{
  return header->e_ident[EI_CLASS] == other->e_ident[EI_CLASS] && header->e_ident[EI_DATA] == other->e_ident[EI_DATA] &&
         header->e_machine == other->e_machine;
}

/* The loader looks at no environment where a program has rights that who runs it has not. */
static bool gains_rights(int file)
{
  struct stat about;
  struct statvfs mounted;
  if (fstat(file, &about) != 0 || fstatvfs(file, &mounted) != 0 || mounted.f_flag & ST_NOSUID ||
      prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
    return false;
  bool by_user = about.st_mode & S_ISUID && about.st_uid != geteuid();
  bool by_group = about.st_mode & S_ISGID && about.st_mode & S_IXGRP && about.st_gid != getegid();
  return by_user || by_group || (geteuid() != 0 && fgetxattr(file, "security.capability", NULL, 0) > 0);
}

static const char *why_it_keeps(int file, bool *breaks, char detail[256])
{
  header_t header, own;
  char loader[64] = "", own_loader[64] = "";
  int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  bool known = self >= 0 && read_at(self, &own, sizeof own, 0) && read_loader(self, &own, own_loader);
  if (self >= 0)
    close(self);
  if (!read_at(file, &header, sizeof header, 0) || !is_elf(&header))
    return NULL;
  if (known && !is_for_machine_of(&header, &own))
    return "is for another kind of processor than the library";
  bool has_loader = read_loader(file, &header, loader);
  if (!has_loader)
    return says_it_is_a_program(file, &header) ? "is static, so no library can be preloaded" : NULL;
  if (known && strcmp(loader, own_loader) != 0) {
    *breaks = true; /* the loader of musl ends a program whose libraries want what it has not */
    snprintf(detail, 256, "%s", loader);
    return "is of another C library than this one, and loaded by ";
  }
  if (gains_rights(file))
    return "runs with the rights of another user or with capabilities, so the loader preloads nothing";
  return exports_malloc(file, &header) ? "has a malloc of its own, which comes first" : NULL;
}

void program_look(program_t *program, const char *name)
{
  char next[PATH_MAX];
  *program = (program_t){.keeps = NULL};
  if ((size_t)snprintf(next, sizeof next, "%s", name) >= sizeof next)
    return;
  for (int i = 0; i < INTERPRETERS_MOST && find(program->path, next); i++) {
    int file = open(program->path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
      return;
    bool is_script = read_interpreter(file, next);
    if (!is_script)
      program->keeps = why_it_keeps(file, &program->breaks, program->detail);
    program->is_elf = !is_script && i == 0 && is_elf_file(file);
    close(file);
    if (!is_script)
      return;
  }
}
