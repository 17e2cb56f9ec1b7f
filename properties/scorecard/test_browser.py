"""The page in a browser: what a reader does with it, in a headless Chromium where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowref.scorecard import page
from rows import DEEP
from scorecard.samples import SCRIPT, hostile, large, small

CHROMIUM = os.environ.get("FLOWREF_CHROMIUM") or shutil.which("chromium") or ""
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

playwright = pytest.importorskip("playwright.sync_api", reason="no driver of browsers is installed")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed")


class Visit:
    """A page that is open, with what its browser complained of and asked for."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab
        self.said: list[str] = []
        self.asked: list[str] = []
        tab.on("console", lambda message: self.said.append(message.text))
        tab.on("pageerror", lambda error: self.said.append(str(error)))
        tab.on("dialog", self.dismiss)
        tab.on("request", lambda request: self.asked.append(request.url))

    def dismiss(self, dialog: Any) -> None:
        """Note a box that a script opened."""
        self.said.append(dialog.message)
        dialog.dismiss()

    def cell(self, row: int, column: int) -> Any:
        """A cell of the matrix; the headers are row -1 and column 0."""
        return self.tab.locator(f'[data-at="{row},{column}"]')

    def card(self, name: str) -> Any:
        """The card of a name, which may begin with a digit."""
        return self.tab.locator(f'[id="{name}"]')

    def seen_cards(self) -> list[str]:
        """The cards that are shown, in order."""
        names: list[str] = self.tab.locator(".card:visible .name").all_inner_texts()
        return names


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all: starting it is what costs."""
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages: a small one, one of a target that says scripts everywhere, and one of all libraries."""
    folder = tmp_path_factory.mktemp("pages")
    reports = {"small": small(), "hostile": hostile(SCRIPT), "large": large()}
    for name, report in reports.items():
        (folder / f"{name}.html").write_text(page(report), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in reports}


@pytest.fixture
def visit(browser: Any, files: dict[str, Path]) -> Iterator[Any]:
    """Opens pages: by name, with a place in them, and settings of the browser."""
    contexts = []

    def go(name: str, place: str = "", **settings: Any) -> Visit:
        settings.setdefault("viewport", {"width": 1280, "height": 900})
        contexts.append(browser.new_context(**settings))
        seen = Visit(contexts[-1].new_page())
        seen.tab.goto(f"{files[name].as_uri()}{place}")
        return seen

    yield go
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", ["small", "hostile", "large"])
def test_nothing_is_asked_for_and_nothing_complains(visit: Any, name: str) -> None:
    """The page makes no request but for itself, runs no script of a target's, and logs no error."""
    seen = visit(name)
    seen.tab.locator("#open-all").click()
    seen.tab.locator("#unfold").click()
    assert seen.said == []
    assert [url for url in seen.asked if not url.startswith("data:")] == [seen.tab.url]
    assert seen.tab.evaluate("document.scripts.length") == 2


@DEEP
def test_a_target_called_script_is_text(visit: Any) -> None:
    """A target's name and words are read as they are, in the head, the matrix and the cards."""
    seen = visit("hostile")
    assert SCRIPT in seen.tab.locator("h1").inner_text()
    assert SCRIPT in seen.tab.locator("#cards h3").first.inner_text()
    seen.tab.locator("#unfold").click()
    assert SCRIPT in seen.tab.locator("#grid").inner_text()


def test_the_matrix_filters_and_sorts(visit: Any) -> None:
    """Words narrow targets and laws and unfold what is left; a choice keeps targets with failures;
    the order is by name or by failures.
    """
    seen = visit("small")
    grid, count = seen.tab.locator("#grid"), seen.tab.locator("#count")
    seen.tab.fill("#filter", "maf log-det")
    assert "1 of 5 targets, 1 of 6 laws" in count.inner_text()
    assert "MAF" in grid.inner_text() and "NSF" not in grid.inner_text()
    seen.tab.press("#filter", "Escape")
    assert "5 of 5 targets" in count.inner_text()
    seen.tab.select_option("#show", "i")
    assert "1 of 5 targets" in count.inner_text()
    seen.tab.select_option("#show", "all")
    seen.tab.locator("#unfold").click()
    rows = grid.locator("tbody .side.item")
    given = rows.all_inner_texts()
    seen.tab.select_option("#sort", "fail")
    assert rows.first.inner_text() == "Broken" != given[0]
    seen.tab.select_option("#show", "i")
    assert "5 of 6 laws" in count.inner_text()  # one is about none of what is left
    seen.tab.fill("#filter", "nothing is called so")
    assert "Nothing matches" in count.inner_text()


