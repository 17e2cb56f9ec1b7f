"""Reports for the properties of the scorecard: small ones with something of everything, and one as
large as all libraries.
"""

from __future__ import annotations

import math

from flowref.model import (
    Condition,
    Counterexample,
    Counts,
    Evidence,
    KnownFailure,
    Problem,
    Recognized,
    Standing,
    Status,
    Verdict,
)
from flowref.model.figure import COURSE, DENSITY, JACOBIAN, PIT, SCALE, Figure, figure
from flowref.reporting.contents import Environment, LawNote
from flowref.reporting.report import Report

SCRIPT = "<script>alert(1)</script>"
# What a target could call itself, or say.
HOSTILE = (
    SCRIPT,
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "{{ 7 * 7 }} {% raw %}",
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "&lt;b&gt; & <!-- ]]>",
    "a\u202eb\u2028c\x1b[31m",
    "</title></style><svg onload=alert(1)>",
)
ENVIRONMENT = Environment(
    "0.1.0", "3.11", "Linux", (("torch", "2.13"),), "flowref audit x", seconds=3
)


def note(law: str, statement: str = "It holds: $f^{-1}(f(x)) = x$.") -> LawNote:
    """A law of a report."""
    return LawNote(law, 1, statement, "claim", "rounding", "a textbook")


def violated(target: str, law: str, shown: Figure | None = None, **observed: object) -> Verdict:
    """A violation with everything that one can have."""
    case = Counterexample([[0.1, -3.0]], [[2.0]], 7, Condition(scale=0.3, seed=2), dict(observed))
    return Verdict(
        target,
        law,
        Status.VIOLATED,
        "it is off; after moving the parameters by 0.3",
        Counts(3, 40, 2, 1, 1, (0.0, 0.3)),
        Evidence(1e-3, 1e-12, 4.0, 2.0**-53, 5e-13, 32),
        case,
        part="part 2 of 3 (Layer)",
        diagnosis=f"Half of it is missing in {target}.",
        figure=shown,
    )


FIGURES = {
    SCALE: figure(
        SCALE,
        scale=[10.0**k for k in range(-6, 7)],
        error=[0.0, *(10.0 ** (k - 12) for k in range(12))],
        allowed=[1e-9] * 13,
    ),
    DENSITY: figure(
        DENSITY,
        low=[-3.0, -3.0],
        high=[3.0, 3.0],
        density=[
            math.exp(-(x * x + y * y) / 2)
            for y in [k / 3 - 3 for k in range(18)]
            for x in [k / 3 - 3 for k in range(18)]
        ],
        integral=[6.28],
        sampled=[0.5, -0.5, 1.0, 2.0, math.nan],
    ),
    PIT: figure(PIT, counts=[50.0, 61.0, 40.0, 90.0, 9.0]),
    JACOBIAN: figure(JACOBIAN, reported=[1.0, 0.0, 0.5, 1.0], true=[1.0, 0.0, 0.0, 1.0], columns=[2]),
    COURSE: figure(COURSE, "running mean", recorded=[0.0, 0.1, 0.3], expected=[0.0, 0.1, 0.19]),
}  # fmt: skip


MATRICES = {"J of inverse": [[1.0, 2.0], [0.0, 1.0]], "J of forward": [[1.0, 0.0], [0.0, 1.0]]}


