"""The page of a report: all of it is there, it is well formed, and nothing in it comes from a target
but text.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from effort import calls
from flowref.model import (
    STATISTICAL,
    Evidence,
    KnownFailure,
    ReportError,
    Standing,
    Status,
    pair_id,
)
from flowref.model.figure import SCALE
from flowref.reporting.outcomes import FAILING
from flowref.reporting.report import Report
from flowref.reporting.text import clean
from flowref.scorecard import page
from flowref.scorecard.cards import COMPLETE, anchors, cards
from flowref.scorecard.letters import LETTERS
from rows import DEEP
from scorecard.samples import (
    ENVIRONMENT,
    FIGURES,
    HOSTILE,
    SCRIPT,
    hostile,
    large,
    note,
    small,
    violated,
)

VOID = ("meta", "link", "input", "br", "img")
OWN_SCRIPTS = 2
# What a statement of a law, read as a formula, may become.
MATHEMATICS = {"mo", "mn", "mi", "mtext", "mrow", "msub", "msup", "mspace"}


class Page(HTMLParser):
    """What a browser sees of a page: tags with attributes, texts, and the data of its script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.crossed = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that opens."""
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that opens and closes."""
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        """A tag that closes."""
        self.crossed |= not self.open or self.open.pop() != tag

    def handle_data(self, data: str) -> None:
        """Text."""
        if self.open and self.open[-1] in ("script", "style"):
            self.scripts += [data] if self.open[-1] == "script" else []
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All words."""
        return " ".join(" ".join(self.texts).split())

    @property
    def data(self) -> dict[str, Any]:
        """What the script is given."""
        read: dict[str, Any] = json.loads(self.scripts[0])
        return read

    def ids(self) -> list[str]:
        """Every id."""
        return [values["id"] for _, values in self.tags if "id" in values]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_a_target_says_stays_text(text: str) -> None:
    """Whatever a target is called or says, the page has the tags and attributes of one that says
    nothing special, and the words are there to read.
    """
    harmless, seen = Page(page(hostile("plain"))), Page(page(hostile(text)))
    tags = {tag for tag, _ in harmless.tags} | MATHEMATICS
    names = {name for _, values in harmless.tags for name in values} | {"stretchy"}
    assert {tag for tag, _ in seen.tags} <= tags
    assert {name for _, values in seen.tags for name in values} <= names
    assert [tag for tag, _ in seen.tags].count("script") == OWN_SCRIPTS
    assert not seen.crossed and not seen.open
    assert clean(text) in seen.text


@pytest.mark.parametrize("report", [small(), small().brief(), large(20, 30), Report(ENVIRONMENT)])
def test_a_page_refers_to_nothing_outside(report: Report) -> None:
    """Links lead within the page; nothing is loaded; the policy allows the page's own script, by its
    hash, and no request.
    """
    seen = Page(page(report))
    for tag, attributes in seen.tags:
        assert "src" not in attributes and tag not in ("iframe", "object", "embed", "base", "form")
        assert attributes.get("href", "#")[0] == "#" or attributes["href"] == "data:,"
        assert not any(name.startswith("on") for name in attributes)
    policy = next(a["content"] for t, a in seen.tags if a.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(seen.scripts[1].encode()).digest()).decode()
    assert policy.startswith("default-src 'none'") and f"script-src 'sha256-{digest}'" in policy
    links = {a["href"][1:] for t, a in seen.tags if t == "a"}
    assert links <= set(seen.ids())


def test_laws_lead_to_their_pages() -> None:
    """If there are such pages, as on the site."""
    law = small().laws[0].id
    seen = Page(page(small(), {law: "laws/one.html"}))
    outside = [a["href"] for tag, a in seen.tags if tag == "a" and a["href"][0] != "#"]
    assert outside == ["laws/one.html"]


def test_every_failure_has_a_card_of_its_own() -> None:
    """Each failing pair has one card with law, target, numbers, input and commands, under an id that
    nothing else has.
    """
    report = small()
    seen = Page(page(report))
    failing = report.with_status(*FAILING)
    cards = [a for t, a in seen.tags if a.get("class", "").startswith("card ")]
    pairs = {(a["data-target"], a["data-law"]) for a in cards}
    assert pairs == {(clean(v.target), v.law) for v in failing} and len(cards) == len(failing)
    assert len(set(seen.ids())) == len(seen.ids())
    for verdict in report.violations:
        assert verdict.id in seen.ids()
        assert f"flowref replay {verdict.id}" in seen.text
    for word in (
        "autograd",
        "-0.25",
        "+0.25",
        "part 2 of 3 (Layer)",
        "53 bits",
        "seed 2",
        "-2.5",
        "Half of it is missing in zuko:NSF.",
    ):
        assert word in seen.text


def test_cards_of_one_name_are_told_apart() -> None:
    """Two failures with one short name have two ids."""
    names: dict[str, str] = {}
    for number in itertools.count():
        law = f"family/law-{number}"
        if (other := names.setdefault(pair_id("t", law), law)) != law:
            break
    verdicts = (violated("t", other), violated("t", law))
    seen = Page(page(Report(ENVIRONMENT, (note(other), note(law)), ("t",), verdicts)))
    assert {verdicts[0].id, f"{verdicts[0].id}-2"} < set(seen.ids())
    assert len(set(seen.ids())) == len(seen.ids())


def test_the_matrix_holds_every_outcome() -> None:
    """Each pair has the letter of its outcome, and its reason or its points are found by its place."""
    report = small()
    data = Page(page(report)).data
    laws, rows = data["laws"], {row["name"]: row for row in data["targets"]}
    for verdict in report.verdicts:
        column = laws.index(verdict.law)
        row = rows[clean(verdict.target)]
        letter = row["letters"][column]
        if report.known_failure(verdict):
            assert letter == "k"
        elif verdict.status is Status.NOT_APPLICABLE:
            assert letter == ("w" if verdict.blocked else "-")
        else:
            assert letter == LETTERS[verdict.status]
        if verdict.status is Status.HOLDS:
            assert row["held"].startswith("300/")
        else:
            told = [
                data["reasons"][int(k)] for k, spans in row["why"].items() if str(column) in spans
            ]
            violated = verdict.status is Status.VIOLATED
            reason = "off by 0.001" if violated else clean(verdict.reason)
            assert any(text.startswith(reason) for text in told)


def test_what_was_not_judged_is_told() -> None:
    """The panel names what was not decided, why, and what would enable it; how far one looked; and
    which mutants each law catches.
    """
    seen = Page(page(small())).text
    for words in (
        "it offers no inverse", "say ?inverse=g", "rounding alone moves it", "not run", "parameter scales 0, 0.3",
        "left undecided", "forward", "mutants", "The inverse is off by one part in a million",
            "What the targets were recognized as", "say ?event=3",
    ):  # fmt: skip
        assert words in seen


def test_the_verdict_stands_first() -> None:
    """The head says what came of the audit, with the command, before anything else."""
    text = Page(page(small())).text
    assert "5 violations" in text.partition("Targets × laws")[0]
    assert "flowref audit x" in text.partition("Targets × laws")[0]
    healthy = replace(large(3, 9), verdicts=large(3, 9).with_status(Status.HOLDS))
    assert "No law is violated" in Page(page(healthy)).text
    assert "Nothing meaningful was checked" in Page(page(Report(ENVIRONMENT))).text


def test_figures_survive_a_report_file() -> None:
    """Figures are read back as they were written, and reports without them read as ever."""
    report = small()
    again = Report.from_json(report.to_json())
    assert again == report and page(again).count("<svg") == page(report).count("<svg")
    assert [v.figure for v in again.verdicts] == [v.figure for v in report.verdicts]
    older = replace(report, verdicts=tuple(replace(v, figure=None) for v in report.verdicts))
    assert '"figure"' not in older.to_json()
    assert len(Page(page(older)).tags) < len(Page(page(report)).tags)


@pytest.mark.parametrize(
    "damage",
    [
        lambda row: row["figure"].pop("kind"),
        lambda row: row["figure"].update(series={"scale": "1 two"}),
        lambda row: row["figure"].update(series={"scale": [1.0]}),
        lambda row: row.update(figure=[1]),
    ],
)
def test_a_damaged_figure_is_one_sentence(damage: Callable[[Any], Any]) -> None:
    """A figure that cannot be read is told with the name of its file; one of a kind that is not known
    here, or whose series do not fit each other, is not drawn.
    """
    data = json.loads(small().to_json())
    damage(data["verdicts"][0])
    with pytest.raises(ReportError, match=r"^R\.json is a damaged flowref report"):
        Report.from_json(json.dumps(data), "R.json")
    for figure in ({"kind": "hologram", "series": {}}, {"kind": SCALE, "series": {"scale": "1 2"}}):
        data["verdicts"][0]["figure"] = figure
        assert page(Report.from_json(json.dumps(data)))


def test_a_page_of_thousands_of_failures_opens() -> None:
    """Beyond so many cards the pictures are left out, and the failures are all there."""
    laws = [f"family/law-{k}" for k in range(40)]
    targets = tuple(f"library:{k}" for k in range(60))
    verdicts = tuple(violated(t, law, FIGURES[SCALE]) for t in targets for law in laws)
    text = page(Report(ENVIRONMENT, tuple(map(note, laws)), targets, verdicts))
    assert text.count('<details class="card') == len(verdicts) == 2400
    assert text.count("<svg") == 2 * COMPLETE
    assert len(text.encode()) < 12_000_000


def test_it_is_read_aloud() -> None:
    """Headings follow each other level by level, fields have labels, tables have headers, pictures
    have words.
    """
    seen = Page(page(small()))
    levels = [int(tag[1]) for tag, _ in seen.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))
    assert "label" in {tag for tag, _ in seen.tags}
    assert all(a.get("role") == "img" and a["aria-label"] for t, a in seen.tags if t == "svg")
    assert all(a.get("scope") for t, a in seen.tags if t == "th")
    labelled = {a["aria-labelledby"] for t, a in seen.tags if t == "section"}
    assert labelled <= set(seen.ids())


def test_every_figure_is_drawn() -> None:
    """Each kind of figure is a drawing with a title, and what it shows in words."""
    text = page(small())
    assert text.count("<svg") >= len(FIGURES) + 5
    assert text.count("<svg") == text.count("<desc>") == text.count("</svg>")


def test_all_libraries_weigh_little() -> None:
    """Five hundred targets times 250 laws with three hundred failures stay below five megabytes."""
    report = large()
    assert len(report.violations) > 300
    text = page(report)
    assert len(text.encode()) < 5_000_000
    assert SCRIPT not in text


@DEEP
def test_twice_the_targets_take_twice_the_work() -> None:
    """A page of all libraries is written in seconds, since each verdict costs the same whatever
    stands beside it.
    """
    few, many = large(60), large(120)
    assert calls(lambda: page(many)) < 2.1 * calls(lambda: page(few))


def test_cards_say_first_what_is_new_and_show_what_was_seen() -> None:
    """What is known stands below what is new, with the columns that are filled; a law that says yes
    or no shows no numbers, and one of chance no single input.
    """
    told = "; ".join(["a train batch of one row leaves scale not finite"] * 4)
    yes = replace(violated("t", "state/trains"), reason=told, evidence=Evidence(1.0, 0.0))
    chance, other = violated("t", "sampling/follows-density"), violated("t", "map/log-det")
    known = (KnownFailure("t", other.law, Standing.KNOWN, "a reason", expires="2030-01-01"),)
    by_chance = replace(note("sampling/follows-density"), tolerance=STATISTICAL)
    notes = (note("state/trains"), note("map/log-det"), by_chance)
    report = Report(ENVIRONMENT, notes, ("t",), (other, chance, yes), known=known)
    found = {card.law: card for card in cards(report, anchors(report))}
    assert [*found][-1] == other.law
    assert found[yes.law].sight == (("severity", "wrong gradients"),)
    assert found[yes.law].brief.endswith(" …") and len(found[yes.law].brief) < 100
    assert found[yes.law].why.count("one row") == 4
    assert "-3" in found[other.law].inputs and not found[chance.law].inputs
    seen = Page(page(report)).text
    assert "standing law target reason expires" in seen
