# SPDX-License-Identifier: MIT
"""Tests the crate in bindings/rust with a library that was just built: its tests and the examples of its documentation with the
shared library, a program with the archive, and what a build without a library says. The tests run once more with the debug
library, as does the program. Warnings are errors.

usage: run.py SOURCE FOLDER CARGO SHARED-LIBRARY ARCHIVE SHARED-DEBUG-LIBRARY DEBUG-ARCHIVE

FOLDER keeps what cargo has compiled; nothing is written elsewhere, and nothing is fetched. The last line has the number of
tests in the words of unittest, for tests/cases.py. Exit status 77: there is no rustc that is new enough."""

import atexit
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
STUCK_SECONDS = 900
LEAST_RUST = (1, 63)
CRATE = "bindings/rust"
NEEDS_DEBUG = "only the debug library has this option"
PASSED = re.compile(r"^test result: ok\. (\d+) passed; 0 failed", re.M)
# Of the caller's own Rust and cargo; cargo sets some of them itself.
NOT_OURS = re.compile("CARGO_|RUSTFLAGS|RUSTDOCFLAGS|RUST_TEST_|RUST_BACKTRACE|PKG_CONFIG|LD_LIBRARY_PATH|LD_PRELOAD|TIDEPOOL_")


def call(command, environment, must_fail=False):
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=STUCK_SECONDS, check=False)
    if (done.returncode != 0) != must_fail:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def with_its_own_rustc(cargo, environment):
    """A cargo and a rustc of different age do not always get on: the ones beside this cargo, if it has any."""
    for name, variable in (("rustc", "RUSTC"), ("rustdoc", "RUSTDOC")):
        beside = pathlib.Path(cargo).with_name(name)
        if variable not in environment and os.access(beside, os.X_OK):
            environment = {**environment, variable: str(beside)}
    return environment


def rust_version(environment):
    """(0, 0) if there is no rustc, or none that works."""
    try:
        said = subprocess.run([environment.get("RUSTC", "rustc"), "--version"], env=environment, capture_output=True, text=True,
                              timeout=STUCK_SECONDS, check=False).stdout
    except FileNotFoundError:
        said = ""
    found = re.match(r"rustc (\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def plain_folder(folder):
    """A folder for cargo, which ends LD_LIBRARY_PATH at a colon: this one, or one that is removed at the end."""
    if ":" not in str(folder):
        return folder
    other = tempfile.mkdtemp(prefix="rust-")
    atexit.register(shutil.rmtree, other, ignore_errors=True)
    return pathlib.Path(other)


def link_library(folder, shared, archive):
    """A folder that has the library alone, under the names by which linkers and loaders ask for it."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = shared.name.split(".")
    names = {".".join(parts[:count]): shared for count in range(2, len(parts) + 1)}   # libtidepool.so, .so.0, .so.0.1, ...
    for name, file in {**names, "libtidepool.a": archive}.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(file)
    return folder


def main():
    source, folder, cargo, *libraries = sys.argv[1:]
    shared, archive, shared_debug, debug_archive = (pathlib.Path(library).resolve() for library in libraries)
    environment = with_its_own_rustc(cargo, {name: value for name, value in os.environ.items() if not NOT_OURS.match(name)})
    if rust_version(environment) < LEAST_RUST:
        print(f"skipped: rustc is older than {LEAST_RUST[0]}.{LEAST_RUST[1]}, or not there")
        return SKIPPED
    folder = plain_folder(pathlib.Path(folder).resolve())
    library = link_library(folder / "library", shared, archive)
    debug_library = link_library(folder / "debug-library", shared_debug, debug_archive)
    environment.update({
        "CARGO_HOME": str(folder / "home"), "CARGO_TARGET_DIR": str(folder / "target"), "CARGO_TERM_COLOR": "never",
        "CARGO_INCREMENTAL": "0", "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_PROFILE_TEST_DEBUG": "0",   # half the time
        "RUSTFLAGS": "-D warnings", "RUSTDOCFLAGS": "-D warnings", "LD_LIBRARY_PATH": str(library),
        "TIDEPOOL_LIB_DIR": str(library), "TIDEPOOL_INCLUDE_DIR": str(pathlib.Path(source, "include"))})
    ways = ["--offline", "--locked", "--manifest-path", str(pathlib.Path(source, CRATE, "Cargo.toml"))]
    begun = time.monotonic()

    said = call([cargo, "test", *ways], environment)
    print(said)
    # The program of the archive finds no shared library.
    alone = {**environment, "LD_LIBRARY_PATH": ""}
    program = [cargo, "run", *ways, "--example", "requests", "--features", "static"]
    print(call(program, alone))
    # Nothing is compiled again for the debug library where it is shared: the loader finds it.
    checked = {**environment, "TIDEPOOL_OPTIONS": "checked=1"}
    of_tests = [cargo, "test", *ways, "--test", "heap"]
    if NEEDS_DEBUG not in call(of_tests, checked):
        sys.exit("the plain library does not refuse an option of the debug library")
    for command, settings in ((of_tests, {"LD_LIBRARY_PATH": str(debug_library)}),
                              (program, {"LD_LIBRARY_PATH": "", "TIDEPOOL_LIB_DIR": str(debug_library)})):
        said_checked = call(command, {**checked, **settings})
        if NEEDS_DEBUG in said_checked:
            sys.exit(f"{' '.join(command)} has no debug library:\n{said_checked}")
    said_without = call([cargo, "check", *ways], {**environment, "TIDEPOOL_LIB_DIR": "/no/such/folder"}, must_fail=True)
    if said_without.count("tidepool: TIDEPOOL_LIB_DIR=/no/such/folder has no libtidepool.so\n") != 1:
        sys.exit(f"a build without a library says:\n{said_without}")
    tests = sum(map(int, PASSED.findall(said))) + 5
    print(f"Ran {tests} tests in {time.monotonic() - begun:.1f} s")
    return 0


sys.exit(main())
