# SPDX-License-Identifier: MIT
"""tidepool map: a program with blocks in all places a block can be in, one that allocates all the time, recordings at several
moments, and what cannot be mapped."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys

import pytest

from packed import Packed
from pages import Tags, fixture_browse, needs_browser   # pylint: disable=unused-import
from sharing import NOT_SHARED, Shares, descriptors_of, fixture_tidepool   # pylint: disable=unused-import

REFUSED = "may not read its memory"


@pytest.fixture(name="mapped")
def fixture_mapped(request, tidepool):
    """Starts the program, and gives it with what its heaps say of themselves."""
    program = os.path.abspath(request.config.getoption("--mapped"))
    running = []

    def mapped(*arguments, options="export=1"):
        process = subprocess.Popen([program, *arguments], env={**os.environ, "TIDEPOOL_OPTIONS": options},
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(process)
        said = []
        for line in iter(process.stdout.readline, "ready\n"):
            assert line
            said.append(line.rstrip("\n").split(" ", 5))
        done = tidepool("map", process.pid, check=False)
        if REFUSED in done.stderr:
            pytest.skip("nobody but root may read the memory of a process here")
        assert not done.stderr
        process.said = {name: list(map(int, figures)) for *figures, name in said}
        return process
    yield mapped
    for process in running:
        process.kill()
        process.communicate()


def figures_of(tidepool, *of):
    return json.loads(tidepool("map", "--json", *of).stdout)


def sum_of(heap, key):
    return sum(row[key] for row in heap["rows"])


@pytest.mark.parametrize("options", ["export=1", "export=1,background=2"])
def test_all_places(tidepool, mapped, options):
    """To the block and the byte what the heaps say, wherever a thread has the default heap's magazines."""
    process = mapped(options=f"{options},purge_delay_ms=3600000")
    figures = figures_of(tidepool, process.pid)
    heaps = {heap["name"]: heap for heap in figures["heaps"]}
    assert figures["changing"] == 0 and set(heaps) == set(process.said)
    for name, (live_blocks, live_bytes, cached_bytes, idle_bytes, held_bytes) in process.said.items():
        heap = heaps[name]
        assert [sum_of(heap, "live_blocks"), sum_of(heap, "live_bytes")] == [live_blocks, live_bytes], name
        assert sum(row["cached_blocks"] * row["block_size"] for row in heap["rows"]) == cached_bytes, name
        if name in ("default", "units", "reserve"):   # of which more is idle than is in slabs
            assert sum_of(heap, "held_bytes") - live_bytes - cached_bytes <= idle_bytes
        else:
            assert sum_of(heap, "held_bytes") - live_bytes - cached_bytes == idle_bytes, name
            assert heap["held_bytes"] == held_bytes, name
    kinds = [arena["kind"] for arena in figures["arenas"]]
    assert kinds[0] == "window" and kinds.count("region") == 3 and kinds.count("granules") == 3 and kinds[-1] != "window"


def test_known_slabs(tidepool, mapped):
    """Blocks of 16 bytes, of which each second was freed, are in one slab, and those of 1024 in sixteen."""
    heap = next(heap for heap in figures_of(tidepool, mapped().pid)["heaps"] if heap["name"] == "slabs")
    rows = {row["block_size"]: row for row in heap["rows"]}
    assert (rows[16]["places"], rows[16]["live_blocks"]) == (1, 1500)
    assert (rows[1024]["places"], rows[1024]["live_blocks"]) == (16, 768)
    assert sum(rows[16][f"{state}_blocks"] for state in ("live", "cached", "free", "fresh")) == 65536 // 16
    assert rows[16]["less_than_half"] == 65536 and rows[16]["less_than_quarter"] == 0
    assert rows[20480]["live_blocks"] == 26 and rows[20480]["held_bytes"] == 5 * 3 * 65536


