# SPDX-License-Identifier: MIT
"""Every page that the command writes, in a browser: as wide as a phone, a tablet and a desktop, in light and dark. looks.js
finds what is wrong with it. Searching, zooming and the keyboard are tried, and the console stays empty. A picture of each is
left in the folder that --pictures names."""

import itertools
import json
import os
import pathlib
import subprocess

import pytest

import browser
from pages import needs_browser, needs_names
from sharing import SECONDS
from test_report import heap, process, KIB, MIB

pytestmark = needs_browser
WIDTHS, SCHEMES = (390, 800, 1400), ("light", "dark")
SMALLEST = 10   # pixels of a text
LOOKS = pathlib.Path(__file__).with_name("looks.js")

FIGURES = (
    process(heap("parser", budget=4 * MIB, held_bytes=3 * MIB, live_bytes=2 * MIB, cached_bytes=512 * KIB, idle_bytes=512 * KIB,
                 live_blocks=28114, peak_held_bytes=4 * MIB - KIB, exhausted_count=3),
            heap("default", held_bytes=44 * MIB, live_bytes=39 * MIB, idle_bytes=5 * MIB, live_blocks=1234567,
                 peak_held_bytes=61 * MIB),
            heap("sessions of the second server, which has a long name", held_bytes=12 * MIB, live_bytes=9 * MIB,
                 metadata_bytes=3 * MIB, live_blocks=9912),
            object_pools=[{"name": "connections", "heap": "parser", "object_size": 1024, "capacity": 64, "live": 63,
                           "arrays": 1, "held_bytes": 65536}]),
    process(heap("default", held_bytes=7 * MIB, live_bytes=7 * MIB, live_blocks=555), pid=4711))

# How each is made, and what its legends and its words have.
PAGES = {
    "show": ("show -o PAGE more", ["the peak: 9.", "live bytes"], ["calls", "block", "live at the peak", "flame graph"]),
    "heaps": ("show -o PAGE heaps", ["the peak: ", "sessions", "messages (object pool)"], ["heap", "object pool", "allocated"]),
    "profile": ("show -o PAGE profile", [], ["in use", "allocated"]),
    "diff": ("diff -o PAGE less more", ["grown", "shrunk"], ["before", "after", "place", "blocks"]),
    "map": ("map -o PAGE more", ["live", "cached", "free", "fresh"], ["heap", "slabs", "cached", "fresh"]),
    "report": ("report --html PAGE figures", ["live", "cached", "idle", "records", "children", "peak", "the budget"],
               ["held", "budget", "exhausted"]),
}
FLAMES = ("show", "heaps", "profile", "diff")


class Made:
    """What programs left that allocate at known places, and the pages of it."""

    def __init__(self, request, folder):
        self.words = {name.upper(): os.path.abspath(request.config.getoption("--" + name))
                      for name in ("tidepool", "library", "shown", "recorded-heaps")}
        self.folder = folder
        for name in ("less", "more"):
            self.run(f"record --library LIBRARY -o {name} SHOWN {name}")
        self.run("record -o heaps RECORDED-HEAPS use")
        self.run("run -o sample_bytes=1 --profile profile SHOWN x")
        (folder / "figures").write_text("".join(json.dumps(figures) + "\n" for figures in FIGURES))

    def run(self, text):
        words = [self.words.get(word, word) for word in text.split()]
        return subprocess.run([self.words["TIDEPOOL"], *words], cwd=self.folder, capture_output=True, text=True,
                              timeout=SECONDS, check=False)

    def page(self, name):
        page = self.folder / f"{name}.html"
        if not page.exists():
            done = self.run(PAGES[name][0].replace("PAGE", page.name))
            if "memory" in done.stderr:
                pytest.skip("a process may not read the memory of its child here")
            assert done.returncode == 0, done.stderr
        return page


@pytest.fixture(name="made", scope="module")
def fixture_made(request, tmp_path_factory):
    return Made(request, tmp_path_factory.mktemp("made"))


@pytest.fixture(name="pictures")
def fixture_pictures(request, tmp_path):
    folder = pathlib.Path(request.config.getoption("--pictures") or tmp_path)
    folder.mkdir(exist_ok=True)
    return folder


def texts(shown, what):
    return shown.run(f"[...document.querySelectorAll('{what}')].map(element => element.textContent)")


@pytest.mark.parametrize("name", PAGES)
def test_it_can_be_read(made, pictures, name):
    shown, looks = browser.shared(), LOOKS.read_text(encoding="ascii")
    shown.open(made.page(name))
    for width, scheme in itertools.product(WIDTHS, SCHEMES):
        shown.view(width, scheme)
        assert shown.run("new Promise(done => requestAnimationFrame(() => done(innerWidth)))") == width
        assert shown.run(f"{looks}({SMALLEST})") == [], (width, scheme)
        shown.picture(pictures / f"{name}-{width}-{scheme}.png")
    assert shown.complaints() == []


