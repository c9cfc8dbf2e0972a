# SPDX-License-Identifier: MIT
"""Runs real programs with and without the library preloaded; both must print the same and end the same way. What is not
installed, or does not work here without the library either, is skipped."""

import itertools
import shutil
import tempfile

import pytest

from preloading import check_preloading, preloadable
from programs import CASES
from sandbox import Failure, Sandbox


def result_of(function, library):
    with tempfile.TemporaryDirectory() as folder:
        return function(Sandbox(folder, library))


@pytest.mark.parametrize("name", CASES)
def test_same(pytestconfig, name):
    programs, _, function = CASES[name]
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    library = preloadable(pytestconfig.getoption("--library"))
    check_preloading(library, programs)
    try:
        expected = result_of(function, None)
    except Failure as failure:
        pytest.skip(f"does not work here without the library either: {failure}")
    lines = itertools.zip_longest(result_of(function, library).split("\n"), expected.split("\n"))
    for number, (line, without) in enumerate(lines, 1):   # one by one: where CI is set, pytest explains all for minutes
        assert line == without, f"line {number} with the library, and without it"
