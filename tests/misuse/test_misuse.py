# SPDX-License-Identifier: MIT
"""A program with a bug must end by abort() after one line on standard error that begins with `tidepool: CALL(0x...): ` and goes
on with what is said of the bug; both are regular expressions."""

import os
import re
import resource
import signal
import subprocess

import pytest

STUCK_SECONDS = 600
NOT_A_BLOCK = "not a block of any heap"
TWICE = "freed twice"
# Its memory may already belong to something else, or to nobody.
EITHER = f"({NOT_A_BLOCK}|{TWICE})"
NOT_AN_OBJECT = 'not a live object of pool "mine"'
NOT_AN_OBJECT_POOL = "not a live object pool"


def offset(number):
    return rf".*\boffset {number}\b.*"


# By name: the call that the line must name, and what it says. Those of malloc's family, whose names the library has with pool_.
BUGS = {
    "free-stack": ("free", NOT_A_BLOCK),
    "free-static": ("free", NOT_A_BLOCK),
    "free-code": ("free", NOT_A_BLOCK),
    "free-low": ("free", NOT_A_BLOCK),
    "free-wild": ("free", NOT_A_BLOCK),
    "free-noncanonical": ("free", NOT_A_BLOCK),
    "free-highest": ("free", NOT_A_BLOCK),
    "free-mapping": ("free", NOT_A_BLOCK),
    "free-inside-small": ("free", NOT_A_BLOCK),
    "free-odd-address": ("free", NOT_A_BLOCK),
    "at-once-odd": ("free", NOT_A_BLOCK),
    "at-once-off-by-eight": ("free", NOT_A_BLOCK),
    "at-once-realloc-odd": ("realloc", NOT_A_BLOCK),
    "at-once-twice-small": ("free", TWICE),
    "at-once-twice-medium": ("free", TWICE),
    "at-once-twice-large": ("free", TWICE),
    "at-once-twice-huge": ("free", NOT_A_BLOCK),
    "free-inside-medium": ("free", NOT_A_BLOCK),
    "free-inside-large": ("free", NOT_A_BLOCK),
    "free-large-off-by-16": ("free", NOT_A_BLOCK),
    "free-never-allocated": ("free", EITHER),
    "free-twice-in-a-row": ("free", TWICE),
    "free-twice-with-others-between": ("free", TWICE),
    "free-twice-among-thousands": ("free", EITHER),   # by then the whole slab may have gone back
    "free-twice-in-two-threads": ("free", TWICE),
    "free-twice-in-a-cancelled-thread": ("free", TWICE),
    "free-twice-medium": ("free", TWICE),
    "free-twice-large": ("free", EITHER),
    "free-after-realloc-to-zero": ("free", TWICE),
    "realloc-stack": ("realloc", NOT_A_BLOCK),
    "realloc-static": ("realloc", NOT_A_BLOCK),
    "realloc-wild": ("realloc", NOT_A_BLOCK),
    "realloc-inside-large": ("realloc", NOT_A_BLOCK),
    "realloc-freed-large": ("realloc", EITHER),
}
# Of the library's own calls.
POOL_BUGS = {
    "free-block-of-malloc": ("pool_free", NOT_A_BLOCK),
    "realloc-block-of-malloc": ("pool_realloc", NOT_A_BLOCK),
    "free-sized-of-static": ("pool_free(_sized)?", NOT_A_BLOCK),
    "free-batch-with-a-stranger": ("pool_free(_batch)?", NOT_A_BLOCK),
    "free-batch-with-a-block-twice": ("pool_free(_batch)?", TWICE),
    "heap-free-static": ("pool(_heap)?_free", NOT_A_BLOCK),
    "heap-at-once-twice": ("pool(_heap)?_free", TWICE),
    "heap-at-once-twice-with-a-budget": ("pool(_heap)?_free", TWICE),
    "heap-at-once-twice-uncached": ("pool(_heap)?_free", TWICE),
    "heap-at-once-odd": ("pool(_heap)?_free", NOT_A_BLOCK),
    "heap-free-twice": ("pool(_heap)?_free", TWICE),
    "heap-free-after-destroy": ("pool_free", NOT_A_BLOCK),
    "heap-free-after-reset": ("pool(_heap)?_free", EITHER),
    "heap-checked-free-twice": ("pool(_heap)?_free", TWICE),
    "heap-checked-write-after-free": (r"pool\w*_alloc", offset(10)),
    "heap-checked-overrun": ("pool(_heap)?_free", offset(100)),
    "heap-checked-overrun-seen-by-pool-free": ("pool_free", offset(100)),
    "object-pool-put-static": ("object_pool_put", NOT_AN_OBJECT),
    "object-pool-put-twice": ("object_pool_put", NOT_AN_OBJECT),
    "object-pool-put-after-destroy": ("object_pool_put", NOT_AN_OBJECT_POOL),
    "object-pool-get-after-destroy": ("object_pool_get", NOT_AN_OBJECT_POOL),
    "object-pool-put-after-heap-destroy": ("object_pool_put", NOT_AN_OBJECT_POOL),
    "object-pool-get-after-heap-reset": ("object_pool_get", NOT_AN_OBJECT_POOL),
}
# Seen at once, under TIDEPOOL_OPTIONS=checked=1.
CHECKED_BUGS = {
    "checked-free-twice": ("(pool_)?free", TWICE),
    "write-after-free": (r"(pool_)?\w+", offset(10)),
    "overrun": ("(pool_)?free", offset(100)),
    "overrun-large": ("(pool_)?free", offset(4194296)),
    "overrun-seen-by-realloc": ("(pool_)?realloc", offset(100)),
}


def without_core_file():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def check(program, bug, call, what, options, **environment):
    environment = {**os.environ, "TIDEPOOL_OPTIONS": options, **environment}
    done = subprocess.run([program, bug], stderr=subprocess.PIPE, text=True, errors="replace", timeout=STUCK_SECONDS,
                          check=False, env=environment, preexec_fn=without_core_file)
    assert done.returncode == -signal.SIGABRT, f"standard error: {done.stderr!r}"
    assert re.fullmatch(rf"tidepool: {call}\(0x[0-9a-f]+\): {what}\n", done.stderr)


def cases(bugs, options="", prefix=""):
    """(bug, call, what is said, options of the manager), with the bug for a name."""
    return [pytest.param(bug, prefix + call, what, options, id=bug) for bug, (call, what) in bugs.items()]


CHECKED = cases(CHECKED_BUGS, "checked=1")


@pytest.mark.parametrize("bug, call, what, options", cases(BUGS, prefix="pool_") + cases(POOL_BUGS) + CHECKED)
def test_pool(pytestconfig, bug, call, what, options):
    check(pytestconfig.getoption("--pool-bugs"), bug, call, what, options)


@pytest.mark.parametrize("bug, call, what, options", cases(BUGS) + CHECKED)
def test_malloc(pytestconfig, bug, call, what, options):
    check(pytestconfig.getoption("--malloc-bugs"), bug, call, what, options, LD_PRELOAD=pytestconfig.getoption("--library"))
