# SPDX-License-Identifier: MIT
"""The probes (USDT): that they are in the library with all that a tool looks for, and that what they tell is so."""

import re
import subprocess

import pytest

PROBES = {"otel_memory:alloc": 3, "otel_memory:free": 1, "tidepool:heap_create": 3, "tidepool:heap_exhausted": 3,
          "tidepool:heap_reset": 2, "tidepool:heap_destroy": 2, "tidepool:object_pool_full": 2}
NO_TRACE = re.compile(r"Could not trace the inferior|ptrace: Operation not permitted|Cannot create process")
STOPS = """
import gdb
class Stop(gdb.Breakpoint):
    def __init__(self, probe, count):
        gdb.Breakpoint.__init__(self, "-probe-stap " + probe)
        self.probe, self.count = probe.split(":")[1], count
    def stop(self):
        values = [int(gdb.parse_and_eval("$_probe_arg%d" % i)) & (1 << 64) - 1 for i in range(self.count)]
        if self.probe in ("alloc", "free"):
            words = [hex(values[0])] + [str(value) for value in values[1:]]
        else:
            name = gdb.selected_inferior().read_memory(values[1], 32).tobytes().split(b"\\0")[0].decode()
            words = [hex(values[0]), '"%s"' % name] + [str(value) for value in values[2:]]
        print("seen", self.probe, *words)
        return False
"""


@pytest.fixture(name="probed")
def fixture_probed(pytestconfig):
    if not pytestconfig.getoption("--probed"):
        pytest.skip("there is no sys/sdt.h: the library has no probes")
    return pytestconfig.getoption("--probed")


def test_the_notes_have_each_probe(probed):
    notes = subprocess.run(["readelf", "-n", "-W", probed], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"Provider: (\w+)\s+Name: (\w+)\s.*\s+Arguments: (.*)", notes)
    assert {f"{provider}:{name}" for provider, name, _ in found} == set(PROBES)
    for provider, name, arguments in found:
        assert len(re.findall(r"-?\d@", arguments)) == PROBES[f"{provider}:{name}"], (name, arguments)


def test_what_they_tell_is_so(probed, tmp_path):
    script = tmp_path / "stops.py"
    script.write_text(STOPS + "".join(f'Stop("{probe}", {count})\n' for probe, count in PROBES.items()))
    done = subprocess.run(["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set breakpoint pending on",
                           "-ex", f"source {script}", "-ex", "run", probed],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    if NO_TRACE.search(done.stdout):
        pytest.skip("no process can be debugged here")
    told = re.findall(r"^((?:heap|object_pool|alloc|free)\S* .*)$", done.stdout, re.M)
    seen = re.findall(r"^seen (.*)$", done.stdout, re.M)
    assert len(told) == 11 and seen == told, done.stdout
