#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How the library would do on more cores than the machine has.

usage: many_cores.py CORES CORES_RECORDED [--seconds S] [--repetitions N] [--raw FILE]
       many_cores.py --again FILE [--locks CORES]

Both programs are built beside the benchmarks. The first runs cases with the library as it is; the second counts each lock that
a thread takes, and how long it holds it. From the counts of as many threads as there are cores, a simulation of the cores and
of their locks predicts the throughput. It prints Markdown: what one and two threads took, the prediction for two beside it,
and the prediction for up to 128 cores. With --locks it says instead which locks so many cores would wait for.

What it knows: each core works for a time of its own, then takes a lock as often as a thread did; which lock, for how long, and
what is taken within it, is as it was counted. A lock whose lines another core had last takes and holds longer, by what that
took two threads. Waiting is as in os/lock.h: a waiter spins, then sleeps, and whoever opens the lock wakes one.

What it leaves out: memory bandwidth, several sockets, threads that share a core's units, the system's own locks (pages, new
threads), and lines that cores take from each other outside of locks, but for what two threads lose to that."""
import argparse
import collections
import heapq
import json
import random
import statistics
import subprocess
import sys

CASES = ("slots/small", "slots/program", "churn/workers", "handover/small", "object_pools/threads", "object_pools/shared_slots")
CORES = (1, 2, 4, 8, 16, 32, 64, 128)
SPIN_NS = 2000   # that a waiter spins before it sleeps: SPINS of os/lock.c
VISITS = 60000   # of all cores together, in one simulation
VISITS_LEAST = 200   # of each core
OPERATIONS_AT_ONCE = 10   # of a core that visits nothing
NESTED_MOST = 3      # visits within visits


class Visit:
    """A lock that is taken, what is done under it, and what is taken meanwhile."""

    def __init__(self, rate, locks, took, held, inner=(), site=""):
        self.site = site
        self.attempt = " attempt " in site   # who finds the lock held goes on without it
        self.rate = rate        # times in an operation, or in a visit of what it is within
        self.locks = locks      # {lock: how often}
        self.took = took        # ns to take it if it is free; [1]: another core had it last
        self.held = held        # ns, without inner visits
        self.inner = list(inner)
        self.names, weights = list(locks), list(locks.values())
        self.sums = [sum(weights[:i + 1]) for i in range(len(weights))]

    def lock(self, dice):
        return dice.choices(self.names, cum_weights=self.sums)[0]

    def cost(self, other=False):
        """ns in an operation where no core waits; `other`: another core had each lock last."""
        return self.rate * (self.took[other] + self.held[other] + sum(visit.cost(other) for visit in self.inner))


class Lock:
    def __init__(self):
        self.holder = self.last = None
        self.since = self.held = self.waited = 0.0
        self.sites = collections.Counter()    # by which it is held, for how long
        self.waiting = []    # (since, core), asleep after SPIN_NS


class Simulation:
    """Cores with `work` each: (ns of its own in an operation, visits). All times are ns."""

    def __init__(self, works, machine, seed=1):
        self.machine, self.dice, self.locks = machine, random.Random(seed), collections.defaultdict(Lock)
        self.events, self.sequence, self.now = [], 0, 0.0
        self.operations = [0.0] * len(works)
        self.over = False
        each = max(VISITS_LEAST, VISITS // len(works))
        for core, (own, all_visits) in enumerate(works):
            self.at(0.0, core, self.life(core, own, all_visits, each))

    def at(self, time, core, steps):
        self.sequence += 1
        heapq.heappush(self.events, (time, self.sequence, core, steps))

    def life(self, core, own, visits, count):
        """The steps of a core: ("for", ns), ("take", lock), ("open", lock)."""
        rates = [visit.rate for visit in visits]
        total = sum(rates)
        if not total:
            while True:
                yield "for", own * count / OPERATIONS_AT_ONCE
                self.operations[core] += count / OPERATIONS_AT_ONCE
        for _ in range(count):
            between = self.dice.expovariate(total)
            yield "for", between * own
            yield from self.visit(core, self.dice.choices(visits, rates)[0])
            self.operations[core] += between
        self.over = True

    def visit(self, core, visit):
        name = visit.lock(self.dice)
        lock = self.locks[name]
        other = lock.last is not None and lock.last != core
        if lock.holder is not None and visit.attempt:
            return
        if lock.holder is None:
            self.hand(lock, core)
            yield "for", visit.took[other]
        else:
            began = self.now
            yield "wait", lock
            lock.waited += self.now - began
        lock.last = core
        yield "for", visit.held[other]
        for inner in visit.inner:
            for _ in range(int(inner.rate) + (self.dice.random() < inner.rate % 1)):
                yield from self.visit(core, inner)
        lock.sites[visit.site] += self.now - lock.since
        lock.held += self.now - lock.since
        yield "open", lock

    def hand(self, lock, core):
        lock.holder, lock.since = core, self.now

    def open(self, lock):
        """Returns what it costs the holder. One that spins has the lock next; else a sleeper is woken, and tries again."""
        spinning = [i for i, (since, _, _) in enumerate(lock.waiting) if self.now - since < SPIN_NS]
        lock.holder = None
        if spinning:
            _, core, steps = lock.waiting.pop(self.dice.choice(spinning))
            self.hand(lock, core)
            self.at(self.now + self.machine["line_ns"] * (1 + len(spinning)), core, steps)
            return self.machine["line_ns"]
        if lock.waiting:
            _, core, steps = lock.waiting.pop(0)
            self.at(self.now + self.machine["wake_latency_ns"], core, self.again(core, lock, steps))
            return self.machine["wake_ns"]
        return 0.0

    def again(self, core, lock, steps):
        if lock.holder is None:
            self.hand(lock, core)
        else:
            yield "sleep", (lock, steps)
        yield "become", steps

    def run(self):
        """Returns the operations of each core in a ns, until one of them has done all of its visits: from then on there
        would be a core less. If none visits anything, until each has done some."""
        while self.events and not self.over and (any(self.locks) or min(self.operations) < VISITS_LEAST):
            self.now, _, core, steps = heapq.heappop(self.events)
            while True:
                step = next(steps, None)
                if step is None:
                    break
                what, about = step
                if what == "become":
                    steps = about
                    continue
                if what == "wait":
                    about.waiting.append((self.now, core, steps))
                    break
                if what == "sleep":
                    lock, sleeper = about
                    lock.waiting.append((self.now - SPIN_NS, core, sleeper))
                    break
                self.at(self.now + (self.open(about) if what == "open" else about), core, steps)
                break
        return [done / self.now for done in self.operations]


# ---- from what was counted ----

def mean(pairs):
    """Of (count, mean, left out)."""
    counted = sum(count - cut for count, _, cut in pairs)
    return sum((count - cut) * ns for count, ns, cut in pairs) / counted if counted else None


def site_times(run):
    """{(site, within): (took, held)}, of all threads together, each for own lines and for another's."""
    rows = collections.defaultdict(list)
    for row in run["locks"]:
        rows[row["site"], row["within"]].append(row)
    return {key: tuple(tuple(mean([row[f"{what}_{whose}"] for row in these]) for whose in ("own", "other"))
                       for what in ("took", "held")) for key, these in rows.items()}


