# SPDX-License-Identifier: MIT
"""What the manual pages in docs say, by mdoc's macros, and whether that is what the headers have: docs.py manual."""

import collections
import re

NOT_FOR_USERS = {"embedded.h", "visibility.h"}   # docs/embedded.md has the first: a board has no manual
OVERVIEW = "tidepool.3"
DECLARED = re.compile(r"^POOL_API [^;(]*?(\w+)\(", re.M)
INLINE = re.compile(r"^static inline [^;(]*?(\w+)\(", re.M)
MACRO = re.compile(r"^#define ([A-Z_]*(?:HOOKS|DEFINE))\(", re.M)
FIELD = re.compile(r"^ {2}\w[^;(/}]*?[ *](\w+);|^ {2}\w[^;/]*\(\*(\w+)\)\(", re.M)
CONSTANT = re.compile(r"^(?:  |#define )((?:POOL_(?:HEAP|PURGE|ZLIB)|OBJECT_POOL)_\w*[A-Z])(?=[ ,(])", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def pages_of(root):
    return {path.name: path.read_text() for path in sorted((root / "docs").glob("*.[13]"))}


def section(page, name):
    found = re.search(rf"^\.Sh {name}\n(.*?)(?=^\.Sh |\Z)", page, re.M | re.S)
    return found[1] if found else ""


def headers_of(page):
    return re.findall(r"^\.In tidepool/(\S+)$", section(page, "SYNOPSIS"), re.M)


def functions_of(page):
    return re.findall(r"^\.Fn (\w+)", section(page, "SYNOPSIS"), re.M)


def described_in(page):
    """The functions whose description begins there: .It Fn one , Fn two."""
    return [name for line in re.findall(r"^\.It (Fn .*)$", page, re.M) for name in re.findall(r"\bFn (\w+)", line)]


def public_functions(header):
    """Those that a header declares, and the inline ones of an adapter that the adapter itself does not call."""
    text = COMMENT.sub("", header)
    inline = [name for name in INLINE.findall(text) if len(re.findall(rf"\b{name}\b", text)) == 1]
    return DECLARED.findall(text) + inline + MACRO.findall(text)


def missing_from_page(name, page, header, text):
    for function in public_functions(text):
        if function not in functions_of(page):
            yield f"docs/{name}: {function} of {header} is not there"
    for field in filter(None, sum(FIELD.findall(text), ())) if DECLARED.search(text) else ():
        if not re.search(rf"\b{field}\b", page):
            yield f"docs/{name}: the field {field} of {header} is not there"
    for constant in CONSTANT.findall(text):
        if constant not in page:
            yield f"docs/{name}: {constant} of {header} is not there"


def wrong_headers(root, pages):
    """Each header is in the synopsis of one page, which has all that is in the header."""
    for path in sorted((root / "include/tidepool").glob("*.h*")):
        telling = [name for name, page in pages.items() if path.name in headers_of(page)]
        if len(telling) != (path.name not in NOT_FOR_USERS):
            yield f"{path.name} is in the synopsis of {' and '.join(telling) or 'no manual page'}"
        elif telling and path.suffix == ".h":
            yield from missing_from_page(telling[0], pages[telling[0]], path.name, path.read_text())


def wrong_descriptions(pages):
    """A function is named at the head of its page, where apropos looks, and described there, and nowhere else."""
    described = collections.Counter(name for page in pages.values() for name in described_in(page))
    for name, page in pages.items():
        functions = functions_of(page)
        named = re.findall(r"^\.Nm (\S+)", section(page, "NAME"), re.M)
        if named != [name.rpartition(".")[0], *functions]:
            yield f"docs/{name}: its NAME is not its title and the functions of its synopsis"
        for function in functions:
            if function not in described_in(page):
                yield f"docs/{name}: {function} is not described"
            elif described[function] > 1:
                yield f"docs/{name}: {function} is described {described[function]} times"


def wrong_references(pages):
    """From the overview one finds each page, and back."""
    for name, page in pages.items():
        named = {".".join(words) for words in re.findall(r"\.(?:It )?Xr (tidepool\S*) (\d)", page)}
        for missing in sorted(named - set(pages)):
            yield f"docs/{name}: there is no page {missing}"
        for missing in sorted((set(pages) if name == OVERVIEW else {OVERVIEW}) - named - {name}):
            yield f"docs/{name}: has no reference to {missing}"


def wrong_pages(root):
    pages = pages_of(root)
    yield from wrong_headers(root, pages)
    yield from wrong_descriptions(pages)
    yield from wrong_references(pages)
