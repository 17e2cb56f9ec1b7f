"""Laws and mutants: statements, their requirements, measures and tolerances."""

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

# The number of features for laws that need several hundred.
MANY_FEATURES = 384
CLAIM, CONTRACT, ADVICE = "claim", "contract", "advice"
ROUNDING, EXACT, BOUND, STATISTICAL = "rounding", "exact", "bound", "statistical"
VALUES, VOLUME = "values", "volume"


@dataclass(frozen=True)
class Residual:
    """The measurement of a law, one row per point.

    ``value`` ``(batch, ...)``: zero if the law holds;
    ``scale`` ``(batch,)``: the magnitude to which rounding is relative;
    ``allowed`` ``(batch,)``: the bound of a "bound" law, or an addition to the rounding allowance (a
        promised inverse tolerance, the error estimate of a difference quotient);
    ``decidable`` ``(batch,)``: False where the law does not apply (the map is not finite); such rows are
        counted;
    ``exempt``: named facts that exempt points, each with a lazily computed mask ``(batch,)``, evaluated in
        order and only for suspicious rows;
    ``trivial`` ``(batch,)``: True where the law holds for any subject; a pass needs another row;
    ``span``: rows that noise moves by more than this are undecided. Half a nat for the logarithm of a
        measured determinant: beyond, the determinant may be rounding alone;
    ``nats`` ``(batch,)``: the error of a log-det or log-density, if ``value`` is another measure of it;
    ``observed``: named numbers per point, for reports; ``note``: a sentence for reports;
    ``method``: the method of measurement if there are several; reported also for laws that hold.
    """

    value: Array
    scale: Array | float = 1.0
    allowed: Array | float = 0.0
    decidable: Array | None = None
    exempt: Mapping[str, Callable[[], Array]] = field(default_factory=dict)
    trivial: Array | None = None
    span: float = np.inf
    nats: Array | None = None
    observed: dict[str, Array] = field(default_factory=dict)
    note: str = ""
    method: str = ""

    def per_row(self) -> Array:
        """The largest absolute residual of each point, ``(batch,)`` float64; NaN if any entry is NaN."""
        value = np.abs(np.asarray(self.value, dtype=np.float64))
        return value.reshape(len(value), -1).max(1) if value.size else np.zeros(len(value))

    @cached_property
    def silent(self) -> Array:
        """Rows that the law does not decide, ``(batch,)``."""
        return np.asarray(np.any([self._undecidable, *self.exempt_rows.values()], axis=0))

    @cached_property
    def exempt_rows(self) -> dict[str, Array]:
        """For each exempting fact its rows ``(batch,)``, without those of earlier facts."""
        left, found = ~self._undecidable, {}
        for words, rows in self.exempt.items():
            found[words] = left & np.asarray(rows(), dtype=bool)
            left = left & ~found[words]
        return found

    @property
    def _undecidable(self) -> Array:
        if self.decidable is None:
            return np.zeros(len(self.value), dtype=bool)
        return ~np.asarray(self.decidable, dtype=bool)


# Allowed values of fields of a law.
CHOICES = {
    "force": (CLAIM, CONTRACT, ADVICE),
    "about": ("", VALUES, VOLUME),
    "tolerance": (ROUNDING, EXACT, BOUND, STATISTICAL),
    "points": ("domain", "latents", "beyond", "data"),
    "history": ("warm", "fresh", "trained"),
    "mode": ("eval", "train"),
    "direction": ("forward", "inverse"),
}
# Parameter perturbations, in standard deviations: as given, near, and farther away.
GIVEN, NEARBY, AWAY, ANYWHERE = (0.0,), (0.0, 0.3), (0.3, 1.0), (0.0, 0.1, 0.3, 1.0, 3.0)
# As given, and with last layers of zeros moved far.
OUTWARD = (*GIVEN, *AWAY)
# Allowed choices of laws in this package: weights, batches of the standard profile, points of a
# batch.
SCALES, EFFORTS, SIZES = (GIVEN, NEARBY, AWAY, OUTWARD, ANYWHERE), (1, 2, 4, 10), (1, 3, 7, 16, 48)
# The first argument is a `Subject`; the annotation names the abilities that it has at run time.
Measure = Callable[[Any, Batch], Residual]
# Called without noise with a subject and a batch, it returns a function. That function is called under
# noise, and returns how far the residual of each point moves, ``(batch,)``, NaN if unknown.
Echo = Callable[[Any, Batch], Callable[[], Array]]


# Circumstances in which any law can be measured, in the order of the brackets of an id; "inverse"
# may also come first.
CIRCUMSTANCES = ("train", "trained", "no-grad", "context", "one-context", "other-size", "many")