def with_other(here, two, line):
    """(own, other): what it takes if another core had the lines is what that made of it in two threads."""
    own = here[0] if here[0] is not None else here[1] or 0.0
    if two and None not in two:
        more = max(0.0, two[1] - two[0])
    elif None not in here:
        more = max(0.0, here[1] - here[0])
    else:
        more = line if here[0] is not None else 0.0
    return own, own + more


def visits_of(run, thread, times, times_of_two, line, within=None, outer=1.0, depth=0):
    """The visits of one thread; `outer` is how often it does that of which they are a part."""
    rows, count_of = collections.defaultdict(list), collections.Counter()
    for row in run["locks"]:
        if row["thread"] == thread:
            count_of[row["site"]] += row_count(row)
            if row["within"] == within:
                rows[row["site"]].append(row)
    visits = []
    for site, these in rows.items():
        locks = collections.Counter()
        for row in these:
            locks[row["lock"]] += row_count(row)
        count = sum(locks.values())
        if not count or depth > NESTED_MOST:
            continue
        key = site, within
        took, held = (with_other(here, two, line) for here, two in
                      zip(times[key], times_of_two.get(key, (None, None))))
        inner = visits_of(run, thread, times, times_of_two, line, site, count_of[site], depth + 1)
        visits.append(Visit(count / outer, locks, took, held, inner, site))
    return visits


