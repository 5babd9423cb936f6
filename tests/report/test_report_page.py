"""The report in a real browser: figures, hover, keyboard, dark mode, a phone, and no error in the console."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from strongticket.cli.report import write

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH (Debian: apt install chromium)")
FIGURES = ("fig4", "fig5", "fig6", "fig9", "fig10")


@pytest.fixture(scope="module")
def page_file(sample_results, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write(sample_results, path)
    return path


def test_the_page_needs_nothing_else(page_file):
    text = page_file.read_text(encoding="utf-8")
    own = text.replace(_plotly(), "")
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=['\"]?http", own)
    assert text.count("plotly.js v") == 1
    assert "NaN" not in re.search(r"id='data'>(.*?)</script>", text, re.DOTALL)[1]


def _plotly():
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, page_file):
    contexts, messages = [], []

    def opened(scheme="light", size=(1280, 900)):
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: messages.append(f"error: {error}"))
        page.goto(page_file.as_uri())
        page.wait_for_function("document.querySelectorAll('.plot .main-svg').length >= 6")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert messages == []


@needs_chromium
class TestInTheBrowser:
    @pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["desktop", "phone"])
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_everything_is_there_and_fits(self, open_page, scheme, size):
        page = open_page(scheme, size)
        for name in FIGURES:
            assert page.locator(f"#plot-{name} .scatterlayer .trace").count() >= 2
            assert page.locator(f"#{name} .verdict").count() >= 1
            assert page.locator(f"#{name} table tbody tr").count() > 3
        assert page.locator("#plot-masks .heatmaplayer image").count() == 4
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 23, 26)")

    def test_hover_shows_a_value(self, open_page):
        page = open_page()
        page.locator("#plot-fig4").scroll_into_view_if_needed()
        page.locator("#plot-fig4 .points path").first.hover(force=True)
        page.wait_for_selector("#plot-fig4 .hoverlayer .hovertext")
        assert re.search(r"\d", page.locator("#plot-fig4 .hoverlayer .hovertext").first.text_content())

    def test_the_keyboard_reaches_and_reads_every_figure(self, open_page):
        page = open_page()
        reached = set()
        for _ in range(200):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
            if "head" in reached:
                break
        assert {f"plot-{name}" for name in FIGURES} | {"SUMMARY", "A", "head"} <= reached
        page.locator("#plot-fig5").focus()
        page.keyboard.press("ArrowRight")
        first = page.locator("#reading-fig5").text_content()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        second = page.locator("#reading-fig5").text_content()
        assert re.match(r"width 8: mean error, at 4: .* \(point 1 of 6\)", first)
        assert second != first
        page.wait_for_selector("#plot-fig5 .hoverlayer .hovertext")

    def test_colours_follow_the_system(self, open_page):
        page = open_page("light")
        colour = "getComputedStyle(document.querySelector('#plot-fig4 .main-svg')).backgroundColor"
        light = page.evaluate(colour)
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(f"{colour} !== '{light}'")
        assert page.evaluate(colour) == "rgb(21, 23, 26)"


def test_the_command(sample_results, tmp_path):
    code = "from strongticket.cli import main; main()"
    command = [sys.executable, "-c", code, "report", str(sample_results), "-o", str(tmp_path / "deep" / "page.html")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "page.html" in shown.stdout
    assert (tmp_path / "deep" / "page.html").stat().st_size > 1_000_000
