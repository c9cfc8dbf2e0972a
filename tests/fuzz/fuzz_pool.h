/* SPDX-License-Identifier: MIT
 * What the fuzzer and its drivers know of each other. */
#ifndef FUZZ_POOL_H
#define FUZZ_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern bool fuzz_alone;    /* no second thread */
extern uint64_t fuzz_seed; /* of the input that is made up, for messages; 0: it is none */

#endif
