"""Enclosures hold what is computed and what is true, at thousands of random points."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from flowref.model.graph import Graph, Node, Ref
from flowref.proving.numbers import NotModelled
from flowref.proving.rounding.bounds import BOUNDS
from flowref.proving.rounding.enclosures import INCREASING, LOST, OWN, Function, reciprocal
from flowref.proving.rounding.intervals import FUNCTION, ROOT, Boxes, Intervals
from flowref.proving.runs import GraphRun
from precise import BITS, FUNCTIONS, exact, slopes, truth

ROWS, SIZE, BOXES = 2, 3, 4
# Operators of one operand and of two, with their other arguments.
UNARY: list[tuple[str, tuple[Any, ...]]] = [
    *(
        (name, ())
        for name in (
            "exp",
            "tanh",
            "sigmoid",
            "log",
            "sqrt",
            "expm1",
            "log1p",
            "sinh",
            "cosh",
            "asinh",
            "atan",
            "atanh",
            "erf",
            "sin",
            "cos",
            "neg",
            "reciprocal",
        )
    ),
    ("pow", (2,)),
    ("pow", (3,)),
    ("pow", (-1,)),
    ("pow", (0.5,)),
    ("pow", (1.7,)),
    ("mul", (0.3,)),
    ("add", (1.1,)),
    ("sub", (0.7,)),
    ("div", (3.0,)),
    ("mul", (0.0,)),
    ("mul", (-4.0,)),
    ("sum", ([1], True)),
    ("mean", ([1], True)),
    ("cumsum", (1,)),
    ("prod", (1, True)),
    ("amax", ([1], True)),
    ("flip", ([1],)),
]
BINARY = ("add", "sub", "mul", "div", "cat", "where", "mm")


def node(name: str, op: str, *args: Any, kind: str = "float") -> Node:
    """An operator."""
    return Node(name, op, args, {}, kind)


def drawn(rng: np.random.Generator, length: int = 8) -> tuple[Graph, dict[str, Any]]:
    """A random graph, and its weights."""
    weights = {"w": rng.normal(size=(SIZE, SIZE)).round(int(rng.integers(0, 9)))}
    shapes = {"x": (ROWS, SIZE)}
    nodes: list[Node] = []
    for at in range(length):
        name, one, other = f"n{at}", *rng.choice(list(shapes), 2)
        if rng.random() < 0.6:
            op, args = UNARY[rng.integers(len(UNARY))]
            found = node(name, op, Ref(one), *args)
        else:
            op = BINARY[rng.integers(len(BINARY))]
            if op == "mm":
                if shapes[one][-1] != SIZE:
                    continue
                found = node(name, op, Ref(one), Ref("w"))
            elif op == "cat":
                found = node(name, op, [Ref(one), Ref(other)], 1)
            elif op == "where":
                nodes.append(node(f"{name}b", "gt", Ref(one), 0.1, kind="bool"))
                found = node(name, op, Ref(f"{name}b"), Ref(one), Ref(other))
            else:
                found = node(name, op, Ref(one), Ref(other))
        try:
            values = computed([*nodes, found], weights, rng.normal(size=(ROWS, SIZE)))
        except RuntimeError:  # shapes that do not fit
            continue
        if values[name].ndim != 2 or values[name].shape[1] > 2 * SIZE:
            continue
        shapes[name] = tuple(values[name].shape)
        nodes.append(found)
    last = list(shapes)[-1]
    graph = Graph(
        {"w": (SIZE, SIZE)}, ("x", (ROWS, SIZE)), None, weights, tuple(nodes), (Ref(last), None)
    )
    return graph, weights


def computed(nodes: Any, weights: Any, x: Any) -> dict[str, Any]:
    """The values of nodes in double precision, as torch computes them."""
    values = {"x": torch.tensor(x), "w": torch.tensor(weights["w"])}

    def given(one: Any) -> Any:
        if isinstance(one, Ref):
            return values[one.name]
        return [given(inner) for inner in one] if isinstance(one, list) else one

    for one in nodes:
        values[one.name] = getattr(torch.ops.aten, one.op)(*map(given, one.args))
    return values


def enclosed(graph: Graph, low: Any, high: Any, *, slope: bool = False) -> dict[str, Any]:
    """All values on boxes."""
    with np.errstate(all="ignore"):
        return GraphRun(
            graph, Boxes(low, high), None, frozenset(), "entries" if slope else "", operators=BOUNDS
        ).values


def assert_holds(found: Intervals, told: Any, true: Any, box: int = 0) -> int:
    """What is computed and what is true lie between the ends, and are no further from each other than is said. How many
    entries are bounded.
    """
    pick = [
        np.broadcast_to(one, (max(len(one), box + 1), *one.shape[1:]))[box]
        for one in (*found.ends, found.err)
    ]
    fine = np.isfinite(pick[2])
    for low, high, err, float_, sharp in zip(
        *(one[fine] for one in (*pick, told, true)), strict=True
    ):
        assert low <= float_ <= high and low <= sharp <= high
        assert abs(mpmath.mpf(float(float_)) - sharp) <= err
    return int(fine.sum())


def measured(
    graph: Graph, weights: dict[str, Any], x: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is computed at points, and what comparisons came to."""
    values = {one: value.numpy() for one, value in computed(graph.nodes, weights, x).items()}
    return values, {one.name: values[one.name] for one in graph.nodes if one.kind == "bool"}


