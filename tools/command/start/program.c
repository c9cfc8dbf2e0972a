/* SPDX-License-Identifier: MIT
 *
 * A file of any contents may be given: each offset and size out of it is only ever handed to pread(), which has no more than
 * there is, and all loops together have a bound that does not depend on it. */
#include "program.h"
#include <elf.h>
#include <endian.h>
#include <fcntl.h>
#include <link.h>
#include <linux/capability.h>
#include <stdint.h>
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
  SEGMENTS_MOST = 256,
  DYNAMIC_MOST = 1 << 12,
  SYMBOLS_MOST = 1 << 20,
  SYMBOLS_AT_ONCE = 128,
  NAMES_MOST = 1 << 26
};

typedef ElfW(Ehdr) header_t;
typedef ElfW(Phdr) segment_t;
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
  return stat(path, &about) == 0 && S_ISREG(about.st_mode) && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

static bool find(char path[PATH_MAX], const char *name)
{
  if (strchr(name, '/'))
    return (size_t)snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && is_program(path);
  const char *folders = getenv("PATH");
  for (const char *folder = folders ? folders : "/bin:/usr/bin"; *name;) {
    size_t length = strcspn(folder, ":");
    bool fits =
      length < PATH_MAX && snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, folder, length ? "/" : "", name) < PATH_MAX;
    if (fits && is_program(path))
      return true;
    if (!folder[length])
      break;
    folder += length + 1;
  }
  return false;
}

/* ---- CPython ---- */

/* Some options of CPython have a word of their own behind them, and two end the options. */
bool program_python_is_isolated(char *const *words)
{
  for (; *words && (*words)[0] == '-' && (*words)[1] && strcmp(*words, "--") != 0; words++) {
    const char *letter = *words + 1;
    bool has_word = !strcmp(*words, "--check-hash-based-pycs");
    for (; *letter && !strchr("WX-cm", *letter); letter++)
      if (*letter == 'E' || *letter == 'I')
        return true;
    if (*letter == 'c' || *letter == 'm')
      return false;
    has_word |= (*letter == 'W' || *letter == 'X') && !letter[1];
    if (has_word && !*++words)
      return false;
  }
  return false;
}

/* python, python3, python3.13 */
static bool is_named_python(const char *path)
{
  static const char name[] = "python";
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *version = base + strlen(name);
  return !strncmp(base, name, strlen(name)) && !version[strspn(version, "0123456789.")];
}

/* ---- scripts ---- */

/* Returns the program that env would run. NULL: its options or variables change more than can be told here. */
static const char *behind_env(char **rest)
{
  char *word;
  while ((word = strtok_r(NULL, " \t", rest)) && (!strcmp(word, "-S") || strchr(word, '=')))
    if (!strncmp(word, "PATH=", 5) || !strncmp(word, "LD_", 3))
      return NULL;
  return word && *word != '-' && !strpbrk(word, "'\"\\$") ? word : NULL;
}

static bool is_isolated_by(char *rest)
{
  enum { WORDS_MOST = 16 };
  char *words[WORDS_MOST + 1] = {NULL};
  for (int i = 0; i < WORDS_MOST && (words[i] = strtok_r(NULL, " \t", &rest)); i++)
    continue;
  return program_python_is_isolated(words);
}

typedef struct interpreter {
  char name[PATH_MAX];
  bool isolates; /* its options would have CPython ignore the environment */
} interpreter_t;

/* Finds what interprets the script that begins with `line`. The kernel looks for it in no path. */
static bool interpreter_of(char *line, interpreter_t *interpreter)
{
  char *rest = NULL, *word = strtok_r(line, " \t", &rest);
  if (!word)
    return false;
  const char *base = strrchr(word, '/'), *found = word, *here = base ? "" : "./";
  if (!strcmp(base ? base + 1 : word, "env")) {
    found = behind_env(&rest);
    here = "";
  }
  interpreter->isolates = found && is_isolated_by(rest);
  return found && (size_t)snprintf(interpreter->name, PATH_MAX, "%s%s", here, found) < PATH_MAX;
}

typedef enum script { SCRIPT_NONE, SCRIPT_KNOWN, SCRIPT_UNKNOWN } script_t;

