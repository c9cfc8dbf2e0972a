# SPDX-License-Identifier: MIT
"""tidepool run: what it preloads, what it says of programs that keep their own malloc, and what it exits with."""

import itertools
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess

import pytest

SECONDS = 600
RIGHTS = "runs with the rights of another user or with capabilities, so the loader preloads nothing"


@pytest.fixture(name="tools")
def fixture_tools(request):
    """The programs of the build, with paths that do not depend on the folder in which they run."""
    return {name: os.path.abspath(request.config.getoption(f"--{name}"))
            for name in ("tidepool", "program", "static-program", "own-malloc", "library")
            if request.config.getoption(f"--{name}")}


@pytest.fixture(name="run")
def fixture_run(tools):
    def run(*arguments, env=None, **more):
        own = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "TIDEPOOL_OPTIONS")}
        return subprocess.run([tools["tidepool"], "run", *arguments], env={**own, **(env or {})}, capture_output=True,
                              text=True, timeout=SECONDS, check=False, **more)
    return run


def lines_of(done):
    return [line for line in done.stderr.splitlines() if line.startswith("tidepool: run: ")]


def keeps(done, path, why):
    """It said why, in one line, and ran the program."""
    assert lines_of(done) == [f"tidepool: run: {path} keeps its own malloc: it {why}"]
    assert done.returncode == 0, done.stderr


