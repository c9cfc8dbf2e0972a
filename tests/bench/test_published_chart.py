# SPDX-License-Identifier: MIT
"""The chart of the README, from a table with known bars."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree as tree

sys.dont_write_bytecode = True   # the source tree stays as it is
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import published_chart   # noqa: E402  pylint: disable=wrong-import-position

TEXT = """# Text
<!-- chart begin -->
| time / malloc | one | the <other> |
| --- | --- | --- |
| ours | 0.50 | 1.00 |
| theirs | 1.10 | 0.999 |
<!-- chart end -->
"""
SVG = "{http://www.w3.org/2000/svg}"


class Chart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.text = pathlib.Path(folder.name) / "text.md"
        self.text.write_text(TEXT)

    def main(self, *arguments):
        """What it says where it fails."""
        with unittest.mock.patch.object(sys, "argv", ["published_chart.py", *map(str, arguments)]):
            try:
                published_chart.main()
            except SystemExit as end:
                return end.code
        return None

    def picture(self):
        self.assertIsNone(self.main(self.text))
        return tree.parse(self.text.with_name("programs.svg")).getroot()

    def test_bars_are_as_long_as_their_ratios(self):
        bars = [float(bar.get("width")) for bar in self.picture().iter(f"{SVG}rect") if "bar" in bar.get("class")]
        line = float(next(self.picture().iter(f"{SVG}line")).get("x1")) - published_chart.LEFT
        for bar, ratio in zip(bars, (0.5, 1.1, 1, 0.999), strict=True):
            self.assertAlmostEqual(bar / line, ratio, places=3)

    def test_words(self):
        words = [text.text for text in self.picture().iter(f"{SVG}text")]
        for expected in ("Time of fourteen programs, against malloc", "one", "the <other>", "0.50, 50 % less",
                         "1.10, 10 % more", "1.00, the same", "1: malloc"):
            self.assertIn(expected, words)
        told = next(self.picture().iter(f"{SVG}desc")).text
        self.assertEqual(told, "one: ours 0.50, theirs 1.10; the <other>: ours 1.00, theirs 0.999.")

    def test_everything_is_inside(self):
        root = self.picture()
        self.assertTrue(all(float(text.get("y")) < float(root.get("height")) for text in root.iter(f"{SVG}text")))

    def test_another_picture_fails_the_check(self):
        self.assertIn("is not the picture of the table", self.main("--check", self.text))   # there is none yet
        self.picture()
        self.assertIsNone(self.main("--check", self.text))
        self.text.write_text(TEXT.replace("0.50", "0.51"))
        self.assertIn("is not the picture of the table", self.main("--check", self.text))

    def test_text_without_a_table(self):
        self.text.write_text("# Text\n")
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertRaisesRegex(ValueError, "no table", self.main, self.text)


if __name__ == "__main__":
    unittest.main()
