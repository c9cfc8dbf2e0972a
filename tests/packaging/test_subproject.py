# SPDX-License-Identifier: MIT
"""tidepool in the `subprojects` of another project of meson: the parent gets what it links with, and nothing else."""

import json
import re
import shutil
import unittest

import sandbox
from sandbox import TOLD_VERSION, WORKS, needs, run


MALLOC_FIRST = """project('parent', 'c')
executable('silent', 'silent.c', dependencies: dependency('tidepool-malloc'))
"""


class Parent(sandbox.Folder):
    def source_beside(self, parent):
        sandbox.with_source(parent / "subprojects/tidepool")

    def parent(self, *options, text=None):
        """Configures and builds a parent, or one of another text; returns its build folder."""
        parent, build = self.folder / "parent", self.folder / "build"
        shutil.copytree(sandbox.HERE / "parents/meson", parent)
        for name in ("program.c", "silent.c"):
            shutil.copy(sandbox.HERE / name, parent / name)
        if text:
            (parent / "meson.build").write_text(text)
        self.source_beside(parent)
        # Not one that the machine has.
        run("meson", "setup", build, parent, "--prefix=/usr/local", "-Doptimization=0", "--force-fallback-for=tidepool",
            *options, folder=self.folder)
        run("ninja", folder=build)
        return build

    def told(self, build, what):
        return json.loads(run("meson", "introspect", f"--{what}", build, folder=self.folder))

    def files(self, build, pattern):
        return sorted(path.name for path in build.rglob(pattern) if path.is_file())


@needs("meson", "ninja")
class Subproject(Parent):
    def test_nothing_but_a_static_library(self):
        build = self.parent()
        self.assertEqual((self.told(build, "tests"), self.told(build, "benchmarks")), ([], []))
        self.assertEqual(list(self.told(build, "installed").values()), ["/usr/local/bin/program"])
        made = [target["name"] for target in self.told(build, "targets") if target["build_by_default"]]
        self.assertEqual(made, ["program"])
        self.assertEqual(self.files(build, "*.so*"), [])
        self.assertEqual(self.files(build, "*.a"), ["libtidepool-objects.a", "libtidepool.a"])
        self.assertEqual(run(build / "program", folder=self.folder), WORKS)


    def test_debug_library(self):
        """Static as well. A function that allocates is the parent's, and none of the library."""
        build = self.parent("-Dwith_debug=true")
        self.assertEqual(self.files(build, "*.so*"), [])
        self.assertEqual(sandbox.site_of_leak(build / "program_debug", self.folder), "main")


@needs("meson", "ninja", "xz")
class Wrapped(Parent):
    """By the wrap, which says whose dependencies these are: without the folder that meson looks for by itself."""

    def source_beside(self, parent):
        wrap, name = sandbox.SOURCE / "tools/packaging/tidepool.wrap", f"tidepool-{sandbox.VERSION}"
        files = parent / "subprojects/packagefiles"
        files.mkdir(parents=True)
        shutil.copy(wrap, parent / "subprojects")
        sandbox.with_source(self.folder / name)
        shutil.make_archive(files / name, "xztar", root_dir=self.folder, base_dir=name)
        shutil.rmtree(self.folder / name)

    def test_all_libraries(self):
        build = self.parent("-Dwith_malloc=true", "-Dwith_debug=true")
        self.assertEqual(run(build / "program", folder=self.folder), WORKS)
        self.assertEqual(run(build / "silent", folder=self.folder, TIDEPOOL_OPTIONS="version"), TOLD_VERSION)
        self.assertEqual(sandbox.site_of_leak(build / "program_debug", self.folder), "main")

    def test_any_library_first(self):
        """The name of the wrap is not that of the dependency."""
        build = self.parent(text=MALLOC_FIRST)
        self.assertEqual(run(build / "silent", folder=self.folder, TIDEPOOL_OPTIONS="version"), TOLD_VERSION)


@needs("meson", "ninja")
class SubprojectWithOptions(Parent):
    def test_default_library_static(self):
        for option in "-Ddefault_library=static", "-Dtidepool:default_library=static":
            with self.subTest(option):
                build = self.parent(option, "-Dtidepool:install_as_subproject=true")
                self.assertEqual(self.files(build, "*.so*"), [])
                self.assertFalse([name for name in sandbox.needed_by(build / "program") if "tidepool" in name])
                self.assertEqual(run(build / "program", folder=self.folder), WORKS)
            shutil.rmtree(build)
            shutil.rmtree(self.folder / "parent")

    def test_installed_with_the_parent_it_is_shared(self):
        build = self.parent("-Dtidepool:install_as_subproject=true")
        root = self.folder / "root"
        run("meson", "install", "-C", build, "--quiet", "--destdir", root, folder=self.folder)
        installed = {re.sub(".*/", "", str(path)): path for path in root.rglob("*")}
        self.assertLessEqual({"program", "libtidepool.so.0", "libtidepool-malloc.so.0", "tidepool.h", "tidepool.pc",
                              "pool_alloc.3"}, set(installed))
        self.assertIn("libtidepool.so.0", sandbox.needed_by(installed["program"]))
        self.assertEqual(run(installed["program"], folder=self.folder,
                             LD_LIBRARY_PATH=str(installed["libtidepool.so.0"].parent)), WORKS)

    def test_malloc_of_the_parents_program(self):
        build = self.parent("-Dwith_malloc=true")
        self.assertEqual(self.files(build, "*.so*"), [])
        self.assertEqual(run(build / "silent", folder=self.folder, TIDEPOOL_OPTIONS="version"), TOLD_VERSION)

    def test_shared_malloc_of_the_parents_program(self):
        build = self.parent("-Dwith_malloc=true", "-Dtidepool:install_as_subproject=true")
        self.assertIn("libtidepool-malloc.so.0", sandbox.needed_by(build / "silent"))
        self.assertEqual(run(build / "silent", folder=self.folder, TIDEPOOL_OPTIONS="version"), TOLD_VERSION)

    def test_without_the_malloc_library(self):
        build = self.parent("-Dtidepool:malloc_library=false")
        self.assertEqual(run(build / "program", folder=self.folder), WORKS)


if __name__ == "__main__":
    unittest.main()