def small() -> Report:
    """Five targets and six laws, with every status, every figure, hostile names, and known failures."""
    laws = (
        "map/inverse", "map/log-det", "same/history[repeat]", "density/mass",
        "effects/state[mode]", "state/trains",
    )  # fmt: skip
    targets = ("zuko:NSF", "zuko:MAF", "flows.py:make", SCRIPT, "nflows:Broken")
    shown = list(FIGURES.values())
    verdicts = [
        violated("zuko:NSF", laws[0], shown[0], x=[0.1, -3.0], **{"inverse(f(x))": [0.1, -2.5]}),
        violated("zuko:NSF", laws[1], shown[3], reported=-0.25, autograd=-0.5, disagrees="reported"),
        violated("zuko:MAF", laws[3], shown[1], integral=6.28),
        violated("flows.py:make", laws[1], shown[2], **{SCRIPT: SCRIPT}),
        violated(SCRIPT, laws[4], shown[4], **MATRICES),
        Verdict("zuko:MAF", laws[0], Status.HOLDS, counts=Counts(7, 300, 0, 0, 0, (0.0,)), evidence=Evidence(1e-16, 1e-14)),
        Verdict("zuko:MAF", laws[1], Status.INCONCLUSIVE, "rounding alone moves it"),
        Verdict("zuko:MAF", laws[2], Status.NOT_APPLICABLE, "it offers no inverse", blocked=True, remedy="say ?inverse=g"),
        Verdict("zuko:MAF", laws[4], Status.NOT_APPLICABLE, "it is no density"),
        Verdict("zuko:MAF", laws[5], Status.ADVICE, SCRIPT, evidence=Evidence(1.0, 0.5)),
        Verdict("nflows:Broken", laws[0], Status.ERROR, f"it raises {SCRIPT}"),
        Verdict("nflows:Broken", laws[1], Status.TIMEOUT, "no end after 60 s"),
        Verdict("nflows:Broken", laws[2], Status.CRASHED, "signal 11"),
        Verdict("nflows:Broken", laws[3], Status.NOT_RUN, "interrupted"),
    ]  # fmt: skip
    known = (KnownFailure("zuko:MAF", laws[3], Standing.KNOWN, SCRIPT, issue="#1"),)
    problems = (Problem("nope:X", f"there is no {SCRIPT}"),)
    notes = tuple(map(note, laws))
    taken = {
        "zuko:NSF": Recognized("a density", (3,), f"told by {SCRIPT}", hints=("say ?event=3",))
    }
    return Report(
        ENVIRONMENT, notes, targets, tuple(verdicts), problems, recognized=taken, known=known
    )


def hostile(text: str) -> Report:
    """A report that says one text wherever a target can say something."""
    verdict = violated(text, text, Figure(SCALE, note=text), **{text: text, "more": [text]})
    waiting = Verdict(text, "a/b", Status.NOT_APPLICABLE, text, blocked=True, remedy=text)
    environment = Environment(text, text, text, ((text, text),), text, text, started=text)
    return Report(
        environment,
        (note(text, text), note("a/b", f"${text}$ ``{text}``")),
        (text,),
        (verdict, waiting),
        (Problem(text, text),),
        recognized={text: Recognized(text, hints=(text,))},
        known=(KnownFailure(text, text, Standing.CHANGED, text, text, text, text),),
    )


def large(targets: int = 500, laws: int = 250) -> Report:
    """As many targets and laws as all libraries, of which one pair in four hundred is violated."""
    families = ("batch-norm", "bijection", "conduct", "coupling", "density", "mode", "state")
    names = tuple(sorted(f"{families[k % 7]}/claim-number-{k}" for k in range(laws)))
    specs = tuple(f"library{k % 8}:Construction{k}[img]" for k in range(targets))
    verdicts = []
    for row, spec in enumerate(specs):
        for column, law in enumerate(names):
            place = (7 * row + 13 * column) % 400
            if place == 0:
                verdicts.append(violated(spec, law, FIGURES[SCALE], reported=-0.25, autograd=-0.5))
            elif place < 120:
                verdicts.append(Verdict(spec, law, Status.HOLDS, counts=Counts(7, 300)))
            elif place < 124:
                verdicts.append(Verdict(spec, law, Status.INCONCLUSIVE, "rounding moves it"))
            else:
                verdicts.append(Verdict(spec, law, Status.NOT_APPLICABLE, f"it is no {law[:4]}"))
    return Report(ENVIRONMENT, tuple(map(note, names)), specs, tuple(verdicts))
