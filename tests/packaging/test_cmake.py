# SPDX-License-Identifier: MIT
"""CMake: find_package() of an installation that was moved, and builds of the sources by CMake itself."""

import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import unittest

import sandbox
from sandbox import HERE, SOURCE, TOLD_VERSION, VERSION, WORKS, needs, run


@functools.cache
def cmake_is_from(*version):
    told = shutil.which("cmake") and run("cmake", "--version", folder="/")
    return bool(told) and tuple(map(int, re.search(r"(\d+)\.(\d+)", told).groups())) >= version


needs_cmake = unittest.skipUnless(cmake_is_from(3, 16) and shutil.which("ninja"), "there is no ninja, or no CMake since 3.16")


def config_of(prefix):
    """A folder that CMake does not know of by itself."""
    return f"-Dtidepool_DIR={next(prefix.rglob('tidepoolConfig.cmake')).parent}"


class Parent(sandbox.Folder):
    def build(self, name, *options, source=None):
        parent, build = self.folder / name, self.folder / f"{name} build"
        shutil.copytree(HERE / "parents" / name, parent)
        for file in [*HERE.glob("*.c"), *HERE.glob("*.cpp")]:
            shutil.copy(file, parent / file.name)
        if source:
            os.symlink(SOURCE, parent / source)
        run("cmake", "-G", "Ninja", "-S", parent, "-B", build, "-Werror=dev",
            "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed", *options, folder=self.folder)
        run("cmake", "--build", build, folder=self.folder)
        return build

    def tidepool_libraries(self, program):
        return {name for name in sandbox.needed_by(program) if "tidepool" in name}


@needs_cmake
@needs("meson")
class FindPackage(Parent):
    def test_c(self):
        build = self.build("find_package", config_of(sandbox.moved_prefix()))
        for name, libraries in {"program": {"libtidepool.so.0"}, "program_static": set(),
                                "both": {"libtidepool.so.0", "libtidepool-malloc.so.0"}, "both_static": set()}.items():
            with self.subTest(name):
                self.assertEqual(self.tidepool_libraries(build / name), libraries)
                self.assertEqual(run(build / name, folder=self.folder), WORKS)
        for name in "program_debug", "program_debug_static":
            with self.subTest(name):
                self.assertIn(sandbox.FOUND_LEAK, run(build / name, folder=self.folder, TIDEPOOL_OPTIONS="leaks=destroy"))
        self.assertIn(sandbox.NEEDS_DEBUG, run(build / "program", folder=self.folder, TIDEPOOL_OPTIONS="leaks=destroy"))
        for name in "silent", "silent_static", "both", "both_static", "silent_debug":
            with self.subTest(name):
                self.assert_malloc_is_ours(build / name)

    @sandbox.needs_cpp
    def test_cpp(self):
        build = self.build("find_package_cpp", config_of(sandbox.moved_prefix()))
        self.assertEqual(self.assert_malloc_is_ours(build / "makes"), "made\n")
        self.assertEqual(self.assert_malloc_is_ours(build / "makes_static"), "made\n")
        self.assertEqual(run(build / "uses", folder=self.folder), WORKS)

    def found(self, *arguments, expected=0):
        """What find_package() says, with the targets of what it found."""
        script = self.folder / "CMakeLists.txt"
        script.write_text("cmake_minimum_required(VERSION 3.16)\nproject(parent C)\n"
                          f"find_package(tidepool {' '.join(arguments)})\n"
                          "message(STATUS \"found ${tidepool_FOUND} ${tidepool_VERSION}\")\n")
        shutil.rmtree(self.folder / "build", ignore_errors=True)
        return run("cmake", "-S", self.folder, "-B", self.folder / "build", config_of(sandbox.moved_prefix()),
                   folder=self.folder, status=expected)

    def check_versions(self, found, refused):
        for version in found:
            with self.subTest(version):
                self.assertRegex(self.found(version), f"found (1|TRUE) {re.escape(VERSION)}\n")
        for version in refused:
            with self.subTest(version):
                self.assertRegex(self.found(version), "found (0|FALSE)")

    def test_versions(self):
        major, minor, patch = map(int, VERSION.split("."))
        self.check_versions([f"{major}.{minor}", f"{major}.{minor}.{patch} EXACT"],
                            [f"{major}.{minor + 1}", f"{major + 1}", f"{major}.{minor}.{patch + 1}"])

    @unittest.skipUnless(cmake_is_from(3, 19), "CMake had no ranges before 3.19")
    def test_ranges_of_versions(self):
        major, minor, patch = map(int, VERSION.split("."))
        self.check_versions([f"{major}.{minor}.0...{major + 1}"], [f"{major}.{minor}.{patch + 1}...{major + 2}"])

    def test_components(self):
        self.assertRegex(self.found("REQUIRED COMPONENTS malloc OPTIONAL_COMPONENTS nothing"), "found (1|TRUE)")
        self.assertIn("no target tidepool::nothing", self.found("REQUIRED COMPONENTS nothing", expected=1))


