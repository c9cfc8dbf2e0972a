# SPDX-License-Identifier: MIT
"""What tests of show share: a program, and another one in its place; the tags of pages, and a browser for their scripts.

Links within a page are none of those that lead elsewhere."""

import html.parser
import os
import shutil
import time

import pytest

import browser

EMPTY = {"meta", "line", "path", "br", "input"}
needs_browser = pytest.mark.skipif(not browser.PROGRAM, reason="chromium is not here")
needs_names = pytest.mark.skipif(not shutil.which("addr2line"), reason="addr2line is not here")


@pytest.fixture(name="browse")
def fixture_browse():
    def browse(page):
        """The page as the browser has it once its scripts have run."""
        browser.shared().open(page)
        return browser.shared().dom()
    return browse


@pytest.fixture(name="shown")
def fixture_shown(request):
    return os.path.abspath(request.config.getoption("--shown"))


@pytest.fixture(name="copy")
def fixture_copy(shown, tmp_path):
    """A program, and another one of the same size which is older by its date, as one that a package installs."""
    def replace(how):
        program = tmp_path / "program"
        if how == "removed":
            program.unlink()
            return f"{program} is not there any more, so its functions have no names\n"
        if how == "replaced":
            shutil.copy2(shown, tmp_path / "new")
            (tmp_path / "new").replace(program)
        else:
            time.sleep(.02)   # as fine as the clock of a file system is
            program.write_bytes(program.read_bytes())
        os.utime(program, (1, 1))
        return f"{program} has changed since it was recorded, so its functions have no names\n"
    shutil.copy2(shown, tmp_path / "program")
    return replace


ODD = "odd</script><script>alert(1)</script><b>&\"'\\"


@pytest.fixture(name="odd_names")
def fixture_odd_names(tmp_path):
    """An addr2line with which each function is called so."""
    tool = tmp_path / "tools" / "addr2line"
    tool.parent.mkdir()
    (tmp_path / "answer").write_text(ODD + "\x1b[2J\n/a.c:1\n")
    tool.write_text(f"#!/bin/sh\nwhile read -r line; do echo \"$line\"; cat {tmp_path}/answer; done\n")
    tool.chmod(0o755)
    return {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"}


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.scripts, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href") and not value.startswith("#word")]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """It is empty."""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
