# SPDX-License-Identifier: MIT
"""Builds what is installed, and the examples, for AArch64, with a cross file of the compilers, ar and strip alone; and runs an
example where there is an emulator.

usage: cross.py SOURCE-ROOT

Exit status 77: something that is needed is not installed."""

import pathlib
import shutil
import sys
import tempfile

from builds import need, run

TOOLS = "aarch64-linux-gnu-"
PLAIN = f"""[binaries]
c = '{TOOLS}gcc'
cpp = '{TOOLS}g++'
ar = '{TOOLS}ar'
strip = '{TOOLS}strip'

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""
NEEDED = ("meson", "ninja", f"{TOOLS}gcc", f"{TOOLS}g++", f"{TOOLS}nm")


def other_names(archive, folder):
    """What an archive shows beside the interface: that needs an objcopy which knows the machine."""
    lines = run(f"{TOOLS}nm", "--defined-only", "--extern-only", archive, folder=folder).splitlines()
    names = {line.split()[-1] for line in lines if len(line.split()) == 3}
    if not names:
        sys.exit(f"{archive} has no names")
    return {name for name in names if not name.startswith("tidepool_")}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    need(*NEEDED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "plain.ini").write_text(PLAIN, encoding="utf-8")
        run("meson", "setup", "build", pathlib.Path(sys.argv[1]).resolve(), "--cross-file", "plain.ini", "-Dexamples=true",
            "-Dwerror=true", folder=folder)
        run("meson", "install", "-C", "build", "--quiet", "--destdir", folder / "root", folder=folder)
        archives = sorted((folder / "root").rglob("libtidepool.a"))
        others = other_names(archives[0], folder)
        if others:
            sys.exit(f"libtidepool.a has names of its own: {sorted(others)}")
        emulator = shutil.which("qemu-aarch64")
        if emulator:
            run(emulator, "-L", "/usr/aarch64-linux-gnu", "build/examples/mixer", "--test", folder=folder)
        print(f"the libraries and the examples for AArch64{', of which one ran' if emulator else ''}")
    return 0


sys.exit(main())
