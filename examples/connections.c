/* SPDX-License-Identifier: MIT
 *
 * Connections to a service that takes no more than four. The pool is the limit: where it is full, get says so and the request
 * waits its turn (OBJECT_POOL_FAIL). A connection is opened when it is first needed (construct), looked after before each
 * further use, where a dead one is opened again (reset), and closed when the pool ends (destruct).
 *
 * The service is a thread of this program that answers over socket pairs and hangs up now and then.
 *
 *     connections --test     200 requests from six threads; checks itself */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <tidepool.h>
#include <unistd.h>

enum { LIMIT = 4, CLIENTS = 6, REQUESTS = 200, PATIENCE = 9 /* answers before the service hangs up */ };

typedef struct connection {
  int socket, answers;
} connection_t;

OBJECT_POOL_DEFINE(connections, connection_t);

static atomic_int open_now, most_open, opened, reopened, closed, waits, failures;

/* ---- the service ---- */

static void *serve(void *argument)
{
  int socket = (int)(intptr_t)argument, number, left = PATIENCE;
  while (left-- && read(socket, &number, sizeof number) == (ssize_t)sizeof number) {
    number *= 2;
    if (write(socket, &number, sizeof number) != (ssize_t)sizeof number)
      break;
  }
  close(socket);
  return NULL;
}

static bool dial(connection_t *connection)
{
  int ends[2];
  pthread_t thread;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
    return false;
  if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)ends[1]) != 0) {
    close(ends[0]);
    close(ends[1]);
    return false;
  }
  pthread_detach(thread);
  *connection = (connection_t){.socket = ends[0]};
  int now = atomic_fetch_add(&open_now, 1) + 1, most = most_open;
  while (now > most && !atomic_compare_exchange_weak(&most_open, &most, now))
    ;
  return true;
}

static void hang_up(connection_t *connection)
{
  close(connection->socket);
  connection->socket = -1;
  atomic_fetch_sub(&open_now, 1);
}

/* ---- the hooks ---- */

static bool open_connection(void *object, void *context)
{
  (void)context;
  atomic_fetch_add(&opened, 1);
  return dial(object);
}

static bool is_alive(const connection_t *connection)
{
  char byte;
  return connection->socket >= 0 && recv(connection->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

static void check_health(void *object, void *context)
{
  (void)context;
  connection_t *connection = object;
  if (is_alive(connection))
    return;
  if (connection->socket >= 0)
    hang_up(connection);
  atomic_fetch_add(&reopened, 1);
  if (!dial(connection))
    connection->socket = -1;
}

static void close_connection(void *object, void *context)
{
  (void)context;
  connection_t *connection = object;
  if (connection->socket >= 0)
    hang_up(connection);
  atomic_fetch_add(&closed, 1);
}

/* ---- the clients ---- */

static connection_t *wait_for_connection(connections_t *pool)
{
  connection_t *connection;
  while (!(connection = connections_get(pool))) {
    atomic_fetch_add(&waits, 1);
    usleep(200);
  }
  return connection;
}

/* The service may hang up between the check and the question: then the next connection is asked. */
static int ask(connections_t *pool, int number)
{
  int answer = 0;
  for (bool answered = false; !answered;) {
    connection_t *connection = wait_for_connection(pool);
    answered = connection->socket >= 0 &&
               send(connection->socket, &number, sizeof number, MSG_NOSIGNAL) == (ssize_t)sizeof number &&
               read(connection->socket, &answer, sizeof answer) == (ssize_t)sizeof answer;
    connection->answers += answered;
    connections_put(pool, connection);
  }
  return answer;
}

static void *be_client(void *pool)
{
  for (int i = 1; i <= REQUESTS; i++)
    if (ask(pool, i) != 2 * i)
      atomic_fetch_add(&failures, 1);
  return NULL;
}

int main(int argc, char **argv)
{
  if (argc != 2 || strcmp(argv[1], "--test") != 0) {
    fputs("usage: connections --test\n", stderr);
    return EXIT_FAILURE;
  }
  connections_t *pool = connections_create(&(object_pool_options_t){.name = "connections",
                                                                    .capacity = LIMIT,
                                                                    .construct = open_connection,
                                                                    .reset = check_health,
                                                                    .destruct = close_connection});
  pthread_t clients[CLIENTS];
  for (int i = 0; i < CLIENTS; i++)
    if (!pool || pthread_create(&clients[i], NULL, be_client, pool) != 0)
      return EXIT_FAILURE;
  for (int i = 0; i < CLIENTS; i++)
    pthread_join(clients[i], NULL);
  bool nobody_left = connections_live(pool) == 0;
  connections_destroy(pool);
  printf("%d requests: %d opened, %d opened again, most open at once %d, %d closed, %d waits, %d wrong answers\n",
         CLIENTS * REQUESTS, opened, reopened, most_open, closed, waits, failures);
  return nobody_left && failures == 0 && opened <= LIMIT && closed == opened && most_open <= LIMIT && reopened > 0 &&
             open_now == 0
           ? EXIT_SUCCESS
           : EXIT_FAILURE;
}
