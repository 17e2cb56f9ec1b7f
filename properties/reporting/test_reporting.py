"""Reports: JSON is exact, errors are sentences, and nothing from a target can act as markup or
steer a terminal.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import shlex
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from flowref.model import (
    Condition,
    Counterexample,
    Counts,
    Evidence,
    Figure,
    KnownFailure,
    Problem,
    Recognized,
    ReportError,
    Size,
    Status,
    Verdict,
)
from flowref.reporting.audit_summary import summary_lines
from flowref.reporting.contents import Environment, Expense, LawNote, Omitted, Shard
from flowref.reporting.markdown import to_markdown
from flowref.reporting.markup import code, escaped
from flowref.reporting.numbers import bits, contrast
from flowref.reporting.report import Report
from flowref.reporting.schema import json_schema
from flowref.reporting.terminal import target_lines
from flowref.reporting.text import clean
from flowref.reporting.verdict_json import (
    BLOCKED,
    packed,
    unpacked,
    verdict_from_json,
    verdict_to_json,
)
from flowref.reporting.violation_errors import FlowrefViolation, FlowrefViolations

SCHEMA = Draft202012Validator(json.loads(json_schema()))
# Parts of the schema, and what they describe.
DESCRIBED = {
    "verdict": Verdict, "counts": Counts, "evidence": Evidence, "size": Size, "counterexample": Counterexample,
    "condition": Condition, "recognized": Recognized, "known": KnownFailure, "problem": Problem, "law": LawNote,
    "environment": Environment, "expense": Expense, "figure": Figure, "omitted": Omitted, "shard": Shard,
}  # fmt: skip
# What is told besides their fields.
DERIVED = {"verdict": {"id", "severity"}, "recognized": {"target"}, "expense": {"target"}}
words = st.text(max_size=20)
floats = st.floats(allow_nan=False)
any_float = st.floats()
counts = st.integers(0, 10**6)
points = st.recursive(any_float, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(words, inner, max_size=3)
    ),
    max_leaves=6,
)
conditions = st.builds(
    Condition,
    dtype=st.sampled_from(["float64", "float32"]),
    seed=counts,
    scale=floats,
    history=st.sampled_from(["warm", "fresh"]),
    part=st.lists(counts, max_size=2).map(tuple),
)
cases = st.builds(
    Counterexample,
    x=points,
    context=st.none() | points,
    seed=counts,
    condition=conditions,
    observed=st.dictionaries(words, plain, max_size=3),
)
evidence = st.builds(
    Evidence,
    residual=any_float,
    allowed=any_float,
    scale=any_float,
    unit=st.sampled_from([2.0**-53, 2.0**-24]),
    explained=any_float,
    replicas=counts,
)
verdicts = st.builds(
    Verdict,
    target=words,
    law=words,
    status=st.sampled_from(list(Status)),
    reason=words,
    counts=st.builds(
        Counts, counts, counts, counts, counts, counts, st.lists(floats, max_size=3).map(tuple)
    ),
    evidence=st.none() | evidence,
    counterexample=st.none() | cases,
    part=words,
    seconds=floats,
    law_version=st.integers(1, 9),
    force=st.sampled_from(["claim", "contract", "advice"]),
)
environments = st.builds(
    Environment,
    flowref=words,
    python=words,
    platform=words,
    versions=st.lists(st.tuples(words, words), max_size=3).map(tuple),
    command=words,
    profile=st.sampled_from(["quick", "standard", "thorough"]),
    seed=st.integers(),
    started=words,
    seconds=floats,
)
phrases = st.lists(words, max_size=2).map(tuple)
recognitions = st.builds(
    Recognized, words, st.lists(counts, max_size=2).map(tuple), words, *[phrases] * 4
)
reports = st.builds(
    Report,
    environment=environments,
    laws=st.lists(st.builds(LawNote, words, counts, words, words, words, words), max_size=2).map(
        tuple
    ),
    targets=st.lists(words, max_size=2).map(tuple),
    verdicts=st.lists(verdicts, max_size=3).map(tuple),
    problems=st.lists(st.builds(Problem, words, words), max_size=2).map(tuple),
    complete=st.booleans(),
    recognized=st.dictionaries(words, recognitions, max_size=2),
    expenses=st.dictionaries(words, st.builds(Expense, floats, counts), max_size=2),
)

HOSTILE = (
    "<script>alert(1)</script> | `code` **bold** [link](http://evil) \x1b[31m\n# heading\n| a | b |"
)
VIOLATION = Verdict(
    "pkg:make?event=4&domain=(0,1)",
    "map/log-det",
    Status.VIOLATED,
    HOSTILE,
    evidence=Evidence(0.0988, 1e-14, scale=1.0, replicas=56),
    counterexample=Counterexample(
        [[0.0, 3.125]],
        None,
        0,
        Condition(scale=0.3, seed=3),
        {"reported": -0.0988, "autograd": -0.1976},
    ),
    part=HOSTILE,
)


def report_of(*found: Verdict) -> Report:
    """A small report with these verdicts."""
    targets = tuple(dict.fromkeys(verdict.target for verdict in found))
    note = LawNote("map/log-det", 1, "The log-det is $\\log|\\det J|$.", "claim", "rounding")
    return Report(Environment("0", "3.11", "here"), (note,), targets, found)


@settings(max_examples=60, deadline=None)
@given(verdicts)
def test_a_verdict_survives_json(verdict: Verdict) -> None:
    """A verdict read back from JSON writes the same JSON, nan, infinities and minus zero included."""
    text = json.dumps(verdict_to_json(verdict), allow_nan=False)
    back = verdict_from_json(json.loads(text))
    assert json.dumps(verdict_to_json(back)) == text
    assert repr(back) == repr(verdict)


@settings(max_examples=40, deadline=None)
@given(reports)
def test_a_report_survives_json(report: Report) -> None:
    """Report.from_json(report.to_json()) == report, exactly; its text is ASCII."""
    text = report.to_json()
    back = Report.from_json(text)
    assert back == report
    assert repr(vars(back)) == repr(vars(report))
    assert text.isascii()


@st.composite
def audits(draw: st.DrawFn) -> Report:
    """Reports as audits write them: each target under each law, most of them holding or idle."""
    laws = [
        LawNote(law, 1, "It holds.", "claim", "rounding") for law in ("a/one", "a/two", "b/one")
    ]
    targets = [f"lib:{name}" for name in draw(st.lists(st.sampled_from("ABC"), unique=True))]
    quiet = [Status.HOLDS, Status.NOT_APPLICABLE]
    statuses = st.one_of(st.sampled_from(quiet), st.sampled_from(list(Status)))
    outcomes = draw(st.lists(verdicts, min_size=9, max_size=9))
    found = [
        replace(outcomes.pop(), target=target, law=law.id, status=draw(statuses))
        for target in targets
        for law in laws
    ]
    return Report(draw(environments), tuple(laws), tuple(targets), tuple(found))


@settings(max_examples=60, deadline=None)
@given(audits() | reports, st.booleans())
def test_a_report_is_what_its_schema_says(report: Report, brief: bool) -> None:
    """Every report, in full or brief, is valid; the schema names each key of each object."""
    SCHEMA.validate(json.loads((report.brief() if brief else report).to_json()))


@pytest.mark.parametrize(("name", "kind"), DESCRIBED.items())
def test_the_schema_names_every_field(name: str, kind: type) -> None:
    """A field that is new in a report is described in the schema."""
    described = set(SCHEMA.schema["$defs"][name]["properties"])
    derived = {"decimal"} | DERIVED.get(name, set())
    named = {"blocked": BLOCKED}
    assert described - derived == {named.get(one.name, one.name) for one in fields(kind)}


def test_the_schema_of_reports_can_fail() -> None:
    """The schema is one, and refuses an unknown key and a float that is no text."""
    Draft202012Validator.check_schema(SCHEMA.schema)
    data = json.loads(report_of(VIOLATION).to_json())
    SCHEMA.validate(data)
    (verdict,) = data["verdicts"]
    for change in ({"more": 1}, {"seconds": 0.5}, {"status": "GOOD"}):
        assert not SCHEMA.is_valid({**data, "verdicts": [{**verdict, **change}]})


def test_floats_have_decimals_beside_them() -> None:
    """A violation says its name, what it makes wrong, and its numbers in decimals, which are exact; those
    that JSON does not have are texts, and arrays of a counterexample stay as they are.
    """
    found = replace(
        VIOLATION, size=Size(0.1, math.inf, 48, 3), counts=Counts(scales=(0.3, 1.0)), seconds=0.2
    )
    (row,) = json.loads(report_of(found).to_json())["verdicts"]
    assert (row["id"], row["severity"]) == (found.id, "wrong likelihood")
    assert row["decimal"] == {"seconds": 0.2}
    assert row["evidence"]["decimal"] == {"residual": 0.0988, "allowed": 1e-14}
    assert row["size"]["decimal"] == {"nats": 0.1, "largest": "inf"}
    assert row["counts"]["decimal"] == {"scales": [0.3, 1.0]}
    case = row["counterexample"]
    assert case["decimal"] == {"observed": {"reported": -0.0988, "autograd": -0.1976}}
    assert case["condition"]["decimal"] == {"scale": 0.3}
    assert case["x"] == [[(0.0).hex(), (3.125).hex()]]


@settings(max_examples=60, deadline=None)
@given(audits() | reports)
def test_a_brief_report_survives_json(report: Report) -> None:
    """A brief report is itself again after JSON, and already brief."""
    brief = report.brief()
    back = Report.from_json(brief.to_json())
    assert repr(back) == repr(brief)
    assert back.brief() is back


@settings(max_examples=60, deadline=None)
@given(audits())
def test_a_brief_report_loses_numbers_and_no_outcome(report: Report) -> None:
    """In brief each pair keeps its status and what failed is kept whole; points that were judged
    are still counted.
    """
    brief = report.brief()
    assert brief.omitted is not None
    assert brief.exit_code == report.exit_code
    assert brief.counts == report.counts
    quiet = (Status.HOLDS, Status.NOT_APPLICABLE)
    for full, short in zip(report.verdicts, brief.verdicts, strict=True):
        assert (full.target, full.law, full.status) == (short.target, short.law, short.status)
        assert full.status in quiet or short is full
    for name, omitted in asdict(brief.omitted).items():
        field = {"points": "held", "undecided": "undecided"}[name]
        kept = sum(getattr(verdict.counts, field) for verdict in brief.verdicts)
        assert kept + omitted == sum(getattr(verdict.counts, field) for verdict in report.verdicts)


def test_a_brief_report_is_short() -> None:
    """A pair that holds or does not apply is one letter, and a row of letters that does not fit the
    laws is refused.
    """
    laws = tuple(LawNote(f"a/l{n}", 1, "", "claim", "rounding") for n in range(100))
    held = [Verdict("t", law.id, Status.HOLDS, evidence=Evidence(0.1, 1.0)) for law in laws]
    report = Report(Environment("0", "3.11", "here"), laws, ("t",), tuple(held)).brief()
    idle = replace(report, verdicts=())
    text = report.to_json()
    assert len(text) == len(idle.to_json())
    with pytest.raises(ReportError, match="damaged"):
        Report.from_json(text.replace("h" * 100, "h" * 99))


@settings(max_examples=40, deadline=None)
@given(plain)
def test_plain_values_survive_json(value: object) -> None:
    """Tuples stay tuples and floats stay floats in what a law observed."""
    assert repr(unpacked(json.loads(json.dumps(packed(value))))) == repr(value)


def test_equality_of_reports_can_fail() -> None:
    """Reports that differ in one bit, or in the sign of a zero, are not equal."""
    one, other = (
        report_of(Verdict("t", "l", Status.HOLDS, evidence=Evidence(value, 1.0)))
        for value in (0.1, math.nextafter(0.1, 1))
    )
    assert one != other
    plus, minus = (
        report_of(Verdict("t", "l", Status.HOLDS, evidence=Evidence(zero, 1.0)))
        for zero in (0.0, -0.0)
    )
    assert plus != minus


@settings(max_examples=60, deadline=None)
@given(reports | reports.map(Report.brief), st.data())
def test_a_damaged_report_is_one_sentence(report: Report, data: st.DataObject) -> None:
    """A report cut off anywhere, or with a value exchanged, is read or refused in one sentence, and
    never otherwise.
    """
    text = report.to_json()
    cut = text[: data.draw(st.integers(0, len(text) - 3))]
    with pytest.raises(ReportError) as caught:
        Report.from_json(cut)
    assert "\n" not in str(caught.value)
    rows = json.loads(text)
    rows[data.draw(st.sampled_from(sorted(rows)))] = data.draw(
        st.none() | st.integers() | words | st.lists(words)
    )
    with contextlib.suppress(ReportError):
        Report.from_json(json.dumps(rows))


@pytest.mark.parametrize(
    "text", ["", "[]", "3", '{"a": 1}', "null", "[" * 100000, '{"flowref-report": 99}']
)
def test_a_foreign_file_is_one_sentence(text: str) -> None:
    """What is no report of this schema is refused with the way out."""
    with pytest.raises(ReportError, match="report"):
        Report.from_json(text, "some.json")


def test_the_terminal_shows_a_failure_in_full() -> None:
    """A violation shows its name, the law in words, two numbers, the input and a command; on request the
    allowance, the circumstances and both commands.
    """
    shown = "\n".join(target_lines(VIOLATION.target, [VIOLATION], {"map/log-det": "The law."}))
    for part in (
        "1 VIOLATED",
        VIOLATION.id,
        "reported -0.0988, expected -0.1976",
        "    Law: The law.",
        "x = [0, 3.125]",
        "parameters moved by 0.3 (seed 3)",
        f"flowref script {VIOLATION.id} > repro.py",
    ):
        assert part in shown
    more = "\n".join(target_lines(VIOLATION.target, [VIOLATION], {}, verbosity=1))
    for part in ("rounding allows", "float64", f"flowref replay {VIOLATION.id}"):
        assert part in more and part not in shown
    assert len(target_lines(VIOLATION.target, [VIOLATION], {}, verbosity=-1)) == 1


def test_the_terminal_cannot_be_steered() -> None:
    """No control character of a target reaches the screen."""
    shown = target_lines("evil\x1b[2J", [VIOLATION], {})
    assert all(letter.isprintable() for line in shown for letter in line)


def test_only_failures_expand() -> None:
    """A target where nothing failed and all was decided is one line, and one for each advice."""
    fine = [Verdict("t", "l0", Status.HOLDS)]
    assert len(target_lines("t", fine, {})) == 1
    advised = [*fine, Verdict("t", "l1", Status.ADVICE, "it is unusual")]
    assert target_lines("t", advised, {})[1:] == ["  ADVICE  l1   it is unusual"]
    assert len(target_lines("t", [*fine, replace_status(fine[0], Status.CRASHED)], {})) > 1


def test_what_was_not_decided_is_told_with_its_reason() -> None:
    """A law that was put to the test and could say nothing is named without being asked for."""
    open_ = Verdict("t", "map/log-det", Status.INCONCLUSIVE, "no structure was found")
    _, line = target_lines("t", [open_], {})
    assert line == "  inconclusive: map/log-det: no structure was found"


def replace_status(verdict: Verdict, status: Status) -> Verdict:
    """The verdict with another status."""
    return Verdict(verdict.target, verdict.law, status, "the process was killed")


@pytest.mark.parametrize("brief", [False, True])
def test_markdown_escapes_everything_from_a_target(brief: bool) -> None:
    """No HTML, link, heading, table row or control character of a target survives in Markdown."""
    report = report_of(VIOLATION, Verdict(HOSTILE, HOSTILE, Status.INCONCLUSIVE, HOSTILE))
    text = to_markdown(report.brief() if brief else report)
    # What stands in code spans and blocks is literal anyway.
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text.replace("\\`", ""))
    assert "<script>" not in outside
    assert not re.search(r"(?<!\\)\]\(", outside)
    assert "http://" not in outside
    assert "\x1b" not in text
    assert not any(line.startswith("# heading") for line in text.splitlines())


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="`|\\<>&*_[]()#ab\n\x1b", max_size=12))
def test_code_spans_cannot_be_closed_from_inside(text: str) -> None:
    """A code span has a fence longer than any run of backticks within, and stays on its line."""
    span = code(text)
    fence = re.match("`+", span)
    assert fence is not None
    assert span.endswith(fence[0])
    assert fence[0] not in span[len(fence[0]) : -len(fence[0])]
    assert "\n" not in span
    assert "<" not in escaped(text)


def test_commands_are_quoted() -> None:
    """A printed command line gives back the spec when a shell splits it."""
    crashed = replace_status(VIOLATION, Status.CRASHED)
    lines = target_lines(VIOLATION.target, [crashed], {})
    (line,) = (line.strip() for line in lines if "flowref audit" in line)
    assert shlex.split(line) == ["flowref", "audit", VIOLATION.target, "--laws", VIOLATION.law]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((Status.HOLDS, Status.ADVICE, Status.NOT_APPLICABLE, Status.INCONCLUSIVE), 0),
        ((Status.HOLDS, Status.VIOLATED, Status.CRASHED), 1),
        ((Status.HOLDS, Status.CRASHED), 3),
        ((Status.HOLDS, Status.TIMEOUT), 3),
        ((Status.HOLDS, Status.ERROR), 3),
        ((Status.ADVICE, Status.NOT_APPLICABLE, Status.INCONCLUSIVE, Status.NOT_RUN), 5),
        ((), 5),
    ],
)
def test_exit_codes(statuses: tuple[Status, ...], expected: int) -> None:
    """The exit code tells violations, crashes and vacuous audits apart; advice never counts."""
    report = report_of(*(Verdict("t", f"l{n}", status) for n, status in enumerate(statuses)))
    assert report.exit_code == expected
    assert summary_lines(report)


def test_raising_names_every_failure() -> None:
    """raise_for_violations is silent on a clean report; of another it raises a group with one
    exception for each failure, which counts as one failure and as an AssertionError.
    """
    report_of(
        Verdict("t", "l", Status.HOLDS), Verdict("t", "m", Status.ADVICE)
    ).raise_for_violations()
    broken = report_of(VIOLATION, Verdict("t", "l", Status.TIMEOUT, "it took more than 60 s"))
    with pytest.raises(FlowrefViolations, match=r"1 violation, 1 broken check") as caught:
        broken.raise_for_violations()
    assert isinstance(caught.value, AssertionError) and isinstance(caught.value, FlowrefViolation)
    violated, late = caught.value.exceptions
    assert VIOLATION.id in str(violated) and VIOLATION.law in str(caught.value)
    assert isinstance(violated, FlowrefViolation) and violated.verdict == VIOLATION
    assert "more than 60 s" in str(late)
    assert str(violated) in caught.value.text and str(late) in caught.value.text
    report_of().raise_for_violations()


@pytest.mark.parametrize(
    ("residual", "explained", "expected"),
    [
        (2.0**-27, 2.0**-51, "26 of 53 bits lost; rounding explains 2"),
        (0.0, 0.0, "0 of 53 bits lost; rounding explains 0"),
        (1e300, 1e300, "53 of 53 bits lost; rounding explains 53"),
        (math.inf, 0.0, ""),
        (math.nan, 0.0, ""),
    ],
)
def test_bits(residual: float, explained: float, expected: str) -> None:
    """Bits lost are the logarithm of the residual in units of roundoff."""
    assert bits(Evidence(residual, 1.0, explained=explained)) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(words, any_float), max_size=4))
def test_different_numbers_look_different(values: list[tuple[str, float]]) -> None:
    """The first number never prints like one that differs from it by more than the last digit."""
    shown = contrast([(f"n{place}", value) for place, (_, value) in enumerate(values)])
    texts = [item.split()[1] for item in shown.split(", ")] if values else []
    for (_, value), text in zip(values[1:], texts[1:], strict=True):
        if not math.isnan(value) and value != values[0][1] and not math.isnan(values[0][1]):
            assert text != texts[0]


def test_clean_keeps_ordinary_text() -> None:
    """Cleaning leaves printable text as it is."""
    assert clean("zuko:NSF?features=3 é ∂") == "zuko:NSF?features=3 é ∂"
