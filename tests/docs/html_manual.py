# SPDX-License-Identifier: MIT
"""Configures the project with the manual in HTML, makes and installs that, and follows every link of it.

usage: html_manual.py SOURCE

Exit status 77: there is no meson or no mandoc."""

import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True   # the source tree stays as it is
import pages

SKIPPED = 77
ELSEWHERE = re.compile(r"https://manpages\.debian\.org/(?!tidepool|pool_|object_pool_)[\w.-]+$")
OPTIONS = ["-Dmalloc_library=false"]


class Links(html.parser.HTMLParser):
    """Where a page leads to, and what one can lead to in it."""

    def __init__(self, path):
        super().__init__()
        self.targets, self.anchors = [], {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.add(attributes.get("id", ""))
        if "href" in attributes:
            self.targets.append(attributes["href"])


def run(*command, folder):
    done = subprocess.run([str(word) for word in command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", env={**os.environ, "LC_ALL": "C"}, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-6000:]}")


def wrong_links(folder):
    links = {path.name: Links(path) for path in sorted(folder.glob("*.html"))}
    for name, page in links.items():
        for target in page.targets:
            file, _, anchor = target.partition("#")
            there = links.get(file or name)
            if not ELSEWHERE.match(target) and (there is None or anchor not in there.anchors):
                yield f"{name}: {target} leads nowhere"


def missing_from_index(source, folder):
    """Every page is there, and each function leads to its own."""
    targets = Links(folder / "index.html").targets
    for name, page in pages.pages_of(source).items():
        for wanted in [f"{name}.html"] + [f"{name}.html#{function}" for function in pages.functions_of(page)]:
            if wanted not in targets:
                yield f"index.html does not lead to {wanted}"


def files_in(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.html")}


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    if not shutil.which("meson") or not shutil.which("mandoc"):
        print("skipped: meson or mandoc is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        build, made = root / "build", root / "build/docs/html"
        run("meson", "setup", build, source, "--prefix=/usr", "--datadir=share", *OPTIONS, folder=root)
        run("ninja", "html", folder=build)
        problems = [*wrong_links(made), *missing_from_index(source, made)]
        installed = {}
        for option in ("disabled", "enabled"):
            run("meson", "configure", build, f"-Dhtml={option}", folder=root)
            run("ninja", "html", folder=build)
            run("meson", "install", "-C", build, "--no-rebuild", "--tags", "doc", "--destdir", root / option, folder=root)
            installed[option] = files_in(root / option / "usr/share/doc/tidepool/html")
        pages_made = files_in(made)
        if installed["disabled"]:
            problems.append("the manual in HTML is installed where it was not asked for")
        if installed["enabled"] != pages_made or not pages_made:
            problems.append(f"installed are {sorted(map(str, installed['enabled']))}, made were {sorted(map(str, pages_made))}")
    print("\n".join(problems) or f"{len(pages_made)} files")
    return 1 if problems else 0


sys.exit(main())
