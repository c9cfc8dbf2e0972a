#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A service with a leak, to try the tools on. It loads a catalogue, which it needs, and then answers requests. The cache of
rendered reports has the number of the request in its key, so no report is found again and none is ever removed.

    tidepool record --frames 32 -o python.recording python3 report.py
    tidepool show -o python.html python.recording
    tidepool diff --from 1 python.recording
"""

import sys

ITEMS, REQUESTS, LINES = 73_000, 3_500, 130


def load_catalogue():
    """What the service needs: it stays, and does not grow."""
    return [{"id": i, "name": f"item {i}", "price": i % 997 / 10, "text": f"What item {i} is good for. " + "x" * 80}
            for i in range(ITEMS)]


def render(catalogue, first, lines):
    """One report, as text."""
    return "\n".join([f"{item['name']}: {item['text']}" for item in catalogue[first:first + lines]])


class Service:
    """Answers requests for reports of some number of lines."""

    def __init__(self):
        self.catalogue = load_catalogue()
        self.rendered = {}

    def answer(self, request, lines):
        key = (request, lines)   # the leak: `lines` alone was meant
        if key not in self.rendered:
            self.rendered[key] = render(self.catalogue, request * 19 % (ITEMS - lines), lines)
        return self.rendered[key]


def main():
    service = Service()
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    length = sum(len(service.answer(request, LINES + request % 40)) for request in range(requests))
    print(f"{requests} requests answered, {length} characters")


if __name__ == "__main__":
    main()
