# SPDX-License-Identifier: MIT
"""What the report of the benchmarks makes of results with known answers: over which cases a mean is, what an interval shows,
what is missing."""
import collections
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import made_up
from made_up import HEAPS, OBJECT_POOLS, needs_page, page, without

import report
import results as data
import tables
from results import FASTER, SLOWER, UNDECIDED, Results

GENERAL = ["pairs/16", "pairs/200", "slots/wide"]


def shown(results):
    """What the terminal and the page show; the page without its pictures, which take time and have a test of their own."""
    if not page:
        return [report.terminal(results)]
    with unittest.mock.patch.multiple(page, pictures=lambda _: collections.defaultdict(str), bars=lambda _: []):
        return [report.terminal(results), page.page(results)]


def texts(results):
    return [*shown(results), report.markdown(results)]


class Means(unittest.TestCase):
    def test_a_mean_is_over_the_cases_that_all_allocators_ran(self):
        """jemalloc is slow in a case that tcmalloc did not run: it must not stand in jemalloc's mean alone."""
        raw = made_up.raw({("pairs/200", "jemalloc"): 4000.0}, GENERAL)
        self.assertAlmostEqual(Results(raw).mean_ratio("jemalloc", "malloc").middle, (2 * 200 * 2) ** (1 / 3))
        results = Results(without(raw, ("pairs/200", "tcmalloc")))
        self.assertEqual(results.common(), ["pairs/16", "slots/wide"])
        for allocator, mean in ("jemalloc", 2), ("tidepool", 0.5), ("tcmalloc", 0.25):
            self.assertAlmostEqual(results.mean_ratio(allocator, "malloc").middle, mean)

    def test_heaps_and_object_pools_are_in_no_mean_but_their_own(self):
        times = {(case, "tidepool"): 0.02 for case in HEAPS + OBJECT_POOLS}
        results = Results(made_up.raw(times, GENERAL + HEAPS + OBJECT_POOLS))
        self.assertEqual(results.common(), GENERAL)
        self.assertAlmostEqual(results.mean_ratio("tidepool", "malloc").middle, 0.5)
        self.assertAlmostEqual(results.mean_ratio("tidepool", "malloc", kind="heaps").middle, 0.001)
        self.assertEqual(results.having("heaps"), ["tidepool", "malloc", "jemalloc"])
        self.assertEqual(results.common("heaps"), HEAPS)
        self.assertEqual(results.common("object_pools"), ["object_pools/pairs"])

    def test_a_mean_of_memory_is_over_common_cases_in_which_enough_is_live(self):
        raw = made_up.raw(None, GENERAL)
        for run in raw["runs"]:
            if run["case"] == "pairs/16":
                run["live"] = 16
            if (run["case"], run["allocator"]) == ("pairs/200", "tcmalloc"):
                run["peak"] = 0
            if (run["case"], run["allocator"]) == ("pairs/200", "tidepool"):
                run["peak"] *= 100
        results = Results(raw)
        self.assertEqual(results.common(key="peak"), ["slots/wide"])
        self.assertAlmostEqual(results.mean_ratio("tidepool", "malloc", "peak").middle, 1)

    def test_the_report_says_over_which_cases(self):
        raw = without(made_up.raw(None, GENERAL + HEAPS), ("pairs/200", "tcmalloc"))
        for text in texts(Results(raw)):
            self.assertIn("means over the 2 cases that all of tidepool, malloc, jemalloc and tcmalloc ran", text)
            self.assertIn("1 more, which not all of them ran, are left out", text)
        self.assertIn("means over the 2 cases that all of tidepool, malloc and jemalloc ran.", report.terminal(Results(raw)))

    @needs_page
    def test_the_picture_of_means_has_the_common_cases_alone(self):
        raw = without(made_up.raw(None, GENERAL), ("pairs/200", "tcmalloc"))
        drawing = page.charts.time_beside_memory(Results(raw))
        self.assertIn("<title>pairs/16:", drawing)
        self.assertNotIn("<title>pairs/200:", drawing)