@DEEP
def test_groups_fold_and_axes_swap(visit: Any) -> None:
    """Libraries and families fold; swapped, laws are rows."""
    seen = visit("small")
    seen.tab.locator("#fold").click()
    rows = seen.tab.locator("#grid tbody tr")
    assert rows.count() == 4  # zuko, flows.py, script, nflows
    seen.cell(0, 0).click()
    assert rows.count() == 6 and seen.cell(0, 0).get_attribute("aria-expanded") == "true"
    seen.tab.locator("#turn").click()
    assert seen.cell(0, 0).inner_text().startswith("density")


def test_outcomes_are_told_in_words_and_icons(visit: Any) -> None:
    """A cell has an icon besides its color, and its words for those who do not see it; what is known
    of a pair is told when it is chosen, with a link to its card.
    """
    seen = visit("small")
    seen.tab.fill("#filter", "zuko log-det")
    cell = seen.tab.locator('#grid td[aria-label*="NSF, map/log-det"]')
    assert cell.inner_text() == "✕" and cell.get_attribute("aria-label").endswith("violated")
    cell.click()
    pair = seen.tab.locator("#pair")
    assert "off by 0.001, allowed 1e-12" in pair.inner_text()
    pair.locator("a").click()
    seen.tab.wait_for_selector(".card[open]")
    assert seen.tab.locator(".card[open]").count() == 1
    seen.tab.fill("#filter", "maf map/inverse")
    seen.tab.locator('#grid td[aria-label*="holds"]').click()
    assert "300 points" in pair.inner_text() and "1 % of what is allowed" in pair.inner_text()


@DEEP
def test_a_link_opens_its_card(visit: Any) -> None:
    """#K7Q2 leads to a card, opened and in sight, in whatever case it was typed; also later on, and
    where a filter hides it.
    """
    names = visit("small").seen_cards()
    seen = visit("small", f"#{names[2].lower()}")
    card = seen.card(names[2])
    assert card.get_attribute("open") is not None
    assert card.evaluate("one => one.getBoundingClientRect().top < innerHeight")
    seen.tab.fill("#find", "nothing is called so")
    seen.tab.evaluate(f"location.hash = '{names[0]}'")
    seen.tab.wait_for_selector(f'[id="{names[0]}"][open]', state="visible")


@DEEP
def test_cards_filter_and_sort(visit: Any) -> None:
    """Words narrow the cards, with the headings that are left; they come by target, by law or by
    size.
    """
    seen = visit("small")
    names = seen.seen_cards()
    assert len(names) == 8
    seen.tab.fill("#find", "zuko log-det")
    assert len(seen.seen_cards()) == 1
    assert seen.tab.locator("#cards h3:visible").count() == 1
    seen.tab.fill("#find", "")
    seen.tab.select_option("#arrange", "law")
    laws = seen.tab.locator("#cards h3").all_inner_texts()
    assert laws == sorted(laws) and "map/log-det" in laws
    seen.tab.select_option("#arrange", "size")
    sizes = [float(size) for size in seen.tab.locator(".card").evaluate_all("all => all.map(one => one.dataset.size)")]  # fmt: skip
    assert sizes == sorted(sizes, reverse=True)
    seen.tab.select_option("#arrange", "target")
    assert seen.seen_cards() == names


