/* SPDX-License-Identifier: MIT
 * libevent on a heap: a loop with timers and a pair of bufferevents runs to its end, libevent_global_shutdown() leaves nothing,
 * and exhaustion is NULL or -1. */
#include "trials.h"
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/thread.h>
#include <sys/socket.h>
#include <tidepool/libevent.h>

enum { TIMERS = 50, SIZE = 100000 };

typedef struct session {
  unsigned fired;
  size_t got;
  bool ended;
  struct event_base *base;
} session_t;

static void fire(evutil_socket_t none, short what, void *session)
{
  (void)none, (void)what;
  ((session_t *)session)->fired++;
}

static void got_bytes(struct bufferevent *in, void *argument)
{
  session_t *session = argument;
  struct evbuffer *input = bufferevent_get_input(in);
  session->got += evbuffer_get_length(input);
  evbuffer_drain(input, evbuffer_get_length(input));
  if (session->got == SIZE)
    event_base_loopexit(session->base, NULL);
}

/* The other end is closed when writing has failed, or a read has. */
static void ended(struct bufferevent *in, short what, void *argument)
{
  (void)in, (void)what;
  session_t *session = argument;
  session->ended = true;
  event_base_loopbreak(session->base);
}

static bool start(session_t *session, struct event **timers, struct bufferevent *in, struct bufferevent *out)
{
  static char data[SIZE];
  if (!in || !out)
    return false;
  for (size_t i = 0; i < TIMERS; i++) {
    struct timeval soon = {0, (long)(i % 3)};
    timers[i] = evtimer_new(session->base, fire, session);
    if (!timers[i] || evtimer_add(timers[i], &soon) != 0)
      return false;
  }
  bufferevent_setcb(in, got_bytes, NULL, ended, session);
  bufferevent_setcb(out, NULL, NULL, ended, session);
  return bufferevent_enable(in, EV_READ) == 0 && bufferevent_enable(out, EV_WRITE) == 0 &&
         bufferevent_write(out, data, SIZE) == 0;
}

static bool run_loop(void)
{
  session_t session = {.base = event_base_new()};
  struct event *timers[TIMERS] = {NULL};
  evutil_socket_t ends[2];
  if (!session.base)
    return false;
  must(pool_in_use(session.base));
  must(evutil_socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  must(evutil_make_socket_nonblocking(ends[0]) == 0 && evutil_make_socket_nonblocking(ends[1]) == 0);
  struct bufferevent *in = bufferevent_socket_new(session.base, ends[0], BEV_OPT_THREADSAFE);
  struct bufferevent *out = bufferevent_socket_new(session.base, ends[1], BEV_OPT_THREADSAFE);
  bool fine = start(&session, timers, in, out);
  while (fine && !session.ended && (session.got < SIZE || session.fired < TIMERS))
    fine = event_base_loop(session.base, EVLOOP_ONCE) >= 0;
  if (in)
    bufferevent_free(in);
  if (out)
    bufferevent_free(out);
  for (size_t i = 0; i < TIMERS; i++)
    if (timers[i])
      event_free(timers[i]);
  event_base_free(session.base);
  evutil_closesocket(ends[0]);
  evutil_closesocket(ends[1]);
  return session.got == SIZE && session.fired == TIMERS;
}

static void say_nothing(int severity, const char *text) { (void)severity, (void)text; }

static bool work(pool_heap_t *heap)
{
  pool_libevent_install(heap);
  event_set_log_callback(say_nothing);
  bool done = evthread_use_pthreads() == 0 && run_loop();
  libevent_global_shutdown();
  return done;
}

WORKS_ON_ANY_HEAP(work)
ANY_BUDGET(work)
EACH_REQUEST_FAILS(work)

static void run_in_thread(size_t index, void *unused)
{
  (void)index, (void)unused;
  for (unsigned i = 0; i < 5; i++)
    must(run_loop());
}

static void threads(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with_budget(64 << 20);
  pool_libevent_install(heap);
  must(evthread_use_pthreads() == 0);
  run_threads(4, run_in_thread, NULL);
  libevent_global_shutdown();
  must(stats_of(heap).live_blocks == 0 && check_heap(heap));
  pool_heap_destroy(heap);
}
IN_CHILD(threads)

/* A loop of the first heap goes on and ends there. */
static void a_second_heap(void *unused)
{
  (void)unused;
  pool_heap_t *first = heap_with((pool_heap_options_t){0}), *second = heap_with((pool_heap_options_t){0});
  pool_libevent_install(first);
  must(evthread_use_pthreads() == 0);
  struct event_base *base = event_base_new();
  must(base && stats_of(first).live_blocks > 0);
  pool_libevent_install(second);
  must(run_loop() && event_base_loop(base, EVLOOP_NONBLOCK) >= 0);
  event_base_free(base);
  libevent_global_shutdown();
  must(stats_of(first).live_blocks == 0 && stats_of(second).live_blocks == 0);
}
IN_CHILD(a_second_heap)

static void base_from_before(void *unused)
{
  (void)unused;
  struct event_base *base = event_base_new();
  pool_libevent_install(heap_with((pool_heap_options_t){0}));
  event_base_free(base);
}

static void too_late(void **state)
{
  (void)state;
  aborts_with(base_from_before, NULL, "not a block of any heap");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(works),        cmocka_unit_test(any_budget),         cmocka_unit_test(each_request_fails),
    cmocka_unit_test(threads_test), cmocka_unit_test(a_second_heap_test), cmocka_unit_test(too_late),
  };
  return cmocka_run_group_tests_name("libevent", tests, NULL, NULL);
}
