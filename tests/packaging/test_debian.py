# SPDX-License-Identifier: MIT
"""The Debian packages: built from a copy of the sources, looked at by lintian, unpacked into a folder and used from there."""

import functools
import os
import pathlib
import re
import shlex
import shutil
import tempfile
import unittest

import sandbox
from sandbox import HERE, SOURCE, VERSION, WORKS, compiler, needs, run


def has_build_dependencies():
    return shutil.which("dpkg-checkbuilddeps") and os.path.exists("/usr/bin/dh") and os.path.exists("/usr/bin/mandoc")


@functools.cache
def packages():
    """The folder in which they lie."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="tidepool-debian-"))
    unittest.addModuleCleanup(shutil.rmtree, root)
    source = sandbox.with_source(root / "tidepool")
    (root / "log").write_text(run("dpkg-buildpackage", "-us", "-uc", folder=source, DEB_BUILD_OPTIONS="nocheck",
                                    DEB_VENDOR="Debian"))
    return root


@functools.cache
def unpacked():
    """All of them, in one clean folder."""
    root = packages() / "root"
    for package in packages().glob("*.deb"):
        run("dpkg", "-x", package, root, folder=packages())
    return root


@needs("dpkg-buildpackage", "dpkg-deb", "meson", "pkg-config")
@unittest.skipUnless(has_build_dependencies(), "debhelper or mandoc is not installed")
class Debian(sandbox.Folder):
    @classmethod
    def setUpClass(cls):
        packages()   # once, also where it fails

    def libraries(self):
        return next(unpacked().rglob("tidepool.pc")).parents[1]

    def flags(self, *arguments):
        """pkg-config puts the folder before what is not in the compiler's own places."""
        libraries = self.libraries()
        return shlex.split(run("pkg-config", *arguments, folder=self.folder, PKG_CONFIG_LIBDIR=str(libraries / "pkgconfig"),
                               PKG_CONFIG_SYSROOT_DIR=str(unpacked()), PKG_CONFIG_ALLOW_SYSTEM_LIBS="1",
                               PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1"))

    def compile(self, source, *flags):
        run(*compiler(), "-o", self.folder / "program", HERE / source, "-pthread", *flags, folder=self.folder)
        return self.folder / "program"

    def test_packages_and_their_files(self):
        names = {re.sub("_.*", "", path.name) for path in packages().glob("*.deb")}
        self.assertLessEqual({"libtidepool0", "libtidepool-malloc0", "libtidepool-record0", "libtidepool0-debug",
                              "libtidepool-dev", "tidepool-tools", "tidepool-doc"}, names)
        for name, pattern in {"libtidepool0": rf"/libtidepool\.so\.{re.escape(VERSION)}$",
                              "libtidepool-malloc0": r"/man1/tidepool-malloc\.1",
                              "libtidepool-record0": rf"/libtidepool-record\.so\.{re.escape(VERSION)}$",
                              "libtidepool0-debug": rf"/tidepool-debug/libtidepool-malloc\.so\.{re.escape(VERSION)}$",
                              "tidepool-tools": r"/man1/tidepool\.1",
                              "libtidepool-dev": r"/man3/pool_alloc\.3", "tidepool-doc": r"/html/tidepool\.3\.html$"}.items():
            package = next(packages().glob(f"{name}_*.deb"))
            self.assertRegex(run("dpkg-deb", "-c", package, folder=self.folder), f"(?m){pattern}")

    def test_symbols_are_those_of_the_library(self):
        """dpkg-gensymbols only warns of what is new."""
        log = (packages() / "log").read_text()
        self.assertNotIn("dpkg-gensymbols: warning", log)
        self.assertNotRegex(log, r"(?m)^[-+] \w+@Base")

    @needs("lintian")
    def test_lintian(self):
        changes = next(packages().glob("*.changes"))
        as_root = ["--allow-root"] if os.geteuid() == 0 else []
        # Another lintian has other wishes: what it calls an error is one for all of them.
        known = "v2.116." in run("lintian", "--version", folder=self.folder)
        run("lintian", "--profile", "debian", "--pedantic", "--display-info",
            "--fail-on", "error,warning,info,pedantic" if known else "error", *as_root, changes, folder=self.folder)

    def test_shared(self):
        program = self.compile("program.c", *self.flags("--cflags", "--libs", "tidepool"))
        self.assertEqual(run(program, folder=self.folder, LD_LIBRARY_PATH=str(self.libraries())), WORKS)

    @unittest.skipUnless(sandbox.links_statically("c"), "the C library is not there to be linked statically")
    def test_static(self):
        program = self.compile("program.c", "-static", *self.flags("--cflags", "--libs", "--static", "tidepool"))
        self.assertEqual(run(program, folder=self.folder), WORKS)
        program = self.compile("allocates.c", "-static", *self.flags("--libs", "--static", "tidepool-malloc"))
        self.assert_malloc_is_ours(program)

    def test_preloaded(self):
        program = self.compile("allocates.c")
        self.assert_malloc_is_ours(program, LD_PRELOAD=f"{self.libraries()}/libtidepool-malloc.so.0")

    def test_command(self):
        """It finds the library where the packages put both."""
        program = self.compile("allocates.c")
        self.assert_malloc_is_ours(next(unpacked().rglob("bin/tidepool")), "run", program)

    def test_debug_library(self):
        """A program that was linked with the plain library finds it, and no package depends on it for its soname."""
        program = self.compile("program.c", *self.flags("--cflags", "--libs", "tidepool"))
        folder = str(self.libraries() / "tidepool-debug")
        self.assertEqual(sandbox.site_of_leak(program, self.folder, LD_LIBRARY_PATH=folder), "main")
        package = next(packages().glob("libtidepool0-debug_*.deb"))
        self.assertNotRegex(run("dpkg-deb", "-I", package, folder=self.folder), "shlibs|symbols")

    def test_html(self):
        page = next(unpacked().rglob("tidepool.3.html"))
        self.assertIn("pool_heap_create", page.read_text())
        self.assertIn('href="tidepool-malloc.1.html"', page.read_text())
        pages = {path.name for path in (SOURCE / "docs").glob("*.[13]")}
        self.assertEqual({path.stem for path in page.parent.iterdir()}, pages | {"index"})

    def test_examples(self):
        packed = {path.name.removesuffix(".gz") for path in next(unpacked().rglob("tidepool-doc/examples")).iterdir()}
        self.assertEqual(packed, {path.name for path in (SOURCE / "examples").glob("*.c*")})


if __name__ == "__main__":
    unittest.main()
