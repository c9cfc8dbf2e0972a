# SPDX-License-Identifier: MIT
"""Kernels that qemu boots: Debian's, and those for arm64 with other pages than 4 KiB, which are built from Debian's source.
They are kept in a folder, and what is there is neither fetched nor built again."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "toolchains"))
from debian_packages import Archive  # pylint: disable=wrong-import-position

SOURCE_OF_LINUX = pathlib.Path("/usr/src/linux-source-6.1.tar.xz")
CROSS = "aarch64-linux-gnu-"
NEEDED_TO_BUILD = ("make", "bc", "bison", "flex", "xz", f"{CROSS}gcc")
# Neither is compiled for this configuration, and both are large.
NOT_UNPACKED = ("*/drivers/gpu/drm/amd/include/*", "*/sound/*/*.c")


class Unavailable(Exception):
    """Why there is no boot on this machine."""


def quiet(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", **options)


def version_key(name):
    return [int(number) for number in re.findall(r"\d+", name)]


# ---- Debian's ----

def newest(names, version):
    if not names:
        raise Unavailable(f"apt knows no package of Linux {version}")
    return max(names, key=version_key)


def package_pattern(version, architecture):
    return rf"^linux-image-{re.escape(version)}\.[^ ]*-cloud-{architecture}$"


def unpack_amd64(version, folder):
    """With the lists of this machine, which may have more versions."""
    found = quiet("apt-cache", "search", "--names-only", package_pattern(version, "amd64")).stdout
    package = newest([line.split()[0] for line in found.splitlines()], version)
    done = quiet("apt-get", "-qq", "download", package, cwd=folder)
    files = list(pathlib.Path(folder).glob("*.deb"))
    if done.returncode != 0 or not files:
        raise Unavailable(f"{package} cannot be fetched: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    quiet("dpkg-deb", "-x", files[0], folder, check=True)


def unpack_arm64(version, folder):
    archive = Archive("arm64", folder)
    package = newest(archive.names(package_pattern(version, "arm64")), version)
    if not archive.unpack(folder, package):
        raise Unavailable(f"{package} cannot be fetched")


def debian_kernel(version, architecture, cache):
    """The newest in the folder, or the newest that apt knows."""
    cache.mkdir(parents=True, exist_ok=True)
    pattern = f"vmlinuz-{version}.*-{architecture}"
    if not list(cache.glob(pattern)):
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            raise Unavailable(f"no Linux {version}: this is not Debian")
        # In a folder of its own, so that two boots can fetch at once.
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            (unpack_arm64 if architecture == "arm64" else unpack_amd64)(version, folder)
            for image in pathlib.Path(folder).glob("boot/vmlinuz-*"):
                os.replace(image, cache / image.name)
    return max(cache.glob(pattern), key=lambda path: version_key(path.name))


def arm64_busybox(cache):
    """Debian's static one."""
    kept = cache / "busybox-arm64"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            if not Archive("arm64", folder).unpack(folder, "busybox-static"):
                raise Unavailable("busybox-static for arm64 cannot be fetched")
            os.replace(pathlib.Path(folder) / "bin/busybox", kept)
    return kept


# ---- built from Debian's source ----

def make(source, target, *options):
    done = quiet("make", "-s", "-C", source, "ARCH=arm64", f"CROSS_COMPILE={CROSS}", *options, target)
    if done.returncode:
        sys.exit(f"make {target} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")


def check_settings(wanted, config):
    """A setting whose conditions are not met is left out without a word."""
    missing = set(wanted.split()) - set(config.read_text().split("\n"))
    if missing:
        sys.exit(f"the kernel would be built without {sorted(missing)}")


def build_arm64(settings, image):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run(["tar", "-C", folder, "--strip-components=1", *(f"--exclude={part}" for part in NOT_UNPACKED), "-xf",
                        SOURCE_OF_LINUX], check=True)
        (folder / "wanted").write_text(settings)
        make(folder, "allnoconfig", f"KCONFIG_ALLCONFIG={folder / 'wanted'}")
        check_settings(settings, folder / ".config")
        make(folder, "Image", f"-j{os.cpu_count()}")
        os.replace(shutil.copy(folder / "arch/arm64/boot/Image", image.with_suffix(".new")), image)


def arm64_kernel(kib, cache):
    """One for pages of so many KiB. Its name has a sum of its configuration, so a change is noticed."""
    if kib == 4:
        return debian_kernel("6.1", "arm64", cache)
    settings = (HERE / "arm64.config").read_text()
    settings = "".join(f"{line}\n" for line in settings.splitlines() if line.startswith("CONFIG_"))
    settings += f"CONFIG_ARM64_{kib}K_PAGES=y\n"
    image = cache / f"Image-6.1-arm64-{kib}k-{hashlib.sha256(settings.encode()).hexdigest()[:8]}"
    if not image.exists():
        missing = [tool for tool in NEEDED_TO_BUILD if not shutil.which(tool)]
        if missing or not SOURCE_OF_LINUX.exists():
            raise Unavailable(f"not installed: {', '.join(missing) or 'linux-source-6.1'}")
        cache.mkdir(parents=True, exist_ok=True)
        build_arm64(settings, image)
    return image
