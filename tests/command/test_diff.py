# SPDX-License-Identifier: MIT
"""tidepool diff -o: the page of what has grown and what has shrunk."""

import json
import re

import pytest

import browser
from pages import (Tags, fixture_browse, fixture_odd_names, fixture_shown, needs_browser,   # pylint: disable=unused-import
                   needs_names, ODD)
from sharing import fixture_tidepool   # pylint: disable=unused-import


@pytest.fixture(name="made", params=("recording", "profile"))
def fixture_made(request, tidepool, shown, tmp_path):
    """Two files, of programs of which the second leaks 100 blocks more."""
    files = []
    for name in ("less", "more"):
        files.append(tmp_path / name)
        how = ("record", "-o", files[-1]) if request.param == "recording" else \
              ("run", "-o", "sample_bytes=1", "--profile", files[-1])
        tidepool(*how, shown, name)
    return files


def page_of(tidepool, files, *options, **more):
    page = files[0].parent / "page.html"
    done = tidepool("diff", "-o", page, *options, *files, **more)
    assert not done.stdout
    return page


def data_of(text):
    names = json.loads(re.search(r"const names=(\[.*?\]);\n", text)[1])
    return json.loads(re.sub(r",\n\]$", "]", re.search(r"const sites=(\[.*?\]);\nlet", text, re.S)[1])), names


def test_the_page(tidepool, made):
    text = page_of(tidepool, made).read_text()
    tags = Tags()
    tags.feed(text)
    assert not tags.open and not tags.links and len(tags.scripts) == 1 and "http" not in text
    sites, names = data_of(text)
    assert all(frame < len(names) for _, frames in sites for frame in frames)
    kinds = json.loads(re.search(r"kinds=(\[.*?\]);\n", text)[1])
    assert [name for name, _ in kinds][-2:] in (["live at the end", "allocated"], ["in use", "allocated"])
    assert all(len(sums) == len(kinds) for sums, _ in sites)
    leaked = [sums[-2] for sums, _ in sites if sums[-2][3] - sums[-2][2] == 100]
    assert leaked[0][1] - leaked[0][0] == 100000
    assert '>+97.7 KiB</td>' in text and ">+100</td>" in text


@needs_browser
@needs_names
def test_the_page_in_a_browser(tidepool, made, browse):
    for files, sign, style in ((made, "+", "n grown"), (made[::-1], "\u2212", "n shrunk")):
        page = page_of(tidepool, files)
        sums = re.findall(r'<td data-label="(?:before|after)" class="n">([^<]*)', page.read_text())
        dom, before, after = browse(page), *sums[:2]
        assert f'title="all\n{before} before, {after} after: ' in dom   # with what has not changed
        assert re.search(rf'title="leak_some\n[\d.]+ KiB before, [\d.]+ KiB after: \{sign}97.7 KiB"', dom)
        assert re.search(rf'<tbody id="places"><tr class="line"><td class="{style}" data-label="change">'
                         rf'\{sign}97.7 KiB</td><td class="n"'
                         rf' data-label="blocks">\{sign}100</td>.*?<td class="s">leak_some &lt; main', dom)
        assert re.search('<button class="on"[^>]*>what has changed</button>', dom)


def color_of(page, name):
    """Of the box of a function."""
    browser.shared().open(page)
    box = f"[...document.querySelectorAll('#flame div')].find(box => box.textContent == '{name}')"
    return [int(part) for part in re.findall(r"\d+", browser.shared().run(f"getComputedStyle({box}).backgroundColor"))]


@needs_browser
@needs_names
def test_what_has_grown_is_red_and_what_has_shrunk_blue(tidepool, made):
    red, _, blue = color_of(page_of(tidepool, made), "leak_some")
    assert red > blue + 50
    red, _, blue = color_of(page_of(tidepool, made[::-1]), "leak_some")
    assert blue > red + 50


@needs_browser
def test_nothing_differs(tidepool, made, browse):
    dom = browse(page_of(tidepool, [made[0], made[0]]))
    assert re.search(r'<div id="flame"[^>]*>Nothing.</div>', dom) and '<tbody id="places"></tbody>' in dom


@needs_browser
def test_so_many_places(tidepool, made, browse):
    dom = browse(page_of(tidepool, made, "-n", 0))
    assert re.search(r'id="left">[1-9] places more differ, by less', dom) and '<tbody id="places"></tbody>' in dom


def test_names_are_quoted(tidepool, made, odd_names):
    odd = made[0].rename(made[0].parent / "<script><b>")
    text = page_of(tidepool, [odd, made[1]], env=odd_names).read_text()
    tags = Tags()
    tags.feed(text)
    assert not tags.open and len(tags.scripts) == 1 and "<b>" not in text.replace("<b>Before:", "").replace("<b>After:", "")
    assert "&#60;script&#62;&#60;b&#62;</h1>" in text and ODD + "\x1b[2J" in data_of(text)[1]


@needs_browser
def test_names_do_nothing_in_a_browser(tidepool, made, odd_names, browse):
    dom = browse(page_of(tidepool, made, env=odd_names))
    assert dom.count("<script>") == 1 and "<td class=\"s\">odd&lt;/script&gt;&lt;script&gt;" in dom


def test_a_page_that_cannot_be_written(tidepool, made):
    for page in ("/dev/full", made[0] / "page"):
        done = tidepool("diff", "-o", page, *made, check=False)
        assert done.returncode == 125 and done.stderr.startswith(f"tidepool: diff: {page}: ")
