# SPDX-License-Identifier: MIT
"""Servers: redis forks to save what it has while it answers."""

import re
import shutil
import signal
import subprocess
import time

from sandbox import STUCK_SECONDS, Failure, case


def redis_command(sandbox, *arguments):
    return sandbox.run("redis-cli", "-s", "socket", *arguments).strip()


def wait_until(condition, what):
    end = time.monotonic() + STUCK_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"waited {STUCK_SECONDS} s for {what}")
        time.sleep(0.05)


def redis_work(sandbox):
    fill = "for i = 1, 100000 do redis.call('SET', 'k' .. i, string.rep('x', i % 500)) end"
    redis_command(sandbox, "EVAL", fill, "0")
    # The benchmark's figures are timings; it only has to succeed, also while a child saves.
    redis_command(sandbox, "BGSAVE")
    sandbox.run("redis-benchmark", "-s", "socket", "-n", "20000", "-q", "-t", "set,get,lpush,rpop,sadd,hset,zadd,mset")
    wait_until(lambda: "rdb_bgsave_in_progress:0" in redis_command(sandbox, "INFO", "persistence"), "the snapshot")
    redis_command(sandbox, "EVAL", "for i = 1, 100000, 2 do redis.call('DEL', 'k' .. i) end", "0")
    redis_command(sandbox, "MEMORY", "PURGE")
    redis_command(sandbox, "BGREWRITEAOF")
    wait_until(lambda: "aof_rewrite_in_progress:0" in redis_command(sandbox, "INFO", "persistence"), "the rewrite")
    status = re.search(r"rdb_last_bgsave_status:\w+", redis_command(sandbox, "INFO", "persistence"))
    return f"{redis_command(sandbox, 'DBSIZE')} {status[0]} {redis_command(sandbox, 'GET', 'k77778')}"


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
