# SPDX-License-Identifier: MIT
"""tidepool report --html: a page of the figures that processes have left, or that one has."""

import json
import re
import subprocess

import pytest

from pages import Tags, fixture_browse, needs_browser   # pylint: disable=unused-import
from sharing import SECONDS, fixture_shares, fixture_tidepool   # pylint: disable=unused-import
from test_report import heap, process, KIB, MIB

POOL = {"name": "messages", "heap": "parser", "object_size": 64, "capacity": 200, "live": 50, "arrays": 1, "held_bytes": 2048}
ODD = "</script><script>alert(1)</script><b>&\"' \x1b[2J"


@pytest.fixture(name="page_of")
def fixture_page_of(tidepool, tmp_path):
    def page_of(values, status=0):
        """Of what a file holds: values that each have a line."""
        file, page = tmp_path / "figures", tmp_path / "page.html"
        file.write_text("".join(json.dumps(value) + "\n" for value in values))
        done = tidepool("report", "--html", page, file, check=False)
        assert done.returncode == status and not done.stdout
        text = page.read_text()
        tags = Tags()
        tags.feed(text)
        assert not tags.open and not tags.links and not tags.scripts and "http" not in text
        return text
    return page_of


def rows(text):
    """The cells of each row as texts, without bars."""
    return [re.sub(r"<[^>]*>", "", re.sub(r"</t[hd]>", "|", row)).split("|")[:-1]
            for row in re.findall(r"<tr.*?</tr>", text, re.S)]


def widths(text):
    """Of each bar, in the order of rows: whether it has a frame, its parts, and the peak."""
    bars = re.findall(r'<div class="bar( of)?">(.*?)</div>', text)
    return [(bool(frame), {name: float(width) for name, width in re.findall(r'<i class="(\w+)" style="width:([\d.]+)%', parts)},
             [float(left) for left in re.findall(r'<b style="left:([\d.]+)%', parts)]) for frame, parts in bars]


