/* SPDX-License-Identifier: MIT
 *
 * A recording replayed against a retention policy: how much free memory the library keeps, and for how long. The calls of all
 * threads are made in one thread. The library runs on os_fake.c, whose clock shows the recorded time, so memory ages as it did
 * in the program, however long the replay takes. The mappings are real: page faults and resident memory are the kernel's. */
#ifndef SIMULATE_H
#define SIMULATE_H

#include "recording/trace.h"

typedef struct policy {
  const char *options;      /* of the library, as TIDEPOOL_OPTIONS has them */
  uint32_t trim_ms;         /* the program calls pool_trim() so often; 0: never */
  uint32_t kept_percent;    /* of the free memory, by each of these trims */
  uint32_t written_percent; /* of each block: its first pages */
} policy_t;

/* Memory is in bytes. Means are over the recorded time. */
typedef struct outcome {
  uint64_t faults;
  uint64_t system_calls;    /* of the library, of which */
  uint64_t returns;         /* so many purged or unmapped a range */
  uint64_t failed;          /* allocations that were not served */
  uint64_t mean, peak, end; /* resident, above what there was before the first call */
  uint64_t huge_mean;       /* of `mean`, in huge pages */
  uint64_t live_mean, live_peak, live_end;
  bool is_done;
} outcome_t;

/* The run is a process of its own. False: it could not start, ended early, or the kernel does not say what is resident. */
bool simulate(const trace_t *trace, const policy_t *policy, outcome_t *outcome);

#endif