def in_boxes(seed: int) -> Iterator[tuple[Graph, Intervals, int, Any, Any, Any]]:
    """A random graph on boxes of all sizes, and what is computed at their corners and inside: the graph, its last node on all
    boxes, the number of a box, points, the value, and what was decided.
    """
    rng = np.random.default_rng(seed)
    graph, weights = drawn(rng)
    name = graph.outputs[0].name
    middle = rng.normal(size=(BOXES, SIZE)) * 10.0 ** rng.integers(-2, 2)
    width = 10.0 ** rng.uniform(-12, 1, size=(BOXES, 1)) * (rng.random((BOXES, 1)) < 0.8)
    low, high = middle - width, middle + width
    found = enclosed(graph, low, high, slope=True)[name]
    for box in range(BOXES):
        for corner in (0.0, 1.0, rng.random((ROWS, SIZE))):
            x = low[box] + corner * (high[box] - low[box]) + np.zeros((ROWS, SIZE))
            x = np.clip(x, low[box], high[box])
            values, decided = measured(graph, weights, x)
            yield graph, found, box, exact(x), values[name], decided


@pytest.mark.parametrize("seed", range(100))
def test_random_graphs_are_enclosed(seed: int) -> None:
    """Values and errors."""
    for graph, found, box, x, told, decided in in_boxes(seed):
        with contextlib.suppress(ZeroDivisionError, TypeError):  # no number, and no bound
            assert_holds(found, told, truth(graph, x, decided)[graph.outputs[0].name], box)


@pytest.mark.parametrize("seed", range(20))
def test_derivatives_of_random_graphs_are_enclosed(seed: int) -> None:
    """By each entry, to what a difference of 1e-90 tells."""
    for graph, found, box, x, _, decided in itertools.islice(in_boxes(seed), 1, None, 2):
        fine = found.bounded[min(box, len(found.bounded) - 1)]
        low, high = (np.broadcast_to(one, (BOXES, *one.shape[1:]))[box] for one in found.slopes)
        for entry in range(SIZE if fine.all() else 0):
            true = slopes(graph, x, decided, graph.outputs[0].name, entry)
            near = [mpmath.mpf(10) ** -80 * (1 + abs(one)) for one in true.flat]
            ends = zip(low[entry].flat, high[entry].flat, true.flat, near, strict=True)
            assert all(least - off <= one <= most + off for least, most, one, off in ends)


ROOTS = Function(np.sqrt, reciprocal, low=0.0)


