# SPDX-License-Identifier: MIT
"""What tools find in a program with planted bugs (planted.c), and that they find nothing in one without.

usage: planted.py memcheck PROGRAM
       planted.py address COMPILER SOURCE INCLUDE LIBRARY
       planted.py threads PROGRAM SUPPRESSIONS SOURCE INCLUDE LIBRARY
With ALL_CASES in the environment each bug is planted in each way; else in every third, and each way has every third bug.
A second program of the folder of each, ordered, has no bug, and is for tools that look for races (ordered.c)."""

import functools
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL, *ARGUMENTS = sys.argv[1:] or [""]
SKIPPED = 77
STUCK_SECONDS = 600
SIZE = 48
# Each has the manager take its blocks in another way: from malloc; from memory of the program; as objects of an array.
MALLOCED = ["alloc", "aligned", "heap", "budget", "reserve", "realloc"]
REGIONS = ["region", "units"]
OBJECTS = ["object", "single", "region_object"]
WAYS = MALLOCED + REGIONS + OBJECTS
BUGS = ["late_read", "late_write", "twice", "overrun", "underrun", "unset", "lost", "old_address", "lost_heap"]
STEP = 1 if "ALL_CASES" in os.environ else 3


def run(command, **more):
    """Its status, and what it says. Nothing that a user or a folder has as defaults for the tools counts."""
    theirs = re.compile(r"TIDEPOOL_|[A-Z]+SAN_OPTIONS|VALGRIND_OPTS")
    kept = {name: value for name, value in os.environ.items() if not theirs.match(name)}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=STUCK_SECONDS, check=False,
                          env={**kept, **more})
    return done.returncode, done.stdout, done.stderr


def valgrind(tool, *arguments, **more):
    return run(["valgrind", "--command-line-only=yes", "-q", f"--tool={tool}", "--num-callers=30", *arguments], **more)


def beside(planted):
    path = pathlib.Path(planted)
    return str(path.with_name("ordered" + path.suffix))


# ---- memcheck: reports begin with a head, and each stack with "at" ----

HEAD = re.compile(r"Invalid (read|write) of size|Invalid free|Conditional jump|Use of uninit|Syscall param|Mismatched|"
                  r".*are (definitely|possibly|indirectly) lost|Block .* overlaps|Warning|WARNING|Illegal")
BLOCK = rf"a block of size {SIZE}"
ANY = r"[\s\S]*"


def heads(report):
    return [line for line in report.splitlines() if HEAD.match(line)]


def stack_with(*functions):
    """A stack from its innermost function: these are in it, in this order."""
    return r"\n +at " + "".join(rf"(?:.*\n)*?.*: {function} \(planted\.c" for function in functions)


def freed(function):
    return rf"8 bytes inside {BLOCK} free'd{stack_with(function, 'plant')}{ANY}Block was alloc'd at{stack_with('plant')}"


# An address between two objects is near both, and which of them memcheck names is chance.
MEMCHECK = {
    "late_read": rf"Invalid read of size 1\n +at .*: late_read{ANY}{freed('late_read')}",
    "late_write": rf"Invalid write of size 1\n +at .*: late_write{ANY}{freed('late_write')}",
    "old_address": rf"Invalid write of size 1\n +at .*: old_address{ANY}{freed('old_address')}",
    "twice": rf"Invalid free\(\).*{stack_with('twice', 'plant')}{ANY}0 bytes inside {BLOCK} free'd{stack_with('twice')}",
    "overrun": rf"Invalid write of size 1\n +at .*: overrun{ANY} (0 bytes after|\d+ bytes before) {BLOCK} .*"
               rf"{stack_with('plant')}",
    "underrun": rf"Invalid write of size 1\n +at .*: underrun{ANY} (1 bytes before|\d+ bytes after) {BLOCK} .*"
                rf"{stack_with('plant')}",
    "unset": r"Conditional jump or move depends on uninitialised value\(s\)\n +at .*: unset",
    "lost": rf"{SIZE} bytes in 1 blocks are definitely lost.*{stack_with('plant')}",
    "lost_heap": rf"{SIZE} bytes in 1 blocks are definitely lost.*{stack_with('lost_heap')}",
}
# A live block of malloc around the region is what memcheck tells of first.
MEMCHECK_IN_A_BLOCK = {
    "late_read": r"Invalid read of size 1\n +at .*: late_read",
    "late_write": r"Invalid write of size 1\n +at .*: late_write",
    "old_address": r"Invalid write of size 1\n +at .*: old_address",
    "twice": rf"Invalid free\(\).*{stack_with('twice', 'plant')}",
}