def smaps_of(pid, start, end):
    """What the system says of the mappings in a stretch of addresses: resident, and in huge pages."""
    sums, counts = {"Rss": 0, "AnonHugePages": 0}, False
    with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as lines:
        for line in lines:
            addresses = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
            key = line.partition(":")[0]
            if addresses:
                counts = start <= int(addresses[1], 16) and int(addresses[2], 16) <= end
            elif counts and key in sums:
                sums[key] += int(line.split()[1]) * 1024
    return sums["Rss"], sums["AnonHugePages"]


@pytest.mark.parametrize("huge_pages", ["never", "always"])
def test_huge_pages(tidepool, mapped, huge_pages):
    """What the system says of the process's mappings, whether it gives huge pages or not."""
    process = mapped(options=f"export=1,huge_pages={huge_pages}")
    figures = figures_of(tidepool, process.pid)
    huge = figures["huge"]
    windows = [arena for arena in figures["arenas"] if arena["kind"] == "window"]
    slot = 1 << 30 if sys.maxsize > 1 << 32 else 32 << 20
    start = min(arena["base"] for arena in windows) & -slot
    resident, in_huge_pages = smaps_of(process.pid, start, start + 64 * slot)
    assert huge["resident_bytes"] >= resident > 0 and huge["huge_page_bytes"] >= in_huge_pages
    assert huge["resident_bytes"] - resident <= sum(row["held_bytes"] for heap in figures["heaps"] for row in heap["rows"]
                                                    if row["kind"] == "mapped")
    text = tidepool("map", process.pid).stdout
    assert re.search(r"^[0-9.]+ \w+ are resident, of which [0-9.]+ \w+ are in huge pages, \d+ %\.", text, re.M)


def strips_of(text):
    return re.findall(r"^  \|([#0-9. ?]*)\|$", text, re.M)


def test_text(tidepool, mapped):
    text = tidepool("map", mapped().pid).stdout
    assert text.startswith("process ") and text.splitlines()[0].endswith(", mapped")
    for name in ("default", "slabs", "bounded, ", "kept, ", "guest", "checked", "large"):
        assert f"\nheap {name}" in text
    assert "changed while" not in text
    assert re.search(r"^ +1024 +16 +768 +", text, re.M)
    assert len(strips_of(text)) >= 8 and all(len(strip) <= 64 for strip in strips_of(text))
    assert strips_of(text)[-1] == "#" * 64   # all mappings are live blocks


# ---- the page ----


def checked_page(path):
    text = path.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert not tags.open and not tags.links and len(tags.scripts) == 1 and "http" not in text
    return text


def test_the_page(tidepool, mapped, tmp_path):
    """Each block is in it as it is in the figures."""
    process, page = mapped(), tmp_path / "map.html"
    assert not tidepool("map", "-o", page, process.pid).stdout
    packed = Packed(checked_page(page))
    heaps = figures_of(tidepool, process.pid)["heaps"]
    for number, heap in enumerate(heaps):
        for row in heap["rows"]:
            if row["kind"] != "class":
                continue
            place = packed.rows.index([number, 0, row["block_size"]])
            assert packed.states[place] == [row[f"{state}_blocks"] for state in ("live", "cached", "free", "fresh")]
    assert page.stat().st_size < 100000


def test_heads(tidepool, mapped, tmp_path):
    """Heaps that are checked or have sites know what was asked for, and where, while the program runs."""
    page = tmp_path / "map.html"
    for options, sizes in (("export=1", {100: 250}), ("export=1,sites=4", {100: 251, 700: 1, 999: 1})):
        process = mapped(options=options)
        tidepool("map", "-o", page, process.pid)
        text = checked_page(page)
        known = Packed(text).known
        for size, count in sizes.items():
            assert len([block for block in known if block[1] == size]) == count, (options, size)
        assert {age for _, _, age, _ in known} == {0} and all(site for _, _, _, site in known)
        if shutil.which("addr2line"):
            names = json.loads(re.search(r"const names=(\[.*?\]);\n", text)[1])
            sites = json.loads(re.search(r"const sites=(\[.*?\]);\n", text)[1])
            assert {names[sites[site - 1][0]] for _, size, _, site in known if size == 100} <= {"fill", "use_default", "main"}


