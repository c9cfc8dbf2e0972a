# SPDX-License-Identifier: MIT
"""What is installed: the README's commands in an empty prefix, and what pkg-config says of an installation that was moved."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

import sandbox
from sandbox import HERE, SOURCE, TOLD_VERSION, VERSION, WORKS, compiler, needs, run


def readme():
    return (SOURCE / "README.md").read_text()


def install_commands():
    """The first lines of code, behind the program, that begin with a prefix."""
    return re.search(r"^((?: {4}.*\n)*? {4}prefix=.*\n(?: {4}.*\n)*)", readme(), re.M)[1]


@needs("meson", "ninja", "pkg-config")
class Readme(sandbox.Folder):
    def test_its_commands_in_an_empty_home(self):
        source = sandbox.with_source(self.folder / "source")
        (source / "program.c").write_text(re.search(r"^```c\n(.*?)^```", readme(), re.M | re.S)[1])
        commands = re.sub(r"^ {4}", "", install_commands(), flags=re.M)
        self.assertIn("$HOME", commands)
        # The program that is made is run, and what cannot be found fails.
        commands, programs = re.subn(r"^(cc .*)$", r"\1 && ./program", commands, flags=re.M)
        output = run("sh", "-c", "set -eu\n" + commands, folder=source, HOME=str(self.folder / "home"),
                     TIDEPOOL_OPTIONS="version")
        # The program runs alone, and once more with the malloc preloaded, which tells its version too.
        self.assertEqual((programs, len(re.findall(r"^\d+ pages dropped$", output, re.M))), (1, 2), output)
        self.assertGreaterEqual(output.count(TOLD_VERSION), 3, output)


@needs("meson", "ninja")
class Files(sandbox.Folder):
    def prefix(self, *options, **places):
        return sandbox.install(self.folder, *options, **places)

    def names(self, prefix):
        return {path.name for path in prefix.rglob("*") if not path.is_dir()}

    def test_libraries_and_their_links(self):
        prefix = self.prefix("--libdir=lib", prefix=self.folder / "a prefix")
        for library in "libtidepool", "libtidepool-malloc":
            links = [f"{library}.so", f"{library}.so.0"]
            for folder in prefix / "lib", prefix / "lib/tidepool-debug":
                self.assertTrue(all((folder / link).is_symlink() for link in links))
                self.assertEqual({(folder / link).resolve() for link in links}, {folder / f"{library}.so.{VERSION}"})
                self.assertTrue((folder / f"{library}.a").is_file())

    def test_destdir(self):
        root = self.folder / "root"
        self.prefix(prefix="/opt/tide pool", destdir=root)
        self.assertTrue(all("opt/tide pool/" in str(path) for path in root.rglob("*") if not path.is_dir()))
        self.assertFalse(pathlib.Path("/opt/tide pool").exists())

    def test_no_malloc_library(self):
        names = self.names(self.prefix("-Dmalloc_library=false", prefix=self.folder / "prefix"))
        self.assertEqual({name for name in names if "malloc" in name}, {"pool_malloc.3"} & names)
        self.assertLessEqual({"libtidepool.a", "libtidepool.so", "tidepool.pc", "tidepoolConfig.cmake"}, names)

    def test_static_alone(self):
        prefix = self.prefix("-Ddefault_library=static", prefix=self.folder / "prefix")
        names = self.names(prefix)
        self.assertFalse({name for name in names if ".so" in name})
        self.assertLessEqual({"libtidepool.a", "libtidepool-malloc.a", "tidepool.pc", "tidepool-malloc.pc"}, names)
        if shutil.which("pkg-config"):
            for name, source in ("tidepool", "program.c"), ("tidepool-malloc", "allocates.c"):
                program = PkgConfig.compile(self, prefix, name, HERE / source)
                self.assertFalse([library for library in sandbox.needed_by(program) if "tidepool" in library])
                self.assertIn(TOLD_VERSION, run(program, folder=self.folder, TIDEPOOL_OPTIONS="version"))


@needs("meson", "ninja", "pkg-config")
class PkgConfig(sandbox.Folder):
    def flags(self, prefix, *arguments):
        path = next(prefix.rglob("tidepool.pc")).parent
        escaped = str(prefix).replace(" ", r"\ ")   # as in the file itself, for a prefix that has one
        return shlex.split(run("pkg-config", f"--define-variable=prefix={escaped}", *arguments, folder=self.folder,
                               PKG_CONFIG_LIBDIR=str(path)))

    def compile(self, prefix, name, source, *more, language="c", static=()):
        flags = PkgConfig.flags(self, prefix, "--cflags", "--libs", *static, name)
        program = self.folder / f"{name}-{pathlib.Path(source).stem}"
        run(*compiler(language), "-o", program, source, *flags, *more, folder=self.folder)
        return program

    def libraries(self, prefix):
        return next(prefix.rglob("tidepool.pc")).parents[1]

    def test_version(self):
        prefix = sandbox.moved_prefix()
        for name in "tidepool", "tidepool-malloc":
            self.assertEqual(self.flags(prefix, "--modversion", name), [VERSION])

    def test_shared(self):
        prefix = sandbox.moved_prefix()
        program = self.compile(prefix, "tidepool", HERE / "program.c")
        self.assertIn("libtidepool.so.0", sandbox.needed_by(program))
        self.assertEqual(run(program, folder=self.folder, LD_LIBRARY_PATH=str(self.libraries(prefix))), WORKS)

    def test_shared_with_the_debug_library(self):
        """The same program finds it, by the folder that pkg-config names."""
        prefix = sandbox.moved_prefix()
        program = self.compile(prefix, "tidepool", HERE / "program.c")
        debug, = self.flags(prefix, "--variable=debugdir", "tidepool")
        said = run(program, folder=self.folder, LD_LIBRARY_PATH=debug, TIDEPOOL_OPTIONS="leaks=destroy")
        self.assertIn(sandbox.FOUND_LEAK, said)
        said = run(program, folder=self.folder, LD_LIBRARY_PATH=str(self.libraries(prefix)), TIDEPOOL_OPTIONS="leaks=destroy")
        self.assertIn(sandbox.NEEDS_DEBUG, said)

    @unittest.skipUnless(sandbox.links_statically("c"), "the C library is not there to be linked statically")
    def test_static(self):
        program = self.compile(sandbox.moved_prefix(), "tidepool", HERE / "program.c", "-static", static=["--static"])
        self.assertEqual((sandbox.needed_by(program), run(program, folder=self.folder)), (set(), WORKS))

    @unittest.skipUnless(sandbox.links_statically("c"), "the C library is not there to be linked statically")
    def test_static_with_the_debug_library(self):
        prefix = sandbox.moved_prefix()
        debug, = self.flags(prefix, "--variable=debugdir", "tidepool")
        flags = self.flags(prefix, "--cflags", "--libs", "--static", "tidepool")
        run(*compiler(), "-o", self.folder / "program", HERE / "program.c", "-static", f"-L{debug}", *flags, folder=self.folder)
        said = run(self.folder / "program", folder=self.folder, TIDEPOOL_OPTIONS="leaks=destroy")
        self.assertIn(sandbox.FOUND_LEAK, said)

    def test_malloc(self):
        prefix = sandbox.moved_prefix()
        for source, more in ("allocates.c", ["-pthread"]), ("silent.c", []), ("silent.c", ["-Wl,--as-needed"]):
            with self.subTest(source, more=more):
                program = self.compile(prefix, "tidepool-malloc", HERE / source, *more)
                self.assert_malloc_is_ours(program, LD_LIBRARY_PATH=str(self.libraries(prefix)))

    def test_as_needed_for_a_program_without_malloc(self):
        """Where a distribution's compiler drops libraries, this one stays."""
        prefix = sandbox.moved_prefix()
        flags = self.flags(prefix, "--libs", "tidepool-malloc")
        program = self.folder / "silent"
        run(*compiler(), "-Wl,--as-needed", "-o", program, HERE / "silent.c", *flags, folder=self.folder)
        self.assert_malloc_is_ours(program, LD_LIBRARY_PATH=str(self.libraries(prefix)))

    def test_preloaded(self):
        prefix = sandbox.moved_prefix()
        program = self.folder / "allocates"
        run(*compiler(), "-pthread", "-o", program, HERE / "allocates.c", folder=self.folder)
        os.symlink(self.libraries(prefix), self.folder / "libraries")   # LD_PRELOAD ends a name at a space
        preload = f"{os.path.relpath(self.folder / 'libraries', self.folder)}/libtidepool-malloc.so.0"
        self.assert_malloc_is_ours(program, LD_PRELOAD=f"./{preload}")


