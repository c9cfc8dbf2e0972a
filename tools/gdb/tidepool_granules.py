# SPDX-License-Identifier: MIT
"""Blocks that are cut from granules (src/base/granules.h). The map is read as text, a letter for each granule: a free one is a
0, a block a 0 and ones. A number of so many bits would be shifted as a whole for each block."""

import re

from tidepool_library import number

GRANULE = 16
GRANULE_PAGE = 256
KEPT_LONGEST, KEPT_COUNT = 32, 32000  # granules.h
KEPT_WORDS = (KEPT_LONGEST + 2) // 2
BLOCK = re.compile("01+")


class Granules:
    """Those of a heap, as they are now."""

    def __init__(self, memory, heap):
        region = heap["region"]
        g = region["granules"]
        self.memory, self.g, self.heap = memory, g, heap
        self.base, self.count, self.map = int(region["base"]), number(g["count"]), int(g["map"])
        bits = memory.bits(self.map, (self.count + 2 + 63) // 64) & ((4 << self.count) - 1)
        self.letters = format(bits, f"0{self.count + 2}b")[::-1]
        self.kept_lengths, self.kept = self.read_kept()

    def read_kept(self):
        """Where a block of each length waits for the next request of that length."""
        if self.count < KEPT_COUNT:
            return 0, {}
        words = self.memory.numbers(self.map - 8 - KEPT_WORDS * 8, KEPT_LONGEST + 1, 4)
        return words[0], {length: word - 1 for length, word in enumerate(words) if length and word}

    def is_kept(self, begin, end):
        return self.kept.get(end - begin) == begin

    def all(self):
        """(first granule, the one behind the last) of each block, kept ones too."""
        for match in BLOCK.finditer(self.letters, 0, self.count):
            yield match.span()

    def blocks(self):
        """(start, size) of each that is no kept one."""
        for begin, end in self.all():
            if not self.is_kept(begin, end):
                yield self.base + begin * GRANULE, (end - begin) * GRANULE

    def around(self, address):
        """(what it is, start or None, size); of a block None, its start and its size."""
        i = (address - self.base) // GRANULE
        begin = self.letters.rfind("0", 0, i + 1)
        if begin < 0 or self.letters[begin + 1] == "0":
            fresh = i >= number(self.g["taken_end"])
            return "granules that were never handed out" if fresh else "free granules", None, 0
        end = min(self.letters.find("0", begin + 1), self.count)
        start, size = self.base + begin * GRANULE, (end - begin) * GRANULE
        what = "freed, kept for the next of its length, cut from granules" if self.is_kept(begin, end) else None
        return what, start, size

    def problems(self):
        """R1, R3, R4 and R5. The index of free stretches, R2, is not looked at."""
        g, found = self.g, []
        if self.memory.number(self.map - 8, 8) != (1 << 64) - 1 or self.letters[0] != "0" or self.letters[self.count:] != "01":
            found.append("R1 the end is not where it belongs, or no granule begins at the beginning")
        live = blocks = 0
        kept, pages = set(), set()
        for begin, end in self.all():
            pages.update(range(begin // GRANULE_PAGE, (end - 1) // GRANULE_PAGE + 1))
            if self.is_kept(begin, end):
                kept.add(end - begin)
            else:
                live += end - begin
                blocks += 1
        page_count = (self.count + GRANULE_PAGE - 1) // GRANULE_PAGE
        used = self.memory.bits(int(g["used"]), (page_count + 63) // 64)
        for page in range(page_count):
            if (page in pages) != bool(used >> page & 1):
                found.append(f"R3 the page at {self.base + page * GRANULE_PAGE * GRANULE:#x} is said to be "
                             f"{'unused' if page in pages else 'used'}, and has {'a' if page in pages else 'no'} block")
        if (number(g["live"]), number(g["blocks"])) != (live, blocks):
            found.append(f"R4 {number(g['live'])} live granules and {number(g['blocks'])} blocks are said to be there, and "
                         f"{live} and {blocks} are")
        for length in range(1, KEPT_LONGEST + 1):
            noted = bool(self.kept_lengths >> (length - 1) & 1)
            if noted != (length in self.kept) or noted != (length in kept):
                found.append(f"R5 the kept block of {length * GRANULE} bytes is none")
        return found
