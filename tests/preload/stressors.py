# SPDX-License-Identifier: MIT
"""stress-ng."""

from sandbox import case

# Stressors look at what they wrote (--verify); what they need that is not there, or too small, ends a run without the library
# too. Operations are counted, so a slow machine does the same. Not brk: it faults for ever where malloc has not moved the break
# before. Not forkheavy: it asks for files of terabytes in /tmp, whatever its options are, so for a moment the disk is full for
# all that runs beside it, this test run too.
STRESSORS = {
    "malloc": (("--malloc-bytes", "128m"), 15000, 60000),
    "malloc-threads": (("--malloc-bytes", "16m", "--malloc-pthreads", "3", "--malloc-touch"), 500, 40000),
    "malloc-zero": (("--malloc-bytes", "32m", "--malloc-max", "4096", "--malloc-zerofree"), 20000, 100000),
    "fork": (("--fork-max", "4"), 1000, 15000),
    "vfork": ((), 1000, 15000),
    "clone": (("--clone-max", "16"), 100, 1000),
    "pthread": (("--pthread-max", "64"), 4000, 60000),
    "memfd": (("--memfd-bytes", "16m", "--memfd-fds", "16"), 20, 200),
    "mremap": (("--mremap-bytes", "4m"), 20, 200),
    "mlock": ((), 2000, 30000),
    "tsearch": (("--tsearch-size", "16384"), 20, 300),
    "hsearch": (("--hsearch-size", "8192"), 20, 300),
    "skiplist": (("--skiplist-size", "8192"), 20, 300),
    "dynlib": ((), 200, 3000),
    "zlib": ((), 20, 300),
}


def register_stressor(name, options, operations, length):
    stressor = name.split("-")[0]

    @case("stress-ng", length=length, name=f"stress-ng-{name}" + (", long" if length == "long" else ""),
          is_fine=lambda result: result == "survived")
    def stress(sandbox):
        sandbox.run("stress-ng", f"--{stressor}", "2", *options, f"--{stressor}-ops", str(operations), "--verify", "--oomable",
                    "--temp-path", sandbox.folder)
        return "survived"


for name, (options, few, many) in STRESSORS.items():
    register_stressor(name, options, few, "quick" if name == "malloc" else "slow")
    register_stressor(name, options, many, "long")
