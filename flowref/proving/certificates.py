"""A proof as a file: the graph of a call, the paths, and the claim; it can be checked without
torch, and without a search.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from flowref.model import ReportError
from flowref.model.graph import Branches, Graph, Node, Ref
from flowref.proving.criteria import LAWS
from flowref.proving.identities import FEW, Proof, holds
from flowref.proving.rounding.boxes import Bound, Box, decimal
from flowref.proving.rounding.refutations import Refutation

# The version of the format, and the kind of file.
FORMAT, KIND = 1, "flowref certificate"
# How reasons begin if the target lacks what the statement is about.
LACKING = ("it has no ", "it takes no ", "it returns no log-det")
# The assumed degree for the probability of a wrong proof, as a power of two; and the smallest
# prime.
DEGREE, PRIME = 14, 22


@dataclass(frozen=True)
class Certificate:
    """A claim about a target.

    ``target`` and ``statement``: as written; ``words``: the statement as a sentence; ``law``: of
    `LAWS`; ``proof``: the result; ``graph``, None without one; ``paths``: those of the proof, empty
    if it covers all; ``seed``; ``versions``: distribution -> version; ``weights``: a digest;
    ``repairs``: edits with which the statement is proved, if it is not without; ``bounds``: results
    on a box, with these weights; ``refutation``: a box on which it is wrong; ``follows``: the
    statements that imply it, together with what is proved of the graph, if there is one.
    """

    target: str
    statement: str
    words: str
    law: str
    proof: Proof
    graph: Graph | None = None
    paths: tuple[Branches, ...] = ()
    seed: int = 0
    versions: Mapping[str, str] | None = None
    weights: str = ""
    repairs: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    refutation: Refutation | None = None
    follows: tuple[str, ...] = ()

    @property
    def applies(self) -> bool:
        """Whether the target has what the statement is about."""
        return self.proof.proved or not self.proof.reason.startswith(LACKING)

    def text(self, *, brief: bool = False) -> str:
        """The claim, and what it does and does not state; ``brief``: without sentences shared by
        many claims.
        """
        return "\n".join(self._lines(brief))

    def _lines(self, brief: bool) -> Iterator[str]:
        proof, graph = self.proof, self.graph
        if not proof.proved:
            if (found := self.refutation) is None:
                yield f"not proved  {self.statement}  {self.target}: {proof.reason}"
            else:
                point = ", ".join(f"{x:.6g}" for x in found.middle)
                yield (
                    f"REFUTED     {self.statement}  {self.target}: off by {found.gap:.2g} or more everywhere on a box "
                    f"{found.width:.2g} wide around ({point})"
                )
                yield f"  Measured  there it reports {found.reported:.6g}, and log |det J_f(x)| is {found.true:.6g}"
            yield from (f"  with {one}" for one in self.repairs)
            yield from (_bound_text(one, self.law) for one in self.bounds)
            return
        head = "PROVED" if proof.whole else "PROVED IN PART"
        if brief:
            yield f"{head:<10}  {self.statement}  {self.target}: {proof.clause}"
            yield from (f"  With      {one}" for one in self.repairs)
            yield from (_bound_text(one, self.law) for one in self.bounds)
            return
        yield f"{head:<10}  {self.statement}  {self.target}"
        if self.follows:
            yield f"  Follows   from {', '.join(self.follows)}"
        if graph is None:
            yield f"  For {proof.weights}: {self.words}, in exact arithmetic."
            return
        shape = ", ".join(map(str, graph.points[1]))
        yield f"  For {proof.weights}, at every batch of shape ({shape}): {self.words}, in exact arithmetic."
        if proof.paths:
            of = "the one" if proof.paths == 1 else f"the {proof.paths}"
            yield f"  Paths     {of} that drawn points take: where comparisons and places come out as there"
        else:
            yield "  Paths     all: for either outcome of every comparison"
        for clause in proof.conditions:
            yield f"  Where     {clause.removeprefix('where ')}"
        # With random signs, half of the fields see one that matters.
        bits = proof.fields * (1 if proof.fields > FEW else PRIME - DEGREE)
        yield (
            f"  By        {proof.fields} random points of fields of primes above 2^{PRIME}: a formula of degree below 2^{DEGREE} "
            f"that is wrong passes with probability below 2^-{bits}"
        )
        yield (
            f"  Trusted   the trace, of {len(graph.nodes)} operators, which was compared with the object; the "
            "decompositions of its operators"
        )
        yield from (f"  With      {one}" for one in self.repairs)
        yield from (_bound_text(one, self.law) for one in self.bounds)
        shown = any(one.box is not None for one in self.bounds if one.kind == "rounding")
        rounding = "" if shown else "rounding, "
        yield f"  Not said  {rounding}other shapes, single precision, the other mode, other versions"

    @property
    def has_content(self) -> bool:
        """Whether there is something to check: a proof, a bound or a refutation."""
        shown = any(one.box is not None for one in self.bounds)
        found = self.proof.proved or shown or self.refutation is not None
        return found and self.graph is not None

    def check(self, seed: int | None = None) -> bool:
        """Whether the law holds of the graph again, at other random points, and each bound on its
        box; or the refutation does.
        """
        if self.graph is None or not self.has_content:
            return False
        again = self.seed + 7919 if seed is None else seed
        law, free = LAWS[self.law], frozenset(self.proof.free)
        if self.refutation is not None and not self.refutation.check(self.graph):
            return False
        if not all(one.check(self.graph, law, self.proof, again) for one in self.bounds):
            return False
        return not self.proof.proved or all(
            holds(self.graph, law, free, decimal(self.proof), path, again + number) is not None
            for number, path in enumerate(self.paths or (None,))
        )

    def save(self, file: str | Path) -> None:
        """Writes the certificate as JSON."""
        whole = {
            "kind": KIND,
            "format": FORMAT,
            **{
                one.name: getattr(self, one.name)
                for one in fields(self)
                if one.name not in ("proof", "graph", "paths", "repairs", "bounds", "refutation")
            },
            "proof": asdict(self.proof),
            "bounds": [asdict(one) for one in self.bounds],
            "refutation": None if self.refutation is None else asdict(self.refutation),
            "graph": None if self.graph is None else _graph_to_json(self.graph),
            "paths": [_arrays_to_json(path.decided) for path in self.paths],
        }
        Path(file).write_text(json.dumps(whole), encoding="utf-8")

    @classmethod
    def load(cls, file: str | Path) -> Certificate:
        """Reads a certificate; raises `ReportError` if the file is none."""
        try:
            whole = json.loads(Path(file).read_text(encoding="utf-8"))
            if whole.pop("kind") != KIND or whole.pop("format") != FORMAT:
                raise ValueError
            proof: dict[str, Any] = {
                name: tuple(one) if isinstance(one, list) else one
                for name, one in whole.pop("proof").items()
            }
            graph, paths = whole.pop("graph"), whole.pop("paths")
            # Files of the first version have no boxes.
            shown, gap = whole.pop("bounds", []), whole.pop("refutation", None)
            read = None if graph is None else _graph_from_json(graph)
            return cls(
                proof=Proof(**proof),
                graph=read,
                paths=tuple(Branches(_arrays_from_json(one)) for one in paths),
                follows=tuple(whole.pop("follows", ())),
                bounds=tuple(Bound(**{**one, **_boxes_from_json(one)}) for one in shown),
                refutation=gap and Refutation(**{**gap, **_boxes_from_json(gap)}),
                **whole,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ReportError(
                f"{file} is no certificate of this version: expected a file of flowref certify --output"
            ) from error


def _boxes_from_json(read: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: None if read[name] is None else Box(*(tuple(end) for end in read[name].values()))
        for name in ("asked", "box")
        if name in read
    }
    return found | {name: tuple(read[name]) for name in ("middle", "context") if name in read}


def _bound_text(bound: Bound, law: str) -> str:
    head = f"  {bound.kind.capitalize():<10}"
    if bound.box is None:
        return f"{head}{'' if bound.kind == 'rounding' else 'is '}not shown on {bound.asked}: {bound.reason}"
    count = f"{bound.boxes} box" + "es" * (bound.boxes > 1)
    part = "" if bound.box == bound.asked else f", and not shown on all of {bound.asked}"
    slopes = f"slopes have one sign and a size between {bound.least:.4g} and {bound.most:.4g} on {bound.box}"
    unit, what = ("nats ", "value and log-det") if law == "log-det" else ("", "both sides")
    words = {
        "holds": f"within {bound.most:.1e} {unit}on {bound.box}, on its paths, with these weights",
        "rounding": f"float64 is within {bound.most:.1e} {unit}of exact arithmetic on {bound.box}, with these weights",
        "finite": f"{what} on {bound.box}, with these weights",
        "monotone": slopes,
        "codomain": f"values are in [{bound.least:.6g}, {bound.most:.6g}] on {bound.box}, with these weights",
        "lipschitz": f"|J - I|_2 is at most {bound.most:.4g} on {bound.box}, with these weights",
        "slopes": f"{slopes}; where a comparison comes out otherwise there may be a jump",
    }
    return f"{head}{words[bound.kind]}: {count}{part}"


def _graph_to_json(graph: Graph) -> dict[str, Any]:
    return {
        "weights": {name: list(shape) for name, shape in graph.weights.items()},
        "points": [graph.points[0], list(graph.points[1])],
        "given": None if graph.given is None else [graph.given[0], list(graph.given[1])],
        "constants": _arrays_to_json(graph.constants),
        "nodes": [
            [
                one.name,
                one.op,
                _json_argument(one.args),
                _json_argument(dict(one.named)),
                one.kind,
                list(one.shape),
                one.line,
            ]
            for one in graph.nodes
        ],
        "outputs": [None if one is None else one.name for one in graph.outputs],
        "guards": list(graph.guards),
        "trained": sorted(graph.trained),
        "variances": sorted(graph.variances),
    }


def _graph_from_json(whole: Mapping[str, Any]) -> Graph:
    value, ladj = whole["outputs"]
    given = whole["given"]
    return Graph(
        {name: tuple(shape) for name, shape in whole["weights"].items()},
        (whole["points"][0], tuple(whole["points"][1])),
        None if given is None else (given[0], tuple(given[1])),
        _arrays_from_json(whole["constants"]),
        tuple(
            Node(
                name,
                op,
                tuple(_argument_from_json(args)),
                _argument_from_json(named),
                kind,
                tuple(shape),
                line,
            )
            for name, op, args, named, kind, shape, line in whole["nodes"]
        ),
        (Ref(value), None if ladj is None else Ref(ladj)),
        tuple(whole["guards"]),
        frozenset(whole["trained"]),
        frozenset(whole.get("variances", ())),
    )


def _json_argument(value: Any) -> Any:
    """An argument, for JSON: a reference as {"$": name}, a float by its digits."""
    if isinstance(value, Ref):
        return {"$": value.name}
    if isinstance(value, dict):
        return {"named": {name: _json_argument(one) for name, one in value.items()}}
    if isinstance(value, tuple | list):
        return [_json_argument(one) for one in value]
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    return str(value)


def _argument_from_json(value: Any) -> Any:
    if isinstance(value, dict):
        return (
            Ref(value["$"])
            if "$" in value
            else {name: _argument_from_json(one) for name, one in value["named"].items()}
        )
    return [_argument_from_json(one) for one in value] if isinstance(value, list) else value


def _arrays_to_json(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays, for JSON: floats as hexadecimal digits, which are exact."""
    packed = {}
    for name, one in arrays.items():
        array = np.asarray(one)
        numbers = (
            [float(x).hex() for x in array.ravel()]
            if array.dtype.kind == "f"
            else array.ravel().tolist()
        )
        packed[name] = [str(array.dtype), list(array.shape), numbers]
    return packed


def _arrays_from_json(whole: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    found = {}
    for name, (dtype, shape, numbers) in whole.items():
        values = [float.fromhex(one) for one in numbers] if np.dtype(dtype).kind == "f" else numbers
        found[name] = np.array(values, dtype).reshape(shape)
    return found
