# SPDX-License-Identifier: MIT
"""Debian's packages for another machine: apt-get fetches them with lists of its own, in a folder."""

import os
import pathlib
import shutil
import subprocess
import tempfile

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIST = f"deb [arch={{architecture}} signed-by={KEYS}] http://deb.debian.org/debian bookworm main\n"


class Archive:
    """The packages of one architecture. `reachable` is false where the lists cannot be fetched."""

    def __init__(self, architecture, folder):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="apt-", dir=folder))
        for part in ("lists/partial", "cache/archives/partial"):
            (self.folder / part).mkdir(parents=True)
        (self.folder / "list").write_text(LIST.format(architecture=architecture))
        options = {"Dir::Etc::sourcelist": self.folder / "list", "Dir::Etc::sourceparts": "-",
                   "Dir::State::lists": self.folder / "lists", "Dir::Cache": self.folder / "cache",
                   "Dir::State::status": "/dev/null", "APT::Architecture": architecture, "APT::Architectures::": architecture}
        if os.geteuid() == 0:
            options["APT::Sandbox::User"] = "root"
        self.options = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        self.reachable = self.run("apt-get", "-qq", "update") is not None

    def run(self, command, *arguments):
        """What it says; None if it fails."""
        if not shutil.which(command):
            return None
        done = subprocess.run([command, *self.options, *arguments], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        return done.stdout if done.returncode == 0 else None

    def names(self, pattern):
        found = self.run("apt-cache", "search", "--names-only", pattern) or ""
        return [line.split()[0] for line in found.splitlines()]

    def unpack(self, root, *packages):
        """Whether all of them are in the folder `root` now."""
        if not self.reachable or self.run("apt-get", "-qq", "download", *packages) is None:
            return False
        for package in sorted(self.folder.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
            package.unlink()
        return True