@DEEP
def test_it_is_used_by_keys_alone(visit: Any) -> None:
    """Tab leads through the controls into the matrix, arrows through its cells, Enter unfolds and
    opens, Escape closes; where the focus is, is seen.
    """
    seen = visit("small")
    press = seen.tab.keyboard.press
    at = "document.activeElement.dataset.at || document.activeElement.id || document.activeElement.getAttribute('href')"

    def here() -> str:
        place: str = seen.tab.evaluate(at)
        return place

    press("Tab")
    assert here() == "#failures"  # past the matrix, for those who want that
    for _ in range(60):
        if here() == "filter":
            break
        press("Tab")
    order = []
    for _ in range(7):
        order.append(here())
        press("Tab")
    assert order == ["filter", "show", "sort", "unfold", "fold", "turn", "0,0"]
    press("Shift+Tab")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert here() == "0,0" and seen.tab.evaluate(outline) == "solid"
    press("Enter")
    press("ArrowDown")
    for _ in range(3):  # density, effects, map
        press("ArrowRight")
    assert here() == "1,3"
    press("ArrowUp")
    press("ArrowUp")
    assert here() == "-1,3"
    press("Enter")
    press("ArrowDown")
    press("ArrowDown")
    assert here() == "1,3"
    press("Enter")
    assert seen.tab.locator("#pair").is_visible()
    press("Enter")
    seen.tab.wait_for_selector(".card[open]")
    assert seen.tab.evaluate("document.activeElement.tagName") == "SUMMARY"
    press("Escape")
    assert seen.tab.locator(".card[open]").count() == 0
    seen.cell(1, 3).focus()
    press("Escape")
    assert not seen.tab.locator("#pair").is_visible()


@DEEP
def test_light_and_dark_are_read(visit: Any) -> None:
    """In either scheme text stands out from its ground, in the page and in the plots."""
    contrast = """() => {
      const channels = (text) => text.match(/[0-9.]+/g).slice(0, 3).map((c) => {
        const share = Number(c) / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      const light = (text) => { const [r, g, b] = channels(text); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const ground = light(getComputedStyle(document.body).backgroundColor);
      const ratio = (one) => { const c = light(one); return (Math.max(c, ground) + 0.05) / (Math.min(c, ground) + 0.05); };
      const color = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
      return [ratio(color("h1", "color")), ratio(color(".detail", "color")), ratio(color("a.name", "color")),
        ratio(color(".cell.violated", "color")), ratio(color("svg .tick", "fill")), ratio(color("svg .label", "fill")), ground];
    }"""
    for scheme in ("light", "dark"):
        *ratios, ground = visit("small", color_scheme=scheme).tab.evaluate(contrast)
        assert min(ratios) >= 4.5
        assert (ground > 0.5) == (scheme == "light")


@pytest.mark.parametrize("name", ["small", "hostile", "large"])
def test_a_narrow_window_does_not_scroll_sideways(visit: Any, name: str) -> None:
    """In 360 pixels the page is as wide as the window, with all cards open and the matrix unfolded,
    which scroll by themselves.
    """
    seen = visit(name, viewport={"width": 360, "height": 700})
    seen.tab.locator("#unfold").click()
    if name != "large":
        seen.tab.locator("#open-all").click()
    assert seen.tab.evaluate("document.documentElement.scrollWidth") == 360


@DEEP
def test_it_prints(visit: Any) -> None:
    """On paper the controls are gone, the counts are a table, and the ground is white."""
    seen = visit("small", color_scheme="dark")
    seen.tab.emulate_media(media="print", color_scheme="dark")
    for hidden in ("#tools", "#grid", "nav"):
        assert not seen.tab.locator(hidden).first.is_visible()
    assert seen.tab.locator("#plain table").is_visible()
    ground = seen.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    seen.tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert seen.tab.locator(".card[open]").count() == 8
    seen.tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert seen.tab.locator(".card[open]").count() == 0


@DEEP
def test_it_is_read_without_scripts(visit: Any) -> None:
    """Without scripts the counts and every failure are there, and cards open."""
    seen = visit("small", java_script_enabled=False)
    assert seen.tab.locator("#plain table").is_visible()
    assert not seen.tab.locator("#tools").is_visible()
    assert seen.tab.locator(".card:visible").count() == 8
    seen.tab.locator(".card summary .law").first.click()
    assert "flowref replay" in seen.tab.locator(".card[open]").first.inner_text()


@DEEP
def test_only_rows_that_are_looked_at_are_made(visit: Any) -> None:
    """Of five hundred targets times 250 laws, unfolded, a screenful is drawn, and the last one where it is
    scrolled to.
    """
    seen = visit("large")
    seen.tab.evaluate("document.getElementById('unfold').click()")
    assert seen.tab.locator("#grid tbody tr").count() < 120
    seen.tab.evaluate("document.getElementById('grid').scrollTop = 1e6")
    seen.tab.wait_for_selector("#grid tbody tr:last-child .side.item")
    last = seen.tab.locator("#grid tbody .side.item").last.inner_text()
    assert last.endswith("[img]")