class Intervals(unittest.TestCase):
    def test_a_ratio_that_never_changes_has_no_spread(self):
        ratio = Results(made_up.raw()).ratio("pairs/16", "tidepool", "malloc")
        for value in ratio.middle, ratio.low, ratio.high:
            self.assertAlmostEqual(value, 0.5)
        self.assertEqual((ratio.verdict, ratio.repetitions), (FASTER, made_up.REPETITIONS))

    def test_a_difference_smaller_than_the_noise_is_not_shown(self):
        noise = {("pairs/16", "tidepool"): lambda r: 20.4 + (3 if r % 2 else -3), ("pairs/16", "malloc"): lambda r: 20.0}
        results = Results(made_up.raw(noise))
        ratio = results.ratio("pairs/16", "tidepool", "malloc")
        self.assertGreater(ratio.middle, 1)
        self.assertEqual(ratio.verdict, UNDECIDED)
        self.assertIn(UNDECIDED, report.terminal(results))

    def test_the_median_is_inside_and_the_extremes_are_the_bounds(self):
        values = [0.8, 0.9, 1.2, 1.3, 1.4, 1.5, 9.0]
        ratio = data.median_ratio(values)
        self.assertEqual(ratio.middle, 1.3)
        self.assertTrue(0.8 <= ratio.low < 1.3 < ratio.high <= 9.0)
        self.assertEqual(ratio.verdict, UNDECIDED)
        self.assertEqual(data.median_ratio([v + 1 for v in values]).verdict, SLOWER)

    def test_the_bounds_are_those_values_that_a_coin_allows(self):
        """Of nine tosses none or one is heads in 2 % of all; of eight none in 0.4 %, none or one in 3.5 %. Ends are two."""
        for count, k in (5, 0), (6, 1), (7, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (25, 8):
            self.assertEqual(data.rank(count), k, count)
        self.assertEqual(data.median_ratio([9, 2, 8, 3, 7, 4, 6, 5, 1])[:3], (5, 2, 8))
        self.assertIsNone(data.median_ratio([1, 2, 3, 4, 5]))
        self.assertIsNone(data.median_ratio([]))

    def test_an_interval_misses_what_is_true_no_more_often_than_it_says(self):
        """For each number of repetitions. The noise is as a machine has it: mostly a little, now and then much, and only ever
        upwards. Both sides have it. Above 5 % is what chance adds to so many trials, three deviations."""
        noise = random.Random(7)
        def time():
            return 10 * noise.lognormvariate(0, 0.03) * (1.5 if noise.random() < 0.2 else 1)
        def ratios(count):
            return {r: time() / time() for r in range(count)}
        for count in (*range(data.LEAST_REPETITIONS, 13), 15, 25):
            for trials, what, draw in (4000, "a case", lambda n: data.median_ratio(ratios(n).values())), \
                                      (400, "a mean", lambda n: data.median_of_means([ratios(n) for _ in range(8)])):
                missed = sum(draw(count).verdict != UNDECIDED for _ in range(trials))
                self.assertLessEqual(missed / trials, 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5, (count, what))

    def test_a_mean_is_of_the_repetitions_that_all_its_cases_have(self):
        """pairs/16 lacks two repetitions in the middle, in which pairs/200 was slow. By position others would meet."""
        slow = {("pairs/200", "tidepool"): lambda r: 40.0 if r in (2, 3) else 10.0, ("pairs/16", "tidepool"): lambda r: 10.0,
                **{(case, "malloc"): lambda r: 10.0 for case in ("pairs/16", "pairs/200")}}
        failures = [{"case": "pairs/16", "allocator": "tidepool", "what": "ended"}]
        raw = made_up.raw(slow, ["pairs/16", "pairs/200"], failures=failures)
        lost = [("pairs/16", "tidepool", repetition) for repetition in (2, 3)]
        raw["runs"] = [run for run in raw["runs"] if (run["case"], run["allocator"], run["repetition"]) not in lost]
        results = Results(raw)
        self.assertEqual(results.ratio("pairs/16", "tidepool", "malloc").repetitions, 6)
        self.assertEqual(results.ratio("pairs/200", "tidepool", "malloc").repetitions, 8)
        self.assertEqual(results.ratio("pairs/200", "tidepool", "malloc")[:3], (1, 1, 4))
        self.assertEqual(results.mean_ratio("tidepool", "malloc"), (1, 1, 1, 6))
        for text in shown(results):
            self.assertIn("Medians of 8 repetitions", text)
            self.assertIn("Fewer of pairs/16 with tidepool (6).", text)
        self.assertNotIn("Fewer of", report.terminal(Results(made_up.raw())))

    def test_a_mean_of_too_few_shared_repetitions_is_a_dash_that_is_explained(self):
        """Each case has six of eight, and the two have four in common."""
        failures = [{"case": case, "allocator": "jemalloc", "what": "ended"} for case in ("pairs/16", "pairs/200")]
        raw = made_up.raw(None, ["pairs/16", "pairs/200"], failures=failures)
        lost = {("pairs/16", "jemalloc"): (0, 1), ("pairs/200", "jemalloc"): (6, 7)}
        raw["runs"] = [run for run in raw["runs"] if run["repetition"] not in lost.get((run["case"], run["allocator"]), ())]
        results = Results(raw)
        self.assertEqual(tables.mean_rows(results, data.GENERAL)[1][1:3], ["0.50 (0.50-0.50)", "-"])
        for text in texts(results):
            self.assertIn(" A dash: fewer than 6 repetitions have all of these cases.", text)
        self.assertNotIn("A dash", report.terminal(Results(made_up.raw())))

    def test_a_mean_lies_in_its_interval(self):
        noise = random.Random(3)
        columns = [{r: noise.lognormvariate(0, 1) for r in range(9) if r != missing} for missing in (0, 4, 99)]
        mean = data.median_of_means(columns)
        self.assertTrue(mean.low < mean.middle < mean.high)
        self.assertEqual(mean.repetitions, 7)
        self.assertIsNone(data.median_of_means(columns + [{r: 1.0 for r in range(6)}]))
        self.assertIsNone(data.median_of_means([]))

    def test_few_repetitions_have_no_interval_and_are_no_measurement(self):
        """The quartiles of one value."""
        results = Results(made_up.raw(repetitions=data.LEAST_REPETITIONS - 1))
        self.assertIsNone(results.ratio("pairs/16", "tidepool", "malloc"))
        self.assertEqual(results.allocators, [])
        self.assertEqual(len(results.not_measured()), 8)


class Order(unittest.TestCase):
    NAMES = ["a/quick", "b/slow", "c/same", "d/slower", "e/quickest", "f/peer"]
    TIMES = {("b/slow", "tidepool"): 30.0, ("d/slower", "tidepool"): 90.0, ("c/same", "tidepool"): 20.0,
             ("e/quickest", "tidepool"): 1.0, **dict.fromkeys([(case, "jemalloc") for case in NAMES], 500.0),
             ("f/peer", "jemalloc"): 5.0}
    EXPECTED = ["d/slower", "f/peer", "b/slow", "c/same", "a/quick", "e/quickest"]

    def test_what_is_slower_than_anybody_stands_first(self):
        results = Results(made_up.raw(self.TIMES, self.NAMES))
        self.assertEqual(tables.slowest_first(results, data.GENERAL), self.EXPECTED)
        text = report.terminal(results)
        self.assertEqual(re.findall(r"^([a-f]/\w+) ", text, re.MULTILINE), self.EXPECTED)

    @needs_page
    def test_what_is_slower_stands_first_on_the_page_too(self):
        text = shown(Results(made_up.raw(self.TIMES, self.NAMES)))[1]
        rows = re.findall(r"<td>([a-f]/\w+)</td>", text[text.index("Slowest first"):])
        self.assertEqual(list(dict.fromkeys(rows)), self.EXPECTED)

    def test_each_other_allocator_gets_its_count_the_slower_first(self):
        results = Results(made_up.raw(self.TIMES, self.NAMES))
        head, *rows = tables.verdict_rows(results)
        self.assertEqual(head, ["tidepool", "slower", "no difference shown", "faster"])
        self.assertEqual(rows, [["than malloc, of 6 cases", "2", "1", "3"], ["than jemalloc, of 6 cases", "1", "0", "5"],
                                ["than tcmalloc, of 6 cases", "5", "0", "1"]])
        self.assertEqual(next(tables.slower_lines(results)), "Slower than malloc: d/slower 4.50, b/slow 1.50.")
        self.assertRegex(tables.lead(results), "^Against the C library's malloc, tidepool is slower in 2 of 6 cases and faster "
                                               "in 3; in 1 no difference is shown. It takes ")


class Lead(unittest.TestCase):
    """What is said first, and that the tables are there whose figures are."""

    @staticmethod
    def lead_of(raw):
        return tables.lead(Results(raw))

    def test_only_heaps(self):
        raw = made_up.raw({("heaps/reset", "tidepool"): 90.0}, HEAPS)
        self.assertEqual(self.lead_of(raw), "Heaps: against the C library's malloc to the same end, tidepool is slower in 1 of "
                                            "2 cases and faster in 1; in 0 no difference is shown.")
        for text in shown(Results(raw)):
            self.assertIn("Medians of 8 repetitions", text)

    def test_cases_of_which_malloc_has_none(self):
        raw = without(made_up.raw(None, HEAPS), *[(case, "malloc") for case in HEAPS])
        self.assertEqual(self.lead_of(raw), "Not measured: the C library's malloc. So the two are not compared here.")
        raw = without(made_up.raw(None, GENERAL[:2]), ("pairs/16", "malloc"), ("pairs/200", "tidepool"))
        self.assertEqual(self.lead_of(raw), "No case was measured with both tidepool and the C library's malloc.")

    def test_no_case_that_all_ran(self):
        """tidepool and malloc ran both: that stands in every table, and only means are missing."""
        raw = without(made_up.raw(None, ["pairs/16", "slots/wide"]), ("pairs/16", "tcmalloc"), ("slots/wide", "jemalloc"))
        self.assertEqual(self.lead_of(raw), "Against the C library's malloc, tidepool is slower in 0 of 2 cases and faster in "
                                            "2; in 0 no difference is shown.")
        results = Results(raw)
        self.assertEqual([row[0] for row in tables.verdict_rows(results)[1:]],
                         ["than malloc, of 2 cases", "than jemalloc, of 1 case", "than tcmalloc, of 1 case"])
        self.assertRegex(report.terminal(results), r"(?m)^slots/wide +13\.5 ns +0\.50 \(0\.50-0\.50\) +faster ")
        for text in shown(results)[1:]:
            self.assertIn("Slowest first", text)
        for text in texts(results):
            self.assertIn("No means: there is no case that all of tidepool, malloc, jemalloc and tcmalloc ran.", text)
            self.assertIn("than malloc, of 2 cases", text)

    def test_some_cases_that_not_all_ran(self):
        raw = without(made_up.raw(None, GENERAL), ("pairs/16", "tcmalloc"))
        self.assertEqual(self.lead_of(raw), "Against the C library's malloc, tidepool is slower in 0 of 3 cases and faster in "
                                            "3; in 0 no difference is shown. It takes 0.50 times the time and 1.00 times the "
                                            "peak memory in the geometric mean over the 2 cases that all allocators ran.")

    def test_tidepool_or_malloc_or_both_not_measured(self):
        malloc = "the C library's malloc"
        for gone, said in (["tidepool"], "tidepool"), (["malloc"], malloc), (["tidepool", "malloc"], f"tidepool and {malloc}"):
            raw = without(made_up.raw(None, GENERAL + HEAPS), *[(case, a) for case in GENERAL + HEAPS for a in gone])
            self.assertEqual(self.lead_of(raw), f"Not measured: {said}. So the two are not compared here.")
            results = Results(raw)
            for text in texts(results):
                self.assertIn(f"Not measured with {gone[0]} (5 cases)", text)
            hero = tables.subject_of(results)
            self.assertNotIn(f"/ {hero}", tables.case_rows(results, data.GENERAL)[0])

    def test_memory_that_no_case_has_is_in_no_mean(self):
        raw = made_up.raw(None, GENERAL + HEAPS)
        for run in raw["runs"]:
            run["live"] = 16
        results = Results(raw)
        for kind in data.GENERAL, "heaps":
            self.assertEqual(tables.mean_rows(results, kind)[0], ["", "time / malloc", "time / jemalloc"])
            self.assertIn(". None of memory: in none of them at least 1 MiB is live.", tables.mean_words(results, kind)[-80:])
        self.assertTrue(self.lead_of(raw).endswith(" It takes 0.50 times the time in the geometric mean."))


class OwnKinds(unittest.TestCase):
    def test_each_stands_against_what_serves_the_same_end(self):
        times = {("object_pools/pairs_by_hand", "malloc"): 2.5}
        results = Results(made_up.raw(times, ["pairs/16", *HEAPS, *OBJECT_POOLS]))
        self.assertEqual(tables.case_rows(results, "heaps")[0],
                         ["tidepool", "time", "/ malloc, each freed", "", "/ jemalloc's arenas", "", "peak memory"])
        head, pairs = tables.case_rows(results, "object_pools")
        self.assertEqual(head[2:8:2], ["/ malloc, made again", "/ jemalloc, made again", "/ a list by hand"])
        self.assertEqual(pairs[2:8], ["0.50 (0.50-0.50)", FASTER, "0.25 (0.25-0.25)", FASTER, "4.00 (4.00-4.00)", SLOWER])
        text = report.terminal(results)
        self.assertIn("Heaps, against what serves the same end", text)
        general, own = text.split("Heaps, against", 1)
        self.assertNotIn("heaps/pair", general)
        self.assertIn("heaps/pair", own)


class Missing(unittest.TestCase):
    def test_a_repetition_that_was_cut_does_not_count(self):
        raw = made_up.raw({("pairs/16", "tidepool"): lambda r: 1e9 if r == 8 else 10.0}, repetitions=9)
        raw["runs"] = [run for run in raw["runs"]
                       if run["repetition"] < 8 or (run["case"], run["allocator"]) == ("pairs/16", "tidepool")]
        results = Results(raw)
        self.assertEqual(results.repetitions, 8)
        self.assertEqual(len(results.runs["pairs/16", "tidepool"]), 8)

    def test_a_case_that_failed_does_not_make_its_repetitions_incomplete(self):
        raw = without(made_up.raw(failures=[{"case": "pairs/16", "allocator": "tcmalloc", "what": "ended"}]))
        raw["runs"] = [run for run in raw["runs"]
                       if (run["case"], run["allocator"]) != ("pairs/16", "tcmalloc") or run["repetition"] <= 1]
        results = Results(raw)
        self.assertEqual(results.repetitions, 8)
        self.assertIsNone(results.of("pairs/16", "tcmalloc", "ns"))
        self.assertEqual(results.not_measured(), [("pairs/16", "tcmalloc")])

    def test_what_was_not_measured_is_listed_everywhere(self):
        gone = ("pairs/200", "tcmalloc"), ("slots/wide", "tcmalloc"), ("heaps/pair", "jemalloc")
        raw = without(made_up.raw(None, GENERAL + HEAPS), *gone)
        for text in texts(Results(raw)):
            self.assertIn("Not measured with tcmalloc (2 cases): pairs/200, slots/wide.", text)
            self.assertIn("Not measured with jemalloc (1 case): heaps/pair.", text)
        for text in texts(Results(made_up.raw(None, GENERAL + HEAPS))):
            self.assertNotIn("Not measured", text)

    def test_an_allocator_that_measured_nothing_is_told(self):
        raw = without(made_up.raw(None, ["pairs/16"]), ("pairs/16", "tcmalloc"))
        self.assertEqual(Results(raw).allocators, ["tidepool", "malloc", "jemalloc"])
        self.assertIn("Not measured with tcmalloc (1 case): pairs/16.", report.terminal(Results(raw)))


class Unusable(unittest.TestCase):
    """Figures that cannot be any: Python's JSON has NaN and infinity, and a file may be written by hand."""

    def refused(self, key, value, google=False):
        raw = made_up.raw(None, ["pairs/16", "latency/x/threads:1"])
        case = "latency/x/threads:1" if google else "pairs/16"
        run = next(r for r in raw["runs"] if (r["case"], r["allocator"], r["repetition"]) == (case, "jemalloc", 3))
        (run["google"] if google else run)[key] = value
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "raw.json")
            path.write_text(json.dumps(raw))
            done = subprocess.run([sys.executable, report.__file__, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, timeout=600, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f'report: {path}: jemalloc, {case}, "repetition": 3: {key} is {json.dumps(value)}\n')

    def test_they_are_refused_with_the_run(self):
        for value in math.nan, math.inf, 0, 0.0, -5.0, None, "12", True:
            with self.subTest(value=value):
                self.refused("ns", value)
        for key in "peak", "live":
            for value in math.nan, -1, None:
                with self.subTest(key=key, value=value):
                    self.refused(key, value)
        self.refused("end", -math.inf)
        self.refused("alloc_p99.9_ns", math.nan, google=True)
        self.refused("clock_ns", -1, google=True)

    def test_memory_may_not_grow_or_even_shrink(self):
        raw = made_up.raw()
        for run in raw["runs"]:
            run["peak"], run["live"], run["end"] = 0, 0, -4096
        self.assertIsNone(Results(raw).ratio("pairs/16", "tidepool", "malloc", "peak"))

    def test_a_soak_that_cannot_be(self):
        with self.assertRaisesRegex(data.Unusable, "^soak, held, row 1: held is NaN$"):
            Results(made_up.raw(soak={"held": [1.0, math.nan]}))


class Whole(unittest.TestCase):
    """Results that have everything, and some that have little."""
    def test_the_table(self):
        table = report.terminal(Results(made_up.everything()))
        self.assertRegex(table, r"(?m)^pairs/16 +13\.5 ns +0\.50 \(0\.50-0\.50\) +faster +0\.25 ")
        self.assertIn("threads/slots, 2 threads", table)
        self.assertIn("Failed: slots/<&>: ended", table)

    def test_markdown_has_as_many_cells_in_each_row(self):
        found = re.findall(r"(?:^\|.*\|$\n?)+", report.markdown(Results(made_up.everything())), re.MULTILINE)
        self.assertEqual(len(found), 4)
        for table in found:
            self.assertEqual(len({line.count("|") for line in table.splitlines()}), 1, table)

    def test_one_subject_alone_has_a_report(self):
        for names in HEAPS, OBJECT_POOLS, ["latency/x/threads:1"], ["pairs/16"]:
            self.assertTrue(all(texts(Results(made_up.raw(None, names)))))

    def test_without_a_library_there_are_the_tables_and_a_line(self):
        """Whichever of the two is missing, the page cannot be imported."""
        with tempfile.TemporaryDirectory() as folder:
            path, html = pathlib.Path(folder, "raw.json"), pathlib.Path(folder, "report.html")
            path.write_text(json.dumps(made_up.everything()))
            for library in "jinja2", "matplotlib":
                called = f"import sys; sys.modules['{library}'] = None; import report; report.main()"
                done = subprocess.run([sys.executable, "-c", called, path], cwd=pathlib.Path(report.__file__).parent,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(report.terminal(Results(made_up.everything())), done.stdout)
                self.assertRegex(done.stdout, r"(?m)^No report\.html: this Python has no (jinja2|matplotlib)\b")
                self.assertIn("python3-jinja2 and python3-matplotlib", done.stdout)
                self.assertFalse(html.exists())


unittest.main()
