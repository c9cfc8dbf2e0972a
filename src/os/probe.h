/* SPDX-License-Identifier: MIT
 *
 * Probes (USDT), where bpftrace, perf, SystemTap, gdb and system-wide profilers can watch a running process. A probe is a no-op
 * instruction, and a note in the file with its address and its arguments. docs/tools.md lists the probes. SystemTap's header
 * makes them; builds without it have none. */
#ifndef PROBE_H
#define PROBE_H

#ifdef TIDEPOOL_PROBES
#include <sys/sdt.h>
#define PROBE1(provider, name, a)       DTRACE_PROBE1(provider, name, a)
#define PROBE2(provider, name, a, b)    DTRACE_PROBE2(provider, name, a, b)
#define PROBE3(provider, name, a, b, c) DTRACE_PROBE3(provider, name, a, b, c)
#else
#define PROBE1(provider, name, a)       ((void)(a))
#define PROBE2(provider, name, a, b)    ((void)(a), (void)(b))
#define PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

/* The linker drops code from the malloc library that only heaps and object pools call. A note would keep it. */
#ifdef TIDEPOOL_IS_MALLOC
#define POOL_PROBE2(provider, name, a, b)    ((void)(a), (void)(b))
#define POOL_PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#else
#define POOL_PROBE2(provider, name, a, b)    PROBE2(provider, name, a, b)
#define POOL_PROBE3(provider, name, a, b, c) PROBE3(provider, name, a, b, c)
#endif

#endif
