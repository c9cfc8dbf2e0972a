# SPDX-License-Identifier: MIT
"""tidepool show and diff of profiles: what is reckoned from them, pages, other forms, files that hold anything; and programs
that are others since."""

import gzip
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

from pages import (Tags, fixture_browse, fixture_copy, fixture_odd_names,   # pylint: disable=unused-import
                   fixture_shown, needs_browser, needs_names, ODD)
from sharing import SECONDS, fixture_tidepool   # pylint: disable=unused-import
from test_show import part

TAIL = "\nMAPPED_LIBRARIES:\n00400000-00452000 r-xp 00000000 08:02 173521      /nowhere/server\n"
SHORT = "heap profile: 2: 9 [3: 10] @ heapprofile\n2: 9 [3: 10] @ 0x401234 0x401300\n" + TAIL


@pytest.fixture(name="profile")
def fixture_profile(tidepool, shown, tmp_path):
    def profile(name, argument, program=shown, sample_bytes=2048):
        file = tmp_path / name
        tidepool("run", "--profile", file, "-o", f"sample_bytes={sample_bytes}", program, argument)
        return file
    return profile


@pytest.fixture(name="written")
def fixture_written(tmp_path):
    def written(text):
        file = tmp_path / "written.heap"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file
    return written


def reckoned(file):
    """Blocks and bytes of each line, in use and in all, by the formula of google-pprof."""
    text = file.read_text()
    distance = int(re.search(r"heap_v2/(\d+)", text)[1])
    for line in text[:text.index("MAPPED_LIBRARIES")].splitlines()[1:]:
        for blocks, size in re.findall(r"(\d+): *(\d+)", line):
            factor = 1 / (1 - math.exp(-int(size) / int(blocks) / distance)) if int(blocks) else 0
            yield int(blocks) * factor, int(size) * factor


@needs_names
def test_what_is_reckoned(tidepool, profile):
    file = profile("sampled", "x")
    lines = list(reckoned(file))
    text = tidepool("show", file).stdout
    for title, lines in (("in use: ", lines[::2]), ("allocated: ", lines[1::2])):
        blocks, places = part(text, title)
        assert abs(blocks - sum(count for count, _ in lines)) <= len(lines) / 2
        assert sum(count for count, _ in places) == blocks
    assert places[0][1][:3] == ["take_large", "have_a_peak", "main"] and 30000 < blocks < 50000
    said = json.loads(tidepool("show", "--json", file).stdout)
    assert said["allocated_blocks"] == blocks and said["sample_bytes"] == 2048
    assert said["allocated_samples"] == sum(place["allocated_samples"] for place in said["places"]) > 0


def test_json_of_kinds_that_both_have(tidepool, written, tmp_path):
    alone = tmp_path / "alone.heap"
    alone.write_text("heap_v2/2048\n  t*: 1: 64 [0: 0]\n@ 0x401234 0x401300\n  t*: 1: 64 [0: 0]\n" + TAIL)
    both = written("heap_v2/2048\n  t*: 2: 128 [5: 320]\n@ 0x401234 0x401300\n  t*: 2: 128 [5: 320]\n" + TAIL)
    for files in ((alone, both), (both, alone)):
        said = json.loads(tidepool("diff", "--json", *files).stdout)
        keys = {frozenset(side) - {"of"} for place in (said, *said["places"]) for side in (place["before"], place["after"])}
        assert keys == {frozenset(("in_use_bytes", "in_use_blocks", "in_use_samples"))}
    for command, *paths in (("show", both), ("diff", both, alone)):
        assert tidepool(command, "--json", "-o", tmp_path / "page.html", *paths, check=False).returncode == 2


@needs_names
def test_each_block(tidepool, profile):
    text = tidepool("show", profile("exact", "more", sample_bytes=1)).stdout
    assert "Each block is in the profile." in text
    assert part(text, "in use: ")[1][0][0] == 200 and part(text, "in use: ")[1][0][1][:2] == ["leak_some", "main"]
    assert (40000, "churn") in [(count, stack[0]) for count, stack in part(text, "allocated: ")[1]]


@pytest.mark.skipif(not shutil.which("google-pprof"), reason="google-pprof is not here")
def in_use(tidepool, file):
    return json.loads(tidepool("show", "--json", file).stdout)["in_use_blocks"]