@pytest.mark.parametrize("name", PAGES)
def test_it_says_what_it_means(made, name):
    """Colors have legends, and words a text at the foot of the page, to which a link leads."""
    shown = browser.shared()
    shown.open(made.page(name))
    legends = texts(shown, ".legend > span")
    assert all(any(legend.startswith(what) for legend in legends) for what in PAGES[name][1]), legends
    keys = "[...document.querySelectorAll('.legend .key')].every(key => key.getBoundingClientRect().height > 5)"
    assert shown.run(keys) and set(PAGES[name][2]) <= set(texts(shown, ".words dt"))
    if name in ("show", "heaps"):
        line, key = (f"getComputedStyle(document.querySelector('{what}')).borderLeft" for what in (".plot .peak", ".key.peak"))
        assert shown.run(line) == shown.run(key)
    place = shown.run("(link => {link.click(); return document.querySelector('dt:target').getBoundingClientRect().top})"
                      "(document.querySelector('a.word'))")
    assert 0 <= place < 900


@needs_names
@pytest.mark.parametrize("name", FLAMES)
def test_a_search_finds(made, name):
    shown = browser.shared()
    shown.open(made.page(name))
    searched = "SESSIONS" if name == "heaps" else "LEAK"
    boxes = len(texts(shown, "#flame div"))
    if name == "heaps":
        shown.run("byId('kinds').children[2].click()")
    shown.press("/")
    assert shown.run("document.activeElement.id") == "search"
    shown.write(searched)
    found = texts(shown, "#flame .hit")
    assert found and all(searched.lower() in text for text in found)
    assert len(texts(shown, "#flame .dim")) > 0 and "function" in texts(shown, "#found")[0]
    shown.press("Enter")
    assert shown.run("shown.name") == found[0] and shown.run("shown.box.className") == "box hit"
    shown.press("Escape")
    assert not texts(shown, "#flame .hit") and not texts(shown, "#found")[0]
    shown.write("there is no such function")
    assert not texts(shown, "#flame .hit, #flame .dim") and texts(shown, "#found") == ["No function has this in its name."]
    shown.run("search.value = ''; find(); reset.click(); byId('kinds').children[0].click()")
    assert len(texts(shown, "#flame div")) == boxes and shown.complaints() == []


ROOM = "(box => Math.round(100 * box.getBoundingClientRect().width / flame.clientWidth))"


@needs_names
@pytest.mark.parametrize("name", FLAMES)
def test_a_click_zooms(made, name):
    shown = browser.shared()
    shown.open(made.page(name))
    before = texts(shown, "#flame div")
    deepest = "[...flame.children].reduce((a, b) => a.node.depth < b.node.depth ? b : a)"
    shown.run(f"{deepest}.click()")
    within = shown.run("shown.name")
    assert shown.run(f"{ROOM}(shown.box)") == 100 and not shown.run("reset.disabled")
    assert texts(shown, "#flame .above")[0] == "all" and texts(shown, "#told")[0].startswith(within + "\n")
    shown.run("shown.box.click()")   # to the one above
    assert shown.run("shown.name") != within and within in texts(shown, "#flame div")
    shown.run("reset.click()")
    assert texts(shown, "#flame div") == before and shown.run("reset.disabled") and shown.complaints() == []


@needs_names
@pytest.mark.parametrize("name", FLAMES)
def test_keys_zoom(made, name):
    shown = browser.shared()
    shown.open(made.page(name))
    before = texts(shown, "#flame div")
    shown.run("flame.querySelector('[tabindex=\"0\"]').focus()")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        shown.press(key)
    assert shown.run("shown.depth") == 2 and shown.run("document.activeElement == shown.box")
    shown.press("ArrowUp")
    assert shown.run("document.activeElement.className") == "above"
    shown.press("Escape")
    assert texts(shown, "#flame div") == before and shown.run("document.activeElement.textContent") == "all"


def test_a_map_by_keys(made):
    shown = browser.shared()
    shown.open(made.page("map"))
    shown.run("choose(all[0]); $('map').focus()")
    shown.press("ArrowRight")
    assert shown.run("chosen.number") == 1
    shown.run("document.querySelector('#rows tr[data-row]').focus()")
    shown.press("Enter")
    assert shown.run("document.querySelectorAll('#rows tr.on').length") == 1 and shown.complaints() == []


def test_a_page_without_anything(made):
    """Of a program that has not allocated."""
    shown = browser.shared()
    done = made.run("show --at 0 -o empty.html less")
    assert done.returncode == 0, done.stderr
    shown.open(made.folder / "empty.html", 390)
    assert shown.run(f"{LOOKS.read_text(encoding='ascii')}({SMALLEST})") == [] and texts(shown, "#flame") == ["Nothing."]
    assert shown.complaints() == []
