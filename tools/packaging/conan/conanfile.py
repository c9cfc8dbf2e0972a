# SPDX-License-Identifier: MIT
"""A recipe of Conan 2 beside the sources that it packages: conan create tools/packaging/conan"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, load, rm
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain

ROOT = os.path.join("..", "..", "..")
PACKAGED = ("meson.build", "meson_options.txt", "LICENSE", "include/*", "src/*", "tools/*",
            "docs/meson.build", "docs/html/*", "docs/*.[13]")


class Tidepool(ConanFile):
    name = "tidepool"
    description = "Memory manager: heaps with exact byte budgets, object pools, a replacement for malloc"
    license = "MIT"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "malloc": [True, False]}
    default_options = {"shared": False, "fPIC": True, "malloc": True}
    implements = ["auto_shared_fpic"]
    languages = "C"

    def set_version(self):
        self.version = re.search(r"version: '([0-9.]+)'", load(self, os.path.join(self.recipe_folder, ROOT, "meson.build")))[1]

    def export_sources(self):
        for pattern in PACKAGED:
            copy(self, pattern, os.path.join(self.recipe_folder, ROOT), self.export_sources_folder, excludes="*__pycache__*")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("tidepool runs on Linux")

    def layout(self):
        basic_layout(self)

    def generate(self):
        toolchain = MesonToolchain(self)
        toolchain.project_options["malloc_library"] = bool(self.options.malloc)
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        Meson(self).install()
        if self.options.shared:   # meson makes both then
            rm(self, "*.a", self.package_folder, recursive=True)

    def package_info(self):
        """CMake reads the file that meson installs, with the targets of the documentation. Others read these components."""
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.describe("tidepool", "tidepool", builddirs=[os.path.join("lib", "cmake", "tidepool")])
        self.describe("tidepool-debug", "tidepool", libdirs=[os.path.join("lib", "tidepool-debug")])
        if self.options.malloc:
            # A program that does not call malloc itself needs the library all the same.
            flags = ["-Wl,--push-state,--no-as-needed,-u,malloc", "-ltidepool-malloc", "-Wl,--pop-state"]
            self.describe("tidepool-malloc", None, exelinkflags=flags)

    def describe(self, name, library, **more):
        component = self.cpp_info.components[name]
        component.libs = [library] if library else []
        component.system_libs = ["pthread"]
        component.set_property("pkg_config_name", name)
        for key, value in more.items():
            setattr(component, key, value)
