# SPDX-License-Identifier: MIT
"""What the tests of this folder share: commands in an environment without the caller's settings, and the small cmocka."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77
HERE = pathlib.Path(__file__).resolve().parent
SHIM = HERE / "musl"   # a small cmocka, which leaves out what CMOCKA_LEFT_OUT names
CMOCKA = """Name: cmocka
Description: what the unit tests use of it
Version: 1
Cflags: -I{shim} {flags}
Libs: {static}{folder}/libcmocka.a
"""
# What the tests, or whoever runs them, may have set for their own build.
NOT_KEPT = re.compile(r"LD_.*|TIDEPOOL_OPTIONS|MALLOC_PERTURB_|MESON_.*|PKG_CONFIG.*|CC|CXX|(C|CPP|CXX|LD)FLAGS|QEMU_.*")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not NOT_KEPT.fullmatch(name)} | {"LC_ALL": "C.UTF-8"}
COUNTS = re.compile(r"^(Ok|Skipped): +(\d+)", re.M)


def run(*command, folder, seconds=7000, **environment):
    """What a command says. A failure is the end."""
    done = subprocess.run([str(word) for word in command], cwd=folder, env=ENVIRONMENT | environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds,
                          check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def skip(missing):
    print(f"skipped: not installed: {missing}")
    sys.exit(SKIPPED)


def need(*programs):
    """The test is skipped if one of them is missing."""
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        skip(", ".join(missing))


def cmocka_package(folder, compiler, flags="", static=""):
    """A folder for pkg-config in which the one package is the small cmocka."""
    run(compiler, "-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-I", SHIM, "-c", SHIM / "cmocka.c", folder=folder)
    run("ar", "rcs", "libcmocka.a", "cmocka.o", folder=folder)
    packages = folder / "packages"
    packages.mkdir()
    (packages / "cmocka.pc").write_text(CMOCKA.format(shim=SHIM, flags=flags, folder=folder, static=static))
    return packages


def counts_of(said):
    counts = dict(COUNTS.findall(said))
    return f"{counts['Ok']} tests, {counts['Skipped']} skipped"
