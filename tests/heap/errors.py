# SPDX-License-Identifier: MIT
"""Checks that whatever sets EINVAL is known to whom it concerns: a function whose header says so, or that takes a heap or an
object pool, is in the table of wrong.c; a comment of a header that names EINVAL points to pool_error(); each text of
heap/invalid.h is one that a test expects; and nothing but heap/invalid.c sets EINVAL.

usage: errors.py ROOT
       errors.py --self-test"""

import pathlib
import re
import sys

HEADERS = ("pool.h", "heap.h", "object_pool.h", "profile.h", "stats.h")
TESTS = ("heap/wrong.c", "heap/test_errors.c", "heap/test_plain.c", "embedded/board.c")
# NULL is no error for these.
NULL_IS_FINE = {"pool_heap_destroy", "object_pool_destroy", "pool_heap_stats_json", "pool_profile_write"}
TELLS = "pool_error"
# The C library's names have errno alone: a program that has them from libtidepool-malloc has no pool_error().
ERRNO_ALONE = {"src/heap/invalid.c", "src/api/malloc.c"}

COMMENT = re.compile(r"/\*.*?\*/", re.S)
DECLARED = re.compile(r"(?P<comment>/\*(?:(?!\*/).)*\*/)?\s*"
                      r"(?:POOL_API|POOL_INLINE) [^;{]*?\b(?P<name>\w+)\((?P<arguments>[^)]*)\)", re.S)
TEXT = re.compile(r'TEXT\((\w+), "([^"]*)",[\s\\]*"([^"]*)",')
SETS = re.compile(r"errno\s*=\s*(?:[^;]*\W)?EINVAL|\bfail\(EINVAL\)")
FORMS = {"%u": r"(?:\d+|#|%zu)", "%x": r"0x[0-9a-f]+", "%s": r".+"}


def must_be_known(header):
    """The functions of a header that may set EINVAL, and why."""
    for found in DECLARED.finditer(header):
        name, comment = found["name"], found["comment"] or ""
        if name == TELLS:
            continue
        if "EINVAL" in comment:
            yield name, "its comment names EINVAL"
        elif re.match(r"(const )?(pool_heap_t|object_pool_t) \*", found["arguments"]) and name not in NULL_IS_FINE:
            yield name, "it takes what may be NULL"


def problems_of_headers(headers, called):
    known = {name.removesuffix("_sized") for name in called}
    for file, header in headers.items():
        for name, why in must_be_known(header):
            if name.removesuffix("_sized") not in known:
                yield f"{file}: {name} is not in the table of wrong.c: {why}"
        for comment in COMMENT.findall(header):
            if "EINVAL" in comment and "pool_error()" not in comment:
                yield f"{file}: names EINVAL without pool_error(): {' '.join(comment.split())[:60]}"


def expected(text):
    return re.compile("".join(FORMS.get(part) or re.escape(part) for part in re.split(r"(%[uxs])", text)))


def problems_of_texts(texts, expectations):
    for name, without, text in texts:
        if not any(expected(text).fullmatch(words) for words in expectations):
            yield f"heap/invalid.h: {name}: no test expects {text!r}"
        if "%" in without:
            yield f"heap/invalid.h: {name}: {without!r} has a number"


def problems_of_sources(sources, names):
    for file, source in sources.items():
        if file not in ERRNO_ALONE and SETS.search(source):
            yield f"{file}: sets EINVAL without invalid()"
    everything = "".join(sources.values())
    for name in names:
        if not re.search(rf"\bINVALID_{name}\b", everything):
            yield f"heap/invalid.h: {name} is never said"


def strings(source):
    """String literals, the neighbours put together."""
    for found in re.findall(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*', source):
        yield "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found))


def problems(root):
    headers = {name: (root / "include/tidepool" / name).read_text() for name in HEADERS}
    tests = "\n".join((root / "tests" / name).read_text() for name in TESTS)
    called = set(re.findall(r'^  \{"(\w+)", \w+,', tests, re.M))
    texts = TEXT.findall((root / "src/heap/invalid.h").read_text())
    sources = {path.relative_to(root).as_posix(): path.read_text() for path in sorted((root / "src").rglob("*.[ch]"))
               if path.name != "invalid.h"}
    if len(called) < 30 or len(texts) < 40:
        yield f"only {len(called)} functions and {len(texts)} texts are found"
    yield from problems_of_headers(headers, called)
    yield from problems_of_texts(texts, set(strings(tests)))
    yield from problems_of_sources(sources, [name for name, _, _ in texts])


def self_test():
    header = "/* NULL and EINVAL, with pool_error(): it is wrong. */\nPOOL_API void *pool_wrong(int n) POOL_NAME(wrong);\n"
    takes = "/* Asks. */\nPOOL_API bool pool_heap_ask(const pool_heap_t *heap) POOL_NAME(heap_ask);\n"
    assert not list(problems_of_headers({"a.h": header + takes}, {"pool_wrong", "pool_heap_ask"}))
    assert "pool_wrong is not" in list(problems_of_headers({"a.h": header}, set()))[0]
    assert "pool_heap_ask is not" in list(problems_of_headers({"a.h": takes}, {"pool_wrong"}))[0]
    without = header.replace(", with pool_error()", "")
    assert "without pool_error()" in list(problems_of_headers({"a.h": without}, {"pool_wrong"}))[0]
    text = [("N", "n is odd", "n is %u, odd")]
    assert not list(problems_of_texts(text, {"n is 3, odd"}))
    assert len(list(problems_of_texts(text, {"n is three, odd"}))) == 1
    assert len(list(problems_of_sources({"src/api/a.c": "errno = x ? EINVAL : 0; INVALID_N"}, ["N"]))) == 1
    assert len(list(problems_of_sources({"src/api/a.c": "INVALID_NOT"}, ["N"]))) == 1


def main():
    if sys.argv[1] == "--self-test":
        self_test()
        return
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()