@needs_browser
def test_the_page_in_a_browser(tidepool, mapped, browse, tmp_path):
    """The script runs to its end, and shows a slab."""
    process, page = mapped(), tmp_path / "map.html"
    tidepool("map", "-o", page, process.pid)
    places = sum(arena["places"] for arena in figures_of(tidepool, process.pid)["arenas"])
    text = browse(page)
    assert f'data-places="{places}"' in text
    assert re.search(r'<div id="place">0x[0-9a-f]+: slab, blocks of \d+ bytes, heap ', text)
    assert len(re.findall(r"<button", text)) == 13 + 2


CLICKS = """
document.getElementById('modes').children[1].click();
document.getElementById('heaps').children[1].click();
const box=document.getElementById('map').getBoundingClientRect();
const on={clientX:box.left+items[0].x+2,clientY:box.top+items[0].y+2};
document.getElementById('map').dispatchEvent(new MouseEvent('click',on));
document.getElementById('map').dispatchEvent(new PointerEvent('pointermove',{...on,pointerType:'mouse'}));
document.getElementById('map').dispatchEvent(new KeyboardEvent('keydown',{key:'ArrowRight',cancelable:true}));
document.body.dataset.chosen=chosen.number;
document.querySelectorAll('#rows tr[data-row]')[2].click();
document.body.dataset.only=only;
"""


@needs_browser
def test_clicks(tidepool, mapped, browse, tmp_path):
    """On a way to colour, a heap and the first cell, and then a key for the one after it."""
    process, page = mapped(), tmp_path / "map.html"
    tidepool("map", "-o", page, process.pid)
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("</script>\n</body>", CLICKS + "</script>\n</body>"), encoding="utf-8")
    text = browse(page)
    assert 'data-chosen="1"' in text and '<button class="on" aria-pressed="true">by how full</button>' in text
    assert 'data-only="2"' in text and len(re.findall(r'<tr data-heap="0" data-row="\d+" tabindex="0" class="on"', text)) == 1
    assert re.search(r'<button class="on" aria-pressed="true"[^>]*>default</button>', text)
    assert re.search(r'<div id="tip" style="display: block[^"]*">0x[0-9a-f]+: slab, blocks of \d+ bytes, heap ', text)
    assert len(re.findall(r'<tr data-heap="\d+"[^>]* hidden=""', text)) > 20


# ---- while it runs on ----


def test_while_it_allocates(tidepool, mapped):
    process = mapped("churn")
    for _ in range(20):
        figures = figures_of(tidepool, process.pid)
        assert "default" in [heap["name"] for heap in figures["heaps"]]
    assert process.poll() is None


def test_a_child(tidepool, shares):
    """The child of a fork has what the parent had, and what threads had cached is lost to it."""
    running = shares()
    running.do("heap second 300 100")
    running.do("fork")
    if REFUSED in tidepool("map", running.child, check=False).stderr:
        pytest.skip("nobody but root may read the memory of a process here")
    running.do("heap third 1000 100")
    heaps = {heap["name"]: heap for heap in figures_of(tidepool, running.child)["heaps"]}
    assert sum_of(heaps["second"], "live_blocks") == 300 and sum_of(heaps["third"], "live_blocks") == 1000


@pytest.fixture(name="shares")
def fixture_shares(request):
    running = []

    def shares(options="export=1"):
        running.append(Shares([os.path.abspath(request.config.getoption("--shares"))], options))
        return running[-1]
    yield shares
    for process in running:
        process.stop()


# ---- what cannot be mapped ----


def why_not(tidepool, *arguments, status=1):
    done = tidepool("map", *arguments, check=False)
    assert done.returncode == status and not done.stdout and done.stderr.count("\n") == 1
    return done.stderr


def test_no_process(tidepool, mapped):
    process = mapped()
    process.kill()
    process.wait()
    assert why_not(tidepool, process.pid) == f"tidepool: map: process {process.pid}: there is no such process\n"


