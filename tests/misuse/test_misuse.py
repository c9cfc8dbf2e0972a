# SPDX-License-Identifier: MIT
"""A program with a bug must end by abort() after one line on standard error that begins with `tidepool: CALL(0x...): ` and goes
on with what is said of the bug; both are regular expressions."""

import os
import platform
import re
import resource
import signal
import subprocess

import pytest

STUCK_SECONDS = 600
MACHINE = os.environ.get("TESTED_MACHINE") or platform.machine()   # of the programs, which an emulator may run
EMULATOR_SAYS = re.compile(r"^qemu: uncaught target signal .*\n", re.MULTILINE)
NOT_A_BLOCK = "not a block of any heap"
# Its size is not known where its memory has gone back.
BLOCK = r": a block of \d+ bytes( of heap \"heap-\d+\")?"
# Where a checked heap's block is from, and where it was freed: in the program itself, whose functions have names.
PLACE = r"\w+\+0x[0-9a-f]+ \([\w-]+\)"
ALLOCATED = f", allocated by {PLACE}"
ALLOCATED_AND_FREED = f"{ALLOCATED}, freed by {PLACE}"
# A guarded block has some of the callers.
STACK = rf"{PLACE}( < (\w+\+0x[0-9a-f]+ \([\w.+-]+\)|[\w.+-]+\+0x[0-9a-f]+))*"
GUARD_ALLOCATED = f", allocated by {STACK}"
GUARD_ALLOCATED_AND_FREED = f"{GUARD_ALLOCATED}, freed by {STACK}"
TWICE = f"freed twice(, seen late)?({BLOCK})?"
# Its memory may already belong to something else, or to nobody.
EITHER = f"({NOT_A_BLOCK}(, seen late)?|{TWICE})"
EITHER_BEFORE = f"({NOT_A_BLOCK}|already freed({BLOCK})?)"
NOT_AN_OBJECT = 'not a live object of pool "mine"'
NOT_AN_OBJECT_POOL = "not a live object pool"


def offset(number):
    return rf".*\boffset {number} of a block of (100|4194296) bytes( of heap \"heap-\d+\")?"


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
    "free-inside-small": ("free", f"{NOT_A_BLOCK}, seen late"),
    "free-odd-address": ("free", NOT_A_BLOCK),
    "at-once-odd": ("free", NOT_A_BLOCK),
    "at-once-off-by-eight": ("free", NOT_A_BLOCK),
    "at-once-realloc-odd": ("realloc", NOT_A_BLOCK),
    "at-once-twice-small": ("free", "freed twice: a block of 112 bytes"),
    "at-once-twice-medium": ("free", "freed twice: a block of 5120 bytes"),
    "at-once-twice-large": ("free", TWICE),
    "at-once-twice-huge": ("free", "freed twice"),
    "free-inside-medium": ("free", f"{NOT_A_BLOCK}, seen late"),
    "free-inside-large": ("free", NOT_A_BLOCK),
    "free-large-off-by-16": ("free", NOT_A_BLOCK),
    "free-never-allocated": ("free", EITHER),
    "free-twice-in-a-row": ("free", "freed twice: a block of 112 bytes"),
    "free-twice-with-others-between": ("free", "freed twice, seen late: a block of 112 bytes"),
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
    "realloc-freed-large": ("realloc", EITHER_BEFORE),
}
# Of the library's own calls.
POOL_BUGS = {
    "free-block-of-malloc": ("pool_free", NOT_A_BLOCK),
    "realloc-block-of-malloc": ("pool_realloc", NOT_A_BLOCK),
    "free-sized-of-static": ("pool_free_sized", NOT_A_BLOCK),
    "free-batch-with-a-stranger": ("pool_free_batch", NOT_A_BLOCK),
    "free-batch-with-a-block-twice": ("pool_free(_batch)?", TWICE),
    "heap-free-static": ("pool_heap_free", rf'{NOT_A_BLOCK}, given to heap "heap-\d+"'),
    "heap-at-once-twice": ("pool_heap_free", TWICE),
    "heap-at-once-twice-with-a-budget": ("pool_heap_free", TWICE),
    "heap-at-once-twice-uncached": ("pool_heap_free", TWICE),
    "heap-at-once-twice-in-granules": ("pool_heap_free", r'freed twice, given to heap "heap-\d+"'),
    "heap-at-once-odd": ("pool_heap_free", rf'{NOT_A_BLOCK}, given to heap "heap-\d+"'),
    "heap-free-twice": ("pool_heap_free", TWICE),
    "heap-free-after-destroy": ("pool_free", NOT_A_BLOCK),
    "heap-free-after-reset": ("pool_heap_free", rf'({EITHER})(, given to heap "heap-\d+")?'),
    "heap-checked-free-twice": ("pool_heap_free", TWICE + ALLOCATED_AND_FREED),
    "heap-checked-write-after-free": ("exit", offset(10) + ALLOCATED_AND_FREED),
    "heap-checked-overrun": ("pool_heap_free", offset(100) + ALLOCATED),
    "heap-checked-overrun-seen-by-pool-free": ("pool_free", offset(100) + ALLOCATED),
    "object-pool-put-static": ("object_pool_put", NOT_AN_OBJECT),
    "object-pool-put-twice": ("object_pool_put", NOT_AN_OBJECT),
    "object-pool-put-after-destroy": ("object_pool_put", NOT_AN_OBJECT_POOL),
    "object-pool-get-after-destroy": ("object_pool_get", NOT_AN_OBJECT_POOL),
    "object-pool-put-after-heap-destroy": ("object_pool_put", NOT_AN_OBJECT_POOL),
    "object-pool-get-after-heap-reset": ("object_pool_get", NOT_AN_OBJECT_POOL),
}
# Seen at once, under TIDEPOOL_OPTIONS=checked=1.
CHECKED_BUGS = {
    "checked-free-twice": ("(pool_)?free", TWICE + ALLOCATED_AND_FREED),
    "write-after-free": ("exit", offset(10) + ALLOCATED_AND_FREED),
    "overrun": ("(pool_)?free", offset(100) + ALLOCATED),
    "overrun-large": ("(pool_)?free", offset(4194296) + ALLOCATED),
    "overrun-seen-by-realloc": ("(pool_)?realloc", offset(100) + ALLOCATED),
}

