# SPDX-License-Identifier: MIT
"""Builds the library for another C library, musl, and runs programs and unit tests with it. Debian's musl comes without cmocka
and without the headers of the kernel: a small cmocka is in the folder musl, and tests that need such headers get the system's.

usage: musl.py SOURCE-ROOT programs | tests [arm64]

`programs` links a program with each of the libraries, static and shared, and runs the unit tests of os/. `tests` runs
the whole suite unit. All unit tests are linked statically. For arm64, Debian's cross compiler gets musl's headers and libraries
from Debian's package for arm64, and qemu runs the programs, as in machines.py. Exit status 77: something that is needed is not
installed."""

import dataclasses
import pathlib
import shutil
import sys
import tempfile

import machines
from builds import HERE, cmocka_package, counts_of, need, run, skip
from debian_packages import Archive

NEEDED = ("meson", "ninja", "pkg-config", "ar", "objcopy", "nm", "readelf")
# Nothing of glibc's may be found: no package of its, and no C++.
FILE = """[binaries]
c = '{compiler}'
cpp = 'false'
cmake = 'false'
"""
MUSL_ARM64 = "aarch64-linux-musl"
# What Debian's musl-gcc adds to a compiler of glibc's. The loader is that of the folder, so nothing need be installed.
SPECS = """%rename cpp_options old_cpp_options

*cpp_options:
-nostdinc -isystem {musl}/include/{name} -isystem include%s %(old_cpp_options)

*cc1:
%(cc1_cpu) -nostdinc -isystem {musl}/include/{name} -isystem include%s

*link_libgcc:
-L{musl}/lib/{name} -L .%s

*libgcc:
libgcc.a%s %:if-exists(libgcc_eh.a%s)

*startfile:
%{{!shared: {musl}/lib/{name}/Scrt1.o}} {musl}/lib/{name}/crti.o crtbeginS.o%s

*endfile:
crtendS.o%s {musl}/lib/{name}/crtn.o

*link:
-dynamic-linker {musl}/lib/{name}/libc.so -nostdlib %{{shared:-shared}} %{{static:-static}} %{{rdynamic:-export-dynamic}}

*esp_link:

*esp_options:
*esp_cpp_options:
"""
SYSTEM_TESTS = ["unix", "linux_mappings", "linux_threads", "window"]
LIBRARIES = ["src/tidepool:shared_library", "src/tidepool-malloc:shared_library", "src/libtidepool.a",
             "src/libtidepool-malloc.a"]   # not those for debugging


@dataclasses.dataclass(frozen=True)
class Target:
    compiler: str = "musl-gcc"
    headers: tuple[str, ...] = ("/usr/include",)   # the kernel's are in one of these, or beside it
    files: tuple = ("--native-file", "musl.ini")
    way: tuple = ()           # in front of a command that starts programs of the machine
    nm: str = "nm"
    environment: dict = dataclasses.field(default_factory=dict)


def this_machine():
    need("musl-gcc")
    multiarch = run("gcc", "-print-multiarch", folder="/").strip()
    return Target(headers=("/usr/include", f"/usr/include/{multiarch}"))


def arm64(folder):
    """A compiler in the folder. The atomic functions of a libgcc for glibc ask glibc for the processor."""
    machine = machines.MACHINES["arm64"]
    need(f"{machine.tools}gcc", "dpkg-deb")
    emulator = machines.emulator_of(machine) or skip("a static qemu-aarch64 (qemu-user-static)")
    way = machines.way_in(machine, emulator, folder) or skip("namespaces")
    root, compiler = folder / "musl", folder / "musl-gcc"
    root.mkdir()
    if not Archive("arm64", folder).unpack(root, "musl", "musl-dev"):
        skip("musl-dev for arm64, which cannot be fetched")
    shutil.copy(root / f"lib/{MUSL_ARM64}/libc.so", root / f"usr/lib/{MUSL_ARM64}")   # as where /lib is /usr/lib
    (folder / "specs").write_text(SPECS.format(musl=root / "usr", name=MUSL_ARM64))
    compiler.write_text(f'#!/bin/sh\nexec {machine.tools}gcc -mno-outline-atomics "$@" -specs {folder / "specs"}\n')
    compiler.chmod(0o755)
    left_out = machines.LEFT_OUT | (machines.LEFT_OUT_BEFORE_8_1 if machines.version_of(emulator) < (8, 1) else {})
    return Target(compiler=str(compiler), headers=(f"/usr/{machine.tools.rstrip('-')}/include",), way=tuple(way),
                  nm=f"{machine.tools}nm", files=("--cross-file", HERE / "machines/arm64.ini", "--cross-file", "musl.ini"),
                  environment=machines.surroundings(machine, left_out))


