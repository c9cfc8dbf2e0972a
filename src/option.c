/* SPDX-License-Identifier: MIT
 * Each option is a line of `table`, with its parser and its help text. Options are constant once the manager has started. */
#include "option.h"
#include "base/text.h"
#include "misuse.h"
#include "os/os.h"
#include <string.h>
#include <tidepool/version.h>

options_t settings = {
  .purge_delay_ms = PURGE_DELAY_DEFAULT_MS, .huge_pages = HUGE_PAGES_AUTO, .cache_bytes = CACHE_BYTES_DEFAULT};
static bool settled;

typedef struct entry {
  const char *key, *values, *meaning;
  bool (*parse)(const char *value);
  bool is_debug; /* only the debug library has it */
} entry_t;

/* Accepts only "0" or "1": accepting "yes" or "true" would invite guesses. */
static bool parse_bool(const char *value, bool *to)
{
  if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
    return false;
  *to = *value == '1';
  return true;
}

/* Accepts "never" or digits below PURGE_NEVER. An empty value is refused as a slip. */
static bool parse_purge_delay(const char *value)
{
  uint64_t ms = 0;
  if (!strcmp(value, "never"))
    ms = PURGE_NEVER;
  else
    for (const char *c = value; *c || c == value; c++) {
      if (*c < '0' || *c > '9')
        return false;
      ms = ms * 10 + (uint64_t)(*c - '0');
      if (ms >= PURGE_NEVER)
        return false;
    }
  settings.purge_delay_ms = (uint32_t)ms;
  return true;
}

/* The names are in the order of option_huge_pages_t. */
static bool parse_huge_pages(const char *value)
{
  static const char *const names[] = {"never", "auto", "always"};
  for (uint8_t i = 0; i < 3; i++)
    if (!strcmp(value, names[i])) {
      settings.huge_pages = i;
      return true;
    }
  return false;
}

/* "exit:FILE" writes to a file. option_read() duplicates standard error, since many programs close theirs before they end. */
static bool parse_stats(const char *value)
{
  static const char with_file[] = "exit:";
  size_t prefix = sizeof with_file - 1;
  bool to_file = !strncmp(value, with_file, prefix) && value[prefix];
  if (strcmp(value, "none") != 0 && strcmp(value, "exit") != 0 && !to_file)
    return false;
  const char *file = to_file ? value + prefix : "";
  if (strlen(file) >= OPTION_PATH_SIZE)
    return false;
  settings.stats_at_exit = *value == 'e';
  memcpy(settings.stats_file, file, strlen(file) + 1);
  return true;
}

/* Parses "0", "1" (the default heap) or "all" (all heaps). */
static bool parse_reach(const char *value, bool *of_one, option_all_t bit)
{
  bool all = !strcmp(value, "all"), is_right = all || parse_bool(value, of_one);
  if (all)
    *of_one = true;
  if (is_right)
    settings.all = (uint8_t)((settings.all & ~(unsigned)bit) | (all ? bit : 0));
  return is_right;
}

static bool parse_checked(const char *value) { return parse_reach(value, &settings.checked, ALL_CHECKED); }
/* Parses a number of addresses, bounded by the size of a recorded stack. */
static bool parse_sites(const char *value)
{
  size_t number = 0, digits = 0;
  for (; value[digits] >= '0' && value[digits] <= '9' && digits < 3; digits++)
    number = number * 10 + (size_t)(value[digits] - '0');
  if (!digits || value[digits] || number > SITES_MOST)
    return false;
  settings.sites = (uint8_t)number;
  return true;
}

/* The names are in the order of the bits of option_leaks_t. */
static bool parse_leaks(const char *value)
{
  static const char *const names[] = {"none", "destroy", "exit", "all"};
  for (uint8_t i = 0; i < 4; i++)
    if (!strcmp(value, names[i])) {
      settings.leaks = i;
      return true;
    }
  return false;
}

static bool parse_abort_on_exhausted(const char *value) { return parse_bool(value, &settings.abort_on_exhausted); }

