# SPDX-License-Identifier: MIT
"""One Chromium for all tests of a run, without a window and a network, driven through the pipe of its DevTools protocol.

A page is opened at a width, in light or dark. Scripts are evaluated in it, and keys work as for a user. What the page writes to
the console is kept: it has no errors there."""

import atexit
import base64
import functools
import json
import os
import shutil
import subprocess
import tempfile

PROGRAM = shutil.which("chromium")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
           "--force-device-scale-factor=1", "--remote-debugging-pipe")
KEYS = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "/": 191}


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="browser")
        from_test, self.requests = os.pipe()
        self.answers, to_test = os.pipe()
        # The browser reads descriptor 3 and writes 4; bash puts the two ends there, whatever their numbers are.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{from_test} 4>&{to_test}', "bash", PROGRAM, *OPTIONS,
             f"--user-data-dir={self.folder.name}", "about:blank"],
            pass_fds=(from_test, to_test), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_test)
        os.close(to_test)
        self.left, self.number, self.session, self.events = b"", 0, None, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(domain + ".enable")

    def read(self):
        while b"\0" not in self.left:
            part = os.read(self.answers, 1 << 20)
            assert part, "the browser has ended"
            self.left += part
        text, self.left = self.left.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        message.update({"sessionId": self.session} if self.session else {})
        os.write(self.requests, json.dumps(message).encode() + b"\0")
        while (said := self.read()).get("id") != self.number:
            self.events.append(said)
        assert "error" not in said, (method, said["error"])
        return said["result"]

    def wait(self, method):
        while not any(event["method"] == method for event in self.events):
            self.events.append(self.read())

    def view(self, width, scheme, height=900):
        """The window is that wide from now on, and it is light or dark; one of a phone is touched, too."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setTouchEmulationEnabled", enabled=width < 600)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path, width=1400, scheme="light", height=900):
        """The page once its scripts have run."""
        self.view(width, scheme, height)
        self.events.clear()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self.wait("Page.loadEventFired")

    def run(self, script):
        """What an expression is in the page, as JSON has it."""
        done = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def dom(self):
        return self.run("document.documentElement.outerHTML")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "") if kind == "keyDown" else ""
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=KEYS.get(key, 0), text=text)

    def write(self, text):
        self.ask("Input.insertText", text=text)

    def complaints(self):
        """Errors of scripts, and whatever the page has written to the console."""
        self.run("0")   # what came before this has been reported
        return [event["params"] for event in self.events
                if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")]

    def picture(self, path):
        """Of the whole page, or as much of it as anybody looks at."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
        picture = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(picture["data"]))

    def close(self):
        self.session = None
        self.ask("Browser.close")
        self.process.wait()
        os.close(self.requests)
        os.close(self.answers)
        self.folder.cleanup()


@functools.cache
def shared():
    """Started once, by the first test that needs it."""
    started = Browser()
    atexit.register(started.close)
    return started