def test_a_program_is_run_with_the_library(run, tools):
    done = run(tools["program"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "loaded\n", "")


def test_the_arguments_are_the_programs(run, tools):
    wanted = ["--checked", "-o", "--", "", "a b"]
    for dashes in ([], ["--"]):
        done = run(*dashes, tools["program"], "arguments", *wanted)
        assert done.stdout.split("\n")[:-1] == wanted and not done.stderr


def test_the_program_is_found_in_path(run, tools):
    folder, name = os.path.split(tools["program"])
    done = run(name, env={"PATH": f"/nowhere:{folder}:/usr/bin:/bin"})
    assert done.stdout == "loaded\n"


@pytest.mark.parametrize("status", (0, 1, 42, 255))
def test_the_exit_status_is_the_programs(run, tools, status):
    assert run(tools["program"], str(status)).returncode == status


def test_a_signal_ends_the_program_itself(run, tools):
    assert run(tools["program"], "signal").returncode == -signal.SIGTERM


def test_checked_finds_a_write_past_the_end(run, tools):
    done = run("--checked", tools["program"], "past")
    assert done.returncode == -signal.SIGABRT and "written past its end at offset 100" in done.stderr


def test_guarded_finds_a_write_past_the_end(run, tools):
    done = run("--guarded", tools["program"], "past")
    assert done.returncode != 0 and "at offset 100 of a block of 100 bytes" in done.stderr


def test_leaks_says_which_block_is_lost(run, tools):
    done = run("--leaks", tools["program"], "loses")
    assert done.returncode == 0 and "1 block, 1,234 bytes lost" in done.stderr


@pytest.mark.parametrize("folder", ["here", "100%p%%"])
def test_stats_go_where_the_program_was_started(run, tools, tmp_path, folder):
    (tmp_path / folder).mkdir()
    assert run("--stats", "figures.%p", tools["program"], "elsewhere", cwd=tmp_path / folder).returncode == 0
    files = list((tmp_path / folder).iterdir())
    assert len(files) == 1
    assert json.loads(files[0].read_text())["pid"] == int(files[0].suffix[1:])


def test_what_is_set_already_is_kept(run, tools, tmp_path):
    file = tmp_path / "figures"
    done = run("-o", "sites=2", "--option=purge_delay_ms=5", tools["program"],
               env={"TIDEPOOL_OPTIONS": f"stats=exit:{file}", "LD_PRELOAD": tools["library"]})
    assert (done.stdout, done.stderr) == ("loaded\n", "") and file.stat().st_size


def test_the_environment_of_the_program(run, tools):
    set_already = {"TIDEPOOL_OPTIONS": "leaks=none", "LD_PRELOAD": "/lib/none.so"}
    done = run("-o", "sites=2", "--checked", "/usr/bin/env", env=set_already)
    folder, name = os.path.split(os.path.realpath(tools["library"]))
    own = name.replace("-malloc", "")
    assert f"LD_PRELOAD={folder}/debug/{name}:{folder}/debug/{own}:/lib/none.so\n" in done.stdout
    assert "TIDEPOOL_OPTIONS=leaks=none,sites=2,checked=all\n" in done.stdout
    assert "TIDEPOOL_OPTIONS" not in run("/usr/bin/env").stdout


@pytest.mark.parametrize("option", ("nosuch=1", "chekced=1", "checked=maybe", "checked", "=1", "", "sites=17", "profile=",
                                    "profile_signal=65", "stats=exit:" + "x" * 256))
def test_a_wrong_option_ends_it_before_the_program(run, tools, option):
    """What the library would only complain of while the program runs on."""
    done = run("-o", option, tools["program"])
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith(f"tidepool run: {option}: ") and done.stderr.count("\n") == 2   # and where there is help


def test_a_right_option_is_the_librarys(run, tools):
    """Each that the library has, and the two words that are no options."""
    table = run("-o", "help", tools["program"]).stderr.splitlines()
    keys = [line.split("=")[0] for line in table]
    assert {"checked", "sites", "profile_signal"} < set(keys)
    assert run("-o", "version", tools["program"]).stderr.startswith("tidepool ")
    values = {"stats": "none", "leaks": "none", "huge_pages": "auto", "blocks": "auto", "profile": "/dev/null"}
    for key in keys:
        done = run("-o", f"{key}={values.get(key, '1')}", tools["program"])
        assert (done.returncode, done.stdout, done.stderr) == (0, "loaded\n", ""), key


@pytest.mark.parametrize("arguments", (
    ["-o", "sites=2,leaks=all"], ["--stats", "a,b"], ["--stats", "x" * 256], ["--stats", ""], ["--no-such-option"],
    ["--stats"], [],
), ids=str)
def test_usage(run, tools, arguments):
    done = run(*arguments, *([tools["program"]] if arguments not in (["--stats"], []) else []))
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith("tidepool run: ") and done.stderr.count("\n") == 2   # and where there is help


def test_other_commands(tools):
    def tidepool(*arguments):
        return subprocess.run([tools["tidepool"], *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
    for arguments in ([], ["walk"], ["--walk"]):
        assert tidepool(*arguments).returncode == 2 and tidepool(*arguments).stderr
    assert "use tidepool run --profile FILE PROGRAM" in tidepool("profile", "server.heap").stderr
    for arguments in (["--help"], ["run", "--help"]):
        assert tidepool(*arguments).returncode == 0 and "Usage: tidepool" in tidepool(*arguments).stdout
    assert tidepool("--version").stdout.startswith("tidepool ")


def test_no_such_program(run, tmp_path):
    for name in ("no-such-program-here", str(tmp_path / "none"), ""):
        done = run(name)
        assert done.returncode == 127 and lines_of(done) == [f"tidepool: run: {name}: No such file or directory"]


def test_what_cannot_be_run(run, tmp_path):
    file = tmp_path / "text"
    file.write_text("text")
    for path in (tmp_path, file):
        done = run(str(path))
        assert done.returncode == 126 and lines_of(done) == [f"tidepool: run: {path}: Permission denied"]


def test_libraries_that_are_not_there(run, tools, tmp_path):
    done = run("--library", str(tmp_path / "none.so"), tools["program"])
    assert done.returncode == 125 and lines_of(done) == [f"tidepool: run: {tmp_path}/none.so is not there"]
    lonely = shutil.copy(tools["tidepool"], tmp_path)
    done = subprocess.run([lonely, "run", tools["program"]], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 125 and "--library FILE says where it is" in done.stderr and not done.stdout
    dollar = shutil.copy(tools["library"], tmp_path / "$LIB.so")
    assert "a dollar sign" in run("--library", dollar, tools["program"]).stderr
    spaced = tmp_path / "a b.so"
    spaced.symlink_to(tools["library"])
    (tmp_path / "c d").mkdir()
    moved = shutil.copy(tools["library"], tmp_path / "c d")
    assert "no path with a space" in run("--library", moved, tools["program"]).stderr
    assert run("--library", str(spaced), tools["program"]).stdout == "loaded\n"


# ---- programs that keep their own malloc ----

def test_a_static_program(run, tools):
    if "static-program" not in tools:
        pytest.skip("the C library cannot be linked statically")
    keeps(run(tools["static-program"]), tools["static-program"], "is static, so no library can be preloaded")


def test_a_program_with_a_malloc_of_its_own(run, tools):
    keeps(run(tools["own-malloc"]), tools["own-malloc"], "has a malloc of its own, which comes first")


def script(folder, first, *, name="script"):
    path = folder / name
    path.write_text(first + "\n")
    path.chmod(0o755)
    return str(path)


def test_a_script_is_what_interprets_it(run, tools, tmp_path):
    done = run(script(tmp_path, f"#!{tools['program']} loaded"))
    assert (done.stdout, done.stderr) == ("loaded\n", "")
    own = tools["own-malloc"]
    folder, name = os.path.split(own)
    path = os.environ["PATH"]
    for first in (f"#!{own} 0", f"#! {own} 0", f"#!/usr/bin/env {name}", f"#!/usr/bin/env -S A=1 {name} 0"):
        done = run(script(tmp_path, first), env={"PATH": f"{folder}:{path}"})
        keeps(done, own, "has a malloc of its own, which comes first")
    done = run(script(tmp_path, f"#!{script(tmp_path, f'#!{own} 0', name='inner')}"))
    keeps(done, own, "has a malloc of its own, which comes first")


def test_a_script_without_an_interpreter_is_the_shells(run, tmp_path):
    done = run(script(tmp_path, "echo said"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "said\n", "")


def test_scripts_that_interpret_themselves(run, tmp_path):
    done = run(script(tmp_path, f"#!{tmp_path}/script"))
    assert done.returncode == 126 and len(lines_of(done)) == 1


@pytest.mark.parametrize("first", ("#!/usr/bin/env -S -u HOME {own} 0", "#!/usr/bin/env -S LD_PRELOAD= {own} 0",
                                   "#!/usr/bin/env -S '{own}' 0", "#!/usr/bin/env -i {own}"))
def test_what_env_does_is_not_guessed(run, tools, tmp_path, first):
    assert not lines_of(run(script(tmp_path, first.format(own=tools["own-malloc"]))))


def test_an_interpreter_is_looked_for_in_no_path(run, tools, tmp_path):
    folder, name = os.path.split(tools["own-malloc"])
    done = run(script(tmp_path, f"#!{name} 0"), cwd=tmp_path, env={"PATH": f"{folder}:{os.environ['PATH']}"})
    assert not any("keeps" in line for line in lines_of(done))
    done = run(script(tmp_path, f"#!{name} 0"), cwd=folder)
    keeps(done, f"./{name}", "has a malloc of its own, which comes first")


def test_the_next_in_path_where_the_first_cannot_start(run, tools, tmp_path):
    contents = pathlib.Path(tools["program"]).read_bytes()
    for folder, offset, value in ("a", contents.index(b"/lib") + 1, b"non"), ("b", 0, b""):
        (tmp_path / folder).mkdir()
        os.rename(patched(tmp_path, tools["program"], offset, value), tmp_path / folder / "prog")
    assert run("prog", env={"PATH": f"{tmp_path}/a:{tmp_path}/b"}).stdout == "loaded\n"


def test_a_program_that_cannot_be_read(run, tools, tmp_path):
    """Its rights can be told all the same."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    copy = shutil.copy(tools["program"], tmp_path / "copy")
    os.chown(copy, 65534, 65534)
    os.chmod(copy, 0o4111)
    keeps(run(str(copy), "0"), copy, RIGHTS)


def test_a_program_with_the_rights_of_another(run, tools, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    if os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip("rights are not gained in this folder")
    copy = shutil.copy(tools["program"], tmp_path / "copy")
    os.chown(copy, 65534, 65534)
    for mode in (stat.S_ISUID, stat.S_ISGID):
        os.chmod(copy, 0o755 | mode)
        done = run(str(copy), "0")
        keeps(done, copy, RIGHTS)
    os.chown(copy, 0, 0)
    os.chmod(copy, 0o755 | stat.S_ISUID)
    assert run(str(copy)).stdout == "loaded\n"


def patched(folder, program, offset, value):
    bytes_of = bytearray(pathlib.Path(program).read_bytes())
    bytes_of[offset:offset + len(value)] = value
    path = folder / "patched"
    path.write_bytes(bytes_of)
    path.chmod(0o755)
    return str(path)


def test_a_program_for_another_machine(run, tools, tmp_path):
    path = patched(tmp_path, tools["program"], 18, b"\xf3\xfe")   # e_machine of none
    done = run(path)
    why = "keeps its own malloc: it is for another kind of processor than the library"
    assert lines_of(done) == [f"tidepool: run: {path} {why}", f"tidepool: run: {path}: Exec format error"]
    assert done.returncode == 126


def test_a_program_of_another_c_library(run, tools, tmp_path):
    contents = pathlib.Path(tools["program"]).read_bytes()
    at = contents.index(b"libc.so.6\0")
    path = patched(tmp_path, tools["program"], at, b"libc.so.x")
    for env in ({}, {"LD_PRELOAD": f"{tools['library']} /lib/none.so"}):
        done = run(path, env=env)
        why = "keeps its own malloc: it is for another C library than tidepool: libc.so.x"
        assert lines_of(done) == [f"tidepool: run: {path} {why}"]
        assert done.returncode == 127 and "libc.so.x" in done.stderr   # the loader does not find it


def test_a_loader_of_another_name(run, tools, tmp_path):
    """It may be a link, and the C library is the same."""
    contents = pathlib.Path(tools["program"]).read_bytes()
    loader = contents[contents.index(b"/lib"):].split(b"\0")[0].decode()
    at = contents.index(b"/lib")
    link = tmp_path.with_name("l")
    link.unlink(missing_ok=True)
    link.symlink_to(loader)
    if len(str(link)) > len(loader):
        link = pathlib.Path("/tmp") / f"l{os.getpid()}"
        link.symlink_to(loader)
    try:
        if len(str(link)) > len(loader):
            pytest.skip("no link is as short as the loader's name")
        done = run(patched(tmp_path, tools["program"], at, str(link).encode() + b"\0"))
        assert (done.returncode, done.stdout, done.stderr) == (0, "loaded\n", "")
    finally:
        link.unlink()


def test_a_program_of_address_sanitizer(run, tmp_path):
    source = pathlib.Path(__file__).with_name("program.c")
    program = tmp_path / "program"
    if subprocess.run(["gcc", "-fsanitize=address", source, "-o", program], check=False, capture_output=True).returncode != 0:
        pytest.skip("gcc has no sanitizer here")
    done = run(program, env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == 0 and "compiled with a sanitizer" in lines_of(done)[0]


def test_a_program_of_musl_is_run_without_the_library(run, tools, tmp_path):
    source = pathlib.Path(__file__).with_name("program.c")
    program = tmp_path / "program"
    if not shutil.which("musl-gcc") or subprocess.run(["musl-gcc", source, "-o", program], check=False).returncode != 0:
        pytest.skip("there is no compiler for musl")
    for arguments, env in itertools.product(([program], [script(tmp_path, f"#!{program} loaded")]),
                                            ({}, {"LD_PRELOAD": tools["library"]})):   # as below tidepool run make
        done = run(*arguments, env=env)
        assert (done.returncode, done.stdout) == (0, "not loaded\n")
        assert len(done.stderr.splitlines()) == 1 and "for another C library than tidepool" in done.stderr
