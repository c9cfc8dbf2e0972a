# SPDX-License-Identifier: MIT
"""Where in the program a block was allocated and freed, and the blocks that end at an inaccessible page
(src/debug/guard_area.h), of which that is known when they are gone."""

import os
import re
from itertools import dropwhile

import gdb
from tidepool_library import number, text

CHUNK = 1 << 13  # units of a chunk, sites.c
SITE_UNIT = 8
FRAMES_MOST = 64
GUARD_AREA_LIVE, GUARD_AREA_LEAVING, GUARD_AREA_FREED = 1, 2, 3  # guard_area_state_t
PAGES_LOG2 = range(12, 17)


def site_frames(library, memory, site):
    """The addresses of a site, the innermost first. Its number may be out of a head that was written to."""
    chunks = library.variable("sites.c", "chunks")
    if not 0 < site < number(library.variable("sites.c", "taken")):
        return []
    chunk = int(chunks[site // CHUNK])
    if not chunk:
        return []
    record = chunk + site % CHUNK * SITE_UNIT
    count = memory.number(record + 4, 4)
    return memory.numbers(record + SITE_UNIT, count, memory.word) if count <= FRAMES_MOST else []


def say_place(address):
    """A call, in front of the address that it returns to, in the form of src/debug/places.h."""
    call = address - 1
    named = re.search(r"<(.+)\+(\d+)>|<(.+)>", gdb.Value(call).format_string(format="a"))
    line = gdb.find_pc_line(call)
    file = line.symtab.filename if line.symtab else gdb.solib_name(call) or gdb.current_progspace().filename or ""
    inside = os.path.basename(file) + (f":{line.line}" if line.symtab else "")
    if not named:
        return f"{address:#x}" + (f" ({inside})" if inside else "")
    return f"{named[1] or named[3]}+{int(named[2] or 0) + 1:#x} ({inside})"


def say_places(library, frames):
    """Without the calls inside the library, which lead from the program's to where the stack was taken."""
    def is_inside(frame):
        symtab = gdb.find_pc_line(frame - 1).symtab
        return symtab is not None and library.is_in_sources(symtab)
    return " < ".join(map(say_place, list(dropwhile(is_inside, frames)) or frames))


class Yard:
    def __init__(self, value):
        self.value, self.start = value, int(value["start"])
        self.page = self.page_size() if self.start and number(value["used"]) else 0

    def page_size(self):
        """As the first block says: it is inside of its pages."""
        place = self.value["places"][0]
        first, behind = number(place["page"]), number(place["page"]) + number(place["pages"])
        begin, end = int(place["block"]) - self.start, int(place["block"]) - self.start + number(place["size"])
        return next((1 << log2 for log2 in PAGES_LOG2 if first << log2 <= begin and end <= behind << log2), 0)

    def place_of_page(self, page):
        index = number(self.value["place_of"][page]) if 0 <= page < number(self.value["pages"]) else 0
        return self.value["places"][index - 1] if index else None

    def holds(self, address):
        return self.page and 0 <= address - self.start < number(self.value["pages"]) * self.page

    def place_around(self, address):
        """(the place or None, whether the address is in its pages and not in the one beside)"""
        page = (address - self.start) // self.page
        for near in (page, page - 1, page + 1):
            place = self.place_of_page(near)
            if place is not None:
                return place, near == page
        return None, False


def yards(library):
    return Yard(library.variable("guard_pages.c", "guarded")), Yard(library.variable("guard_pages.c", "sampled"))


def frames_of(place, what):
    return [int(place[what][i]) for i in range(number(place[what + "_count"]))]


def where_in_yards(library, heaps, address):
    """(heap, what, start, size, allocated, freed), or None: in no yard"""
    yard = next((yard for yard in yards(library) if yard.holds(address)), None)
    if yard is None:
        return None
    place, inside = yard.place_around(address)
    if place is None:
        return None, "an inaccessible page, kept for blocks of guarded heaps and samples", None, 0, [], []
    state = "live" if number(place["state"]) == GUARD_AREA_LIVE else "freed"
    name = text(place["name"])
    heap = next((heap for heap in heaps if int(heap.address) == int(place["owner"]) and text(heap["name"]) == name), None)
    what = f"{'' if inside else 'in an inaccessible page beside a block, '}{state}, in pages of its own"
    if state == "freed" and inside:
        what += ", which are inaccessible since"
    if heap is None:
        what += f', of heap "{name}", which has ended'
    return (heap, what, int(place["block"]), number(place["size"]), frames_of(place, "allocated"),
            frames_of(place, "freed") if state == "freed" else [])
