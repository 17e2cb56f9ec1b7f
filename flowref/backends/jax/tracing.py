"""Calls of JAX as graphs of operators (`flowref.model.graph`), with the outcomes of comparisons at
drawn points.

A call is traced, and its program inlined (`flat_program`); then each operation is mapped to an
operator by its name in ATen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends.jax.eager_operations import uncompiled
from flowref.backends.jax.flat_program import Untraced, inlined, line_of, primitive_and_line
from flowref.backends.jax.interpreter import Operation, numpy_result
from flowref.backends.jax.retraced_calls import identical
from flowref.backends.jax.trees import leaves_and_tree, paths, weights_of
from flowref.model.graph import STEPS, Branches, Graph, Node, Ref

# The rounding allowed between an operation and its decomposition; how far weights are moved.
NEAR, AWAY = 1e-9, 0.1


class JaxTracedCall:
    """The graph of a call, and its evaluation in floats.

    ``call``: a function of object, points and context; ``x``, ``context``: the batch that is
    traced.
    """

    def __init__(
        self, obj: Any, call: Callable[[Any, Any, Any], Any], x: Any, context: Any = None
    ) -> None:
        self.state, self.tree = leaves_and_tree(obj)
        self.names = [f"self{path}" for path in paths(obj)]
        if len(set(self.names)) < len(self.state):
            raise Untraced("two of its arrays have one name")
        moves = weights_of(obj)
        self.trained = frozenset(name for name, one in zip(self.names, moves, strict=True) if one)
        self.call, self.context, self.x = call, context, x
        self.given = (*self.state, x) if context is None else (*self.state, x, context)
        self.program, self.guards = self._inlined_program()
        jaxpr = self.program.jaxpr
        # Values that depend on no input are constants of the trace.
        self.moving, self.narrow = set(jaxpr.invars), set[Any]()
        self.operations: list[tuple[Any, Operation]] = []
        for equation in jaxpr.eqns:
            given = {one for one in equation.invars if not hasattr(one, "val")}
            if given & self.moving:
                self.moving.update(equation.outvars)
            if equation.primitive.name in NARROW or given & self.narrow:
                self.narrow.update(equation.outvars)
            self.operations.append((equation, Operation(equation, [None] * len(equation.invars))))
        self.seen = self.floats(*self.given)
        self._name_variables()

    def run(self, state: Sequence[Any], x: Any, context: Any) -> list[Any]:
        """The results of a call, of an object with these weights."""
        return self._results(self.tree.filled(state), x, context)

    def _results(self, obj: Any, x: Any, context: Any) -> list[Any]:
        out = self.call(obj, x, context)
        parts = [one for one in out if one is not None] if isinstance(out, tuple) else [out]
        return [jnp.asarray(one) for one in parts]  # a log-det may be a Python number

    def _inlined_program(self) -> Any:
        def run(*given: Any) -> list[Any]:
            count = len(self.state)
            return self.run(given[:count], given[count], (*given[count + 1 :], None)[0])

        try:
            closed = jax.make_jaxpr(run)(*self.given)
        except jax.errors.JAXTypeError as error:
            text = str(error).partition("\n")[0]
            raise Untraced(f"a number leaves an array ({type(error).__name__}: {text})") from error
        return inlined(closed, *self.given)

    def floats(self, *given: Any) -> dict[Any, Any]:
        """All values of the program at points, by variable."""
        jaxpr, values = self.program.jaxpr, dict[Any, Any]()
        values.update(zip(jaxpr.constvars, map(numpy_result, self.program.consts), strict=True))
        values.update(zip(jaxpr.invars, map(numpy_result, given), strict=True))
        for equation, operation in self.operations:
            found = operation([_atom_value(values, one) for one in equation.invars], None)
            values.update(zip(equation.outvars, found, strict=True))
        return values

    def _name_variables(self) -> None:
        jaxpr, count = self.program.jaxpr, len(self.state)
        self.inputs = ("points", "context")[: len(jaxpr.invars) - count]
        self.by: dict[Any, str] = dict(zip(jaxpr.invars, (*self.names, *self.inputs), strict=True))
        for number, variable in enumerate(jaxpr.constvars):
            self.by[variable] = f"constant_{number}"
        for number, equation in enumerate(jaxpr.eqns):
            for place, variable in enumerate(equation.outvars):
                name = equation.primitive.name.replace("-", "_")
                self.by[variable] = f"{name}_{number}" + (f"_{place}" if place else "")

    def graph(self) -> Graph:
        """The graph in the form of `flowref.model.graph`. Raises `Untraced` for float32
        computations.
        """
        jaxpr, count = self.program.jaxpr, len(self.state)
        constants: dict[str, Any] = dict(zip(self.names, map(np.asarray, self.state), strict=True))
        nodes = [self._constant(one, constants) for one in jaxpr.constvars if _numeric(one)]
        for equation in jaxpr.eqns:
            nodes += self._operators_of(equation, constants)
        outputs = []
        for place, atom in enumerate(jaxpr.outvars):
            if hasattr(atom, "val"):
                name = f"result_{place}"
                constants[name] = np.asarray(atom.val, atom.aval.dtype)
                nodes.append(Node(name, "constant", (), {}, "float"))
                outputs.append(Ref(name))
            else:
                outputs.append(Ref(self.by[atom]))
        shapes = [tuple(one.aval.shape) for one in jaxpr.invars]
        points, *given = zip(self.inputs, shapes[count:], strict=True)
        whole = Graph(
            dict(zip(self.names, shapes, strict=False)), points, given[0] if given else None, constants,
            tuple(nodes), (outputs[0], outputs[1] if len(outputs) > 1 else None), self.guards, self.trained,
        )  # fmt: skip
        return replace(whole, nodes=tuple(whole.needed(())))

    def _constant(self, variable: Any, constants: dict[str, Any]) -> Node:
        value, name = np.asarray(self.seen[variable]), self.by[variable]
        constants[name] = value
        return Node(name, "constant", (), {}, _node_kind(value.dtype), value.shape)

    def _operators_of(self, equation: Any, constants: dict[str, Any]) -> Iterator[Node]:
        for variable in equation.outvars:
            kind, name = _node_kind(variable.aval.dtype), self.by.get(variable, "")
            if variable not in self.moving and kind != "float":
                if _numeric(variable):
                    yield self._constant(variable, constants)
                continue
            if kind in ("int", "bool"):
                constants[name] = np.asarray(self.seen[variable])
            elif kind != "float":
                raise Untraced(f"{variable.aval.dtype} numbers, by {primitive_and_line(equation)}")
            shape, line = tuple(variable.aval.shape), line_of(equation)
            args = [self._argument(one) for one in equation.invars]
            alone = [at for at, one in enumerate(args) if isinstance(one, float)]
            spread = equation.primitive.name == "broadcast_in_dim"
            if alone and kind == "float" and not spread and not self._has_array_argument(equation):
                # Operators take arrays: a number becomes a constant.
                number = Node(f"{name}_of", "constant", (), {}, "float")
                constants[number.name] = np.asarray(args[alone[0]])
                args[alone[0]] = Ref(number.name)
                yield number
            # Integers are part of a path; several results are split before.
            plain_one = kind != "int" and len(equation.outvars) == 1
            found = _operator(equation, args) if plain_one else None
            if found is not None and found[0] in ("isnan", "isfinite"):
                found = None if equation.invars[0] in self.narrow else found
            if equation.primitive.name == "gather" and found is not None:
                # Indices have a last axis of one.
                yield Node(f"{name}_at", *found, {}, kind, (*shape, 1), line)
                found = "view", (Ref(f"{name}_at"), shape)
            op, given = found or (f"lax.{equation.primitive.name}", tuple(args))
            named = {"dtype": str(variable.aval.dtype)} if op == "_to" else {}
            yield Node(name, op, given, named, kind, shape, line)

    def _has_array_argument(self, equation: Any) -> bool:
        return any(not hasattr(one, "val") and one.aval.dtype == float for one in equation.invars)

    def _argument(self, atom: Any) -> Any:
        return np.asarray(atom.val).item() if hasattr(atom, "val") else Ref(self.by[atom])

    def agrees(self, points: Sequence[Any]) -> bool:
        """Whether the graph computes what the object does, at points and with other weights: a
        second trace must be identical, and the eager object must agree up to rounding.
        """
        again, _ = self._inlined_program()
        consts = zip(again.consts, self.program.consts, strict=False)
        if str(again.jaxpr) != str(self.program.jaxpr) or not all(
            identical(jnp.asarray(one), jnp.asarray(other)) for one, other in consts
        ):
            return False
        rng = np.random.default_rng(0)
        more = self.given[len(self.state) + 1 :]
        others = [one + AWAY * np.abs(rng.standard_normal(one.shape)) for one in self.state]
        compared = 0
        for state, batches in ((self.state, points), (others, points[:1])):
            # One object for all points: state kept from a call may affect the next.
            obj = self.tree.filled([jnp.asarray(one) for one in state])
            for x in batches:
                try:
                    with uncompiled():
                        there = self._results(obj, x, self.context)
                    given = [numpy_result(one) for one in (*state, x, *more)]
                    values = self.floats(*given)
                except Exception:  # other weights or points may be rejected
                    continue
                compared += 1
                pairs = zip(there, self.program.jaxpr.outvars, strict=True)
                if not all(
                    np.allclose(
                        one, _atom_value(values, atom), rtol=NEAR, atol=NEAR, equal_nan=True
                    )
                    for one, atom in pairs
                ):
                    return False
        return compared > 0

    def path(self, x: Any) -> Branches | None:
        """The outcomes of comparisons and integers at points."""
        count = len(self.state)
        values = self.floats(*self.state, x, *self.given[count + 1 :])
        return Branches(
            {
                self.by[variable]: np.asarray(values[variable])
                for equation in self.program.jaxpr.eqns
                for variable in equation.outvars
                if variable in self.moving
                and (
                    _node_kind(variable.aval.dtype) in ("int", "bool")
                    or equation.primitive.name in STEPS
                )
            }
        )


def _atom_value(values: dict[Any, Any], atom: Any) -> Any:
    return np.asarray(atom.val, atom.aval.dtype) if hasattr(atom, "val") else values[atom]


def _numeric(variable: Any) -> bool:
    """Whether a value consists of numbers or booleans, not random keys."""
    return isinstance(variable.aval.dtype, np.dtype)


def _node_kind(dtype: Any) -> str:
    """The kind of a node's value, as in `Node`; another word for other precisions and
    random keys.
    """
    if dtype == np.float64:
        return "float"
    letter = dtype.kind if isinstance(dtype, np.dtype) else ""
    kinds = {"c": "complex", "b": "bool", "i": "int", "u": "int"}
    return kinds.get(letter, "float32")


# Functions defined on a part of the line; it is unknown whether their arguments stay in it.
NARROW = ("erf_inv", "acosh", "lgamma", "digamma")
# Primitives that are an operator with the same arguments.
SAME = {
    **{
        name: name
        for name in (
            "add sub mul div neg exp exp2 log sqrt rsqrt sin cos tanh sinh cosh asinh atanh asin acos atan erf expm1 log1p square "
            "sign floor ceil eq ne lt le gt ge pow"
        ).split()
    },
    "add_any": "add",
    "erf_inv": "erfinv",
    "logistic": "sigmoid",
    "le_to": "le",
    "lt_to": "lt",
    **dict.fromkeys(("copy", "copy_p"), "clone"),
    "stop_gradient": "detach",
}
TRUTHS = {"and": "logical_and", "or": "logical_or", "not": "logical_not"}
# Reductions, of an array and axes.
OVER = {"reduce_sum": "sum", "reduce_max": "amax", "reduce_min": "amin", "reduce_prod": "prod"}
Operator = tuple[str, tuple[Any, ...]]


def _operator(equation: Any, args: list[Any]) -> Operator | None:
    """The (name, arguments) of an equation's operator; None if there is none."""
    name, params, shape = equation.primitive.name, equation.params, equation.outvars[0].aval.shape
    first: Any = equation.invars[0].aval if equation.invars else None
    if name in ("eq", "ne") and args[0] == args[1] and isinstance(args[0], Ref):
        return None if name == "eq" else ("isnan", (args[0],))
    if name in SAME:
        return SAME[name], tuple(args)
    if name in TRUTHS:
        return (TRUTHS[name], tuple(args)) if first.dtype == bool else None
    if name in OVER:
        axes = [int(axis) for axis in params["axes"]]
        # A sum over no axes is the identity, where ATen's is over all.
        return (OVER[name], (args[0], axes)) if axes else ("clone", (args[0],))
    if name in MADE:
        return MADE[name](params, args, tuple(shape), first)
    return None


