"""Promises: what a component documents beyond shapes and supports. They add requirements, change a measure,
or exempt from a law.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flowref.model.errors import SpecError, nearest

FLAG, NUMBER, WORD, MAPPING, OPTION = "flag", "number", "word", "mapping", "option"
# Who may state a promise: everybody, or only adapters, which know the library's code.
ANYONE, ADAPTERS = "anyone", "adapters"


@dataclass(frozen=True)
class Promise:
    """One promise.

    ``kind``: the type of its value: a flag, a number, one of ``words``, a mapping, or the name of an
    option; a flag may also be one of ``words``. ``default``: the value if not stated. ``attribute``:
    whether an attribute of this name, with underscores, states it for a user's object. ``example``: a value
    as typed.
    """

    name: str
    kind: str
    meaning: str
    words: tuple[str, ...] = ()
    by: str = ANYONE
    attribute: bool = False
    example: str = ""

    @property
    def default(self) -> Any:
        """The value if not stated."""
        return {FLAG: False, OPTION: False, NUMBER: 0.0}.get(self.kind)

    def fits(self, value: Any) -> bool:
        """Whether a value has the promise's kind."""
        if isinstance(value, str):
            return value in self.words or (self.kind == OPTION and value.isidentifier())
        if self.kind == NUMBER:
            return _is_number(value)
        if self.kind == MAPPING:
            return isinstance(value, Mapping)
        truth = isinstance(value, bool | int | float) and value in (0, 1)
        return self.kind in (FLAG, OPTION) and truth

    @property
    def expected(self) -> str:
        """The allowed values, in words."""
        kinds = {
            FLAG: "true or false",
            OPTION: "true, false or the name of an option",
            NUMBER: "a number",
            MAPPING: "a mapping",
        }
        return " or ".join(filter(None, [kinds.get(self.kind), *self.words]))

    @property
    def typed(self) -> str:
        """The notation after ?promises=."""
        value = self.example or (self.words[0] if self.kind == WORD else "")
        return f"{self.name}={value}" if value else self.name


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _promises_by_name(*promises: Promise) -> dict[str, Promise]:
    return {promise.name: promise for promise in promises}