@pytest.fixture(name="grown")
def fixture_grown(request, tidepool, tmp_path):
    """Runs the program whose 4,000 blocks of 1,000 bytes are all live at its peak."""
    program = os.path.abspath(request.config.getoption("--program"))

    def grown(how, *options, file=tmp_path / "heap"):
        return tidepool("run", "--profile", file, "-o", "sample_bytes=1", *options, program, how, check=False)
    return grown


@pytest.mark.parametrize("how", ("killed", "terminated"))
def test_what_is_left_of_a_killed_process(tidepool, grown, tmp_path, how):
    """The profile at its peak, or a MiB of blocks before."""
    assert grown(how).returncode < 0 and os.listdir(tmp_path) == ["heap"]
    assert 4000 - (1 << 20) // 1000 <= in_use(tidepool, tmp_path / "heap") <= 4010
    assert not tidepool("show", tmp_path / "heap").stderr


def test_what_is_left_of_one_that_frees(tidepool, grown, tmp_path):
    """Two profiles: of its end and of its peak. An older one is not taken for this one's."""
    for _ in range(2):
        assert grown("grows").returncode == 0 and sorted(os.listdir(tmp_path)) == ["heap", "heap.peak"]
        assert 400 <= in_use(tidepool, tmp_path / "heap") <= 410 and in_use(tidepool, tmp_path / "heap.peak") > 2900
        said = tidepool("show", tmp_path / "heap").stderr
        assert said == f"tidepool: show: more was in use before the end: {tmp_path}/heap.peak is the profile of that\n"
    assert grown("loaded").returncode == 0 and os.listdir(tmp_path) == ["heap"]


def test_a_child_leaves_its_parents_peak(tidepool, grown, tmp_path):
    """It writes at its end, as each process does, and the parent at a later one. With %p each has files of its own."""
    assert grown("forks").returncode == 0 and os.listdir(tmp_path) == ["heap"]
    assert in_use(tidepool, tmp_path / "heap") < 100
    (tmp_path / "heap").unlink()
    assert grown("forks", file=tmp_path / "heap.%p").returncode == 0
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".peak")]) == 1 and len(os.listdir(tmp_path)) == 3


def test_a_profile_that_is_no_file_of_a_disk(grown, tmp_path):
    """It is written to, and nothing takes its place."""
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to("real")
    for path in (tmp_path / "link", pathlib.Path("/dev/null")):
        before = path.lstat().st_ino
        assert not grown("grows", file=path).stderr and path.lstat().st_ino == before
    assert (tmp_path / "real").stat().st_size and sorted(os.listdir(tmp_path)) == ["link", "real"]
    assert not pathlib.Path("/dev/null.peak").exists() and not pathlib.Path("/dev/null.new").exists()


def test_the_same_as_pprof(tidepool, profile, shown):
    file = profile("compared", "x")
    done = subprocess.run(["google-pprof", "--text", "--show_bytes", "--alloc_space", shown, file], capture_output=True,
                          text=True, timeout=SECONDS, check=True)
    total, churned = (int(re.search(pattern, done.stdout, re.M)[1]) for pattern in (r"^Total: (\d+) B", r"^ *(\d+).* churn$"))
    page = page_of(tidepool, file)
    sites, names = data_of(page)
    assert abs(sum(sums[1] for sums, _ in sites) - total) <= 8
    assert abs(sum(sums[1] for sums, frames in sites if names[frames[-1]] == "churn") - churned) <= 8


# ---- the page ----

def page_of(tidepool, file):
    page = file.with_suffix(".html")
    tidepool("show", "-o", page, file)
    return page.read_text()


def data_of(text):
    names = json.loads(re.search(r"const names=(\[.*?\]);\n", text)[1])
    return json.loads(re.sub(r",\n\]$", "]", re.search(r"const sites=(\[.*?\]);\nconst", text, re.S)[1])), names


