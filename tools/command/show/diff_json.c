/* SPDX-License-Identifier: MIT */
#include "command.h"
#include "diff.h"
#include "show_json.h"

static void write_file(const diff_t *diff, int i, FILE *to)
{
  fputs(i ? ",\n\"after\":{\"of\":" : "{\"before\":{\"of\":", to);
  command_quote(diff->names[i], to);
  fputc(',', to);
  show_write_json_sums(&diff->shows[i], diff->kind_count, &diff->shows[i].all, to);
  fputc('}', to);
}

static void write_place(const diff_t *diff, const stack_place_t *place, FILE *to)
{
  fputs("{\"stack\":", to);
  show_write_json_stack(place->show, diff_stack(place), to);
  fputs(",\"before\":{", to);
  show_write_json_sums(place->show, diff->kind_count, place->before, to);
  fputs("},\"after\":{", to);
  show_write_json_sums(place->show, diff->kind_count, place->after, to);
  fputs("}}", to);
}

void diff_write_json(const diff_t *diff, FILE *to)
{
  write_file(diff, 0, to);
  write_file(diff, 1, to);
  fputs(",\n\"places\":[", to);
  for (size_t i = 0; i < diff->count; i++) {
    fputs(i ? ",\n" : "\n", to);
    write_place(diff, &diff->places[i], to);
  }
  fputs("]}\n", to);
}