AFTER_PUT = 'written to after it was put, at offset 20 of an object of 100 bytes of pool "mine"'
# Of object pools that do not ask for it, under checked=all and guarded=all; of a heap whose blocks end, under check_at_exit=1.
ALL_BUGS = {
    "object-pool-write-after-put": ("object_pool_get", AFTER_PUT),
    "object-pool-write-after-put-at-destroy": ("object_pool_destroy", AFTER_PUT),
    "object-pool-write-after-put-at-exit": ("exit", AFTER_PUT),
    "object-pool-write-after-put-at-heap-destroy": ("pool_heap_destroy", AFTER_PUT),
    "object-pool-write-after-put-at-heap-reset": ("pool_heap_reset", AFTER_PUT),
}
TWICE_LATE = r'freed twice, seen late: a block of 112 bytes of heap "heap-\d+"'
END_BUGS = {
    "heap-destroyed-with-a-block-twice": ("pool_heap_free", TWICE_LATE),
    "heap-reset-with-a-block-twice": ("pool_heap_free", TWICE_LATE),
}
# Under check_at_exit=1; under guarded=1.
EXIT_BUGS = {"exits-with-a-block-twice": ("(pool_)?free", "freed twice, seen late: a block of 112 bytes")}
GUARDED_BUGS = {
    "free-stack": ("(pool_)?free", NOT_A_BLOCK),
    "free-wild": ("(pool_)?free", NOT_A_BLOCK),
    "free-inside-small": ("(pool_)?free", NOT_A_BLOCK),
    "free-inside-large": ("(pool_)?free", NOT_A_BLOCK),
    "free-odd-address": ("(pool_)?free", NOT_A_BLOCK),
    "free-twice-in-a-row": ("(pool_)?free", "freed twice: a block of 100 bytes" + GUARD_ALLOCATED_AND_FREED),
    "free-twice-with-others-between": ("(pool_)?free", "freed twice: a block of 100 bytes" + GUARD_ALLOCATED_AND_FREED),
    "free-twice-in-two-threads": ("(pool_)?free", "freed twice: a block of 100 bytes" + GUARD_ALLOCATED_AND_FREED),
    "free-twice-large": ("(pool_)?free", "freed twice: a block of 4194304 bytes" + GUARD_ALLOCATED_AND_FREED),
    "realloc-freed-large": ("(pool_)?realloc", "already freed: a block of 4194304 bytes" + GUARD_ALLOCATED_AND_FREED),
    "overrun": ("(pool_)?free", offset(100) + GUARD_ALLOCATED),
    "overrun-large": ("(pool_)?free", offset(4194296) + GUARD_ALLOCATED),
    "overrun-seen-by-realloc": ("(pool_)?realloc", offset(100) + GUARD_ALLOCATED),
}
# What the line says of an access that is a fault: the access, the offset, the size, and whether it says who freed the block.
FAULTS = {
    "write-after-free": ("write to", 10, 100, True),
    "read-after-free": ("read of", 10, 100, True),
    "read-past-the-end": ("read of", 112, 100, False),
    "write-of-nothing": ("write to", 0, 0, False),
}
# By what a block is allocated and freed in a program in C++ (kinds.cpp), under checked=1 and guarded=1.
KINDS = {
    "new-free": ("free", "allocated by operator new: a block of 40 bytes"),
    "new-array-free": ("free", r"allocated by operator new\[\]: a block of 40 bytes"),
    "new-realloc": ("realloc", "allocated by operator new: a block of 40 bytes"),
    "malloc-delete": ("operator delete", "allocated by malloc: a block of 40 bytes"),
    "realloc-delete-array": (r"operator delete\[\]", "allocated by malloc: a block of 60 bytes"),
    "new-delete-array": (r"operator delete\[\]", "allocated by operator new: a block of 40 bytes"),
    "new-array-delete": ("operator delete", r"allocated by operator new\[\]: a block of 40 bytes"),
    "nothrow-new-array-delete": ("operator delete", r"allocated by operator new\[\]: a block of 40 bytes"),
    "aligned-new-array-delete": ("operator delete", r"allocated by operator new\[\]: a block of 40 bytes"),
    "new-delete-of-another-size": ("operator delete", "freed with size 72: a block of 40 bytes"),
    "new-array-delete-of-another-size": (r"operator delete\[\]", "freed with size 72: a block of 40 bytes"),
    "aligned-new-delete-of-another-size": ("operator delete", "freed with size 72: a block of 40 bytes"),
    "aligned-new-delete-of-another-alignment": ("operator delete", r"freed with alignment \d+: a block of 40 bytes"),
    "malloc-free-of-another-size": ("free_sized", "freed with size 72: a block of 40 bytes"),
    "aligned-alloc-free-of-another-size": ("free_aligned_sized", "freed with size 72: a block of 64 bytes"),
}