PROMISES: Mapping[str, Promise] = _promises_by_name(
    # Requirements.
    Promise("volume-preserving", FLAG, "its log-det is 0 everywhere", attribute=True),
    Promise("constant-jacobian", FLAG, "its log-det is the same everywhere", attribute=True),
    Promise("elementwise", FLAG, "each output depends on its own input only", attribute=True),
    Promise("monotone", FLAG, "it is elementwise, and increasing", attribute=True),
    Promise("autoregressive", FLAG, "each output depends on no later input", attribute=True),
    Promise("batch-dims", FLAG, "it accepts several batch axes", attribute=True),
    Promise("scalar-ladj", FLAG, "a constant log-det is returned as one number", attribute=True),
    Promise("set", FLAG, "rows are members of a set: what one maps to depends on the others, and not on their order"),
    Promise("empty-batch", FLAG, "a batch of no points returns no points"),
    Promise("vmap", FLAG, "the framework can vectorise it over points (vmap)"),
    Promise("compile", FLAG, "the framework can compile it"),
    Promise("double-backward", FLAG, "autograd's second derivatives are those of the map"),
    Promise("ddp", FLAG, "every parameter takes part in every training step"),
    Promise("rsample", FLAG, "gradients of samples are those of the inverse at fixed noise"),
    Promise("samples-from-base", FLAG, "a sample is base noise taken through the inverse"),
    Promise(
        "standard-normal-base",
        FLAG,
        'its base is standard normal; "initially", where it is trained',
        ("initially",),
    ),
    Promise(
        "equivariant",
        WORD,
        "f(gx) = g f(x) and log p(gx) = log p(x): for rotations of the last axis of an event, permutations of its "
        "first (permutation), or its sign (sign)",
        ("rotation", "permutation", "sign"),
    ),
    Promise("identity-init", FLAG, "it starts as the identity"),
    Promise("alternating-mask", FLAG, "a coupling that leaves every other entry unchanged"),
    Promise("checkerboard-mask", FLAG, "a coupling that leaves one color of a checkerboard unchanged"),
    Promise("channel-mask", FLAG, "a coupling that leaves one half of the channels unchanged"),
    Promise("transforms-all", FLAG, "the stack transforms every entry"),
    Promise("real-nvp", FLAG, "it has the architecture of the published Real NVP"),
    Promise(
        "wide",
        OPTION,
        "it can be built with any number of features, the option features or the one named",
    ),
    Promise("unbiased-log-det", FLAG, "the mean of its estimated log-dets is the log-det"),
    Promise(
        "contraction",
        NUMBER,
        "it is x + g(x), and the Lipschitz constant of g is at most this",
        attribute=True,
        example="0.9",
    ),
    Promise(
        "geometric-stop",
        NUMBER,
        "it is x + g(x), and the series of its log-det stops after each term with this probability, some first terms aside",
        attribute=True,
        example="0.5",
    ),
    # Changed measures.
    Promise("ladj", WORD, "log-dets are those of the opposite map", ("inverse",), attribute=True),
    Promise("inverse-tolerance", NUMBER, "the inverse iterates to this accuracy", attribute=True, example="1e-6"),
    Promise("log-det-tolerance", NUMBER, "its log-det is integrated to this accuracy", attribute=True, example="1e-4"),
    Promise("iterative-forward", FLAG, "forward iterates, and not the inverse"),
    Promise("normalization-tolerance", NUMBER, "the density integrates to one within this", example="1e-6"),
    Promise(
        "lower-bound",
        FLAG,
        "its log-density is a lower bound, random or not; by default the code shows whether it is "
        '"one-sample", log p(x, z) - log q(z given x) at one random z, or "expected", with averages or closed forms',
        ("one-sample", "expected"),
        attribute=True,
    ),
    Promise("level", NUMBER, "the distance between two levels of the data, for bits per dimension", example="1"),
    Promise("uniform-data", NUMBER, "the data are uniform between 0 and this, which fixes their bits per dimension", example="256"),
    Promise("exponential-rate", NUMBER, "its quantiles are those of the exponential distribution with this rate", example="1"),
    Promise("atoms", FLAG, "its distribution has atoms; exact, if the places of its steps are exact", ("exact",)),
    Promise(
        "rosenblatt", MAPPING, "its mean and covariance, whose Rosenblatt transform it is"
    ),
    # Exemptions.
    Promise("estimator", FLAG, "its log-det is a random or truncated estimate", attribute=True),
    Promise("perturb", NUMBER, "its parameters are never perturbed", attribute=True, example="0"),
    Promise("straight-through", FLAG, "a clamp or a rounding passes gradients straight through, on purpose"),
    Promise("whole-numbers", FLAG, "it moves points by integers, and its rounding passes gradients straight through"),
    Promise("double-only", FLAG, "it is used in double precision alone", attribute=True),
    Promise("truncated-domain", FLAG, "its formulas hold on part of the support only"),
    Promise("varied-batches", FLAG, "training never sees a batch of one row, of equal rows or with a constant feature"),
    # Conventions of a batch normalizer that depart from torch's (see `Normalizer.declared`).
    Promise("momentum", WORD, "its momentum multiplies the old value", ("keep",)),
    Promise("running-var", WORD, "its running variance averages biased variances", ("biased",)),
    Promise("variance", WORD, "a batch is normalized by its unbiased variance", ("unbiased",)),
    Promise("single", WORD, "a batch of one value per channel is accepted", ("accepted",)),
    # Notes from adapters and loading to laws.
    Promise("fixed", FLAG, "its parameters are never moved", by=ADAPTERS),
    Promise("near-as-given", FLAG, "its solver works only near the given parameters", by=ADAPTERS),
    Promise("batch-statistics", FLAG, "rows meet in the statistics of a batch", by=ADAPTERS),
    Promise("narrow-log-det", FLAG, "its log-dets are added up in the default dtype", by=ADAPTERS),
    Promise("labels", FLAG, "its contexts stand for labels of classes", by=ADAPTERS),
    Promise("batch-sum", FLAG, "its log-density is one number per batch, evaluated point by point", by=ADAPTERS),
    Promise("held", FLAG, "its estimate is the same in one random state", by=ADAPTERS),
    Promise("drawn", FLAG, "its estimate varies between random states", by=ADAPTERS),
    Promise("adaptive-steps", FLAG, "a solver chooses its steps for a whole batch", by=ADAPTERS),
    Promise("assumed-accuracy", FLAG, "the accuracy of its solver is not stated", by=ADAPTERS),
    Promise("iterated-weights", FLAG, "its weights come from an iteration", by=ADAPTERS),
    Promise("own-rule", FLAG, "its inverse has a custom derivative", by=ADAPTERS),
    Promise("writes", WORD, "forward writes to this argument", by=ADAPTERS),
    Promise("direction", WORD, "either: forward may be either side", ("either",), by=ADAPTERS),
)  # fmt: skip


def canonical(name: str) -> str:
    """The name of a promise with dashes for underscores."""
    return name.strip().replace("_", "-")


def checked(
    promises: Mapping[str, Any], table: Mapping[str, Promise], by: str, target: str
) -> dict[str, Any]:
    """Promises under their canonical names; ``by``: who states them.

    Raises `SpecError` for an unknown name, for one that ``by`` may not state, and for a value of another
    kind.
    """
    found: dict[str, Any] = {}
    for name, value in promises.items():
        promise = table.get(canonical(name))
        offered = [known for known, one in table.items() if by == ADAPTERS or one.by == ANYONE]
        if promise is None or canonical(name) not in offered:
            raise SpecError(
                f"{target}: there is no promise {name!r}{nearest(canonical(name), offered)}; the "
                "table in docs/options.md lists them"
            )
        if not promise.fits(value):
            raise SpecError(
                f"{target}: the promise {promise.name} was given as {value!r}; expected "
                f"{promise.expected}, as in ?promises={promise.typed}"
            )
        found[promise.name] = value
    return found


def markdown(promises: Iterable[Promise] = tuple(PROMISES.values())) -> str:
    """The promises that anyone may state, as the table of docs/options.md."""
    rows = [
        f"| `{promise.typed}`{' ·' if promise.attribute else ''} | {promise.meaning} |"
        for promise in promises
        if promise.by == ANYONE
    ]
    return "\n".join(["| promise | means |", "|---|---|", *rows])
