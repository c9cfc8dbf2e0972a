# SPDX-License-Identifier: MIT
"""gdb knows tidepool's heaps: in a live process, in a core file, and in one of a crash inside the manager itself.

gdb loads this file with libtidepool or libtidepool-malloc if it is installed beside the library, or by hand:

    (gdb) source tidepool-gdb.py

    tidepool heaps            every heap: what it holds, what is live and what threads have cached
    tidepool where ADDRESS    what an address is: of which heap, live or not, which object of which pool
    tidepool blocks HEAP      the live blocks of a heap, which is a name, a number of `tidepool heaps` or an expression
    tidepool check            whether what the manager knows of itself agrees

Nothing is called in the program: its memory is read, so locks do not matter, and of a program that runs on the answer is of the
moment in which it was stopped. The library needs debug information (-g, or the package with the debug symbols)."""

import os
import sys

import gdb

# Where this file is: __file__ is another one's if that one sources this.
sys.path.insert(0, os.path.dirname(os.path.abspath(sys._getframe().f_code.co_filename)))
from tidepool_library import address_of, has_fields, language_of_library, number, pointed_at, text  # noqa: E402
from tidepool_manager import SLAB, Manager  # noqa: E402
from tidepool_objects import live_objects, object_state, times_got  # noqa: E402
from tidepool_places import say_places  # noqa: E402

# ---- what is printed ----


def say_heap(manager, heap):
    return "the default heap" if manager.is_default(heap) else f'heap "{text(heap["name"])}"'


def grouped(n):
    return f"{n:,}"


class Command(gdb.Command):
    """What gdb itself cannot do, such as to find a name or to read memory, is said in a line, without a trace of Python."""

    def invoke(self, argument, from_tty):
        try:
            with language_of_library():
                self.run(argument.strip())
        except gdb.error as error:
            raise gdb.GdbError(str(error)) from error

    def run(self, argument):
        raise NotImplementedError


class Tidepool(gdb.Command):
    """What tidepool's heaps do: `help tidepool` lists the commands."""

    def __init__(self):
        super().__init__("tidepool", gdb.COMMAND_DATA, prefix=True)


class Heaps(Command):
    """tidepool heaps: every heap, what it holds, and how much of that is live and cached."""

    def __init__(self):
        super().__init__("tidepool heaps", gdb.COMMAND_DATA)

    def run(self, argument):
        manager = Manager()
        print(f"{'':>3} {'heap':<32} {'held':>15} {'budget':>15} {'live bytes':>15} {'blocks':>11} {'cached':>11}")
        for i, heap in enumerate(manager.heaps()):
            live = blocks = 0
            for _, size in manager.blocks(heap):
                live += size
                blocks += 1
            cached = sum(len(manager.cached(b)) * number(b["block_size"]) for b in manager.bins(heap))
            budget = number(heap["budget"]["limit"])
            print(f"{i:>3} {text(heap['name']):<32} {grouped(number(heap['budget']['held'])):>15} "
                  f"{grouped(budget) if budget else '-':>15} {grouped(live):>15} {grouped(blocks):>11} {grouped(cached):>11}")
        for pool in manager.pools():
            print(f'object pool "{text(pool["name"])}" in {say_heap(manager, pool["heap"].dereference())}: '
                  f"{number(pool['capacity'])} objects of {number(pool['object_size'])} bytes, {live_objects(pool)} live")


