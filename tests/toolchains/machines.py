# SPDX-License-Identifier: MIT
"""Builds all of the library for another machine and runs its tests there, in qemu: docs/platforms.md has the table.

usage: machines.py SOURCE-ROOT MACHINE

Debian's cross compilers come without cmocka: a small one is in the folder musl. The programs are run as if the processor knew
their machine: a namespace of its own has qemu for its interpreter of such programs, so programs start others, and scripts
start programs. Where that is refused, meson starts qemu, and what needs no more than one program is run: some of each layer. A
processor for x86-64 runs the programs of i386 itself, if the kernel lets it, and the emulator fewer suites of them. Exit
status 77: something that is needed is not installed."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import debian_programs
from builds import ENVIRONMENT, HERE, cmocka_package, counts_of, need, run, skip

# A cross file for this run beside the machine's own.
OF_RUN = """[properties]
pkg_config_libdir = '{packages}'
needs_exe_wrapper = {wrapped}
"""
# The interpreter stays open, so it needs no path inside.
REGISTER = ('mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && printf "%s" "$0" >/proc/sys/fs/binfmt_misc/register && '
            'exec "$@"')
INSTRUCTION = re.compile(r"^ +[0-9a-f]+:\t\w", re.M)
VERSION = re.compile(r"version (\d+)\.(\d+)")


@dataclasses.dataclass(frozen=True)
class Machine:
    tools: str
    emulator: str = ""          # qemu-NAME
    number: int = 0             # e_machine in the head of a program
    suites: tuple[str, ...] = ()   # these run whole, and some programs where there are none
    native: tuple[str, ...] = ()   # the suites on a kernel that runs these programs without an emulator
    bits: int = 64
    little: bool = True
    pages: tuple[int, ...] = () # the sizes that its kernels have beside 4 KiB, of those that qemu shows programs
    name: str = ""              # as uname() has it
    programs: bool = False      # Debian's own are run, too
    fast_paths: tuple[tuple[str, int], ...] = ()   # the most instructions of calls, as gcc 12 has them


EVERY = ("unit", "heap", "malloc", "misuse", "stress")
MACHINES = {
    "arm64": Machine("aarch64-linux-gnu-", "aarch64", 183, EVERY, pages=(16384, 65536), name="aarch64", programs=True,
                     fast_paths=(("malloc", 21), ("free", 29))),
    "riscv64": Machine("riscv64-linux-gnu-", "riscv64", 243, ("unit", "heap"), name="riscv64"),
    "ppc64el": Machine("powerpc64le-linux-gnu-", "ppc64le", 21, pages=(65536,), name="ppc64le"),
    "s390x": Machine("s390x-linux-gnu-", "s390x", 22, EVERY, little=False, name="s390x"),
    "armhf": Machine("arm-linux-gnueabihf-", "arm", 40, ("unit", "heap"), bits=32, name="armv7l"),
    "i386": Machine("i686-linux-gnu-", "i386", 3, ("unit", "heap"), EVERY, bits=32, name="i686"),
}

# Left out is what counts the emulator's memory as well (limits), is of the machine that builds (docs), or takes very long
# (exhaustive, options).
WITHOUT = ["--no-suite", "limits", "--no-suite", "docs", "--no-suite", "exhaustive", "--no-suite", "options"]
# Of machines on which a whole suite does not pass yet, and where a program cannot start another.
SOME = ["--suite", "unit", "bits", "span_tree", "range_tree", "slab", "large", "heap life", "heap family", "heap walk",
        "object_pool get_put", "object_pool handles"]
# With pages of another size. Other tests name sizes of their own, and mincore() of such emulators is wrong.
OF_PAGES = ["heap budget", "heap chains", "heap errors", "heap family", "heap life", "heap walk"]

# Cases that fail by what the emulator does, and why. The small cmocka skips them.
OWN_MEMORY = "/proc has the mappings of the program, and the memory of the emulator"
LEFT_OUT = {
    "Linux, mappings/purged": "no madvise(MADV_DONTNEED_LOCKED), and says that there is",
    "flags/prefaulted": "no madvise(MADV_POPULATE_WRITE), and says that there is",
    "wiped/the_search_finds": OWN_MEMORY,
    "memory/the_seal_holds": "no filters of system calls",
    "Linux, mappings/remapped": "mremap() always moves, if it may",
    "Linux, threads/the_processor": "no rseq, so a processor has no number",
    "mapped/random_lives": "no prctl(PR_SET_THP_DISABLE)",
    "mapped/between_live_blocks_test": "no prctl(PR_SET_THP_DISABLE)",
    "background/an_idle_process_test": "/proc has the signal masks of the emulator",
    "background/starts_and_stops_test": "/proc has the threads of the emulator",
    "background/ends_with_the_last_thread": "crashes itself if the first thread ends before others",
    "background/forks_test": "/proc has the threads of the emulator",
    "thread/first_thread_ends_test": "crashes itself if the first thread ends before others",
    "survivors/test_the_last_stay": OWN_MEMORY,
    "survivors/test_survivors_are_scattered": OWN_MEMORY,
    "tests/test_new_without_a_runtime": "says itself that a program was killed by a signal",
}
# Cases that fail by what the processor does, or an emulator of 32-bit machines.
STACK = "/proc does not name the program's stack, in which marks may be"
SHORTER = "mremap() that shortens a mapping makes inaccessible what is behind it"
OF_32_BITS = {
    "huge/given_test": SHORTER,
    "huge/resized_in_vain_test": SHORTER,
    "heap_flags/zero_large_on_free_test": SHORTER,
    "heap_flags/zero_untouched_on_free_test": SHORTER,
    "flags/zero_on_shrink_in_place": SHORTER,
    "profile_blocks/not_resized": SHORTER,
    "wiped/with_budgets": SHORTER,
    "wiped/with_reserves": SHORTER,
    "gate/forks_beside_mappings_test": "mremap() moves mappings to address 0",
    "pages/refusals": "mincore() fails for memory without access",
    "wiped/in_memory": STACK,
    "wiped/among_others": STACK,
}
LEFT_OUT_OF = {
    "s390x": {"guarded/says_what_it_was": "of the address of a fault, only the page is known"},
    "riscv64": {"faults/signals_are_blocked": "a handler finds none of the signals blocked that it asks for"},
    "armhf": OF_32_BITS,
    "i386": OF_32_BITS,
}
# Cases that fail by what older emulators do.
MAPS_OVER, LARGE = "MAP_FIXED_NOREPLACE maps over what is there", "takes 32 bytes for each page of a mapping"
FORKED = "waits for a lock of its own in the child of a fork beside threads"
LEFT_OUT_BEFORE_8_1 = {
    "class map/the_slots": MAPS_OVER,
    "arena/cut_by_a_mapping_test": MAPS_OVER,
    "purge/taken_by_somebody_test": MAPS_OVER,
    "space_slots/in_the_next_slot_test": MAPS_OVER,
    "space_slots/in_the_slot_after_next_test": MAPS_OVER,
    "space_slots/init_elsewhere_test": MAPS_OVER,
    "Unix/mapped_at": MAPS_OVER,
    "large/impossible_sizes_test": LARGE,
    "forks/fork_among_threads_test": FORKED,
    "forks/fork_while_heaps_end_test": FORKED,
    "tests/test_fork_while_others_use_large_blocks_alone": FORKED,
    "tests/test_four_threads_fork_while_eight_allocate": FORKED,
    "slow_tests/test_a_hundred_thousand_threads_leave_nothing": "keeps 280 KB of each thread that has ended",
}


# ---- the emulator ----

def emulator_of(machine):
    """A static one: its own loader would be given what a program is to preload."""
    for name in (f"qemu-{machine.emulator}-static", f"qemu-{machine.emulator}"):
        path = shutil.which(name)
        if path and "INTERP" not in run("readelf", "-lW", path, folder="/"):
            return path
    return None


def version_of(emulator):
    return tuple(map(int, VERSION.search(run(emulator, "--version", folder="/")).groups()))


def escaped(data):
    return "".join(f"\\x{byte:02x}" for byte in data)


def interpreter_line(machine, emulator):
    """Programs, position-independent or not, of any system."""
    order = "little" if machine.little else "big"
    head = b"\x7fELF" + bytes([machine.bits // 32, 1 if machine.little else 2, 1]) + bytes(9)
    mask = b"\xff" * 7 + b"\x00" + b"\xff" * 8
    kinds = (0xfffe).to_bytes(2, order)
    magic = head + (2).to_bytes(2, order) + machine.number.to_bytes(2, order)
    return f":tested:M::{escaped(magic)}:{escaped(mask + kinds + bytes([255, 255]))}:{emulator}:F"


def way_in(machine, emulator, folder):
    """What starts a command in such a namespace; None where that is refused."""
    way = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", REGISTER, interpreter_line(machine, emulator)]
    tried = subprocess.run([*way, "true"], cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
    return None if tried.returncode else way


def runs_natively(machine, folder):
    """Returns whether the kernel runs the machine's programs without an emulator. Some kernels for x86-64 run none of i386."""
    program = folder / "native"
    (folder / "native.c").write_text("int main(void) { return 0; }\n")
    run(f"{machine.tools}gcc", "-static", "-o", program, "native.c", folder=folder)
    try:
        return subprocess.run([program], check=False).returncode == 0
    except OSError:
        return False


