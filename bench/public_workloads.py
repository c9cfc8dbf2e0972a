# SPDX-License-Identifier: MIT
"""Workloads of mimalloc-bench, which others compare allocators with. They are built beside this project, by its own script.

The arguments are those of its own script for two processors. Only larson and xmalloc-test run for one and two seconds instead
of five. sh6bench and sh8bench are missing, because their sources have to be fetched elsewhere.
"""
import os
import re

from programs import Failure, last_line
from real_programs import RealProgram


def clock(figures, _output):
    return figures["clock"]


def said(pattern, work=None):
    """The time that a workload prints. If it prints operations a second instead, the time that `work` of them take."""
    def time(_figures, output):
        found = re.search(pattern, output)
        if not found or not found[1].replace(".", "", 1).isdecimal() or not float(found[1]):
            raise Failure(f"no figure in what it prints: {last_line(output)}")
        return work / float(found[1]) if work else float(found[1])
    return time


def workload(directory, name, what, *arguments, time=clock, program=None, reads=False):
    """A program of out/bench. If it `reads`, its only argument is a file that it gets as its input."""
    binary = os.path.join(directory, "out/bench", program or name)
    command = ["sh", "-c", 'exec "$0" <"$1"', binary, *arguments] if reads else [binary, *arguments]
    return RealProgram(name, binary, "", what, lambda folder: (command, {}), time=time)


def in_directory(directory):
    """The workloads of a checkout of mimalloc-bench."""
    directory = os.path.abspath(directory)
    stress = os.path.join(directory, "bench/rbstress/stress_mem.rb")
    return [
        workload(directory, "cfrac", "factors a number", "17545186520507317056371138836327483792789528"),
        workload(directory, "espresso", "minimizes logic", os.path.join(directory, "bench/espresso/largest.espresso")),
        workload(directory, "barnes", "moves bodies", os.path.join(directory, "bench/barnes/input"), reads=True),
        workload(directory, "larson", "a server's threads, with malloc", "1", "8", "1000", "5000", "100", "4141", "2",
                 time=said(r"time: ([0-9.]+)")),
        workload(directory, "larson-sized", "a server's threads, with sized delete", "1", "8", "1000", "5000", "100", "4141",
                 "2", time=said(r"time: ([0-9.]+)")),
        workload(directory, "mstress", "threads that hand blocks over and end", "2", "50", "25"),
        workload(directory, "rptest", "threads that free each other's blocks", "2", "0", "1", "2", "500", "1000", "100",
                 "8", "16000", time=said(r"([0-9]+) memory ops", 2e6)),
        workload(directory, "xmalloc-test", "threads that only allocate, and others that only free", "-w", "2", "-t", "2",
                 "-s", "64", time=said(r"rtime: ([0-9.]+)")),
        workload(directory, "alloc-test1", "random sizes and lives", "1", program="alloc-test"),
        workload(directory, "alloc-testN", "the same in two threads", "2", program="alloc-test"),
        workload(directory, "glibc-simple", "few sizes, one thread"),
        workload(directory, "glibc-thread", "random slots in two threads", "2", time=said(r"([0-9]+) iterations", 1e9)),
        workload(directory, "cache-scratch", "threads that write to blocks of each other", "2", "1000", "1", "2000000", "2"),
        workload(directory, "cache-thrash", "threads whose blocks may share a cache line", "2", "1000", "1", "2000000", "2"),
        workload(directory, "malloc-large", "blocks of 5 to 25 MiB"),
        workload(directory, "mleak", "threads that end", "5"),
        RealProgram("rbstress", "ruby", "ruby", "ruby's strings in two threads", lambda folder: (["ruby", stress, "2"], {}),
                    time=clock),
    ]
