"""Drives Chromium with Python's standard library alone: DevTools messages (JSON, each ended by a
zero byte) over --remote-debugging-pipe, which the browser reads from descriptor 3 and answers on 4.

    with Browser() as browser:
        browser.open("page.html", width=1400, height=900)
        browser.run("document.title")
        browser.click(100, 200)

The browser has no network: every host name fails and so does every proxy. What a page prints on the
console, exceptions, and requests that are not for the page itself are collected in `messages`.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
VIRTUAL_KEYS = {"Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
SECONDS = 60  # for one answer


def find():
    """The path of a Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


# ---- for programs that check a page ----

failures = []


def need_browser():
    """Ends the program with exit code 77 where there is no Chromium."""
    if not find():
        print("no Chromium on this machine")
        sys.exit(77)


def check(holds, *what):
    """Keeps the words of what does not hold."""
    if not holds:
        failures.append(" ".join(map(str, what)))


def end_checks(browser):
    """Prints what did not hold and what the page has written; ends the program with 1 where there is any."""
    failures.extend(browser.messages)
    print(*("FAILED " + line for line in failures[:40]), sep="\n", end="\n" if failures else "")
    print(f"{len(failures)} failures")
    sys.exit(bool(failures))


class Browser:
    def __init__(self):
        self.messages = []
        self.loaded = False
        self.count = 0
        self.buffer = b""
        self.profile = tempfile.mkdtemp(prefix="limpid-browser-")
        self.process = self._start()
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(domain + ".enable")

    # Without its sandbox: Chromium refuses to run as root, and in many containers, with it, and the
    # pages are our own.
    def _start(self):
        to_child, self.write_end = os.pipe()
        self.read_end, from_child = os.pipe()

        def descriptors():  # in the child; the copies keep a pipe from being closed by the other
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)

        command = [find(), "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-extensions",
                   "--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
                   "--proxy-server=127.0.0.1:9", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb",
                   f"--user-data-dir={self.profile}", "about:blank"]
        process = subprocess.Popen(command, preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.session = None
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.send("Browser.close")
        except (RuntimeError, OSError):
            self.process.kill()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.profile, ignore_errors=True)

    # ---- messages ----

    def send(self, method, **parameters):
        """Sends a command and returns its result; what arrives meanwhile is noted."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        until = time.monotonic() + SECONDS
        while True:
            answer = self._receive(until)
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _receive(self, until):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0, until - time.monotonic()))
            data = os.read(self.read_end, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("the browser does not answer")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event):
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.consoleAPICalled":
            self.messages.append("console: " + " ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.messages.append("exception: " + details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded":
            self.messages.append("log: " + parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith(("file:", "data:", "blob:", "about:")):
                self.messages.append("request: " + url)

    # ---- pages ----

    def open(self, path, width=1400, height=900, dark=False, calm=True):
        """Opens a file and waits until it is loaded and drawn."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                    {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"}]
        self.send("Emulation.setEmulatedMedia", features=features)
        self.loaded = False
        self.send("Page.navigate", url="file://" + os.path.abspath(path))
        until = time.monotonic() + SECONDS
        while not self.loaded:
            self._note(self._receive(until))
        self.settle()

    def run(self, expression):
        """The value of a JavaScript expression; a promise is waited for."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def settle(self, seconds=0.05):
        """Waits for frames to be drawn."""
        self.run(f"new Promise(done => requestAnimationFrame(() => setTimeout(done, {int(seconds * 1000)})))")

    def wait_for(self, expression, again=None):
        """Until the expression is true; `again` is done once a second until then."""
        begun, times = time.monotonic(), 0
        while not self.run(f"Boolean({expression})"):
            seconds = time.monotonic() - begun
            if seconds > SECONDS:
                raise RuntimeError("never true: " + expression)
            if again and seconds >= times:
                again()
                times += 1
            self.settle()

    # ---- a hand on mouse and keyboard ----

    def move(self, x, y):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x, y):
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def tap(self, x, y):
        """A finger that does not move; needs Emulation.setTouchEmulationEnabled. The click comes a moment later."""
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def place(self, selector, x=None, y=None):
        """Scrolls an element into sight; the window coordinates of its middle, or of (x, y) in it."""
        script = """(([selector, x, y]) => {
            const e = document.querySelector(selector), around = e.closest(".scroll");
            e.scrollIntoView({block: "center", inline: "nearest"});
            if (around && x != null) around.scrollLeft = x - around.clientWidth / 2;
            if (around && y != null) around.scrollTop = y - around.clientHeight / 2;
            const b = e.getBoundingClientRect();
            if (y != null) window.scrollBy(0, b.top + y - window.innerHeight / 2);
            const now = e.getBoundingClientRect();
            return [now.left, now.top, now.width, now.height];
        })"""
        box = self.run(f"{script}({json.dumps([selector, x, y])})")
        return box[0] + (box[2] / 2 if x is None else x), box[1] + (box[3] / 2 if y is None else y)

    def key(self, key, code=None, shift=False):
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, modifiers=8 if shift else 0,
                      windowsVirtualKeyCode=VIRTUAL_KEYS.get(key, 0), **(text if kind == "keyDown" else {}))

    def screenshot(self, path, whole=False):
        parameters = {"format": "png"}
        if whole:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            parameters.update(captureBeyondViewport=True, clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.send("Page.captureScreenshot", **parameters)["data"]))