def test_the_tables(page_of):
    text = page_of([process(heap("small", held_bytes=1023, live_bytes=1000, live_blocks=1234567),
                            heap("parser", budget=4 * MIB, held_bytes=3 * MIB + MIB // 2, live_bytes=3 * MIB,
                                 idle_bytes=MIB // 2, live_blocks=12, exhausted_count=3), object_pools=[POOL])])
    assert rows(text) == [
        ["heap", "", "held", "budget", "", "peak", "live", "cached", "idle", "records", "children", "blocks", "exhausted"],
        ["parser", "", "3.50 MiB", "4.00 MiB", "88 %", "0 B", "3.00 MiB", "0 B", "512 KiB", "0 B", "0 B", "12", "3"],
        ["small", "", "1.00 KiB", "none", "", "0 B", "0.98 KiB", "0 B", "0 B", "0 B", "0 B", "1,234,567", "0"],
        ["all", "", "3.50 MiB", "", "", "", "3.00 MiB", "0 B", "512 KiB", "0 B", "", "1,234,579", "3"],
        ["object pool", "", "live", "capacity", "", "object size", "arrays", "held", "heap"],
        ["messages", "", "50", "200", "25 %", "64 B", "1", "2.00 KiB", "parser"]]
    assert widths(text) == [(True, {"live": 75, "idle": 12.5}, []), (False, {"live": 97.75}, []), (True, {"live": 25}, [])]
    assert 'class="n mark">3</td>' in text and "process 7</h2>" in text and "All processes" not in text


def test_bars_without_a_budget_have_one_scale(page_of):
    text = page_of([process(heap("a", held_bytes=50, live_bytes=50, peak_held_bytes=200),
                            heap("b", held_bytes=100, cached_bytes=100),
                            heap("c", budget=1000, held_bytes=900, metadata_bytes=900, peak_held_bytes=950))])
    assert widths(text) == [(True, {"records": 90}, [95]), (False, {"cached": 50}, []), (False, {"live": 25}, [100])]
    assert 'class="n mark">90 %</td>' in text


def test_what_children_hold_counts_once(page_of):
    text = page_of([process(heap("parent", held_bytes=3 * KIB, live_bytes=KIB, children_bytes=2 * KIB),
                            heap("child", held_bytes=2 * KIB, live_bytes=2 * KIB))])
    assert rows(text)[-1][2] == "3.00 KiB" and rows(text)[-1][6] == "3.00 KiB"


def test_processes(page_of):
    text = page_of([process(heap("a", held_bytes=100, live_bytes=100), pid=5),
                    process(heap("a", held_bytes=50, idle_bytes=50), heap("b"), pid=6), heap("alone", held_bytes=10)])
    assert [row[0] for row in rows(text)][:4] == ["", "process 5", "process 6", "line 3"]
    assert rows(text)[2][2:] == ["50 B", "0 B", "0 B", "50 B", "0 B", "0", "0", "2", "0"]
    assert widths(text)[:2] == [(False, {"live": 100}, []), (False, {"idle": 50}, [])]
    assert re.findall(r"<h2.*?>(.*?)</h2>", text) == ["All processes", "process 5", "process 6", "line 3",
                                                       "What the words mean"]


def test_figures_of_another_version(page_of):
    text = page_of([{"pid": 1, "heaps": [{"name": "old", "held_bytes": 5}], "object_pools": [{"name": "m"}]}])
    assert rows(text)[1] == ["old", "", "5 B", "?", ""] + ["?"] * 8
    assert rows(text)[3] == ["m", "", "?", "?", "", "?", "?", "?", "?"]


def test_figures_that_none_can_have(page_of):
    most = (1 << 63) - 1
    every = dict.fromkeys(heap("a"), most)
    text = page_of([process({**every, "name": "a", "budget": 1}, {**every, "name": "b"}, {**every, "name": "c", "budget": 0}),
                    process(heap("none"), pid=8)])
    for _, parts, peak in widths(text):
        assert sum(parts.values()) <= 100.01 and all(left <= 100 for left in peak)
    assert "nan" not in text and "inf" not in text and "8.00 EiB" in text


def test_names_are_quoted(page_of):
    text = page_of([process(heap(ODD), object_pools=[{**POOL, "name": ODD, "heap": ODD}])])
    quoted = "&#60;/script&#62;&#60;script&#62;alert(1)&#60;/script&#62;&#60;b&#62;&#38;&#34;&#39;  [2J"
    assert text.count(quoted) == 3 and "<b>" not in text


def test_bad_lines(tidepool, tmp_path):
    file, page = tmp_path / "figures", tmp_path / "page.html"
    file.write_text('{"heaps": 5}\n' + json.dumps(process(heap("good"))) + "\n")
    done = tidepool("report", "--html", page, file, check=False)
    assert done.returncode == 1 and "line 1: " in done.stderr and "good" in page.read_text()
    page.unlink()
    file.write_text("{}\n")
    assert tidepool("report", "--html", page, file, check=False).returncode == 1 and not page.exists()


@pytest.mark.parametrize("options", (("--json", "--html", "x"), ("--html", "x", "--prometheus"), ("--json", "--prometheus"),
                                     ("--html",)))
def test_wrong_arguments(tidepool, tmp_path, options):
    done = tidepool("report", *options, tmp_path / "none", check=False, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("tidepool report: ") and not (tmp_path / "x").exists()


def test_standard_input(tidepool, tmp_path):
    subprocess.run([tidepool.program, "report", "--html", tmp_path / "page", "-"], input=json.dumps(process(heap("piped"))),
                   text=True, timeout=SECONDS, check=True)
    text = (tmp_path / "page").read_text()
    assert "piped" in text and "<h1>report</h1>" in text


def test_a_process(tidepool, shares, tmp_path):
    process_id = shares().pid
    tidepool("report", "--html", tmp_path / "page", process_id)
    text = (tmp_path / "page").read_text()
    assert f"<h1>process {process_id}</h1>" in text and "first" in [row[0] for row in rows(text)]
    assert re.search(r"As of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.", text)


def test_a_page_that_cannot_be_written(tidepool, tmp_path):
    (tmp_path / "figures").write_text(json.dumps(process(heap("a"))))
    for page in ("/dev/full", tmp_path / "none" / "page"):
        done = tidepool("report", "--html", page, tmp_path / "figures", check=False)
        assert done.returncode == 125 and done.stderr.startswith(f"tidepool: report: {page}: ")


@needs_browser
def test_the_page_in_a_browser(page_of, browse, tmp_path):
    page_of([process(heap(ODD, held_bytes=5, live_bytes=5), heap("b"))])
    dom = browse(tmp_path / "page.html")
    assert "<script" not in dom and dom.count("<tr") == 4 and "figures</h1>" in dom
