# SPDX-License-Identifier: MIT
"""Loads libtidepool into a running Python and uses it from several threads.

usage: from_python.py libtidepool.so"""

import ctypes
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
library.tidepool_alloc.restype = ctypes.c_void_p
library.tidepool_alloc.argtypes = [ctypes.c_size_t]
library.tidepool_free.argtypes = [ctypes.c_void_p]
library.tidepool_usable_size.restype = ctypes.c_size_t
library.tidepool_usable_size.argtypes = [ctypes.c_void_p]
library.tidepool_in_use.restype = ctypes.c_bool
library.tidepool_in_use.argtypes = [ctypes.c_void_p]

failures = []


def use():
    for size in list(range(0, 5000, 37)) + [1 << 20, 5 << 20]:
        block = library.tidepool_alloc(size)
        if not block or library.tidepool_usable_size(block) < size:
            failures.append(f"pool_alloc({size}) gave {block}")
            return
        ctypes.memset(block, 0x5A, size)
        if not library.tidepool_in_use(block):
            failures.append(f"pool_in_use is false for a live block of {size} bytes")
        library.tidepool_free(block)


threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads:
    thread.start()
use()
for thread in threads:
    thread.join()
if failures:
    sys.exit(failures[0])
