/* SPDX-License-Identifier: MIT
 *
 * A plug-in that allocates in its constructor, in a thread of its own while the loader's lock is held, and through
 * thread-local storage that the loader has to allocate. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

char *plug_in_make_text(const char *text);
void plug_in_free_text(char *text);
size_t plug_in_thread_buffer_size(void);
size_t plug_in_blocks_made(void);

enum { BLOCKS = 100 };
static void *blocks[BLOCKS];
static size_t made;

static __thread char thread_buffer[8000];

static void *allocate(void *unused)
{
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(i * 50);
    if (blocks[i])
      made++;
  }
  return unused;
}

__attribute__((constructor)) static void loaded(void)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, allocate, NULL) == 0)
    pthread_join(thread, NULL);
}

__attribute__((destructor)) static void unloaded(void)
{
  for (size_t i = 0; i < BLOCKS; i++)
    free(blocks[i]);
}

char *plug_in_make_text(const char *text) { return strdup(text); }

void plug_in_free_text(char *text) { free(text); }

size_t plug_in_thread_buffer_size(void)
{
  memset(thread_buffer, 1, sizeof thread_buffer);
  return thread_buffer[sizeof thread_buffer - 1] ? sizeof thread_buffer : 0;
}

size_t plug_in_blocks_made(void) { return made; }