static bool parse_names(const char *value) { return parse_bool(value, &settings.names); }
static bool parse_deepbind(const char *value) { return parse_bool(value, &settings.deepbind); }
static bool parse_export(const char *value) { return parse_bool(value, &settings.export); }
static bool parse_check_at_exit(const char *value) { return parse_bool(value, &settings.check_at_exit); }
static bool parse_guarded(const char *value) { return parse_reach(value, &settings.guarded, ALL_GUARDED); }

/* Parses a number from `least` to `most`, digits only. An invalid one leaves *to unchanged. */
static bool parse_number(const char *value, uint64_t least, uint64_t most, uint64_t *to)
{
  uint64_t number = 0;
  for (const char *c = value; *c || c == value; c++) {
    if (*c < '0' || *c > '9' || number > most)
      return false;
    number = number * 10 + (uint64_t)(*c - '0');
  }
  if (number < least || number > most)
    return false;
  *to = number;
  return true;
}

static bool parse_background(const char *value)
{
  uint64_t number = settings.background;
  bool is_right = parse_number(value, 0, BACKGROUND_REACHES_ALL, &number);
  settings.background = (uint8_t)number;
  return is_right;
}

static bool parse_cache_bytes(const char *value) { return parse_number(value, 0, CACHE_BYTES_MOST, &settings.cache_bytes); }

static bool parse_guard_sample(const char *value)
{
  uint64_t number = settings.guard_sample;
  bool is_right = parse_number(value, 0, UINT32_MAX, &number);
  settings.guard_sample = (uint32_t)number;
  return is_right;
}

/* Parses a file name, which must not be empty. */
static bool parse_profile(const char *value)
{
  size_t length = strlen(value);
  if (!length || length >= OPTION_PATH_SIZE)
    return false;
  memcpy(settings.profile_file, value, length + 1);
  return true;
}

static bool parse_sample_bytes(const char *value)
{
  return parse_number(value, 1, (uint64_t)1 << SAMPLE_BYTES_LOG2_MOST, &settings.sample_bytes);
}

static bool parse_profile_signal(const char *value)
{
  uint64_t number;
  bool is_right = parse_number(value, 1, SIGNAL_MOST, &number);
  if (is_right)
    settings.profile_signal = (uint8_t)number;
  return is_right;
}

/* The names are in the order of option_blocks_t. */
static bool parse_blocks(const char *value)
{
  static const char *const names[] = {"auto", "own", "malloc"};
  for (uint8_t i = 0; i < 3; i++)
    if (!strcmp(value, names[i])) {
      settings.blocks = i;
      return true;
    }
  return false;
}

static const entry_t table[] = {
  {"purge_delay_ms", "milliseconds, never", "how long to keep idle memory before it is returned to the system (100)",
   parse_purge_delay, false},
  {"cache_bytes", "0 to 1073741824", "bytes that the caches of all threads may hold together (67108864)", parse_cache_bytes,
   false},
  {"huge_pages", "never, auto, always", "request transparent huge pages (auto)", parse_huge_pages, false},
  {"stats", "none, exit, exit:FILE (up to 255 bytes)", "print the figures of all heaps at exit (none)", parse_stats, false},
  {"export", "0, 1", "let tidepool top and report read the figures (0)", parse_export, true},
  {"background", "0, 1, 2", "return memory in a thread; 2: also what sleeping threads cache (0)", parse_background, false},
  {"checked", "0, 1, all", "fill and check every block of the default heap, or of all heaps and object pools (0)",
   parse_checked, true},
  {"leaks", "none, destroy, exit, all", "report blocks that are live when a heap is destroyed, or lost at exit (none)",
   parse_leaks, true},
  {"sites", "0 to 16", "record so many return addresses for each block (0)", parse_sites, true},
  {"check_at_exit", "0, 1", "detect at exit blocks that were freed twice (0)", parse_check_at_exit, false},
  {"guarded", "0, 1, all", "end every block of the default heap, or of all, at an inaccessible page (0)", parse_guarded, true},
  {"guard_sample", "0, a number N", "guard one in N blocks that leave the pools of any heap (0)", parse_guard_sample, true},
  {"blocks", "auto, own, malloc", "take all blocks from malloc, so that tools see them (auto)", parse_blocks, false},
  {"profile", "FILE (up to 255 bytes)", "write a sampled profile of allocations at the peak and at exit (none)", parse_profile,
   true},
  {"sample_bytes", "1 to 2147483648", "one in so many bytes brings its block into the profile (524288)", parse_sample_bytes,
   true},
  {"profile_signal", "1 to 64", "a signal that writes the profile at once (none)", parse_profile_signal, true},
  {"names", "0, 1", "name memory after its heap in /proc/PID/maps (0)", parse_names, false},
  {"deepbind", "0, 1", "keep RTLD_DEEPBIND: plug-ins opened with it free by the C library's free (0)", parse_deepbind, false},
  {"abort_on_exhausted", "0, 1", "end the program where an allocation would return NULL (0)", parse_abort_on_exhausted, false},
};
enum { ENTRIES = sizeof table / sizeof *table };

