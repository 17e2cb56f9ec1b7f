"""Laws and mutants: statements with what they need, how they are measured and how they are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np

from flowref.model.abilities import needed
from flowref.model.call import Array
from flowref.model.errors import LawError, nearest
from flowref.model.figure import Figure
from flowref.model.inverse_subject import swap_directions
from flowref.model.promises import canonical
from flowref.model.requirement import Requirement
from flowref.model.subject import Batch, Subject
from flowref.model.target import Condition, Direction, History, Mode, Target

# How many features a law means that asks for several hundred.
MANY_FEATURES = 384
CLAIM, CONTRACT, ADVICE = "claim", "contract", "advice"
ROUNDING, EXACT, BOUND, STATISTICAL = "rounding", "exact", "bound", "statistical"
VALUES, VOLUME = "values", "volume"


@dataclass(frozen=True)
class Residual:
    """What a law measured, one row per point.

    ``value`` ``(batch, ...)``: should be zero. ``scale`` ``(batch,)``: the magnitude to which
    rounding is relative.
    ``allowed`` ``(batch,)``: a closed bound, for laws with the "bound" tolerance, or an addition to
    the rounding allowance (a promised inverse tolerance, the error estimate of a difference
    quotient).
    ``decidable`` ``(batch,)``: False where the law says nothing (the map is not finite there); such
    rows are counted.
    ``excused``: facts about a point for which the law says nothing of it, each with the rows where it is so,
    ``(batch,)``; asked in this order, and only where a residual is conspicuous.
    ``trivial`` ``(batch,)``: True where the law holds whatever the subject does; a pass needs a row
    that is not.
    ``span``: the largest response to noise at which rounding is still a small change of it. The
    logarithm of a determinant that is measured has half a nat: beyond, the determinant may be
    nothing but rounding, and its logarithm anything.
    ``nats`` ``(batch,)``: the error of a log-det or log-density, where the value is another measure of it.
    ``observed``: named numbers per point, for the reader. ``note``: a sentence for the reader.
    ``road``: how it was measured where there are several ways, in words; said of what holds, too.
    """

    value: Array
    scale: Array | float = 1.0
    allowed: Array | float = 0.0
    decidable: Array | None = None
    excused: Mapping[str, Callable[[], Array]] = field(default_factory=dict)
    trivial: Array | None = None
    span: float = np.inf
    nats: Array | None = None
    observed: dict[str, Array] = field(default_factory=dict)
    note: str = ""
    road: str = ""

    def per_row(self) -> Array:
        """The largest absolute residual of each point, ``(batch,)`` float64; nan if any entry is
        nan.
        """
        value = np.abs(np.asarray(self.value, dtype=np.float64))
        return value.reshape(len(value), -1).max(1) if value.size else np.zeros(len(value))

    @cached_property
    def silent(self) -> Array:
        """Where the law says nothing, ``(batch,)``."""
        return np.asarray(np.any([self._undecidable, *self.excuses.values()], axis=0))

    @cached_property
    def excuses(self) -> dict[str, Array]:
        """The rows that each fact excuses, of those that none before it does."""
        left, found = ~self._undecidable, {}
        for words, rows in self.excused.items():
            found[words] = left & np.asarray(rows(), dtype=bool)
            left = left & ~found[words]
        return found

    @property
    def _undecidable(self) -> Array:
        if self.decidable is None:
            return np.zeros(len(self.value), dtype=bool)
        return ~np.asarray(self.decidable, dtype=bool)


# What the fields of a law may be.
CHOICES = {
    "force": (CLAIM, CONTRACT, ADVICE),
    "about": ("", VALUES, VOLUME),
    "tolerance": (ROUNDING, EXACT, BOUND, STATISTICAL),
    "points": ("domain", "latents", "beyond", "data"),
    "history": ("warm", "fresh", "trained"),
    "mode": ("eval", "train"),
    "direction": ("forward", "inverse"),
}
# The weights that a law visits: as they are given, and by how much of their spread they are moved.
GIVEN, NEARBY, AWAY, ANYWHERE = (0.0,), (0.0, 0.3), (0.3, 1.0), (0.0, 0.1, 0.3, 1.0, 3.0)
# As they are given, and where last layers of zeros have moved far.
OUTWARD = (*GIVEN, *AWAY)
# What the laws of this package choose from: weights, batches of the standard profile, points of a batch.
SCALES, EFFORTS, SIZES = (GIVEN, NEARBY, AWAY, OUTWARD, ANYWHERE), (1, 2, 4, 10), (1, 3, 7, 16, 48)
# The first argument is a `Subject`, which has at run time what its annotation asks for.
Measure = Callable[[Any, Batch], Residual]
# Asked without noise, it gives what tells under noise how far the residual of each point moves,
# ``(batch,)``; nan where that cannot be told.
Echo = Callable[[Any, Batch], Callable[[], Array]]


# Names of circumstances in which any law can be measured, the last in the brackets of an id; the way
# back is one of them where it is not the first.
CIRCUMSTANCES = ("train", "trained", "no-grad", "context", "one-context", "other-size", "many")


def statement_of(law_id: str) -> str:
    """The statement that a law is a case of.

    >>> statement_of("map/log-det[train]"), statement_of("map/log-det")
    ('map/log-det', 'map/log-det')
    """
    return law_id.partition("[")[0]


def cases_of(law_id: str) -> tuple[str, ...]:
    """The names in the brackets of an id.

    >>> cases_of("map/log-det[inverse, train]"), cases_of("map/log-det")
    (('inverse', 'train'), ())
    """
    inside = law_id.partition("[")[2].rstrip("]")
    return tuple(name.strip() for name in inside.split(",")) if inside.strip() else ()


def id_of(statement: str, cases: Iterable[str]) -> str:
    """The id of a statement in some cases.

    >>> id_of("map/log-det", ["inverse", "train"]), id_of("map/log-det", [])
    ('map/log-det[inverse, train]', 'map/log-det')
    """
    inside = ", ".join(cases)
    return f"{statement}[{inside}]" if inside else statement


def base_of(law_id: str) -> str:
    """The law that is measured, without the circumstance in which it is.

    >>> base_of("map/log-det[inverse, train]"), base_of("map/log-det[inverse]")
    ('map/log-det[inverse]', 'map/log-det[inverse]')
    """
    cases = cases_of(law_id)
    if cases and (cases[-1] in CIRCUMSTANCES or (len(cases) > 1 and cases[-1] == "inverse")):
        return id_of(statement_of(law_id), cases[:-1])
    return law_id


def spelled(name: str) -> str:
    """An id or a glob with its cases as ids have them.

    >>> spelled("map/log-det[inverse,train]"), spelled("map/*")
    ('map/log-det[inverse, train]', 'map/*')
    """
    return id_of(statement_of(name), cases_of(name))


def named_by(glob: str, law_id: str) -> bool:
    """Whether a glob names a law. A statement names all of its cases, with ``[]`` behind it none;
    other brackets stand for themselves.

    >>> [named_by(glob, "a/b[c]") for glob in ("a/b", "a/*", "a/b[*]", "a/b[]", "a/b[d]")]
    [True, True, True, False, False]
    """
    pattern = spelled(glob).replace("[", "[[]")
    if glob.endswith("[]"):
        return not cases_of(law_id) and fnmatchcase(law_id, pattern)
    names = {law_id} if "[" in glob else {law_id, statement_of(law_id)}
    return any(fnmatchcase(name, pattern) for name in names)


@dataclass(frozen=True)
class Case:
    """A circumstance in which the statement of a law is measured as well.

    ``name``: as it is typed, in brackets behind the law; ``words``: how it is told, in front of the
    statement; ``changes``: the fields of the law that are others; ``applies``: the condition under which the
    case speaks, beside that of the law.
    """

    name: str
    words: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    applies: Requirement | None = None


@dataclass(frozen=True)
class Law:
    """One claim about a subject. The registry makes it picklable, by its id.

    ``about``: "values" of a law that compares values alone, whose log-dets may be in single precision; "volume" of one of
    volume or mass, which depend on what is one event.
    ``nats``: its residual is the error of a log-det or log-density, in nats.
    ``points``: where they are drawn: "domain", "latents" (in the codomain where one is declared,
    else in the domain), "beyond" (outside the domain) or "data" (where the log-density lives).
    ``history``: how the subject has lived before the measurement, ``mode``: in which mode it is, ``direction``: "inverse"
    where it is turned around, ``grad``: whether calls record gradients, ``contextual``: whether
    they are given a context that may be left out, ``one_context``: whether all are given the same, ``resized``: whether
    events are of another size (see `Condition`). ``cases``: further
    circumstances in which it is measured, each by a law of its own; ``case_of``: the id of the law
    that such a one is a case of.
    ``local``: a violation must persist beside the point (else it is a kink, or a jump of the
    log-det, where rounding decides on which side a call falls); False for laws of values, which
    hold at every single point.
    ``scales``: the parameter perturbations to visit. ``effort``: batches measured in the standard
    profile.
    ``promise``: for a contract, the promise that makes it judged. ``size``: the largest batch
    drawn.
    ``applies``: the condition under which it speaks.
    ``thorough``: measured in the thorough profile only (its cost is seconds). ``parted``: a
    violation of a composite is searched for the first part that violates the same law.
    ``arbitrate(subject, point)``: asked about a violation, names more numbers for the reader, and a
    reason to doubt the accusation (empty if there is none). ``rebuild``: measured on the target
    built larger, where it promises (by this name) which option sets its number of features;
    ``features``: that number, 0 for several hundred. A target that refuses to be built so is not
    judged. ``lines``: measured on a line scan as well (see `checking.lines`), for laws of single
    points that are cheap on a thousand of them. ``key``: the name that seeds are derived from, the first id that it had.
    ``picture(subject, point)``: a figure of a violation, measured once when it is recorded.
    ``echo``: of a law that compares a call with itself, made in another manner: how the call alone
    answers to noise is how the residual does, and costs a fraction.
    ``by_steps``: what falls as a solver takes more steps is the error of these; False for a law that
    makes one call twice, which no number of steps explains.
    ``rows``: how many points are measured at once, 0 for as many as the schedule has.
    ``pointwise``: a point by itself shows as much of it as several; where rows are dear, one is
    measured. ``fewest``: of fewer points nothing is said, however dear rows are.
    """

    id: str
    measure: Measure
    statement: str
    needs: frozenset[str]
    force: str = CLAIM
    about: str = ""
    nats: bool = False
    tolerance: str = ROUNDING
    points: str = "domain"
    history: History = "warm"
    mode: Mode = "eval"
    direction: Direction = "forward"
    grad: bool = True
    contextual: bool = False
    one_context: bool = False
    resized: bool = False
    local: bool = True
    scales: tuple[float, ...] = ANYWHERE
    effort: int = 10
    size: int = 48
    rows: int = 0
    promise: str | None = None
    applies: Requirement | None = None
    thorough: bool = False
    parted: bool = False
    arbitrate: Callable[[Subject, Batch], tuple[dict[str, Any], str]] | None = None
    rebuild: str | None = None
    features: int = 0
    lines: bool = False
    source: str = ""
    version: int = 1
    key: str = ""
    picture: Callable[[Any, Batch], Figure] | None = None
    echo: Echo | None = None
    by_steps: bool = True
    pointwise: bool = False
    fewest: int = 1
    cases: tuple[Case, ...] = ()
    case_of: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.key or self.id)
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                expected = ", ".join(allowed)
                raise LawError(
                    f"the law {self.id!r} has {name}={value!r}{nearest(str(value), allowed)}; "
                    f"expected one of {expected}"
                )
        if (self.force == CONTRACT) != (self.promise is not None):
            raise LawError(
                f"the law {self.id!r} has force={self.force!r} and promise={self.promise!r}; a "
                "contract names the promise that makes it judged, and nothing else does"
            )

    @property
    def base(self) -> str:
        """The id of the law that it is a case of, else its own: laws of one base measure the same."""
        return self.case_of or self.id

    @property
    def is_case(self) -> bool:
        """Whether it is a law in another circumstance, `in_case`."""
        return bool(self.case_of)

    @property
    def condition(self) -> Condition:
        """The condition in which it is asked whether it speaks."""
        fields = ("history", "mode", "direction", "grad", "contextual", "one_context", "resized")
        return Condition(**{name: getattr(self, name) for name in fields})

    def in_case(self, case: Case) -> Law:
        """The law in another circumstance, ``law[case]``: its statement and its measure, other points,
        weights or modes, and numbers of its own.
        """
        ids = [id_of(statement_of(one), (*cases_of(one), case.name)) for one in (self.id, self.key)]
        both = [one for one in (self.applies, case.applies) if one is not None]
        around = case.changes.get("direction") == "inverse"
        changes = {"applies": both[0] & both[1] if len(both) > 1 else both[0] if both else None}
        return replace(
            self,
            id=ids[0],
            statement=f"{case.words}: {swap_directions(self.statement) if around else self.statement}",
            key=ids[1],
            cases=(),
            case_of=self.id,
            **{**changes, **case.changes},
        )

    def measured_on(self, target: Target, promises: Mapping[str, Any]) -> Target | None:
        """The target that the law is measured on: itself, or where ``rebuild`` asks for it the same
        construction with another number of features; None where the construction does not promise
        an option for that.
        """
        if self.rebuild is None:
            return target
        option = promises.get(canonical(self.rebuild))
        if not option:
            return None
        name = option if isinstance(option, str) else "features"
        return target.with_options(**{name: str(self.features or MANY_FEATURES)})

    @property
    def family(self) -> str:
        """The part of the id before the slash."""
        return self.id.partition("/")[0]


def law(law_id: str, **details: Any) -> Callable[[Measure], Law]:
    """Declare a law: the decorated function measures it, its docstring states it, and what it needs
    is the Protocol that its first parameter is annotated with.
    """

    def declare(measure: Measure) -> Law:
        statement = " ".join((measure.__doc__ or "").split())
        return Law(
            id=law_id, measure=measure, statement=statement, needs=needed(measure), **details
        )

    return declare


@dataclass(frozen=True)
class Mutant:
    """A defect put into a healthy subject, which the named law must catch.

    ``apply(subject, size)`` returns the mutated subject; ``size`` scales the defect where it has
    one.
    ``host``: the spec of a healthy target that shows it.
    """

    law: str
    name: str
    apply: Callable[..., Subject]
    description: str
    host: str
    sizes: tuple[float, ...] = ()

    @property
    def id(self) -> str:
        """``law#name``."""
        return f"{self.law}#{self.name}"


def mutant(
    law_id: str, *, host: str, sizes: tuple[float, ...] = ()
) -> Callable[[Callable[..., Subject]], Mutant]:
    """Declare a mutant: the decorated function damages a subject, its docstring says how."""

    def declare(apply: Callable[..., Subject]) -> Mutant:
        description = " ".join((apply.__doc__ or "").split())
        return Mutant(law_id, apply.__name__.replace("_", "-"), apply, description, host, sizes)

    return declare
