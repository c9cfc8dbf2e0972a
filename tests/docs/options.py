# SPDX-License-Identifier: MIT
"""Where each option of TIDEPOOL_OPTIONS must be named: docs.py manual."""

import re

SOURCE, HEADER, MALLOC_PAGE = "src/option.c", "include/tidepool/pool.h", "docs/tidepool-malloc.1"
POOL_PAGE, DEBUG, PLAIN = "docs/tidepool-pool.3", "docs/debug_library.md", "tests/heap/test_plain.c"
TABLE = re.compile(r"table\[\] = \{(.*?)^\};", re.M | re.S)
ENTRY = re.compile(r'^\s*\{"(\w+)".*?\b(true|false)\}', re.M | re.S)
LINES = {HEADER: r"^ \* .*\b{}\b", MALLOC_PAGE: r"^\.It Cm {} Ns = Ns", POOL_PAGE: r"^\.Cm .*\b{} [,.]"}
DEBUG_LINES = {**LINES, DEBUG: r"^\| .*`{}`", PLAIN: r'\{{"{}", '}   # of those that only the debug library has


def missing_options(root):
    for key, is_debug in ENTRY.findall(TABLE.search((root / SOURCE).read_text())[1]):
        for name, line in (DEBUG_LINES if is_debug == "true" else LINES).items():
            if not re.search(line.format(key), (root / name).read_text(), re.M):
                yield f"{name}: the option {key} is not there"


def self_test(problems_of):
    table = 'entry_t table[] = {\n  {"wet", "0, 1", "so",\n   parse_wet, false},\n  {"deep", "0", "", parse, true},\n};\n'
    good = {SOURCE: table, HEADER: " * wet deep\n", POOL_PAGE: ".Cm wet , deep .\n", DEBUG: "| `deep` | |\n",
            PLAIN: '{"deep", "1"}', MALLOC_PAGE: ".It Cm wet Ns = Ns Cm 0\n.It Cm deep Ns = Ns Cm 0\n"}
    assert not problems_of(good, missing_options)
    for name, keys in {**dict.fromkeys(LINES, ("wet", "deep")), **dict.fromkeys((DEBUG, PLAIN), ("deep",))}.items():
        found = problems_of({**good, name: "wetter\n"}, missing_options)
        assert found == [f"{name}: the option {key} is not there" for key in keys], found
