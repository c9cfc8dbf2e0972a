# SPDX-License-Identifier: MIT
"""The version is one: that of meson.build, wherever else it stands. And the recipes for packages name files that there are.

usage: test_versions.py BUILD [unittest's arguments]"""

import json
import pathlib
import re
import sys
import unittest

import sandbox
from sandbox import SOURCE, VERSION, needs, run

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
RECIPES = SOURCE / "tools/packaging"
PORT = RECIPES / "vcpkg/tidepool"


def first(pattern, path):
    found = re.search(pattern, path.read_text(), re.M)
    return found and found[1]


class Versions(unittest.TestCase):
    def test_texts(self):
        for path, pattern in {
            "include/tidepool/version.h": r'^#define TIDEPOOL_VERSION "(.*)"$',
            "CHANGELOG.md": r"^## (\d[\d.]*)",
            "debian/changelog": r"^tidepool \(([^)-]*)",
            "tools/packaging/tidepool.spec": r"^Version: +(\S+)$",
            "tools/packaging/vcpkg/tidepool/vcpkg.json": r'"version-semver": "(.*)"',
            "tools/packaging/tidepool.wrap": r"^directory = tidepool-(.*)$",
        }.items():
            with self.subTest(path):
                self.assertEqual(first(pattern, SOURCE / path), VERSION)
        self.assertIn(f"> - {VERSION}-1\n", (RECIPES / "tidepool.spec").read_text())

    def test_files_that_are_made(self):
        for path, pattern in {
            "meson-private/tidepool.pc": r"^Version: (.*)$",
            "meson-private/tidepool-malloc.pc": r"^Version: (.*)$",
            "tools/packaging/tidepoolConfigVersion.cmake": r'^set\(PACKAGE_VERSION "(.*)"\)$',
            "tools/packaging/tidepoolConfig.cmake": r"libtidepool\.so\.([\d.]+)\)$",
        }.items():
            if "malloc" in path and not (BUILD / path).exists():
                continue   # with malloc_library=false
            with self.subTest(path):
                self.assertEqual(first(pattern, BUILD / path), VERSION)

    def test_interface(self):
        soversion = first(r"^tidepool_soversion = '(.*)'$", SOURCE / "meson.build")
        for library in "tidepool", "tidepool-malloc", "tidepool-record":
            package = f"lib{library}{soversion}"
            self.assertIn(f"Package: {package}\n", (SOURCE / "debian/control").read_text())
            symbols = (SOURCE / f"debian/{package}.symbols").read_text()
            self.assertTrue(symbols.startswith(f"lib{library}.so.{soversion} {package} "))
            self.assertIn(f"%{{_libdir}}/lib{library}.so.{soversion}*\n", (RECIPES / "tidepool.spec").read_text())


class Recipes(sandbox.Folder):
    def test_options_are_meson_options(self):
        known = set(re.findall(r"^option\('(\w+)'", (SOURCE / "meson_options.txt").read_text(), re.M)) | {"default_library"}
        for path in SOURCE / "debian/rules", RECIPES / "tidepool.spec", PORT / "portfile.cmake":
            used = set(re.findall(r" -D(\w+)=", path.read_text()))
            self.assertTrue(used and used <= known, f"{path}: {used - known}")

    @needs("rpmspec")
    def test_spec(self):
        """Its macros are Fedora's, of which Debian's rpm has not all: what is left of them is text."""
        text = run("rpmspec", "-P", RECIPES / "tidepool.spec", folder=self.folder)
        self.assertRegex(text, rf"(?m)^Version: +{re.escape(VERSION)}$")
        packages = run("rpmspec", "-q", "--qf", "%{name}-%{version}\n", RECIPES / "tidepool.spec", folder=self.folder)
        parts = ("", "-malloc", "-record", "-debug", "-tools", "-devel", "-static")
        self.assertEqual(set(packages.split()), {f"tidepool{part}-{VERSION}" for part in parts})

    def test_port(self):
        port = json.loads((PORT / "vcpkg.json").read_text())
        self.assertEqual((port["name"], port["license"]), ("tidepool", "MIT"))
        self.assertEqual(set(port["features"]), {"malloc"})

    @needs("cmake")
    def test_portfile(self):
        """As CMake reads it, with vcpkg's functions by their names alone."""
        calls = sorted(set(re.findall(r"^(vcpkg_\w+)\(", (PORT / "portfile.cmake").read_text(), re.M)))
        self.assertEqual(calls, ["vcpkg_cmake_config_fixup", "vcpkg_configure_meson", "vcpkg_fixup_pkgconfig",
                                 "vcpkg_install_copyright", "vcpkg_install_meson"])
        library = self.folder / "lib/libtidepool.a"
        for linkage in "static", "dynamic":
            library.parent.mkdir(exist_ok=True)
            library.touch()
            script = "cmake_minimum_required(VERSION 3.16)\n"
            for name in calls:
                script += f'function({name})\n  message(STATUS "{name} ${{ARGN}}")\nendfunction()\n'
            script += f'set(VCPKG_LIBRARY_LINKAGE {linkage})\nset(CURRENT_PACKAGES_DIR "{self.folder}")\n'
            script += "set(FEATURES core malloc)\n"
            script += f'include("{PORT}/portfile.cmake")\n'
            (self.folder / "script.cmake").write_text(script)
            output = run("cmake", "-P", self.folder / "script.cmake", folder=self.folder)
            self.assertIn("-Dmalloc_library=true", output)
            self.assertIn(f"SOURCE_PATH;{SOURCE};", output)
            self.assertEqual(library.exists(), linkage == "static")


if __name__ == "__main__":
    unittest.main()
