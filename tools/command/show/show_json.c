/* SPDX-License-Identifier: MIT */
#include "show_json.h"
#include "command.h"
#include "heaps.h"
#include <inttypes.h>

static const char *key_of(const show_t *show, sum_t sum)
{
  if (sum == SUM_ALLOCATED)
    return "allocated";
  return sum == SUM_PEAK ? "peak" : show->is_profile ? "in_use" : "end";
}

void show_write_json_sums(const show_t *show, size_t kinds, const total_t *total, FILE *to)
{
  static const total_t none;
  total = total ? total : &none;
  for (size_t i = 0; i < kinds; i++) {
    sum_t sum = show->kinds[i].sum;
    const char *key = key_of(show, sum);
    fprintf(to, "%s\"%s_bytes\":%" PRIu64 ",\"%s_blocks\":%" PRIu64, i ? "," : "", key, total->bytes[sum], key,
            total->blocks[sum]);
    if (show->is_profile)
      fprintf(to, ",\"%s_samples\":%" PRIu64, key, total->samples[sum]);
  }
}

void show_write_json_stack(const show_t *show, const call_stack_t *stack, FILE *to)
{
  fputc('[', to);
  for (uint32_t i = 0; stack && i < stack->count; i++) {
    fputs(i ? "," : "", to);
    command_quote(show->callers.names[stack->names[i]], to);
  }
  fputc(']', to);
}

static void write_heaps(const show_t *show, FILE *to)
{
  uint32_t order[HEAP_NAMES_MOST], count = show->heaps ? heaps_order(show, order) : 0;
  fputs(",\n\"heaps\":[", to);
  for (uint32_t i = 0; i < count; i++) {
    const heap_name_t *name = &show->trace.heaps.names[order[i]];
    fputs(i ? ",\n{\"name\":" : "\n{\"name\":", to);
    command_quote(name->name ? name->name : "?", to);
    fprintf(to, ",\"is_object_pool\":%s,", name->kind == RECORDING_KIND_OBJECT_POOL ? "true" : "false");
    show_write_json_sums(show, show->kind_count, &show->heaps[order[i]].of, to);
    fputc('}', to);
  }
  fputc(']', to);
}

static void write_places(const show_t *show, FILE *to)
{
  const char *before = "\n{\"stack\":";
  fputs(",\n\"places\":[", to);
  for (size_t i = 0; i < show_site_count(show); i++) {
    if (total_is_none(&show->sites[i]))
      continue;
    fputs(before, to);
    before = ",\n{\"stack\":";
    show_write_json_stack(show, i < show->callers.stack_count ? &show->callers.stacks[i] : NULL, to);
    fputc(',', to);
    show_write_json_sums(show, show->kind_count, &show->sites[i], to);
    fputc('}', to);
  }
  fputc(']', to);
}

void show_write_json(const show_t *show, FILE *to)
{
  fputs("{\"of\":", to);
  command_quote(show->title, to);
  if (show->is_profile)
    fprintf(to, ",\"sample_bytes\":%" PRIu64, show->distance);
  else
    fprintf(to, ",\"calls\":%zu,\"seconds\":%.9f,\"peak_seconds\":%.9f", show->trace.count,
            (double)show->trace.facts.last_ns / 1e9, (double)show->peak_ns / 1e9);
  fputc(',', to);
  show_write_json_sums(show, show->kind_count, &show->all, to);
  write_heaps(show, to);
  write_places(show, to);
  fputs("}\n", to);
}