/* Written line by line from the stack, because the manager is just starting and cannot allocate. */
static void print_help(void)
{
  for (size_t i = 0; i < ENTRIES; i++) {
    char buffer[160];
    text_t line = {buffer, sizeof buffer, 0};
    text_string(&line, table[i].key);
    text_char(&line, '=');
    text_string(&line, table[i].values);
    text_char(&line, ' ');
    do
      text_char(&line, ' ');
    while (line.length < 44);
    text_string(&line, table[i].meaning);
    text_char(&line, '\n');
    os_write_error(buffer, min_size(line.length, sizeof buffer));
  }
}

static void print_version(void)
{
  static const char line[] = "tidepool " TIDEPOOL_VERSION "\n";
  os_write_error(line, sizeof line - 1);
}

static const entry_t *find_entry(const char *key)
{
  const entry_t *entry = table;
  while (entry < table + ENTRIES && strcmp(key, entry->key) != 0)
    entry++;
  return entry < table + ENTRIES ? entry : NULL;
}

/* A value that switches the option off needs nothing. */
bool option_needs_debug(const char *key, const char *value)
{
  const entry_t *entry = find_entry(key);
  return entry && entry->is_debug && strcmp(value, "0") != 0 && strcmp(value, "none") != 0;
}

static bool set(const char *key, const char *value)
{
  const entry_t *entry = find_entry(key);
  return entry && entry->parse(value);
}

/* ---- invalid options ---- */

enum { OPTION_SIZE = OPTION_PATH_SIZE + 32, KEY_SIZE = 32, NEAR_MOST = 3 };

/* Returns Levenshtein's distance: how many letters must be changed, removed or inserted to make one word of the other. */
static size_t distance_of(const char *a, const char *b)
{
  size_t row[KEY_SIZE], length = strlen(b);
  for (size_t j = 0; j <= length; j++)
    row[j] = j;
  for (size_t i = 0; a[i]; i++) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < length; j++) {
      size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = min_size(changed, 1 + min_size(row[j], row[j + 1]));
    }
  }
  return row[length];
}

/* Returns the entry that a misspelt key is likely to mean; NULL if none is similar. */
static const entry_t *nearest_entry(const char *key)
{
  const entry_t *nearest = NULL;
  size_t least = NEAR_MOST + 1;
  for (const entry_t *entry = table; entry < table + ENTRIES; entry++) {
    size_t distance = distance_of(key, entry->key);
    if (distance < least && distance < strlen(entry->key) / 2 + 1) {
      least = distance;
      nearest = entry;
    }
  }
  return nearest;
}

