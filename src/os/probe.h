/* SPDX-License-Identifier: MIT
 *
 * Probes (USDT): places at which bpftrace, perf, SystemTap, gdb and profilers of the whole machine can look at a process that
 * runs on. A probe is an instruction that does nothing, and a note in the file that says where it is and where its arguments
 * are. docs/tools.md lists them. The header that makes them is SystemTap's; without it there are none. */
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

/* The malloc library leaves out at its linking what only programs with heaps and object pools call, and a note would keep it.
 */
#ifdef TIDEPOOL_IS_MALLOC
#define POOL_PROBE2(provider, name, a, b)    ((void)(a), (void)(b))
#define POOL_PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#else
#define POOL_PROBE2(provider, name, a, b)    PROBE2(provider, name, a, b)
#define POOL_PROBE3(provider, name, a, b, c) PROBE3(provider, name, a, b, c)
#endif

#endif