@pytest.mark.parametrize("name", [*INCREASING, "sqrt"])
def test_functions_are_as_accurate_as_is_assumed(name: str) -> None:
    """Those of torch, and those of numpy at the ends of intervals, on this processor, to where numbers end."""
    rng = np.random.default_rng(0)
    function, most = (ROOTS, ROOT) if name == "sqrt" else (INCREASING[name], FUNCTION)
    ends = max(function.low, -30.0), min(function.high, 30.0)
    small = 10.0 ** rng.uniform(-300, 0, 300) * rng.choice([-1, 1], 300)
    points = np.concatenate(
        (rng.uniform(*ends, 300), small, 1 + small[:100] / 4, rng.uniform(-745, 709, 200))
    )
    points = points[(points > function.low) & (points < function.high)]
    with mpmath.workprec(2500):
        true = [FUNCTIONS[name](mpmath.mpf(float(one))) for one in points]
        points = points[[abs(one) < 1e308 for one in true]]
        true = [one for one in true if abs(one) < 1e308]
        ulps = [mpmath.mpf(float(np.spacing(abs(float(one))))) for one in true]
        for values, units in (
            (getattr(torch, name)(torch.tensor(points)).numpy(), most),
            (function.value(points), OWN),
        ):
            off = [
                (abs(mpmath.mpf(float(a)) - b) - LOST) / c
                for a, b, c in zip(values, true, ulps, strict=True)
            ]
            assert max(off) <= units


# Programs of one number, a box, and up to which bound their error is told: None where nothing is.
HARD: dict[str, tuple[list[Node], tuple[float, float], float | None]] = {
    "cancellation": (
        [node("a", "add", Ref("x"), 1e8), node("y", "sub", Ref("a"), 1e8)],
        (1.0, 2.0),
        1e-7,
    ),
    "itself": ([node("y", "sub", Ref("x"), Ref("x"))], (-1e3, 1e3), 1e-12),
    "zero in a divisor": ([node("y", "div", 1.0, Ref("x"))], (-1.0, 1.0), None),
    "zero over zero": (
        [node("a", "mul", Ref("x"), 0.0), node("y", "div", Ref("a"), Ref("x"))],
        (-1.0, 1.0),
        None,
    ),
    "logarithm at zero": ([node("y", "log", Ref("x"))], (0.0, 1.0), None),
    "logarithm above": ([node("y", "log", Ref("x"))], (1e-300, 1.0), 1e-12),
    "root at zero": ([node("y", "sqrt", Ref("x"))], (0.0, 1.0), 1e-15),
    "root of a rounded zero": (
        [
            node("a", "sub", Ref("x"), 0.1),
            node("b", "mul", Ref("a"), Ref("a")),
            node("y", "sqrt", Ref("b")),
        ],
        (0.0, 1.0),
        1e-7,
    ),
    "overflow": ([node("y", "exp", Ref("x"))], (700.0, 710.0), None),
    "overflow inside": (
        [node("a", "exp", Ref("x")), node("y", "reciprocal", Ref("a"))],
        (700.0, 710.0),
        None,
    ),
    "underflow": ([node("a", "exp", Ref("x")), node("y", "log", Ref("a"))], (-800.0, 0.0), None),
    "a sigmoid that is lost": (
        [node("a", "sigmoid", Ref("x")), node("y", "log", Ref("a"))],
        (-720.0, -700.0),
        None,
    ),
    "a small sigmoid": ([node("y", "sigmoid", Ref("x"))], (-740.0, -700.0), 2e-307),
    "a branch that is not taken": (
        [
            node("a", "log", Ref("x")),
            node("b", "gt", Ref("x"), 20.0, kind="bool"),
            node("y", "where", Ref("b"), Ref("x"), Ref("a")),
        ],
        (1.0, 2.0),
        1e-15,
    ),
    "a branch without a number": (
        [
            node("a", "log", Ref("x")),
            node("b", "gt", Ref("x"), 0.0, kind="bool"),
            node("y", "where", Ref("b"), Ref("a"), Ref("x")),
        ],
        (-1.0, 1.0),
        None,
    ),
    "a clamp that is never reached": ([node("y", "clamp", Ref("x"), -5.0, 5.0)], (-1.0, 1.0), 0.0),
    "no number is not compared": (
        [
            node("a", "log", Ref("x")),
            node("b", "gt", Ref("a"), -1e9, kind="bool"),
            node("y", "where", Ref("b"), 0.0, Ref("x")),
        ],
        (-2.0, -1.0),
        0.0,
    ),
}