static script_t read_interpreter(int file, interpreter_t *interpreter)
{
  char line[256] = "";
  ssize_t length = pread(file, line, sizeof line - 1, 0);
  if (length < 2 || line[0] != '#' || line[1] != '!')
    return SCRIPT_NONE;
  line[strcspn(line, "\n")] = '\0';
  return interpreter_of(line + 2, interpreter) ? SCRIPT_KNOWN : SCRIPT_UNKNOWN;
}

/* ---- ELF files ---- */

/* What the loader reads of a program or library: its table of symbols and the names in it, and the libraries that it needs. */
typedef struct tables {
  header_t header;
  bool is_elf, has_loader, has_table;
  bool is_pie;
  uint64_t symbols, names, names_size; /* as addresses; of the names the size */
  uint64_t needed[64];                 /* where in the names */
  size_t needed_count;
  char *text; /* the names; NULL: they could not be read */
} tables_t;

static bool read_segment(int file, const header_t *header, unsigned i, segment_t *segment)
{
  return header->e_phentsize == sizeof *segment &&
         read_at(file, segment, sizeof *segment, header->e_phoff + (uint64_t)i * sizeof *segment);
}

/* Returns where in the file an address is; a number that no file has: nowhere. */
static uint64_t offset_of(int file, const header_t *header, uint64_t address)
{
  segment_t segment;
  for (unsigned i = 0; i < header->e_phnum && i < SEGMENTS_MOST && read_segment(file, header, i, &segment); i++)
    if (segment.p_type == PT_LOAD && address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  return UINT64_MAX;
}

static void note_entry(tables_t *of, const dynamic_t *entry)
{
  switch (entry->d_tag) {
  case DT_SYMTAB:
    of->symbols = entry->d_un.d_ptr;
    break;
  case DT_STRTAB:
    of->names = entry->d_un.d_ptr;
    break;
  case DT_STRSZ:
    of->names_size = entry->d_un.d_val;
    break;
  case DT_FLAGS_1:
    of->is_pie = entry->d_un.d_val & DF_1_PIE;
    break;
  case DT_NEEDED:
    if (of->needed_count < sizeof of->needed / sizeof *of->needed)
      of->needed[of->needed_count++] = entry->d_un.d_val;
    break;
  default:
    break;
  }
}

static void read_table(int file, tables_t *of, const segment_t *segment)
{
  dynamic_t entry;
  of->has_table = true;
  for (unsigned i = 0; i < DYNAMIC_MOST && read_at(file, &entry, sizeof entry, segment->p_offset + i * sizeof entry); i++) {
    if (entry.d_tag == DT_NULL)
      break;
    note_entry(of, &entry);
  }
}

/* Who calls gives of->text back. */
static void read_elf(int file, tables_t *of)
{
  segment_t segment;
  *of = (tables_t){.is_elf = false};
  if (!read_at(file, &of->header, sizeof of->header, 0) || memcmp(of->header.e_ident, ELFMAG, SELFMAG) != 0)
    return;
  of->is_elf = true;
  for (unsigned i = 0; i < of->header.e_phnum && i < SEGMENTS_MOST && read_segment(file, &of->header, i, &segment); i++) {
    of->has_loader |= segment.p_type == PT_INTERP;
    if (segment.p_type == PT_DYNAMIC && !of->has_table)
      read_table(file, of, &segment);
  }
  if (of->names_size && of->names_size <= NAMES_MOST)
    of->text = malloc(of->names_size);
  if (of->text && !read_at(file, of->text, of->names_size, offset_of(file, &of->header, of->names))) {
    free(of->text);
    of->text = NULL;
  }
}

/* The name at a place; NULL: none ends there. */
static const char *name_at(const tables_t *of, uint64_t place)
{
  bool is_there = of->text && place < of->names_size && memchr(of->text + place, '\0', of->names_size - place);
  return is_there ? of->text + place : NULL;
}

/* Returns the name of a library that the file needs and that begins so; NULL: it needs none. */
static const char *needs(const tables_t *of, const char *begin)
{
  for (size_t i = 0; i < of->needed_count; i++) {
    const char *name = name_at(of, of->needed[i]);
    if (name && !strncmp(name, begin, strlen(begin)))
      return name;
  }
  return NULL;
}

/* CPython is one file, or a small one that imports its main function from libpython: of version 3.8 and later, of 3.7, or of
 * 3.6, where Python 2 has a function of that name, too. */
typedef enum symbol_seen {
  SEEN_MALLOC = 1 << 0, /* exported: the program's libraries use it */
  SEEN_BYTES_MAIN = 1 << 1,
  SEEN_UNIX_MAIN = 1 << 2,
  SEEN_MAIN = 1 << 3,
  SEEN_RAW_MALLOC = 1 << 4,
  SEEN_PERF_MAP = 1 << 5,
  SEEN_FREE_THREADED = 1 << 6
} symbol_seen_t;

static const struct {
  const char *name;
  symbol_seen_t seen;
} symbols_sought[] = {
  {"malloc", SEEN_MALLOC},
  {"Py_BytesMain", SEEN_BYTES_MAIN},
  {"_Py_UnixMain", SEEN_UNIX_MAIN},
  {"Py_Main", SEEN_MAIN},
  {"PyMem_RawMalloc", SEEN_RAW_MALLOC},
  {"PyUnstable_PerfMapState_Init", SEEN_PERF_MAP},
  {"_Py_MergeZeroLocalRefcount", SEEN_FREE_THREADED},
};

static unsigned seen_of(const char *name, bool is_exported)
{
  for (size_t i = 0; i < sizeof symbols_sought / sizeof *symbols_sought; i++)
    if (!strcmp(name, symbols_sought[i].name))
      return is_exported || symbols_sought[i].seen != SEEN_MALLOC ? symbols_sought[i].seen : 0u;
  return 0;
}

static unsigned seen_in(const tables_t *of, const symbol_t *symbols, size_t count)
{
  unsigned seen = 0;
  for (size_t i = 0; i < count; i++) {
    const char *name = name_at(of, symbols[i].st_name);
    if (name && ELF64_ST_BIND(symbols[i].st_info) != STB_LOCAL)
      seen |= seen_of(name, symbols[i].st_shndx != SHN_UNDEF);
  }
  return seen;
}

/* All linkers put the names behind the symbols, which have no count of their own. */
static unsigned find_symbols(int file, const tables_t *of)
{
  unsigned seen = 0;
  uint64_t from = offset_of(file, &of->header, of->symbols);
  uint64_t count = of->names > of->symbols ? (of->names - of->symbols) / sizeof(symbol_t) : 0;
  for (uint64_t at = 0; of->text && from != UINT64_MAX && at < count && at < SYMBOLS_MOST; at += SYMBOLS_AT_ONCE) {
    symbol_t symbols[SYMBOLS_AT_ONCE];
    size_t many = count - at < SYMBOLS_AT_ONCE ? count - at : SYMBOLS_AT_ONCE;
    if (!read_at(file, symbols, many * sizeof *symbols, from + at * sizeof *symbols))
      break;
    seen |= seen_in(of, symbols, many);
  }
  return seen;
}

/* libpython3.13t.so.1.0 is the library of a free-threaded one. */
static python_t python_of(const tables_t *of, unsigned seen)
{
  char *end = NULL;
  const char *library = needs(of, "libpython3.");
  unsigned long minor = library ? strtoul(library + strlen("libpython3."), &end, 10) : 0;
  if (!(seen & (SEEN_BYTES_MAIN | SEEN_UNIX_MAIN)) && !(seen & SEEN_MAIN && seen & SEEN_RAW_MALLOC))
    return PYTHON_IS_NONE;
  if (seen & SEEN_FREE_THREADED || (end && *end == 't'))
    return PYTHON_FREE_THREADED;
  return seen & SEEN_PERF_MAP || minor >= 12 ? PYTHON_WITH_PERF : PYTHON_BEFORE_3_12;
}

static bool is_for_machine_of(const header_t *header, const header_t *other)
{
  return header->e_ident[EI_CLASS] == other->e_ident[EI_CLASS] && header->e_ident[EI_DATA] == other->e_ident[EI_DATA] &&
         header->e_machine == other->e_machine;
}

/* ---- rights ---- */

/* Whether the file's capabilities would make a process of it that has more than its caller. */
static bool has_capabilities(const char *path, bool may_gain)
{
  struct vfs_ns_cap_data data = {0};
  if (geteuid() == 0 || getxattr(path, "security.capability", &data, sizeof data) < (ssize_t)XATTR_CAPS_SZ_1)
    return false;
  bool is_long = (le32toh(data.magic_etc) & VFS_CAP_REVISION_MASK) != VFS_CAP_REVISION_1;
  bool permits = data.data[0].permitted || (is_long && data.data[1].permitted);
  return le32toh(data.magic_etc) & VFS_CAP_FLAGS_EFFECTIVE || (permits && may_gain);
}

/* The loader looks at no environment where a program has rights that who runs it has not. */
static bool gains_rights(const char *path)
{
  struct stat about;
  struct statvfs mounted;
  if (getuid() != geteuid() || getgid() != getegid())
    return true;
  if (stat(path, &about) != 0 || statvfs(path, &mounted) != 0 || mounted.f_flag & ST_NOSUID)
    return false;
  bool may_gain = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
  bool by_user = about.st_mode & S_ISUID && about.st_uid != geteuid();
  bool by_group = about.st_mode & S_ISGID && about.st_mode & S_IXGRP && about.st_gid != getegid();
  return (may_gain && (by_user || by_group)) || has_capabilities(path, may_gain);
}

/* ---- the answer ---- */

static const char *why_file_keeps(program_t *program, const tables_t *of, unsigned seen, const tables_t *library)
{
  if (!of->is_elf || !library->is_elf)
    return NULL;
  if (!is_for_machine_of(&of->header, &library->header))
    return "is for another kind of processor than the library";
  if (!of->has_loader) /* one that can be loaded anywhere says that it is a program: a loader can be run too, and does not */
    return of->header.e_type == ET_EXEC || of->is_pie ? "is static, so no library can be preloaded" : NULL;
  const char *c_library = needs(of, "libc."), *other = needs(library, "libc.");
  if (c_library && other && strcmp(c_library, other) != 0) {
    program->breaks = true; /* the loader of musl ends a program whose libraries want what it has not */
    snprintf(program->detail, sizeof program->detail, "%s", c_library);
    return "is for another C library than tidepool: ";
  }
  static const char *const sanitizers[] = {"libasan.so", "libtsan.so", "libhwasan.so"};
  for (size_t i = 0; i < sizeof sanitizers / sizeof *sanitizers; i++)
    if (needs(of, sanitizers[i]) && !needs(library, sanitizers[i])) {
      program->breaks = true; /* it ends the program, or is called before it has begun */
      return "was compiled with a sanitizer, which has to come before anything that is preloaded";
    }
  return seen & SEEN_MALLOC ? "has a malloc of its own, which comes first"
                            : NULL; /* names are looked up in the program first */
}

static python_t look_at_file(program_t *program, int file, const char *library)
{
  tables_t of, of_library = {.is_elf = false};
  int descriptor = open(library, O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) {
    read_elf(descriptor, &of_library);
    close(descriptor);
  }
  read_elf(file, &of);
  unsigned seen = find_symbols(file, &of);
  python_t python = python_of(&of, seen);
  program->is_elf = of.is_elf;
  program->keeps = why_file_keeps(program, &of, seen, &of_library);
  free(of.text);
  free(of_library.text);
  return python;
}

static void note_python(program_t *program, python_t python, bool is_interpreter, bool isolates)
{
  if (program->python != PYTHON_IS_NONE)
    return;
  program->python = python;
  program->is_interpreter = is_interpreter;
  program->ignores_environment = is_interpreter && isolates;
}

void program_look(program_t *program, const char *name, const char *library)
{
  interpreter_t next;
  bool isolates = false;
  script_t script = SCRIPT_KNOWN;
  *program = (program_t){.keeps = NULL};
  if ((size_t)snprintf(next.name, sizeof next.name, "%s", name) >= sizeof next.name)
    return;
  for (int i = 0; i < INTERPRETERS_MOST && script == SCRIPT_KNOWN && find(program->path, next.name); i++) {
    int file = open(program->path, O_RDONLY | O_CLOEXEC);
    script = file >= 0 ? read_interpreter(file, &next) : SCRIPT_NONE;
    if (file >= 0 && script == SCRIPT_NONE)
      note_python(program, look_at_file(program, file, library), i > 0, isolates);
    else if (script != SCRIPT_NONE && is_named_python(program->path))
      note_python(program, PYTHON_IS_UNKNOWN, i > 0, isolates);
    isolates = next.isolates;
    program->is_elf = program->is_elf && i == 0;
    if (file >= 0)
      close(file);
    if (script == SCRIPT_NONE && !program->keeps && gains_rights(program->path))
      program->keeps = "runs with the rights of another user or with capabilities, so the loader preloads nothing";
  }
}
