# SPDX-License-Identifier: MIT
"""The manager as gdb reads it in a stopped program or a core file: heaps, slabs, magazines, what an address is. Nothing is
called in the program. The commands are in tidepool-gdb.py."""

import gdb

WORD_BITS = 64
SLAB, LARGE, SPARE, REGION = 1, 2, 3, 4  # run_kind_t
FRONT_BITS = 6  # of head_t.freed_and_front
NO_SYMBOLS = "tidepool has no debug information here: build it with -g, or install its debug symbols"


class Memory:
    """The stopped program: typed reads and words of bits."""

    def __init__(self):
        self.pointer = gdb.lookup_type("void").pointer()
        self.word = self.pointer.sizeof
        self.order = "big" if "big" in gdb.execute("show endian", to_string=True) else "little"

    def bytes(self, address, size):
        return bytes(gdb.selected_inferior().read_memory(address, size))

    def address_at(self, address):
        return int.from_bytes(self.bytes(address, self.word), self.order)

    def bits(self, address, words):
        """A bitmap as one number."""
        return int.from_bytes(self.bytes(address, words * 8), self.order) if words else 0


def variable(name):
    """A variable of the library, static or not."""
    symbol = gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)
    if symbol is None:
        raise gdb.GdbError(NO_SYMBOLS)
    return symbol.value()


def of_type(name, address):
    try:
        return gdb.Value(address).cast(gdb.lookup_type(name).pointer()).dereference()
    except gdb.error as error:
        raise gdb.GdbError(NO_SYMBOLS) from error


def number(value):
    return int(value)


def address_of(value):
    return int(value.address)


def text(array):
    return array.string(errors="replace")


def members(first, link="next"):
    """The records of a list, the first of which is a pointer. A list that leads back is damaged: it ends."""
    seen = set()
    while int(first) and int(first) not in seen:
        seen.add(int(first))
        yield first.dereference()
        first = first.dereference()[link]


def set_bits(bits, end):
    while bits:
        i = (bits & -bits).bit_length() - 1
        if i >= end:
            return
        yield i
        bits &= bits - 1


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

    def put_away(self, magazine, full):
        """A list of magazines, linked by word 0. It also says how far the entries reach where not all are full."""
        blocks, seen = [], set()
        magazine = int(magazine)
        while magazine and magazine not in seen:
            seen.add(magazine)
            link = self.memory.address_at(magazine)
            blocks += self.entries(magazine + (63 if full else link % self.size) * self.memory.word)
            magazine = link - link % self.size
        return blocks

    def loaded(self, loaded):
        top = number(loaded["top"])
        return [top] + self.entries(number(loaded["below"])) if top else []

    def of_class(self, magazines, size_class):
        if not int(magazines["cache"]):
            return []
        return self.loaded(magazines["cache"]["of"][size_class]) + self.put_away(magazines["of"][size_class]["full"], True)

    def of_depots(self, depots):
        blocks = []
        shards = number(depots["shards"])
        for shard in range(shards):
            depot = depots["of"][shard] if shard < 4 else depots["more"][shard - 4]
            blocks += self.put_away(depot["newest"], False)
        return blocks


# ---- the manager ----


