/* SPDX-License-Identifier: MIT
 *
 * A firmware with one heap of 32 KiB, which is all that it ever allocates from. Messages come from an object pool in it, so
 * that there are never more than so many, and their handles tell one that is gone. What else is needed now and then is a block.
 *
 * The heap is an array of the program's: the linker says at once if the board has not so much memory. */
#include "board.h"
#include <tidepool/embedded.h>
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <tidepool/stats.h>

enum { HEAP_BYTES = 32 << 10, MESSAGES = 64 };

typedef struct message {
  uint32_t id;
  uint8_t length, bytes[59];
} message_t;
OBJECT_POOL_DEFINE(messages, message_t);

static _Alignas(64) unsigned char memory[HEAP_BYTES];

/* Interrupts stay out while the heap is at work. A count lets the calls nest, and the last one leaves interrupts as the first
 * found them. On a board with an RTOS: its critical sections. */
static unsigned locks, masked_before;
void pool_embedded_lock(void)
{
  unsigned masked = 0;
#if defined __arm__
  __asm__ volatile("mrs %0, primask; cpsid i" : "=r"(masked) : : "memory");
#elif defined __riscv
  __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(masked) : : "memory");
#else
#error "how are interrupts disabled here?"
#endif
  if (!locks++)
    masked_before = masked;
}
void pool_embedded_unlock(void)
{
  if (--locks)
    return;
#if defined __arm__
  __asm__ volatile("msr primask, %0" : : "r"(masked_before) : "memory");
#elif defined __riscv
  __asm__ volatile("csrs mstatus, %0" : : "r"(masked_before & 8) : "memory");
#endif
}

/* A bug of the program. Here it says so and ends; a product would note it and start anew. */
void pool_embedded_abort(const char *call, const void *address, const char *what)
{
  (void)address;
  board_say(call);
  board_say(": ");
  board_say(what);
  board_say("\n");
  board_end(1);
}

/* A message comes in, and goes to whoever asks for it by its handle. */
static object_pool_handle_t receive(messages_t *messages, uint32_t id)
{
  message_t *message = messages_get(messages);
  if (!message)
    return (object_pool_handle_t){0, 0};
  message->id = id;
  message->length = 0;
  return messages_handle(messages, message);
}

static int run(pool_heap_t *heap)
{
  messages_t *messages = messages_create(&(object_pool_options_t){.name = "messages", .capacity = MESSAGES, .heap = heap});
  if (!messages)
    return 2;
  object_pool_handle_t first = receive(messages, 1);
  for (uint32_t id = 2; id <= MESSAGES; id++)
    if (!receive(messages, id).index)
      return 3;
  if (receive(messages, MESSAGES + 1).index)
    return 4; /* there is no room for one more, which is seen here and not elsewhere */
  message_t *message = messages_resolve(messages, first);
  if (!message || message->id != 1)
    return 5;
  messages_put(messages, message);
  if (messages_resolve(messages, first))
    return 6; /* its handle leads to nothing any more */
  void *scratch = pool_heap_alloc(heap, 1500);
  pool_stats_t stats;
  if (!scratch || !pool_heap_stats(heap, &stats) || stats.held_bytes > HEAP_BYTES)
    return 7;
  pool_heap_free(heap, scratch);
  return 0;
}

int main(void)
{
  pool_heap_t *heap = pool_heap_create(
    &(pool_heap_options_t){.name = "firmware", .memory = memory, .memory_size = sizeof memory, .budget = sizeof memory});
  if (!heap)
    return 1;
  int status = run(heap);
  pool_heap_reset(heap); /* every block, and the pool with its messages, is gone */
  board_say(status ? "firmware: failed\n" : "firmware: 64 messages and a block in a heap of 32 KiB\n");
  return status;
}