def row_count(row):
    return row["took_own"][0] + row["took_other"][0] + row["waited"][0]


def sides(run):
    """How many threads take part in one operation."""
    return 2 if run["case"].startswith("handover") else 1


def operations_of_a_thread(run):
    return run["operations"] * sides(run) / run["threads"]


def per_operation(run):
    """ns of processor time of a thread for an operation of its own: other programs may have the processors meanwhile."""
    return run["processor_seconds"] * 1e9 / (run["operations"] * sides(run))


def works_of(run, own, two, line):
    """What the threads of a run do, as cores of a simulation; `two` is the run of two threads."""
    times, times_of_two = site_times(run), site_times(two)
    return [(own, visits_of(run, thread, times, times_of_two, line, None, operations_of_a_thread(run)))
            for thread in range(run["threads"])]


def predict(run, own, two, machine, seed=1):
    """Operations in a ns of as many cores as the run has threads. Where two take part in each the slower side counts."""
    rates = Simulation(works_of(run, own, two, machine["line_ns"]), machine, seed=seed).run()
    return min(sum(rates[side::sides(run)]) for side in range(sides(run)))


def busiest(run, own, two, machine, seed=1, most=4):
    """The locks that cores wait for longest: [(part of the time that it is held, cores that wait for it, by which sites)]."""
    simulation = Simulation(works_of(run, own, two, machine["line_ns"]), machine, seed=seed)
    simulation.run()
    locks = sorted(simulation.locks.values(), key=lambda lock: -lock.waited)[:most]
    return [(lock.held / simulation.now, lock.waited / simulation.now, [site for site, _ in lock.sites.most_common(2)])
            for lock in locks]


def own_time(plain, counted, two, machine):
    """What an operation takes outside of locks, in ns: that of the plain run without what its visits take by the count."""
    work = works_of(counted, 0.0, two, machine["line_ns"])
    other = plain["threads"] > 1
    cost = statistics.mean(sum(visit.cost(other) for visit in visits) for _, visits in work)
    return max(0.1, per_operation(plain) - cost)


# ---- runs ----

def ask(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"many_cores: {program}: {done.stderr.strip() or 'status ' + str(done.returncode)}")
    return json.loads(done.stdout)


def measure(cores, recorded, seconds, repetitions, cases):
    """Plain runs of one, two and 64 threads, one after the other, so often; and the counts for each number of cores."""
    raw = {"machine": ask(cores, "--machine"), "cases": {}}
    for case in cases:
        least = 2 if case.startswith("handover") else 1
        raw["cases"][case] = {"plain": {str(n): [] for n in (least, 2, 64)}, "counted": {}}
    for repetition in range(repetitions):
        for case, of in raw["cases"].items():
            for n in of["plain"] if repetition % 2 else reversed(of["plain"]):
                of["plain"][n].append(ask(cores, case, n, seconds))
    for case, of in raw["cases"].items():
        for n in CORES:
            if n >= min(map(int, of["plain"])):
                of["counted"][str(n)] = ask(recorded, case, n, seconds)
    return raw


