# SPDX-License-Identifier: MIT
"""tidepool show: the places of a program that allocates at known ones, as text and as a page."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from pages import (Tags, fixture_browse, fixture_copy, fixture_shown,   # pylint: disable=unused-import
                   needs_browser, needs_names)
from sharing import fixture_tidepool   # pylint: disable=unused-import


needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")


@pytest.fixture(name="record")
def fixture_record(request, tidepool, tmp_path):
    def record(name, argument):
        library, shown = (os.path.abspath(request.config.getoption(name)) for name in ("--library", "--shown"))
        tidepool("record", "--library", library, "-o", tmp_path / name, shown, argument)
        return tmp_path / name
    return record


@pytest.fixture(name="recording")
def fixture_recording(record):
    return record("shown.recording", "a</script><b>&'\"")


def part(text, title):
    """The lines of one kind of sum: bytes and blocks of all, and then [blocks, stack] of each place."""
    lines = text[text.index(f"\n{title}"):].splitlines()[1:]
    places = []
    for line in lines[1:]:
        match = re.match(r" *[\d.]+ \S+ +[\d.]+ % +(\d+)  (.*)", line)
        if not match:
            break
        places.append((int(match[1]), match[2].split(" < ")))
    return int(re.search(r"in (\d+) blocks$", lines[0])[1]), places


@needs_names
def test_places(tidepool, recording):
    text = tidepool("show", recording).stdout
    blocks, places = part(text, "live at the end: ")
    assert blocks >= 100 and places[0][0] == 100 and places[0][1][:2] == ["leak_some", "main"]
    blocks, places = part(text, "live at the peak, after ")
    assert blocks >= 102 and places[0][0] == 2 and places[0][1][:3] == ["take_large", "have_a_peak", "main"]
    blocks, places = part(text, "allocated: ")
    churned = [(count, stack) for count, stack in places if stack[0] == "churn"]
    assert [count for count, _ in churned] == [40000]   # two calls of one function are one place
    assert blocks == sum(count for count, _ in part(tidepool("show", "-n", 100000, recording).stdout, "allocated: ")[1])


@needs_names
def test_lines(tidepool, record):
    with open(os.path.join(os.path.dirname(__file__), "shown.c"), encoding="utf-8") as source:
        lines = source.read().splitlines()
    first, second = ([n + 1 for n, line in enumerate(lines) if call in line] for call in ("malloc(1000)", "leak_some();"))
    leaked = [f"leak_some at shown.c:{first[0]}", f"main at shown.c:{second[0]}"]
    more = [leaked[0], f"main at shown.c:{second[1]}"]
    less, both = record("less", "less"), record("both", "more")
    places = part(tidepool("show", "--lines", both).stdout, "live at the end: ")[1]
    assert [stack for count, stack in places if count == 100] in ([leaked, more], [more, leaked])
    text = tidepool("diff", "--lines", less, both).stdout
    assert text[text.index("\nlive at the end: "):].splitlines()[2].endswith(f"+100  {' < '.join(more)}")
    tidepool("show", "--lines", "-o", both.with_suffix(".html"), both)
    page = both.with_suffix(".html").read_text(encoding="utf-8")
    assert all(json.dumps(name) in page for name in leaked + more)
    assert " at shown.c" not in tidepool("show", both).stdout


INLINED = """#include <stdlib.h>
void *keep[300];
static inline __attribute__((always_inline)) void *xmalloc(size_t size) { return malloc(size); }
__attribute__((noinline, noipa)) void load(int i) { keep[i] = xmalloc(10); }
__attribute__((noinline, noipa)) void parse(int i) { keep[i] = xmalloc(1000); }
int main(void)
{
  for (int i = 0; i < 100; i++)
    load(i);
  for (int i = 100; i < 300; i++)
    parse(i);
  return 0;
}
"""


@needs_names
@needs_compiler
@pytest.mark.parametrize("file", ["inlined.c", "in\nlined.c"])
def test_inlined_functions(request, tidepool, tmp_path, file):
    (tmp_path / file).write_text(INLINED, encoding="utf-8")
    subprocess.run(["cc", "-O1", "-fno-optimize-sibling-calls", "-g", "-o", "inlined", file], cwd=tmp_path, check=True)
    library = os.path.abspath(request.config.getoption("--library"))
    tidepool("record", "--library", library, "-o", tmp_path / "inlined.recording", tmp_path / "inlined")
    places = part(tidepool("show", tmp_path / "inlined.recording").stdout, "live at the end: ")[1]
    assert (200, ["xmalloc", "parse", "main"]) in places and (100, ["xmalloc", "load", "main"]) in places


@needs_names
def test_names_where_nobody_is_told_of_children(tidepool, recording):
    done = tidepool("show", recording, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert part(done.stdout, "live at the end: ")[1][0][1][:2] == ["leak_some", "main"] and not done.stderr


def stacks_of(places):
    assert len({tuple(place["stack"]) for place in places}) == len(places)
    return {" < ".join(place["stack"]): place for place in places}


@needs_names
def test_json(tidepool, recording):
    said = json.loads(tidepool("show", "--json", recording).stdout)
    text, page = tidepool("show", "-n", 100000, recording).stdout, page_of(tidepool, recording).read_text(encoding="utf-8")
    assert said["of"].endswith("a</script><b>&'\"") and said["calls"] == int(re.search(r"^(\d+) calls", text, re.M)[1])
    assert 0 < said["peak_seconds"] < said["seconds"] and not said["heaps"]
    places = stacks_of(said["places"])
    for title, kind in (("live at the peak, ", "peak"), ("live at the end: ", "end"), ("allocated: ", "allocated")):
        blocks, printed = part(text, title)
        assert blocks == said[f"{kind}_blocks"] == sum(place[f"{kind}_blocks"] for place in places.values())
        assert said[f"{kind}_bytes"] == sum(place[f"{kind}_bytes"] for place in places.values())
        assert sum(count for count, _ in printed) == blocks
        assert all(places[" < ".join(stack)][f"{kind}_blocks"] == count for count, stack in printed if stack != ["?"])
    assert places["leak_some < main"]["end_bytes"] == 100000 and '"leak_some"' in page
    assert json.loads(tidepool("show", "--json", "--at", 0, recording).stdout)["places"] == []


@needs_names
def test_json_of_a_diff(tidepool, record):
    less, more = record("less", "less"), record("more", "more")
    said = json.loads(tidepool("diff", "--json", less, more).stdout)
    for name, file in (("before", less), ("after", more)):
        alone = json.loads(tidepool("show", "--json", file).stdout)
        assert said[name] == {"of": str(file), **{key: alone[key] for key in said[name] if key != "of"}}
        places, own = stacks_of(said["places"]), stacks_of(alone["places"])
        assert set(own) <= set(places)
        for stack, place in places.items():
            assert {"stack": place["stack"], **place[name]} == own.get(stack, {"stack": place["stack"], **dict.fromkeys(
                place[name], 0)})
    assert stacks_of(said["places"])["leak_some < main"]["after"]["end_blocks"] == 200


def test_so_many_places(tidepool, recording):
    text = tidepool("show", "-n", 1, recording).stdout
    assert [len(part(text, title)[1]) for title in ("live at the end: ", "live at the peak", "allocated: ")] == [1, 1, 1]


def page_of(tidepool, recording):
    page = recording.with_suffix(".html")
    done = tidepool("show", "-o", page, recording)
    assert not done.stdout
    return page


def test_the_page(tidepool, recording):
    text = page_of(tidepool, recording).read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert not tags.open and not tags.links and len(tags.scripts) == 1 and "http" not in text
    assert "a&#60;/script&#62;&#60;b&#62;&#38;" in text
    names = json.loads(re.search(r"const names=(\[.*?\]);\n", text)[1])
    sites = json.loads(re.sub(r",\n\]$", "]", re.search(r"const sites=(\[.*?\]);\nconst", text, re.S)[1]))
    assert len(set(names)) == len(names)
    assert sum(sums[3] for sums, _ in sites) == part(tidepool("show", recording).stdout, "allocated: ")[0]
    assert all(frame < len(names) for _, frames in sites for frame in frames)
    if shutil.which("addr2line"):
        leaks = [(sums[1], [names[frame] for frame in frames]) for sums, frames in sites if sums[1] >= 100000]
        assert len(leaks) == 1 and leaks[0][0] == 100000 and leaks[0][1][-2:] == ["main", "leak_some"]


@needs_browser
def test_the_page_in_a_browser(tidepool, recording, browse):
    dom = browse(page_of(tidepool, recording))
    assert re.search(r'<div id="flame"[^>]*>(<div [^>]*>[^<]*</div>){4}', dom)
    assert re.search(r'title="take_large\n9.54? MiB', dom) or not shutil.which("addr2line")


def test_a_page_that_cannot_be_written(tidepool, recording):
    for page in ("/dev/full", recording / "page"):
        done = tidepool("show", "-o", page, recording, check=False)
        assert done.returncode == 125 and done.stderr.startswith(f"tidepool: show: {page}: ")


def test_without_names(tidepool, recording, tmp_path):
    done = tidepool("show", recording, env={**os.environ, "PATH": str(tmp_path)})
    assert done.stderr == "tidepool: show: addr2line(1) is not there, so functions have no names\n"
    assert re.search(r"100  shown\+0x[0-9a-f]+ < shown\+0x", done.stdout)


@needs_names
@pytest.mark.parametrize("how", ("removed", "replaced", "written"))
def test_another_program_than_was_recorded(request, tidepool, copy, tmp_path, how):
    library = os.path.abspath(request.config.getoption("--library"))
    tidepool("record", "--library", library, "-o", tmp_path / "recording", tmp_path / "program")
    assert "leak_some < main" in tidepool("show", tmp_path / "recording").stdout
    reason = copy(how)
    done = tidepool("show", tmp_path / "recording")
    assert done.stderr == "tidepool: show: " + reason
    assert "leak_some" not in done.stdout and re.search(r"  program\+0x[0-9a-f]+ < program\+0x", done.stdout)


def test_without_stacks(request, tidepool, tmp_path):
    library, shown = (os.path.abspath(request.config.getoption(name)) for name in ("--library", "--shown"))
    file = tmp_path / "none"
    tidepool("record", "--library", library, "--frames", 0, "-o", file, shown)
    assert part(tidepool("show", file).stdout, "allocated: ")[0] > 40000
    assert page_of(tidepool, file).stat().st_size > 1000


@needs_names
def test_what_is_more(tidepool, record):
    before, after = record("before", "less"), record("after", "more")
    for first, second, sign in ((before, after, "+"), (after, before, "-")):
        text = tidepool("diff", first, second).stdout
        lines = text[text.index("\nlive at the end: "):].splitlines()[1:3]
        assert lines[0].split()[4:9] == [sign, "97.7", "KiB", f"{sign}100", "blocks,"], lines
        assert lines[1].split()[:5] == [sign, "97.7", "KiB", f"{sign}100", "leak_some"], lines
    text = tidepool("diff", before, before).stdout
    assert len(text.splitlines()) == 8 and "+" not in text.replace("+0 blocks", "")


@needs_names
def test_moments(tidepool, record):
    file = record("file", "less")
    whole = tidepool("show", file).stdout
    assert tidepool("show", "--at", 1000, file).stdout == whole
    assert "\n0 calls" in tidepool("show", "--at", 0, file).stdout
    text = tidepool("diff", "--from", 0, file).stdout
    assert text.startswith(f"before: {file} until 0.000 s, 0 calls") and f"\nafter:  {file}, " in text
    assert "\nlive at the end: +  97.7 KiB +100 blocks, from 0 B to 97.7 KiB\n" in text
    assert "\n+  97.7 KiB        +100  leak_some < main\n" in text
    assert f"after:  {file} until 1000.000 s" in tidepool("diff", "--from", 0, "--to", 1000, file).stdout


@pytest.mark.parametrize("command, arguments", [("diff", ("--from", "1", "a", "b")), ("diff", ("--to", "1", "a")),
                                                ("diff", ("--from", "2", "--to", "1", "a")), ("diff", ("--from", "x", "a")),
                                                ("show", ("--at", "-1", "a")), ("show", ("--at", "1e99", "a"))])
def test_wrong_moments(tidepool, command, arguments):
    done = tidepool(command, *arguments, check=False)
    assert done.returncode == 2 and done.stderr.startswith(f"tidepool {command}: ")


@pytest.mark.parametrize("arguments", [(), ("a",), ("a", "b", "c"), ("-n", "x", "a", "b")])
def test_diff_wrong_arguments(tidepool, arguments):
    done = tidepool("diff", *arguments, check=False)
    assert done.returncode == 2 and not done.stdout and done.stderr.startswith("tidepool diff: ")


@pytest.mark.parametrize("arguments", [(), ("-n", "x", "a"), ("-n", "-1", "a"), ("a", "b"), ("--none",)])
def test_wrong_arguments(tidepool, arguments):
    done = tidepool("show", *arguments, check=False)
    assert done.returncode == 2 and not done.stdout and done.stderr.startswith("tidepool show: ")


def test_what_is_no_recording(tidepool, tmp_path):
    (tmp_path / "text").write_bytes(b"hello\n" * 100)
    done = tidepool("show", tmp_path / "text", check=False)
    assert done.returncode == 1 and done.stderr.startswith(f"tidepool: show: {tmp_path / 'text'}: ")
