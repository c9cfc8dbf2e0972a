# SPDX-License-Identifier: MIT
"""Builds the library as packagers and users build things, and a program with it, and runs that: optimizers at link time,
other levels of optimization, with and without position-independent code.

usage: toolchains.py SOURCE-ROOT GCC CLANG BUILD...     BUILD: a name of the table, or all of them with `all`"""

import concurrent.futures
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

# As the malloc library is compiled: optimizers at link time have dropped the name of this variable before.
IN_TLS = "-DTIDEPOOL_CACHE_IN_TLS=1"
# name: the compiler, what all files are compiled with, what programs are linked with
BUILDS = {
    "gcc -flto": ("gcc", ["-O2", "-flto=auto"], ["-flto=auto"]),
    "gcc -flto -ffat-lto-objects": ("gcc", ["-O2", "-flto=auto", "-ffat-lto-objects", "-g", IN_TLS], ["-flto=auto", "-O2"]),
    "gcc -O0": ("gcc", ["-O0"], []),
    "gcc -Os": ("gcc", ["-Os"], []),
    "gcc -O3 -march=native": ("gcc", ["-O3", "-march=native"], []),
    "gcc hardened": ("gcc", ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong",
                             *(["-fcf-protection"] if platform.machine() in ("x86_64", "i686") else [])],
                     ["-Wl,-z,relro,-z,now"]),
    "clang -flto": ("clang", ["-O2", "-flto", "-fuse-ld=lld"], ["-flto", "-fuse-ld=lld"]),
    "clang -flto=thin": ("clang", ["-O2", "-flto=thin", "-fuse-ld=lld", IN_TLS], ["-flto=thin", "-fuse-ld=lld"]),
    "clang -O0": ("clang", ["-O0"], []),
    "clang -Os": ("clang", ["-Os"], []),
}
OWN = ["-std=gnu17", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-fno-builtin-malloc", "-fno-semantic-interposition",
       "-ffunction-sections", "-fdata-sections", "-Wall", "-Werror", "-Wno-unused-command-line-argument"]
NOT_AVAILABLE = 77


def run(*command):
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment)
    if done.returncode or "warning:" in done.stdout:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}status {done.returncode}")


def sources_of(root):
    """Those of the library, as src/meson.build lists them."""
    text = (root / "src/meson.build").read_text()
    parts = (re.search(rf"^ *{part}_sources = files\((.*?)\)", text, re.S | re.M) for part in ("core", "linux", "plain"))
    names = "".join(part[1] for part in parts)
    return [root / "src" / name for name in re.findall(r"'([^']+)'", names)]


def compile_all(root, compiler, flags, folder):
    own = [flag for flag in OWN if compiler[0].endswith("clang") or flag != "-Wno-unused-command-line-argument"]
    includes = ["-I", root / "src", "-I", root / "include"]

    def compile_one(source):
        target = folder / (str(source.relative_to(root / "src")).replace("/", "_") + ".o")
        run(*compiler, *own, *flags, *includes, "-c", source, "-o", target)
        return target

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, sources_of(root)))


def programs_of(root, compiler, flags, link, folder, objects):
    """The program with the archive, position-independent and not, and with the shared library."""
    program = root / "tests/toolchains/program.c"
    common = [*compiler, "-std=gnu17", *flags, "-I", root / "include", program]
    run("ar", "rcs", folder / "libobjects.a", *objects)
    run("sh", root / "tools/archive", folder / "libtidepool.a", folder / "libobjects.a", root / "src/tidepool.map",
        "objcopy", "ar", *compiler, *link)
    run(*compiler, "-shared", *link, "-o", folder / "libtidepool.so", *objects, "-Wl,-z,nodelete", "-pthread",
        f"-Wl,--version-script={root / 'src/tidepool.map'}")
    for name, extra in (("pie", ["-fPIE", "-pie"]), ("no-pie", ["-fno-pie", "-no-pie"])):
        run(*common, *extra, *link, "-o", folder / name, folder / "libtidepool.a", "-pthread")
        yield folder / name
    run(*common, *link, "-o", folder / "shared", folder / "libtidepool.so", "-pthread", f"-Wl,-rpath,{folder}")
    yield folder / "shared"


def build(root, compilers, name):
    family, flags, link = BUILDS[name]
    compiler = compilers[family]
    if not shutil.which(compiler[0]):
        return f"there is no {family}"
    if "-fuse-ld=lld" in link and not (shutil.which("ld.lld") or shutil.which("ld.lld-14")):
        return "there is no lld"
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = pathlib.Path(name_of_folder)
        objects = compile_all(root, compiler, flags, folder)
        for program in programs_of(root, compiler, flags, link, folder, objects):
            run(program)
    return None


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    root, gcc, clang, *names = sys.argv[1:]
    names = list(BUILDS) if names == ["all"] else names
    compilers = {"gcc": gcc.split(), "clang": clang.split()}
    failed = skipped = 0
    for name in names:
        try:
            missing = build(pathlib.Path(root).resolve(), compilers, name)
        except RuntimeError as error:
            failed += 1
            print(f"{name}: {error}")
            continue
        skipped += missing is not None
        print(f"{name}: {missing or 'fine'}", flush=True)
    sys.exit(1 if failed else NOT_AVAILABLE if skipped == len(names) else 0)


main()