def test_not_shared(tidepool):
    why = why_not(tidepool, os.getpid())
    assert why == f"tidepool: map: process {os.getpid()}: {NOT_SHARED}\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_user(tidepool, mapped):
    process = mapped()
    try:
        done = tidepool("map", process.pid, check=False, user=65534, group=65534, extra_groups=[])
    except PermissionError:
        pytest.skip("others may not reach this folder")
    assert done.returncode == 1
    assert done.stderr == f"tidepool: map: process {process.pid}: this user may not see it\n"


PRETEND = """
import fcntl, os, sys
file = os.memfd_create("tidepool figures", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.write(file, bytes.fromhex(sys.argv[1])[:56] + os.getpid().to_bytes(4, sys.byteorder) + bytes.fromhex(sys.argv[1])[60:])
fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
print("ready", flush=True)
sys.stdin.read()
"""


def test_other_processes(tidepool, mapped):
    """What shares the page of another version, of one before there were maps, and one that leads nowhere."""
    process = mapped()
    with open(f"/proc/{process.pid}/fd/{descriptors_of(process.pid)[0]}", "rb") as file:
        page = file.read(4096)
    layout, = struct.unpack_from("=Q", page, 64)
    pages = {
        page[:64] + struct.pack("=Q", layout ^ 1) + page[72:]: "its library is of another version than this program",
        page[:12] + struct.pack("=I", 64) + page[16:]: "its library is of a version before this one",
        page[:72] + struct.pack("=Q", 4096) + page[80:]: "its heaps cannot be read",
    }
    for pretended, why in pages.items():
        with subprocess.Popen([sys.executable, "-c", PRETEND, pretended.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as other:
            assert other.stdout.readline() == "ready\n"
            assert why in why_not(tidepool, other.pid)
            other.communicate("")


def test_wrong_arguments(tidepool, tmp_path):
    for arguments in ([], ["1", "2"], ["--at", "1", str(os.getpid())], ["--at", "soon", "file"], ["--at=-1", "file"],
                      ["--at", "nan", "file"]):
        assert tidepool("map", *arguments, check=False).returncode == 2
    assert "No such file" in why_not(tidepool, tmp_path / "none")
    (tmp_path / "text").write_text("no recording\n" * 10000)
    assert "recording" in why_not(tidepool, tmp_path / "text")


def test_a_page_that_cannot_be_written(tidepool, mapped, tmp_path):
    process = mapped()
    for page in ("/dev/full", tmp_path / "none" / "page"):
        why_not(tidepool, "-o", page, process.pid, status=125)


# ---- recordings ----


@pytest.fixture(name="record")
def fixture_record(request, tidepool, tmp_path):
    library = os.path.abspath(request.config.getoption("--library"))

    def record(*program, **more):
        path = tmp_path / "recording"
        tidepool("record", "--library", library, "-o", path, *program, **more)
        done = tidepool("map", path, check=False)
        if "cannot be read" in done.stderr or REFUSED in done.stderr:
            pytest.skip("a process may not read the memory of its child here")
        assert done.returncode == 0, done.stderr
        return [path]
    return record


@pytest.fixture(name="recording")
def fixture_recording(request, record):
    return record(os.path.abspath(request.config.getoption("--shown")), "a</script><b>&'\"")


def facts_of(tidepool, recording):
    """What was live at the peak and at the end."""
    return json.loads(tidepool("replay", "--check", "--json", recording[-1]).stdout)


def test_moments(tidepool, recording):
    facts = facts_of(tidepool, recording)
    peak, end = figures_of(tidepool, *recording), figures_of(tidepool, "--at", "end", *recording)
    assert peak["known_blocks"] == facts["peak_blocks"] and end["known_blocks"] == facts["end_blocks"]
    assert figures_of(tidepool, "--at", "peak", *recording)["known_blocks"] == facts["peak_blocks"]
    for figures in (peak, end):
        live = sum(sum_of(heap, "live_blocks") for heap in figures["heaps"])
        assert figures["changing"] == 0 and live == figures["known_blocks"] and figures["huge"] is None
    assert figures_of(tidepool, "--at", "0", *recording)["known_blocks"] < facts["peak_blocks"]
    late = figures_of(tidepool, "--at", "1000000", *recording)
    assert late["known_blocks"] == facts["end_blocks"]
    then = figures_of(tidepool, "--at", f"{(peak['seconds'] + end['seconds']) / 2:.9f}", *recording)
    assert peak["seconds"] <= then["seconds"] <= end["seconds"] and then["known_blocks"] >= 100


@pytest.mark.parametrize("options", ("", "checked=all", "sites=8", "guard_sample=1"))
def test_no_other_blocks(request, tidepool, record, options):
    """The process that plays a recording has blocks of its own, such as those of its threads. They are not on the map."""
    recording = record(os.path.abspath(request.config.getoption("--recorded")), "exchange", "100")
    for at, blocks in (("peak", "peak_blocks"), ("end", "end_blocks")):
        done = tidepool("map", "--json", "--at", at, *recording, env={**os.environ, "TIDEPOOL_OPTIONS": options})
        heaps = json.loads(done.stdout)["heaps"]
        assert sum(sum_of(heap, "live_blocks") for heap in heaps) == facts_of(tidepool, recording)[blocks]


def test_places_of_blocks(tidepool, recording, tmp_path):
    """Of each block the page has the size, and the place where it was allocated."""
    page = tmp_path / "map.html"
    tidepool("map", "--at", "end", "-o", page, *recording)
    text = checked_page(page)
    packed = Packed(text)
    assert len(packed.known) == facts_of(tidepool, recording)["end_blocks"]
    leaked = [known for known in packed.known if known[1] == 1000]
    assert len(leaked) >= 100
    assert "a&#60;/script&#62;&#60;b&#62;&#38;" in text
    if shutil.which("addr2line"):
        names = json.loads(re.search(r"const names=(\[.*?\]);\n", text)[1])
        sites = json.loads(re.search(r"const sites=(\[.*?\]);\n", text)[1])
        assert len([site for _, _, _, site in leaked if site and names[sites[site - 1][0]] == "leak_some"]) == 100


@needs_browser
def test_blocks_in_a_browser(tidepool, recording, browse, tmp_path):
    page = tmp_path / "map.html"
    tidepool("map", "--at", "end", "-o", page, *recording)
    text = browse(page)
    assert re.search(r'<div id="who"><div>\d+ of ', text)


def test_a_cut_recording(tidepool, recording, tmp_path):
    """What is left of it is mapped, or one line says that there is nothing."""
    whole = recording[-1].read_bytes()
    for length in (len(whole) - 70000, len(whole) // 2, 70000, 65536, 1000, 10, 0):
        path = tmp_path / "cut"
        path.write_bytes(whole[:max(length, 0)])
        done = tidepool("map", "--json", *recording[:-1], path, check=False)
        assert done.returncode in (0, 1) and all(line.startswith("tidepool: map: ") for line in done.stderr.splitlines())
        assert done.stderr if done.returncode else json.loads(done.stdout)["heaps"]


PROGRAMS = {
    "python3": ["-c", "kept = [bytes(i % 3000) for i in range(30000)][::7]; print(len(kept))"],
    "lua5.4": ["-e", "local t = {} for i = 1, 100000 do t[i] = tostring(i) .. 'x' end print(#t)"],
    "redis-server": ["--version"],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(tidepool, record, tmp_path, name):
    program = sys.executable if name == "python3" else shutil.which(name)
    if name == "redis-server" and (same := shutil.which("redis-check-rdb")):   # which is it, by another name
        program = tmp_path / name
        program.symlink_to(same)
    if not program:
        pytest.skip(f"{name} is not here")
    recording, page = record(program, *PROGRAMS[name]), tmp_path / "map.html"
    figures = figures_of(tidepool, *recording)
    facts = facts_of(tidepool, recording)
    assert figures["known_blocks"] == facts["peak_blocks"] and figures["changing"] == 0
    tidepool("map", "-o", page, *recording)
    assert len(Packed(checked_page(page)).known) == facts["peak_blocks"]
    assert "\nWhose blocks keep slabs that are less than half full" in tidepool("map", *recording).stdout
