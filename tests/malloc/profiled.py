# SPDX-License-Identifier: MIT
"""Has a profile taken of a program that allocates known numbers of blocks at known places, and compares what pprof makes of it:
each place within 5 %, which is more than four standard deviations. Also the file of the option, and the signal.

usage: profiled.py PROGRAM PROFILE_SIGNALS LIBRARY"""

import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True   # the source tree stays as it is

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import preloading

SKIPPED = 77
THOUSANDS, SAMPLE_BYTES = 1000, 4096   # ten million blocks
BLOCKS = {"of_16": 5, "of_48": 3, "of_200": 1, "of_700": 1}


def run(program, library, options, *arguments, **more):
    environment = {**os.environ, "LD_PRELOAD": library, "TIDEPOOL_OPTIONS": options}
    done = subprocess.run([program, *arguments], env=environment, stderr=subprocess.PIPE, text=True, timeout=600, check=True,
                          **more)
    return done.stderr


def of_pprof(program, profile, figure):
    """The figure of each function, in bytes or blocks."""
    text = subprocess.run(["google-pprof", "--text", f"--{figure}", program, profile], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, timeout=600, check=True).stdout
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 6 and words[5] in BLOCKS:
            found[words[5]] = float(words[0])
    return found


def is_right(program, profile):
    right = True
    for figure, unit, share in ("alloc_objects", 1, 1), ("alloc_space", 1 << 20, 1), ("inuse_space", 1 << 20, 2):
        found = of_pprof(program, profile, figure)
        for name, times in BLOCKS.items():
            blocks = times * THOUSANDS * 1000 / share
            truth = blocks if unit == 1 else blocks * int(name[3:]) / unit
            off = found.get(name, 0) / truth - 1
            print(f"{name:8} {figure:14} {truth:12.1f} {off:+.2%}")
            right &= abs(off) < 0.05
    return right


def main():
    program, signals, library = sys.argv[1], sys.argv[2], preloading.preloadable(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        said = run(program, library, f"profile={folder}/%p.heap,sample_bytes={SAMPLE_BYTES}", str(THOUSANDS))
        profiles = list(pathlib.Path(folder).glob("*.heap"))
        if said or len(profiles) != 1 or not re.fullmatch(r"\d+\.heap", profiles[0].name):
            sys.exit(f"no profile: {said} {profiles}")
        by_signal = pathlib.Path(folder, "signal")
        said = run(program, library, f"profile={by_signal},profile_signal={int(signal.SIGUSR2)},sample_bytes=1", "1",
                   str(int(signal.SIGUSR2)))
        head = by_signal.read_text().splitlines()[0]
        match = re.fullmatch(r"heap profile: (\d+): (\d+) \[(\d+): (\d+)\] @ heapprofile", head)
        if said or not match or not 10_000 <= int(match[3]) < 10_100 or not 5_000 <= int(match[1]) < 5_100:
            sys.exit(f"by a signal: {said} {head}")
        number = str(int(signal.SIGUSR2))
        options = f"profile={by_signal},profile_signal={number},sample_bytes=1"
        said = run(signals, library, options, str(by_signal), number, "1500")
        if said:
            sys.exit(f"by many signals: {said}")
        said = run(program, library, f"profile={folder}/none/file", "1")
        if said != f"tidepool: {folder}/none/file: cannot be written; the profile of profile=FILE is lost\n":
            sys.exit(f"a folder that is not there: {said}")
        limited = f"{folder}/long"
        if not os.environ.get("EMULATED"):   # an emulator ends by the signal that the program has blocked
            said = run(program, library, f"profile={limited}", "1",
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)))
            if said != f"tidepool: {limited}: cannot be written; the profile of profile=FILE is lost\n":
                sys.exit(f"a limit on files: {said}")
        if pathlib.Path(program).read_bytes()[4] == 1:   # the class of the ELF file
            print("skipped: a 32-bit machine has pages for 16,384 live samples, and the program would have eight times as many")
            return SKIPPED
        if not shutil.which("google-pprof"):
            print("skipped: google-pprof (google-perftools) is not installed")
            return SKIPPED
        return not is_right(program, str(profiles[0]))


sys.exit(main())
