/* SPDX-License-Identifier: MIT
 *
 *   recorded-starts WHAT FILE
 *
 * Recordings that begin and end at bad moments, with the recorder linked. Each ends with 0 if all went well, and says else in
 * which line it did not. FILE has the last recording; what must be live at its end is printed: bytes and blocks. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <tidepool.h>
#include <tidepool/record.h>
#include <unistd.h>

static void expect(bool is_so, int line)
{
  if (is_so)
    return;
  fprintf(stderr, "recorded-starts: line %d: %s\n", line, strerror(errno));
  exit(1);
}
#define EXPECT(condition) expect(condition, __LINE__)

static const char *path;

static int open_file(void)
{
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  EXPECT(file >= 0);
  return file;
}

static void *keep(void *block)
{
  __asm__ volatile("" : "+r"(block) : : "memory"); /* the compiler does not know what becomes of it */
  return block;
}

static void allocate_and_free(void) { free(keep(malloc(10))); }

static void say_live(size_t bytes, size_t blocks) { printf("%zu %zu\n", bytes, blocks); }

/* ---- threads that end ---- */

static pthread_key_t key;
static volatile bool has_begun, goes_on;

/* In the last round of destructors, when the recorder's own has run. */
static void allocate_late(void *value)
{
  uintptr_t round = (uintptr_t)value;
  if (round < 3) {
    pthread_setspecific(key, (void *)(round + 1));
    return;
  }
  while (!goes_on) {
    allocate_and_free();
    has_begun = true;
  }
}

static void *end_late(void *unused)
{
  allocate_and_free();
  pthread_setspecific(key, (void *)1);
  return unused;
}

/* A recording that was stopped does not change any more. */
static void late_destructors(void)
{
  struct stat before, after;
  int file = open_file();
  EXPECT(pthread_key_create(&key, allocate_late) == 0);
  for (int i = 0; i < 40; i++) {
    pthread_t thread;
    has_begun = goes_on = false;
    EXPECT(pool_record_start(file));
    EXPECT(pthread_create(&thread, NULL, end_late, NULL) == 0);
    while (!has_begun)
      sched_yield();
    usleep(100);
    pool_record_stop();
    EXPECT(fstat(file, &before) == 0);
    usleep(500);
    goes_on = true;
    pthread_join(thread, NULL);
    EXPECT(fstat(file, &after) == 0 && after.st_size == before.st_size);
  }
}

static pthread_barrier_t barrier;

/* The C library keeps a text for the thread, and frees it after the destructors of keys. */
static void *have_text_of_error(void *unused)
{
  keep(strerror(99999));
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return unused;
}

static void *allocate_once(void *unused)
{
  allocate_and_free();
  return unused;
}

/* The memory of a thread that has ended is not the recorder's any more. */
static void last_words(void)
{
  enum { STACK = 1 << 20 };
  pthread_t thread;
  pthread_attr_t attributes;
  char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(stack != MAP_FAILED && pthread_attr_init(&attributes) == 0);
  EXPECT(pthread_attr_setstack(&attributes, stack, STACK) == 0 && pthread_barrier_init(&barrier, NULL, 2) == 0);
  EXPECT(pthread_create(&thread, &attributes, have_text_of_error, NULL) == 0);
  pthread_barrier_wait(&barrier);
  EXPECT(pool_record_start(open_file()));
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  memset(stack, 'a', STACK);
  EXPECT(pthread_create(&thread, NULL, allocate_once, NULL) == 0);
  pthread_join(thread, NULL);
  pool_record_stop();
  for (size_t i = 0; i < STACK; i++)
    EXPECT(stack[i] == 'a');
}

static void *begin_threads(void *unused)
{
  while (!goes_on) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocate_once, NULL) == 0)
      pthread_join(thread, NULL);
  }
  return unused;
}

/* Nobody waits for a thread that ends, which waits for nobody. */
static void brief_threads(void)
{
  pthread_t threads[4];
  int file = open_file();
  for (int i = 0; i < 4; i++)
    EXPECT(pthread_create(&threads[i], NULL, begin_threads, NULL) == 0);
  for (int i = 0; i < 300; i++) {
    EXPECT(pool_record_start(file));
    usleep(500);
    pool_record_stop();
  }
  goes_on = true;
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
}

static void *be_cancelled(void *unused)
{
  pthread_cancel(pthread_self());
  pool_record_stop();
  EXPECT(pool_record_start(open_file()));
  pool_record_stop();
  return unused;
}

static void *allocate_on(void *unused)
{
  while (!goes_on)
    allocate_and_free();
  return unused;
}

static void cancellation(void)
{
  pthread_t worker, thread;
  EXPECT(pthread_create(&worker, NULL, allocate_on, NULL) == 0);
  for (int i = 0; i < 30; i++) {
    EXPECT(pool_record_start(open_file()));
    EXPECT(pthread_create(&thread, NULL, be_cancelled, NULL) == 0);
    pthread_join(thread, NULL);
  }
  EXPECT(pool_record_start(open_file()));
  pool_record_stop();
  goes_on = true;
  pthread_join(worker, NULL);
}

