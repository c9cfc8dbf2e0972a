/* SPDX-License-Identifier: MIT
 *
 * Recordings that a test writes itself, byte by byte, as docs/recording.md has it. */
#ifndef RECORDING_IMAGE_H
#define RECORDING_IMAGE_H

#include "../../tools/command/recording/recording.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IMAGE_CHUNKS = 8 };

typedef struct image_chunk {
  uint8_t *at;
  uint64_t ns, place;
} image_chunk_t;

static uint8_t image[IMAGE_CHUNKS * RECORDING_CHUNK];
static image_chunk_t image_chunks[IMAGE_CHUNKS];
static size_t image_count;

static inline void image_begin(void)
{
  static const char command[] = "program\0with \033words";
  recording_head_t head = {.byte_order = RECORDING_BYTE_ORDER,
                           .version = RECORDING_VERSION,
                           .pid = 7,
                           .frames_most = 4,
                           .started_ns = 1,
                           .ended_ns = 1000000,
                           .words = 2};
  memset(image, 0, sizeof image);
  memcpy(head.magic, RECORDING_MAGIC, sizeof head.magic);
  memcpy(image, &head, sizeof head);
  memcpy(image + sizeof head, command, sizeof command);
  image_count = 1;
}

static inline size_t image_add(uint32_t stream, uint32_t thread, uint64_t from_ns)
{
  recording_chunk_t head = {RECORDING_CHUNK_MARK, stream, from_ns, thread, 0};
  uint8_t *chunk = image + image_count * RECORDING_CHUNK;
  memcpy(chunk, &head, sizeof head);
  image_chunks[image_count] = (image_chunk_t){chunk + sizeof head, from_ns, 0};
  return image_count++;
}

static inline void image_number(size_t chunk, uint64_t number)
{
  for (; number > 0x7f; number >>= 7)
    *image_chunks[chunk].at++ = (uint8_t)(number | 0x80);
  *image_chunks[chunk].at++ = (uint8_t)number;
}

static inline void image_signed(size_t chunk, uint64_t by) { image_number(chunk, by << 1 ^ (uint64_t)((int64_t)by >> 63)); }

static inline void image_op(size_t chunk, recording_op_t op, uint64_t ns)
{
  *image_chunks[chunk].at++ = (uint8_t)op;
  image_number(chunk, ns - image_chunks[chunk].ns);
  image_chunks[chunk].ns = ns;
}

static inline void image_address(size_t chunk, uint64_t address)
{
  image_signed(chunk, address / 8 - image_chunks[chunk].place);
  image_chunks[chunk].place = address / 8;
}

static inline void image_alloc(size_t chunk, uint64_t ns, uint64_t address, uint64_t size)
{
  image_op(chunk, RECORDING_ALLOC, ns);
  image_address(chunk, address);
  image_number(chunk, size);
  image_number(chunk, 1);
}

static inline void image_aligned(size_t chunk, uint64_t ns, uint64_t address, uint64_t size, unsigned log2)
{
  image_op(chunk, RECORDING_ALIGNED, ns);
  image_address(chunk, address);
  image_number(chunk, size);
  image_number(chunk, 1);
  image_number(chunk, log2);
}

static inline void image_free(size_t chunk, uint64_t ns, uint64_t address)
{
  image_op(chunk, RECORDING_FREE, ns);
  image_address(chunk, address);
}

static inline void image_realloc(size_t chunk, uint64_t ns, uint64_t took, uint64_t old, uint64_t address, uint64_t size)
{
  image_op(chunk, RECORDING_REALLOC, ns);
  image_address(chunk, old);
  image_number(chunk, took);
  image_address(chunk, address);
  image_number(chunk, size);
  image_number(chunk, 1);
}

static inline void image_failed(size_t chunk, uint64_t ns, uint64_t size)
{
  image_op(chunk, RECORDING_FAILED, ns);
  image_number(chunk, size);
  image_number(chunk, 1);
}

static inline void image_site(size_t chunk, uint32_t number, unsigned count)
{
  *image_chunks[chunk].at++ = RECORDING_SITE;
  image_number(chunk, number);
  image_number(chunk, count);
  for (unsigned i = 0; i < count; i++)
    image_signed(chunk, i % 2 ? (uint64_t)0 - 1000 : 0x401000 + i);
}

static inline void image_module(size_t chunk, const char *name)
{
  *image_chunks[chunk].at++ = RECORDING_MODULE;
  image_number(chunk, 0x400000);
  image_number(chunk, 0x401000);
  image_number(chunk, 0x10000);
  image_number(chunk, strlen(name));
  memcpy(image_chunks[chunk].at, name, strlen(name));
  image_chunks[chunk].at += strlen(name);
}

static inline void image_thread(size_t chunk, uint32_t thread)
{
  *image_chunks[chunk].at++ = RECORDING_THREAD;
  image_number(chunk, thread);
}

static inline void image_heap(size_t chunk, uint64_t ns, uint32_t number, uint32_t parent, recording_kind_t kind,
                              const char *name)
{
  image_op(chunk, RECORDING_HEAP, ns);
  image_number(chunk, number);
  image_number(chunk, parent);
  image_number(chunk, kind);
  image_number(chunk, 4096);
  image_number(chunk, strlen(name));
  memcpy(image_chunks[chunk].at, name, strlen(name));
  image_chunks[chunk].at += strlen(name);
}

static inline void image_in(size_t chunk, uint32_t heap)
{
  *image_chunks[chunk].at++ = RECORDING_IN;
  image_number(chunk, heap);
}

static inline void image_drop(size_t chunk, uint64_t ns, uint32_t heap)
{
  image_op(chunk, RECORDING_DROP, ns);
  image_number(chunk, heap);
}

static inline void image_write(int file)
{
  size_t size = image_count * RECORDING_CHUNK;
  if (pwrite(file, image, size, 0) != (ssize_t)size || ftruncate(file, (off_t)size) != 0)
    abort();
}

#endif
