# SPDX-License-Identifier: MIT
"""Runs real programs with the library preloaded, and without it where the result does not say itself that all went well; both
must print the same and end the same way. What is not installed, or does not work here without the library either, is
skipped."""

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
    case = CASES[name]
    missing = [program for program in case.programs if not shutil.which(program)]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    library = preloadable(pytestconfig.getoption("--library"))
    check_preloading(library, case.programs)
    result = failure = expected = None
    try:
        result = result_of(case.function, library)
        if case.is_fine(result):
            return
    except Failure as with_library:
        failure = with_library
    try:
        expected = result_of(case.function, None)
    except Failure as without:
        pytest.skip(f"does not work here without the library either: {without}")
    if failure:
        raise failure
    lines = itertools.zip_longest(result.split("\n"), expected.split("\n"))
    for number, (line, without) in enumerate(lines, 1):   # one by one: where CI is set, pytest explains all for minutes
        assert line == without, f"line {number} with the library, and without it"
