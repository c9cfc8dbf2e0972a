/* SPDX-License-Identifier: MIT
 *
 * Chunks are mapped, and written to where they are: so nothing is lost with a process that is killed, or becomes another
 * program. The disk's room for a chunk is taken before it is mapped, or a disk that is full would be a signal at some write. */
#include "claim.h"
#include "recorder.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_PARTS = 6 };

static dev_t error_device; /* what standard error is when it begins: the program may have another file by its number later */
static ino_t error_inode;

static char file_path[PATH_MAX];
static int descriptor = -1;
static bool is_open;    /* the program may close the descriptor, and it stays open all the same */
static bool is_parents; /* the file, and the lock */
static dev_t device;
static ino_t inode;
static uint64_t chunks;
static recording_head_t *head;
static uint8_t *coming_head;

/* strerror() may allocate, and older C libraries have no other. */
static const char *text_of(int error)
{
#if __GLIBC_PREREQ(2, 32)
  return strerrordesc_np(error);
#else
  switch (error) {
  case ENOSPC:
    return "No space left on device";
  case EDQUOT:
    return "Disk quota exceeded";
  case EFBIG:
    return "File too large";
  default:
    return "it cannot be written";
  }
#endif
}

/* Where nobody reads any more, that is no signal to the program. The stack may be a coroutine's, of a few kilobytes: no line is
 * put together on it. */
