# SPDX-License-Identifier: MIT
"""Conan 2: packages from the recipe, static and shared, in a home of their own and without remotes. The recipe's own test uses
CMake; here a compiler asks pkg-config."""

import shlex
import unittest

import sandbox
from sandbox import HERE, TOLD_VERSION, VERSION, WORKS, compiler, needs, run


@needs("conan", "cmake", "meson", "ninja", "pkg-config")
class Recipe(sandbox.Folder):
    def setUp(self):
        super().setUp()
        self.conan("profile", "detect")

    def conan(self, *words):
        return run("conan", *words, folder=self.folder, CONAN_HOME=str(self.folder / "home"))

    def create(self, *options):
        source = sandbox.with_source(self.folder / "source")
        said = self.conan("create", source / "tools/packaging/conan", "--no-remote", *options)
        self.assertIn(f"tidepool/{VERSION} (test package): RUN:", said)
        self.assertTrue(said.rstrip().endswith(WORKS.rstrip()), said[-1000:])

    def flags(self, package, *options):
        self.conan("install", f"--requires=tidepool/{VERSION}", "--no-remote", "-g", "PkgConfigDeps",
                   "-of", self.folder / "deps", *options)
        return shlex.split(run("pkg-config", "--cflags", "--libs", package, folder=self.folder,
                               PKG_CONFIG_PATH=str(self.folder / "deps")))

    def check_programs(self, *options):
        """The plain library, the debug library, and malloc of a program that calls none."""
        built = {}
        for name, source, package in (("program", "program.c", "tidepool"), ("debug", "program.c", "tidepool-debug"),
                                      ("silent", "silent.c", "tidepool-malloc")):
            flags = self.flags(package, *options)
            folders = [word.removeprefix("-L") for word in flags if word.startswith("-L")]
            built[name] = self.folder / name
            paths = [f"-Wl,-rpath,{folder}" for folder in folders]
            run(*compiler(), "-o", name, HERE / source, *flags, *paths, folder=self.folder)
        self.assertEqual(run(built["program"], folder=self.folder), WORKS)
        self.assertIn(sandbox.FOUND_LEAK, run(built["debug"], folder=self.folder, TIDEPOOL_OPTIONS="leaks=destroy"))
        self.assertEqual(run(built["silent"], folder=self.folder, TIDEPOOL_OPTIONS="version"), TOLD_VERSION)
        return {name: {library for library in sandbox.needed_by(program) if "tidepool" in library}
                for name, program in built.items()}

    def test_static(self):
        self.create()
        self.assertEqual(set().union(*self.check_programs().values()), set())

    def test_shared(self):
        self.create("-o", "tidepool/*:shared=True")
        self.assertEqual(self.check_programs("-o", "tidepool/*:shared=True"),
                         {"program": {"libtidepool.so.0"}, "debug": {"libtidepool.so.0"},
                          "silent": {"libtidepool-malloc.so.0"}})
        self.assertEqual(list((self.folder / "home").rglob("p/lib/**/*.a")), [])

    def test_without_malloc(self):
        self.create("-o", "tidepool/*:malloc=False")
        self.flags("tidepool", "-o", "tidepool/*:malloc=False")
        self.assertFalse((self.folder / "deps/tidepool-malloc.pc").exists())


if __name__ == "__main__":
    unittest.main()