class Memcheck(unittest.TestCase):
    @classmethod
    @functools.cache
    def reports(cls):
        """Of each bug in each way."""
        _, processes, said = valgrind("memcheck", "--leak-check=full", ARGUMENTS[0], "all" if STEP == 1 else "some")
        texts = {}
        for line in said.splitlines():
            match = re.match(r"==(\d+)== ?(.*)", line)
            if match:
                texts.setdefault(match[1], []).append(match[2])
        return {(bug, way): "\n".join(texts.get(process, []))
                for process, bug, way in (line.split() for line in processes.splitlines())}

    def test_right(self):
        status, _, said = valgrind("memcheck", "--leak-check=full", "--error-exitcode=9", ARGUMENTS[0], "right")
        self.assertEqual((status, said[:3000]), (0, ""))

    def test_ordered(self):
        status, _, said = valgrind("memcheck", "--leak-check=full", "--error-exitcode=9", beside(ARGUMENTS[0]))
        self.assertEqual((status, said[:3000]), (0, ""))

    def test_kept(self):
        status, _, said = valgrind("memcheck", "--leak-check=full", "--error-exitcode=9", ARGUMENTS[0], "kept")
        self.assertEqual((status, said[:3000]), (0, ""))


def add_memcheck(bug, way):
    def test(self):
        if bug == "old_address" and way in OBJECTS:
            self.skipTest("objects do not move")
        report = self.reports()[bug, way]
        pattern = MEMCHECK_IN_A_BLOCK.get(bug) if way == "units" else None
        self.assertRegex(report, pattern or MEMCHECK[bug])
        self.assertLessEqual(len(heads(report)), 2 if bug == "lost_heap" else 1, report)
    setattr(Memcheck, f"test_{bug}_{way}", test)


# ---- sanitizers ----

def compiled(folder, compiler, sanitizer, source, include, library):
    program = pathlib.Path(folder, "planted")
    library = pathlib.Path(library).resolve()
    done = run([compiler, f"-fsanitize={sanitizer}", "-g", "-O0", "-fno-omit-frame-pointer", "-pthread", "-I", include, source,
                "-o", str(program), str(library), f"-Wl,-rpath,{library.parent}"])
    if done[0] != 0:
        return None
    probe = pathlib.Path(folder, "empty.c")
    probe.write_text("int main(void) { return 0; }\n")
    empty = str(probe.with_suffix(""))
    runs = run([compiler, f"-fsanitize={sanitizer}", str(probe), "-o", empty])[0] == 0 and run([empty])[0] == 0
    return str(program) if runs else None


def symbolizer():
    found = shutil.which("llvm-symbolizer") or next(iter(sorted(glob.glob("/usr/bin/llvm-symbolizer*"))), None)
    return {"ASAN_SYMBOLIZER_PATH": found} if found else {}


def names(*functions):
    """The stack has these, where they can be said at all."""
    return "".join(rf"(?:.*\n)*?.*( in {function} |planted\+0x)" for function in functions)


def asan(kind, *functions):
    return rf"AddressSanitizer: {kind} .*\n{names(*functions)}"


def then(word, *functions):
    return rf"{ANY}{word}.*\n{names(*functions)}"


ADDRESS = {
    "late_read": asan("heap-use-after-free", "late_read") + then("freed by", "late_read") + then("allocated by", "plant"),
    "late_write": asan("heap-use-after-free", "late_write") + then("freed by", "late_write") + then("allocated by", "plant"),
    "old_address": asan("heap-use-after-free", "old_address") + then("freed by", "old_address") + then("allocated", "plant"),
    "twice": asan("attempting double-free", "twice", "plant") + then("freed by", "twice") + then("allocated by", "plant"),
    "overrun": asan("heap-buffer-overflow", "overrun") + then("allocated by", "plant"),
    "underrun": asan("heap-buffer-overflow", "underrun") + then("allocated by", "plant"),
    "lost": rf"LeakSanitizer: detected{ANY}leak of {SIZE} byte{names('plant')}",
    "lost_heap": rf"LeakSanitizer: detected{ANY}leak of {SIZE} byte{names('lost_heap')}",
}
POISONED = {bug: asan("use-after-poison", bug) for bug in ADDRESS if not bug.startswith("lost")}


