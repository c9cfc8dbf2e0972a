# SPDX-License-Identifier: MIT
"""What all tests of pytest have in common. tests/cases.py reads the line with which pytest ends."""

import os

SKIPPED = 77   # as meson has it


def pytest_configure():
    """Meson names the folders of the plain and of the debug library, and the loader would take the first one for all programs,
    which find their own by DT_RUNPATH."""
    os.environ.pop("LD_LIBRARY_PATH", None)


def pytest_addoption(parser):
    parser.addoption("--kinds", metavar="PROGRAM", help="tests/misuse: the program that frees by another call")
    parser.addoption("--pool-bugs", metavar="PROGRAM", help="tests/misuse: the program of bugs that call the library")
    parser.addoption("--malloc-bugs", metavar="PROGRAM", help="tests/misuse: the program of bugs that call malloc")
    parser.addoption("--misused-calls", metavar="PROGRAM", help="tests/misuse: the program that makes each call with each bug")
    parser.addoption("--debugged", metavar="PROGRAM", help="tests/gdb: the program that is looked at")
    parser.addoption("--probed", metavar="PROGRAM", help="tests/gdb: one that comes by all probes")
    parser.addoption("--debugged-names", metavar="PROGRAM", action="append", help="tests/gdb: one that has the library's names")
    parser.addoption("--gdb-script", metavar="FILE", help="tests/gdb: the commands of gdb")
    parser.addoption("--tidepool", metavar="PROGRAM", help="tests/command: the program tidepool")
    parser.addoption("--program", metavar="PROGRAM", help="tests/command: a program that is run")
    parser.addoption("--linked", metavar="PROGRAM", action="append", help="tests/command: one that is linked with libtidepool")
    parser.addoption("--linked-malloc", metavar="PROGRAM", help="tests/command: one that is linked with libtidepool-malloc")
    parser.addoption("--linked-library", metavar="LIBRARY", help="tests/command: a library that is linked with libtidepool")
    parser.addoption("--own-library", metavar="LIBRARY", help="tests/command: libtidepool")
    parser.addoption("--static-program", metavar="PROGRAM", help="tests/command: a static one")
    parser.addoption("--own-malloc", metavar="PROGRAM", help="tests/command: one that has a malloc")
    parser.addoption("--python-like", metavar="PROGRAM", help="tests/command: one that looks like CPython")
    parser.addoption("--python-with-perf", metavar="PROGRAM", help="tests/command: one that looks like CPython since 3.12")
    parser.addoption("--trampoline", metavar="PROGRAM", help="tests/command: one with code that it makes at run time")
    parser.addoption("--python-free-threaded", metavar="PROGRAM", help="tests/command: one that looks like a free-threaded one")
    parser.addoption("--shares", metavar="PROGRAM", help="tests/command: one that shares its figures")
    parser.addoption("--mapped", metavar="PROGRAM", help="tests/command: one that has blocks in all places")
    parser.addoption("--recorded-heaps", metavar="PROGRAM", help="tests/command: one with heaps and object pools")
    parser.addoption("--recorded-heaps-start", metavar="PROGRAM", help="tests/command: one that begins recordings itself")
    parser.addoption("--recorded-starts", metavar="PROGRAM", help="tests/command: recordings at bad moments")
    parser.addoption("--recorded-any", metavar="PROGRAM", help="tests/command: one that does anything, and counts")
    parser.addoption("--recorded-modules", metavar="PROGRAM", help="tests/command: one with plug-ins that have a tidepool each")
    parser.addoption("--recorded-module", metavar="MODULE", action="append", default=[], help="tests/command: such plug-ins")
    parser.addoption("--shown", metavar="PROGRAM", help="tests/command: one that allocates at known places")
    parser.addoption("--recorded-cpp-replaced", metavar="PROGRAM", help="tests/command: that with operators of its own")
    parser.addoption("--recorded-own-names", metavar="PROGRAM", help="tests/command: one whose malloc is the C library's")
    parser.addoption("--recorded-hard", metavar="PROGRAM", help="tests/command: one that is hard to record")
    parser.addoption("--recorded-plugs", metavar="FILE,FILE", help="tests/command: two libraries for it")
    parser.addoption("--recorded", metavar="PROGRAM", help="tests/command: one whose blocks are known")
    parser.addoption("--recorded-cpp", metavar="PROGRAM", help="tests/command: one with new and delete")
    parser.addoption("--pictures", metavar="FOLDER", help="tests/command: where pictures of pages are left")
    parser.addoption("--library", metavar="LIBRARY", help="what is preloaded")


def pytest_sessionfinish(session, exitstatus):
    """If all that was to run was skipped, so is the whole."""
    stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if exitstatus == 0 and stats.get("skipped") and not stats.get("passed"):
        session.exitstatus = SKIPPED