# Calls that take a block: the name of each in calls.c, and what a line says that it was.
TAKING = {
    "free": "pool_free",
    "free-sized": "pool_free_sized",
    "free-batch": "pool_free_batch",
    "realloc": "pool_realloc",
    "realloc-to-nothing": "pool_realloc",
    "resize-in-place": "pool_resize_in_place",
    "usable-size": "pool_usable_size",
    "heap-free": "pool_heap_free",
    "heap-realloc": "pool_heap_realloc",
    "heap-realloc-to-nothing": "pool_heap_realloc",
}
ASKING = {"resize-in-place", "usable-size"}   # they leave the block as it is
FREED_BEFORE = ASKING | {"realloc", "heap-realloc"}   # no second free
ALLOCATING = {
    "heap-alloc": "pool_heap_alloc",
    "heap-zalloc": "pool_heap_zalloc",
    "heap-calloc": "pool_heap_calloc",
    "heap-realloc-of-nothing": "pool_heap_realloc",
    "heap-realloc-that-moves": "pool_heap_realloc",
    "heap-aligned-alloc": "pool_heap_aligned_alloc",
    "object-pool-create": "object_pool_create",
    "object-pool-get": "object_pool_get",
}
ALLOCATING_IN_DEFAULT = {
    "alloc": "pool_alloc",
    "zalloc": "pool_zalloc",
    "calloc": "pool_calloc",
    "realloc-of-nothing": "pool_realloc",
    "aligned-alloc": "pool_aligned_alloc",
    "alloc-batch": "pool_alloc_batch",
    "heap-alloc": "pool_heap_alloc",
    "heap-zalloc": "pool_heap_zalloc",
}
HEAP = 'heap "texture cache"'
ANY_SITES = rf", allocated by {STACK}(, freed by {STACK})?"
OF_ANOTHER = "a block of another heap"
GIVEN = f", given to {HEAP}"
PAST = "written past its end at offset 100 of a block of 100 bytes"
FRONT = "written before its beginning at offset -1 of a block of 100 bytes"
FAR_FRONT = r"written before its beginning at offset -\d+ of a block of \d+ bytes"
AFTER = "written to after it was freed at offset 10 of a block of 100 bytes"