@needs_cmake
@needs("meson")
class FindPackageElsewhere(Parent):
    def test_static_alone(self):
        """The targets are there, and are the static libraries. CMake finds them where it looks itself."""
        prefix = sandbox.install(self.folder, "-Ddefault_library=static", "--libdir=lib", prefix=self.folder / "prefix")
        build = self.build("find_package", f"-DCMAKE_PREFIX_PATH={prefix}")
        self.assertEqual(self.tidepool_libraries(build / "both"), set())
        self.assertEqual(run(build / "program", folder=self.folder), WORKS)
        self.assert_malloc_is_ours(build / "silent")

    def test_libraries_above_the_prefix(self):
        """A folder of libraries with dots, and one of headers elsewhere."""
        for libdir in "a/../lib", "../libraries":
            with self.subTest(libdir):
                sandbox.install(self.folder, f"--libdir={libdir}", "--includedir=include/versions/../0",
                                 prefix=self.folder / "a prefix")
                build = self.build("find_package", config_of(self.folder / ("libraries" if "raries" in libdir else "a prefix")))
                self.assertEqual(run(build / "program", folder=self.folder), WORKS)
            for folder in [*self.folder.glob("*")]:
                shutil.rmtree(folder)


@needs_cmake
class Sources(Parent):
    def test_shared(self):
        build = self.build("add_subdirectory", "-DBUILD_SHARED_LIBS=ON", source="tidepool")
        for name, libraries in ("program", {"libtidepool.so.0"}), ("program_static", set()):
            self.assertEqual(self.tidepool_libraries(build / name), libraries)
            self.assertEqual(run(build / name, folder=self.folder), WORKS)
        for name in "silent", "silent_debug":
            self.assertEqual(run(build / name, folder=self.folder, TIDEPOOL_OPTIONS="version"), TOLD_VERSION)
        self.assertEqual(sandbox.site_of_leak(build / "program_debug", self.folder), "main")
        self.assertEqual(sandbox.site_of_leak(build / "program_debug_static", self.folder), "main")
        # One that is linked with the plain library finds the other by its name.
        place = str(build / "tidepool/tidepool-debug")
        self.assertEqual(sandbox.site_of_leak(build / "program", self.folder, LD_LIBRARY_PATH=place), "main")

    @needs("nm")
    def test_static(self):
        """Archives have the names of the interface alone, also where all is optimized when it is linked, and where the compiler
        has arguments."""
        headers = [path for path in (SOURCE / "include/tidepool").glob("*.h") if path.name not in ("embedded.h", "record.h")]
        build = self.build("add_subdirectory", f"-DCMAKE_C_COMPILER={';'.join(['env', *sandbox.compiler()])}",
                           "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON", "-DCMAKE_C_FLAGS=-O0 -g", "-DTIDEPOOL_MALLOC=OFF",
                           source="tidepool")
        self.assertFalse((build / "silent").exists())
        for name in "program", "program_static":
            self.assertEqual(self.tidepool_libraries(build / name), set())
            self.assertEqual(run(build / name, folder=self.folder), WORKS)
        for name in "program_debug", "program_debug_static":
            self.assertEqual(self.tidepool_libraries(build / name), set())
            self.assertEqual(sandbox.site_of_leak(build / name, self.folder), "main")   # not optimized, by its parent
        folder = build / "tidepool/tidepool-debug"
        for name in "libtidepool.a", "libtidepool_static.a", folder / "libtidepool.a", folder / "libtidepool_static.a":
            run(sys.executable, SOURCE / "tests/symbols.py", "tidepool-archive", build / "tidepool" / name, *headers,
                folder=self.folder)