@needs("meson", "ninja")
class Command(sandbox.Folder):
    """Where a prefix was moved, its program finds its library; but LD_PRELOAD can hold no path with a space."""

    def test_run(self):
        prefix = self.folder / "prefix"
        shutil.copytree(sandbox.moved_prefix(), prefix, symlinks=True)
        program = self.folder / "allocates"
        run(*compiler(), "-pthread", "-o", program, HERE / "allocates.c", folder=self.folder)
        self.assert_malloc_is_ours(prefix / "bin/tidepool", "run", program)
        said = run(prefix / "bin/tidepool", "run", "--checked", "/usr/bin/env", folder=self.folder)
        folder = next(prefix.rglob("tidepool.pc")).parents[1] / "tidepool-debug"
        self.assertIn(f"LD_PRELOAD={folder}/libtidepool-malloc.so.{VERSION}:{folder}/libtidepool.so.{VERSION}\n", said)


@needs("meson", "ninja", "pkg-config")
class StaticMalloc(sandbox.Folder):
    """libtidepool-malloc.a, in programs without any shared library and in ones with."""

    def check(self, source, *more, language="c"):
        static = PkgConfig.flags(self, sandbox.moved_prefix(), "--libs", "--static", "tidepool-malloc")
        program = self.folder / "program"
        run(*compiler(language), "-o", program, source, *more, *static, "-pthread", folder=self.folder)
        output = self.assert_malloc_is_ours(program)
        # Neither the C library's malloc beside it, nor what only the library may know.
        names = run("nm", program, folder=self.folder)
        self.assertNotRegex(names, r"_int_malloc|__malloc_arena_thread_freeres$")
        self.assertFalse([library for library in sandbox.needed_by(program) if "tidepool" in library])
        return output

    @unittest.skipUnless(sandbox.links_statically("c"), "the C library is not there to be linked statically")
    def test_c(self):
        for way in "-static", "-static-pie":
            with self.subTest(way):
                self.assertEqual(self.check(HERE / "allocates.c", way, "-fno-builtin"), "3 mine\n")
                self.assertEqual(self.check(HERE / "silent.c", way), "")

    @sandbox.needs_cpp
    @unittest.skipUnless(sandbox.links_statically("cpp"), "the C++ runtime is not there to be linked statically")
    def test_cpp(self):
        for way in "-static", "-static-pie":
            with self.subTest(way):
                self.assertEqual(self.check(HERE / "makes.cpp", way, "-std=c++17", language="cpp"), "made\n")

    @unittest.skipUnless(sandbox.links_statically("c"), "the C library is not there to be linked statically")
    def test_beside_the_other_library(self):
        """Each is a manager of its own, in whatever order they are linked."""
        prefix = sandbox.moved_prefix()
        for order in (["tidepool", "tidepool-malloc"], ["tidepool-malloc", "tidepool"]):
            flags = PkgConfig.flags(self, prefix, "--cflags", "--libs", "--static", *order)
            program = self.folder / "program"
            run(*compiler(), "-static", "-o", program, HERE / "program.c", *flags, folder=self.folder)
            self.assertIn(WORKS, self.assert_malloc_is_ours(program))

    @unittest.skipUnless(sandbox.links_statically("c"), "the C library is not there to be linked statically")
    def test_malloc_info_is_the_one_name_that_cannot_be_had(self):
        """The manual says so. The C library has it in one file with its malloc."""
        (self.folder / "info.c").write_text("#include <malloc.h>\nint main(void) { return malloc_info(0, 0); }\n")
        flags = PkgConfig.flags(self, sandbox.moved_prefix(), "--libs", "--static", "tidepool-malloc")
        done = subprocess.run([*compiler(), "-static", "info.c", *flags], cwd=self.folder, capture_output=True, text=True,
                              env=sandbox.ENVIRONMENT, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("multiple definition", done.stderr)


if __name__ == "__main__":
    unittest.main()
