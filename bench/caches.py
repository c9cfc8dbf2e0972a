# SPDX-License-Identifier: MIT
"""What real programs do in caches: each runs once with each allocator under cachegrind, which counts instructions and simulates
two levels of caches. The figures hold on any machine, whatever else it does, and are no times."""
import glob
import os
import shutil

import real_programs
import results
from programs import Failure, last_line, run_group
from real_tables import surroundings, table

# Of a usual core: a first level of 32 KiB and a second of its own. What misses that is slow on any machine.
LEVELS = {"I1": "32768,8,64", "D1": "32768,8,64", "LL": "2097152,16,64"}
SLOWER = 200   # times, at most
COUNTS = ("instructions", "first", "last")


def counted(folder):
    """Sums over the program and all that it has started: data's misses of both levels, reading and writing."""
    sums = dict.fromkeys(COUNTS, 0)
    for name in glob.glob(os.path.join(folder, "cachegrind.*")):
        with open(name, encoding="utf-8") as file:
            found = [line for line in file if line.startswith("summary:")]
        if found:
            ir, _, _, _, d1_read, last_read, _, d1_write, last_write = map(int, found[0].split()[1:])
            sums = {"instructions": sums["instructions"] + ir, "first": sums["first"] + d1_read + d1_write,
                    "last": sums["last"] + last_read + last_write}
        os.remove(name)
    return sums


def simulate(program, library, folder):
    command, environment = program.command(folder)
    levels = [f"--{level}={shape}" for level, shape in LEVELS.items()]
    status, said = run_group(
        ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--trace-children=yes", *levels,
         f"--cachegrind-out-file={folder}/cachegrind.%p", *command], real_programs.STUCK_SECONDS * SLOWER,
        program.client and (lambda process: program.client(folder, process, SLOWER)), cwd=folder,
        env={"PATH": real_programs.PATH, "LC_ALL": "C.UTF-8", **environment, "LD_PRELOAD": library})
    sums = counted(folder)
    if status != 0 or not sums["instructions"]:
        raise Failure(last_line(said) or f"exit status {status}")
    return sums


def run(session):
    """The figures of all programs with all allocators; what fails is told, and left out."""
    if not shutil.which("valgrind", path=real_programs.PATH):
        raise Failure("--caches: valgrind is not installed")
    for program in session.programs:
        session.progress.stage(program.name)
        for allocator, library in session.libraries.items():
            session.progress.step("caches", program.name, allocator)
            try:
                yield {"program": program.name, "allocator": allocator, **simulate(program, library, session.folder)}
            except Failure as failure:
                session.fail(program, allocator, failure)


def shown(ours, others, key):
    """Ours, and whose it was that had the least beside it."""
    best = min(others, key=lambda allocator: others[allocator][key], default=None)
    text = f"{ours[key] / 1e6:,.1f}"
    return [text, f"{results.digits(ours[key] / others[best][key])} {best}" if best and others[best][key] else "-"]


def markdown(raw):
    head = ["in millions", "instructions", "/ least other", "first level's misses", "/ least other", "second level's misses",
            "/ least other"]
    rows, ratios = [], {key: [] for key in COUNTS}
    for name in dict.fromkeys(run["program"] for run in raw["runs"]):
        of = {run["allocator"]: run for run in raw["runs"] if run["program"] == name}
        ours = of.pop(results.HERO, None)
        if ours:
            rows.append([name, *(cell for key in COUNTS for cell in shown(ours, of, key))])
            for key in COUNTS:
                ratios[key] += [ours[key] / min(other[key] for other in of.values())] if of else []
    if any(ratios.values()):
        rows.append(["mean", *(cell for key in COUNTS for cell in ("", results.digits(results.geometric_mean(ratios[key]))))])
    levels = "; ".join(f"{level} {shape}" for level, shape in LEVELS.items())
    return "\n\n".join([table(head, rows), f"Simulated, one run each ({levels}: bytes, ways, bytes of a line). Below 1 is "
                        "fewer. Means are geometric.", *surroundings(raw)])
