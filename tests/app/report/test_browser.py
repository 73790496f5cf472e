"""The page in a real browser: Debian's chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from execcritic.report import page

HOSTILE = "</script><img src=http://127.0.0.1:9/x onerror=alert(1)> \u202e\x1b[31m"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 380)])
def test_it_loads_and_searches_without_a_complaint(make: Any, browser: Any, scheme: str, width: int) -> None:
    folder = make(HOSTILE, count=30)
    page.leave(folder)
    complaints: list[str] = []
    asked: list[str] = []
    view = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800}).new_page()
    view.on("console", lambda message: complaints.append(message.text))
    view.on("pageerror", lambda error: complaints.append(str(error)))
    view.on("dialog", lambda dialog: complaints.append(dialog.message))
    view.on("request", lambda request: asked.append(request.url))
    address = (folder / page.NAME).as_uri()
    view.goto(address)

    view.keyboard.press("/")
    view.keyboard.type("turn 17")
    view.wait_for_function("document.getElementById('found').textContent === '2 of 62'")
    assert view.locator(".turn:visible").count() == 2
    view.keyboard.press("Enter")
    assert view.locator(".turn[open]").count() == 1
    assert "turn 17" in view.evaluate("document.activeElement.textContent")
    view.locator("#find").focus()
    view.keyboard.press("Escape")
    assert view.locator(".turn:visible").count() == 62
    view.click("#open")
    assert view.locator(".turn[open]").count() == 62

    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert complaints == [] and asked == [address]


def test_the_policy_forbids_what_is_not_the_pages_own(make: Any, browser: Any) -> None:
    folder = make()
    page.leave(folder)
    path = folder / page.NAME
    path.write_bytes(path.read_bytes().replace(b"</main>", b"<script>document.title = 'mine'</script></main>"))
    view = browser.new_page()
    view.goto(path.as_uri())
    assert view.title().startswith("RESOLVED")


def test_a_quote_leads_to_the_issue_and_back(make: Any, browser: Any) -> None:
    folder = make()
    page.leave(folder)
    view = browser.new_page()
    view.goto((folder / page.NAME).as_uri())
    view.click("#quote-1 a")
    assert view.url.endswith("#quoted-1")
    view.click("#quoted-1")
    assert view.url.endswith("#quote-1")