def middle(runs):
    return sorted(runs, key=per_operation)[len(runs) // 2]


def ratios(runs, others, factor=1):
    """The middle, least and greatest of how much faster runs are than others of the same repetition."""
    all_of_them = sorted(factor * per_operation(b) / per_operation(a) for a, b in zip(runs, others))
    return all_of_them[len(all_of_them) // 2], all_of_them[0], all_of_them[-1]


def results(raw):
    """For each case: (measured at two, predicted at two, 64 threads to two, {cores: speed-up})."""
    table = {}
    for case, of in raw["cases"].items():
        counted, two, machine = of["counted"], of["counted"]["2"], raw["machine"]
        least = min(counted, key=int)
        own = own_time_of(of, machine)
        rates = {int(n): predict(run, own, two, machine) for n, run in counted.items()}
        one = rates[int(least)] / int(least)
        table[case] = {"own_ns": own, "least": int(least), "two": ratios(of["plain"]["2"], of["plain"][least], 2),
                       "sixty_four": ratios(of["plain"]["64"], of["plain"]["2"]),
                       "speed_up": {n: value / one for n, value in rates.items()}}
    return table


def own_time_of(of, machine):
    """From the runs of a case."""
    least = min(of["counted"], key=int)
    return own_time(middle(of["plain"][least]), of["counted"][least], of["counted"]["2"], machine)


def locks_of(raw, cores):
    lines = ["| case | held | cores that wait | by |", "|---|---|---|---|"]
    for case, of in raw["cases"].items():
        run = of["counted"][str(cores)]
        for held, wait, sites in busiest(run, own_time_of(of, raw["machine"]), of["counted"]["2"], raw["machine"]):
            lines.append(f"| {case} | {held:.2f} | {wait:.1f} | {', '.join(sites)} |")
    return "\n".join(lines)


def markdown(raw):
    machine, table = raw["machine"], results(raw)
    lines = [f"A line from core to core takes {machine['line_ns']:.0f} ns, a sleeper is woken for {machine['wake_ns']:.0f} and "
             f"runs after {machine['wake_latency_ns']:.0f}; two threads with nothing in common do {machine['two_at_once']:.2f} "
             "times the work of one.", "",
             "| case | two threads, measured | predicted | 64 threads to two, measured |", "|---|---|---|---|"]
    for case, of in table.items():
        measured = "the base" if of["least"] == 2 else "{:.2f} ({:.2f}-{:.2f})".format(*of["two"])
        many = "{:.2f} ({:.2f}-{:.2f})".format(*of["sixty_four"])
        lines.append(f"| {case} | {measured} | {of['speed_up'][2]:.2f} | {many} |")
    lines += ["", "| case | " + " | ".join(f"{n}" for n in CORES) + " |", "|---|" + "---|" * len(CORES)]
    for case, of in table.items():
        row = (f"{of['speed_up'][n]:.1f}" if n in of["speed_up"] else "" for n in CORES)
        lines.append(f"| {case} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("programs", nargs="*", metavar="CORES CORES_RECORDED")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--case", action="append", help="this one alone; may be given more than once")
    parser.add_argument("--raw", help="write what was measured and counted to this file")
    parser.add_argument("--again", help="predict from such a file")
    parser.add_argument("--locks", type=int, choices=CORES, metavar="CORES", help="which locks so many cores would wait for")
    chosen = parser.parse_args(arguments)
    if chosen.again:
        with open(chosen.again, encoding="utf-8") as file:
            raw = json.load(file)
    elif len(chosen.programs) == 2:
        raw = measure(*chosen.programs, chosen.seconds, chosen.repetitions, chosen.case or CASES)
        if chosen.raw:
            with open(chosen.raw, "w", encoding="utf-8") as file:
                json.dump(raw, file)
    else:
        parser.error("two programs are wanted, cores and cores-recorded, or --again")
    print(locks_of(raw, chosen.locks) if chosen.locks else markdown(raw))


if __name__ == "__main__":
    main()
