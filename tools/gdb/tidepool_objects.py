# SPDX-License-Identifier: MIT
"""Object pools: their figures, and what an object of one is."""

from tidepool_library import members, number

USES_LIVE = 1 << 31  # object_pool/array.h
HOT_FREE, HOT_LIVE, HOT_PUTS_SHIFT = 16, 32, 6  # object_pool/array.h


def pools(library):
    """A program that is linked with the library may have none of it that is about object pools."""
    return members(library.variable("registry.c", "all_pools")) if library.has_file("registry.c") else ()


def live_objects(pool):
    """Those that have a user. The pool counts as taken what threads have in their caches, too, and the free one put last."""
    not_live = number(pool["busy"])
    if int(pool["hot"]):
        not_live += bool(number(pool["hot"]["state"]) & HOT_FREE)
    for stock in members(pool["stocks"]):
        not_live += number(stock["count"])
        if int(stock["cache"]):
            not_live += number(stock["cache"]["hot_is_free"])
    return max(number(pool["taken"]) - not_live, 0)


def pool_around(library, address):
    """(pool, array, position)"""
    for pool in pools(library):
        for a in range(number(pool["array_count"])):
            array = pool["arrays"][a].dereference()
            offset = address - int(array["objects"])
            if 0 <= offset < number(array["capacity"]) * number(pool["stride"]):
                return pool, array, offset // number(pool["stride"])
    return None


def bit(memory, bitmap, i):
    return bool(memory.bits(int(bitmap) + i // 64 * 8, 1) >> i % 64 & 1)


def is_hot(pool, array, position):
    return int(pool["hot"]["object"]) == int(array["objects"]) + position * number(pool["stride"])


def object_state(memory, pool, array, position):
    if bit(memory, array["free"]["level"][0], position):
        return "free"
    if int(array["busy"]) and bit(memory, array["busy"], position):
        return "busy: a hook runs on it"
    if int(array["laps"]) and not number(array["uses"][position]) & USES_LIVE:
        return "free, in a thread's cache"
    if is_hot(pool, array, position) and not number(pool["hot"]["state"]) & HOT_LIVE:
        return "free, the one that was put last"
    return "live"


def times_got(memory, pool, array, position):
    """Without laps uses are gets; with laps they are puts, and their highest bit is one more get. The hot one has its own."""
    if is_hot(pool, array, position):
        state = number(pool["hot"]["state"])
        return (state >> HOT_PUTS_SHIFT) + bool(state & HOT_LIVE)
    uses = number(array["uses"][position])
    if not int(array["laps"]):
        return uses
    return uses % USES_LIVE + uses // USES_LIVE + USES_LIVE * bit(memory, array["laps"], position)
