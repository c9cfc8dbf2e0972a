# SPDX-License-Identifier: MIT
"""In what order allocators are run, one after the other.

A run finds what the one before left: huge pages of the machine, which a host has not taken back yet; caches; the processor's
clock. Were the order the same each time, but for where it begins, one allocator would always follow the same other. So mimalloc
2.4.1 found the huge pages for which mimalloc 3 had paid, and took .81 of malloc's time over fourteen programs. In orders of
chance it took 1.05.
"""
import random


def shuffled(items, *of):
    """The items in an order that depends on what it is for, such as a repetition and a case; the same in every session."""
    items = list(items)
    random.Random(repr(of)).shuffle(items)
    return items
