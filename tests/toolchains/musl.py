# SPDX-License-Identifier: MIT
"""Builds the library for another C library, musl, and runs programs and unit tests with it. Debian's musl comes without cmocka
and without the headers of the kernel: a small cmocka is in the folder musl, and tests that need such headers get the system's.

usage: musl.py SOURCE-ROOT programs | tests

`programs` links a program with each of the libraries, static and shared, and runs the unit tests of os/. `tests` runs
the whole suite unit. All unit tests are linked statically. Exit status 77: something that is needed is not installed."""

import pathlib
import subprocess
import sys
import tempfile

from builds import HERE, cmocka_package, counts_of, need, run, skip

NEEDED = ("musl-gcc", "meson", "ninja", "pkg-config", "ar", "objcopy", "nm", "readelf")
# Nothing of glibc's may be found: no package of its, and no C++.
NATIVE_FILE = """[binaries]
c = 'musl-gcc'
cpp = 'false'
cmake = 'false'
"""
SYSTEM_TESTS = ["unix", "linux_mappings", "linux_threads", "window"]
LIBRARIES = ["src/tidepool:shared_library", "src/tidepool-malloc:shared_library", "src/libtidepool.a",
             "src/libtidepool-malloc.a"]   # not those for debugging


def headers_of_the_kernel(folder):
    """Linux's, which every C library can do with, without the C library's that lie beside them. None: not installed."""
    machine = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=False).stdout.strip()
    kernel = folder / "kernel"
    kernel.mkdir()
    for name, places in (("linux", [""]), ("asm-generic", [""]), ("asm", ["", machine])):
        found = [path for path in (pathlib.Path("/usr/include", place, name) for place in places) if path.is_dir()]
        if not found:
            return None
        (kernel / name).symlink_to(found[-1])
    return kernel


def configure(root, folder, kernel):
    """A build directory in which the one package is the small cmocka."""
    packages = cmocka_package(folder, "musl-gcc", flags=f"-isystem {kernel}", static="-static ")
    build = folder / "build"
    (folder / "musl.ini").write_text(NATIVE_FILE)
    options = ["-Dtests=true", "-Dwerror=true"]
    run("meson", "setup", build, root, "--native-file", "musl.ini", *options, folder=folder, PKG_CONFIG_LIBDIR=packages)
    return build


def names_of(library, *options):
    lines = run("nm", "--defined-only", "--extern-only", *options, library, folder="/").splitlines()
    return {line.split()[-1] for line in lines if len(line.split()) == 3}


def check_names(*names_of_each):
    """The C library's own malloc is __libc_malloc() to the parts of it that must not meet a program's, as atexit()."""
    for names in names_of_each:
        taken = {name for name in names if name.startswith("__libc_")}
        if taken or "malloc" not in names:
            sys.exit(f"the malloc library has names of musl's own, or has no malloc: {sorted(taken)}")


def check_is_static(program):
    if "INTERP" in run("readelf", "-lW", program, folder="/"):
        sys.exit(f"{program} is not static")


def run_with_our_malloc(program, **environment):
    """The library's figures at the end tell whose malloc the program had."""
    said = run(program, folder="/", TIDEPOOL_OPTIONS="stats=exit", **environment)
    if '"name":"default"' not in said:
        sys.exit(f"{program} had another malloc than tidepool's; it said: {said}")


def run_programs(root, build):
    run("meson", "compile", *LIBRARIES, folder=build)
    source, compiler = build / "src", ["musl-gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-pthread"]
    archive = source / "libtidepool-malloc.a"
    check_names(names_of(archive), names_of(source / "libtidepool-malloc.so", "-D"))
    program = [*compiler, "-I", root / "include", HERE / "program.c"]
    run(*program, "-static", "-o", "static", source / "libtidepool.a", folder=build)
    run(*program, "-o", "shared", source / "libtidepool.so", f"-Wl,-rpath,{source}", folder=build)
    allocates = [*compiler, "-fno-builtin", HERE / "musl/malloc.c"]
    run(*allocates, "-static", "-o", "malloc-static", archive, folder=build)
    run(*allocates, "-o", "malloc-of-musl", folder=build)
    run(build / "shared", folder=build)
    run(build / "static", folder=build)
    run_with_our_malloc(build / "malloc-of-musl", LD_PRELOAD=source / "libtidepool-malloc.so")
    run_with_our_malloc(build / "malloc-static")
    check_is_static(build / "static")
    check_is_static(build / "malloc-static")
    return f"4 programs, {run_units(build, *SYSTEM_TESTS)}"


def run_tests(_, build):
    """All units but the adapters, whose libraries are glibc's."""
    return run_units(build, "--suite", "unit", "--no-suite", "adapters")


def run_units(build, *which):
    """Meson builds what it runs. Each program is static, because its cmocka asks for that."""
    said = run("meson", "test", "--print-errorlogs", "--timeout-multiplier", "10", *which, folder=build)
    check_is_static(build / "tests/unit/test_unix")
    return counts_of(said)


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in ("programs", "tests"):
        sys.exit(__doc__)
    need(*NEEDED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        kernel = headers_of_the_kernel(folder)
        if not kernel:
            skip("the headers of the kernel")
        root = pathlib.Path(sys.argv[1]).resolve()
        build = configure(root, folder, kernel)
        print({"programs": run_programs, "tests": run_tests}[sys.argv[2]](root, build))
    return 0


sys.exit(main())
