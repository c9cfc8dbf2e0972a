/* SPDX-License-Identifier: MIT
 *
 * Doubly linked lists through fields of their records. A record may be in several lists, so the macros are told the names of
 * the two fields. A list is a pointer to its first record; a queue is that and a pointer to its last one. Both are NULL if the
 * list is empty, and so are the fields at its ends. Arguments are evaluated several times.
 *
 * Nothing tells whether a record is in a list. LIST_HOLDS() does for a record whose fields are NULL outside of it. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stddef.h>
#include <stdint.h>

/* Returns the record that has the field. */
#define CONTAINER_OF(pointer, type, field) ((type *)((uintptr_t)(pointer)-offsetof(type, field)))

#define LIST_PUSH(first, record, next, previous) \
  do { \
    (record)->previous = NULL; \
    (record)->next = (first); \
    if (first) \
      (first)->previous = (record); \
    (first) = (record); \
  } while (0)

/* The removed record keeps the values of its fields. */
#define LIST_REMOVE(first, record, next, previous) \
  do { \
    *((record)->previous ? &(record)->previous->next : &(first)) = (record)->next; \
    if ((record)->next) \
      (record)->next->previous = (record)->previous; \
  } while (0)

#define LIST_HOLDS(first, record, previous) ((record)->previous || (first) == (record))

#define QUEUE_APPEND(first, last, record, next, previous) \
  do { \
    (record)->next = NULL; \
    (record)->previous = (last); \
    *((last) ? &(last)->next : &(first)) = (record); \
    (last) = (record); \
  } while (0)

#define QUEUE_REMOVE(first, last, record, next, previous) \
  do { \
    *((record)->previous ? &(record)->previous->next : &(first)) = (record)->next; \
    *((record)->next ? &(record)->next->previous : &(last)) = (record)->previous; \
  } while (0)

#endif
