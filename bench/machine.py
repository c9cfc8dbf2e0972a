# SPDX-License-Identifier: MIT
"""On what was measured: the machine, the compilers, the versions of the allocators."""
import os
import platform
import re
import subprocess

import results

PACKAGES = {"malloc": "libc6", "jemalloc": "libjemalloc2", "mimalloc": "libmimalloc2.0", "tcmalloc": "libtcmalloc-minimal4"}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(path, pattern=r"(.*)"):
    """The first match in a file, or nothing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            match = re.search(pattern, file.read(), re.MULTILINE)
            return match.group(1).strip() if match else ""
    except OSError:
        return ""


def output(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def describe_compilers(programs):
    """Those that built the programs, as each says itself: not what `cc` is here and now."""
    compilers = {}
    for program in programs:
        compilers.setdefault(program.compiler, []).append(program.allocator)
    if len(compilers) == 1:
        return next(iter(compilers))
    return "; ".join(f"{compiler} ({', '.join(allocators)})" for compiler, allocators in compilers.items())


def describe_machine(programs):
    system = read("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)')
    memory = int(read("/proc/meminfo", r"^MemTotal:\s+(\d+)") or 0) / 1024 / 1024
    return {
        "processor": read("/proc/cpuinfo", r"^model name\s*:\s*(.*)$") or platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "memory": f"{memory:.1f} GiB",
        "system": f"{system}, Linux {platform.release()}",
        "compiler": describe_compilers(programs),
        "huge pages": read("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]") or "unknown",
        "load when started": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def describe_version(allocator, library=None):
    """Of a library of --lib, the file's own name is all that is known."""
    if library:
        return os.path.basename(os.path.realpath(library))
    if allocator == results.HERO:
        version = read(os.path.join(ROOT, "meson.build"), r"version:\s*'([^']*)'")
        commit = output("git", "-C", ROOT, "describe", "--always", "--dirty")
        return f"{version} ({commit})" if commit else version
    return output("dpkg-query", "-W", "-f=${Package} ${Version}", PACKAGES.get(allocator, allocator))