@pytest.mark.parametrize("name", HARD)
def test_what_is_hard_is_bounded_or_left(name: str) -> None:
    """An error that is told is one that is seen at points, and no number has no bound."""
    nodes, ends, most = HARD[name]
    graph = Graph({}, ("x", (1, 1)), None, {}, tuple(nodes), (Ref("y"), None))
    found = enclosed(graph, *(np.array([[end]]) for end in ends))["y"]
    for at in np.linspace(*ends, 9):
        told, decided = measured(graph, {"w": [0.0]}, np.array([[at]]))
        if np.isfinite(told["y"]).all():
            with contextlib.suppress(ZeroDivisionError, TypeError):
                assert_holds(found, told["y"], truth(graph, exact([[at]]), decided)["y"])
        else:
            assert not found.bounded.any()
    assert found.bounded.all() == (most is not None)
    assert most is None or (found.err <= most).all()


def test_an_open_choice_holds_both() -> None:
    """The computed one is one of them, and no other is told."""
    nodes = [
        node("b", "gt", Ref("x"), 0.0, kind="bool"),
        node("y", "where", Ref("b"), 3.0, Ref("x")),
    ]
    graph = Graph({}, ("x", (1, 1)), None, {}, tuple(nodes), (Ref("y"), None))
    found = enclosed(graph, np.array([[-1.0]]), np.array([[1.0]]))["y"]
    assert (found.low <= -1).all() and (found.high >= 3).all() and (found.err == 0).all()


def test_what_does_not_depend_on_an_entry_has_no_slope() -> None:
    """However steep the rest is: a masked matrix has zeros, that stay."""
    weights = {"w": np.tril(np.ones((SIZE, SIZE))).T}
    nodes = [
        node("a", "mul", Ref("x"), Ref("x")),
        node("e", "reciprocal", Ref("a")),
        node("y", "mm", Ref("e"), Ref("w")),
    ]
    graph = Graph(
        {"w": (SIZE, SIZE)}, ("x", (ROWS, SIZE)), None, weights, tuple(nodes), (Ref("y"), None)
    )
    low = np.array([[1.0, -1.0, 1.0]])
    d = enclosed(graph, low, low + 2, slope=True)["y"].d
    free = np.triu(np.ones((SIZE, SIZE), bool), 0)
    for entry in range(SIZE):
        zero = (d[0][0, entry] == 0) & (d[1][0, entry] == 0)
        assert (zero == ~free[entry]).all()


def convolved(x: Any, w: Any) -> Any:
    """A convolution along the last axis: (batch, channels, length) with (outputs, channels, width)."""
    count = x.shape[-1] - w.shape[-1] + 1
    parts = [x[:, :, at : at + w.shape[-1]] for at in range(count)]
    return np.stack([np.tensordot(part, w, ((1, 2), (1, 2))) for part in parts], -1)


def solved(a: Any, b: Any) -> Any:
    """The solution of a lower triangular system."""
    rows: list[Any] = []
    for at in range(len(a)):
        known = sum((a[at, one] * row for one, row in enumerate(rows)), start=0 * b[0])
        rows.append((b[at] - known) / a[at, at])
    return np.stack(rows)


def at_places(x: Any, places: Any, y: Any) -> Any:
    """With other entries at places of the last axis."""
    found = np.array(x, object)
    found[:, places] = y
    return found


