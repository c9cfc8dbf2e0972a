# SPDX-License-Identifier: MIT
"""Checks that docs/messages.md is what tools/messages makes; that each text in it is one that some test expects; and that the
sources say nothing else.

usage: messages.py ROOT
       messages.py --self-test"""

import importlib.machinery
import importlib.util
import pathlib
import re
import sys

ENDS = re.compile(r"\b(?:fatal|fatal_misuse|fatal_misuse_of_block|fatal_late_misuse|fatal_damage|warn)\(([^;]*?)\);", re.S)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Comments say anything.
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def generator(root):
    loader = importlib.machinery.SourceFileLoader("messages_tool", str(root / "tools/messages"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("messages_tool", loader))
    loader.exec_module(module)
    return module


def texts_in_place(sources):
    """A text that stands in a call, and not in misuse.h: names of calls and of variables have no space."""
    for file, source in sources.items():
        for call in ENDS.findall(COMMENT.sub("", source)):
            for text in STRING.findall(call):
                if " " in text:
                    yield f"{file}: {text!r} is not in misuse.h"


def unused(names, sources):
    everything = "".join(sources.values())
    for name in names:
        if not re.search(rf"\b{name}\b", everything):
            yield f"src/misuse.h: {name} is never said"


def unexpected(texts, tests):
    strings = "\n".join(text for test in tests for text in STRING.findall(test)).replace("\\", "") # of regular expressions
    for text in texts:
        if text.strip() not in strings:
            yield f"src/misuse.h: no test expects {text!r}"


def problems(root):
    tool = generator(root)
    misuse, invalid = (root / "src/misuse.h").read_text(), (root / "src/heap/invalid.h").read_text()
    defined = [pair for pairs, _, _ in tool.misuse_texts(misuse) for pair in pairs]
    sources = {path.relative_to(root).as_posix(): path.read_text() for path in sorted((root / "src").rglob("*.[ch]"))
               if path.name != "misuse.h"}
    tests = [path.read_text() for path in sorted((root / "tests").rglob("*"))
             if path.suffix in {".c", ".cpp", ".h", ".py"} and path.name != "messages.py"]
    if len(defined) < 20 or len(list(tool.invalid_texts(invalid))) < 40:
        yield "hardly a text is found"
    if len(defined) != len(tool.DEFINED.findall(misuse)):
        yield "src/misuse.h: a text has no comment with what to do"
    if invalid.count("\n  TEXT(") != len(list(tool.invalid_texts(invalid))):
        yield "src/heap/invalid.h: a text has nothing to do"
    if "\n".join(tool.page(misuse, invalid)) + "\n" != (root / "docs/messages.md").read_text():
        yield "docs/messages.md is not what tools/messages prints"
    yield from texts_in_place(sources)
    yield from unused((name for name, _ in defined), sources)
    yield from unexpected((text for _, text in defined), tests)


def self_test():
    tool = generator(pathlib.Path(__file__).resolve().parent.parent)
    header = '#define GONE "it is gone"\n/* It went.\n * Do: Look\n * for it. */\n'
    assert list(tool.misuse_texts(header)) == [([("GONE", "it is gone")], "It went.", "Look for it.")]
    text = '  /* of any call */ \\\n  TEXT(ODD, "n is odd", "n is %u, odd", \\\n       "Add 1.")\n'
    assert list(tool.invalid_texts(text)) == [("of any call", "ODD", "n is odd", "n is %u, odd", "Add 1.")]
    assert "| n is N, odd | Add 1. |" in "\n".join(tool.page(header, text))
    assert list(texts_in_place({"a.c": 'fatal("it is gone");'})) == ["a.c: 'it is gone' is not in misuse.h"]
    assert not list(texts_in_place({"a.c": 'fatal_misuse("pool_free", at, GONE); /* warn("so it is"); */'}))
    assert len(list(unused(["GONE"], {"a.c": "NOT_GONE"}))) == 1
    assert len(list(unexpected(["it is gone"], ['/* it is gone */ "it is"']))) == 1
    assert not list(unexpected(["it is gone"], ['"tidepool: f: it is gone"']))


def main():
    if sys.argv[1] == "--self-test":
        self_test()
        return
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()