def test_the_page(tidepool, profile):
    text = page_of(tidepool, profile("sampled", "x"))
    tags = Tags()
    tags.feed(text)
    assert not tags.open and not tags.links and len(tags.scripts) == 1 and "http" not in text
    assert '["in use",1],["allocated",1],["blocks in use",0],["blocks allocated",0]]' in text
    assert "over time" not in text and "lived" not in text and "<svg" not in text
    sites, names = data_of(text)
    assert all(len(sums) == 4 and all(frame < len(names) for frame in frames) for sums, frames in sites)


@needs_browser
def test_the_page_in_a_browser(tidepool, profile, browse):
    file = profile("sampled", "x")
    page = file.with_suffix(".html")
    tidepool("show", "-o", page, file)
    dom = browse(page)
    assert re.search(r'<div id="flame"[^>]*>(<div [^>]*>[^<]*</div>){3}', dom)
    assert re.search(r'<button class="on"[^>]*>in use</button><button( class="")?[^>]*>allocated</button>', dom)
    assert not shutil.which("addr2line") or re.search(r'title="leak_some\n[\d.]+ KiB, 100.0 %', dom)


# ---- diff ----

@needs_names
def test_what_is_more(tidepool, profile):
    before, after = profile("before", "x", sample_bytes=1), profile("after", "more", sample_bytes=1)
    text = tidepool("diff", before, after).stdout
    assert "\nin use: +  97.7 KiB +100 blocks, from 97.7 KiB to 195 KiB\n+  97.7 KiB        +100  leak_some < main" in text
    assert len(tidepool("diff", before, before).stdout.splitlines()) == 8


def test_a_profile_and_a_recording(request, tidepool, shown, profile, tmp_path):
    library = os.path.abspath(request.config.getoption("--library"))
    recording, file = tmp_path / "recording", profile("sampled", "x")
    tidepool("record", "--library", library, "-o", recording, shown)
    for files in ((recording, file), (file, recording)):
        done = tidepool("diff", *files, check=False)
        assert done.returncode == 1 and not done.stdout
        assert done.stderr == f"tidepool: diff: {file} is a profile, {recording} is a recording, and these cannot be compared\n"


# ---- other forms ----

JEMALLOC = """heap_v2/524288
  t*: 6: 11000000 [0: 0]
  t0: 6: 11000000 [0: 0]
@ 0x401234 0x401300
  t*: 1: 2097152 [0: 0]
  t0: 1: 2097152 [0: 0]
@ 0x401300
  t*: 4: 8388608 [0: 0]
  t0: 4: 8388608 [0: 0]
"""


OF_HEAPS = '''heap profile: 3: 600 [4: 700] @ heapprofile
# heap "default"
1: 100 [1: 100] @ 0x0
# heap "the \\"odd\\" one\\u001b[31m"
1: 200 [2: 300] @ 0x0
# heap ""
1: 300 [1: 300] @ 0x0

MAPPED_LIBRARIES:
'''


def test_heaps_that_are_named(tidepool, written):
    file = written(OF_HEAPS)
    done = tidepool("show", file)
    assert not done.stderr and "\x1b" not in done.stdout
    rows = re.findall(r"^ +(\d+) B +(\d+) +(\d+) B +(\d+)  (.*)$", done.stdout, re.M)
    assert rows == [("300", "1", "300", "1", "heaps that are gone"), ("200", "1", "300", "2", 'the "odd" one?[31m'),
                    ("100", "1", "100", "1", "default")]
    assert "1  heap \"the \"odd\" one?[31m\"" in done.stdout
    only = tidepool("show", "--heap", "default", file).stdout
    assert "in use: 100 B in 1 blocks" in only and "odd" not in only.split("in use: ")[1]
    none = tidepool("show", "--heap", "none", file, check=False)
    assert (none.returncode, none.stderr) == (1, f'tidepool: show: {file}: there is no heap "none" in it\n')


# A block of 100 bytes that was hit stands for 5243; one of 10 MiB for itself.
OF_FEW = '''heap profile: 41: 10489760 [41: 10489760] @ heap_v2/524288
1: 100 [1: 100] @ 0x1000
30: 3000 [30: 3000] @ 0x2000
9: 900 [9: 900] @ 0x3000
1: 10485760 [1: 10485760] @ 0x4000

MAPPED_LIBRARIES:
'''


