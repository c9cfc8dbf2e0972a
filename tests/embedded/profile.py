# SPDX-License-Identifier: MIT
"""Builds the profile embedded and runs its test.

usage: profile.py SOURCE-ROOT here [rest] | cortex-m3 | rv32

`here`: for the machine that runs this, whole, and without all parts that can be left out, where code is made when the program
is linked; with `rest`, in the other ways. The others: for an emulated board, which qemu runs with 64 KiB of RAM, with the
example for firmware. For a board it is built whole, without each of the parts that can be left out, and without all of them;
the last and the first also so that code is made when the program is linked. Each time the library's names are looked at: it may
ask for memcpy, memmove, memset and the compiler's own library, and for nothing else. Boards also run code for a processor
without atomic operations. The text of the smallest programs is printed, and has a bound. Exit status 77: something that is
needed is not installed."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
STUCK_SECONDS = 600
ALLOWED = {"memcpy", "memmove", "memset"}
BOARDS = {
    "here": None,
    "cortex-m3": ("arm-none-eabi-", ["qemu-system-arm", "-M", "lm3s6965evb"], ["-mcpu=cortex-m3", "-mthumb"]),
    "rv32": ("riscv64-unknown-elf-", ["qemu-system-riscv32", "-M", "virt", "-bios", "none"],
             ["-march=rv32imac", "-mabi=ilp32"]),
}
PARTS = ["checks", "hooks", "growth", "eviction", "overflow", "hot_objects", "speed"]
LINKED = ["-Db_lto=true"]
NOTHING = "-Dembedded_without=" + ",".join(PARTS)
BUILDS = {"all": [], "all, linked": LINKED, "nothing, linked": [*LINKED, NOTHING]}
HERE_ALWAYS = {"all", "nothing, linked"}
# The second has no atomic operations.
SIMPLER = {"cortex-m3": ("cortex-m3", "cortex-m0plus"), "rv32": ("rv32imac", "rv32imc")}
SHORT_WORDS = {"all, short words": ["-Dc_args=-DTIDEPOOL_WORD_BITS=32"]} # of bitmaps: what boards have
SIMPLER_BUILDS = {"all, simpler processor": [], "nothing, linked, simpler processor": [*LINKED, NOTHING]}
MORE_BUILDS = {"nothing": [NOTHING], "all, hardly optimized": ["-Doptimization=g"],
               "all, linked, hardly optimized": [*LINKED, "-Doptimization=1"]} | {
    f"without {part}": [f"-Dembedded_without={part}"] for part in PARTS}
# Of a heap with an object pool on a Cortex-M3: a tenth more than gcc 12.2 makes (docs/embedded.md), and of the last what it
# has to be. Others make what they make.
TEXT_OF_GCC = "12.2."
TEXT_MOST = {"all": 34400, "all, linked": 22800, "nothing": 17500, "nothing, linked": 10240}
QUIET = ["-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel"]
LAST_LINE = "all is well"
FIRMWARE_LINE = "firmware: 64 messages and a block in a heap of 32 KiB"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not re.match(r"LD_|TIDEPOOL_|MESON_|C(C|XX|FLAGS)$", name)}


def run(*command, folder="/"):
    done = subprocess.run([str(word) for word in command], cwd=folder, env=ENVIRONMENT | {"LC_ALL": "C.UTF-8"},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=STUCK_SECONDS, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def check_names(library, tools, flags):
    """What the library asks for, which is not the compiler's own, and what it has, which a firmware may have, too."""
    compiler = run(f"{tools}gcc", *flags, "-print-libgcc-file-name").strip()
    own = set(re.findall(r"^\S+ [TtWV] (\S+)$", run(f"{tools}nm", "--defined-only", compiler), re.M))
    names = run(f"{tools}gcc-nm", library)
    has = set(re.findall(r"^\S+ [A-Z] (\S+)$", names, re.M))
    asked = set(re.findall(r"^ +U (\S+)$", names, re.M)) - has - own - ALLOWED
    if any(name.startswith("tidepool_private_") for name in has): # without code yet: the linker leaves out what it asks for
        asked = {name for name in asked if not name.startswith("tidepool_private_")}
    if "tidepool_heap_create" not in has or asked:
        sys.exit(f"the library asks for {', '.join(sorted(asked)) or 'nothing, and has no heaps'}")
    theirs = sorted(name for name in has if not name.startswith(("tidepool_", "pool_embedded_")))
    if theirs:
        sys.exit(f"the library has names that a firmware may have: {', '.join(theirs)}")
    if re.search(r"^\.t(data|bss)", run(f"{tools}size", "-A", library), re.M):
        sys.exit("the library has thread-local data")


