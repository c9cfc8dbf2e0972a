# SPDX-License-Identifier: MIT
"""Python, with its own malloc left out, and its own tests."""

import re
import shutil
import subprocess
import sys
import unittest

from sandbox import STUCK_SECONDS, case, some_of


def python_with_test(module):
    """An installed Python that has this one of its own tests: not every package of it does."""
    for name in ("python3", sys.executable, "python3.11", "python3.12", "python3.13"):
        program = shutil.which(name)
        if not program:
            continue
        found = subprocess.run([program, "-c", f"import sys, test.{module}; print(sys.executable)"],
                               capture_output=True, text=True, timeout=STUCK_SECONDS)
        if found.returncode == 0:
            return found.stdout.splitlines()[-1]
    raise unittest.SkipTest(f"no Python with its own {module} is installed (libpython3.11-testsuite)")


@case(sys.executable)
def python(sandbox):
    sandbox.environment["PYTHONMALLOC"] = "malloc"
    sandbox.environment["PYTHONHASHSEED"] = "1"
    return sandbox.run(sys.executable, "-c", f"COUNT = {some_of(60000)}" + """
import collections, hashlib, json, threading
def churn(seed, results):
    data = collections.defaultdict(list)
    for i in range(COUNT):
        data[str(i * 7919 % (1000 + seed))].append({'i': i, 't': 'x' * (i % 50)})
    results[seed] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
results = {}
threads = [threading.Thread(target=churn, args=(seed, results)) for seed in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for seed in sorted(results): print(results[seed])
big = [bytearray(n * 1000) for n in range(300)]
while big: big = [b[: len(b) // 2] for b in big if len(b) > 1000]
print(sum(i * i for i in range(100000)))
""")


# These demand that something takes less, or no more than ten times, as long as they say.
PYTHON_TIMINGS = ["test_search_anchor_at_beginning", "test_regression_gh94675", "test_timeout"]
PYTHON_TESTS = {
    "quick": "test_json test_dict test_list test_re",
    "slow": "test_collections test_gc test_thread test_threading_local test_xml_etree test_fork1",
    "long": """test_tuple test_unicode test_bytes test_array test_ctypes test_decimal test_descr test_exceptions test_long
test_io test_itertools test_deque test_heapq test_sort test_string test_struct test_memoryview test_copy test_sqlite3
test_zlib test_bz2 test_lzma test_generators test_set test_codecs test_functools test_marshal test_ordered_dict
test_coroutines test_buffer test_float test_csv test_datetime test_difflib test_enum test_inspect test_pickle
test_pickletools test_plistlib test_range test_textwrap test_tokenize test_typing test_weakref test_tarfile
test_zipfile test_configparser test_argparse test_ast test_compile test_dataclasses test_capi test_email
test_unicodedata test_hashlib test_minidom test_pyexpat test_xml_etree_c test_mmap test_random test_fractions
test_traceback test_types test_iter test_import test_doctest test_unittest test_optparse test_shlex test_sax
test_contextlib test_math test_builtin test_class test_grammar test_patma test_syntax test_fstring test_format
test_bisect test_binascii test_base64 test_gzip test_codeccallbacks test_multibytecodec test_codecencodings_jp
test_charmapcodec test_pprint test_dis test_peepholer test_sys_settrace test_tracemalloc test_queue test_fileio
test_bufio""",
}


def register_python_test(module, length):
    @case(length=length, name=f"python-{module}", is_fine=lambda result: result.endswith(": SUCCESS"))
    def python_test(sandbox):
        program = python_with_test(module)
        sandbox.environment["PYTHONMALLOC"] = "malloc"
        ignored = [word for name in PYTHON_TIMINGS for word in ("--ignore", name)]
        output = sandbox.run(program, "-m", "test", "--timeout", str(STUCK_SECONDS), *ignored, module)
        return "\n".join(re.findall(r"^(?:Result: \w+|Tests result: \w+|\d+ tests? OK\.)$", output, re.MULTILINE))


for length, modules in PYTHON_TESTS.items():
    for module in modules.split():
        register_python_test(module, length)