def test_what_few_samples_say_is_marked(tidepool, written):
    in_use = tidepool("show", written(OF_FEW)).stdout.split("in use: ")[1].split("allocated: ")[0].splitlines()[1:5]
    marks = {line.split()[4]: line.partition("  [")[2] for line in in_use}   # by their blocks
    assert marks == {"5243": "by 1 sample]", "157301": "", "47190": "by 9 samples]", "1": ""}


def test_jemallocs(tidepool, written):
    """It does not count what was freed, unless it is told so, and then there is nothing to say of it."""
    done = tidepool("show", written(JEMALLOC + TAIL))
    assert done.stderr == "tidepool: show: /nowhere/server is not there any more, so its functions have no names\n"
    assert "\nin use: 10.2 MiB in 5 blocks\n" in done.stdout
    assert "8.15 MiB  80.0 %          4  server+0x1300\n" in done.stdout and "\nallocated" not in done.stdout
    assert '[["in use",1],["blocks in use",0]]' in page_of(tidepool, written(JEMALLOC + TAIL))
    text = JEMALLOC.replace("[0: 0]", "[7: 14680064]")
    assert "\nallocated: 28.5 MiB in 14 blocks\n" in tidepool("show", written(text + TAIL)).stdout


@pytest.mark.parametrize("text, reason", (
    (gzip.compress(b"anything"), "it is compressed; of profiles text is read, as tidepool, gperftools and jemalloc write it"),
    ("heap profile: 1: 2 [3: 4] @ heap/1048576\n", "it is a profile of another kind: heap_v2 and heapprofile are read"),
    ("heap profile: 1: 2 [3: 4] @ growthz/1\n", "it is a profile of another kind: heap_v2 and heapprofile are read"),
    ("heap profile: 1: 2 [3: 4] @ heap_v2/0\n", "its first line is none of a profile"),
    ("heap profile: -1: 2 [3: 4] @ heap_v2/1\n", "its first line is none of a profile"),
    ("heap profile: 1: 99999999999999999999999 [3: 4] @ heap_v2/1\n", "its first line is none of a profile"),
    ("heap_v2/x\n", "its first line is none of a profile"),
    ("heap profile: " + "1" * 100000 + "\n", "its first line is none of a profile"),
    ("heap profile: 1: 2 [3: 4] @ heap_v2/5242", "it is cut off in its first line"),
    ("--- symbol\n", "it is no recording and no profile"), (b"\xff\x00" * 5000, "it is no recording and no profile"),
    ("tide", "it is no recording and no profile"), ("", "it is empty")), ids=lambda value: repr(value[:40]))
def test_what_is_none(tidepool, written, text, reason):
    file = written(text)
    for arguments in ((), ("-o", file.with_suffix(".html"))):
        done = tidepool("show", *arguments, file, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"tidepool: show: {file}: {reason}\n")
    assert not file.with_suffix(".html").exists()


@pytest.mark.parametrize("line", (
    "x", "1: 2 [3: 4]", "1: 2 [3: 4] @ 12", "1: 2 [3: 4] @ 0x", "1: 2 [3: 4] @ 0x10000000000000000", "1 2 [3: 4] @ 0x1",
    "1: 281474976710657 [3: 4] @ 0x1", "1: 2 [3: 4] @" + " 0x1" * 257, "1" * 1000000, "1: 2 [3: 4] @ 0x1\0",
    "-1: 2 [3: 4] @ 0x1", "1: 2 [3: 4] @ 0x1\x1b[2J"), ids=lambda line: repr(line[:40]))
def test_bad_lines(tidepool, written, line):
    first, rest = SHORT.split("\n", 1)
    done = tidepool("show", written(f"{first}\n{line}\n{rest}"))
    assert done.stderr.count("lines in it that are none of a profile, and left out: 1\n") == 1
    assert "\x1b" not in done.stdout + done.stderr
    assert "\nin use: 9 B in 2 blocks\n" in done.stdout and "\nallocated: 10 B in 3 blocks\n" in done.stdout


def test_numbers_that_no_program_has(tidepool, written):
    """Together they would be more than a number can be."""
    line = "1: 1 [281474976710656: 281474976710656] @ 0x1\n"
    text = "heap profile: 9: 9 [0: 0] @ heap_v2/281474976710656\n" + line * 9 + TAIL
    done = tidepool("show", written(text))
    assert "lines in it that are none of a profile, and left out: 9\n" in done.stderr
    assert "\nin use: 0 B in 0 blocks" in done.stdout