class Manager:
    def __init__(self):
        self.memory = Memory()
        self.magazines = Magazines(self.memory)
        self.default = variable("default_heap")
        self.window = variable("class_window")
        self.slots = variable("space_slots")
        self.slot_log2 = 30 if self.memory.word == 8 else 25
        self.cached_blocks = {}

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
        address = int(gdb.parse_and_eval(words))
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
        yield from members(variable("live"))
        yield from members(variable("lost"))

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
        if key not in self.cached_blocks:
            blocks = []
            if bin_["cached"]:
                blocks = self.magazines.of_depots(bin_["depots"])
                heap = bin_["heap"].dereference()
                for thread in self.threads():
                    for magazines in self.magazines_of(thread, heap):
                        blocks += self.magazines.of_class(magazines, number(bin_["size_class"]))
            self.cached_blocks[key] = blocks
        return self.cached_blocks[key]

    def free_in_slab(self, slab):
        words = (number(slab["capacity"]) + WORD_BITS - 1) // WORD_BITS
        return self.memory.bits(int(slab["bitmap"]), words)

    # ---- a heap's blocks ----

    def blocks(self, heap):
        """(start, size) of all that are with a caller."""
        for bin_ in self.bins(heap):
            cached = set(self.cached(bin_))
            size = number(bin_["block_size"])
            for slab in self.slabs(bin_):
                free, fresh, start = self.free_in_slab(slab), number(slab["fresh"]), int(slab["start"])
                for i in set_bits(~free & ((1 << fresh) - 1), fresh):
                    if start + i * size not in cached:
                        yield from self.with_caller(heap, start + i * size, size)
        for run in members(heap["large"]):
            if number(run["kind"]) == LARGE:
                yield from self.with_caller(heap, int(run["start"]), number(run["size"]))
        for huge in members(heap["huge"], "older"):
            yield from self.huge_block(heap, huge)
        yield from self.granules(heap)

    def huge_block(self, heap, huge):
        if not huge["is_region"]:
            yield from self.with_caller(heap, number(huge["range"]["start"]), number(huge["range"]["size"]))

    def granules(self, heap):
        """Blocks that are cut from granules: a 1 is a free one or the first of a block, which zeros follow."""
        region = heap["region"]
        g = region["granules"]
        if not int(g["map"]):
            return
        count = number(g["count"])
        bits = self.memory.bits(int(g["map"]), (count + 2 + WORD_BITS - 1) // WORD_BITS)
        base, at = int(region["base"]), 0
        starts = list(set_bits(bits & ~(bits >> 1), count))
        for at in starts:
            rest = bits >> (at + 1)
            length = (rest & -rest).bit_length() if rest else count - at
            yield from self.with_caller(heap, base + at * 16, length * 16)

    def head(self, heap, start, usable):
        """What stands in front of a block of a heap that is checked or has sites; None: it is no head."""
        head = of_type("head_t", start)
        front, size = 1 << number(head["freed_and_front"]) % (1 << FRONT_BITS), number(head["size"])
        if number(head["usable"]) != usable or front < 64 or front + size > usable:
            return None
        return front, size

    def with_caller(self, heap, start, size):
        """The block as its caller knows it; none, if it is in quarantine."""
        if not heap["headed"]:
            yield start, size
            return
        if start not in self.quarantined(heap):
            yield self.without_guard(heap, start, size)

    def without_guard(self, heap, start, size):
        """A checked heap's block as its caller knew it; as it is, if its head was written to."""
        head = self.head(heap, start, size)
        return (start + head[0], head[1]) if head else (start, size)

    def quarantined(self, heap):
        if not heap["checked"]:
            return ()
        key = ("quarantine", address_of(heap))
        if key not in self.cached_blocks:
            last = int(heap["quarantine"]["last"])
            starts, at = set(), last
            while at and at not in starts:
                starts.add(at)
                at = number(of_type("head_t", at)["next"])
            self.cached_blocks[key] = starts
        return self.cached_blocks[key]

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
            if number(region["kind"]) and int(region["space"]["fixed"]) and not int(region["granules"]["map"]):
                run = self.run_in_arena(region["space"]["fixed"].dereference(), address)
                if run is not None and number(run["kind"]) != REGION:
                    return run
        return None

    def run_in_arena(self, arena, address):
        unit = (address - int(arena["base"])) >> number(arena["unit_log2"])
        if not 0 <= unit < number(arena["used_end"]):
            return None
        words = unit // WORD_BITS + 1
        free = self.memory.bits(int(arena["room"]["map"]), words)
        start = self.memory.bits(int(arena["start"]), words) & ((1 << (unit + 1)) - 1)
        if free >> unit & 1 or not start:
            return None
        run = arena["runs"][start.bit_length() - 1]
        inside = address - int(run["start"]) < number(run["units"]) << number(arena["unit_log2"])
        return run if inside and number(run["kind"]) else None

    def huge_around(self, address):
        at = variable("huge_ranges")
        found = None
        while int(at):
            below = number(at["start"]) <= address
            found = at if below else found
            at = at["right"] if below else at["left"]
        if found is None or address - number(found["start"]) >= number(found["size"]):
            return None
        return found.cast(gdb.lookup_type("huge_t").pointer()).dereference()

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
        """(heap or None, what the address is, start of the block or None, its size)"""
        heap = self.region_heap(address)
        if heap is not None:
            return self.where_in_granules(heap, address)
        run = self.run_around(address)
        if run is not None:
            return self.where_in_run(run, address)
        huge = self.huge_around(address)
        if huge is not None:
            owner = huge["owner"]
            if not int(owner):
                return None, "in a mapping that is kept for the next large block", None, 0
            heap = of_type("heap_t", int(owner))
            for start, size in self.huge_block(heap, huge):
                return heap, "live, a mapping of its own", start, size
            return heap, "in the region of the heap", None, 0
        return None, "not the manager's memory, or not in use", None, 0

    def where_in_granules(self, heap, address):
        for start, size in self.granules(heap):
            if start <= address < start + size:
                return heap, "live, cut from granules", start, size
        return heap, "free granules, or records and guards", None, 0

    def where_in_run(self, run, address):
        kind = number(run["kind"])
        if kind == SLAB:
            return self.where_in_slab(run, address)
        heap = of_type("heap_t", int(run["owner"]))
        start, size = int(run["start"]), number(run["size"])
        if kind == LARGE:
            for start, size in self.with_caller(heap, start, size):
                return heap, "live, a large block", start, size
            return heap, "freed, a large block in quarantine", *self.without_guard(heap, start, size)
        if kind == SPARE:
            return heap, "freed, a large block that a thread keeps for the next of its length", start, size
        return heap, "the region or the records of the heap", None, 0

    def where_in_slab(self, slab, address):
        bin_ = of_type("bin_t", int(slab["owner"]))
        heap = bin_["heap"].dereference()
        size, begin = number(bin_["block_size"]), int(slab["start"])
        i = (address - begin) // size
        start = begin + i * size
        place = f"block {i} of {number(slab['capacity'])} of a slab at {begin:#x}, class of {size} bytes"
        if i >= number(slab["capacity"]):
            return heap, f"behind the last block of a slab at {begin:#x}", None, 0
        if i >= number(slab["fresh"]):
            return heap, f"never handed out, {place}", start, size
        if self.free_in_slab(slab) >> i & 1:
            return heap, f"free, {place}", start, size
        if start in self.cached(bin_):
            return heap, f"freed, in a magazine, {place}", start, size
        state = "freed, in quarantine" if start in self.quarantined(heap) else "live"
        if heap["headed"]:
            start, size = self.without_guard(heap, start, size)
        return heap, f"{state}, {place}", start, size

    # ---- object pools ----

    def pools(self):
        yield from members(variable("all_pools"))

    def pool_around(self, address):
        """(pool, array, position)"""
        for pool in self.pools():
            for a in range(number(pool["array_count"])):
                array = pool["arrays"][a].dereference()
                offset = address - int(array["objects"])
                if 0 <= offset < number(array["capacity"]) * number(pool["stride"]):
                    return pool, array, offset // number(pool["stride"])
        return None

    def object_state(self, pool, array, position):
        if self.memory.bits(int(array["free"]["level"][0]) + position // 64 * 8, 1) >> position % 64 & 1:
            return "free"
        if int(array["busy"]) and self.memory.bits(int(array["busy"]) + position // 64 * 8, 1) >> position % 64 & 1:
            return "busy: a hook runs on it"
        if int(array["laps"]) and not number(array["uses"][position]) >> 31:
            return "free, in a thread's cache"
        hot, start = pool["hot"].dereference(), int(array["objects"]) + position * number(pool["stride"])
        if int(hot["object"]) == start and not number(hot["state"]) & 32:
            return "free, the one that was put last"
        return "live"