def misused_calls():
    """(call, kind of misuse, what the line names, what it says, options)."""
    for call, name in TAKING.items():
        of_heap = call.startswith("heap-")
        changes = call not in ASKING
        given = GIVEN if of_heap else ""
        freed = "already freed" if call in FREED_BEFORE else "freed twice"
        yield call, "stranger", name, NOT_A_BLOCK + given, ""
        yield call, "inside", name, NOT_A_BLOCK + given, ""
        yield call, "twice", name, f"{freed}: a block of 100 bytes of {HEAP}{ALLOCATED_AND_FREED}", ""
        yield call, "twice-in-zeroing", name, f"{freed}: a block of 112 bytes of {HEAP}", ""
        yield call, "twice-in-default", name, f"{freed}: a block of 100 bytes{ALLOCATED_AND_FREED}", "checked=1"
        if of_heap:
            yield call, "of-another-heap", name, f'{OF_ANOTHER}: a block of 100 bytes of heap "other"{GIVEN}{ALLOCATED}', ""
            yield call, "of-another-zeroing-heap", name, f'{OF_ANOTHER}: a block of 112 bytes of heap "other"{GIVEN}', ""
            yield call, "of-the-default-heap", name, f"{OF_ANOTHER}: a block of 112 bytes of the default heap{GIVEN}", ""
        if changes:
            yield call, "twice-in-plain", name, f"freed twice: a block of 112 bytes of {HEAP}", ""
            for option in ("checked=all", "guarded=all"):
                yield call, "twice-in-plain", name, f"{freed}: a block of 100 bytes of {HEAP}{ANY_SITES}", option
                yield call, "past-the-end-in-plain", name, f"{PAST} of {HEAP}{ANY_SITES}", option
            yield call, "written-while-kept-in-plain", "exit", f"{AFTER} of {HEAP}{ALLOCATED_AND_FREED}", "checked=all"
            yield call, "late", "pool_heap_free", f"freed twice, seen late: a block of 112 bytes of {HEAP}", ""
            yield call, "past-the-end", name, f"{PAST} of {HEAP}{ALLOCATED}", ""
            yield call, "in-front", name, f"{FRONT} of {HEAP}{ALLOCATED}", ""
            yield call, "far-in-front", name, f"{FAR_FRONT} of {HEAP}", ""
            yield call, "written-while-kept", "exit", f"{AFTER} of {HEAP}{ALLOCATED_AND_FREED}", ""
            yield call, "past-the-end-in-default", name, PAST + ALLOCATED, "checked=1"
            yield call, "in-front-in-default", name, FRONT + ALLOCATED, "checked=1"
            yield call, "far-in-front-in-default", name, FAR_FRONT, "checked=1"
            yield call, "written-while-kept-in-default", "exit", AFTER + ALLOCATED_AND_FREED, "checked=1"
    yield "heap-free", "late-of-another-heap", "pool_heap_free", f"{OF_ANOTHER}, seen late{GIVEN}", ""
    for call, name in ALLOCATING.items():
        yield call, "written-after-free", name, f"{AFTER} of {HEAP}{ALLOCATED_AND_FREED}", ""
    for call, name in ALLOCATING_IN_DEFAULT.items():
        yield call, "written-after-free-in-default", name, AFTER + ALLOCATED_AND_FREED, "checked=1"


def without_core_file():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def check(program, bug, call, what, options, **environment):
    environment = {**os.environ, "TIDEPOOL_OPTIONS": options, **environment}
    done = subprocess.run([program, *bug.split()], stderr=subprocess.PIPE, text=True, errors="replace", timeout=STUCK_SECONDS,
                          check=False, env=environment, preexec_fn=without_core_file)
    assert done.returncode == -signal.SIGABRT, f"standard error: {done.stderr!r}"
    assert re.fullmatch(rf"tidepool: {call}\(0x[0-9a-f]+\): {what}\n", EMULATOR_SAYS.sub("", done.stderr))
    # The library's own functions are nowhere that a program allocates or frees.
    assert "libtidepool" not in done.stderr


