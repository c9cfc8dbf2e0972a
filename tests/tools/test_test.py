# SPDX-License-Identifier: MIT
"""What tools/test says of builds and packages that are made up: its meson, ninja, dpkg-query and apt-get are scripts of this
test."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# As meson does: what is tested is decided when a build is configured, by what is installed then.
MESON = r"""#!/bin/sh
echo "$@" >>"$STUBS/calls"
case $1 in
setup)
  mkdir -p "$2/meson-logs" && touch "$2/build.ninja"
  if grep -qx mandoc "$STUBS/installed"; then cat "$STUBS/log" "$STUBS/log-mandoc"; else cat "$STUBS/log"; fi >"$2/tests"
  ;;
test)
  [ -e "$STUBS/no-log" ] || cp "$3/tests" "$3/meson-logs/testlog.json"
  cat "$STUBS/complaint" >&2
  exit "$(cat "$STUBS/status")"
  ;;
introspect)
  printf '[%s, %s]\n' "{\"build_by_default\": true, \"filename\": [\"$2/src/default\"]}" \
    "{\"build_by_default\": false, \"filename\": [\"$2/tests/of_long\"]}"
  ;;
esac
"""
DPKG_QUERY = r"""#!/bin/sh
shift 3
printf '%s\n' "$@" | grep -xFf "$STUBS/installed" | sed 's/$/ 1.0-2 installed/'
"""
STUBS = {"meson": MESON, "dpkg-query": DPKG_QUERY, "ninja": '#!/bin/sh\necho ninja "$@" >>"$STUBS/calls"\n',
         "apt-get": "#!/bin/sh\nexit 100\n", "sudo": '#!/bin/sh\nexec "$@"\n',
         "python3": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'}   # not what looks for one first
CMOCKA = {"stdout": "[==========] Running 5 test(s).\n[==========] 5 test(s) run.\n[==========] 2 test(s) run.\n",
          "stderr": "[  PASSED  ] 5 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n"}


def line(name, result="OK", **more):
    return json.dumps({"name": f"tidepool:{name}", "stdout": "", "result": result, **more}) + "\n"


class ToolsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.stubs = pathlib.Path(folder.name, "project"), pathlib.Path(folder.name, "stubs")
        for name in ("tools/test", "tests/cases.py"):
            (self.root / name).parent.mkdir(parents=True)
            shutil.copy(SOURCE / name, self.root / name)
        self.stubs.mkdir()
        (self.stubs / "status").write_text("0")
        (self.stubs / "complaint").write_text("")
        for name, text in STUBS.items():
            (self.stubs / name).write_text(text)
            (self.stubs / name).chmod(0o755)
        text = (SOURCE / "tools/test").read_text()
        lists = re.findall(r"^(?:required|useful|of_long)=\((.*?)\)", text, re.M | re.S)
        self.assertEqual(len(lists), 3)
        self.packages = " ".join(lists).split()
        self.install(self.packages)
        self.write_log(line("unit / arena", **CMOCKA) + line("docs / links") + line("malloc+slow / long one"))
        self.golden("build-test docs 1\nbuild-test unit 7\n")

    def install(self, packages):
        (self.stubs / "installed").write_text("\n".join(packages) + "\n")

    def write_log(self, text, with_mandoc=""):
        (self.stubs / "log").write_text(text)
        (self.stubs / "log-mandoc").write_text(with_mandoc)

    def golden(self, text):
        (self.root / "tests/cases.golden").write_text("# a comment\n" + text)

    def run_it(self, *arguments):
        """The status, all output, and how often a build was configured."""
        (self.stubs / "calls").write_text("")
        environment = {**os.environ, "PATH": f"{self.stubs}:{os.environ['PATH']}", "STUBS": str(self.stubs)}
        done = subprocess.run([self.root / "tools/test", *arguments], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
        calls = (self.stubs / "calls").read_text().splitlines()
        return done.returncode, done.stdout, sum(call.startswith("setup ") for call in calls)

    def without(self, *packages):
        self.install([package for package in self.packages if package not in packages])


class Configuring(ToolsTest):
    def test_a_build_is_configured_once(self):
        self.assertEqual(self.run_it("--quick")[2], 1)
        self.assertEqual(self.run_it("--quick")[2], 0)

    def test_it_is_configured_again_where_a_package_came(self):
        """And has the tests of the package."""
        self.write_log(line("docs / links"), line("docs / manual pages"))
        self.golden("build-test docs 1\n")
        self.without("mandoc")
        self.assertIn("\n1 passed, 0 failed, 0 skipped\n", self.run_it("--quick")[1])
        self.install(self.packages)
        status, output, configured = self.run_it("--quick")
        self.assertIn("\n2 passed, 0 failed, 0 skipped\n", output)
        self.assertEqual((status, configured), (0, 1))

    def test_some_packages_are_installed_for_long_tests_alone(self):
        """And configure nothing again; but long tests have a build that no other run has."""
        self.run_it()
        self.without("lintian", "rpm")
        for length, installing, configured in ((), False, 0), (("--long",), True, 1), (("--long",), True, 0):
            status, output, configurations = self.run_it(*length)
            self.assertEqual(("installing: lintian rpm\n" in output, configurations), (installing, configured), output)

    def test_long_tests_of_some_builds(self):
        """One build, and of it no test that a run without --long has."""
        self.golden("")
        status, _, configured = self.run_it("--long", "build-asan")
        calls = (self.stubs / "calls").read_text().splitlines()
        tests = [call for call in calls if call.startswith("test ")]
        self.assertEqual((status, configured, len(tests)), (0, 1, 1), calls)
        self.assertTrue("-C build-asan " in tests[0] and tests[0].endswith("--suite long"), tests)
        for wrong in (("--long", "build-none"), ("--quick", "build-test"), ("build-test",)):
            self.assertEqual(self.run_it(*wrong)[0], 2)

    def test_it_is_configured_again_where_a_package_went(self):
        self.run_it("--quick")
        self.without("mandoc")
        self.assertEqual(self.run_it("--quick")[2], 1)

    def test_a_directory_that_somebody_else_configured_is_configured_again(self):
        (self.root / "build-test").mkdir()
        (self.root / "build-test/build.ninja").touch()
        self.assertEqual(self.run_it("--quick")[2], 1)

    def test_it_is_configured_again_for_another_compiler(self):
        self.run_it("--quick")
        os.environ["CC"] = "true"
        self.addCleanup(os.environ.pop, "CC")
        self.assertEqual(self.run_it("--quick")[2], 1)

    def test_of_what_is_not_built_by_default_only_that_is_built_which_tests_run(self):
        self.run_it("--quick")
        calls = (self.stubs / "calls").read_text().splitlines()
        self.assertEqual([call for call in calls if call.startswith("ninja ")], ["ninja -C build-test src/default"])

    def test_what_was_fetched_stays(self):
        for name in "build-test/kernels/vmlinuz", "build-test/tests/upstream/sources/tree":
            (self.root / name).parent.mkdir(parents=True)
            (self.root / name).write_text("fetched")
        (self.root / "build-test/old").touch()
        self.run_it("--quick")
        self.assertEqual((self.root / "build-test/kernels/vmlinuz").read_text(), "fetched")
        self.assertEqual((self.root / "build-test/tests/upstream/sources/tree").read_text(), "fetched")
        self.assertFalse((self.root / "build-test/old").exists())
        self.assertEqual([path.name for path in self.root.glob("build-kept*")], [])


class Counting(ToolsTest):
    def test_each_suite_says_how_many_cases_it_ran(self):
        """Seven of cmocka, one of them skipped; what is slow is counted there alone."""
        status, output, _ = self.run_it("--quick")
        self.assertIn("build-test, cases: docs 1, slow 1, unit 6 (1 skipped)\n", output)
        self.assertEqual((status, output.splitlines()[-1]), (0, "3 passed, 0 failed, 0 skipped"))

    def test_cases_of_unittest_and_skipped_programs_count(self):
        self.write_log(line("malloc / options", stderr="Ran 15 tests in 3.1s\n\nOK (skipped=2)\n")
                       + line("malloc / other", "SKIP"))
        self.golden("build-test malloc 16\n")
        status, output, _ = self.run_it("--quick")
        self.assertIn("build-test, cases: malloc 13 (3 skipped)\n", output)
        self.assertEqual((status, output.splitlines()[-1]), (0, "1 passed, 0 failed, 1 skipped"))

    def test_cases_of_pytest_count(self):
        """By the line that it ends with. What it shows of a program that failed may look much the same."""
        shown = "..s\nSKIPPED [1] a.py:3: no program\n 7 passed in 0.01s\n40 passed, 2 skipped in 63.02s (0:01:03)\n"
        self.write_log(line("misuse / a", stdout=shown)
                       + line("misuse / b", "FAIL", stdout="1 failed, 3 passed, 1 warning, 2 errors in 0.50s\n")
                       + line("misuse / c", "SKIP", stdout="3 skipped in 0.10s\n")
                       + line("preload / d", "SKIP", stdout="skipped: why\n"))
        self.golden("build-test misuse 51\nbuild-test preload 1\n")
        status, output, _ = self.run_it("--quick")
        self.assertIn("build-test, cases: misuse 46 (5 skipped), preload 0 (1 skipped)\n", output)
        self.assertNotIn("did not run", output)
        self.assertEqual((status, output.splitlines()[-1]), (1, "1 passed, 1 failed, 2 skipped"))

    def test_without_pytest_its_cases_are_skipped(self):
        self.write_log(line("misuse / a", "SKIP", stdout="skipped: no Python here has pytest\n"))
        self.golden("build-test misuse 60\n")
        self.without("python3-pytest")
        status, output, _ = self.run_it("--quick")
        self.assertIn("build-test: skipped, 59 of 60 cases of suite misuse; missing packages: python3-pytest\n", output)
        self.assertEqual((status, output.splitlines()[-1]), (0, "0 passed, 0 failed, 60 skipped"))

    def test_a_number_that_falls_is_a_failure(self):
        self.golden("build-test docs 2\nbuild-test unit 7\n")
        status, output, _ = self.run_it("--quick")
        self.assertIn("  build-test: 1 of 2 cases of suite docs did not run\n", output)
        self.assertEqual((status, output.splitlines()[-1]), (1, "3 passed, 1 failed, 0 skipped"))

    def test_a_suite_that_is_gone_is_a_failure(self):
        self.golden("build-test bench 9\n")
        status, output, _ = self.run_it("--quick")
        self.assertIn("  build-test: 9 of 9 cases of suite bench did not run\n", output)
        self.assertEqual(status, 1)

    def test_no_tests_at_all_are_a_failure(self):
        self.write_log("")
        status, output, _ = self.run_it("--quick")
        self.assertIn("  build-test: 7 of 7 cases of suite unit did not run\n", output)
        self.assertEqual(status, 1)

    def test_what_goes_with_a_package_that_cannot_be_had_counts_as_skipped(self):
        self.golden("build-test docs 2\nbuild-test unit 7\n")
        self.without("mandoc", "spin")
        status, output, _ = self.run_it("--quick")
        self.assertIn("build-test: skipped, 1 of 2 cases of suite docs; missing packages: mandoc\n", output)
        self.assertEqual((status, output.splitlines()[-1]), (0, "3 passed, 0 failed, 1 skipped"))

    def test_a_package_excuses_no_more_cases_than_go_with_it(self):
        self.golden("build-test docs 6\nbuild-test unit 7\n")
        self.without("mandoc")
        status, output, _ = self.run_it("--quick")
        self.assertIn("build-test: skipped, 3 of 6 cases of suite docs; missing packages: mandoc\n", output)
        self.assertIn("  build-test: 2 of 6 cases of suite docs did not run\n", output)
        self.assertEqual((status, output.splitlines()[-1]), (1, "3 passed, 1 failed, 3 skipped"))

    def test_a_package_excuses_no_other_suite(self):
        self.golden("build-test malloc 3\nbuild-test unit 8\n")
        self.without("mandoc", "spin", "qemu-system-x86")
        status, output, _ = self.run_it("--quick")
        self.assertIn("  build-test: 3 of 3 cases of suite malloc did not run\n", output)
        self.assertIn("  build-test: 1 of 8 cases of suite unit did not run\n", output)
        self.assertEqual((status, output.splitlines()[-1]), (1, "3 passed, 2 failed, 0 skipped"))

    def test_no_packages_excuse_the_unit_tests_as_a_whole(self):
        self.write_log(line("docs / links"))
        self.golden("build-test unit 400\n")
        useful = re.search(r"^useful=\((.*?)\)", (SOURCE / "tools/test").read_text(), re.M | re.S)[1].split()
        self.without(*useful)
        status, output, _ = self.run_it("--quick")
        self.assertRegex(output, r"\n  build-test: [23]\d\d of 400 cases of suite unit did not run\n")
        self.assertEqual(status, 1)

    def test_cases_that_need_two_packages_are_excused_once(self):
        """The adapters' headers are compiled as C++ too, which takes the library and the compiler."""
        self.write_log(line("unit / arena", **CMOCKA))
        self.golden("build-test adapters 40\nbuild-test bench 5\n")
        self.without("zlib1g-dev", "g++", "libbenchmark-dev")
        output = self.run_it("--quick")[1]
        self.assertIn("build-test: skipped, 21 of 40 cases of suite adapters; missing packages: g++ zlib1g-dev\n", output)
        self.assertIn("build-test: skipped, 2 of 5 cases of suite bench; missing packages: g++ libbenchmark-dev\n", output)

    def test_each_package_of_the_table_is_one_that_is_installed(self):
        """A name that tools/test does not know excuses nothing."""
        table = re.search(r"^GO_WITH = \((.*?)^\)", (SOURCE / "tests/cases.py").read_text(), re.M | re.S)[1]
        named = {name for row in re.findall(r"^ *\(\{([^}]*)\}, ", table, re.M) for name in re.findall(r'"([^"]+)"', row)}
        self.assertIn("libc++-dev", named)
        self.assertEqual(named - set(self.packages), set())

    def test_a_meson_that_ends_early_is_a_failure_whatever_is_missing(self):
        """It had run some of the tests, or none: what is not there had counted as skipped where any package was missing."""
        for without in (), ("spin",), ("mandoc", "clang", "g++"):
            for log in True, False:
                with self.subTest(without=without, log=log):
                    self.without(*without)
                    # Without a log none is there, and more are wanted than go with the missing packages.
                    self.golden("build-test docs 1\nbuild-test unit " + ("7\n" if log else "400\n"))
                    (self.stubs / "status").write_text("139")
                    (self.stubs / "no-log").unlink(missing_ok=True) if log else (self.stubs / "no-log").touch()
                    status, output, _ = self.run_it("--quick")
                    self.assertEqual(status, 1, output)
                    said = "ended with status 139" if log else "wrote no log"
                    self.assertIn(f"  build-test: meson test {said}\n", output)

    def test_what_meson_complained_of_is_said_at_the_end(self):
        """A run that failed is often kept by its last lines alone."""
        (self.stubs / "complaint").write_text("OSError: [Errno 28] No space left on device\n")
        self.assertNotIn("meson said", self.run_it("--quick")[1])
        self.golden("build-test docs 1\nbuild-test unit 400\n")
        (self.stubs / "status").write_text("2")
        status, output, _ = self.run_it("--quick")
        said = output.partition("failed:\n")[2]
        self.assertIn("  build-test: meson said: OSError: [Errno 28] No space left on device\n", said)
        self.assertEqual((status, output.splitlines()[-1]), (1, "3 passed, 1 failed, 0 skipped"))

    def test_no_log_is_a_failure_though_no_case_is_wanted(self):
        self.golden("")
        (self.stubs / "no-log").touch()
        status, output, _ = self.run_it("--quick")
        self.assertIn("  build-test: meson test wrote no log\n", output)
        self.assertEqual((status, output.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_build_without_its_compiler_counts_as_skipped(self):
        """Clang's, where there is none: of all else that is missing there is none to be excused."""
        for length, log, expected in ("normal", None, "0 0 9"), ("normal", "", "0 1 0"), ("long", None, "0 0 1"):
            with self.subTest(length=length, log=log):
                self.golden("build-clang unit 9\nbuild-clang long 1\n")
                shutil.rmtree(self.root / "build-clang", ignore_errors=True)
                if log is not None:
                    (self.root / "build-clang/meson-logs").mkdir(parents=True)
                    (self.root / "build-clang/meson-logs/testlog.json").write_text(log)
                done = subprocess.run(["python3", "tests/cases.py", length, "build-clang", "clang", "spin"], cwd=self.root,
                                      check=True, text=True, stdout=subprocess.PIPE, timeout=600)
                self.assertEqual(done.stdout.splitlines()[0], expected, done.stdout)

    def test_a_short_run_need_not_have_what_is_slow_or_long(self):
        self.golden("build-test slow 9\nbuild-test long 9\nbuild-test unit 7\n")
        self.assertEqual(self.run_it("--quick")[0], 0)
        status, output, _ = self.run_it()
        self.assertIn("  build-test: 8 of 9 cases of suite slow did not run\n", output)
        self.assertNotIn("suite long", output)
        self.assertEqual(status, 1)

    def test_a_test_that_fails_is_a_failure(self):
        self.write_log(line("unit / arena", "FAIL", **CMOCKA) + line("docs / links", "TIMEOUT"))
        status, output, _ = self.run_it("--quick")
        self.assertIn("  build-test: tidepool:unit / arena (fail)\n", output)
        self.assertEqual((status, output.splitlines()[-1]), (1, "0 passed, 2 failed, 0 skipped"))

    def test_a_failure_on_a_full_disk_says_so(self):
        """Only where it is full: the space may be there again when somebody looks."""
        for free, said in (99, True), (100, False):
            with self.subTest(free=free):
                (self.stubs / "df").write_text(f"#!/bin/sh\necho header\necho disk 9 9 {free} 9% /\n")
                (self.stubs / "df").chmod(0o755)
                (self.stubs / "no-log").touch()
                output = self.run_it("--quick")[1]
                self.assertEqual("meson test wrote no log; only 99 MB were free in ." in output, said, output)

    def test_the_floor_is_raised_when_asked_and_never_lowered(self):
        self.run_it("--quick")
        self.golden("build-test docs 8\nbuild-test unit 2\nbuild-clang unit 4\n")
        subprocess.run(["python3", "tests/cases.py", "--raise", "build-test"], cwd=self.root, check=True, timeout=600)
        self.assertEqual((self.root / "tests/cases.golden").read_text(),
                         "# a comment\nbuild-clang unit 4\nbuild-test docs 8\nbuild-test slow 1\nbuild-test unit 7\n")


unittest.main()
