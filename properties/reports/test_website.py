"""The site: its pages say what the catalogue and the findings say, and its links lead somewhere."""

from __future__ import annotations

import re
from inspect import cleandoc
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace

import pytest

import causes
import themed_svg
import website
from flowref import registry
from flowref.model import statement_of
from rows import DEEP
from site_pages import docstrings, front, hooks, laws, links, navigation, sources
from site_pages.numbers import Published


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, without the dashboard, which has tests of its own."""
    out = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("pages") / "source"  # other workers build theirs
    assert website.build(out, source=source, with_dashboard=False) == []
    return out


@DEEP
def test_every_law_is_on_the_page_of_its_statement(site: Path) -> None:
    """Each statement of the catalogue has a page, with the mutants of its laws, and with their cases."""
    for law in registry.laws():
        if law.is_case:
            continue
        text = (site / "laws" / f"{statement_of(law.id)}.html").read_text(encoding="utf-8")
        for mutant in registry.mutants():
            if mutant.law == law.id:
                assert mutant.name in text
        assert all(law.in_case(case).id in text for case in law.cases)


def test_every_statement_has_usual_causes_with_their_fix() -> None:
    """No statement lacks them and no other name has any; a fix is Python, of three lines at most beside a comment
    with the mistake.
    """
    causes = laws.remedies(website.ROOT / "reports" / "remedies.toml")
    assert set(causes) == set(registry.statements())
    for remedy in (one for rows in causes.values() for one in rows):
        lines = [line for line in remedy.fix.splitlines() if not line.lstrip().startswith("#")]
        assert 1 <= len(lines) <= 3
        ends = "\n    pass" if lines[-1].endswith(":") else ""
        compile("def f(self):\n" + indent(remedy.fix + ends, "  "), "fix", "exec")


def test_every_finding_has_a_workaround_and_a_version() -> None:
    """What a user does until it is fixed, and the release that it was measured with."""
    published = Published.read(website.ROOT / "reports")
    for finding in published.findings:
        assert finding.workaround and published.version(finding), finding.id
        assert finding.upstream.startswith("https://") or not finding.upstream


@DEEP
def test_every_finding_has_a_page_with_its_program(site: Path) -> None:
    """Each cause has a page, with its program and the text of an issue where there is one."""
    for finding in causes.read(website.ROOT / "reports" / "findings.toml"):
        text = (site / "findings" / f"{finding.id}.html").read_text(encoding="utf-8")
        assert ("The program" in text) == bool(finding.script)
        assert ("An issue" in text) == bool(finding.script)


@DEEP
def test_the_first_page_says_what_was_found(site: Path) -> None:
    """How many bugs are confirmed, as the page of findings says it, and some of them by name, each a
    link; a finding that is gone breaks the build.
    """
    published = Published.read(website.ROOT / "reports")
    words = (website.ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    text = (site / "index.html").read_text(encoding="utf-8")
    confirmed = len(published.confirmed)
    assert f"<b>{confirmed}</b>confirmed bugs" in text
    start = text.rindex("What was found")
    assert f"{confirmed} confirmed bugs" in re.sub(r"<[^>]+>", "", text[start:])
    index = (site / "findings" / "index.html").read_text(encoding="utf-8")
    assert f"{confirmed} confirmed bugs" in index
    named = re.findall(r'href="findings/([a-z0-9-]+)\.html"', text[start:])
    assert len(set(named) - {"index"}) == 5
    with pytest.raises(KeyError, match="no-such-finding"):
        front.page(words.replace("<!-- found: ", "<!-- found: no-such-finding "), published)


def test_the_tutorial_is_read_in_its_order(tmp_path: Path) -> None:
    """Its pages stand as its index leads to them, and one that it forgets stands last."""
    (tmp_path / "tutorial").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "tutorial" / f"{name}.md").write_text("# x\n")
    for folder in ("tutorial", "guides"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "index.md").write_text("1. [C](c.md): x\n2. [A](a.md)\n")
    start = navigation.entries(tmp_path, {})[0]["Start"]
    (tutorial,) = [one["Tutorial"] for one in start if "Tutorial" in one]
    assert tutorial == [f"tutorial/{name}.md" for name in ("index", "c", "a", "b")]


@DEEP
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """No page loads a script, a style or a picture from another place."""
    assert list(links.foreign(site)) == []


@DEEP
def test_formulas_are_drawn(site: Path) -> None:
    """No TeX is left where a browser would show it."""
    text = (site / "reports" / "batch-norm.html").read_text(encoding="utf-8")
    assert "<math" in text
    assert "arithmatex" not in text


def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    """A missing page and a missing anchor are broken links; an address elsewhere is none."""
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there"></a><a href="b.html#not"></a><a href="c.html"></a>'
        '<a href="https://example.org/x"></a>',
        encoding="utf-8",
    )
    (tmp_path / "b.html").write_text('<h1 id="there"></h1>', encoding="utf-8")
    assert links.broken(tmp_path) == ["a.html -> b.html#not", "a.html -> c.html"]


def test_a_script_from_elsewhere_is_told(tmp_path: Path) -> None:
    """What is loaded without a click from another place is named."""
    (tmp_path / "a.html").write_text('<script src="https://cdn.org/x.js"></script>', "utf-8")
    assert list(links.foreign(tmp_path)) == ["a.html loads https://cdn.org/x.js"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](power.md)", "[a](power.md)"),
        ("[a](../README.md#x)", "[a](../about/README.md#x)"),
        ("[a](https://x.org)", "[a](https://x.org)"),
        ("[a](scripts/x.py)", "[a](../files/reports/scripts/x.py)"),
        ("[a](../docs/options.md#x)", "[a](../options.md#x)"),
        ("[a](../docs/tutorial)", "[a](../tutorial/index.md)"),
    ],
)
def test_links_lead_to_where_things_stand(text: str, expected: str, tmp_path: Path) -> None:
    """A link in a page of the repository leads to the same thing in the site."""
    root, source = tmp_path / "root", tmp_path / "source"
    (root / "reports" / "scripts").mkdir(parents=True)
    (root / "reports" / "scripts" / "x.py").write_text("x = 1\n", encoding="utf-8")
    (root / "docs" / "tutorial").mkdir(parents=True)
    for page in ("options.md", "tutorial/index.md"):
        (root / "docs" / page).write_text("# x\n", encoding="utf-8")
    (root / "README.md").write_text("# x\n", encoding="utf-8")
    (root / "reports" / "power.md").write_text(text, encoding="utf-8")
    sources.copy(root, source)
    assert (source / "reports" / "power.md").read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("themed", [True, False])
def test_a_themed_picture_becomes_part_of_its_page(tmp_path: Path, themed: bool) -> None:
    """It then has the colors of the page and not those of the system; other pictures stay files."""
    (tmp_path / "reports").mkdir()
    text = '<svg width="1"><path id="a" style="stroke: #000000"/></svg>'
    drawn = themed_svg.themed(text, "x") if themed else text
    (tmp_path / "reports" / "x.svg").write_text(drawn, encoding="utf-8")
    page = SimpleNamespace(file=SimpleNamespace(src_uri="reports/page.md"))
    image = '<img alt="a curve" src="x.svg" />'
    shown = hooks.on_page_content(image, page=page, config={"docs_dir": str(tmp_path)})
    if not themed:
        assert shown == image
        return
    assert 'aria-label="a curve"' in shown and 'id="x-a"' in shown
    assert "stroke: currentColor" in shown and "prefers-color-scheme" not in shown


def test_a_docstring_becomes_paragraphs_and_lists() -> None:
    """Names are code, arguments and fields items, examples blocks, and nothing else is markup."""
    doc = """What it_does * twice.

    ``a``: the first; ``b``: the second, in $x_1$.
    Raises: `ValueError` where a < 0.

    >>> 1 + 1
    2
    """
    assert docstrings.prose(cleandoc(doc)) == [
        "What it\\_does \\* twice.", "",
        "- `a`: the first", "- `b`: the second, in $x_1$.", "",
        "**Raises.** `ValueError` where a &lt; 0.", "",
        "```pycon", ">>> 1 + 1\n2", "```", "",
    ]  # fmt: skip


def test_a_formula_becomes_mathml() -> None:
    """What arithmatex marks is drawn, entities and all."""
    drawn = hooks.on_page_content(r'<span class="arithmatex">\(x &lt; y^2\)</span>')
    assert drawn.startswith("<math")
    assert "&#x0003C;" in drawn
