# SPDX-License-Identifier: MIT
"""The runs of a session: a calibration, as many repetitions as the time allows, and the soak of object pools."""
import statistics
import subprocess

import progress
import results
import turns
from programs import STUCK_SECONDS, Failure, last_line

CALIBRATION_SECONDS = 0.02
SLOW_AT_FIRST, MORE_OFTEN = 8, 16   # times the fastest; and times as many iterations, for another look at it
LONG_LOOK_SECONDS = 0.1
LEAST_RUN_SECONDS = 0.02
PROCESS_SECONDS = 0.02     # what starting and ending a process costs, about
USUAL_REPETITIONS = 9      # the least with which the interval of a ratio leaves out an outlier on each side
MOST_REPETITIONS = 25
TIME_OVER, TIME_OUT = 1.1, 2   # times what was asked for: when a repetition is cut, and when all is given up that is not enough
FAILURES_ALLOWED = 2       # of one case with one allocator, before it is left out


class Session:
    def __init__(self, programs, cases, seconds):
        self.cases, self.seconds = cases, seconds
        having = {case["name"]: [p for p in programs if any(c["name"] == case["name"] for c in p.cases)] for case in cases}
        self.pairs = list(having.items())
        self.progress = progress.Progress(seconds)
        self.iterations, self.failed, self.runs, self.failures = {}, {}, [], []
        self.repetitions, self.dropped = 0, ""

    def attempt(self, stage, case, program, *arguments):
        """The result of one process, or None; a case that fails again and again is left out."""
        key = case, program.allocator
        if self.failed.get(key, 0) >= FAILURES_ALLOWED:
            return None
        self.progress.step(stage, case, program.allocator)
        try:
            return program.run(case, *arguments)
        except Failure as failure:
            self.failed[key] = self.failed.get(key, 0) + 1
            self.failures.append({"case": case, "allocator": program.allocator, "what": str(failure)})
            self.progress.say(f"{case}: {failure}")
            return None

    def offered(self):
        """The cases that each allocator has, of those chosen."""
        every = dict.fromkeys(program for _, programs in self.pairs for program in programs)
        return {p.allocator: [case for case, programs in self.pairs if p in programs] for p in every}

    def runs_each(self):
        return sum(len(programs) for _, programs in self.pairs)

    def run_seconds(self):
        return min(1.0, max(LEAST_RUN_SECONDS, self.seconds / USUAL_REPETITIONS / self.runs_each() - PROCESS_SECONDS))

    def least_seconds(self):
        """What the calibration and as many repetitions as an interval needs take, if all runs are as short as can be."""
        calibration = 2 * CALIBRATION_SECONDS + PROCESS_SECONDS   # google-benchmark finds out how many iterations these are
        return self.runs_each() * (calibration + results.LEAST_REPETITIONS * (LEAST_RUN_SECONDS + PROCESS_SECONDS))

    def calibrate(self):
        """So many iterations that the allocator in the middle takes the time of a run, and none more than twice that."""
        self.progress.stage("calibration")
        for case, programs in self.pairs:
            found = {}
            for program in programs:
                self.end_if_hopeless()
                found[program] = self.attempt("calibration", case, program, f"--benchmark_min_time={CALIBRATION_SECONDS}")
            times = self.times_without_first_calls(case, {program: result for program, result in found.items() if result})
            if times:
                self.iterations[case] = max(1, round(self.run_seconds() * 1e9 / max(statistics.median(times), max(times) / 2)))

    def times_without_first_calls(self, case, found):
        """google-benchmark ends when its time is over. All of that may have gone to what an allocator does once, at its first
        call, and would pass for the time of a few iterations. So one that is much slower than the fastest runs again, longer,
        until it is not, or has taken a time that no first call takes."""
        fastest = min(map(time_of, found.values()), default=0)
        most = max(map(iterations_of, found.values()), default=0)
        return [self.time_without_first_call(case, program, result, SLOW_AT_FIRST * fastest, most)
                for program, result in found.items()]

    def time_without_first_call(self, case, program, result, suspect, most):
        while (time_of(result) > suspect and iterations_of(result) < most
               and time_of(result) * iterations_of(result) < LONG_LOOK_SECONDS * 1e9):
            iterations = min(most, MORE_OFTEN * max(1, iterations_of(result)))
            again = self.attempt("calibration", case, program, f"--iterations={iterations}")
            if not again or iterations_of(again) <= iterations_of(result):
                break
            result = again
        return time_of(result)

    def repeat(self):
        """One repetition of all cases. What it measured counts if it came to its end: time that is up is up for the last cases
        alone."""
        repetition, runs = self.repetitions, []
        stage = f"repetition {repetition + 1}"
        self.progress.stage(stage)
        for case, programs in self.pairs:
            if case not in self.iterations:
                continue
            for program in turns.shuffled(programs, repetition, case):
                self.end_if_hopeless()
                if self.is_enough() and self.progress.elapsed() > TIME_OVER * self.seconds:
                    self.dropped = f"repetition {repetition + 1}, which time cut"
                    return
                result = self.attempt(stage, case, program, f"--iterations={self.iterations[case]}")
                if result:
                    runs.append(entry(case, program.allocator, repetition, result))
        self.runs += runs
        self.repetitions += 1

    def soak(self, path, seconds):
        """The series of the soak program, a list of numbers for each name; None if it failed, which is told."""
        self.progress.stage("soak")
        self.progress.step("soak", "object pools", results.HERO)
        try:
            return run_soak(path, seconds)
        except Failure as failure:
            self.failures.append({"case": "soak", "allocator": results.HERO, "what": str(failure)})
            self.progress.say(str(failure))
            return None
        finally:
            self.progress.finish()

    def is_enough(self):
        return self.repetitions >= results.LEAST_REPETITIONS

    def end_if_hopeless(self):
        """On a machine slower than least_seconds() thinks, or that does something else."""
        if not self.is_enough() and self.progress.elapsed() > TIME_OUT * self.seconds:
            raise Failure(f"too short a time: {self.repetitions} of at least {results.LEAST_REPETITIONS} repetitions in "
                          f"{self.progress.elapsed() / 60:.1f} minutes; give more --minutes")

    def run(self):
        """As many repetitions as the time allows, and at least what intervals need; those that are complete count when a user
        interrupts."""
        try:
            self.calibrate()
            took = 0
            while self.repetitions < MOST_REPETITIONS and not (
                    self.dropped or self.is_enough() and self.progress.elapsed() + took > TIME_OVER * self.seconds):
                before = self.progress.elapsed()
                self.repeat()
                took = self.progress.elapsed() - before
        except KeyboardInterrupt:
            if not self.is_enough():
                raise Failure(f"interrupted after {self.repetitions} of at least {results.LEAST_REPETITIONS} repetitions: "
                              "nothing to report") from None
            self.dropped = f"repetition {self.repetitions + 1}, which was interrupted"
            self.progress.say("interrupted: reporting what is complete")
        finally:
            self.progress.finish()


def run_soak(path, seconds):
    try:
        done = subprocess.run([path, f"{seconds:.1f}"], capture_output=True, text=True, timeout=seconds + STUCK_SECONDS,
                              check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"soak: {error}") from None
    if done.returncode != 0:
        raise Failure(last_line(done.stderr) or f"soak: exit status {done.returncode}")
    names, *rows = [line.split(",") for line in done.stdout.splitlines()]
    return {name: [float(row[i]) for row in rows] for i, name in enumerate(names)}


def thread_share(result):
    """google-benchmark gives the time for one iteration of all threads together; a thread takes this many times longer."""
    return result.get("threads", 1)


def time_of(result):
    return result["real_time"] * thread_share(result)


def iterations_of(result):
    """How many each thread made, which is what --iterations asks for; google-benchmark adds those of all threads."""
    return result.get("iterations", 0) // thread_share(result)


def entry(case, allocator, repetition, result):
    return {"case": case, "allocator": allocator, "repetition": repetition, "ns": 1e9 / result["items_per_second"],
            "peak": result["peak_growth"], "end": result["end_growth"], "live": result["live"], "google": result}
