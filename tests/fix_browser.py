"""A real browser without a window: Chromium, driven through the WebDriver protocol of its chromedriver."""

from __future__ import annotations

import base64
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock.waiting import wait_until
from penstock_stack import ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock_stack.airflow import Airflow

PROGRAMS = ("chromium", "chromedriver")
# The protocol names an element by this key.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# Keys without a character, as the protocol writes them.
KEYS = {"backspace": "\ue003", "shift": "\ue008", "end": "\ue010", "left": "\ue012", "right": "\ue014"}
OPTIONS = {"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1240,1110"]}


@dataclass
class Browser:
    """A window, and the actions that tests need. An element is named by its XPath."""

    driver: httpx.Client = field(repr=False)
    session: str
    signed_in: tuple[str, str] | None = None

    def sign_in(self, web: Airflow, user: str = "admin") -> None:
        """Sign in to Airflow, unless a test before has done so as the same user."""
        if self.signed_in == (web.url, user):
            return
        self.open(web.url)
        self._call("DELETE", "cookie")
        self.open(web.url)
        self.write("//input[@name='username']", user)
        self.write("//input[@name='password']", web.password(user))
        self.click("//button[@type='submit']")
        self.find("//*[normalize-space()='Browse']")
        self.signed_in = (web.url, user)

    def open(self, url: str) -> None:
        """Open a page."""
        self._call("POST", "url", {"url": url})

    def find(self, xpath: str, seconds: float = 90) -> str:
        """Wait until an element is there and visible; its id."""
        return str(self._wait(lambda: self._visible(xpath), seconds, f"the page shows {xpath}"))

    def shows(self, xpath: str) -> bool:
        """Whether an element is there and visible now."""
        return self._visible(xpath) is not None

    def click(self, xpath: str) -> None:
        """Click an element as soon as nothing covers it."""
        self._wait(lambda: self._act(xpath, "click", {}), 60, f"{xpath} can be clicked")

    def write(self, xpath: str, text: str) -> None:
        """Type a text into a field."""
        self._wait(lambda: self._act(xpath, "value", {"text": text}), 60, f"{xpath} takes a text")

    def drag(self, xpath: str, start: float, end: float) -> None:
        """Press the mouse over an element, move it and release it; 0 is the left edge and 1 the right one."""
        element = self.find(xpath)
        self.run("arguments[0].scrollIntoView({block: 'center'})", {ELEMENT: element})
        half = self._call("GET", f"element/{element}/rect")["width"] / 2
        places = [round((share - 0.5) * 2 * (half - 1)) for share in (start, (start + end) / 2, end)]
        moves = [{"type": "pointerMove", "origin": {ELEMENT: element}, "x": x, "y": 0, "duration": 50} for x in places]
        steps = [moves[0], {"type": "pointerDown", "button": 0}, *moves[1:], {"type": "pointerUp", "button": 0}]
        self._call("POST", "actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": steps}]})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a function's body in the page, and return its result."""
        return self._call("POST", "execute/sync", {"script": script, "args": list(arguments)})

    def read(self, xpath: str = "//body") -> str:
        """The text of an element as a person sees it."""
        return str(self._call("GET", f"element/{self.find(xpath)}/text"))

    def take_picture(self, path: Path, xpath: str | None = None) -> None:
        """Write what the window shows as a PNG, or one element of the page."""
        what = "screenshot" if xpath is None else f"element/{self.find(xpath)}/screenshot"
        path.write_bytes(base64.b64decode(self._call("GET", what)))

    def resize(self, width: int, height: int) -> None:
        """Give the window another size."""
        self._call("POST", "window/rect", {"width": width, "height": height})

    def _visible(self, xpath: str) -> str | None:
        for element in self._call("POST", "elements", {"using": "xpath", "value": xpath}):
            with suppress(_NotNowError):
                if self._call("GET", f"element/{element[ELEMENT]}/displayed"):
                    return str(element[ELEMENT])
        return None

    def _act(self, xpath: str, action: str, body: dict[str, Any]) -> bool:
        element = self._visible(xpath)
        if element is None:
            return False
        with suppress(_NotNowError):
            self._call("POST", f"element/{element}/{action}", body)
            return True
        return False

    def _wait(self, condition: Callable[[], Any], seconds: float, what: str) -> Any:
        found = wait_until(condition, seconds=seconds)
        assert found, f"waited {seconds} s, and this did not happen: {what}. The page:\n{self.read()}"
        return found

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        reply = self.driver.request(method, f"session/{self.session}/{path}", json=body)
        value = reply.json()["value"]
        if reply.is_success:
            return value
        if value["error"] in NOT_NOW:
            raise _NotNowError(value["message"])
        raise AssertionError(value["message"])


# The page changed between two calls, or something covers the element: the caller tries again.
NOT_NOW = ("stale element reference", "element click intercepted", "element not interactable")


class _NotNowError(Exception):
    """The element cannot be used now."""


@pytest.fixture
def browser(window: Browser) -> Browser:
    """The window of this process, as tall as a screen. A person who has signed in stays so."""
    window.resize(1240, 1110)
    return window


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A window of a browser of this machine. Debian's packages are chromium and chromium-driver."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    assert not missing, f"install {' and '.join(missing)}; on Debian: apt-get install chromium chromium-driver"
    [port] = ports.choose(1)
    with (tmp_path_factory.mktemp("browser") / "chromedriver.log").open("w") as log:
        process = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=log, stderr=subprocess.STDOUT)
        try:
            with httpx.Client(base_url=f"http://{ports.LOOPBACK}:{port}/", timeout=120, trust_env=False) as driver:
                assert wait_until(lambda: _is_ready(driver), seconds=60), "chromedriver did not start within 60 s"
                yield from _open_window(driver)
        finally:
            process.terminate()
            process.wait(30)


def _open_window(driver: httpx.Client) -> Iterator[Browser]:
    asked = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": OPTIONS}}}
    reply = driver.post("session", json=asked)
    assert reply.is_success, reply.text
    session = str(reply.json()["value"]["sessionId"])
    try:
        yield Browser(driver, session)
    finally:
        driver.delete(f"session/{session}")


def _is_ready(driver: httpx.Client) -> bool:
    with suppress(httpx.TransportError):
        return bool(driver.get("status").json()["value"]["ready"])
    return False
