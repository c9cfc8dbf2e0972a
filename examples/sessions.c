/* SPDX-License-Identifier: MIT
 * A server that loses memory, and how its heap says where. Each session has a heap block and a buffer; one of the ways in which
 * a session ends forgets the buffer. docs/heaps.md has what the reports mean. Heaps with sites need the debug library, which
 * tidepool run loads for these options (docs/debug_library.md).
 *
 *     cc -g sessions.c $(pkg-config --cflags --libs tidepool) -o sessions
 *     tidepool run -o sites=1 ./sessions          a report while it runs
 *     tidepool run -o leaks=destroy ./sessions    and what is left when the heap ends */
#include <stdio.h>
#include <string.h>
#include <tidepool.h>
#include <unistd.h>

static pool_heap_t *sessions;

typedef struct session {
  char name[32];
  char *buffer;
} session_t;

static session_t *session_open(const char *name)
{
  session_t *session = pool_heap_zalloc(sessions, sizeof *session);
  if (!session)
    return NULL;
  session->buffer = pool_heap_alloc(sessions, 4000);
  snprintf(session->name, sizeof session->name, "%s", name);
  return session;
}

static void session_close(session_t *session)
{
  pool_heap_free(sessions, session->buffer);
  pool_heap_free(sessions, session);
}

/* The peer is gone, so there is nothing to send; but there is something to free. */
static void session_drop(session_t *session) { pool_heap_free(sessions, session); }

int main(void)
{
  sessions = pool_heap_create(&(pool_heap_options_t){.name = "sessions", .flags = POOL_HEAP_SITES});
  if (!sessions)
    return fprintf(stderr, "%s\n", pool_error()), 1;
  for (unsigned i = 0; i < 1000; i++) {
    char name[32];
    snprintf(name, sizeof name, "peer %u", i);
    session_t *session = session_open(name);
    if (!session)
      return 1;
    if (i % 100 == 99)
      session_drop(session);
    else
      session_close(session);
  }
  bool reported = pool_heap_report(sessions, STDOUT_FILENO);
  pool_heap_destroy(sessions);
  return reported ? 0 : 1;
}