static void say_known(text_t *text, const char *key)
{
  const entry_t *nearest = nearest_entry(key);
  text_string(text, nearest ? OPTION_UNKNOWN ", the nearest is " : OPTION_UNKNOWN "; known are ");
  for (const entry_t *entry = table; !nearest && entry < table + ENTRIES; entry++) {
    text_string(text, entry->key);
    text_string(text, entry + 1 < table + ENTRIES ? ", " : "");
  }
  text_string(text, nearest ? nearest->key : "");
}

static void warn_of(const char *key, const char *value)
{
  char words[ENTRIES * KEY_SIZE]; /* enough for all keys */
  text_t text = {words, sizeof words, 0};
  const entry_t *entry = find_entry(key);
  if (!entry)
    say_known(&text, key);
  else {
    text_string(&text, value ? OPTION_BAD_VALUE : OPTION_NO_VALUE);
    text_string(&text, entry->values);
  }
  text_string(&text, "; ignored");
  text_finish(&text);
  warn(key, words);
}

/* Options are constant once they have been read, because the manager's decisions depend on them. */
bool option_set(const char *key, const char *value) { return !settled && key && value && set(key, value); }

const char *option_known(const char *key, const char **values)
{
  const entry_t *entry = find_entry(key);
  *values = entry ? entry->values : NULL;
  return entry ? entry->key : NULL;
}

const char *option_nearest(const char *key)
{
  const entry_t *nearest = nearest_entry(key);
  return nearest ? nearest->key : NULL;
}

bool option_are_settled(void) { return settled; }

void option_path(char *path, size_t size, const char *name)
{
  text_t text = {path, size, 0};
  for (const char *c = name; *c; c++) {
    char form = c[0] == '%' ? c[1] : 0;
    if (form == 'p')
      text_number(&text, os_process());
    else if (form == 'l')
      text_string(&text, LIBRARY_NAME);
    else
      text_char(&text, *c);
    c += form == 'p' || form == 'l' || form == '%';
  }
  text_finish(&text);
}

/* A constructor calls this before options may be read. A false positive only costs loading an unused library. */
bool option_wants_stacks(void)
{
  static const char key[] = "sites=", profile[] = "profile=";
  const char *text = os_environment("TIDEPOOL_OPTIONS");
  for (; text && *text; text += *text == ',') {
    if (!strncmp(text, key, sizeof key - 1) && (text[sizeof key - 1] > '1' || text[sizeof key] > ','))
      return true;
    if (!strncmp(text, profile, sizeof profile - 1))
      return true;
    text += strcspn(text, ",");
  }
  return settings.sites > 1 || settings.profile_file[0];
}

/* Sets one "key=value" of `length` bytes. An invalid option is reported and skipped: it must not keep a program from running.
 * An empty one, from a trailing comma, is skipped without a report. */
static void read_one(const char *text, size_t length, bool has_debug)
{
  char key[OPTION_SIZE];
  if (length == 0)
    return;
  if (length >= sizeof key) {
    warn("TIDEPOOL_OPTIONS", OPTION_TOO_LONG);
    return;
  }
  memcpy(key, text, length);
  key[length] = 0;
  if (!strcmp(key, "help")) {
    print_help();
    return;
  }
  if (!strcmp(key, "version")) {
    print_version();
    return;
  }
  char *value = strchr(key, '=');
  if (value)
    *value++ = 0;
  if (value && !has_debug && option_needs_debug(key, value))
    warn(key, OPTION_NEEDS_DEBUG);
  else if (!value || !set(key, value))
    warn_of(key, value);
}

/* The environment is read last, so it overrides options that the program has set by option_set(). */
void option_read(bool has_debug)
{
  if (settled)
    return;
  settled = true;
  const char *text = os_environment("TIDEPOOL_OPTIONS");
  while (text && *text) {
    size_t length = strcspn(text, ",");
    read_one(text, length, has_debug);
    text += length + (text[length] == ',');
  }
  if (settings.leaks && !settings.sites)
    settings.sites = 1;
  if (settings.stats_at_exit || settings.leaks || settings.profile_file[0])
    os_keep_error();
}
