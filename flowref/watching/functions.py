"""The watch of a loop in JAX: of a function of parameters and a batch."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flowref.model import one_line
from flowref.watching.pace import Pace

# Map errors are reported without a verdict, and only above rounding in single precision.
LOST = 0.05


class Steps:
    """Called with parameters and a batch at each step of a loop; ``findings`` are the sentences
    reported so far.
    """

    def __init__(
        self,
        loss: Callable[[Any, Any], Any],
        every: int,
        rows: int,
        forward: Callable[[Any, Any], Any] | None,
        inverse: Callable[[Any, Any], Any] | None,
        report: Callable[[str], Any],
    ) -> None:
        self._jax = importlib.import_module("jax")
        jit = self._jax.jit
        self._loss, self._gradients = loss, jit(self._jax.value_and_grad(loss))
        self._maps = None if forward is None else jit(self._map_errors(forward, inverse))
        self._total = jit(
            lambda values: sum(one.sum() for one in self._jax.tree_util.tree_leaves(values))
        )
        self._before: tuple[Any, Any] | None = None
        self._rows, self._report, self._pace = rows, report, Pace(every)
        self._said: set[str] = set()
        self._fresh = True
        self.findings: list[str] = []
        self.step = self.good = 0

    def __call__(self, parameters: Any, batch: Any) -> None:
        """Count a step, made with these parameters before it, and run a check if one is due."""
        self.step += 1
        before, self._before = self._before, (parameters, batch)
        spoiled = before is not None and not math.isfinite(float(self._total(parameters)))
        if spoiled and "finite" not in self._said and (bad := self._non_finite_path(parameters)):
            assert before is not None
            try:
                made = self._first_operation(*before)
            except Exception:  # the loop donated its buffers
                made = ""
            self._say(
                f"the parameter {bad} is not finite after step {self.step - 1}{made}; the last good step is {self.good}",
                "finite",
            )
        if not spoiled:
            self.good = self.step - 1
        if spoiled or self.step < self._pace.due_at:
            return
        began = time.perf_counter()
        try:
            self._check(parameters, batch)
        except Exception as raised:
            self._say(
                f"a check was given up, and training goes on ({one_line(raised, 200)})", "given up"
            )
        if self._fresh:  # the first call compiled
            self._fresh = False
            self._pace.paid(self.step)
        elif said := self._pace.finish(self.step, time.perf_counter() - began):
            self._say(said, "pace")

    def _say(self, sentence: str, key: str) -> None:
        if key not in self._said:
            self._said.add(key)
            self.findings.append(f"step {self.step}: {sentence}")
            self._report(f"flowref.watch: {self.findings[-1]}")

    def _check(self, parameters: Any, batch: Any) -> None:
        tree = self._jax.tree_util
        rows = tree.tree_map(
            lambda one: one[: self._rows] if getattr(one, "ndim", 0) else one, batch
        )
        value, gradients = self._gradients(parameters, rows)
        bad = self._non_finite_path(gradients)
        if bad or not math.isfinite(float(value)):
            what = f"the gradient of {bad}" if bad else "the loss"
            made = self._first_operation(parameters, rows)
            self._say(f"{what} is not finite{made}; the last good step is {self.good}", "finite")
            return
        for path, gradient in tree.tree_flatten_with_path(gradients)[0]:
            if not np.any(np.asarray(gradient)):
                # Checks use few rows: a single one may show no gradient by chance.
                key = f"gradient {tree.keystr(path)}"
                if f"{key} before" in self._said:
                    self._say(f"no gradient reaches {tree.keystr(path)} at two checks", key)
                self._said.add(f"{key} before")
        if self._maps is not None:
            off, reported, expected = map(float, self._maps(parameters, tree.tree_leaves(rows)[0]))
            if off > LOST:
                self._say(f"the round trip is off by {off:.3g} of a row", "round trip")
            if abs(expected - reported) > LOST * max(1.0, abs(expected)):
                self._say(
                    f"the log-det is {reported:.4g}, and that of the Jacobian {expected:.4g}",
                    "log-det",
                )

    def _map_errors(
        self, forward: Callable[..., Any], inverse: Callable[..., Any] | None
    ) -> Callable[..., Any]:
        """Round-trip errors relative to the largest entry, and the two log-dets of the
        first row.
        """
        jax = self._jax

        def errors(parameters: Any, x: Any) -> tuple[Any, Any, Any]:
            z, ladj = forward(parameters, x)
            back = x if inverse is None else inverse(parameters, z)
            back = back[0] if isinstance(back, tuple) else back
            size = math.prod(x.shape[1:])
            jacobian = jax.jacfwd(lambda row: forward(parameters, row[None])[0][0])(x[0])
            expected = jax.numpy.linalg.slogdet(jacobian.reshape(-1, size))[1]
            off = abs(back - x).max() / jax.numpy.maximum(1.0, abs(x).max())
            return off, ladj.reshape(-1)[0], expected

        return errors

    def _first_operation(self, parameters: Any, batch: Any) -> str:
        """The first operation of the loss, or of its gradient, with a non-finite result, as a
        clause.
        """
        both = (self._loss, self._jax.grad(self._loss))
        return next(
            filter(
                None,
                (_first_non_finite_operation(self._jax, one, parameters, batch) for one in both),
            ),
            "",
        )

    def _non_finite_path(self, values: Any) -> str:
        tree = self._jax.tree_util
        for path, leaf in tree.tree_flatten_with_path(values)[0]:
            array = np.asarray(leaf)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return str(tree.keystr(path)) or "the parameters"
        return ""


def _first_non_finite_operation(jax: Any, function: Callable[..., Any], *args: Any) -> str:
    """The first operation with a non-finite result from finite inputs, as a clause, or ""."""
    closed = jax.make_jaxpr(function)(*args)
    found: list[str] = []
    _run_operations(closed.jaxpr, closed.consts, jax.tree_util.tree_leaves(args), found)
    return f": {found[0]}" if found else ""


def _run_operations(jaxpr: Any, constants: Any, given: Any, found: list[str]) -> list[Any]:
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *given), strict=True))

    def read(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else values[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
        if (
            inner is not None
            and hasattr(inner, "consts")
            and len(inner.jaxpr.invars) == len(inputs)
            and (equation.primitive.name not in ("scan", "while"))
        ):
            results = _run_operations(inner.jaxpr, inner.consts, inputs, found)
        else:
            ready = equation.primitive.get_bind_params(equation.params)
            # Before JAX 0.8 with the functions that come first among the arguments.
            functions, options = ready if isinstance(ready, tuple) else ((), ready)
            results = equation.primitive.bind(*functions, *inputs, **options)
            results = results if equation.primitive.multiple_results else [results]
            if not found and not _all_finite(results) and _all_finite(inputs):
                found.append(
                    f"{equation.primitive.name}{_equation_source_line(equation)} makes it of finite numbers"
                )
        values.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _all_finite(values: Any) -> bool:
    arrays = [np.asarray(one) for one in values if getattr(one, "dtype", np.dtype(int)).kind == "f"]
    return all(bool(np.isfinite(array).all()) for array in arrays)


def _equation_source_line(equation: Any) -> str:
    """The innermost frame outside of JAX and this package, as "file:line", or ""."""
    trace = getattr(equation.source_info, "traceback", None)
    jax = importlib.import_module("jax").__file__ or ""
    own = (str(Path(jax).parent), str(Path(__file__).parent), "<")
    for frame in trace.frames if trace is not None else ():
        if not frame.file_name.startswith(own):
            return f" ({Path(frame.file_name).name}:{frame.line_num})"
    return ""
