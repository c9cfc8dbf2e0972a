/* SPDX-License-Identifier: MIT */
#include "slots.h"
#include <stdlib.h>

enum { PLACES_LEAST = 1024 };

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

static bool grow_sizes(slots_t *slots)
{
  uint32_t room = slots->room ? slots->room * 2 : PLACES_LEAST;
  uint64_t *sizes = room < SLOT_NONE / 2 ? realloc(slots->sizes, room * sizeof *sizes) : NULL;
  if (!sizes)
    return false;
  slots->sizes = sizes;
  slots->room = room;
  return true;
}

/* The list of free slots is empty where it leads to a slot that was never used. */
static uint32_t take_slot(slots_t *slots)
{
  uint32_t slot = slots->free;
  if (slot < slots->count) {
    slots->free = (uint32_t)slots->sizes[slot];
    return slot;
  }
  if (slots->count == slots->room && !grow_sizes(slots))
    return SLOT_NONE;
  slots->free = ++slots->count;
  return slot;
}

uint32_t slots_add(slots_t *slots, uint64_t address, uint64_t size)
{
  if ((size_t)slots->live * 2 >= slots->place_count && !grow_places(slots))
    return SLOT_NONE;
  uint32_t slot = take_slot(slots);
  if (slot == SLOT_NONE)
    return slot;
  *first_free(slots, address) = (place_t){address, slot, 0};
  slots->sizes[slot] = size;
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
  uint64_t size = slots->sizes[slot];
  take_out(slots, (size_t)(place - slots->places));
  slots->sizes[slot] = slots->free;
  slots->free = slot;
  slots->live--;
  return size;
}

void slots_move(slots_t *slots, place_t *place, uint64_t address)
{
  uint32_t slot = place->slot;
  take_out(slots, (size_t)(place - slots->places));
  *first_free(slots, address) = (place_t){address, slot, 0};
}

void slots_finish(slots_t *slots)
{
  free(slots->places);
  free(slots->sizes);
  *slots = (slots_t){.places = NULL};
}
