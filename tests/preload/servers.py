# SPDX-License-Identifier: MIT
"""Servers: redis forks to save what it has while it answers."""

import contextlib
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time

from sandbox import STUCK_SECONDS, Failure, case, some_of


def redis_command(sandbox, *arguments):
    return sandbox.run("redis-cli", "-s", "socket", *arguments).strip()


def wait_until(condition, what):
    end = time.monotonic() + STUCK_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"waited {STUCK_SECONDS} s for {what}")
        time.sleep(0.05)


def redis_work(sandbox):
    keys = some_of(100000)
    fill = f"for i = 1, {keys} do redis.call('SET', 'k' .. i, string.rep('x', i % 500)) end"
    redis_command(sandbox, "EVAL", fill, "0")
    # The benchmark's figures are timings; it only has to succeed, also while a child saves.
    redis_command(sandbox, "BGSAVE")
    sandbox.run("redis-benchmark", "-s", "socket", "-n", str(some_of(20000)), "-q", "-t",
                "set,get,lpush,rpop,sadd,hset,zadd,mset")
    wait_until(lambda: "rdb_bgsave_in_progress:0" in redis_command(sandbox, "INFO", "persistence"), "the snapshot")
    redis_command(sandbox, "EVAL", f"for i = 1, {keys}, 2 do redis.call('DEL', 'k' .. i) end", "0")
    redis_command(sandbox, "MEMORY", "PURGE")
    redis_command(sandbox, "BGREWRITEAOF")
    wait_until(lambda: "aof_rewrite_in_progress:0" in redis_command(sandbox, "INFO", "persistence"), "the rewrite")
    status = re.search(r"rdb_last_bgsave_status:\w+", redis_command(sandbox, "INFO", "persistence"))
    return f"{redis_command(sandbox, 'DBSIZE')} {status[0]} {redis_command(sandbox, 'GET', 'k27778')}"


@case("redis-check-rdb", "redis-cli", "redis-benchmark")
def redis(sandbox):
    # Debian's redis-tools ships the server under the name of this check; it looks at what it is called.
    server = sandbox.start("redis-server", "--port", "0", "--unixsocket", "socket", "--save", "", "--dir", ".",
                           executable=shutil.which("redis-check-rdb"), stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: (sandbox.folder / "socket").exists() or server.poll() is not None, "the server")
        result = redis_work(sandbox)
    except BaseException:
        server.kill()
        server.wait()
        raise
    server.send_signal(signal.SIGTERM)
    return f"{result} exit status {server.wait(timeout=STUCK_SECONDS)}"


@contextlib.contextmanager
def separation_folder():
    """Started by root, sshd confines the child that talks to a stranger to this folder, which the service otherwise makes."""
    folder = pathlib.Path("/run/sshd")
    makes = os.getuid() == 0 and not folder.exists()
    if makes:
        folder.mkdir(mode=0o755)
    try:
        yield
    finally:
        if makes:
            folder.rmdir()


def free_port():
    with socket.socket() as unbound:
        unbound.bind(("127.0.0.1", 0))
        return unbound.getsockname()[1]


# The child that talks to a stranger may make few system calls: sshd was the first to show which of ours are too many.
@case("/usr/sbin/sshd", "ssh", "ssh-keygen", length="long", name="sshd")
def sshd(sandbox):
    for key in ("host", "user"):
        sandbox.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    shutil.copy(sandbox.folder / "user.pub", sandbox.folder / "authorized")
    port = free_port()
    sandbox.write("config", f"""ListenAddress 127.0.0.1
Port {port}
HostKey {sandbox.folder}/host
AuthorizedKeysFile {sandbox.folder}/authorized
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
""")
    with separation_folder(), open(sandbox.folder / "log", "w") as log:
        server = sandbox.start("/usr/sbin/sshd", "-D", "-e", "-f", sandbox.folder / "config", stdout=log)
        try:
            wait_until(lambda: "listening" in (sandbox.folder / "log").read_text() or server.poll() is not None, "the server")
            login = ["ssh", "-F", "none", "-i", "user", "-p", str(port), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes",
                     "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=known", "-o", "LogLevel=ERROR",
                     f"{pwd.getpwuid(os.getuid()).pw_name}@127.0.0.1"]
            words = [sandbox.run(*login, f"echo login {number}") for number in range(3)]
            sent = sandbox.run(*login, "cat", text="a line\n" * 100000)
            return "".join(words) + str(len(sent))
        except Failure as failure:
            raise Failure(f"{failure}\n{(sandbox.folder / 'log').read_text()[-1500:]}") from None
        finally:
            server.terminate()
            server.wait(timeout=STUCK_SECONDS)
