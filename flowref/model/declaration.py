"""The declaration `__flow__`: what a class, an object or a factory states of itself, for any tool to read.

Keys are options of a spec with the same names and meanings; this table has their types.
docs/guides/declaration.md is the specification.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flowref.model.promises import ANYONE, MAPPING, PROMISES
from flowref.model.support import NAMED

# The attribute, and the supported versions.
FLOW = "__flow__"
VERSION, VERSIONS = "version", (1,)

SHAPE, CONTEXT, SUPPORT, TEXT, LIST, STATED = (
    "shape",
    "context",
    "support",
    "text",
    "list",
    "promises",
)
# Kind -> the expected value, in words.
EXPECTED = {
    SHAPE: "a size, or a tuple of sizes, such as 3, (2, 4, 4) or () for single numbers",
    CONTEXT: 'a size, a tuple of sizes, or "labels"',
    SUPPORT: 'a name such as "real", an interval such as (-1, 1), a constraint of torch.distributions, or one for each coordinate',
    TEXT: "a text",
    LIST: "a text, a number, or a tuple of these",
    STATED: "a tuple of names, or a dictionary from names to values",
}
# Shapes, supports and promises in JSON Schema.
_SIZES: Any = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "array", "items": {"type": "integer", "minimum": 1}},
    ]
}
_ENDS: Any = {
    "type": "array",
    "prefixItems": [{"type": "number"}, {"type": "number"}],
    "minItems": 2,
    "maxItems": 2,
}
_INTERVAL: Any = {"anyOf": [{"type": "string", "examples": list(NAMED)}, _ENDS]}
_LISTED: Any = {"type": "array", "items": {"type": ["string", "number"]}}


@dataclass(frozen=True)
class Key:
    """One key of a declaration.

    ``name``: of the key, and of the option after ``?`` unless ``option`` differs; ``kind``: one of
    `EXPECTED`; ``example``: a value; ``meaning``: what it states; ``check``: how calls are checked, and by
    which laws; ``words``: allowed texts, all if empty; ``more``: whether it is for unusual calls.
    """

    name: str
    kind: str
    example: Any
    meaning: str
    check: str
    words: tuple[str, ...] = ()
    more: bool = False
    option: str = ""

    @property
    def expected(self) -> str:
        """The allowed values, in words."""
        return " or ".join(map(repr, self.words)) if self.words else EXPECTED[self.kind]

    @property
    def type(self) -> str:
        """The kind, or the allowed words."""
        return " or ".join(f"`{json.dumps(word)}`" for word in self.words) or self.kind

    @property
    def schema(self) -> dict[str, Any]:
        """The allowed values as JSON Schema; null states nothing."""
        kinds: dict[str, list[Any]] = {
            SHAPE: [_SIZES],
            CONTEXT: [_SIZES, {"const": "labels"}],
            SUPPORT: [_INTERVAL, {"type": "array", "items": _INTERVAL}],
            TEXT: [{"enum": list(self.words)} if self.words else {"type": "string"}],
            LIST: [{"type": ["string", "number"]}, _LISTED],
            STATED: [
                {"type": "array", "items": {"enum": list(STATABLE)}},
                {"type": "object", "propertyNames": {"enum": list(STATABLE)}},
            ],
        }
        typed = [*kinds[self.kind], {"type": "null"}]
        return {"description": f"{self.meaning}.", "anyOf": typed, "examples": [self.example]}


# Promises that a declaration can make; one with a mapping needs the attribute ``promises``.
STATABLE = tuple(one.name for one in PROMISES.values() if one.by == ANYONE and one.kind != MAPPING)

_FIT = "calls run and return what is declared"
_ROWS = (
    # Calls.
    Key("forward", TEXT, "call_and_ladj", "the method that maps an event; its result is the value, alone or with the log-det",
        "the method exists, runs, and returns as many numbers as it is given; `map/log-det`"),
    Key("inverse", TEXT, "inv", 'the method that undoes it; "none" if there is none', "`map/inverse`, `map/log-det`"),
    Key("log_prob", TEXT, "log_prob", "the method that returns log-densities", "`shape/one-number-per-point`, `density/...`"),
    Key("sample", TEXT, "sample", "the method that draws samples", "`sampling/...`"),
    Key("direction", TEXT, "data->latent", "which way `forward` maps, if there is a density as well",
        "the density is that of the base through this way; `density/change-of-variables`, `sampling/...`",
        ("data->latent", "latent->data"), option="normalizing"),
    # Shapes and sets.
    Key("event", SHAPE, (3,), "the shape of one input of `forward`, without the batch axes",
        "calls run at batches of events of this shape"),
    Key("latent", SHAPE, (3,), "the shape of one output of `forward`, if it differs", "outputs have this shape"),
    Key("context", CONTEXT, (5,), 'the shape of one context; "labels" of classes', "calls take it; `gradient/context-used`"),
    Key("domain", SUPPORT, "real", "where inputs of `forward` lie",
        "at points inside, what raises or is not finite is a violation; `map/domain`, `map/finite`"),
    Key("codomain", SUPPORT, (-1, 1), "where its outputs lie", "`map/domain`"),
    Key("promises", STATED, {"inverse-tolerance": 1e-6},
        "extra guarantees, a looser tolerance or an exemption, from the [table of promises](../options.md#promises)",
        "the laws of each: `map/promised-jacobian`, `coupling/...`"),
    # Log-dets and results.
    Key("log_det", TEXT, "log_abs_det_jacobian", "the method, or the attribute that a call leaves, that is the log-det of "
        '`forward` at its input; "none" if none is meant', _FIT),
    Key("inverse_log_det", TEXT, "inverse_log_det", "that of the inverse at its own input", _FIT),
    Key("returns", LIST, ("z", "_", "ladj"), "what `forward` returns, in order", _FIT),
    Key("columns", TEXT, "z:0-1,ladj:2", "the columns of the one tensor that it returns", _FIT, more=True),
    Key("running", TEXT, "add", "its second argument is a running log-det, or log-density", _FIT, ("add", "subtract"), more=True),
    Key("inverse_ladj", TEXT, "given", "what `inverse` returns besides the value is meant as a log-det", _FIT, more=True),
    Key("ladj", TEXT, "inverse", "`forward` returns the log-det of the inverse map", "`map/log-det`", ("inverse",), more=True),
    Key("ladj_form", TEXT, "stretched", "the form of an unusual log-det", _FIT, more=True),
    Key("ladj_list", TEXT, "last", "of a list of log-dets the last one counts", _FIT, ("last",), more=True),
    Key("latents", TEXT, "last", "of a list of latents the last one counts", _FIT, ("last",), more=True),
    Key("beside", TEXT, "sample", "the method that returns samples with their log-densities", _FIT, more=True),
    Key("score", TEXT, "grad_log_p", 'the method that returns the gradient of `log_prob` in x; "none" if none does',
        "`density/score`", more=True),
    Key("offset", TEXT, "-D*log(256)", "a constant that is added to log-dets and log-densities", "`map/log-det`, `density/mass`",
        more=True),
    Key("batch_axis", TEXT, "last", "points are columns", _FIT, ("last",), more=True),
    Key("padded", TEXT, "x_mask", "the argument that masks out the padding of sequences", _FIT, more=True),
    # Structure.
    Key("kind", LIST, "batch-norm", "it is a batch norm, none, or what a coupling does", "calls show it; `batch-norm/...`, "
        "`coupling/closed-form`", more=True),
    Key("draws", TEXT, "inverse", "the direction that samples, of a stochastic layer", "`kernel/...`",
        ("forward", "inverse", "both", "neither"), more=True),
    Key("kept", LIST, (0, 2), "the entries that a coupling leaves unchanged", "`coupling/pattern`", more=True),
    Key("preprocessing", LIST, (0.05, 256, 256), "alpha, b and levels of its first logit", "`density/units`", more=True),
    Key("squeeze", TEXT, "pixel_unshuffle", "the order of channels of a squeeze", "`squeeze/order`", more=True),
    Key("perturb", LIST, 0, "its parameters are never perturbed", "nothing: it exempts", more=True),
)  # fmt: skip
KEYS: Mapping[str, Key] = {key.name: key for key in _ROWS}
# Options of a run, which are not declared.
OF_A_RUN = ("cells", "dtype", "mutant", "override", "part", "support", "weights")


def declaration_tables() -> tuple[str, str]:
    """The two tables of docs/guides/declaration.md: common keys, and the others."""
    rows = [
        [f"`{key.name}`", key.type, f"`{key.example!r}`".replace("'", '"'), key.meaning, key.check]
        for key in KEYS.values()
    ]
    head = ["| key | type | example | states | checked |", "|---|---|---|---|---|"]
    first, others = (
        "\n".join(
            [
                *head,
                *(
                    f"| {' | '.join(row)} |"
                    for row, key in zip(rows, KEYS.values(), strict=True)
                    if key.more is more
                ),
            ]
        )
        for more in (False, True)
    )
    return first, others


def schema() -> str:
    """The JSON Schema of a declaration, as text. Tuples are arrays; constraints of torch.distributions have
    no JSON form.
    """
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"The declaration {FLOW}, version {VERSIONS[-1]}",
        "type": "object",
        "required": [VERSION],
        "additionalProperties": False,
        "properties": {VERSION: {"enum": list(VERSIONS)}}
        | {key.name: key.schema for key in KEYS.values()},
    }
    return json.dumps(made, indent=2, ensure_ascii=True) + "\n"
