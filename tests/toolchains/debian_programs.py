# SPDX-License-Identifier: MIT
"""Debian's programs for another machine, with the malloc library of a build preloaded."""

import pathlib
import subprocess

from debian_packages import Archive

PACKAGES = ("libc6", "libgcc-s1", "libstdc++6", "dash", "bash", "coreutils", "sed", "grep", "libselinux1", "libpcre2-8-0",
            "libacl1", "libattr1", "libgmp10", "libtinfo6", "python3.11-minimal", "libpython3.11-minimal",
            "libpython3.11-stdlib", "zlib1g", "libexpat1", "sqlite3", "libsqlite3-0", "libreadline8", "perl-base", "libcrypt1")
THREADS_AND_FORK = """
import json, os, threading
def work():
    for _ in range(30):
        json.loads(json.dumps({str(k): list(range(k % 50)) for k in range(300)}))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
child = os.fork()
if child == 0:
    os._exit(7 if json.dumps(list(range(1000))) else 0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
ROWS = """create table t(a, b);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000) insert into t select x, hex(x * x) from c;
create index i on t(b); select count(distinct b), sum(a) from t;"""
ROUNDS = "i=0; while [ $i -lt 30 ]; do i=$((i + 1)); x=$(echo $i | sed s/9/9/); done; (ls / | sort | grep -c ^usr); echo $x"
ARRAY = "declare -A a; for ((i = 0; i < 5000; i++)); do a[$i]=$i; done; echo ${#a[@]}"
HASH = 'my %h; $h{$_} = [1 .. 10] for 1 .. 20000; my $s = 0; $s += @{$h{$_}} for keys %h; print "$s\\n"'
# What each says.
PROGRAMS = {
    "dash": (["bin/dash", "-c", ROUNDS], "1\n30\n"),
    "bash": (["bin/bash", "-c", ARRAY], "5000\n"),
    "python3": (["usr/bin/python3.11", "-c", THREADS_AND_FORK], "7\n"),
    "sqlite3": (["usr/bin/sqlite3", ":memory:", ROWS], "20000|200010000\n"),
    "perl": (["usr/bin/perl", "-e", HASH], "200000\n"),
}
ENDS_BY_ITSELF = ("bash", "python3", "sqlite3", "perl")   # with what is to be done at the end of a process: figures


def fetched(architecture, folder):
    """The folder with the programs; None if they cannot be had."""
    root = folder / "root"
    root.mkdir()
    return root if Archive(architecture, folder).unpack(root, *PACKAGES) else None


def failures(root, library, way, environment):
    """One line for each program that does not say what it should, or has another malloc."""
    folders = [path for path in (*root.glob("lib/*-linux-*"), *root.glob("usr/lib/*-linux-*")) if path.is_dir()]
    variables = {"LD_PRELOAD": pathlib.Path(library).resolve(), "LD_LIBRARY_PATH": ":".join(map(str, folders)),
                 "PATH": f"{root}/usr/bin:{root}/bin", "TIDEPOOL_OPTIONS": "stats=exit"}
    settings = [f"{name}={value}" for name, value in variables.items()]
    for name, (arguments, wanted) in PROGRAMS.items():
        command = [*way, "env", *settings, root / arguments[0], *arguments[1:]]
        done = subprocess.run([str(word) for word in command], env=environment | {"QEMU_LD_PREFIX": str(root)},
                              capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=600, check=False)
        if done.returncode or done.stdout != wanted:
            yield f"{name} ended with {done.returncode} and said {done.stdout!r} and {done.stderr[-1000:]!r}"
        elif name in ENDS_BY_ITSELF and '"name":"default"' not in done.stderr:
            yield f"{name} has another malloc"
