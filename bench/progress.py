# SPDX-License-Identifier: MIT
"""How far a session is: a bar that rich draws on a terminal, and one line for each stage elsewhere."""
import sys
import time


def bar_on_terminal(seconds):
    """A bar of rich's, or None. Drawn when something happens, not by a thread, which would run beside what is measured."""
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    except ImportError:
        print("bench: no progress bar: this Python has no rich (Debian package python3-rich)", file=sys.stderr)
        return None
    console = Console(stderr=True)
    if not console.is_interactive:
        return None
    bar = Progress(BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[left]} left"),
                   TextColumn("{task.description}", markup=False), console=console, transient=True, auto_refresh=False)
    bar.add_task("", total=seconds, left="")
    return bar


class Progress:
    def __init__(self, seconds):
        self.start, self.seconds, self.bar = time.monotonic(), seconds, bar_on_terminal(seconds)

    def elapsed(self):
        return time.monotonic() - self.start

    def step(self, stage, case, allocator):
        if self.bar:
            left = max(0, self.seconds - self.elapsed())
            self.bar.start()
            self.bar.update(self.bar.task_ids[0], completed=min(self.elapsed(), 0.99 * self.seconds), refresh=True,
                            left=f"{left // 60:.0f}:{left % 60:02.0f}", description=f"{stage}  {case}  {allocator}")

    def stage(self, stage):
        if not self.bar:
            print(f"{self.elapsed():4.0f} s  {stage}", file=sys.stderr, flush=True)

    def say(self, line):
        if self.bar:
            self.bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def finish(self):
        """Takes the bar away; a further step brings it back."""
        if self.bar:
            self.bar.stop()
