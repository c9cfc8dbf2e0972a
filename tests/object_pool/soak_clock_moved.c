/* SPDX-License-Identifier: MIT */
#include "os_fake.h"
#include "soak_clock.h"

__attribute__((constructor)) static void start(void) { os_fake_heal(); }

double clock_seconds(void) { return (double)os_fake.now_ms / 1000; }
void clock_pause(unsigned ms) { os_fake.now_ms += ms; }
void clock_work(unsigned ms) { os_fake.now_ms += ms; }
