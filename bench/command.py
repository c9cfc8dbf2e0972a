# SPDX-License-Identifier: MIT
"""What both commands of the benchmarks share: options, where results go, and how one ends."""
import argparse
import os
import re
import signal
import sys
from datetime import datetime

import results
from programs import Failure

DAY_MINUTES = 24 * 60
OWN_NAMES = (results.HERO, results.BASELINE, "jemalloc", "mimalloc", "tcmalloc")


def minutes(text):
    """What --minutes may be."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= DAY_MINUTES:
        raise argparse.ArgumentTypeError(f"{text}: more than 0 and at most a day")
    return value


def named_library(text):
    """What --lib may be: NAME=PATH of a file, and a name that no allocator has here."""
    name, _, path = text.partition("=")
    if not re.fullmatch(r"[\w.+-]+", name) or not os.path.isfile(path):
        raise argparse.ArgumentTypeError(f"{text}: not NAME=PATH of a library")
    if name in OWN_NAMES:
        raise argparse.ArgumentTypeError(f"{text}: {name} is one of those that are always here")
    return name, os.path.abspath(path)


def parser(description, default_minutes):
    """Has the options that both have. What is wrong with one is told in a line, like any other failure."""
    found = argparse.ArgumentParser(description=description, exit_on_error=False)
    found.add_argument("--minutes", type=minutes, default=default_minutes, metavar="N",
                       help=f"how long to run, about (default: {default_minutes})")
    found.add_argument("--lib", action="append", default=[], type=named_library, metavar="NAME=PATH",
                       help="one more library that has malloc and the like")
    found.add_argument("--out", default="bench-results", metavar="DIR", help="where results go (default: bench-results)")
    found.add_argument("--command", help="the command to show with the figures")
    return found


def given_libraries(options):
    """The libraries of --lib by their names."""
    names = [name for name, _ in options.lib]
    for name in names:
        if names.count(name) > 1:
            raise Failure(f"--lib: {name} is given twice")
    return dict(options.lib)


def timestamp():
    return datetime.now().astimezone().isoformat(timespec="seconds")


def make_place(parent):
    """Results that cannot be written are refused before they are measured."""
    os.makedirs(parent, exist_ok=True)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise Failure(f"--out: {parent} cannot be written to")


def make_directory(parent):
    """A new directory named by the time, and `latest` beside it pointing there."""
    name = datetime.now().strftime("%Y%m%d-%H%M%S")
    directory, latest = os.path.join(parent, name), os.path.join(parent, "latest")
    os.makedirs(directory, exist_ok=True)
    if os.path.islink(latest):
        os.remove(latest)
    if not os.path.lexists(latest):
        os.symlink(name, latest)
    return directory


def run_command(main):
    """A failure is a line, and status 1. A signal that ends the command lets it clear up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    try:
        main()
    except (Failure, results.Unusable, OSError, argparse.ArgumentError) as error:
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit("bench: interrupted")