class Address(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.program = compiled(folder.name, ARGUMENTS[0], "address", *ARGUMENTS[1:])

    def test_right(self):
        self.assertEqual(run([self.program, "right"]), (0, "", ""))

    def test_kept(self):
        self.assertEqual(run([self.program, "kept"]), (0, "", ""))

    def test_ordered(self):
        with tempfile.TemporaryDirectory() as folder:
            program = compiled(folder, ARGUMENTS[0], "address", beside(ARGUMENTS[1]), *ARGUMENTS[2:])
            self.assertEqual(run([program]), (0, "", ""))

    def test_search_for_leaks_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            program = compiled(folder, ARGUMENTS[0], "leak", *ARGUMENTS[1:])
            if not program:
                self.skipTest("its programs do not run here")
            for right in "right", "kept":
                self.assertEqual(run([program, right]), (0, "", ""))
            for way in MALLOCED:
                self.assertRegex(run([program, "lost", way], **symbolizer())[2], ADDRESS["lost"])


def add_address(bug, way):
    def test(self):
        if bug == "unset":
            self.skipTest("it does not look for that")
        if bug == "old_address" and way in OBJECTS:
            self.skipTest("objects do not move")
        poisoned = way not in MALLOCED
        if poisoned and bug.startswith("lost"):
            self.skipTest("it searches for blocks of malloc alone")
        _, _, said = run([self.program, bug, way], **symbolizer())
        self.assertRegex(said, (POISONED if poisoned else ADDRESS)[bug])
    setattr(Address, f"test_{bug}_{way}", test)


# Stacks of several functions are compared with one another.
SITES = {"TIDEPOOL_OPTIONS": "sites=8"}


class Threads(unittest.TestCase):
    def silent(self, tool, *command, **more):
        status, _, said = valgrind(tool, f"--suppressions={ARGUMENTS[1]}", "--error-exitcode=9", *command, **more)
        self.assertEqual((status, said[:3000]), (0, ""))

    def test_helgrind(self):
        self.silent("helgrind", ARGUMENTS[0], "right")

    def test_drd(self):
        self.silent("drd", ARGUMENTS[0], "right")

    def test_helgrind_ordered(self):
        self.silent("helgrind", beside(ARGUMENTS[0]))

    def test_drd_ordered(self):
        self.silent("drd", beside(ARGUMENTS[0]))

    def test_helgrind_sites(self):
        self.silent("helgrind", beside(ARGUMENTS[0]), "places", **SITES)

    def test_drd_sites(self):
        self.silent("drd", beside(ARGUMENTS[0]), "places", **SITES)

    def test_massif(self):
        with tempfile.NamedTemporaryFile() as figures:
            for way in "alloc", "heap":
                status, _, said = valgrind("massif", "--detailed-freq=1", f"--massif-out-file={figures.name}",
                                           ARGUMENTS[0], "lost", way)
                self.assertEqual((status, said[:3000]), (0, ""))
                self.assertRegex(pathlib.Path(figures.name).read_text(), rf"{3 * SIZE} .*: take_{way} \(planted\.c")

    def thread_sanitizer(self, compiler):
        if not shutil.which(compiler):
            self.skipTest(f"no {compiler}")
        with tempfile.TemporaryDirectory() as folder:
            program = compiled(folder, compiler, "thread", *ARGUMENTS[2:])
            if not program:
                self.skipTest("its programs do not run here")
            self.assertEqual(run([program, "right"]), (0, "", ""))
            self.assertEqual(run([program, "kept"], TIDEPOOL_OPTIONS="blocks=own"), (0, "", ""))
            program = compiled(folder, compiler, "thread", beside(ARGUMENTS[2]), *ARGUMENTS[3:])
            self.assertEqual(run([program]), (0, "", ""))
            self.assertEqual(run([program, "places"], **SITES), (0, "", ""))

    def test_thread_sanitizer_of_gcc(self):
        self.thread_sanitizer("gcc")

    def test_thread_sanitizer_of_clang(self):
        self.thread_sanitizer("clang")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def chosen():
    if TOOL in ("memcheck", "threads") and not shutil.which("valgrind"):
        skip("valgrind is not installed")
    for number, way in enumerate(WAYS):
        for bug in BUGS[number % STEP::STEP]:
            add_memcheck(bug, way)
            add_address(bug, way)
    if TOOL == "address":
        with tempfile.TemporaryDirectory() as folder:
            if not shutil.which(ARGUMENTS[0]) or not compiled(folder, ARGUMENTS[0], "address", *ARGUMENTS[1:]):
                skip(f"no {ARGUMENTS[0]} with a sanitizer whose programs run here")
    return {"memcheck": Memcheck, "address": Address, "threads": Threads}[TOOL]


if __name__ == "__main__":
    if TOOL not in ("memcheck", "address", "threads"):
        print(__doc__)
        sys.exit(2)
    suite = unittest.TestLoader().loadTestsFromTestCase(chosen())
    sys.exit(not unittest.TextTestRunner().run(suite).wasSuccessful())
