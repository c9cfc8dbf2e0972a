#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Small heaps: how much of 16 KiB to 4 MiB serves mixed sizes, whether it goes on doing so, and in what time. Beside tidepool,
TLSF where its source is at hand. The programs take turns, so that each row is of one moment."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True   # the source tree stays as it is

KIB = 1 << 10
ROWS = [(8, 512, 16), (8, 512, 64), (8, 512, 256), (8, 512, 1024), (8, 4096, 64), (8, 4096, 256), (8, 4096, 1024),
        (64, 64, 16), (64, 64, 64), (64, 64, 1024)]
BUDGET_ROWS = [(8, 512, 64), (8, 512, 1024), (8, 4096, 1024), (8, 4096, 4096)]
HERE = os.path.dirname(os.path.abspath(__file__))


class Failure(Exception):
    """One line that says what went wrong."""


def compile_tlsf(folder, into):
    source = os.path.join(folder, "tlsf.c")
    if not os.path.isfile(source):
        raise Failure(f"--tlsf: {source} is not there")
    compiler, program = os.environ.get("CC") or shutil.which("cc") or "gcc", os.path.join(into, "small_tlsf")
    done = subprocess.run(
        [compiler, "-O2", "-w", "-D_GNU_SOURCE", "-I", folder, "-I", HERE, '-DSMALL_HEAP_HEADER="allocators/small_tlsf.h"',
         os.path.join(HERE, "small_heaps.c"), source, "-o", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"--tlsf: {source} does not compile: {done.stderr.strip().splitlines()[0]}")
    return program


def run(program, row, replacements, how):
    least, most, kib = row
    done = subprocess.run([program, str(least), str(most), str(kib * KIB), str(replacements), *how], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise Failure(f"{os.path.basename(program)} {least} {most} {kib} KiB: exit status {done.returncode}")
    filled, blocks, refused, pair, longest = done.stdout.split()
    return {"filled": int(filled), "blocks": int(blocks), "refused": int(refused), "ns": float(pair), "longest": int(longest)}


def measure(programs, row, arguments, how):
    """The first figures of each program, with the median of its times and the least of its longest calls."""
    runs = {name: [] for name in programs}
    for _ in range(arguments.repetitions):
        for name, program in programs.items():
            runs[name].append(run(program, row, arguments.replacements, how))
    found = {name: {**all_of[0], "longest": min(one["longest"] for one in all_of), "all": [one["ns"] for one in all_of]}
             for name, all_of in runs.items()}
    for figures in found.values():
        figures["ns"] = statistics.median(figures["all"])
    return found


def cells(figures):
    return [f"{figures['filled'] / 10:.1f} %", f"{figures['blocks']:,}", f"{figures['refused']:,}", f"{figures['ns']:.0f} ns",
            f"{figures['longest']:,} ns"]


def table(programs, rows, arguments, how, place):
    names = list(programs)
    heads = [f"{name}: {what}" for name in names for what in ("filled", "blocks", "refused", "a pair", "longest call")]
    ratio = ["time, ratio"] if len(names) > 1 else []
    lines = [["sizes", place, *heads, *ratio], ["---"] * (2 + len(heads) + len(ratio))]
    for row in rows:
        found = measure(programs, row, arguments, how)
        line = [f"{row[0]} to {row[1]}" if row[0] != row[1] else f"{row[0]}", f"{row[2]} KiB"]
        for name in names:
            line += cells(found[name])
        if ratio:
            pairs = [a / b for a, b in zip(found[names[0]]["all"], found[names[1]]["all"])]
            line.append(f"{statistics.median(pairs):.2f}")
        lines.append(line)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="small_heaps, built for tidepool")
    parser.add_argument("--tlsf", metavar="DIR", help="where tlsf.c and tlsf.h are")
    parser.add_argument("--replacements", type=int, default=1000000)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--smoke", action="store_true", help="one short run of each row")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.replacements, arguments.repetitions = 2000, 1
    if arguments.replacements < 1 or arguments.repetitions < 1:
        parser.error("--replacements and --repetitions: at least 1")
    with tempfile.TemporaryDirectory() as folder:
        try:
            programs = {"tidepool": arguments.program}
            if arguments.tlsf:
                programs["TLSF"] = compile_tlsf(arguments.tlsf, folder)
            print(f"Refused: of {arguments.replacements:,} replacements at 80 % of what was filled. Times: medians of "
                  f"{arguments.repetitions}, with the loop around both calls.\n", flush=True)
            print(table(programs, ROWS, arguments, [], "buffer"), flush=True)
            print("\n" + table({"tidepool": arguments.program}, BUDGET_ROWS, arguments, ["budget"], "budget"))
        except Failure as failure:
            sys.exit(f"bench: {failure}")


main()