def _expanded(params: Any, args: list[Any], shape: tuple[int, ...], first: Any) -> Operator:
    number = not isinstance(args[0], Ref)
    return ("full", (shape, args[0])) if number else ("expand", (args[0], shape))


def _cut(params: Any, args: list[Any], shape: tuple[int, ...], first: Any) -> Operator:
    """Along the one axis that is sliced."""
    steps = params["strides"] or [1] * len(shape)
    ends = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    whole = [(0, size, 1) for size in first.shape]
    axis, cut = next(
        ((axis, one) for axis, one in enumerate(ends) if one != whole[axis]), (0, whole[0])
    )
    return "slice", (args[0], axis, *cut)


def _solved(params: Any, args: list[Any], shape: tuple[int, ...], first: Any) -> Operator:
    upper, left, ones = not params["lower"], params["left_side"], params["unit_diagonal"]
    return "linalg_solve_triangular", (*args, upper, left, ones)


def _viewed(params: Any, args: list[Any], shape: tuple[int, ...], first: Any) -> Operator | None:
    return (
        None if params.get("dimensions") and "new_sizes" in params else ("view", (args[0], shape))
    )


MADE: dict[str, Callable[..., Operator | None]] = {
    "select_n": lambda params, args, shape, first: (
        ("where", (args[0], args[2], args[1])) if len(args) == 3 and first.dtype == bool else None
    ),
    "integer_pow": lambda params, args, *_: ("pow", (args[0], int(params["y"]))),
    "convert_element_type": lambda params, args, *_: ("_to", (args[0],)),
    "is_finite": lambda params, args, *_: ("isfinite", (args[0],)),
    "round": lambda params, args, *_: (
        ("round", (args[0],)) if int(params["rounding_method"]) == 1 else None
    ),
    "broadcast_in_dim": _expanded,
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _viewed),
    "transpose": lambda params, args, *_: (
        "permute",
        (args[0], [int(axis) for axis in params["permutation"]]),
    ),
    "concatenate": lambda params, args, *_: ("cat", (list(args), int(params["dimension"]))),
    "slice": _cut,
    "rev": lambda params, args, *_: (
        "flip",
        (args[0], [int(axis) for axis in params["dimensions"]]),
    ),
    "gather": lambda params, args, *_: ("index", (args[0], [args[1]])),
    "dot_general": lambda params, args, shape, first: (
        ("mm" if len(shape) == 2 else "bmm", tuple(args))
    ),
    **{
        name: lambda params, args, shape, first, name=name: (name, (args[0], int(params["axis"])))
        for name in ("cumsum", "cumprod")
    },
    "triangular_solve": _solved,
}
