/* SPDX-License-Identifier: MIT
 *
 *   recorded_hard WHAT
 *
 * Programs that are fine, and that a recorder could well bring down: each ends with 0, as long as nobody does. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void use(int count)
{
  for (int i = 0; i < count; i++) {
    void *volatile block = malloc(100);
    free(block);
  }
}

static void close_all(void)
{
  for (int file = 3; file < 1024; file++)
    close(file);
}

/* ---- a handler that forks, which is allowed, in the middle of a call ---- */

enum { FORKS = 200 };
static atomic_int forks, bad;
static volatile sig_atomic_t may_fork; /* once between two of the program's rounds: a fork may take longer than the timer */

static void fork_in_handler(int number)
{
  (void)number;
  if (!may_fork)
    return;
  may_fork = 0;
  pid_t child = fork();
  if (child == 0)
    return; /* and goes on with what was interrupted */
  int status = 0;
  while (waitpid(child, &status, 0) != child)
    continue;
  if (atomic_fetch_add(&forks, 1) + 1 >= FORKS) /* the next one may be due already */
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
  if (status)
    atomic_fetch_add(&bad, 1);
}

static int fork_in_handlers(void)
{
  pid_t self = getpid();
  struct itimerval often = {{0, 500}, {0, 500}};
  signal(SIGALRM, fork_in_handler);
  setitimer(ITIMER_REAL, &often, NULL);
  while (atomic_load(&forks) < FORKS) {
    may_fork = 1;
    use(100);
    if (getpid() != self) { /* which has no timer */
      use(2000);
      _exit(0);
    }
  }
  return atomic_load(&bad) != 0;
}

/* ---- a lock that is taken in a callback of the loader, and around malloc ---- */

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static atomic_int has_table, iterates;

static int look(struct dl_phdr_info *info, size_t size, void *unused)
{
  (void)info, (void)size, (void)unused;
  atomic_store(&iterates, 1);
  pthread_mutex_lock(&table);
  pthread_mutex_unlock(&table);
  return 1;
}

static void *allocate_with_table(void *unused)
{
  pthread_mutex_lock(&table);
  atomic_store(&has_table, 1);
  while (!atomic_load(&iterates))
    usleep(100);
  usleep(20000);
  use(10);
  pthread_mutex_unlock(&table);
  return unused;
}

static int hold_the_loader(void)
{
  pthread_t thread;
  pthread_create(&thread, NULL, allocate_with_table, NULL);
  while (!atomic_load(&has_table))
    usleep(100);
  dl_iterate_phdr(look, NULL);
  return pthread_join(thread, NULL);
}

/* ---- a thread that is cancelled, which no call of malloc is a point for ---- */

static atomic_int is_up, may_go;

static void *allocate_while_cancelled(void *unused)
{
  pthread_mutex_lock(&table);
  atomic_store(&is_up, 1);
  while (!atomic_load(&may_go))
    continue;
  use(100000);
  pthread_mutex_unlock(&table);
  return unused;
}

static int cancel(void)
{
  pthread_t thread;
  pthread_create(&thread, NULL, allocate_while_cancelled, NULL);
  while (!atomic_load(&is_up))
    usleep(100);
  close_all();
  pthread_cancel(thread);
  atomic_store(&may_go, 1);
  pthread_join(thread, NULL);
  pthread_mutex_lock(&table);
  return 0;
}

/* ---- daemons, which close all descriptors and count on the numbers of the next ---- */

static int become_a_daemon(void)
{
  for (int file = 0; file < 1024; file++)
    close(file);
  use(100000);
  int first = open("/dev/null", O_RDWR), second = dup(first), third = dup(first);
  return first != 0 || second != 1 || third != 2;
}

/* Standard error is another file by the time that something could be said. */
static int replace_error(const char *file)
{
  int data = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(data, 2);
  use(300000);
  return write(2, "own", 3) != 3;
}

/* ---- libraries that come in place of others ---- */

static int load_both(const char *first, const char *second)
{
  for (int i = 0; i < 2; i++) {
    void *library = dlopen(i ? second : first, RTLD_NOW);
    void *found = library ? dlsym(library, "allocate") : NULL;
    void (*allocate)(int count);
    if (!found)
      return 1;
    memcpy(&allocate, &found, sizeof allocate);
    allocate(i ? 3 : 100);
    dlclose(library);
  }
  return 0;
}

/* Nothing is unloaded by that. */
static void close_often(void)
{
  for (long i = 0; i < 300000; i++) {
    dlclose(dlopen(NULL, RTLD_NOW));
    use(1);
  }
}

/* A library that another thread used first. */
static void *allocate_once(void *allocate)
{
  void (*call)(int count);
  memcpy(&call, &allocate, sizeof call);
  usleep(1000);
  call(1);
  return NULL;
}

static int use_after_another(const char *plug)
{
  void *library = dlopen(plug, RTLD_NOW), *found = library ? dlsym(library, "allocate") : NULL;
  void (*allocate)(int count);
  pthread_t thread;
  if (!found)
    return 1;
  use(1);
  pthread_create(&thread, NULL, allocate_once, found);
  pthread_join(thread, NULL);
  memcpy(&allocate, &found, sizeof allocate);
  allocate(100);
  return 0;
}

#ifdef OWN_NAMES
/* Its own names lead to those of the C library. */
extern void *__libc_malloc(size_t size), *__libc_calloc(size_t count, size_t size), *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);
void *malloc(size_t size) { return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void free(void *block) { __libc_free(block); }
#endif

int main(int argc, char **argv)
{
  const char *what = argc > 1 ? argv[1] : "";
  alarm(600);
  if (!strcmp(what, "fork"))
    return fork_in_handlers();
  if (!strcmp(what, "loader"))
    return hold_the_loader();
  if (!strcmp(what, "cancel"))
    return cancel();
  if (!strcmp(what, "daemon"))
    return become_a_daemon();
  if (!strcmp(what, "use"))
    use(300000);
  if (!strcmp(what, "error"))
    return replace_error(argv[2]);
  if (!strcmp(what, "closes"))
    close_often();
  if (!strcmp(what, "later"))
    return use_after_another(argv[2]);
  if (!strcmp(what, "load"))
    return load_both(argv[2], argv[3]);
  return 0;
}
