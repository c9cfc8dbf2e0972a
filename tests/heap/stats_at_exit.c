/* SPDX-License-Identifier: MIT
 * A program of the static library that calls nothing of the figures, for TIDEPOOL_OPTIONS=stats=exit. */
#include <tidepool/pool.h>

int main(void) { pool_free(pool_alloc(5)); }
