"""Plots, axes and formulas: well formed whatever the numbers are."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowref import registry
from flowref.model import Evidence
from flowref.model.figure import COURSE, DENSITY, JACOBIAN, PIT, SCALE, Figure, figure
from flowref.scorecard.formulas import formula
from flowref.scorecard.plots import figure_plots
from flowref.scorecard.plots.axes import decades, linear
from flowref.scorecard.plots.bits import strip
from scorecard.samples import FIGURES

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
SERIES = ("scale", "error", "allowed", "low", "high", "density", "integral", "counts",
    "reported", "true", "columns", "recorded", "expected", "got", "sampled")  # fmt: skip


@given(
    st.sampled_from((SCALE, DENSITY, PIT, JACOBIAN, COURSE, "of a newer flowref")),
    st.dictionaries(st.sampled_from(SERIES), st.lists(NUMBERS, max_size=5).map(tuple)),
)
def test_no_numbers_break_a_drawing(kind: str, series: dict[str, tuple[float, ...]]) -> None:
    """Whatever numbers a figure has, it is drawn well formed, or not at all."""
    for picture in figure_plots(Figure(kind, series, "a note")):
        root = ElementTree.fromstring(str(picture))
        assert root.tag == "svg"
        values = [value for one in root.iter() for value in one.attrib.values()]
        assert not any("nan" in value.split() or "inf" in value.split() for value in values)


@pytest.mark.parametrize("kind", FIGURES)
def test_a_figure_is_drawn(kind: str) -> None:
    """Each kind has a drawing with axes, a title and words, all of it within its frame."""
    (picture,) = figure_plots(FIGURES[kind])
    root = ElementTree.fromstring(str(picture))
    assert root.find("title") is not None and root.find("desc") is not None
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for one in root.iter():
        for name in ("x", "x1", "x2", "cx"):
            assert 0 <= float(one.get(name, "0")) <= width
        for name in ("y", "y1", "y2", "cy"):
            assert 0 <= float(one.get(name, "0")) <= height
    assert "style" not in {name for one in root.iter() for name in one.keys()}  # noqa: SIM118  of XML


def test_errors_over_what_is_allowed_are_marked() -> None:
    """The plot of errors tells points that violate from those that hold, in color, fill and words."""
    text = str(figure_plots(FIGURES[SCALE])[0])
    assert text.count('class="bad"') == 8 + 1 and text.count('class="good"') == 5 + 1
    assert "8 of 13 points along a ray" in text


def test_what_is_compared_is_drawn_where_it_differs() -> None:
    """Half of the right value lies on a line of half the slope, all points off; where both agree, there
    is no plot.
    """
    right = (-2.0, 0.5, 1.0, 4.0)
    halved = figure(SCALE, "reported against autograd", got=[v / 2 for v in right], expected=right)
    text = str(figure_plots(halved)[0])
    assert "4 of 4 points lie off the line" in text and "autograd" in text
    assert figure_plots(figure(SCALE, got=right, expected=right)) == []


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_bits_are_drawn_where_they_say_something(a: float, b: float, c: float, d: float) -> None:
    """The strip of bits is well formed for any evidence, or missing."""
    text = str(strip(Evidence(abs(a), abs(b), abs(c), 2.0**-53, abs(d), 4)))
    assert not text or ElementTree.fromstring(text).tag == "svg"


@given(st.lists(st.floats(1e-30, 1e30), min_size=1, max_size=9))
def test_ticks_are_few_and_in_order(values: list[float]) -> None:
    """Ticks of an axis lie on it, in order, few enough to be read, and each label once."""
    for axis in (linear(values, 0.0, 100.0), decades(values, 100.0, 0.0)):
        ticks = axis.ticks()
        places = [axis.at(value) for value, _ in ticks]
        assert places == sorted(places, reverse=axis.end < axis.start)
        assert len(ticks) <= 8 and len({label for _, label in ticks}) == len(ticks)
        assert all(0 <= place <= 100 for place in places)
        assert all(0 <= axis.at(value) <= 100 for value in values)


@pytest.mark.parametrize("law", registry.laws(), ids=lambda law: law.id)
def test_formulas_of_laws_are_read(law: object) -> None:
    """Every statement of the catalogue becomes well-formed markup with no TeX left in it."""
    statement: str = law.statement  # type: ignore[attr-defined]  # a Law
    text = str(formula(statement))
    root = ElementTree.fromstring(f"<p>{text}</p>")
    assert "\\" not in "".join(root.itertext()) and "$" not in "".join(root.itertext())
    assert len(root.findall("math")) == statement.count("$") // 2


@given(st.text())
def test_any_statement_is_well_formed(text: str) -> None:
    """Whatever stands in a statement, its markup is well formed."""
    ElementTree.fromstring(f"<p>{formula(text)}</p>")


def test_a_figure_keeps_six_digits() -> None:
    """Numbers of figures are short."""
    assert figure(PIT, counts=[math.pi]).of("counts") == (3.14159,)
