# SPDX-License-Identifier: MIT
"""Builds the profile embedded and runs its test.

usage: profile.py SOURCE-ROOT here | cortex-m3 | rv32

`here`: for the machine that runs this. The others: for an emulated board, which qemu runs with 64 KiB of RAM, with the example
for firmware. Each time the library's names are looked at: it may ask for memcpy, memmove, memset and the compiler's own
library, and for nothing else. Exit status 77: something that is needed is not installed."""

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
    """What the library asks for, which is not the compiler's own."""
    compiler = run(f"{tools}gcc", *flags, "-print-libgcc-file-name").strip()
    own = set(re.findall(r"^\S+ [TtWV] (\S+)$", run(f"{tools}nm", "--defined-only", compiler), re.M))
    asked = set(re.findall(r"^ +U (\S+)$", run(f"{tools}nm", library), re.M))
    has = set(re.findall(r"^\S+ T (\S+)$", run(f"{tools}nm", library), re.M))
    if "tidepool_heap_create" not in has or asked - own - ALLOWED:
        sys.exit(f"the library asks for {', '.join(sorted(asked - own - ALLOWED)) or 'nothing, and has no heaps'}")
    if re.search(r"^\.t(data|bss)", run(f"{tools}size", "-A", library), re.M):
        sys.exit("the library has thread-local data")


def check_says(wanted, emulator, image):
    said = run(*emulator, image).strip().splitlines()
    if not said or said[-1] != wanted:
        sys.exit(f"{image} did not say {wanted!r}, but:\n" + "\n".join(said))
    return len(said)


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in BOARDS:
        sys.exit(__doc__)
    root, board = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    tools, emulator, flags = BOARDS[board] or ("", [], [])
    needed = ["meson", "ninja", f"{tools}gcc", f"{tools}nm", f"{tools}objcopy", f"{tools}size", *emulator[:1]]
    missing = [program for program in needed if not shutil.which(program)]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        build = pathlib.Path(name) / "build"
        cross = [f"--cross-file={root}/examples/firmware/{board}.ini"] if emulator else []
        run("meson", "setup", build, root, *cross, "-Dprofile=embedded", "-Dwerror=true", "-Doptimization=s")
        run("ninja", "-C", build)
        check_names(build / "src/libtidepool.a", tools, flags)
        emulator = [*emulator, *QUIET] if emulator else []
        lines = check_says(LAST_LINE, emulator, build / ("tests/embedded/board.elf" if emulator else "tests/embedded/board"))
        firmware = build / "examples/firmware/firmware.elf"
        if firmware.exists():
            lines += check_says(FIRMWARE_LINE, emulator, firmware)
            print(run(f"{tools}size", firmware))
        print(f"{board}: {lines} lines")
    return 0


sys.exit(main())