def cases(bugs, options="", prefix=""):
    """(bug, call, what is said, options of the manager), with the bug for a name."""
    return [pytest.param(bug, prefix + call, what, options, id=bug) for bug, (call, what) in bugs.items()]


CHECKED = cases(CHECKED_BUGS, "checked=1") + cases(EXIT_BUGS, "check_at_exit=1")
ALL = [pytest.param(*case.values, id=f"{case.id} ({option})") for option in ("checked=all", "guarded=all")
       for case in cases(ALL_BUGS, option)]
GUARDED = [pytest.param(*case.values, id=f"{case.id} (guarded)") for case in cases(GUARDED_BUGS, "guarded=1")]


def check_fault(program, bug, access, offset, size, was_freed, **environment):
    environment = {**os.environ, "TIDEPOOL_OPTIONS": "guarded=1", **environment}
    done = subprocess.run([program, bug], stderr=subprocess.PIPE, text=True, errors="replace", timeout=STUCK_SECONDS,
                          check=False, env=environment, preexec_fn=without_core_file)
    assert done.returncode == -signal.SIGSEGV, f"standard error: {done.stderr!r}"
    if MACHINE not in ("x86_64", "i686"):
        access = "use of"
    if MACHINE == "s390x":
        offset = r"-?\d+"   # only the page of the address is known
    freed = ", freed (by .+|before)" if was_freed else ""
    by = rf" by {PLACE}" if MACHINE in ("x86_64", "i686", "aarch64") else "( by .+?)?"
    block = f"at offset {offset} of a block of {size} bytes"
    said = EMULATOR_SAYS.sub("", done.stderr)
    assert re.fullmatch(rf"tidepool: {access} 0x[0-9a-f]+ {block}{by}(, allocated by .+?)?{freed}\n", said)


@pytest.mark.parametrize("bug", FAULTS)
def test_pool_faults(pytestconfig, bug):
    check_fault(pytestconfig.getoption("--pool-bugs"), bug, *FAULTS[bug])


@pytest.mark.parametrize("bug", FAULTS)
def test_malloc_faults(pytestconfig, bug):
    check_fault(pytestconfig.getoption("--malloc-bugs"), bug, *FAULTS[bug], LD_PRELOAD=pytestconfig.getoption("--library"))


@pytest.mark.parametrize("options", ["checked=1", "guarded=1"])
@pytest.mark.parametrize("bug", KINDS)
def test_kinds(pytestconfig, bug, options):
    call, what = KINDS[bug]
    check(pytestconfig.getoption("--kinds"), bug, call, what, options, LD_PRELOAD=pytestconfig.getoption("--library"))


@pytest.mark.parametrize("options", ["", "checked=1", "guarded=1", "guard_sample=1"])
def test_kinds_that_agree(pytestconfig, options):
    environment = {**os.environ, "TIDEPOOL_OPTIONS": options, "LD_PRELOAD": pytestconfig.getoption("--library")}
    done = subprocess.run([pytestconfig.getoption("--kinds"), "none"], stderr=subprocess.PIPE, text=True, timeout=STUCK_SECONDS,
                          check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")



@pytest.mark.parametrize("bug, call, what, options", cases(BUGS, prefix="pool_") + cases(POOL_BUGS) + CHECKED + GUARDED + ALL
                         + cases(END_BUGS, "check_at_exit=1"))
def test_pool(pytestconfig, bug, call, what, options):
    check(pytestconfig.getoption("--pool-bugs"), bug, call, what, options)


@pytest.mark.parametrize("bug, call, what, options", cases(BUGS) + CHECKED + GUARDED)
def test_malloc(pytestconfig, bug, call, what, options):
    check(pytestconfig.getoption("--malloc-bugs"), bug, call, what, options, LD_PRELOAD=pytestconfig.getoption("--library"))


@pytest.mark.parametrize("call, kind, name, what, options", misused_calls())
def test_calls(pytestconfig, call, kind, name, what, options):
    check(pytestconfig.getoption("--misused-calls"), f"{call} {kind}", name, what, options)