def check_says(wanted, emulator, image):
    said = run(*emulator, image).strip().splitlines()
    if not said or said[-1] != wanted:
        sys.exit(f"{image} did not say {wanted!r}, but:\n" + "\n".join(said))
    return len(said)


def check_lock_of_other_objects(root, build, name):
    """The firmware's lock is called, too, if it is compiled without what the archive is linked with."""
    has = [f"-DHAS_{part.upper()}={int(name.startswith('all'))}" for part in PARTS]
    run("gcc", "-std=gnu17", "-O2", "-fno-lto", *has, f"-I{root}/include", "-c", root / "tests/embedded/board.c",
        "-o", build / "own.o")
    run("gcc", "-O2", "-flto", build / "own.o", build / "src/libtidepool.a", "-o", build / "own")
    check_says(LAST_LINE, [], build / "own")


def text_of(program, tools):
    return int(run(f"{tools}size", program).splitlines()[1].split()[0])


def build_and_run(root, board, name, options):
    """Returns how many lines the programs have said."""
    tools, emulator, flags = BOARDS[board] or ("", [], [])
    processor = SIMPLER[board] if name in SIMPLER_BUILDS else ("", "")
    flags = [flag.replace(*processor) for flag in flags]
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder) / "build"
        cross = []
        if emulator:
            described = (root / f"examples/firmware/{board}.ini").read_text(encoding="utf-8")
            (pathlib.Path(folder) / "cross.ini").write_text(described.replace(*processor), encoding="utf-8")
            cross = [f"--cross-file={folder}/cross.ini"]
        run("meson", "setup", build, root, *cross, "-Dprofile=embedded", "-Dtests=true", "-Dexamples=true", "-Dwerror=true",
            "-Doptimization=s", *options)
        run("ninja", "-C", build)
        check_names(build / "src/libtidepool.a", tools, flags)
        emulator = [*emulator, *QUIET] if emulator else []
        lines = sum(check_says(LAST_LINE, emulator, build / "tests/embedded" / (name + (".elf" if emulator else "")))
                    for name in ("board", "answers"))
        if not emulator and "-Db_lto=true" in options:
            check_lock_of_other_objects(root, build, name)
        firmware = build / "examples/firmware/firmware.elf"
        if emulator:
            for least in ("heap", "both"):
                run(*emulator, build / f"tests/embedded/{least}.elf")
        if firmware.exists():
            lines += check_says(FIRMWARE_LINE, emulator, firmware)
            heap, both, example = [text_of(build / path, tools) for path in
                                   ("tests/embedded/heap.elf", "tests/embedded/both.elf", "examples/firmware/firmware.elf")]
            print(f"{name}: text of a heap {heap}, with an object pool {both}, of the example {example}")
            if run(f"{tools}gcc", "-dumpfullversion").startswith(TEXT_OF_GCC) and both > TEXT_MOST.get(name, both):
                sys.exit(f"a heap with an object pool takes {both} bytes of text, more than {TEXT_MOST[name]}")
    return lines


def builds_for(board, words):
    if board != "here":
        return BUILDS | MORE_BUILDS | SIMPLER_BUILDS
    return {name: options for name, options in (BUILDS | SHORT_WORDS).items() if (name in HERE_ALWAYS) == (words != ["rest"])}


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in BOARDS or sys.argv[3:] not in ([], ["rest"]):
        sys.exit(__doc__)
    root, board = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    tools, emulator, _ = BOARDS[board] or ("", [], [])
    needed = ["meson", "ninja", *(f"{tools}{tool}" for tool in ("gcc", "nm", "gcc-nm", "objcopy", "size")), *emulator[:1]]
    missing = [program for program in needed if not shutil.which(program)]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}")
        return SKIPPED
    for name, options in builds_for(board, sys.argv[3:]).items():
        print(f"{board}, {name}: {build_and_run(root, board, name, options)} lines")
    return 0


sys.exit(main())
