/* SPDX-License-Identifier: MIT
 *
 * Reads tables that other programs wrote. A reader stops at the end of its bytes. It then returns 0 and sets `failed`, so
 * callers check only once, at the end. */
#ifndef DEBUG_LINUX_READER_H
#define DEBUG_LINUX_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct reader {
  const uint8_t *at, *end;
  bool failed;
} reader_t;

static inline uint64_t reader_bytes(reader_t *r, size_t size)
{
  uint64_t value = 0;
  r->failed |= (size_t)(r->end - r->at) < size;
  if (r->failed)
    return 0;
  memcpy(&value, r->at, size);
  r->at += size;
  return value;
}

static inline uint8_t reader_byte(reader_t *r) { return (uint8_t)reader_bytes(r, 1); }

static inline int64_t reader_signed(reader_t *r, size_t size)
{
  unsigned unused = (unsigned)(64 - size * 8);
  return (int64_t)(reader_bytes(r, size) << unused) >> unused;
}

/* Seven bits per byte, the lowest first. `*end_bit` is the first bit beyond the value. Returns the last byte. */
static inline uint8_t reader_leb(reader_t *r, uint64_t *value, unsigned *end_bit)
{
  uint8_t byte;
  *value = *end_bit = 0;
  do {
    byte = reader_byte(r);
    if (*end_bit < 64)
      *value |= (uint64_t)(byte & 0x7f) << *end_bit;
    *end_bit += 7;
  } while (byte & 0x80);
  return byte;
}

static inline uint64_t reader_uleb(reader_t *r)
{
  uint64_t value;
  unsigned end_bit;
  reader_leb(r, &value, &end_bit);
  return value;
}

static inline int64_t reader_sleb(reader_t *r)
{
  uint64_t value;
  unsigned end_bit;
  if (reader_leb(r, &value, &end_bit) & 0x40 && end_bit < 64)
    value |= ~(uint64_t)0 << end_bit;
  return (int64_t)value;
}

static inline void reader_skip(reader_t *r, uint64_t size)
{
  r->failed |= size > (uint64_t)(r->end - r->at);
  if (!r->failed)
    r->at += size;
}

#endif