static void write_quietly(const char *const parts[LINE_PARTS])
{
  struct iovec line[LINE_PARTS];
  for (int i = 0; i < LINE_PARTS; i++)
    line[i] = (struct iovec){(void *)(uintptr_t)parts[i], strlen(parts[i])};
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  if (writev(STDERR_FILENO, line, LINE_PARTS) < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
    sigtimedwait(&pipe, NULL, &(struct timespec){0, 0});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void write_line(const char *text, const char *more)
{
  struct stat about;
  if (fstat(STDERR_FILENO, &about) == 0 && about.st_dev == error_device && about.st_ino == error_inode)
    write_quietly((const char *[]){"tidepool: record: ", file_path, ": ", text, more, "\n"});
}

/* The first that fails says it for all. Nothing is said where the program asked, and is told by errno. */
static uint32_t said;
static bool is_quiet;
static int given_up; /* why, as errno has it */

/* Where the recording was stopped meanwhile, what went wrong is that. */
static void give_up(int error)
{
  if (!is_open || __atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
    return;
  *recorder_is_on = 0;
  given_up = error;
  if (head)
    __atomic_store_n(&head->error, (uint32_t)error, __ATOMIC_RELAXED);
  if (!is_quiet)
    write_line(text_of(error), "; the recording ends here");
}

static bool is_file(const struct stat *about) { return about->st_dev == device && about->st_ino == inode; }

static void identify_by(const struct stat *about) { device = about->st_dev, inode = about->st_ino; }

static bool is_the_file(int file)
{
  struct stat about;
  return fstat(file, &about) == 0 && is_file(&about);
}

/* Shells and servers close the first few hundred, and then open what is to have a low number. Where there are no such numbers
 * it stays what it is. If the file is known, another thread may have closed it since, and its number be another file's: EBADF.
 */
static int move_up(int file, bool is_known)
{
  static const int least[] = {700, 200, 60, 20, 10};
  int high = -1, kept = errno;
  for (size_t i = 0; high < 0 && i < sizeof least / sizeof *least; i++)
    high = fcntl(file, F_DUPFD_CLOEXEC, least[i]);
  errno = kept;
  if (high < 0)
    return file;
  if (is_known && !is_the_file(high)) {
    close(high);
    errno = EBADF;
    return -1;
  }
  if (!is_known || is_the_file(file))
    close(file);
  return high;
}

/* One recording at a time writes to a file, of whatever process: another would cut it off below its chunks. The lock is that of
 * what was opened, so a child has it as long as it has the descriptor, or a chunk. */
static bool lock_file(int file)
{
  is_parents = false;
  return claim_take(file);
}

static int open_file(int flags)
{
  int file = open(file_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  return file < 0 ? file : move_up(file, false);
}

/* A number that is another file's by now is that file's to close. EBADF: other threads close and open files meanwhile. */
static int file_of_recording(void)
{
  struct stat about;
  int file = __atomic_load_n(&descriptor, __ATOMIC_RELAXED);
  if (is_the_file(file))
    return file;
  if (lstat(file_path, &about) != 0 || !is_file(&about)) {
    errno = ENOENT;
    return -1;
  }
  file = open(file_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0)
    return -1;
  file = is_the_file(file) ? move_up(file, true) : -1;
  if (file >= 0)
    __atomic_store_n(&descriptor, file, __ATOMIC_RELAXED);
  else
    errno = EBADF;
  return file;
}

/* What is beyond the limit would be a signal. */
static int take_room(int file, uint64_t from)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && from + RECORDING_CHUNK > limit.rlim_cur)
    return EFBIG;
  int error;
  do
    error = posix_fallocate(file, (off_t)from, RECORDING_CHUNK);
  while (error == EINTR);
  return error;
}

/* A mapping keeps the lock of the file, so a child has to know of each. Where one comes is noted before it is there. */
static uint8_t *map_chunk(int file, uint64_t from, uint8_t **coming)
{
  void *place = mmap(NULL, RECORDING_CHUNK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED)
    return NULL;
  __atomic_store_n(coming, place, __ATOMIC_RELEASE);
  if (mmap(place, RECORDING_CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)from) != MAP_FAILED)
    return place;
  int error = errno;
  *coming = NULL;
  munmap(place, RECORDING_CHUNK);
  errno = error;
  return NULL;
}

static uint8_t *map_own(void *place)
{
  int fixed = place ? MAP_FIXED : 0;
  void *chunk = mmap(place, RECORDING_CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  return chunk == MAP_FAILED ? NULL : chunk;
}

/* Another thread may close the descriptor after it was looked at. */
static uint8_t *next_part(uint8_t **coming, int *error)
{
  enum { TRIES = 100 };
  uint64_t from = __atomic_fetch_add(&chunks, 1, __ATOMIC_RELAXED) * RECORDING_CHUNK;
  uint8_t *chunk = NULL;
  *error = EBADF;
  for (int i = 0; i < TRIES && *error == EBADF; i++) {
    int file = file_of_recording();
    *error = file < 0 ? errno : take_room(file, from);
    chunk = *error ? NULL : map_chunk(file, from, coming);
    *error = *error || chunk ? *error : errno;
  }
  return chunk;
}

/* Who is in an event for so long that the recording was stopped meanwhile gets none. Of a child that goes on with its parent's
 * event it is the child's own. */
uint8_t *file_next_chunk(uint8_t **coming)
{
  int error;
  if (!is_open)
    return NULL;
  if (!recorder_is_here())
    return map_own(NULL);
  uint8_t *chunk = next_part(coming, &error);
  if (!chunk)
    give_up(error);
  return chunk;
}

static recording_foot_t *foot_of_head(void) { return (recording_foot_t *)((uintptr_t)head + RECORDING_FOOT_AT); }

/* The process may end between the mark and this, and a chunk without either has nothing in it. */
void file_count_chunk(void)
{
  if (head && recorder_is_here())
    __atomic_fetch_add(&foot_of_head()->begun_chunks, 1, __ATOMIC_RELAXED);
}

/* From here on no child has it, which is not told of it any more. Something stays in its place until then: what is mapped by a
 * child that was told would be taken from it. */
void file_leave_chunk(uint8_t *chunk)
{
  mmap(chunk, RECORDING_CHUNK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void file_give_chunk(uint8_t *chunk) { munmap(chunk, RECORDING_CHUNK); }
void file_replace_chunk(uint8_t *chunk) { map_own(chunk); }

/* The command as the kernel has it, which needs nothing of the C library. */
static void note_command(void)
{
  char *to = (char *)(head + 1), *end = (char *)foot_of_head() - 1;
  int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t length;
  while (file >= 0 && to < end && (length = read(file, to, (size_t)(end - to))) > 0)
    to += length;
  if (file >= 0)
    close(file);
  for (const char *c = (char *)(head + 1); c < to; c++)
    head->words += !*c;
}

/* Another process may have the file of that name mapped, so it is not made shorter, but where it cannot be removed. */
static int make_file(void)
{
  struct stat about;
  if (lstat(file_path, &about) == 0 && !S_ISREG(about.st_mode)) {
    errno = EEXIST;
    return -1;
  }
  if (!claim_remove(file_path))
    return -1;
  int file = open_file(O_CREAT | O_EXCL);
  bool is_new = file >= 0;
  if (!is_new && errno == EEXIST)
    file = open_file(0);
  if (file >= 0 && lock_file(file) && claim_is_at(file, file_path) && (is_new || ftruncate(file, 0) == 0))
    return file;
  if (file >= 0) {
    int error = errno;
    close(file);
    errno = error;
  }
  return -1;
}

/* A mapping keeps what was opened, and so does a descriptor that children have for a moment yet. A thread that comes late may
 * write to the head. */
void file_close(void)
{
  if (head)
    map_own(head);
  if (descriptor >= 0 && is_the_file(descriptor)) {
    if (!is_parents)
      flock(descriptor, LOCK_UN);
    close(descriptor);
  }
  descriptor = -1;
  is_open = false;
}

static void begin_file(void)
{
  struct stat about;
  file_close();
  uint8_t *before = (uint8_t *)head;
  if (before)
    file_leave_chunk(before);
  chunks = said = 0;
  head = NULL;
  if (before)
    file_give_chunk(before);
  descriptor = -1;
  if (fstat(STDERR_FILENO, &about) == 0)
    error_device = about.st_dev, error_inode = about.st_ino;
}

static bool identify(void)
{
  struct stat about;
  if (descriptor < 0 || fstat(descriptor, &about) != 0)
    return false;
  identify_by(&about);
  return is_open = true;
}

static bool begin_head(unsigned frames)
{
  struct timespec now;
  head = (recording_head_t *)(void *)file_next_chunk(&coming_head);
  coming_head = NULL;
  if (!head)
    return false;
  clock_gettime(CLOCK_REALTIME, &now);
  head->version = RECORDING_VERSION;
  head->byte_order = RECORDING_BYTE_ORDER;
  head->pid = (uint32_t)getpid();
  head->frames_most = frames;
  head->started_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
  recording_foot_t *foot = foot_of_head();
  claim_t own = claim_of_process();
  foot->process_began = own.began;
  foot->processes = own.processes;
  foot->clocks = own.clocks;
  foot->began_ns = recorder_began();
  note_command();
  memcpy(head->magic, RECORDING_MAGIC, sizeof head->magic);
  return true;
}

bool file_begin(const char *path, unsigned frames)
{
  begin_file();
  is_quiet = false;
  snprintf(file_path, sizeof file_path, "%s", path);
  descriptor = make_file();
  if (identify())
    return begin_head(frames);
  write_line(text_of(errno), "; nothing is recorded");
  return false;
}

/* It may be open for writing alone, which is too little for a mapping, and have no name any more. */
static bool open_given(int file)
{
  char link[64];
  struct stat about;
  if (fstat(file, &about) != 0)
    return false;
  if (!S_ISREG(about.st_mode) || (fcntl(file, F_GETFL) & O_ACCMODE) == O_RDONLY) {
    errno = S_ISREG(about.st_mode) ? EBADF : EINVAL;
    return false;
  }
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, file_path, sizeof file_path - 1);
  file_path[length > 0 ? length : 0] = '\0';
  identify_by(&about);
  int own = open(link, O_RDWR | O_CLOEXEC);
  descriptor = own < 0 ? own : move_up(own, true);
  return descriptor >= 0 && identify() && lock_file(descriptor) && ftruncate(descriptor, 0) == 0;
}

bool file_begin_at(int file, unsigned frames)
{
  begin_file();
  is_quiet = true;
  if (open_given(file) && begin_head(frames)) {
    is_quiet = false;
    return true;
  }
  int error = said ? given_up : errno;
  file_close();
  errno = error;
  return false;
}

/* The descriptor is a copy of the parent's, with its lock, and the head is the parent's. A child in the middle of an event ends
 * that with what it has. */
void file_go_on_in_child(bool in_event)
{
  said = is_parents = true;
  if (in_event) {
    head = NULL;
    return;
  }
  if (head || coming_head)
    file_give_chunk(head ? (uint8_t *)head : coming_head);
  head = NULL;
  coming_head = NULL;
  file_close();
}

void file_end(void)
{
  if (head && !head->error)
    __atomic_store_n(&head->ended_ns, recorder_now(), __ATOMIC_RELAXED);
}
