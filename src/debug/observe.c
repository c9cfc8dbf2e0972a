/* SPDX-License-Identifier: MIT
 * Implements heap/debug_hooks.h. */
#include "debug/export.h"
#include "debug/guard_pages.h"
#include "debug/leaks.h"
#include "debug/messages.h"
#include "debug/profile.h"
#include "debug/profile_text.h"
#include "debug/report.h"
#include "debug/sample_pages.h"
#include "debug/sampling.h"
#include "debug/sites.h"
#include "heap/blocks.h"
#include "heap/debug_hooks.h"
#include "misuse.h"
#include "option.h"
#include "os/tool.h"

/* ---- blocks ---- */

static void note_end(void *entry, const void *block) { profile_leave(entry, block); }

/* ---- threads ---- */

static turn_t whose_turn(thread_t *thread, size_t size_class)
{
  if (settings.guard_sample && !thread->default_magazines.of[size_class].full &&
      sample_is_due(sample_blocks(&default_heap, (unsigned)size_class)))
    return TURN_SAMPLE;
  return profile_under_way() ? TURN_COUNT : TURN_USUAL;
}

static bool observes_all(void) { return settings.guard_sample || profile_under_way(); }

/* ---- heaps ---- */

static void begin_heap(heap_t *heap, bool is_guarded)
{
  if (is_guarded)
    guard_pages_begin(heap);
}

/* ---- the process ---- */

static void note_options(void)
{
  if (option_wants_stacks())
    os_load_stacks();
}

static void bring_up(void)
{
  fatal_say_frames = messages_say_frames;
  slow_paths_are_observed = settings.guard_sample != 0;
  profile_watch_heap(&default_heap);
  if (settings.profile_file[0])
    profile_start_first();
  sampling_begin();
}

static void has_come_up(void)
{
  guard_pages_load_if_wanted();
  export_begin_if();
}

static void begin_export(size_t (*figures)(char *buffer, size_t size))
{
  export_figures = figures;
  export_begin_if();
}

static void end_helpers(void)
{
  if (settings.export)
    export_end();
}

static void end_process(void)
{
  if (settings.leaks & LEAKS_AT_EXIT)
    leaks_at_exit();
  if (settings.profile_file[0])
    profile_write_file();
}

/* ---- forks ---- */

static void forget_in_child(void)
{
  sampling_fork_child();
  sample_forget();
  profile_fork_child();
}

/* ---- the interface of profiles ---- */

static int start_profile(uint64_t sample_bytes) { return profile_start(sample_bytes ? sample_bytes : PROFILE_SAMPLE_BYTES); }

static void stop_profile(void)
{
  if (profile_under_way())
    profile_stop();
}

static lock_t *const locks[] = {&profile_lock, &sites_lock, &sample_pages_lock};

static const observer_t debug_observer = {.note_resized = profile_note_resized,
                                          .note_end = note_end,
                                          .turn = whose_turn,
                                          .is_busy = observes_all,
                                          .let_go = profile_let_go,
                                          .begin_heap = begin_heap,
                                          .enter_heap = profile_watch_heap,
                                          .destroy_heap = leaks_at_destroy,
                                          .destroy_pool = leaks_of_pool,
                                          .report = heap_report,
                                          .note_options = note_options,
                                          .bring_up = bring_up,
                                          .has_come_up = has_come_up,
                                          .tick = export_begin_due,
                                          .begin_helpers = begin_export,
                                          .end_helpers = end_helpers,
                                          .end = end_process,
                                          .kept_bytes = sample_pages_kept,
                                          .trim = sample_pages_trim,
                                          .address_of = site_address,
                                          .explain_dead = guard_pages_explain_dead,
                                          .locks = locks,
                                          .lock_count = sizeof locks / sizeof *locks,
                                          .has_helper = export_is_there,
                                          .fork_prepare = sampling_fork_prepare,
                                          .fork_parent = profile_write_if_asked,
                                          .fork_child = forget_in_child,
                                          .fork_child_of_many = export_fork_child,
                                          .profile_start = start_profile,
                                          .profile_stop = stop_profile,
                                          .profile_write = profile_write};
const observer_t *const observer = &debug_observer;
