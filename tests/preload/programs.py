# SPDX-License-Identifier: MIT
"""All cases, subject by subject.

usage: programs.py LENGTH      names the cases of that length: quick, slow or long"""

import sys

sys.dont_write_bytecode = True   # the source tree stays as it is

import commands, compilers, luas, perls, pythons, servers, stressors   # each registers its cases
from sandbox import CASES

if __name__ == "__main__":
    print("\n".join(name for name, case in CASES.items() if case.length == sys.argv[1]))