# ---- the tests ----

def configure(root, folder, name, machine, way):
    """A build directory in which the one package is the small cmocka."""
    build = folder / "build"
    packages = cmocka_package(folder, f"{machine.tools}gcc")
    wrapped = "true" if machine.emulator and not way else "false"
    (folder / "run.ini").write_text(OF_RUN.format(packages=packages, wrapped=wrapped))
    files = ["--cross-file", HERE / "machines" / f"{name}.ini", "--cross-file", "run.ini"]
    run(*(way or []), "meson", "setup", build, root, *files, "-Dtests=true", folder=folder, **surroundings(machine, {}))
    return build


def surroundings(machine, left_out):
    """What qemu, the small cmocka, and the tests of misuse and leaks want to know."""
    emulated = {"EMULATED": machine.emulator} if machine.emulator else {}
    return {"QEMU_LD_PREFIX": f"/usr/{machine.tools.rstrip('-')}", "CMOCKA_LEFT_OUT": ";".join(left_out),
            "TESTED_MACHINE": machine.name} | emulated


def whole(suites):
    return [word for suite in suites for word in ("--suite", suite)] + WITHOUT


def test(build, way, which, **environment):
    """Meson builds what it runs."""
    said = run(*(way or []), "meson", "test", "--print-errorlogs", "--timeout-multiplier", "10", "--num-processes",
               os.cpu_count(), *which, folder=build, **environment)
    return counts_of(said)


