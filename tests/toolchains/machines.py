# SPDX-License-Identifier: MIT
"""Builds all of the library for a machine of 32 bits and runs its unit tests, with those of heaps and object pools.

usage: machines.py SOURCE-ROOT i386 | armhf

Debian's cross compilers come without cmocka: a small one is in the folder musl. The tests are linked statically. Those of i386
run by themselves, and are all that do not try every failure. Those of armhf run in qemu-arm, which ignores madvise(): some of
each layer. Exit status 77: something that is needed is not installed."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
STUCK_SECONDS = 3400
HERE = pathlib.Path(__file__).resolve().parent
MACHINES = {"i386": ("i686-linux-gnu-", []), "armhf": ("arm-linux-gnueabihf-", ["qemu-arm"])}
CMOCKA = """Name: cmocka
Description: what the unit tests use of it
Version: 1
Cflags: -I{shim}
Libs: -static {folder}/libcmocka.a
"""
LIBRARIES = ["tidepool:shared_library", "libtidepool.a", "tidepool-malloc:shared_library"]
NOT_KEPT = re.compile(r"LD_.*|TIDEPOOL_OPTIONS|MALLOC_PERTURB_|MESON_.*|PKG_CONFIG.*|CC|CXX|(C|CPP|CXX|LD)FLAGS")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not NOT_KEPT.fullmatch(name)} | {"LC_ALL": "C.UTF-8"}
WHICH = {
    "i386": ["--suite", "unit", "--no-suite", "slow", "--no-suite", "cpp", "--no-suite", "exhaustive"],
    "armhf": ["--suite", "unit", "bits", "span_tree", "range_tree", "slab", "large", "heap life", "heap family",
              "heap walk", "object_pool get_put", "object_pool handles"],
}
COUNTS = re.compile(r"^(Ok|Skipped): +(\d+)", re.M)


def run(*command, folder):
    done = subprocess.run([str(word) for word in command], cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=STUCK_SECONDS,
                          check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def configure(root, folder, machine, tools):
    """A build directory in which the one package is the small cmocka."""
    shim, packages, build = HERE / "musl", folder / "packages", folder / "build"
    run(f"{tools}gcc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-I", shim, "-c", shim / "cmocka.c", folder=folder)
    run("ar", "rcs", "libcmocka.a", "cmocka.o", folder=folder)
    packages.mkdir()
    (packages / "cmocka.pc").write_text(CMOCKA.format(shim=shim, folder=folder))
    (folder / "packages.ini").write_text(f"[properties]\npkg_config_libdir = '{packages}'\n")
    run("meson", "setup", build, root, "--cross-file", HERE / "machines" / f"{machine}.ini", "--cross-file", "packages.ini",
        "-Dtests=true", folder=folder)
    return build


def test(build, machine):
    """Meson builds what it runs."""
    said = run("meson", "test", "--print-errorlogs", "--timeout-multiplier", "10", *WHICH[machine], folder=build)
    counts = dict(COUNTS.findall(said))
    return f"{counts['Ok']} programs of unit tests, {counts['Skipped']} skipped"


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in MACHINES:
        sys.exit(__doc__)
    machine, (tools, emulator) = sys.argv[2], MACHINES[sys.argv[2]]
    needed = ["meson", "ninja", "pkg-config", "ar", f"{tools}gcc", *emulator]
    missing = [program for program in needed if not shutil.which(program)]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build = configure(pathlib.Path(sys.argv[1]).resolve(), folder, machine, tools)
        run("meson", "compile", *LIBRARIES, folder=build)
        print(f"{machine}: {test(build, machine)}")
    return 0


sys.exit(main())
