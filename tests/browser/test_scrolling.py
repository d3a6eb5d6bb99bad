"""Ten thousand names in Chromium: they are scrolled and searched, and no task holds the page up."""

import pytest
from playwright.sync_api import expect
from tasks import SCROLLED, longest_task
from test_viewer import folders, marks, page_of, ready, row  # noqa: F401  # fixtures

from conftest import settled

MOST = 50  # milliseconds of a task, above which a page is felt to stand still


@pytest.mark.parametrize("live", [True, False], ids=["live", "file"])
def test_ten_thousand_names_are_scrolled_and_searched(page_of, folders, live):  # noqa: F811
    page = ready(page_of(folders("many"), live=live))
    page.keyboard.press("e")
    settled(page)
    page.keyboard.press("End")
    settled(page)
    assert page.locator(".row").count() < 200
    page.keyboard.press("b")
    settled(page)
    name = "h.101.part0.inner0"
    expect(page.locator("#details h2")).to_have_text(name)
    assert len(marks(page, name)) == 1
    page.keyboard.press("/")
    page.keyboard.type("99 part3 inner2")
    settled(page)
    assert row(page, "h.99.part3.inner2").count() == 1


@pytest.mark.parametrize("live", [True, False], ids=["live", "file"])
def test_no_task_is_long_while_ten_thousand_names_are_scrolled(page_of, folders, chromium, live):  # noqa: F811
    page = ready(page_of(folders("many"), live=live))
    page.keyboard.press("e")
    expect(page.locator(".row").nth(30)).to_be_visible()
    page.mouse.move(700, 600)

    def work():
        page.evaluate(SCROLLED, 1500)  # all of them, picture by picture
        page.evaluate(SCROLLED, -2500)
        for _ in range(40):
            page.mouse.wheel(0, 700)
            page.wait_for_timeout(10)
        for _ in range(30):
            page.keyboard.press("PageDown")
        page.keyboard.press("/")
        page.keyboard.type("99 part3 inner2", delay=20)
        expect(row(page, "h.99.part3.inner2")).to_have_count(1)

    assert longest_task(chromium, page, work) < MOST
    assert page.evaluate("document.querySelector('#tracks').scrollTop") == 0
