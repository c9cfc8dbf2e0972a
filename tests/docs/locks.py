# SPDX-License-Identifier: MIT
"""Where each lock that a header of src declares must be named: docs.py names."""

import re

LOCK = re.compile(r"^extern (?:INTERNAL )?lock_t (\w+);", re.M)
GATE = re.compile(r"^  (GATE_\w+),", re.M)
KIND = re.compile(r"\b(LOCKS_OF_\w+),")
FORK, TEST = "src/heap/manager.c", "tests/unit/test_fork_locks.c"
OBSERVER = "src/debug/observe.c"   # the locks of the debug library, which manager.c takes by a table
OBJECT_POOLS = "src/object_pool/"   # registry.c takes these
ORDER = re.compile(r"^## The order of locks\n(.*?)(?=^## |\Z)", re.M | re.S)


def missing_locks(root):
    """A fork takes each lock, docs/DESIGN.md has its place, and a test holds it."""
    text_of = {name: (root / name).read_text() for name in (FORK, TEST, OBSERVER)}
    design = ORDER.search((root / "docs/DESIGN.md").read_text())[1]
    for path in sorted((root / "src").rglob("*.h")):
        header, name = path.read_text(), path.relative_to(root).as_posix()
        locks = LOCK.findall(header)
        for lock in locks:
            if f"`{lock}`" not in design:
                yield f"docs/DESIGN.md: the order of locks has no {lock} of {name}"
        taken = OBSERVER if name.startswith("src/debug/") else FORK
        for lock in locks * (not name.startswith(OBJECT_POOLS)) + GATE.findall(header) + KIND.findall(header):
            for where in (taken, TEST):
                if not re.search(rf"\b{lock}\b", text_of[where]):
                    yield f"{where}: there is no {lock} of {name}"


def self_test(problems_of):
    good = {"src/heap/heap.h": "extern lock_t door_lock;\nextern INTERNAL lock_t gate_lock;\n  GATE_LIFE, /* a */\n",
            "src/debug/sites.h": "extern lock_t sites_lock;\n", "src/object_pool/cache.h": "extern lock_t jug_lock;\n",
            "docs/DESIGN.md": "## The order of locks\n`door_lock` `gate_lock` `sites_lock` `jug_lock`\n## More\n",
            FORK: "door_lock gate_lock GATE_LIFE", OBSERVER: "&sites_lock", TEST: "door_lock gate_lock sites_lock GATE_LIFE"}
    assert not problems_of(good, missing_locks)
    for name, expected in {FORK: ["door_lock", "gate_lock", "GATE_LIFE"], OBSERVER: ["sites_lock"],
                           TEST: ["sites_lock", "door_lock", "gate_lock", "GATE_LIFE"],
                           "docs/DESIGN.md": ["sites_lock", "door_lock", "gate_lock", "jug_lock"]}.items():
        found = problems_of({**good, name: "## The order of locks\ndoor_locks"}, missing_locks)
        assert all(f"{lock} of" in problem for lock, problem in zip(expected, found, strict=True)), found