PLACES = np.array([2, 0])
# Operators of several arrays: shapes of these, the operator on intervals, in torch, and on numbers of mpmath.
SEVERAL: dict[str, tuple[list[tuple[int, ...]], Any, Any, Any]] = {
    "convolution": (
        [(2, 3, 5), (4, 3, 2)],
        lambda x, w: BOUNDS["convolution"](x, w, None, [1], [0], [1], False, [0], 1),
        torch.nn.functional.conv1d,
        convolved,
    ),
    "addmm": ([(4,), (3, 5), (5, 4)], BOUNDS["addmm"], torch.addmm, lambda c, a, b: c + a @ b),
    "bmm": ([(2, 3, 5), (2, 5, 4)], BOUNDS["bmm"], torch.bmm, lambda a, b: a @ b),
    "triangular": (
        [(4, 4), (4, 3)],
        lambda a, b: BOUNDS["linalg_solve_triangular"](a, b, upper=False),
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
        solved,
    ),
    "index_put": (
        [(3, 4), (3, 2)],
        lambda x, y: BOUNDS["index_put"](x, [None, PLACES], y),
        lambda x, y: x.index_put((torch.arange(3)[:, None], torch.tensor(PLACES)[None]), y),
        lambda x, y: at_places(x, PLACES, y),
    ),
    "slogdet": (
        [(4, 4)],
        lambda a: BOUNDS["_linalg_slogdet"](a)[1],
        lambda a: torch.linalg.slogdet(a)[1],
        lambda a: np.array(mpmath.log(abs(mpmath.det(mpmath.matrix(a.tolist())))), object),
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("width", [0.0, 1e-9, 1e-2])
def test_operators_of_several_arrays_are_enclosed(name: str, width: float) -> None:
    """At points between the ends of their operands."""
    shapes, bounded, framework, sharp = SEVERAL[name]
    rng, boxes = np.random.default_rng(0), Boxes(np.zeros((1, 1)), np.zeros((1, 1)))
    for _ in range(10):
        middles = [
            rng.normal(size=shape) + 3 * np.eye(*shape[-2:]) * (name != "addmm")
            if len(shape) == 2
            else rng.normal(size=shape)
            for shape in shapes
        ]
        ends = [(one - width, one + width) for one in middles]
        given = [
            Intervals(boxes, (low[None], high[None]), np.zeros((1, *low.shape)))
            for low, high in ends
        ]
        points = [np.clip(low + rng.random(low.shape) * 2 * width, low, high) for low, high in ends]
        with np.errstate(all="ignore"):
            found = bounded(*given)
        with mpmath.workprec(BITS):
            true = sharp(*map(exact, points))
            assert_holds(found, framework(*map(torch.tensor, points)).numpy(), true)


def test_a_place_that_is_open_holds_all() -> None:
    """Of those that a box may have."""
    boxes = Boxes(np.zeros((1, 1)), np.zeros((1, 1)))
    x = boxes.constant(np.array([[1.0, 5.0, -2.0, 9.0]]))
    places = x.certain(np.array([[[0.0, 2.0]]]), np.array([[[1.0, 2.0]]]))
    found = BOUNDS["gather"](x, 1, places)
    assert found.low.tolist() == [[[1.0, -2.0]]] and found.high.tolist() == [[[5.0, -2.0]]]


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("scatter_add", ()),
        ("var", ()),
        ("sort", ()),
        ("_to_copy", ("float32",)),
        ("_to_copy", ("int64",)),
    ],
)
def test_what_is_not_modelled_is_refused(op: str, args: tuple[Any, ...]) -> None:
    """With its operator."""
    one = Node("y", op, (Ref("x"), *args), {}, "float", line="flow.py:7")
    graph = Graph({}, ("x", (1, 1)), None, {}, (one,), (Ref("y"), None))
    with pytest.raises(NotModelled, match=r"flow.py:7"):
        enclosed(graph, np.zeros((1, 1)), np.ones((1, 1)))
