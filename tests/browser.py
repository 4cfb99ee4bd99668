"""A headless Chromium for tests, driven over its DevTools pipe.

It needs no driver, no network port, and no installation except the browser.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Chromium reads commands from descriptor 3 and answers on 4; a pytest with threads must not run
# Python between fork and exec
_LAUNCHER = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_OPTIONS = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # CI is root, for whom Chromium's sandbox does not start; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
]


def find_chromium() -> str | None:
    """The browser named by CHROMIUM, or the first found."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One Chromium with one page.

    ``events`` holds everything that the page reported since it was opened.
    """

    def __init__(self, program: str, profile: str, timeout: float = 30.0) -> None:
        self.timeout = timeout
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        self._count = 0
        self._buffer = b""
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        options = [*_OPTIONS, f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, str(commands), str(answers), program, *options],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        answer = self._read_until(
            lambda message: message.get("id") == self._count, f"an answer to {method}"
        )
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, path: Path) -> None:
        """Open a file and wait until it is loaded and drawn."""
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        self._read_until(
            lambda message: message.get("method") == "Page.loadEventFired", f"{path} to load"
        )
        self.settle()

    def settle(self) -> None:
        """Wait until what was changed is drawn."""
        self.run(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>"
            " done(true))))"
        )

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression, awaited where it is a promise."""
        answer = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(
                f"{script}: {answer['exceptionDetails'].get('exception', {}).get('description')}"
            )
        return answer["result"].get("value")

    def wait_for(self, script: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + self.timeout
        while not self.run(script):
            if time.monotonic() > until:
                raise TimeoutError(f"not true after {self.timeout} s: {script}")
            time.sleep(0.02)

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.settle()

    def prefer(self, **features: str) -> None:
        """Media features: ``prefer(color_scheme="dark", reduced_motion="reduce")``.

        Those not named are as by default.
        """
        named = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in features.items()
        ]
        self.send("Emulation.setEmulatedMedia", features=named)
        self.settle()

    def middle(self, selector: str) -> tuple[float, float]:
        """Scroll an element into view and tell where its middle is."""
        x, y = self.run(f"""(() => {{
                const element = document.querySelector({json.dumps(selector)});
                element.scrollIntoView({{block: "center", behavior: "instant"}});
                const {{left, top, width, height}} = element.getBoundingClientRect();
                return [left + width / 2, top + height / 2];
            }})()""")
        return x, y

    def move(self, x: float, y: float) -> None:
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, selector: str) -> None:
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def tap(self, x: float, y: float) -> None:
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.settle()

    def press(self, key: str) -> None:
        """Press a key that types nothing, such as ArrowRight."""
        codes = {
            "Enter": 13,
            "Escape": 27,
            "End": 35,
            "Home": 36,
            "ArrowLeft": 37,
            "ArrowUp": 38,
            "ArrowRight": 39,
            "ArrowDown": 40,
        }
        for kind in ("rawKeyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
            )
        self.settle()

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)[
            "data"
        ]
        path.write_bytes(base64.b64decode(data))

    def problems(self) -> list[str]:
        """Errors, warnings, dialogs and outside requests since the page was opened.

        Requests for files and data URLs are not counted.
        """
        found = []
        for event in self.events:
            parameters = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    found.append(
                        parameters["exceptionDetails"]
                        .get("exception", {})
                        .get("description", "exception")
                    )
                case "Runtime.consoleAPICalled" if parameters["type"] in (
                    "error",
                    "warning",
                    "assert",
                ):
                    found.append(
                        f"console: {[argument.get('value') for argument in parameters['args']]}"
                    )
                case "Log.entryAdded":
                    found.append(f"{parameters['entry']['source']}: {parameters['entry']['text']}")
                case "Page.javascriptDialogOpening":
                    found.append(f"dialog: {parameters['message']}")
                case "Network.requestWillBeSent" if not parameters["request"]["url"].startswith(
                    ("file:", "data:", "blob:")
                ):
                    found.append(f"request: {parameters['request']['url']}")
        return found

    def close(self) -> None:
        self._session = None
        with contextlib.suppress(OSError, EOFError, RuntimeError):
            self.send("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def _read_until(self, wanted: Any, what: str) -> dict[str, Any]:
        until = time.monotonic() + self.timeout
        while True:
            message = self._read(until, what)
            if "method" in message:
                self.events.append(message)
                # A dialog would block the page, and the test with it.
                if message["method"] == "Page.javascriptDialogOpening":
                    self._count += 1
                    answer = {
                        "id": self._count,
                        "method": "Page.handleJavaScriptDialog",
                        "params": {"accept": False},
                    }
                    os.write(
                        self._out,
                        json.dumps({**answer, "sessionId": self._session}).encode() + b"\0",
                    )
            if wanted(message):
                return message

    def _read(self, until: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError(f"waited {self.timeout} s for {what}")
            chunk = os.read(self._in, 1 << 20)
            if not chunk:
                raise EOFError(f"Chromium ended before {what}")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


@contextlib.contextmanager
def open_browser(program: str) -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            yield browser
        finally:
            browser.close()
