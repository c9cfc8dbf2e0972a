/* SPDX-License-Identifier: MIT
 * libuv on a heap: a loop with timers, pipes, files and work in libuv's threads runs to its end, uv_library_shutdown() leaves
 * nothing, and exhaustion is UV_ENOMEM, or libuv's abort(). */
#include "trials.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <tidepool/uv.h>
#include <unistd.h>

enum { BUFFERS = 20, TIMERS = 50, JOBS = 8 };

typedef struct session {
  uv_loop_t loop;
  uv_timer_t timers[TIMERS];
  uv_work_t jobs[JOBS];
  uv_pipe_t in, out;
  uv_write_t write;
  uv_fs_t open, stat;
  unsigned fired, worked, written;
  size_t got;
  bool refused;
  char buffer[4096];
} session_t;

static void fire(uv_timer_t *timer)
{
  ((session_t *)timer->loop->data)->fired++;
  uv_close((uv_handle_t *)timer, NULL);
}

static void job(uv_work_t *work) { must(work->loop); }

static void job_done(uv_work_t *work, int status)
{
  must(status == 0);
  ((session_t *)work->loop->data)->worked++;
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
  (void)suggested;
  session_t *session = handle->loop->data;
  *buffer = uv_buf_init(session->buffer, sizeof session->buffer);
}

static void got_bytes(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
  (void)buffer;
  session_t *session = stream->loop->data;
  if (count > 0)
    session->got += (size_t)count;
  else if (count < 0)
    uv_close((uv_handle_t *)stream, NULL);
}

static void wrote(uv_write_t *write, int status)
{
  session_t *session = write->handle->loop->data;
  session->written += status == 0;
  uv_close((uv_handle_t *)write->handle, NULL);
}

static void fs_done(uv_fs_t *request)
{
  session_t *session = request->loop->data;
  must(request->result >= 0 || request->result == UV_ENOMEM);
  session->refused |= request->result == UV_ENOMEM;
  if (request == &session->open && request->result >= 0)
    close((int)request->result);
  uv_fs_req_cleanup(request);
}

/* False, and nothing but UV_ENOMEM: no memory. */
static bool is_fine(int status)
{
  must(status >= 0 || status == UV_ENOMEM);
  return status >= 0;
}

static char data[BUFFERS][1000];

static bool start(session_t *session)
{
  int ends[2];
  uv_buf_t buffers[BUFFERS];
  for (size_t i = 0; i < BUFFERS; i++)
    buffers[i] = uv_buf_init(data[i], sizeof data[i]);
  for (size_t i = 0; i < TIMERS; i++)
    if (!is_fine(uv_timer_init(&session->loop, &session->timers[i])) ||
        !is_fine(uv_timer_start(&session->timers[i], fire, i % 3, 0)))
      return false;
  for (size_t i = 0; i < JOBS; i++)
    if (!is_fine(uv_queue_work(&session->loop, &session->jobs[i], job, job_done)))
      return false;
  must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  return is_fine(uv_pipe_init(&session->loop, &session->in, 0)) && is_fine(uv_pipe_init(&session->loop, &session->out, 0)) &&
         is_fine(uv_pipe_open(&session->in, ends[0])) && is_fine(uv_pipe_open(&session->out, ends[1])) &&
         is_fine(uv_read_start((uv_stream_t *)&session->in, give_buffer, got_bytes)) &&
         is_fine(uv_write(&session->write, (uv_stream_t *)&session->out, buffers, BUFFERS, wrote)) &&
         is_fine(uv_fs_open(&session->loop, &session->open, "/dev/null", O_RDONLY, 0, fs_done)) &&
         is_fine(uv_fs_stat(&session->loop, &session->stat, ".", fs_done));
}

