/* SPDX-License-Identifier: MIT */
#ifndef WINDOWS_SIGNAL_H
#define WINDOWS_SIGNAL_H

#include_next <signal.h>

enum { SIGSYS = 31 }; /* no filter of system calls sends it */

#endif