# These cases fail because of musl. A program without tidepool fails in the same way.
LEFT_OUT = {"background/ends_with_the_last_thread":
                "after the first thread of a forked child has ended, its other threads cannot end (musl 1.2.3)"}


def headers_of_the_kernel(target, folder):
    """Linux's, which every C library can do with, without the C library's that lie beside them. None: not installed."""
    kernel = folder / "kernel"
    kernel.mkdir()
    for name in ("linux", "asm-generic", "asm"):
        found = [path for path in (pathlib.Path(place, name) for place in target.headers) if path.is_dir()]
        if not found:
            return None
        (kernel / name).symlink_to(found[-1])
    return kernel


def configure(target, root, folder, kernel):
    """A build directory in which the one package is the small cmocka."""
    packages = cmocka_package(folder, target.compiler, flags=f"-isystem {kernel}", static="-static ")
    build = folder / "build"
    properties = f"[properties]\npkg_config_libdir = '{packages}'\nneeds_exe_wrapper = false\n" if target.way else ""
    (folder / "musl.ini").write_text(FILE.format(compiler=target.compiler) + properties)
    options = ["-Dtests=true", "-Dwerror=true"]
    run(*target.way, "meson", "setup", build, root, *target.files, *options, folder=folder, PKG_CONFIG_LIBDIR=packages,
        **target.environment)
    return build


def names_of(target, library, *options):
    lines = run(target.nm, "--defined-only", "--extern-only", *options, library, folder="/").splitlines()
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


def run_with_our_malloc(target, program, *variables):
    """The library's figures at the end tell whose malloc the program had."""
    said = run(*target.way, "env", *variables, "TIDEPOOL_OPTIONS=stats=exit", program, folder="/", **target.environment)
    if '"name":"default"' not in said:
        sys.exit(f"{program} had another malloc than tidepool's; it said: {said}")


def run_programs(target, root, build):
    run("meson", "compile", *LIBRARIES, folder=build)
    source, compiler = build / "src", [target.compiler, "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-pthread"]
    archive, shared = source / "libtidepool-malloc.a", source / "libtidepool-malloc.so"
    check_names(names_of(target, archive), names_of(target, shared, "-D"))
    program = [*compiler, "-I", root / "include", HERE / "program.c"]
    run(*program, "-static", "-o", "static", source / "libtidepool.a", folder=build)
    run(*program, "-o", "shared", source / "libtidepool.so", f"-Wl,-rpath,{source}", folder=build)
    allocates = [*compiler, "-fno-builtin", HERE / "musl/malloc.c"]
    run(*allocates, "-static", "-o", "malloc-static", archive, folder=build)
    run(*allocates, "-o", "malloc-of-musl", folder=build)
    run(*target.way, build / "shared", folder=build, **target.environment)
    run(*target.way, build / "static", folder=build, **target.environment)
    run_with_our_malloc(target, build / "malloc-of-musl", f"LD_PRELOAD={shared}")
    run_with_our_malloc(target, build / "malloc-static")
    check_is_static(build / "static")
    check_is_static(build / "malloc-static")
    return f"4 programs, {run_units(target, build, *SYSTEM_TESTS)}"


def run_tests(target, _, build):
    """All units but the adapters, whose libraries are glibc's."""
    left_out = "\n".join(f"left out: {case}: {why}" for case, why in LEFT_OUT.items())
    said = run_units(target, build, "--suite", "unit", "--no-suite", "adapters", CMOCKA_LEFT_OUT=";".join(LEFT_OUT))
    return f"{said}\n{left_out}"


def run_units(target, build, *which, **environment):
    """Meson builds what it runs. Each program is static, because its cmocka asks for that."""
    said = run(*target.way, "meson", "test", "--print-errorlogs", "--timeout-multiplier", "10", *which, folder=build,
               **target.environment, **environment)
    check_is_static(build / "tests/unit/test_unix")
    return counts_of(said)


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[2] not in ("programs", "tests") or sys.argv[3:] not in ([], ["arm64"]):
        sys.exit(__doc__)
    need(*NEEDED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        target = arm64(folder) if sys.argv[3:] else this_machine()
        kernel = headers_of_the_kernel(target, folder)
        if not kernel:
            skip("the headers of the kernel")
        root = pathlib.Path(sys.argv[1]).resolve()
        build = configure(target, root, folder, kernel)
        print({"programs": run_programs, "tests": run_tests}[sys.argv[2]](target, root, build))
    return 0


sys.exit(main())
