"""A headless Chromium, spoken to through its debugging pipe; no package is needed for that."""

import json
import os
import select
import shutil
import signal
import time
from urllib.parse import unquote

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DEADLINE = 60.0
FLAGS = (
    "--headless",
    "--no-sandbox",  # the tests of a container run as root; the only page is our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def find_browser():
    """The path of a Chromium on this machine, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """The process; it reads requests from its descriptor 3 and answers on 4."""

    def __init__(self, path, profile):
        theirs_in, ours_out = (self._high(fd) for fd in os.pipe())
        ours_in, theirs_out = (self._high(fd) for fd in os.pipe())
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        pipes = [(os.POSIX_SPAWN_DUP2, theirs_in, 3), (os.POSIX_SPAWN_DUP2, theirs_out, 4)]
        argv = [path, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        env = {**os.environ, "HOME": str(profile)}
        self.pid = os.posix_spawn(path, argv, env, file_actions=quiet + pipes, setpgroup=0)
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = ours_in, ours_out
        self._rest, self._number = b"", 0
        self.events = []

    @staticmethod
    def _high(fd):
        """The same descriptor with a number that is neither 3 nor 4."""
        import fcntl  # here, as other systems than POSIX have to be able to read this file

        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
        os.close(fd)
        return high

    def call(self, method, session=None, **params):
        """Ask, and wait for the answer; events meanwhile are kept."""
        self._number += 1
        number = self._number
        request = {"id": number, "method": method, "params": params}
        if session is not None:
            request["sessionId"] = session
        os.write(self._out, json.dumps(request).encode() + b"\0")
        answer = self.wait(lambda message: message.get("id") == number, f"the answer to {method}")
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def wait(self, wanted, what):
        """The first message that is wanted; the others are events."""
        for k, message in enumerate(self.events):
            if wanted(message):
                return self.events.pop(k)
        end = time.monotonic() + DEADLINE
        while True:
            message = self._read(end, what)
            if wanted(message):
                return message
            if "method" in message:
                self.events.append(message)

    def _read(self, end, what):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the browser has not sent {what} in time"
            data = os.read(self._in, 1 << 16)
            assert data, f"the browser has ended before {what}"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, path, width=1100, height=900, dark=False):
        """A new tab with a file in it, loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        return Tab(self, target, attached["sessionId"], path, (width, height), dark)

    def close(self):
        """End the process and its children."""
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._in)
        os.close(self._out)


class Tab:
    """A page."""

    def __init__(self, browser, target, session, path, size, dark):
        self.browser, self.target, self.session = browser, target, session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(*size)
        self.scheme("dark" if dark else "light")
        self.url = path.resolve().as_uri()
        self.call("Page.navigate", url=self.url)
        self._wait("Page.loadEventFired")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def _wait(self, event):
        def wanted(message):
            return message.get("method") == event and message.get("sessionId") == self.session

        self.browser.wait(wanted, event)

    def resize(self, width, height):
        sizes = {"width": width, "height": height}
        small = width < 500
        self.call("Emulation.setDeviceMetricsOverride", **sizes, deviceScaleFactor=1, mobile=small)

    def scheme(self, value, media=""):
        feature = {"name": "prefers-color-scheme", "value": value}
        self.call("Emulation.setEmulatedMedia", media=media, features=[feature])

    def run(self, script):
        """The value of an expression in the page; of a promise, what it promises."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def hover(self, script):
        """Move the mouse to the middle of the element that an expression gives."""
        box = f"(() => {{ const e = {script}; e.scrollIntoView({{block: 'center'}});"
        box += " const r = e.getBoundingClientRect();"
        box += " return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        x, y = self.run(box)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, script):
        self.hover(script)
        box = f"(() => {{ const r = ({script}).getBoundingClientRect();"
        x, y = self.run(box + " return [r.left + r.width / 2, r.top + r.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def complaints(self):
        """What the console and the log have said, and exceptions."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [m["params"] for m in self._events() if m["method"] in kinds]

    def requests(self):
        """What was asked for, but for the page itself."""
        events = [m for m in self._events() if m["method"] == "Network.requestWillBeSent"]
        urls = [m["params"]["request"]["url"] for m in events]
        return [url for url in urls if unquote(url) != unquote(self.url)]

    def _events(self):
        self.run("1")  # what happened before has arrived with the answer
        return [m for m in self.browser.events if m.get("sessionId") == self.session]
