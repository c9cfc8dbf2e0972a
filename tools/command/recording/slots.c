/* SPDX-License-Identifier: MIT */
#include "slots.h"
#include <stdlib.h>

enum { PLACES_LEAST = 1024, HEAPS_LEAST = 64 };

static size_t home_of(const slots_t *slots, uint64_t address)
{
  return (size_t)(address * 0x9e3779b97f4a7c15u >> 20) & (slots->place_count - 1);
}

static place_t *first_free(const slots_t *slots, uint64_t address)
{
  size_t i = home_of(slots, address);
  while (slots->places[i].slot != SLOT_NONE)
    i = (i + 1) & (slots->place_count - 1);
  return &slots->places[i];
}

place_t *slots_find(const slots_t *slots, uint64_t address)
{
  if (!slots->place_count)
    return NULL;
  for (size_t i = home_of(slots, address); slots->places[i].slot != SLOT_NONE; i = (i + 1) & (slots->place_count - 1))
    if (slots->places[i].address == address)
      return &slots->places[i];
  return NULL;
}

static bool grow_places(slots_t *slots)
{
  slots_t larger = {.place_count = slots->place_count ? slots->place_count * 2 : PLACES_LEAST};
  larger.places = malloc(larger.place_count * sizeof *larger.places);
  if (!larger.places)
    return false;
  for (size_t i = 0; i < larger.place_count; i++)
    larger.places[i].slot = SLOT_NONE;
  for (size_t i = 0; i < slots->place_count; i++)
    if (slots->places[i].slot != SLOT_NONE)
      *first_free(&larger, slots->places[i].address) = slots->places[i];
  free(slots->places);
  slots->places = larger.places;
  slots->place_count = larger.place_count;
  return true;
}

static bool grow_slots(slots_t *slots)
{
  uint32_t room = slots->room ? slots->room * 2 : PLACES_LEAST;
  slotted_t *larger = room < SLOT_NONE / 2 ? realloc(slots->slots, room * sizeof *larger) : NULL;
  if (!larger)
    return false;
  slots->slots = larger;
  slots->room = room;
  return true;
}

static bool grow_heaps(slots_t *slots, uint32_t heap)
{
  uint32_t count = heap < HEAPS_LEAST / 2 ? HEAPS_LEAST : heap * 2;
  uint32_t *firsts = realloc(slots->firsts, count * sizeof *firsts);
  if (!firsts)
    return false;
  for (uint32_t i = slots->heap_count; i < count; i++)
    firsts[i] = SLOT_NONE;
  slots->firsts = firsts;
  slots->heap_count = count;
  return true;
}

/* ---- the blocks of a heap ---- */

static void link_slot(slots_t *slots, uint32_t number)
{
  slotted_t *slot = &slots->slots[number];
  uint32_t *first = &slots->firsts[slot->heap];
  slot->previous = SLOT_NONE;
  slot->next = *first;
  if (*first != SLOT_NONE)
    slots->slots[*first].previous = number;
  *first = number;
}

static void unlink_slot(slots_t *slots, const slotted_t *slot)
{
  if (slot->next != SLOT_NONE)
    slots->slots[slot->next].previous = slot->previous;
  if (slot->previous != SLOT_NONE)
    slots->slots[slot->previous].next = slot->next;
  else
    slots->firsts[slot->heap] = slot->next;
}

bool slots_rehome(slots_t *slots, uint32_t number, uint32_t heap)
{
  slotted_t *slot = &slots->slots[number];
  if (slot->heap == heap)
    return true;
  if (heap >= slots->heap_count && !grow_heaps(slots, heap))
    return false;
  unlink_slot(slots, slot);
  slot->heap = heap;
  link_slot(slots, number);
  return true;
}

place_t *slots_of_heap(const slots_t *slots, uint32_t heap)
{
  uint32_t first = heap < slots->heap_count ? slots->firsts[heap] : SLOT_NONE;
  return first != SLOT_NONE ? slots_find(slots, slots->slots[first].address) : NULL;
}

/* ---- slots ---- */

/* The list of free slots is empty where it leads to a slot that was never used. */
static uint32_t take_slot(slots_t *slots)
{
  uint32_t slot = slots->free;
  if (slot < slots->count) {
    slots->free = slots->slots[slot].next;
    return slot;
  }
  if (slots->count == slots->room && !grow_slots(slots))
    return SLOT_NONE;
  slots->free = ++slots->count;
  return slot;
}

uint32_t slots_add(slots_t *slots, uint64_t address, uint64_t size, uint32_t heap)
{
  if ((size_t)slots->live * 2 >= slots->place_count && !grow_places(slots))
    return SLOT_NONE;
  if (heap >= slots->heap_count && !grow_heaps(slots, heap))
    return SLOT_NONE;
  uint32_t slot = take_slot(slots);
  if (slot == SLOT_NONE)
    return slot;
  *first_free(slots, address) = (place_t){address, slot, 0};
  slots->slots[slot] = (slotted_t){.address = address, .size = size, .heap = heap};
  link_slot(slots, slot);
  slots->live++;
  return slot;
}

/* Those behind it move up, so that each is found from its home without a hole. */
static void take_out(slots_t *slots, size_t hole)
{
  size_t mask = slots->place_count - 1;
  for (size_t i = (hole + 1) & mask; slots->places[i].slot != SLOT_NONE; i = (i + 1) & mask) {
    size_t home = home_of(slots, slots->places[i].address);
    if (((i - home) & mask) < ((i - hole) & mask))
      continue;
    slots->places[hole] = slots->places[i];
    hole = i;
  }
  slots->places[hole].slot = SLOT_NONE;
}

uint64_t slots_remove(slots_t *slots, place_t *place)
{
  uint32_t slot = place->slot;
  uint64_t size = slots->slots[slot].size;
  take_out(slots, (size_t)(place - slots->places));
  unlink_slot(slots, &slots->slots[slot]);
  slots->slots[slot].next = slots->free;
  slots->free = slot;
  slots->live--;
  return size;
}

void slots_move(slots_t *slots, place_t *place, uint64_t address)
{
  uint32_t slot = place->slot;
  take_out(slots, (size_t)(place - slots->places));
  *first_free(slots, address) = (place_t){address, slot, 0};
  slots->slots[slot].address = address;
}

void slots_finish(slots_t *slots)
{
  free(slots->places);
  free(slots->slots);
  free(slots->firsts);
  *slots = (slots_t){.places = NULL};
}
