/* SPDX-License-Identifier: MIT
 *
 *   mutated_profile ROUNDS PROGRAM
 *
 * Whatever a file holds, it is a profile or is refused with words, and sums of what is read are such that two can be added. Cut
 * off at any length, a profile says nothing that the whole one does not. And whatever a program holds, its symbols are read or
 * not. */
#include "../../tools/command/show/profile.h"
#include "../../tools/command/show/symbols.h"
#include "mutated.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 16, PROGRAM_MOST = 1 << 20 };

static const char *const seeds[] = {
  "heap profile: 31: 25600 [   188: 10100000] @ heap_v2/524288\n"
  "1: 512 [3: 1536] @ 0x401234 0x401300 0x7f0123456789\n"
  "  30:  25088 [  185: 10098464] @ 0x401234\n"
  "0: 0 [0: 0] @ 0x0\n"
  "\nMAPPED_LIBRARIES:\n"
  "00400000-00452000 r-xp 00001000 08:02 173521      /server\n"
  "00652000-00655000 rw-p 00052000 08:02 173521      /server\n"
  "7f0123400000-7f0123500000 r-xp 00000000 fd:01 7 /usr/lib/a library.so (deleted)\n"
  "7ffd1d5d9000-7ffd1d5fa000 rw-p 00000000 00:00 0 [stack]\n"
  "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n",
  "heap_v2/4096\n"
  "  t*: 6: 56637 [9: 70000]\n"
  "  t0: 6: 56637 [9: 70000] main\n"
  "@ 0x55dc44a7bd1d 0x7f63eff99d85\n"
  "  t*: 2: 6688 [4: 9000]\n"
  "  t0: 2: 6688 [4: 9000]\n"
  "@ 0x55dc44a7bd2d\n"
  "  t*: 4: 49949 [5: 61000]\n"
  "  t3: 4: 49949 [5: 61000]\n"
  "\nMAPPED_LIBRARIES:\n"
  "55dc44a70000-55dc44b00000 r-xp 00010000 08:02 173521 /server\n",
  "heap profile: 2: 9 [2: 9] @ heapprofile\n"
  "# heap \"default\"\n"
  "1: 4 [1: 4] @ 0x1\n"
  "# heap \"\\u001b[2J \\\"quoted\\\" \\ufffd\"\n"
  "1: 5 [1: 5] @\n"
  "\nMAPPED_LIBRARIES:\n",
};

static const char *const pieces[] = {"@",
                                     "0x",
                                     "\n",
                                     ": ",
                                     "[",
                                     "]",
                                     "18446744073709551615",
                                     "281474976710656",
                                     "0",
                                     "1",
                                     "ffffffffffffffff",
                                     "-",
                                     " ",
                                     "MAPPED_LIBRARIES:\n",
                                     "r-xp",
                                     "t*: 1: 2 [3: 4]\n",
                                     "heap_v2/1\n",
                                     "\x1b[2J",
                                     "1: 1 [1: 1] @ 0x1\n",
                                     "t9: ",
                                     "# heap \"",
                                     "\\u00",
                                     "\\\"",
                                     "99999999999999"};

static char path[] = "/tmp/tidepool-mutated-XXXXXX";
static int file;
static char text[ROOM];
static size_t length;

/* A file that is emptied first is written to the disk when it is closed, on ext4. */
static void write_file(const void *bytes, size_t count)
{
  if (pwrite(file, bytes, count, 0) != (ssize_t)count || ftruncate(file, (off_t)count) != 0)
    abort();
}

/* ---- what is read ---- */

static bool is_possible(const profile_counts_t *sum)
{
  return sum->blocks <= (uint64_t)1 << 61 && sum->bytes <= (uint64_t)1 << 61;
}

static void check_sums(const profile_t *profile)
{
  profile_counts_t live = {0}, all = {0};
  for (size_t i = 0; i < profile->place_count; i++) {
    const profile_place_t *place = &profile->places[i];
    live = (profile_counts_t){live.blocks + place->live.blocks, live.bytes + place->live.bytes};
    all = (profile_counts_t){all.blocks + place->all.blocks, all.bytes + place->all.bytes};
    expect(is_possible(&place->live) && is_possible(&place->all) && is_possible(&live) && is_possible(&all),
           "a sum is too large");
    for (uint32_t k = 0; k < place->frame_count; k++)
      expect(place->frames[k] || place->frame_count > 1, "a place that is none has an address");
  }
  for (size_t i = 0; i < profile->mapping_count; i++)
    expect(*profile->mappings[i].name && profile->mappings[i].start < profile->mappings[i].end, "a mapping is none");
}

static bool read_file(profile_t *profile)
{
  char why[256] = "", lacks[256] = "";
  bool is_taken = profile_read(profile, path, why);
  expect(is_taken || (*why && strlen(why) < sizeof why), "it was refused without words");
  if (!is_taken)
    return false;
  check_sums(profile);
  expect(profile_begins(text, length), "it does not begin as a profile");
  expect(profile_lacks(profile, lacks) == (*lacks != '\0'), "nothing is said to be missing");
  return true;
}

/* ---- cut off ---- */

