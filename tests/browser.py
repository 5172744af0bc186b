"""A real headless Chromium, spoken to over its debugging pipe: what a page asks for, says, and looks like."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 120.0
FLAGS = (
    "--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


def program() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """One browser with one page. `requests`, `errors`: everything since it was opened."""

    def __init__(self, folder: Path) -> None:
        found = program()
        assert found is not None, "there is no Chromium: python tests/lab/cluster.py install"
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._folder = folder
        self._id = 0
        self._held = b""
        self._session = ""
        self._loaded = False
        # Chromium reads commands from descriptor 3 and writes to 4.
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        line = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        argv = ["bash", "-c", line, "bash", found, *FLAGS, *sandbox, f"--user-data-dir={folder}/profile", "about:blank"]
        home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
        # A killed Chromium leaves its socket there. The path of a socket has 107 bytes at most: too few for `folder`.
        self._scratch = tempfile.TemporaryDirectory(prefix="ddpkit-browser-", ignore_cleanup_errors=True)
        home["TMPDIR"] = self._scratch.name
        with (folder / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                argv,
                pass_fds=(theirs_in, theirs_out),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, **home},  # its caches are nobody's business
            )
        os.close(theirs_in)
        os.close(theirs_out)

    def __enter__(self) -> Browser:
        try:
            target = self.tell("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.tell(f"{domain}.enable")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._to)
        os.close(self._from)
        self._scratch.cleanup()

    # ---- the page

    def open(self, page: Path | str) -> None:
        """Show a file or an address, and wait until everything in it is there."""
        self._loaded = False
        self.tell("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        self._wait_for_load()

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page, as if the reader had clicked for it."""
        how = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        found = self.tell("Runtime.evaluate", expression=expression, **how)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def look(self, *, width: int = 1100, dark: bool = False, media: str = "screen") -> None:
        """How wide the window is, and what the reader prefers."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.tell("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def paper(self) -> bytes:
        """The page as it is printed: a PDF."""
        return base64.b64decode(self.tell("Page.printToPDF", printBackground=True)["data"])

    # ---- the pipe

    def _wait_for_load(self) -> None:
        until = time.monotonic() + PATIENCE
        while not self._loaded:
            self._take(self._read(until))

    def tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            event = self._read(until)
            if event.get("id") == self._id:
                assert "error" not in event, f"{method}: {event['error']}"
                result: dict[str, Any] = event["result"]
                return result
            self._take(event)

    def _read(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._held:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self._from, 1 << 16) if ready else b""
            assert data, f"Chromium says nothing: {(self._folder / 'chromium.log').read_text(errors='replace')[-2000:]}"
            self._held += data
        line, _, self._held = self._held.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _take(self, event: dict[str, Any]) -> None:
        kind, found = event.get("method"), event.get("params", {})
        if kind == "Page.loadEventFired":
            self._loaded = True
        elif kind == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])
        elif kind == "Runtime.exceptionThrown":
            self.errors.append(str(found["exceptionDetails"]))
        elif kind == "Runtime.consoleAPICalled":
            self.errors.append(f"console.{found['type']}: {found['args']}")
        elif kind == "Log.entryAdded":
            self.errors.append(f"{found['entry']['level']}: {found['entry']['text']}")