def test_cut_off(tidepool, written):
    for length in (SHORT.index("\n2: 9") + 1, SHORT.index(" 0x401300"), SHORT.index("\nMAPPED") + 1):
        done = tidepool("show", written(SHORT[:length]))
        assert done.stderr.endswith(": it is cut off, so nothing in it has a name\n")
    assert re.search(r"in use: 9 B in 2 blocks\n +9 B 100.0 % +2  0x401234 < 0x401300\n", done.stdout)
    done = tidepool("show", written(SHORT[:-5]))
    assert done.stderr.endswith(": it is cut off\n") and "  0x401234 < 0x401300" in done.stdout


def test_sums_that_differ(tidepool, written):
    assert "its places have not the sums that it says" in tidepool("show", written(SHORT.replace("2: 9", "2: 8", 1))).stderr


def test_a_pipe_is_not_waited_for(tidepool, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = tidepool("show", tmp_path / "pipe", check=False)
    assert done.returncode == 1 and "it is no file of a disk" in done.stderr


# ---- names that others made ----

def test_names_are_quoted(tidepool, profile, odd_names):
    file = profile("<script><b>", "x")
    page = file.parent / "page.html"
    tidepool("show", "-o", page, file, env=odd_names)
    text = page.read_text()
    tags = Tags()
    tags.feed(text)
    assert not tags.open and len(tags.scripts) == 1 and "<b>" not in text and "alert(1)<" not in text
    assert "&#60;script&#62;&#60;b&#62;</h1>" in text and ODD + "\x1b[2J" in data_of(text)[1]
    done = tidepool("show", file, env=odd_names)
    assert ODD + "?[2J < " in done.stdout and "\x1b" not in done.stdout


def test_paths_are_not_obeyed(tidepool, written):
    text = SHORT.replace("/nowhere/server", "/nowhere/\x1b[2J</script><b>")
    done = tidepool("show", written(text))
    assert "script><b>+0x1234 < script><b>+0x1300" in done.stdout and "\x1b" not in done.stdout + done.stderr
    page = page_of(tidepool, written(text.replace("</", "<")))
    assert "<b>" not in page and "\\u003cb\\u003e+0x1234" in page


# ---- programs that are others since ----

@needs_names
@pytest.mark.parametrize("how", ("removed", "replaced", "written"))
def test_another_program(tidepool, profile, copy, tmp_path, how):
    file = profile("sampled", "x", program=tmp_path / "program")
    assert "leak_some < main" in tidepool("show", file).stdout
    reason = copy(how)
    done = tidepool("show", file)
    assert done.stderr.splitlines(keepends=True)[0] == "tidepool: show: " + reason
    assert "leak_some" not in done.stdout and re.search(r"  program\+0x[0-9a-f]+ < program\+0x", done.stdout)


@needs_names
def test_a_profile_that_was_copied(tidepool, profile, copy, tmp_path):
    """It is younger than the program that has come since, but that is another file."""
    file = profile("sampled", "x", program=tmp_path / "program")
    copy("replaced")
    copied = shutil.copyfile(file, tmp_path / "copied")
    later = time.time() + 1000
    os.utime(copied, (later, later))
    done = tidepool("show", copied)
    assert "has changed since" in done.stderr and "leak_some" not in done.stdout


def test_a_program_that_was_replaced_while_it_ran(tidepool, tmp_path):
    """By one that is older by its date; what ran on is the old one."""
    python, program = os.path.realpath(sys.executable), tmp_path / "program"
    script = f"import os, shutil; shutil.copy2('{python}', '{program}.new'); os.rename('{program}.new', '{program}')"
    for how, reason in ((("run", "-o", "sample_bytes=1", "--profile"), "program (deleted) is not there any more, "),
                        (("record", "-o"), "program has changed since it was recorded, ")):
        shutil.copy2(python, program)
        tidepool(*how, tmp_path / "file", "--", program, "-c", script)
        done = tidepool("show", tmp_path / "file")
        assert reason + "so its functions have no names\n" in done.stderr
        assert re.search(r" program( \(deleted\))?\+0x", done.stdout)