class Where(Command):
    """tidepool where ADDRESS: of which heap it is, whether its block is live, and which object of a pool."""

    def __init__(self):
        super().__init__("tidepool where", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def run(self, argument):
        if not argument:
            raise gdb.GdbError("tidepool where: an address is needed")
        address = pointed_at(argument)
        manager = Manager()
        found = manager.where(address)
        line = f"{address:#x}: "
        if found.start is not None and address != found.start:
            line += f"{address - found.start:+} of {found.start:#x}, "
        line += found.what
        if found.start is not None:
            line += f", {grouped(found.size)} bytes"
        print(line + (f", of {say_heap(manager, found.heap)}" if found.heap is not None else ""))
        for what, frames in ("allocated", found.allocated), ("freed", found.freed):
            if frames:
                print(f"  {what} by {say_places(manager.library, frames)}")
        in_pool = manager.pool_around(address)
        if in_pool:
            pool, array, position = in_pool
            print(f'  object {number(array["first_index"]) + position} of pool "{text(pool["name"])}": '
                  f"{object_state(manager.memory, pool, array, position)}, "
                  f"got {times_got(manager.memory, pool, array, position)} times")


class Blocks(Command):
    """tidepool blocks HEAP [MOST]: its live blocks, at most MOST (200) of them, and the sums by size."""

    def __init__(self):
        super().__init__("tidepool blocks", gdb.COMMAND_DATA)

    def run(self, argument):
        words = argument.rsplit(None, 1)
        most = int(words[1]) if len(words) == 2 and words[1].isdigit() else 200
        name = words[0] if len(words) == 2 and words[1].isdigit() else argument
        if not name:
            raise gdb.GdbError("tidepool blocks: a heap is needed: a name, or a number of `tidepool heaps`")
        manager = Manager()
        heap = manager.find_heap(name.strip())
        sizes = {}
        for i, (start, size) in enumerate(sorted(manager.blocks(heap))):
            if i < most:
                print(f"{start:#x} {size}")
            count, total = sizes.get(size, (0, 0))
            sizes[size] = count + 1, total + size
        print(f"{say_heap(manager, heap)}: {grouped(sum(c for c, _ in sizes.values()))} blocks, "
              f"{grouped(sum(t for _, t in sizes.values()))} bytes live")
        for size, (count, total) in sorted(sizes.items(), key=lambda row: -row[1][1])[:20]:
            print(f"  {grouped(count)} of {grouped(size)} bytes: {grouped(total)}")


class Check(Command):
    """tidepool check: whether bitmaps, counts, magazines and granules agree; of these, all but the index of what
    is free. A program that was stopped inside the manager may be in the middle of a change: what is said may be of that."""

    def __init__(self):
        super().__init__("tidepool check", gdb.COMMAND_DATA)

    def run(self, argument):
        manager, problems, slabs = Manager(), [], 0
        for heap in manager.heaps():
            for bin_ in manager.bins(heap):
                slabs += self.check_bin(manager, heap, bin_, problems)
            if manager.has_granules(heap):
                problems += [f"{say_heap(manager, heap)}: {problem}" for problem in manager.granules(heap).problems()]
        problems += manager.magazines.problems
        for problem in problems:
            print(problem)
        verdict = f"{len(problems)} problems" if problems else "in order"
        print(f"{slabs} slabs of {len(list(manager.heaps()))} heaps: {verdict}")

    @staticmethod
    def check_bin(manager, heap, bin_, problems):
        size, outstanding, count = number(bin_["block_size"]), 0, 0
        where = f"{say_heap(manager, heap)}, class of {size} bytes"
        for slab in manager.slabs(bin_):
            count += 1
            begin, free = int(slab["start"]), manager.free_in_slab(slab)
            capacity, fresh, free_count = (number(slab[f]) for f in ("capacity", "fresh", "free_count"))
            if number(slab["kind"]) != SLAB or int(slab["owner"]) != address_of(bin_):
                problems.append(f"{where}: the slab at {begin:#x} is not the bin's")
            bits = bin(free).count("1")
            if not free_count <= fresh <= capacity or bits != free_count or free >> fresh:
                problems.append(f"{where}: S1 the slab at {begin:#x} has {bits} free bits, a count of {free_count}, "
                                f"fresh {fresh} of {capacity}")
            outstanding += fresh - free_count
        if outstanding != number(bin_["outstanding"]):
            problems.append(f"{where}: B1 {number(bin_['outstanding'])} blocks are said to be out, and {outstanding} are")
        if count != number(bin_["slab_count"]):
            problems.append(f"{where}: {number(bin_['slab_count'])} slabs are said to be there, and {count} are")
        seen = set()
        for block in manager.cached(bin_):
            run = manager.run_around(block)
            if run is None or number(run["kind"]) != SLAB or int(run["owner"]) != address_of(bin_):
                problems.append(f"{where}: C1 a magazine has {block:#x}, which is no block of the class")
                continue
            i, rest = divmod(block - int(run["start"]), size)
            if rest or i >= number(run["fresh"]):
                problems.append(f"{where}: C1 a magazine has {block:#x}, which is no block")
            elif manager.free_in_slab(run) >> i & 1 or block in seen:
                problems.append(f"{where}: S2 {block:#x} was freed twice: it is in a magazine, and free or in another one")
            seen.add(block)
        return count


# ---- values ----


class HeapPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        budget = number(self.value["budget"]["limit"])
        return (f'heap "{text(self.value["name"])}", {grouped(number(self.value["budget"]["held"]))} bytes held'
                + (f" of {grouped(budget)}" if budget else ""))


class ObjectPoolPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return (f'object pool "{text(self.value["name"])}", {number(self.value["capacity"])} objects of '
                f"{number(self.value['object_size'])} bytes, {number(self.value['taken'])} taken")


class HandlePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"object {number(self.value['index'])}, generation {number(self.value['generation'])}"


# By the tag of a struct, with some of its fields: a program may have its own of that name.
PRINTERS = {"pool_heap": (HeapPrinter, ("name", "budget", "mark", "bins")),
            "object_pool": (ObjectPoolPrinter, ("name", "capacity", "object_size", "taken", "busy", "stocks", "hot")),
            "object_pool_handle": (HandlePrinter, ("index", "generation"))}


def printer_of(value):
    kind = value.type.strip_typedefs()
    printer, fields = PRINTERS.get(kind.tag, (None, ())) if kind.code == gdb.TYPE_CODE_STRUCT else (None, ())
    return printer(value) if printer and has_fields(kind, fields) else None


printer_of.__name__ = "tidepool"

for command in (Tidepool, Heaps, Where, Blocks, Check):
    command()
gdb.pretty_printers.append(printer_of)
