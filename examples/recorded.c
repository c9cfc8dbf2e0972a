/* SPDX-License-Identifier: MIT
 * A server that records what it does with memory when somebody wants to know: all of its heaps and object pools, for a while,
 * without a restart. One of the two ways in which an order is changed forgets the notes of the order that it replaces, and the
 * recording shows it. docs/tools.md goes on from here.
 *
 *     cc -g recorded.c -Wl,--no-as-needed -ltidepool-record $(pkg-config --cflags --libs tidepool) -o recorded
 *     ./recorded orders.recording
 *     tidepool show -o orders.html orders.recording
 *
 * Not linked with the recorder it is recorded from its start: tidepool record ./recorded */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <tidepool.h>
#include <unistd.h>
#ifdef RECORDS
#include <tidepool/record.h>
#endif

enum { ORDERS = 4000, REQUESTS = 60000, WARM_UP = 5000 };

typedef struct note {
  struct note *next;
  char text[120];
} note_t;

typedef struct order {
  char *customer;
  note_t *notes;
} order_t;

OBJECT_POOL_DEFINE(orders, order_t);

static pool_heap_t *store, *request;
static orders_t *orders;
static order_t *table[ORDERS];

static unsigned any(unsigned below)
{
  static unsigned seed = 1;
  seed = seed * 1664525 + 1013904223;
  return (seed >> 8) % below;
}

/* ---- orders ---- */

static order_t *order_open(const char *customer)
{
  order_t *order = orders_get(orders);
  if (!order)
    return NULL;
  *order = (order_t){pool_heap_alloc(store, strlen(customer) + 1), NULL};
  if (order->customer)
    strcpy(order->customer, customer);
  return order;
}

static void order_note(order_t *order, const char *text)
{
  note_t *note = pool_heap_alloc(store, sizeof *note);
  if (!note)
    return;
  snprintf(note->text, sizeof note->text, "%s", text);
  note->next = order->notes;
  order->notes = note;
}

static void order_close(order_t *order)
{
  while (order->notes) {
    note_t *note = order->notes;
    order->notes = note->next;
    pool_heap_free(store, note);
  }
  pool_heap_free(store, order->customer);
  orders_put(orders, order);
}

/* The customer stays the same. What was noted does not, and nobody frees it. */
static void order_replace(order_t *order, order_t *by)
{
  pool_heap_free(store, by->customer);
  order->notes = by->notes;
  orders_put(orders, by);
}

/* ---- requests ---- */

/* What a request needs meanwhile goes with it, whatever it was. */
static void *scratch(size_t size) { return pool_heap_alloc(request, size); }

static bool serve(void)
{
  char *text = scratch(200);
  for (unsigned i = 0; i < 8; i++)
    if (!scratch(100 + any(3000)))
      return false;
  if (!text)
    return false;
  snprintf(text, 200, "customer %u", any(10000));
  order_t *order = order_open(text), **at = &table[any(ORDERS)];
  if (!order)
    return false;
  for (unsigned i = any(3); i > 0; i--)
    order_note(order, "to be called back before the delivery");
  if (*at && any(4) == 0)
    order_replace(*at, order);
  else {
    if (*at)
      order_close(*at);
    *at = order;
  }
  pool_heap_reset(request);
  return true;
}

static bool serve_all(unsigned count)
{
  while (count > 0 && serve())
    count--;
  return count == 0;
}

/* ---- what is recorded ---- */

/* The file is complete when it ends, and may be looked at while the server goes on. */
static bool serve_recorded(const char *path)
{
#ifdef RECORDS
  int file = open(path, O_RDWR | O_CREAT, 0600);
  bool starts = file >= 0 && pool_record_start(file);
  if (file >= 0)
    close(file);
  if (!starts)
    return false;
  bool served = serve_all(REQUESTS);
  pool_record_stop();
  return served;
#else
  (void)path;
  return serve_all(REQUESTS);
#endif
}

int main(int count, char **arguments)
{
  store = pool_heap_create(&(pool_heap_options_t){.name = "orders", .budget = 64 << 20});
  request = pool_heap_create(&(pool_heap_options_t){.name = "request"});
  orders = orders_create(&(object_pool_options_t){.name = "open orders", .capacity = ORDERS + 1, .heap = store});
  if (!store || !request || !orders)
    return 1;
  bool served = serve_all(WARM_UP) && serve_recorded(count > 1 ? arguments[1] : "orders.recording");
  pool_stats_t stats;
  if (!served)
    perror("recorded");
  else if (pool_heap_stats(store, &stats))
    printf("%zu bytes in %zu blocks are live of %d orders\n", stats.live_bytes, stats.live_blocks, ORDERS);
  return served ? 0 : 1;
}
