/* SPDX-License-Identifier: MIT
 * tidepool.h: the public headers for C, without adapters and recordings. */
#ifndef TIDEPOOL_H
#define TIDEPOOL_H

#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <tidepool/pool.h>
#include <tidepool/profile.h>
#include <tidepool/stats.h>
#include <tidepool/version.h>

#endif