static bool is_same(const profile_place_t *a, const profile_place_t *b)
{
  return a->live.blocks == b->live.blocks && a->live.bytes == b->live.bytes && a->all.blocks == b->all.blocks &&
         a->all.bytes == b->all.bytes && a->frame_count == b->frame_count &&
         !memcmp(a->frames, b->frames, a->frame_count * sizeof *a->frames);
}

/* Between two lines of the mappings nobody sees that there were more. */
static void check_part(const profile_t *whole, const profile_t *part)
{
  bool is_at_line = part->has_mappings && text[length - 1] == '\n';
  expect(part->is_cut_off != is_at_line, "nothing says that it is cut off");
  expect(part->place_count <= whole->place_count && part->mapping_count <= whole->mapping_count, "there is more in a part");
  for (size_t i = 0; i < part->place_count; i++)
    expect(is_same(&whole->places[i], &part->places[i]), "a part has another place");
  for (size_t i = 0; i < part->mapping_count; i++)
    expect(!strcmp(whole->mappings[i].name, part->mappings[i].name), "a part has another name");
  expect(!part->bad_lines, "a part has a bad line");
}

static void cut_at_each_length(const char *seed)
{
  profile_t whole, part;
  length = strlen(seed);
  memcpy(text, seed, length);
  write_file(seed, length);
  expect(read_file(&whole) && !whole.bad_lines && !whole.is_cut_off && whole.place_count >= 2, "the good one is not read");
  expect(whole.is_jemallocs || (whole.said_live.blocks == whole.live.blocks && whole.said_live.bytes == whole.live.bytes),
         "its sums are wrong");
  while (length--) {
    write_file(seed, length);
    if (!read_file(&part))
      continue;
    check_part(&whole, &part);
    profile_free(&part);
  }
  profile_free(&whole);
}

/* ---- changes ---- */

static void put_in(size_t at, const char *piece, size_t count)
{
  if (length + count > sizeof text)
    return;
  memmove(text + at + count, text + at, length - at);
  memcpy(text + at, piece, count);
  length += count;
}

/* What stands elsewhere in it already. */
static void put_in_again(size_t at, size_t count)
{
  char again[20];
  memcpy(again, text + any() % (length + 1 - count), count);
  put_in(at, again, count);
}

static void change(void)
{
  size_t at = any() % (length + 1), left = length - at, gone = any() % (left < 20 ? left + 1 : 20);
  const char *piece = pieces[any() % (sizeof pieces / sizeof *pieces)];
  switch (any() % 4) {
  case 0:
    memmove(text + at, text + at + gone, left - gone);
    length -= gone;
    return;
  case 1:
    if (left)
      text[at] = (char)any();
    return;
  case 2:
    put_in_again(at, gone);
    return;
  default:
    put_in(at, piece, strlen(piece));
  }
}

/* Seldom a line is longer than any in a profile. */
static bool mutate(void)
{
  static char digits[10000];
  const char *seed = seeds[any() % (sizeof seeds / sizeof *seeds)];
  length = strlen(seed);
  memcpy(text, seed, length);
  for (uint64_t changes = 1 + any() % 4; changes > 0; changes--)
    change();
  memset(digits, '1', sizeof digits);
  if (any() % 64 == 0)
    put_in(any() % (length + 1), digits, sizeof digits);
  write_file(text, length);
  profile_t profile;
  if (!read_file(&profile))
    return false;
  profile_free(&profile);
  return true;
}

/* ---- programs ---- */

static char program[PROGRAM_MOST];

/* In its head, where the tables are said to be, or anywhere. */
static void change_program(size_t size)
{
  size_t at = any() % (any() % 2 ? 1024 : size);
  for (uint64_t changes = 1 + any() % 8; changes > 0; changes--, at++)
    if (pwrite(file, &(uint8_t){(uint8_t)any()}, 1, (off_t)(at % size)) != 1)
      abort();
  if (any() % 16 == 0 && ftruncate(file, (off_t)(any() % size)) != 0)
    abort();
}

static void read_symbols(void)
{
  uint64_t address;
  symbols_t *symbols = symbols_open(path);
  for (int i = 0; symbols && i < 20; i++)
    symbols_cover(symbols, i < 10 ? any() % 65536 : any());
  for (int i = 0; i < 4; i++)
    symbols_address(path, i < 2 ? any() % 65536 : any(), &address);
  symbols_close(symbols);
}

static void mutate_programs(const char *name, uint64_t rounds)
{
  int from = open(name, O_RDONLY);
  ssize_t size = from >= 0 ? read(from, program, sizeof program) : -1;
  if (size < 1024)
    abort();
  close(from);
  for (uint64_t i = 0; i < rounds; i++) {
    write_file(program, (size_t)size);
    change_program((size_t)size);
    read_symbols();
  }
}

int main(int argc, char **argv)
{
  uint64_t rounds = argc == 3 ? strtoull(argv[1], NULL, 10) : 0, taken = 0;
  file = mkstemp(path);
  if (file < 0 || argc != 3)
    return 2;
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
    cut_at_each_length(seeds[i]);
  for (uint64_t i = 0; i < rounds; i++)
    taken += mutate();
  mutate_programs(argv[2], rounds / 10);
  unlink(path);
  printf("%llu of %llu were profiles\n", (unsigned long long)taken, (unsigned long long)rounds);
  return taken < rounds / 10 || taken == rounds; /* either would tell little */
}
