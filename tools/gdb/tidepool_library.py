# SPDX-License-Identifier: MIT
"""The library as gdb knows it: its own variables and types, which a program's of the same names do not hide, and the memory of
the stopped program."""

import os
import re
from contextlib import contextmanager

import gdb

WORD_BITS = 64
NO_SYMBOLS = "tidepool has no debug information here: build it with -g, or install its debug symbols"

# Functions of the files in which the variables and types are: they lead to those. A program may have one of these names, too.
FILES = {"manager.c": ("manager_bring_up",), "class_map.c": ("class_map_set", "window_open"),
         "slots.c": ("slots_set", "space_arena_at"), "huge.c": ("huge_take", "huge_give"),
         "thread.c": ("threads_first", "threads_visit"),
         "registry.c": ("registry_enter", "registry_leave"), "guard_pages.c": ("guard_pages_look", "guard_pages_begin_if"),
         "head.c": ("head_look", "head_open"), "sites.c": ("site_of_caller", "site_frames")}


class Memory:
    """The stopped program: typed reads and words of bits."""

    def __init__(self, pointer):
        self.pointer = pointer
        self.word = pointer.sizeof
        self.order = "big" if "big" in gdb.execute("show endian", to_string=True) else "little"

    def bytes(self, address, size):
        return bytes(gdb.selected_inferior().read_memory(address, size))

    def number(self, address, size):
        return int.from_bytes(self.bytes(address, size), self.order)

    def numbers(self, address, count, size):
        data = self.bytes(address, count * size) if count else b""
        return [int.from_bytes(data[i:i + size], self.order) for i in range(0, len(data), size)]

    def address_at(self, address):
        return self.number(address, self.word)

    def bits(self, address, words):
        """A bitmap of words of 64 bits as one number."""
        if self.order == "little":
            return int.from_bytes(self.bytes(address, words * 8), "little") if words else 0
        return sum(word << i * WORD_BITS for i, word in enumerate(self.numbers(address, words, 8)))


class Library:
    """The symbols of one library, which may be a shared one or a part of the program. All are looked for in the library's own
    files, by reading what is in these: gdb.lookup_symbol(name, block) asks the language of the program, whose rules may be
    others."""

    def __init__(self):
        self.files = {}
        for self.objfile in gdb.objfiles():
            if self.has_file("manager.c"):
                symbol = next((s for s in self.symbols("manager.c", "default_heap")
                               if s.is_variable and has_fields(s.type, ("mark", "budget", "bins"))), None)
                if symbol is not None:
                    self.heap = symbol.type.strip_typedefs()
                    self.default = self.own_value(symbol)
                    return
                self.files.clear()
        raise gdb.GdbError(NO_SYMBOLS)

    def is_in_sources(self, symtab):
        """Whether a file is one of the library's own."""
        own = self.function("manager.c").symtab.fullname()
        return symtab.fullname().startswith(os.path.dirname(os.path.dirname(own)) + os.sep)

    def variable(self, file, name):
        return self.own_value(self.first(file, name, lambda symbol: symbol.is_variable))

    def type(self, file, name):
        return self.first(file, name, lambda symbol: symbol.addr_class == gdb.SYMBOL_LOC_TYPEDEF).type.strip_typedefs()

    def has_file(self, file):
        """A program that is linked with the library has of it what it uses."""
        return self.function(file) is not None

    def function(self, file):
        return next(filter(None, map(self.objfile.lookup_global_symbol, FILES[file])), None)

    def symbols(self, file, name):
        if file not in self.files:
            self.files[file] = {}
            for function in filter(None, map(self.objfile.lookup_global_symbol, FILES[file])):
                for block in function.symtab.static_block(), function.symtab.global_block():
                    for symbol in block:
                        self.files[file].setdefault(symbol.name, []).append(symbol)
        return self.files[file].get(name, ())

    def first(self, file, name, fits):
        for symbol in self.symbols(file, name):
            if fits(symbol):
                return symbol
        raise gdb.GdbError(NO_SYMBOLS)

    def own_value(self, symbol):
        """gdb takes a variable of a shared library that is not static for the program's variable of that name, if there is one:
        the program might have a copy. None of ours is seen outside."""
        value = symbol.value()
        function = self.function("manager.c")
        if gdb.solib_name(int(value.address)) == gdb.solib_name(int(function.value().address)):
            return value
        listed = gdb.execute(f"maintenance print msymbols -objfile {symbol.symtab.objfile.filename}", to_string=True)
        found = re.search(rf"\b0x([0-9a-f]+) {re.escape(symbol.name)}\b", listed)
        return gdb.Value(int(found[1], 16)).cast(symbol.type.pointer()).dereference() if found else value


def has_fields(kind, names):
    """Whether a struct is ours, and no other one with its name."""
    kind = kind.strip_typedefs()
    return kind.code == gdb.TYPE_CODE_STRUCT and set(names) <= {field.name for field in kind.fields()}


def number(value):
    return int(value)


def address_of(value):
    return int(value.address)


def text(array):
    """Of characters with a zero at their end, in any language."""
    if array.address is None:
        return array.string(errors="replace")
    characters = bytes(gdb.selected_inferior().read_memory(address_of(array), array.type.sizeof))
    return characters.split(b"\0")[0].decode(errors="replace")


LANGUAGES = []  # that users have set


def set_language(language):
    gdb.execute(f"set language {language}", to_string=True)


@contextmanager
def language_of_library():
    """What a pointer may be asked for differs from one language to another: in Ada, no element."""
    LANGUAGES.append(gdb.parameter("language"))
    try:
        set_language("c")
        yield
    finally:
        set_language(LANGUAGES.pop())


def evaluated(expression):
    """As the user's language has it."""
    try:
        set_language(LANGUAGES[-1])
        return gdb.parse_and_eval(expression)
    finally:
        set_language("c")


def pointed_at(expression):
    """The address that a user means: of a pointer or a number its value, of a thing that is no number where it is."""
    value = evaluated(expression)
    if value.type.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        value = value.referenced_value()
    kind = value.type.strip_typedefs().code
    if kind in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ARRAY, gdb.TYPE_CODE_FUNC):
        if value.address is None:
            raise gdb.GdbError(f"{expression} has no address")
        value = value.address
    return int(value) & ((1 << 64) - 1)


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
