# SPDX-License-Identifier: MIT
"""The machines that qemu emulates with a kernel: how they are started, and where their programs find shared libraries."""

import dataclasses
import os
import pathlib
import platform
import re
import shutil

from kernels import CROSS, arm64_busybox, quiet

SYSROOT = pathlib.Path("/", "usr", CROSS.rstrip("-"), "lib")   # Debian's libc6-dev-arm64-cross and others
NEEDED = re.compile(r"\(NEEDED\).*\[(.*)\]|program interpreter: (.*)\]")
RUNPATH = re.compile(r"\(RUNPATH\).*\[(.*)\]")


@dataclasses.dataclass(frozen=True)
class X86:
    """The processor `max` is the host's own with KVM, and otherwise has all that can be emulated."""
    qemu = "qemu-system-x86_64"
    options = ("-cpu", "max")
    tools = ("ldd", "busybox")
    console, output = "ttyS0", "ttyS1"
    native = "x86_64"

    def serial_ports(self, log):
        return "-serial", f"file:{log}", "-serial", "stdio"

    def libraries_of(self, path):
        """The shared libraries and the loader of a dynamic program or library, and their places; none of anything else."""
        found = re.findall(r"^\t(?:.* => )?(/.*) \(0x", quiet("ldd", path).stdout, re.MULTILINE)
        return [(library, library) for library in found]

    def busybox(self, _):
        return shutil.which("busybox")


@dataclasses.dataclass(frozen=True)
class Arm64:
    """Its own way to sign addresses takes no time to emulate. The libraries are those of the cross compiler."""
    qemu = "qemu-system-aarch64"
    options = ("-machine", "virt", "-cpu", "max,pauth-impdef=on")
    tools = (f"{CROSS}readelf",)
    console, output = "ttyAMA0", "ttyS0"
    native = "aarch64"

    def serial_ports(self, log):
        return "-serial", f"file:{log}", "-chardev", "stdio,id=output", "-device", "pci-serial,chardev=output"

    def libraries_of(self, path):
        """Those of the build, which a program names by their folder, keep their places."""
        said = quiet(f"{CROSS}readelf", "-dlW", path).stdout
        found = []
        for name in sorted({os.path.basename(name or loader) for name, loader in NEEDED.findall(said)}):
            folders = ":".join(RUNPATH.findall(said)).replace("$ORIGIN", os.path.dirname(path)).split(":")
            of_build = [f"{folder}/{name}" for folder in folders if os.path.exists(f"{folder}/{name}")]
            if of_build or (SYSROOT / name).exists():
                found.append((of_build[0], of_build[0]) if of_build else (str(SYSROOT / name), f"/lib/{name}"))
        return found

    def busybox(self, cache):
        return arm64_busybox(cache)


TARGETS = {"x86-64": X86(), "arm64": Arm64()}


def accelerators(target):
    """KVM may be there and not work, in a virtual machine: then the first process is never reached."""
    # Of many starts of an emulated kernel one hangs in its own tests: another try, before a program has run, loses nothing.
    with_kvm = platform.machine() == target.native and os.access("/dev/kvm", os.R_OK | os.W_OK)
    return ["kvm", "tcg", "tcg"] if with_kvm else ["tcg", "tcg"]
