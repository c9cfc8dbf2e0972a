# SPDX-License-Identifier: MIT
"""The page of the report: is it one file, are its pictures text and the same for the same results."""
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import made_up
from made_up import HEAPS, OBJECT_POOLS, needs_page, page

import report
import results as data
from results import Results


@functools.cache
def page_of_everything():
    return page.page(Results(made_up.everything()))


@needs_page
class Page(unittest.TestCase):
    def test_it_is_well_formed_and_needs_nothing_beside_it(self):
        results, text = Results(made_up.everything()), page_of_everything()
        tree = xml.etree.ElementTree.fromstring(text.split("\n", 1)[1])
        drawings = [element for element in tree.iter() if element.tag.endswith("}svg")]
        self.assertEqual(len(drawings), 5 + len(results.subjects()))
        self.assertFalse(any(element.tag.endswith(("}script", "}link", "}img")) for element in tree.iter()))
        without_style = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).lower()
        self.assertNotRegex(without_style, r"nan|inf\b|\b(?:src|href)=(?!\"#)|url\((?!#)|@import")

    def test_a_name_in_it_is_there_once_and_each_that_is_referred_to(self):
        text = page_of_everything()
        names = re.findall(r'\sid="([^"]*)"', text)
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual(set(re.findall(r'(?:href="|url\()#([^")]+)', text)), set(names))

    def test_text_in_pictures_is_text(self):
        tree = xml.etree.ElementTree.fromstring(page_of_everything().split("\n", 1)[1])
        words = {"".join(element.itertext()) for element in tree.iter() if element.tag.endswith("}text")}
        for expected in ("tidepool", "jemalloc", "slots/<&>", "a < b & c", "13.5 ns", "0.50×", "not measured", "3.00 MiB",
                         "p99.99", "100 ns", "the clock alone", "threads", "at the top", "mean: 0.50× time, 1.00× memory"):
            self.assertIn(expected, words)

    def test_the_same_results_make_the_same_page(self):
        """In another process, whose sets have another order; for a user with another time zone, who likes other pictures."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "raw.json")
            path.write_text(json.dumps(made_up.everything()))
            pathlib.Path(folder, "matplotlibrc").write_text("font.size: 30\nsvg.fonttype: path\nbackend: pdf\naxes.grid: no\n")
            environment = {**os.environ, "MATPLOTLIBRC": folder, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
            subprocess.run([sys.executable, report.__file__, path], stdout=subprocess.DEVNULL, env=environment, timeout=600,
                           check=True)
            written = pathlib.Path(folder, "report.html").read_text(encoding="utf-8")
        self.assertEqual(written, page_of_everything())

    def test_an_allocator_without_a_colour_of_its_own_has_one(self):
        raw = made_up.raw(None, ["pairs/16"])
        text = json.dumps(raw).replace("tcmalloc", "newalloc")
        self.assertIn("newalloc", page.page(Results(json.loads(text))))

    def test_labels_are_spread(self):
        self.assertEqual(sorted(page.charts.spread_labels([5.0, 5.0, 5.0], 10, 0, 100)), [5.0, 15.0, 25.0])
        self.assertEqual(page.charts.soak(None), "")
        self.assertIsNone(data.figure([]))

    def test_one_subject_alone_has_a_page(self):
        for names in HEAPS, OBJECT_POOLS, ["latency/x/threads:1"], ["pairs/16"]:
            xml.etree.ElementTree.fromstring(page.page(Results(made_up.raw(None, names))).split("\n", 1)[1])


unittest.main()
