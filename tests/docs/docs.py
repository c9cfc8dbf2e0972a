# SPDX-License-Identifier: MIT
"""Checks the documentation against the source.

usage: docs.py links ROOT       relative links and their headings
       docs.py names ROOT       files, functions and invariants that the texts name exist; nothing is left out
       docs.py prose ROOT       lines and paragraphs are short, and the README as a whole
       docs.py manual ROOT      every public function and option is in the manual pages
       docs.py example ROOT     prints the C program of README.md
       docs.py example-cpp ROOT prints the C++ program of docs/heaps.md
       docs.py self-test"""

import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True   # the source tree stays as it is
import folders
import locks
import options
import pages

SKIPPED = re.compile(r"(^|/)(\.|build|bench-results|subprojects)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,}")
FILE = re.compile(r"[\w./-]+\.(?:c|h|hpp|cc|cpp|py|inc|map|golden|build|md)$")
INVARIANT = re.compile(r"\b[A-Z][0-9]\b")
STATED = re.compile(r"^(?: \*\s+|/\* )([A-Z][0-9]) ", re.M)
# docs/experiments.md is not among them: what it names may be gone.
NAMING = ["docs/DESIGN.md", "CONTRIBUTING.md", "README.md"]   # and those of src and tests/check
LINE_MOST = 100
SOURCE_MOST = 128
PARAGRAPH_MOST = 6
README_MOST = 1000   # words, as wc counts them: code and tables too
GENERATED = re.compile(r"<!-- bench begin -->.*?<!-- bench end -->", re.S)   # by bench/report.py
# A table, a heading, a comment; an item of a list; code, where no item is continued.
NO_PROSE = re.compile(r"[|#]|<!--")
ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s")
INDENTED = re.compile(r" {4}|\t")
CPP_HEADER = "include/tidepool/tidepool.hpp"
CPP_MANUAL = "tidepool-cpp.3"
CPP_CLASS = re.compile(r"^(?:template <[^{;]*> )?class (?:POOL_API )?(\w+)[^;]*\{$")
CPP_FUNCTION = re.compile(r"^  [\w\[].*? [*&]?(\w+)\(.*\)(?: const)?(?: noexcept\b.*)?(?: \{.*|;)?$")
CPP_WITHIN = ("carrier", "carrying", "unused_place")   # classes of the namespace detail of which no public one inherits


def texts(root):
    return [path for path in sorted(root.rglob("*.md")) if not SKIPPED.search(path.relative_to(root).as_posix())]


