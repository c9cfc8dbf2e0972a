# SPDX-License-Identifier: MIT
"""How the tests of packages build, install and run: with a compiler's own ways, and nothing of the build that they are in."""

import atexit
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
STUCK_SECONDS = 1200
NOT_COPIED = shutil.ignore_patterns(".*", "build*", "bench-results", "subprojects", "corpus", "__pycache__")
# What the tests, or whoever runs them, may have set for their own build.
NOT_KEPT = re.compile(r"LD_PRELOAD|LD_LIBRARY_PATH|LD_RUN_PATH|TIDEPOOL_OPTIONS|MALLOC_PERTURB_|MESON_.*|PKG_CONFIG.*|CMAKE_.*"
                      r"|DESTDIR|(C|CXX|CPP|LD)FLAGS|DEB_.*|MAKEFLAGS|CC_LD|CXX_LD")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not NOT_KEPT.fullmatch(name)} | {"LC_ALL": "C.UTF-8"}
VERSION = re.search(r"version: '([0-9.]+)'", (SOURCE / "meson.build").read_text())[1]
LIBRARIES_ALONE = ["-Doptimization=0"]
TOLD_VERSION = f"tidepool {VERSION}\n"
WORKS = f"{VERSION} {VERSION}\n"   # program.c and uses.cpp


def run(*command, folder, status=0, **environment):
    """What it prints. A test fails where it ends otherwise."""
    done = subprocess.run([str(word) for word in command], cwd=folder, env=ENVIRONMENT | environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          timeout=STUCK_SECONDS, check=False)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


FOUND_LEAK = "1 block, 1,000 bytes live: 1 from "   # of program.c, with the debug library and leaks=destroy
NEEDS_DEBUG = "tidepool: leaks: only the debug library has this option"


def site_of_leak(program, folder, **environment):
    """Where program.c, with an optimized debug library, allocated the block that lives when its heap ends."""
    said = run(program, folder=folder, TIDEPOOL_OPTIONS="leaks=destroy", **environment)
    return re.search(FOUND_LEAK + r"(\w+)\+0x", said)[1]


def needs(*programs):
    """Skips a test or a class where one of the programs is missing."""
    missing = [program for program in programs if not shutil.which(program)]
    return unittest.skipIf(missing, f"{', '.join(missing)} is not installed")


@functools.cache
def compiler(language="c"):
    """CC and CXX may have arguments: ccache gcc."""
    return os.environ.get({"c": "CC", "cpp": "CXX"}[language], {"c": "cc", "cpp": "c++"}[language]).split()


def has_cpp():
    return shutil.which(compiler("cpp")[0]) is not None


needs_cpp = unittest.skipUnless(has_cpp(), "there is no C++ compiler")


@functools.cache
def links_statically(language):
    """Some systems have no libc.a."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*compiler(language), "-static", "-x", {"c": "c", "cpp": "c++"}[language], "-", "-o", "program"],
                              input="int main(void) { return 0; }", cwd=folder, text=True, capture_output=True, check=False)
    return done.returncode == 0


def with_source(folder):
    """A copy of the project, without what builds have left in it."""
    shutil.copytree(SOURCE, folder, ignore=NOT_COPIED)
    return folder


def install(folder, *options, prefix="/usr/local", destdir=None):
    """Builds the libraries in a folder and installs them. Returns where the prefix is now."""
    build = folder / "build"
    run("meson", "setup", build, SOURCE, f"--prefix={prefix}", *LIBRARIES_ALONE, *options, folder=folder)
    destination = ["--destdir", str(destdir)] if destdir else []
    run("meson", "install", "-C", build, "--quiet", *destination, folder=folder)
    return pathlib.Path(f"{destdir or ''}{prefix}")


@functools.cache
def moved_prefix():
    """An installation that was made for /opt/elsewhere, and lies in a folder whose name has a space."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="tidepool "))
    atexit.register(shutil.rmtree, root)   # several modules have it
    staged = install(root, "--libdir=lib/deep", prefix="/opt/elsewhere", destdir=root / "staged")
    return staged.rename(root / "moved here")


def needed_by(program):
    """The shared libraries that a program names."""
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", program, folder="/")))


class Folder(unittest.TestCase):
    """A folder of its own for each test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_malloc_is_ours(self, *command, folder=None, **environment):
        """The line comes from the first call of malloc, and from nobody else's."""
        output = run(*command, folder=folder or self.folder, TIDEPOOL_OPTIONS="version", **environment)
        self.assertIn(TOLD_VERSION, output)
        return output.replace(TOLD_VERSION, "")