def test_pages(build, way, machine, version, environment):
    """Before qemu 9 its host's page size can be set, and is what programs see."""
    for size in machine.pages:
        if not way or version >= (9, 0):
            print(f"pages of {size >> 10} KiB: skipped, only older emulators show them to programs")
            continue
        said = test(build, way, OF_PAGES, QEMU_PAGESIZE=str(size), **environment)
        print(f"pages of {size >> 10} KiB: {said}", flush=True)


def test_fast_paths(build, machine):
    """The instructions from the first one to the first return: what is rare is behind that."""
    library = build / "src/libtidepool-malloc.so"
    names = dict(reversed(line.split()[::2]) for line in run(f"{machine.tools}nm", "-D", "--defined-only", library,
                                                             folder=build).splitlines())
    for name, most in machine.fast_paths:
        start = int(names[name], 16)
        code = run(f"{machine.tools}objdump", "-d", "--no-show-raw-insn", f"--start-address={start}",
                   f"--stop-address={start + 1000}", library, folder=build)
        count = len(INSTRUCTION.findall(code.partition("\tret")[0])) + 1
        print(f"{name}: {count} instructions of {most}")
        if count > most:
            sys.exit(f"the fast path of {name} has become longer")


def test_programs(build, way, name):
    """Debian's own, which start each other."""
    root = debian_programs.fetched(name, build.parent) if way else None
    if not root:
        print("Debian's programs: skipped, they cannot be fetched or start no others")
        return
    failures = list(debian_programs.failures(root, build / "src/libtidepool-malloc.so", way, ENVIRONMENT))
    if failures:
        sys.exit("\n".join(failures))
    print(f"Debian's programs with the library preloaded: {', '.join(debian_programs.PROGRAMS)}", flush=True)


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in MACHINES:
        sys.exit(__doc__)
    name, machine = sys.argv[2], MACHINES[sys.argv[2]]
    need("meson", "ninja", "pkg-config", "ar", "readelf", f"{machine.tools}gcc")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        if machine.native and runs_natively(machine, folder):
            machine = dataclasses.replace(machine, emulator="", suites=machine.native)
        emulator = emulator_of(machine) if machine.emulator else None
        if machine.emulator and not emulator:
            skip(f"a static qemu-{machine.emulator} (qemu-user-static)")
        version = version_of(emulator) if emulator else (99, 0)
        way = way_in(machine, emulator, folder) if emulator else None
        left_out = LEFT_OUT | LEFT_OUT_OF.get(name, {}) if emulator else {}
        left_out |= LEFT_OUT_BEFORE_8_1 if version < (8, 1) else {}
        environment = surroundings(machine, left_out)
        build = configure(pathlib.Path(sys.argv[1]).resolve(), folder, name, machine, way)
        which = whole(machine.suites) if machine.suites and (way or not emulator) else SOME
        by = f"qemu {version}" if emulator else "without an emulator"
        print(f"{name}, {by}: {test(build, way, which, **environment)}", flush=True)
        for case, why in left_out.items():
            print(f"left out: {case}: {why}")
        test_pages(build, way, machine, version, environment)
        if machine.fast_paths:
            test_fast_paths(build, machine)
        if machine.programs:
            test_programs(build, way, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