def anchor(heading):
    heading = LINK.sub("]", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def anchors(path):
    return {anchor(h) for h in re.findall(r"^#+ (.*)$", CODE_BLOCK.sub("", path.read_text()), re.M)}


def broken_links(root):
    for path in texts(root):
        for target in LINK.findall(CODE_BLOCK.sub("", path.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, heading = target.partition("#")
            file = (path.parent / name) if name else path
            if not file.exists():
                yield f"{path.relative_to(root)}: {target} does not exist"
            elif heading and heading not in anchors(file):
                yield f"{path.relative_to(root)}: {target}: no such heading"


def source_files(root):
    folders = ["src", "include", "tests", "tools", "bench", "examples"]
    named = [path for folder in folders if (root / folder).is_dir() for path in sorted((root / folder).rglob("*"))]
    return [path for path in named + list(root.glob("meson*")) if path.is_file() and path.suffix not in (".md", ".pyc")]


def words(root):
    """Every word of the source, but not of this file."""
    found = set()
    for path in source_files(root):
        if path.parent.name != "docs":
            found |= set(re.findall(r"\w+", path.read_text(errors="replace")))
    return found


def stale_code(root):
    """The C of CONTRIBUTING is the source's, to the letter."""
    sources = "".join(path.read_text() for path in sorted((root / "src").rglob("*.[ch]")))
    for block in re.findall(r"^```c\n(.*?)^```", (root / "CONTRIBUTING.md").read_text(), re.M | re.S):
        if block.rstrip() not in sources:
            yield f"CONTRIBUTING.md: no source has this: {block.splitlines()[0]}"


def is_file(root, text, name):
    places = (".", "src", "include/tidepool", "tests", "tests/unit", "docs", pathlib.PurePath(text).parent)
    return any((root / place / name).exists() for place in places)


def unknown_names(root):
    known, files = words(root), {path.name for path in source_files(root)}
    for text in NAMING + [path.relative_to(root).as_posix() for path in folders.readmes(root)]:
        content = CODE_BLOCK.sub("", (root / text).read_text())
        for span in SPAN.findall(content):
            if "NAME" in span:
                continue
            if FILE.match(span):
                if not is_file(root, text, span) and span not in files:
                    yield f"{text}: there is no file {span}"
            elif not re.search(r"[/ =%-]", span.replace("->", ".")):
                for name in IDENTIFIER.findall(span):
                    if name not in known:
                        yield f"{text}: `{span}`: the source has no {name}"


def stated_invariants(root):
    return {name: path.name for path in sorted((root / "src").rglob("*.h")) for name in STATED.findall(path.read_text())}


def wrong_invariants(root):
    stated, design = stated_invariants(root), (root / "docs/DESIGN.md").read_text()
    named = set(INVARIANT.findall(design))
    check = "".join(file.read_text() for file in sorted((root / "tests/check").glob("*.c")))
    for name in sorted(named - set(stated)):
        yield f"docs/DESIGN.md: no header of src states {name}"
    for name in sorted(set(stated) - named):
        yield f"docs/DESIGN.md: {name} of {stated[name]} is not there"
    for name, row in re.findall(r"^\| ([A-Z][0-9]) \| (.*)$", design, re.M):
        if f'"{name}"' not in check:
            yield f"tests/check does not assert {name}"
        if f"`{stated.get(name)}`" not in row:
            yield f"docs/DESIGN.md: {name} is stated in {stated.get(name)}"
        for function in re.findall(r"`(\w+)`", row.rsplit("|", 2)[1]):
            if not re.search(rf"\b{function}\(", check):
                yield f"docs/DESIGN.md: {name}: tests/check has no {function}"


# Where each figure of pool_stats_t has its line. The command reports neither of two, which only pool_heap_largest() explains.
NOT_REPORTED = {"largest_free", "fragmentation"}
FIGURES = {
    "src/api/stats.c": set(), "docs/heaps.md": set(), "docs/tidepool-stats.3": set(), "bindings/rust/src/sys.rs": set(),
    "bindings/rust/src/stats.rs": set(), "tests/unit/json.c": set(),
    "bindings/rust/tests/interface.rs": set(), "tools/command/live/report.c": NOT_REPORTED,
    "tests/command/test_report.py": NOT_REPORTED,
}


def missing_figures(root):
    """A figure that is added is added everywhere."""
    header = re.sub(r"/\*.*?\*/", "", (root / "include/tidepool/stats.h").read_text(), flags=re.S)
    fields = re.findall(r"(\w+);", re.search(r"struct pool_stats \{(.*?)\}", header, re.S)[1])
    for name, without in FIGURES.items():
        words = set(re.findall(r"\w+", (root / name).read_text()))
        for field in fields:
            if field not in words and field not in without:
                yield f"{name}: no figure {field}"


def public_names_of_cpp(text):
    """Classes outside of the namespace detail, and public functions of all classes but constructors and operators."""
    of, public, detail = "", False, False
    for line in text.splitlines():
        of_class, of_function = CPP_CLASS.match(line), CPP_FUNCTION.match(line)
        if line in ("namespace detail {", "}  // namespace detail"):
            detail = not line.startswith("}")
        elif of_class:
            of, public = of_class[1], False
            if not detail:
                yield of
        elif re.match(r" (public|private|protected):", line):
            public = "public" in line
        elif public and of_function and of not in CPP_WITHIN and not re.search(rf"friend|operator|^  (explicit )?{of}\(", line):
            yield of_function[1]


def missing_from_cpp_manual(root):
    manual = (root / "docs" / CPP_MANUAL).read_text()
    for name in sorted(set(public_names_of_cpp((root / CPP_HEADER).read_text()))):
        if not re.search(rf"\b{name}\b", manual):
            yield f"docs/{CPP_MANUAL}: {name} of {CPP_HEADER} is not there"


def missing_from_manual(root):
    page = (root / "docs/tidepool-malloc.1").read_text()
    for name in re.findall(r"\b(?!__)([a-z]\w+);", (root / "src/tidepool-malloc.map").read_text().split("_Zn")[0]):
        if not name.startswith("__libc") and f".Fn {name}" not in page:
            yield f"docs/tidepool-malloc.1: {name} is not there"


def blank(match):
    return "\n" * match[0].count("\n")


def blocks_of(text):
    """(number of its first line, its lines) of each paragraph and each item of a list."""
    block, start, in_list = [], 0, False
    for number, line in enumerate(GENERATED.sub(blank, CODE_BLOCK.sub(blank, text)).splitlines() + [""], 1):
        is_item = ITEM.match(line)
        if block and (not line.strip() or is_item or NO_PROSE.match(line)):
            yield start, block
            block = []
        if line.strip() and not line.startswith(" "):
            in_list = bool(is_item)
        if block or line.strip() and not NO_PROSE.match(line) and (is_item or in_list or not INDENTED.match(line)):
            start = start if block else number
            block.append(line)


def can_be_wrapped(line):
    return " " in line[:LINE_MOST + 1].strip()


def long_prose(root):
    for path in texts(root):
        for start, block in blocks_of(path.read_text()):
            where = path.relative_to(root)
            for number, line in enumerate(block, start):
                if len(line) > LINE_MOST and can_be_wrapped(line):
                    yield f"{where}:{number}: {len(line)} columns, more than {LINE_MOST}"
            if len(block) > PARAGRAPH_MOST and not ITEM.match(block[0]):
                yield f"{where}:{start}: a paragraph of {len(block)} lines, more than {PARAGRAPH_MOST}"


def long_readme(root):
    words_of_readme = len((root / "README.md").read_text().split())
    if words_of_readme > README_MOST:
        yield f"README.md: {words_of_readme} words, more than {README_MOST}"


def rows_of(text, mark):
    """The rows of all tables of a text, after a mark, without the space around cells."""
    lines = text.partition(mark)[2].splitlines()
    return [[cell.strip(" *") for cell in line.strip().strip("|").split("|")] for line in lines if line.startswith("|")]


def other_figures(root):
    """The README's figures of instructions are those of docs/performance.md, row by row."""
    readme = rows_of((root / "README.md").read_text(), "## Measured")
    published = rows_of((root / "docs/performance.md").read_text(), "<!-- measured begin -->")
    for row in readme:
        if row not in published:
            yield f"README.md: docs/performance.md has no row {' | '.join(row)}"
    if not readme:
        yield "README.md: there are no figures under Measured"


def wide_headers(root):
    for path in sorted((root / "include").rglob("*.h*")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > SOURCE_MOST:
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns, more than {SOURCE_MOST}"


def example(root, text, language):
    blocks = re.findall(rf"^```{language}\n(.*?)^```", (root / text).read_text(), re.M | re.S)
    return next(block for block in blocks if "int main(" in block)


JUG_HEADER = "include/tidepool/jug.h"
JUG = '''typedef struct jug {
  int water;
} jug_t;
POOL_API void jug_fill(jug_t *jug) POOL_NAME(jug_fill);
/* static inline int jug_in_a_comment(void) */
static inline int jug_pour(jug_t *jug) { return jug_inner(jug); }
static inline int jug_inner(jug_t *jug) { return jug->water; }
#define JUG_HOOKS(NAME) \\
#define POOL_HEAP_JUG 1
'''
JUG_PAGE = '''.Sh NAME
.Nm tidepool-jug ,
.Nm jug_fill ,
.Nm jug_pour ,
.Nm JUG_HOOKS
.Sh SYNOPSIS
.In tidepool/jug.h
.Fn jug_fill "jug_t *jug"
.Fn jug_pour "jug_t *jug"
.Fn JUG_HOOKS NAME
.Sh DESCRIPTION
water POOL_HEAP_JUG
.It Fn jug_fill , Fn jug_pour
.It Fn JUG_HOOKS
.Sh SEE ALSO
.Xr tidepool 3
'''
GOOD = {
    "README.md": "# A\n[b](docs/DESIGN.md#the-b)\n`bin_take` `slab.h`\n| no | 1 |\n## Measured\n|pair|**2**|\n"
                 + "\nw w w w w w\n" * 160,
    "docs/performance.md": "| no | 1 |\n<!-- measured begin -->\n| pair | 2 |\n",
    # Code, a table, what is generated, a word that is too long, a list of many lines, a paragraph before it.
    "docs/prose.md": "```\n" + "code " * 30 + "\n```\n| " + "cell " * 30 + "|\n\n    " + "code " * 30
                     + "\n\n<!-- bench begin -->\n" + "word " * 30 + "\n<!-- bench end -->\n\n" + "w" * 120 + "\n\n"
                     + "a line\n" * 6 + "- an item\n" + "  of it\n" * 9,
    "docs/DESIGN.md": "# D\n## The `b`\n## Invariants\n| A1 | x | `slab.h` | `check_a` |\n[e](experiments.md#depots)\n",
    "docs/experiments.md": "# E\n## Depots\n`gone_name`\n[d](DESIGN.md#the-b)\n",
    "CONTRIBUTING.md": "`bin_take`\n```c\nvoid bin_take(void);\n```\n",
    "src/README.md": "`bin/slab.h` `missing_c`\n| call |\n| `bin_take` | `gone_file` |\n"
                     "| file |\n| `all.map`, `meson.build` | x |\n",
    "src/all.map": "gone_file\n",
    "src/meson.build": "",
    "src/bin/README.md": "# bin\n| file |\n|---|\n| `slab.h` | x |\n| `hot/ask.c`: `hot/told.c` | x |\n",
    "src/bin/hot/ask.c": "",
    "src/bin/hot/told.c": "",
    "tests/check/README.md": "# check\n| file |\n| `check.c` | x |\n",
    "src/bin/slab.h": "/*\n *   A1 holds\n */\nvoid bin_take(void); int missing_c;\n",
    "src/bin/slab.c": "",
    "tests/check/check.c": 'void check_a(void) { say("A1"); }\n',
    "docs/tidepool-cpp.3": ".Sh NAME\n.Nm tidepool-cpp\n.Sh SYNOPSIS\n.In tidepool/tidepool.hpp\npail fill\n.Xr tidepool 3\n",
    "docs/tidepool.3": ".Sh NAME\n.Nm tidepool\n.Sh SEE ALSO\n.It Xr tidepool-cpp 3\n.Xr tidepool-jug 3 ,\n",
    "docs/tidepool-jug.3": JUG_PAGE,
    JUG_HEADER: JUG,
    "include/tidepool/visibility.h": "",
    CPP_HEADER: "class pail {\n public:\n  pail(int size);\n  void fill(int water);\n private:\n  void leak();\n};\n",
}
WORDS = "words " * 16   # 96 columns
PARAGRAPH = "a line\n" * PARAGRAPH_MOST
BAD = [
    ("README.md", f"# A\n\n{WORDS}and more\n", long_prose, "README.md:3: 104 columns, more than 100"),
    ("README.md", f"- item\n  {WORDS}more\n", long_prose, "README.md:2: 102 columns"),
    ("README.md", f"- item\n\n    {WORDS}more\n", long_prose, "README.md:3: 104 columns"),
    ("README.md", f"```\n{WORDS}more\n```\n{WORDS}and more\n", long_prose, "README.md:4: 104 columns"),
    ("include/pool.h", f"int a;\n/* {WORDS}{WORDS}*/\n", wide_headers, "include/pool.h:2: 197 columns, more than 128"),
    ("README.md", f"| a |\n{PARAGRAPH}more\n", long_prose, "README.md:2: a paragraph of 7 lines, more than 6"),
    ("README.md", "a word\n" * 501, long_readme, "README.md: 1002 words, more than 1000"),
    ("README.md", "## Measured\n|pair|1|\n", other_figures, "README.md: docs/performance.md has no row pair | 1"),
    ("README.md", "## Measured\n|no|1|\n", other_figures, "README.md: docs/performance.md has no row no | 1"),
    ("README.md", "|pair|2|\n## Measured\n", other_figures, "README.md: there are no figures"),
    ("README.md", "[b](docs/NONE.md)", broken_links, "does not exist"),
    ("README.md", "[b](docs/DESIGN.md#c)", broken_links, "no such heading"),
    ("README.md", "`bin_took()`", unknown_names, "no bin_took"),
    ("README.md", "`slob.c`", unknown_names, "no file slob.c"),
    ("docs/DESIGN.md", "## What was tried\n`gone_name`\n## End\n", unknown_names, "no gone_name"),
    ("docs/experiments.md", "# E", broken_links, "no such heading"),
    ("docs/experiments.md", "[d](DESIGN.md#c)", broken_links, "no such heading"),
    ("docs/DESIGN.md", "A1 and A2", wrong_invariants, "no header of src states A2"),
    ("src/bin/slab.h", "/*\n *   A1 holds\n *   A2 too\n */", wrong_invariants, "A2 of slab.h"),
    ("tests/check/check.c", "void check_a(void) {}", wrong_invariants, "tests/check does not assert A1"),
    ("tests/check/check.c", 'void check_b(void) { say("A1"); }', wrong_invariants, "no check_a"),
    ("src/more.c", "", folders.unlisted_sources, "src/README.md: more.c has no line"),
    ("src/bin/more.c", "", folders.unlisted_sources, "src/bin/README.md: more.c has no line"),
    ("src/bin/hot/more.c", "", folders.unlisted_sources, "src/bin/README.md: hot/more.c has no line"),
    ("tests/check/more.h", "", folders.unlisted_sources, "tests/check/README.md: more.h has no line"),
    ("src/bin/README.md", "`slab.h` `hot/ask.c` `hot/told.c`\n", folders.unlisted_sources, "README.md: slab.h has no line"),
    ("src/bin/README.md", "| file |\n| `ask.c` | x |\n", folders.unlisted_sources, "a line is of ask.c, which is not there"),
    ("src/bin/README.md", "# bin\n`slob.c`\n", unknown_names, "src/bin/README.md: there is no file slob.c"),
    ("src/bin/README.md", "a line\n" * 41, folders.long_readmes, "src/bin/README.md: 41 lines, more than 40"),
    ("src/README.md", "a line\n" * 81, folders.long_readmes, "src/README.md: 81 lines, more than 80"),
    (CPP_HEADER, "class jug {\n};\n", missing_from_cpp_manual, "jug of include/tidepool/tidepool.hpp is not there"),
    (CPP_HEADER, "class pail {\n public:\n  [[nodiscard]] int *pour() const noexcept { return w(); }\n",
     missing_from_cpp_manual,
     "pour of"),
    ("include/tidepool/cup.h", "", pages.wrong_pages, "cup.h is in the synopsis of no manual page"),
    ("docs/tidepool-cpp.3", ".Sh SYNOPSIS\n.In tidepool/jug.h\n.Xr tidepool 3\n", pages.wrong_pages,
     "jug.h is in the synopsis of tidepool-cpp.3 and tidepool-jug.3"),
    (JUG_HEADER, JUG + "POOL_API int jug_level(jug_t *jug);\n", pages.wrong_pages, "jug_level of jug.h is not there"),
    (JUG_HEADER, JUG + "static inline int jug_level(jug_t *jug)\n", pages.wrong_pages, "jug_level of jug.h is not there"),
    (JUG_HEADER, JUG + "#define MORE_HOOKS(NAME)\n", pages.wrong_pages, "MORE_HOOKS of jug.h is not there"),
    (JUG_HEADER, JUG + "struct more {\n  int handles;\n};\n", pages.wrong_pages, "the field handles of jug.h is not there"),
    (JUG_HEADER, JUG + "  POOL_HEAP_MUG = 1,\n", pages.wrong_pages, "POOL_HEAP_MUG of jug.h is not there"),
    ("docs/tidepool-jug.3", JUG_PAGE.replace(".Nm jug_pour ,\n", ""), pages.wrong_pages, "its NAME is not its title and"),
    ("docs/tidepool-jug.3", JUG_PAGE.replace(" , Fn jug_pour", ""), pages.wrong_pages, "jug_pour is not described"),
    ("docs/tidepool-jug.3", JUG_PAGE + ".It Fn jug_pour\n", pages.wrong_pages, "jug_pour is described 2 times"),
    ("docs/tidepool-jug.3", JUG_PAGE + ".Xr tidepool-mug 3\n", pages.wrong_pages, "there is no page tidepool-mug.3"),
    ("docs/tidepool-jug.3", JUG_PAGE.replace(".Xr tidepool 3\n", ""), pages.wrong_pages, "has no reference to tidepool.3"),
    ("docs/tidepool-mug.3", ".Sh NAME\n.Nm tidepool-mug\n.Xr tidepool 3\n", pages.wrong_pages,
     "tidepool.3: has no reference to tidepool-mug.3"),
    (CPP_HEADER, f"// {WORDS}{WORDS}\n", wide_headers, "tidepool.hpp:1: 195 columns"),
    ("CONTRIBUTING.md", "```c\nvoid bin_take(int);\n```\n", stale_code, "no source has this: void bin_take(int);"),
]


def problems_of(files, check):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return list(check(root))


def self_test():
    for check in (broken_links, unknown_names, wrong_invariants, folders.unlisted_sources, stale_code, long_prose, wide_headers,
                  long_readme, folders.long_readmes, other_figures, missing_from_cpp_manual, pages.wrong_pages):
        found = problems_of(GOOD, check)
        if found:
            sys.exit(f"good texts: {found}")
    for name, text, check, expected in BAD:
        found = problems_of({**GOOD, name: text}, check)
        if not any(expected in problem for problem in found):
            sys.exit(f"{name} with {text!r}: expected {expected!r}, found {found}")


def self_test_figures():
    struct = "typedef struct pool_stats {\n  size_t cups; /* no; mugs; */\n} pool_stats_t;\n"
    good = {"include/tidepool/stats.h": struct, **{name: "cups\n" for name in FIGURES}}
    assert not problems_of(good, missing_figures)
    for name in FIGURES:
        assert problems_of({**good, name: "mugs\n"}, missing_figures) == [f"{name}: no figure cups"]


EXAMPLES = {"example": ("README.md", "c"), "example-cpp": ("docs/heaps.md", "cpp")}
CHECKS = {
    "links": [broken_links],
    "names": [missing_figures, locks.missing_locks, unknown_names, wrong_invariants, folders.unlisted_sources, stale_code],
    "manual": [pages.wrong_pages, options.missing_options, missing_from_manual, missing_from_cpp_manual],
    "prose": [long_prose, wide_headers, long_readme, folders.long_readmes, other_figures],
}


def main():
    if sys.argv[1] == "self-test":
        self_test()
        self_test_figures()
        for module in (locks, options):
            module.self_test(problems_of)
        return
    root = pathlib.Path(sys.argv[2])
    if sys.argv[1] in EXAMPLES:
        print(example(root, *EXAMPLES[sys.argv[1]]), end="")
        return
    found = [problem for check in CHECKS[sys.argv[1]] for problem in check(root)]
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()