/* ---- handlers ---- */

static volatile sig_atomic_t signals, failures;
static int handled_file;

static void start_or_stop(int number)
{
  (void)number;
  int kept = errno;
  if (signals++ % 2)
    pool_record_stop();
  else if (!pool_record_start(handled_file))
    failures += errno != EBUSY;
  errno = kept;
}

/* One that comes in the middle of an event cannot begin another recording; the next one can. */
static void handlers(void)
{
  const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  handled_file = open_file();
  EXPECT(signal(SIGALRM, start_or_stop) != SIG_ERR && setitimer(ITIMER_REAL, &often, NULL) == 0);
  while (signals < 100)
    allocate_and_free();
  EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0 && !failures);
  pool_record_stop();
  EXPECT(pool_record_start(handled_file));
  pool_record_stop();
}

/* ---- files ---- */

/* The parent's file is the parent's, as long as it writes to it; what is open for reading alone stays as it is. */
static void files(void)
{
  char text[8] = "";
  int status, file = open_file();
  EXPECT(pool_record_start(file));
  pid_t child = fork();
  if (!child)
    _exit(pool_record_start(file) || errno != EBUSY);
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  for (int i = 0; i < 20000; i++)
    allocate_and_free();
  pool_record_stop();
  int precious = open_file();
  EXPECT(write(precious, "keep me", 8) == 8);
  int reader = open(path, O_RDONLY);
  EXPECT(!pool_record_start(reader) && errno == EBADF);
  EXPECT(pread(reader, text, 8, 0) == 8 && !strcmp(text, "keep me"));
  errno = 4711;
  EXPECT(pool_record_start(precious) && errno == 4711);
  pool_record_stop();
  EXPECT(errno == 4711);
}

/* What ended by itself is over, and the next one begins afresh. */
static void full(void)
{
  struct rlimit limit = {4 << 16, RLIM_INFINITY};
  int file = open_file();
  EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0 && pool_record_start(file));
  for (int i = 0; i < 100000; i++)
    allocate_and_free();
  limit.rlim_cur = RLIM_INFINITY;
  EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0 && pool_record_start(file));
  for (int i = 0; i < 100; i++)
    EXPECT(keep(malloc(1000)) != NULL);
  pool_record_stop();
  say_live(100000, 100);
}

/* ---- heaps ---- */

/* Where a heap was that is recorded alone, another one is not. */
static void one_heap(void)
{
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "wanted"});
  EXPECT(!pool_record_start_heap(NULL, open_file()) && errno == EINVAL);
  EXPECT(!pool_record_start_object_pool(NULL, open_file()) && errno == EINVAL);
  EXPECT(pool_record_start_heap(heap, open_file()));
  EXPECT(pool_heap_alloc(heap, 100) != NULL);
  pool_heap_destroy(heap);
  pool_heap_t *another = pool_heap_create(&(pool_heap_options_t){.name = "another"});
  EXPECT(another == heap && pool_heap_alloc(another, 200) != NULL && pool_alloc(300) != NULL);
  pool_record_stop();
  EXPECT(pool_record_start(open_file()) && keep(malloc(400)) != NULL); /* all again */
  pool_record_stop();
  say_live(400, 1);
}

static int renewed_file;

static bool begin_anew(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)needed, (void)context;
  pool_record_stop();
  return attempt == 0 && pool_record_start(renewed_file) && pool_heap_set_budget(heap, 64 << 20);
}

/* A call that began before its recording is one of it all the same: what it moved was allocated. */
static void in_the_middle(void)
{
  renewed_file = open_file();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "small", .budget = 1 << 20, .on_exhausted = begin_anew});
  void *block = pool_heap_alloc(heap, 1000);
  EXPECT(pool_record_start(renewed_file) && (block = pool_heap_realloc(heap, block, 8 << 20)) != NULL);
  for (int i = 0; i < 100; i++)
    EXPECT(keep(malloc(50)) != NULL);
  pool_record_stop();
  say_live((8 << 20) + 5000, 101);
}

int main(int count, char **arguments)
{
  static const struct {
    const char *what;
    void (*run)(void);
  } tests[] = {{"late-destructors", late_destructors},
               {"last-words", last_words},
               {"brief-threads", brief_threads},
               {"cancellation", cancellation},
               {"handlers", handlers},
               {"files", files},
               {"full", full},
               {"one-heap", one_heap},
               {"in-the-middle", in_the_middle}};
  alarm(600);
  path = count > 2 ? arguments[2] : "";
  for (size_t i = 0; count > 2 && i < sizeof tests / sizeof *tests; i++)
    if (!strcmp(arguments[1], tests[i].what)) {
      tests[i].run();
      return 0;
    }
  return 2;
}