@needs_cmake
class Fetched(Parent):
    @sandbox.needs_cpp
    def test_fetch_content(self):
        build = self.build("fetch_content", f"-DFETCHCONTENT_SOURCE_DIR_TIDEPOOL={SOURCE}")
        self.assertEqual(run(build / "uses", folder=self.folder), WORKS)


# What meson or CMake says in words of its own, and what only warns.
OF_A_BUILD = re.compile(r"-(I|W|o$|c$|MD|MQ|MF|f(diagnostics|color-diagnostics)|fPIC|fpic|pthread|O\d|g$|std"
                        r"|D(NDEBUG|_FILE_OFFSET_BITS|tidepool\w*_EXPORTS))")


@needs_cmake
@needs("meson")
class SameAsMeson(sandbox.Folder):
    """Both compile the same files for each library, with the same options, and link them with the same ones."""

    def compiled(self, build, libraries):
        """By library: its sources, and the options that change what is compiled."""
        found = {}
        for entry in json.loads((build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            source = pathlib.Path(os.path.normpath(pathlib.Path(entry["directory"], entry["file"])))
            output = words[words.index("-o") + 1]
            library = next((library for pattern, library in libraries if re.search(pattern, output)), None)
            if library and source.is_relative_to(SOURCE / "src"):
                options = {word for word in words[1:] if word.startswith("-") and not OF_A_BUILD.match(word)}
                standard = {word for word in words if word.startswith("-std")}
                level = {"-Os"} & set([word for word in words if word.startswith("-O")][-1:])
                found.setdefault(library, {})[str(source.relative_to(SOURCE))] = options | standard | level
        return found

    def linked(self, build, name):
        text = (build / "build.ninja").read_text()
        file = re.escape(f"{name}.so.{VERSION}")
        block = re.search(rf"^build [^\n]*{file}[ :].*?(?=^build |\Z)", text, re.M | re.S)[0]
        return {word for word in re.findall(r"-Wl,[\w,=-]+", block) if re.match(r"-Wl,(--gc|--sort|-z|--version-script)", word)}

    def test_sources_and_options(self):
        meson, cmake = self.folder / "meson", self.folder / "cmake"
        run("meson", "setup", meson, SOURCE, "-Dprobes=disabled", folder=self.folder)
        run("cmake", "-G", "Ninja", "-S", SOURCE, "-B", cmake, "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON",
            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", folder=self.folder)
        of_meson = self.compiled(meson, [(r"libtidepool-(fast|small)-objects\.a", "tidepool"),
                                         (r"libtidepool-debug-objects\.a", "debug"),
                                         (r"libtidepool-malloc(-(fast|small)-objects\.a|\.so)", "malloc"),
                                         (r"libtidepool-malloc-debug-objects\.a", "malloc_debug")])
        of_cmake = self.compiled(cmake, [(r"tidepool_(plain_)?objects\.dir", "tidepool"),
                                         (r"tidepool_debug_objects\.dir", "debug"), (r"tidepool_malloc\.dir", "malloc"),
                                         (r"tidepool_malloc_debug\.dir", "malloc_debug")])
        self.assertGreater(min(len(of_meson["tidepool"]), len(of_meson["malloc"])), 50)
        self.assertGreater(len(of_meson["debug"]), 20)
        # One target of CMake has all of the library. Meson takes the core of the plain one.
        plain = set(of_meson["malloc"]) - set(of_cmake["malloc_debug"])
        self.assertEqual(plain, {"src/heap/debug_hooks.c"})
        of_meson["malloc_debug"].update({source: options for source, options in of_meson["malloc"].items()
                                         if source not in plain})
        self.assertEqual(of_meson, of_cmake)
        for name in "libtidepool", "libtidepool-malloc":
            self.assertEqual(self.linked(meson, name), self.linked(cmake, name))
            self.assertGreater(len(self.linked(cmake, name)), 2)

    def test_version(self):
        run("cmake", "-G", "Ninja", "-S", SOURCE, "-B", self.folder / "cmake", folder=self.folder)
        self.assertIn(f"CMAKE_PROJECT_VERSION:STATIC={VERSION}\n", (self.folder / "cmake/CMakeCache.txt").read_text())


if __name__ == "__main__":
    unittest.main()
