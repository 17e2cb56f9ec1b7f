"""The nouns of flowref; imports nothing else of ours."""

from flowref.model.call import OPPOSITE, Array, Call, Manner, Mapped, Observation
from flowref.model.component import PUBLISHED, Adapter, Component, Dialect, Facts, Shape
from flowref.model.cost import UNCOUNTED, CallCost, Cost, Line
from flowref.model.errors import (
    Ambiguous,
    BaselineError,
    DataError,
    FlowrefError,
    LawError,
    ReportError,
    SpecError,
    TargetError,
    Undecidable,
    UnknownShape,
    Unsupported,
    nearest,
    one_line,
    place_of,
)
from flowref.model.figure import Figure
from flowref.model.known import OTHER_WEIGHTS, KnownFailure, Standing
from flowref.model.law import (
    ADVICE,
    ANYWHERE,
    AWAY,
    BOUND,
    CLAIM,
    CONTRACT,
    EXACT,
    GIVEN,
    NEARBY,
    ROUNDING,
    STATISTICAL,
    VALUES,
    VOLUME,
    Case,
    Law,
    Mutant,
    Residual,
    base_of,
    cases_of,
    id_of,
    law,
    mutant,
    named_by,
    spelled,
    statement_of,
)
from flowref.model.problem import Problem
from flowref.model.promises import PROMISES, Promise
from flowref.model.recognized import Method, Recognized
from flowref.model.requirement import Requirement, requires
from flowref.model.seeds import derive, seed_of
from flowref.model.silence import Silence
from flowref.model.stages import Pieces, Stage, Visitor
from flowref.model.steps import Life
from flowref.model.structure.batch_norm import PARTS, RENORM, ROLES, RUNNING, SAMPLE, Normalizer
from flowref.model.structure.coupling import KINDS, MASKS, Coupling, named_mask
from flowref.model.structure.kernel import MEANINGS, Kernel
from flowref.model.structure.multi_scale import ORDERS, MultiScale, Squeezing
from flowref.model.structure.preprocessing import Preprocessing
from flowref.model.structure.spreads import DEVIATION, ROOT_MEAN_SQUARE, SPREADS
from flowref.model.subject import Batch, Subject, per_point
from flowref.model.support import CORNER, REAL, Support, draw
from flowref.model.target import CONVENTIONS, OBJECT, USER, Condition, History, Target
from flowref.model.verdict import (
    PROVED_WHOLE,
    Counterexample,
    Counts,
    Evidence,
    Size,
    Status,
    Verdict,
    identity,
)

__all__ = [
    "ADVICE", "ANYWHERE", "AWAY", "BOUND", "CLAIM", "CONTRACT", "CONVENTIONS", "CORNER", "DEVIATION", "EXACT",
    "GIVEN", "KINDS", "MASKS", "MEANINGS",
    "NEARBY", "OBJECT",
    "OPPOSITE", "ORDERS", "OTHER_WEIGHTS", "PARTS", "PROMISES", "PROVED_WHOLE", "PUBLISHED", "REAL", "RENORM", "ROLES",
    "ROOT_MEAN_SQUARE",
    "ROUNDING", "RUNNING", "SAMPLE", "SPREADS",
    "STATISTICAL", "UNCOUNTED", "USER", "VALUES", "VOLUME", "Adapter", "Ambiguous", "Array", "BaselineError", "Batch", "Call",
    "CallCost", "Case", "Component", "Condition", "Cost", "Counterexample", "Counts", "Coupling",
    "DataError", "Dialect", "Evidence", "Facts", "Figure", "FlowrefError", "History", "Kernel", "KnownFailure", "Law", "LawError",
    "Life", "Line", "Manner", "Mapped", "Method", "MultiScale", "Mutant", "Normalizer", "Observation",
    "Pieces", "Preprocessing", "Problem", "Promise", "Recognized", "ReportError", "Requirement", "Residual",
    "Shape", "Silence", "Size", "SpecError", "Squeezing", "Stage", "Standing", "Status", "Subject", "Support",
    "Target", "TargetError", "Undecidable", "UnknownShape", "Unsupported", "Verdict", "Visitor", "base_of", "cases_of",
    "derive", "draw", "id_of", "identity", "law", "mutant", "named_by", "named_mask", "nearest", "one_line", "per_point",
    "place_of", "requires", "seed_of", "spelled", "statement_of",
]  # fmt: skip