static bool run_loop(session_t *session)
{
  *session = (session_t){0};
  if (!is_fine(uv_loop_init(&session->loop)))
    return false;
  session->loop.data = session;
  if (!start(session))
    return false;
  must(uv_run(&session->loop, UV_RUN_DEFAULT) == 0);
  must(uv_loop_close(&session->loop) == 0);
  must(session->fired == TIMERS && session->worked == JOBS && session->written == 1 && session->got == sizeof data);
  return !session->refused;
}

/* libuv's abort() says nothing. A line there would be ours. */
static int said;

static void ended_by_libuv(int signal)
{
  (void)signal;
  _exit(lseek(said, 0, SEEK_END) == 0 ? 0 : 1);
}

static bool work(pool_heap_t *heap)
{
  static session_t session;
  must(pool_uv_install(heap) == 0);
  said = memfd_create("stderr", 0);
  int before = dup(STDERR_FILENO);
  must(said >= 0 && before >= 0);
  if (fail_count || stats_of(heap).budget) {
    must(dup2(said, STDERR_FILENO) >= 0);
    signal(SIGABRT, ended_by_libuv);
  }
  bool done = run_loop(&session);
  if (done)
    uv_library_shutdown();
  dup2(before, STDERR_FILENO);
  return done;
}

WORKS_ON_ANY_HEAP(work)
ANY_BUDGET(work)
EACH_REQUEST_FAILS(work)

static void run_in_thread(size_t index, void *sessions)
{
  for (unsigned i = 0; i < 5; i++)
    must(run_loop((session_t *)sessions + index));
}

static void a_loop_a_thread(void *unused)
{
  (void)unused;
  static session_t sessions[4];
  pool_heap_t *heap = heap_with_budget(64 << 20);
  must(pool_uv_install(heap) == 0);
  run_threads(COUNT_OF(sessions), run_in_thread, sessions);
  uv_library_shutdown();
  must(stats_of(heap).live_blocks == 0 && check_heap(heap));
  pool_heap_destroy(heap);
}
IN_CHILD(a_loop_a_thread)

/* A loop of the first heap goes on and ends there. */
static void a_second_heap(void *unused)
{
  (void)unused;
  static session_t session;
  pool_heap_t *first = heap_with((pool_heap_options_t){0}), *second = heap_with((pool_heap_options_t){0});
  must(pool_uv_install(first) == 0 && uv_loop_init(&session.loop) == 0 && stats_of(first).live_blocks > 0);
  session.loop.data = &session;
  must(pool_uv_install(second) == 0 && start(&session) && stats_of(second).live_blocks > 0);
  must(uv_run(&session.loop, UV_RUN_DEFAULT) == 0 && uv_loop_close(&session.loop) == 0);
  uv_library_shutdown();
  must(stats_of(first).live_blocks == 0 && stats_of(second).live_blocks == 0);
}
IN_CHILD(a_second_heap)

/* libuv frees at exit what it has. */
static void outlives_main(void *unused)
{
  (void)unused;
  static session_t session;
  must(pool_uv_install(heap_with((pool_heap_options_t){0})) == 0 && run_loop(&session));
  exit(0);
}
IN_CHILD(outlives_main)

static void loop_from_before(void *unused)
{
  (void)unused;
  static uv_loop_t loop;
  must(uv_loop_init(&loop) == 0);
  must(pool_uv_install(heap_with((pool_heap_options_t){0})) == 0);
  uv_loop_close(&loop);
}

static void too_late(void **state)
{
  (void)state;
  assert_int_equal(pool_uv_install(NULL), UV_EINVAL);
  aborts_with(loop_from_before, NULL, "not a block of any heap");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(works),
    cmocka_unit_test(any_budget),
    cmocka_unit_test(each_request_fails),
    cmocka_unit_test(a_loop_a_thread_test),
    cmocka_unit_test(a_second_heap_test),
    cmocka_unit_test(outlives_main_test),
    cmocka_unit_test(too_late),
  };
  return cmocka_run_group_tests_name("uv", tests, NULL, NULL);
}
