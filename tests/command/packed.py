# SPDX-License-Identifier: MIT
"""Reads the places of a heap map out of its page."""

import base64
import json
import re

SLAB, LARGE, GRANULES, MAPPINGS = 0, 1, 5, 3


class Packed:
    """The places of a page, as tools/command/map/map_packed.h has them."""

    def __init__(self, text):
        self.data, self.at, self.known = base64.b64decode(re.search(r'const blob="(.*?)";', text)[1]), 0, []
        self.rows = json.loads(re.search(r"const rows=(\[.*?\]);\n", text)[1])
        arenas = re.search(r"const arenas=\[(.*?)\];\nconst", text, re.S)[1]
        self.arenas = [(int(kind), int(count)) for kind, count in re.findall(r"\{kind:(\d+),.*?count:(\d+),", arenas)]
        self.states = {}   # of a row: how many blocks of it are in each
        for kind, count in self.arenas:
            for _ in range(count):
                self.place(kind)
        assert self.at == len(self.data)

    def number(self):
        value, shift = 0, 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def place(self, arena):
        self.number()
        assert self.number() > 0
        kind, row = self.number() & 15, self.number() - 1
        if arena == MAPPINGS:
            self.number()
        if kind in (SLAB, GRANULES):
            capacity, fresh, free, cached = self.number(), self.number(), self.number(), self.number()
            states = self.blocks(capacity, fresh, free, cached)
            sums = self.states.setdefault(row, [0, 0, 0, 0])
            for state in range(4):
                sums[state] += states.count(state)
            assert [states.count(2), states.count(1), states.count(3)] == [free, cached, capacity - fresh]
        elif kind == LARGE:
            self.number()
        self.more()

    def blocks(self, capacity, fresh, free, cached):
        length = self.number()
        end, states = self.at + length, []
        if not length:
            states = [2 if free else 1 if cached else 0] * fresh
        elif self.number():
            pairs = self.data[self.at:end]
            states = [pairs[i // 4] >> i % 4 * 2 & 3 for i in range(fresh)]
            self.at = end
        while length and self.at < end:
            run = self.number()
            states += [run & 3] * (run >> 2)
        assert len(states) == fresh and self.at == end
        return states + [3] * (capacity - fresh)

    def more(self):
        count, length = self.number(), self.number()
        end, index = self.at + length, 0
        for _ in range(count):
            index += self.number()
            self.known.append((index, self.number(), self.number(), self.number()))   # size, age, site and 1
        assert self.at == end