def statement_of(law_id: str) -> str:
    """The statement of a law's id, without its cases.

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
    """Whether a glob matches a law. A statement matches all of its cases, and none with ``[]`` appended;
    other brackets match themselves.

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
    """A circumstance in which a law is measured as well.

    ``name``: in the brackets of its id; ``words``: a phrase in front of the statement; ``changes``: fields
    of the law that differ; ``applies``: a further condition.
    """

    name: str
    words: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    applies: Requirement | None = None


@dataclass(frozen=True)
class Law:
    """One claim about a subject. The registry pickles it by its id.

    ``measure(subject, batch)``: its `Residual`; ``needs``: the abilities that ``measure`` calls;
    ``force``: "claim" (mathematics), "contract" (what ``promise`` documents) or "advice" (a violation never
        affects the exit code);
    ``tolerance``: what a residual is compared with: "rounding" (measured by noise), "exact" (zero), "bound" or
        "statistical" (``allowed`` of the residual);
    ``source``: the publication or documentation that states it; ``version``: raised when its measurement
        changes, so that older results are not reused;
    ``about``: "values" if only values are compared and log-dets may be float32; "volume" if the law
        concerns volume or mass, which depend on the event shape;
    ``nats``: the residual is the error of a log-det or log-density, in nats;
    ``points``: where inputs are drawn: "domain", "latents" (the codomain if declared, else the domain),
        "beyond" (outside the domain) or "data" (the support of the density);
    ``history``, ``mode``, ``direction``, ``grad``, ``contextual``, ``one_context``, ``resized``: the
        condition of the subject, see `Condition`;
    ``cases``: further circumstances, each a law of its own; ``case_of``: the id of the law that such a one
        belongs to;
    ``local``: a violation must persist near the point, else it is a kink, or a jump of the log-det decided
        by rounding; False for laws of values, which hold at every point;
    ``scales``: parameter perturbations to visit; ``effort``: batches in the standard profile;
    ``promise``: the promise that makes a contract applicable;
    ``size``: the largest batch; ``rows``: points measured at once, 0 for the schedule's number;
    ``applies``: the condition of applicability;
    ``thorough``: measured in the thorough profile only, since it takes seconds;
    ``localize_in_parts``: a violation of a composite is located in its first part that violates the law;
    ``arbitrate(subject, point)``: for a violation, further numbers for the report and a reason to doubt it
        (empty if none);
    ``rebuild``: measured on a larger build, if the target promises under this name which option sets its
        number of features; ``features``: that number, 0 for several hundred. Targets that cannot be built
        so are skipped;
    ``scanned``: measured on a line scan (see `checking.line_scan`) and at weights in further directions as well,
        for cheap laws of single points;
    ``key``: seeds the random numbers; the first id that the law had;
    ``picture(subject, point)``: the figure of a violation, measured once when it is recorded;
    ``echo``: for a law that compares a call with itself in another manner: the noise of the residual, from
        the call alone and at a fraction of the cost;
    ``by_steps``: a residual that decreases with the number of solver steps is solver error; False for a law
        that repeats one call, which steps cannot explain;
    ``pointwise``: one point shows as much as several; if rows are expensive, one is measured;
    ``fewest``: the minimal number of points, even if rows are expensive.
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
    localize_in_parts: bool = False
    arbitrate: Callable[[Subject, Batch], tuple[dict[str, Any], str]] | None = None
    rebuild: str | None = None
    features: int = 0
    scanned: bool = False
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
        """The id of the law that it is a case of, else its own; laws with one base share measurements."""
        return self.case_of or self.id

    @property
    def is_case(self) -> bool:
        """Whether the law is a case of another one."""
        return bool(self.case_of)

    @property
    def condition(self) -> Condition:
        """The condition in which its applicability is checked."""
        fields = ("history", "mode", "direction", "grad", "contextual", "one_context", "resized")
        return Condition(**{name: getattr(self, name) for name in fields})

    def in_case(self, case: Case) -> Law:
        """The law ``law[case]``: the same statement and measure at other points, weights or modes, with its
        own seeds.
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
        """The target that the law is measured on: itself, or for ``rebuild`` the construction with another
        number of features; None if it promises no option for that.
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
    """Declare a law: the function measures it, its docstring states it, and the Protocol that annotates its
    first parameter names the required abilities.
    """

    def declare(measure: Measure) -> Law:
        statement = " ".join((measure.__doc__ or "").split())
        return Law(
            id=law_id, measure=measure, statement=statement, needs=needed(measure), **details
        )

    return declare


@dataclass(frozen=True)
class Mutant:
    """A defect injected into a healthy subject, which the law must detect.

    ``apply(subject, size)`` returns the mutated subject; ``size`` scales the defect if it has a size.
    ``host``: the spec of a healthy target.
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
    """Declare a mutant: the function damages a subject, and its docstring describes the defect."""

    def declare(apply: Callable[..., Subject]) -> Mutant:
        description = " ".join((apply.__doc__ or "").split())
        return Mutant(law_id, apply.__name__.replace("_", "-"), apply, description, host, sizes)

    return declare
