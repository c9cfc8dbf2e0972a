# SPDX-License-Identifier: MIT
"""The manager as gdb reads it in a stopped program or a core file: heaps, slabs, magazines, what an address is. Nothing is
called in the program. The commands are in tidepool-gdb.py."""

from collections import namedtuple

from tidepool_granules import Granules
from tidepool_library import WORD_BITS, Library, Memory, address_of, members, number, pointed_at, set_bits, text
from tidepool_objects import pool_around, pools
from tidepool_places import site_frames, where_in_yards

import gdb

SLAB, LARGE, SPARE, REGION = 1, 2, 3, 4  # run_kind_t
UNIT_LOG2 = 16
CHECKED, HEADED = 1 << 4, 1 << 4 | 1 << 5  # of heap_t.flags
FRONT_BITS = 6  # of head_t.freed_and_front


class Head:
    """What stands in front of a block of a heap that is checked or has sites. Its fields are read as bytes: of a million blocks
    that takes a tenth of the time."""

    def __init__(self, memory, kind):
        self.memory, self.kind = memory, kind
        self.at = {field.name: (field.bitpos // 8, field.type.sizeof) for field in kind.fields()}

    def fields(self, start, *names):
        data = self.memory.bytes(start, self.kind.sizeof)
        return [int.from_bytes(data[at:at + size], self.memory.order) for at, size in (self.at[name] for name in names)]


# What an address is: of which heap, or None; the start of its block, or None, and its size; where that was allocated and freed.
Answer = namedtuple("Answer", "heap what start size allocated freed", defaults=(None, 0, (), ()))


# ---- magazines: blocks that are with no caller ----


class Magazines:
    """The entries of all magazines: of threads, and in the depots of bins."""

    def __init__(self, memory):
        self.memory = memory
        self.size = 64 * memory.word
        self.problems = []

    def entries(self, top):
        """From the highest entry down to the word that ends them."""
        blocks = []
        while len(blocks) < 64:
            block = self.memory.address_at(top)
            if not block:
                return blocks
            blocks.append(block)
            top -= self.memory.word
        self.problems.append(f"a magazine at {top:#x} has no end")
        return blocks

    def put_away(self, magazine):
        """A list of magazines, linked by word 0. All are full to their last word."""
        blocks, seen = [], set()
        magazine = int(magazine)
        while magazine and magazine not in seen:
            seen.add(magazine)
            link = self.memory.address_at(magazine)
            blocks += self.entries(magazine + 63 * self.memory.word)
            magazine = link - link % self.size
        return blocks

    def loaded(self, loaded):
        top = number(loaded["top"])
        return [top] + self.entries(number(loaded["below"])) if top else []

    def of_class(self, magazines, size_class):
        if not int(magazines["cache"]):
            return []
        return self.loaded(magazines["cache"]["of"][size_class]) + self.put_away(magazines["of"][size_class]["full"])

    def of_depots(self, depots):
        blocks = []
        shards = number(depots["shards"])
        for shard in range(shards):
            depot = depots["of"][shard] if shard < 4 else depots["more"][shard - 4]
            blocks += self.put_away(depot["newest"])
        return blocks


# ---- the manager ----


class Manager:
    def __init__(self):
        self.library = Library()
        self.default = self.library.default
        self.memory = Memory(self.default["context"].type)
        self.magazines = Magazines(self.memory)
        self.window = self.library.variable("class_map.c", "class_window")
        self.slots = self.library.variable("slots.c", "space_slots")
        self.slot_log2 = 30 if self.memory.word == 8 else 25
        self.head_kind = None
        self.known = {}

    def at(self, kind, address):
        return gdb.Value(address).cast(kind.pointer()).dereference()

    def heap_at(self, address):
        return self.at(self.library.heap, address)

    def bin_at(self, address):
        return self.at(self.default["bins"][0].type.target(), address)

    def heaps(self):
        yield from members(self.default.address)

    def is_default(self, heap):
        return address_of(heap) == address_of(self.default)

    def find_heap(self, words):
        """By its name, by its number in the list, or by an expression."""
        heaps = list(self.heaps())
        named = [heap for heap in heaps if text(heap["name"]) == words.strip('"')]
        if len(named) > 1:
            raise gdb.GdbError(f"{len(named)} heaps have that name: give a number of `tidepool heaps`")
        if named:
            return named[0]
        if words.isdigit() and int(words) < len(heaps):
            return heaps[int(words)]
        try:
            address = pointed_at(words)
        except gdb.error as error:
            raise gdb.GdbError(f"no live heap is called {words}, and as an expression: {error}") from error
        for heap in heaps:
            if address_of(heap) == address:
                return heap
        raise gdb.GdbError(f"no live heap is called {words}, or is there")

    def bins(self, heap):
        for size_class in range(1, number(heap["bins_end"])):
            bin_ = heap["bins"][size_class]
            if int(bin_):
                yield bin_.dereference()

    def slabs(self, bin_):
        seen = set()
        for i in range(6):
            for slab in members(bin_["slabs"][i]):
                if address_of(slab) not in seen:
                    seen.add(address_of(slab))
                    yield slab

    def threads(self):
        yield from members(self.library.variable("thread.c", "live"))
        yield from members(self.library.variable("thread.c", "lost"))

    def magazines_of(self, thread, heap):
        """What a thread has of a heap: none, one, or more while a heap ends."""
        if self.is_default(heap):
            yield thread["default_magazines"]
            return
        chains = thread["chains"]
        for i in range(1 << number(thread["chains_log2"]) if int(chains) else 0):
            for cache in members(chains[i]):
                if int(cache["heap"]) == address_of(heap):
                    yield cache["magazines"]

    def cached(self, bin_):
        """The blocks of a bin that are in magazines."""
        key = address_of(bin_)
        if key not in self.known:
            blocks = []
            if bin_["cached"]:
                blocks = self.magazines.of_depots(bin_["depots"])
                heap = bin_["heap"].dereference()
                for thread in self.threads():
                    for magazines in self.magazines_of(thread, heap):
                        blocks += self.magazines.of_class(magazines, number(bin_["size_class"]))
            self.known[key] = blocks
        return self.known[key]

    def free_in_slab(self, slab):
        words = (number(slab["capacity"]) + WORD_BITS - 1) // WORD_BITS
        return self.memory.bits(int(slab["bitmap"]), words)

    # ---- a heap's blocks ----

    def blocks(self, heap):
        """(start, size) of all that are with a caller, as that knows them."""
        yield from self.of_callers(heap, self.blocks_of_heap(heap))
        for huge in members(heap["huge"], "older"):
            if huge["is_standalone"]:
                yield self.standalone_block(huge)

    def blocks_of_heap(self, heap):
        """(start, size) of all that no magazine has, with what the heap has in front of and behind each; but not of
        standalone ones, which have neither."""
        for bin_ in self.bins(heap):
            cached = set(self.cached(bin_))
            size = number(bin_["block_size"])
            for slab in self.slabs(bin_):
                free, fresh, start = self.free_in_slab(slab), number(slab["fresh"]), int(slab["start"])
                for i in set_bits(~free & ((1 << fresh) - 1), fresh):
                    if start + i * size not in cached:
                        yield start + i * size, size
        for run in members(heap["large"]):
            if number(run["kind"]) == LARGE:
                yield int(run["start"]), number(run["size"])
        for huge in members(heap["huge"], "older"):
            if not huge["is_region"] and not huge["is_standalone"]:
                yield number(huge["range"]["start"]), number(huge["range"]["size"])
        if self.has_granules(heap):
            yield from self.granules(heap).blocks()

    def standalone_block(self, huge):
        record = huge.address.cast(self.library.type("huge.c", "huge_standalone_t").pointer()).dereference()
        return number(record["huge"]["range"]["start"]) + number(record["offset"]), number(record["asked"])

    @staticmethod
    def has_granules(heap):
        return bool(int(heap["region"]["granules"]["map"]))

    def granules(self, heap):
        key = ("granules", address_of(heap))
        if key not in self.known:
            self.known[key] = Granules(self.memory, heap)
        return self.known[key]

    def head(self):
        if self.head_kind is None:
            self.head_kind = Head(self.memory, self.library.type("head.c", "head_t"))
        return self.head_kind

    def of_callers(self, heap, blocks):
        if not number(heap["flags"]) & HEADED:
            yield from blocks
            return
        quarantined = self.quarantined(heap)
        for start, size in blocks:
            if start not in quarantined:
                yield self.without_guard(start, size)

    def without_guard(self, start, usable):
        """A block with a head as its caller knew it; as it is, if its head was written to."""
        size, front, says = self.head().fields(start, "size", "freed_and_front", "usable")
        front = 1 << front % (1 << FRONT_BITS)
        return (start, usable) if says != usable or front < 64 or front + size > usable else (start + front, size)

    def quarantined(self, heap):
        if not number(heap["flags"]) & CHECKED:
            return ()
        key = ("quarantine", address_of(heap))
        if key not in self.known:
            starts, at = set(), int(heap["quarantine"]["first"])
            while at and at not in starts:
                starts.add(at)
                at, = self.head().fields(at, "next")
            self.known[key] = starts
        return self.known[key]

    # ---- an address ----

    def run_around(self, address):
        """The run of the window's arenas, or of a heap's region, that an address is in."""
        slot = (address - number(self.window["start"])) >> self.slot_log2
        if 0 <= slot < number(self.window["extent"]) >> (self.slot_log2 - 4):
            arena = int(self.slots[slot])
            if arena and arena != (1 << self.memory.word * 8) - 1:
                run = self.run_in_arena(self.slots[slot].dereference(), address)
                if run is not None:
                    return run
        for heap in self.heaps():
            region = heap["region"]
            if number(region["kind"]) and int(region["space"]["own_arena"]) and not int(region["granules"]["map"]):
                run = self.run_in_arena(region["space"]["own_arena"].dereference(), address)
                if run is not None and number(run["kind"]) != REGION:
                    return run
        return None

    def run_in_arena(self, arena, address):
        unit = (address - int(arena["base"])) >> UNIT_LOG2
        if not 0 <= unit < number(arena["used_end"]):
            return None
        words = unit // WORD_BITS + 1
        free = self.memory.bits(int(arena["room"]["map"]), words)
        start = self.memory.bits(int(arena["start"]), words) & ((1 << (unit + 1)) - 1)
        if free >> unit & 1 or not start:
            return None
        run = arena["runs"][start.bit_length() - 1]
        inside = address - int(run["start"]) < number(run["units"]) << UNIT_LOG2
        return run if inside and number(run["kind"]) else None

    def huge_around(self, address):
        at = self.library.variable("huge.c", "huge_ranges")
        found = None
        while int(at):
            below = number(at["start"]) <= address
            found = at if below else found
            at = at["right"] if below else at["left"]
        if found is None or address - number(found["start"]) >= number(found["size"]):
            return None
        return found.cast(self.default["huge"].type).dereference()

    def region_heap(self, address):
        """The heap of granules around an address: the one that begins last, since one may lie in another's block."""
        inner = None
        for heap in self.heaps():
            region = heap["region"]
            g = region["granules"]
            if int(g["map"]) and 0 <= address - int(region["base"]) < number(g["count"]) * 16:
                if inner is None or int(region["base"]) > int(inner["region"]["base"]):
                    inner = heap
        return inner

    def where(self, address):
        heap = self.region_heap(address)
        if heap is not None:
            return self.where_in_granules(heap, address)
        run = self.run_around(address)
        if run is not None:
            return self.where_in_run(run, address)
        huge = self.huge_around(address)
        if huge is not None:
            return self.where_in_huge(huge, address)
        found = where_in_yards(self.library, self.heaps(), address)
        return Answer(*found) if found else Answer(None, "not the manager's memory, or not in use")

    def of_user(self, heap, place, start, size):
        """A block that no magazine has and no bit says is free: live or in quarantine, as its caller knows or knew it."""
        if not number(heap["flags"]) & HEADED:
            return Answer(heap, f"live, {place}", start, size)
        block, asked = self.without_guard(start, size)
        kept = start in self.quarantined(heap)
        allocated = freed = ()
        if block != start:
            site, freed_at = self.head().fields(start, "allocated", "freed_and_front")
            allocated = site_frames(self.library, self.memory, site)
            freed = site_frames(self.library, self.memory, freed_at >> FRONT_BITS) if kept else ()
        return Answer(heap, f"{'freed, in quarantine' if kept else 'live'}, {place}", block, asked, allocated, freed)

    def where_in_granules(self, heap, address):
        what, start, size = self.granules(heap).around(address)
        return Answer(heap, what, start, size) if what else self.of_user(heap, "cut from granules", start, size)

    def where_in_huge(self, huge, address):
        owner = int(huge["owner"])
        if not owner:
            return Answer(None, "in a mapping that is kept for the next large block")
        heap = self.heap_at(owner)
        if huge["is_region"]:
            return Answer(heap, "in the region of the heap")
        if not huge["is_standalone"]:
            return self.of_user(heap, "a mapping of its own", number(huge["range"]["start"]), number(huge["range"]["size"]))
        start, size = self.standalone_block(huge)
        found = where_in_yards(self.library, self.heaps(), address)
        return Answer(heap, "live, in pages of its own", start, size, *(found[4:] if found else ()))

    def where_in_run(self, run, address):
        kind = number(run["kind"])
        if kind == SLAB:
            return self.where_in_slab(run, address)
        heap = self.heap_at(int(run["owner"]))
        start, size = int(run["start"]), number(run["size"])
        if kind == LARGE:
            return self.of_user(heap, "a large block", start, size)
        if kind == SPARE:
            return Answer(heap, "freed, a large block that a thread keeps for the next of its length", start, size)
        return Answer(heap, "the region or the records of the heap")

    def where_in_slab(self, slab, address):
        bin_ = self.bin_at(int(slab["owner"]))
        heap = bin_["heap"].dereference()
        size, begin = number(bin_["block_size"]), int(slab["start"])
        i = (address - begin) // size
        start = begin + i * size
        place = f"block {i} of {number(slab['capacity'])} of a slab at {begin:#x}, class of {size} bytes"
        if i >= number(slab["capacity"]):
            return Answer(heap, f"behind the last block of a slab at {begin:#x}")
        if i >= number(slab["fresh"]):
            return Answer(heap, f"never handed out, {place}", start, size)
        if self.free_in_slab(slab) >> i & 1:
            return Answer(heap, f"free, {place}", start, size)
        if start in self.cached(bin_):
            return Answer(heap, f"freed, in a magazine, {place}", start, size)
        return self.of_user(heap, place, start, size)

    # ---- object pools ----

    def pools(self):
        return pools(self.library)

    def pool_around(self, address):
        return pool_around(self.library, address)
