"""One target, one law, one verdict: batches are drawn and measured until one shows a violation.

    load -> Subject -> examples -> Batch -> Measurement -> judge -> review -> shrink -> record

Each arrow is a module of this room. `pair_verdict` takes and returns plain values, so that any map
can run it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flowref import loading, registry
from flowref.checking.applicability import (
    affords_training,
    in_its_condition,
    not_applicable,
    rebuilt,
    rebuilt_target,
    resembled,
)
from flowref.checking.bisection import Split, bisect
from flowref.checking.data import ALL, DATA, Data, all_rows, data_batch, data_of, visits
from flowref.checking.error_size import is_minor, without_minor
from flowref.checking.event_shape_doubt import doubted
from flowref.checking.examples import GENTLE, SCHEDULE, TRAINED, Example, explore
from flowref.checking.judgement import Judgement
from flowref.checking.line_scan import conspicuous, scan
from flowref.checking.measurement import Measurement, measure, precision_of
from flowref.checking.plan import DEFAULT_PLAN, Plan, planned
from flowref.checking.points import example_batch
from flowref.checking.record import counterexample, failing_status, record
from flowref.checking.review import review
from flowref.checking.settings import Settings
from flowref.checking.tally import Tally, conclude, silent
from flowref.checking.targets import as_target
from flowref.checking.tolerance import judge
from flowref.model import (
    Batch,
    Condition,
    FlowrefError,
    Law,
    NotJudged,
    Status,
    Subject,
    Target,
    Undecidable,
    Unsupported,
    Verdict,
    one_line,
    seed_of,
)
from flowref.model.budget import BudgetExceeded, current_budget, limited_budget

# The least effort of a law that visits the trained state; the seed of line scans.
TRAINED_FROM, SCANNED = 3, 20
# The operations up to which the trained state is scanned as well.
SCANNED_OPERATIONS = 1000
# Further directions in which the weights of cheap subjects are moved, and how far: all examples of the
# schedule are moved in one direction, and what a bug needs of the weights lies in one of ten or twenty.
DIRECTIONS, SCREENED = 12, (0.3, 1.0)
# The largest entry of ordinary points; an undeclared domain may end there.
ORDINARY = 16.0
# A new object that was never perturbed may be the identity.
AS_GIVEN = "at the weights as given alone"


def pair_verdict(
    target: Target | Any, law: Law | str, settings: Settings | None = None, written: bool = True
) -> Verdict:
    """Return the verdict on one pair; ``target`` may also be a spec or a live object. Errors of the
    target inside a law become part of the verdict. ``written``: whether a violation is shrunk and
    recorded, which takes longer than finding it.

    Raises: `TargetError` or `SpecError` if the target cannot be loaded at all.
    """
    chosen = registry.find_law(law) if isinstance(law, str) else law
    target, settings = as_target(target), settings or Settings()
    began = time.perf_counter()
    try:
        with loading.numpy_apart(), loading.fitting_to(settings.data):
            verdict = _check(target, chosen, settings, written)
    except BudgetExceeded as end:
        verdict = Verdict(str(target), chosen.id, Status.INCONCLUSIVE, end.reason)
    return replace(
        verdict, seconds=time.perf_counter() - began, law_version=chosen.version, force=chosen.force
    )


def unmeasured(target: Target, law: Law, settings: Settings) -> Verdict | None:
    """Return the verdict of a law that does not apply to the target, without measuring; None if
    something has to be measured or a wider target built.
    """
    subject = in_its_condition(target, law, settings)
    if isinstance(subject, NotJudged):
        silence: NotJudged | None = subject
    elif law.rebuild is None:
        silence = not_applicable(law, subject, settings)
    else:
        wider = rebuilt_target(target, subject, law, settings)
        silence = wider if isinstance(wider, NotJudged) else None
    if silence is None:
        return None
    verdict = silent(str(target), law, silence)
    return replace(verdict, law_version=law.version, force=law.force)


def _check(target: Target, law: Law, settings: Settings, written: bool) -> Verdict:
    name = str(target)
    subject = in_its_condition(target, law, settings)
    if isinstance(subject, NotJudged):
        return silent(name, law, subject)
    built = rebuilt(target, subject, law, settings)
    if isinstance(built, NotJudged):
        return silent(name, law, built)
    like = resembled(law, target)
    target, subject = built
    silence = not_applicable(law, subject, settings)
    if silence is not None:
        return silent(name, law, silence)
    layout = planned(law, subject, settings)
    if layout.silence:
        return Verdict(name, law.id, Status.INCONCLUSIVE, layout.silence)
    with limited_budget(settings.means if layout.rows is None else settings.reserved):
        return _searched(Search(target, law, settings, layout, like, written), subject, name)


def _searched(search: Search, subject: Subject, name: str) -> Verdict:
    law, settings = search.law, search.settings
    moving = (subject.trainable or subject.standards) and not subject.promises.get("fixed")
    scales = law.scales if moving else (0.0,)
    effort = settings.effort(law, subject.operations)
    seed = seed_of(settings.seed, law.key, law.version, search.target.portable)
    try:
        layout = search.layout
        # The largest perturbation is not needed by a law without one.
        first = layout.first(search.target, law.history) if any(scales) else None
        if law.rows:
            search.visit(Example(max(scales), law.rows, "near", 1))
        elif settings.quick and layout.rows is None:
            search.one_state(scales)
        else:
            explore(scales, law.size, effort, seed, search.visit, first, layout.ordinary_points)
        for example in GENTLE:
            if search.tally.only_as_given and example.scale < max(scales):
                search.visit(replace(example, batch=min(example.batch, law.size)))
        trains = moving and trained_for(law, subject, settings)
        if trains:
            search.visit(replace(TRAINED, batch=min(TRAINED.batch, law.size)))
        if law.scanned:
            search.scan(Example(0.0, 0, "lines", SCANNED))
            if trains and subject.operations <= SCANNED_OPERATIONS:
                search.scan(replace(TRAINED, reach="lines", seed=SCANNED))
        if moving and screened_at_weights(law, subject, settings):
            search.screen_weights(law.scales)
        if str(search.target) == name and visits(law) and law.direction == "forward":
            search.at_data(data_of(search.target, settings), trains)
        search.report_minor_violation()
    except Violated as end:
        return replace(end.verdict, target=name, counts=search.tally.counts())
    verdict = conclude(name, law, search.tally, subject.facts.declared)
    reasons = [verdict.reason, search.layout.note]
    given = search.layout.rows is None or search.target.option("weights") or trains
    if any(scales) and not any(search.tally.scales) and not given:
        reasons.append(AS_GIVEN)
    if verdict.status is Status.HOLDS and any(reasons):
        return replace(verdict, reason="; ".join(filter(None, reasons)))
    return verdict


def trained_for(law: Law, subject: Subject, settings: Settings) -> bool:
    """Whether a law visits the trained state: its effort allows it, it visits perturbed weights or
    lines, and training is affordable.
    """
    moves = law.history == "warm" and (len(law.scales) > 1 or law.scanned) and not settings.quick
    return moves and law.effort >= TRAINED_FROM and affords_training(subject, settings)


def screened_at_weights(law: Law, subject: Subject, settings: Settings) -> bool:
    """Whether a law is measured at weights in further directions, at few points each."""
    cheap = subject.operations <= SCANNED_OPERATIONS and not settings.quick
    return (
        law.scanned
        and cheap
        and subject.trainable
        and any(scale in SCREENED for scale in law.scales)
    )


def _domain_is_certain(subject: Subject) -> bool:
    """Whether points are certain to lie in the domain: it is declared, or the points are data."""
    return subject.facts.declared or subject.facts.at_data


def _all_far_out(batch: Batch) -> bool:
    return bool((np.abs(batch.x).reshape(len(batch.x), -1).max(1, initial=0.0) > ORDINARY).all())


class Violated(Exception):
    """Raised to end the search with a violation."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


@dataclass
class Search:
    """The search for a violation of a law, and its state. ``like``: see `loading.load`;
    ``written``: see `pair_verdict`; ``minor``: the first violation below float32 rounding, after
    which the search continues for a larger one; ``given``: the example at unperturbed weights that
    is tried before a violation at perturbed ones is recorded.
    """

    target: Target
    law: Law
    settings: Settings
    layout: Plan = DEFAULT_PLAN
    like: Target | None = None
    written: bool = True
    tally: Tally = field(default_factory=Tally)
    violation: Verdict | None = None
    minor: tuple[Judgement, Example] | None = None
    given: Example | None = None
    data: Data | None = None

    def one_state(self, scales: Sequence[float]) -> None:
        """Measure one batch at perturbed weights; and one at unperturbed weights if nothing held
        there or the law has no perturbed ones.
        """
        offered = [
            replace(example, batch=min(example.batch, self.law.size))
            for example in SCHEDULE
            if example.scale in scales
        ]
        moved = next((example for example in offered if example.scale), None)
        self.given = next((example for example in offered if not example.scale), None)
        for example in filter(None, (moved, self.given)):
            if not self.tally.held_moved:
                self.visit(example)

    def at_data(self, data: Data | None, trains: bool) -> None:
        """Measure the law at a user's data: with unperturbed weights, after training if drawn
        points visited that, and at all rows used. Raises: `Violated`.
        """
        self.data = data
        if data is None:
            return
        example = replace(DATA, batch=min(DATA.batch, self.law.size))
        self.visit(example)
        if trains:
            self.visit(replace(example, trained=True))
        if self.law.scanned:
            self.scan(ALL)

    def _points(self, subject: Subject, example: Example) -> Batch:
        """The batch of an example: drawn, or of the data."""
        if example.reach == "data" and self.data is not None:
            region, most = self.law.points, self.layout.rows
            return data_batch(subject, self.data, example, region, most)
        most, rows = self.layout.rows, self.law.rows
        if self.law.direction == "inverse" and not subject.facts.declared:
            # Only images of the map are certain inputs of its inverse.
            batch = example_batch(subject, example, "latents", most, rows)
            return batch._replace(
                x=np.asarray(subject.calls["inverse"](batch.x, batch.context).value)
            )
        return example_batch(subject, example, self.law.points, most, rows)

    def _recorded(self, judgement: Judgement, example: Example) -> Verdict:
        """The verdict on a violation, with the row of the data that showed it."""
        if not self.written:
            return Verdict(str(self.target), self.law.id, failing_status(self.law))
        verdict = record(self.target, judgement)
        case = verdict.counterexample
        if example.reach != "data" or self.data is None or case is None:
            return verdict
        seen = self.data.seen(np.asarray(case.x, dtype=np.float64))
        return replace(verdict, reason="; ".join(filter(None, (verdict.reason, seen))))

    def visit(self, example: Example) -> None:
        """Measure one example and count its outcomes. Raises: `Violated`."""
        if self.violation is not None:  # Hypothesis runs an example that raised twice more
            raise Violated(self.violation)
        drawn = example.reach != "data"
        if self.tally.stopped or (
            drawn and self.layout.enough(self.tally, current_budget(), self.settings)
        ):
            return
        try:
            self._visit(example)
        except BudgetExceeded as end:
            self.tally.stopped = end.reason

    def _visit(self, example: Example) -> None:
        condition = self._condition(example)
        subject = self._subject(condition, example)
        if subject is None:
            return
        batch = self._points(subject, example)
        if not len(batch.x):
            return
        self.tally.drawn(example.scale)
        measurement = self._measured(subject, batch, condition)
        if measurement is None:
            return
        try:
            if self.law.mode == "train" and (example.scale or example.trained):
                self._require_applicable(subject)
            judgement = self._reviewed(judge(measurement))
        except Unsupported as reason:
            self.tally.refused(reason)
            return
        except Undecidable as reason:
            self.tally.undecided(str(reason), len(measurement.batch.x))
            return
        self.tally.judged(judgement)
        if judgement.violates:
            self._report_violation(judgement, example)

    def _require_applicable(self, subject: Subject) -> None:
        """Raise `Unsupported` if a case does not apply at perturbed weights: rows that interact in
        a net whose last layer starts at zero do not until it is perturbed.
        """
        unmet = None if self.law.applies is None else self.law.applies.unmet(subject)
        if unmet is not None:
            raise Unsupported(
                f"{unmet.reason}, where its weights were moved", blocked=unmet.blocked
            )

    def _reviewed(self, judgement: Judgement) -> Judgement:
        """The reviewed judgement. After a minor violation only larger ones count; a minor one does
        not hide a larger one of the same batch.
        """
        if judgement.violates:
            current_budget().draw_on_reserve()
        if self.minor is not None:
            return review(without_minor(judgement))
        reviewed = review(judgement)
        if reviewed.violates and is_minor(reviewed) and not is_minor(judgement):
            larger = review(without_minor(judgement))
            return larger if larger.violates else reviewed
        return reviewed

    def report_minor_violation(self) -> None:
        """Raise `Violated` if the search found only a minor violation."""
        if self.minor is not None:
            judgement, example = self.minor
            self.violation = replace(self._recorded(judgement, example), minor=True)
            raise Violated(self.violation)

    def _report_violation(self, judgement: Judgement, example: Example) -> None:
        """End the search with a violation or an inconclusive verdict."""
        doubt = doubted(judgement, self.target, example)
        if not doubt and self.written and is_minor(judgement):
            self.minor = self.minor or (judgement, example)
            return
        if self.written and example.scale and self.given is not None:
            given, self.given = self.given, None
            self.visit(given)
        name = str(self.target)
        if doubt:
            self.violation = Verdict(name, self.law.id, Status.INCONCLUSIVE, doubt)
        else:
            try:
                self.violation = self._recorded(judgement, example)
            except BudgetExceeded:  # no budget is left to shrink it
                row, measured = judgement.worst(), judgement.measurement
                self.violation = Verdict(
                    name,
                    self.law.id,
                    failing_status(self.law),
                    evidence=judgement.evidence(row),
                    counterexample=counterexample(measured.batch.rows([row]), measured.condition),
                )
        raise Violated(self.violation)

    def scan(self, example: Example) -> None:
        """Measure the law on a line scan; only conspicuous points are judged, and none counted.
        Raises: `Violated`.
        """
        with contextlib.suppress(BudgetExceeded):
            self._scan(example)

    def screen_weights(self, scales: Sequence[float]) -> None:
        """Measure the law at weights in further directions; only conspicuous points are judged, and none
        counted. Raises: `Violated`.
        """
        moved = [scale for scale in scales if scale in SCREENED]
        tally, self.tally = self.tally, Tally()
        try:
            for number in range(DIRECTIONS):
                scale = moved[number % len(moved)]
                self.scan(Example(scale, 7, "wide", SCANNED + number, build=SCANNED + number))
        finally:
            self.tally = tally

    def _scan(self, example: Example) -> None:
        condition = self._condition(example)
        subject = self._subject(condition, example)
        if subject is None:
            return
        if example.reach == "data" and self.data is not None:
            region, derived = self.law.points, self.law.local or "jacobian" in self.law.needs
            batch = all_rows(subject, self.data, example.seed, region, derived)
            batch = batch.rows(slice(0, self.layout.rows))
        elif example.reach == "lines":
            batch = scan(subject, self.law.points, example.seed)
        else:
            batch = self._points(subject, example)
        if not len(batch.x):
            return
        measurement = self._measured(subject, batch, condition)
        if measurement is None:
            return
        try:
            rows = conspicuous(measurement)
            if not len(rows):
                return
            judgement = self._reviewed(judge(measurement.rows(rows)))
        except Exception:  # the rows alone raise, or are undecidable
            return
        if judgement.violates:
            self._report_violation(judgement, example)

    def _condition(self, example: Example) -> Condition:
        seed = self.settings.seed + example.build
        history = "trained" if example.trained else self.law.history
        weights = loading.weights_digest(self.target)
        at_data = example.reach == "data"
        return Condition(
            scale=example.scale,
            history=history,
            seed=seed,
            weights=weights,
            data=at_data,
            mode=self.law.mode,
            direction=self.law.direction,
            grad=self.law.grad,
            contextual=self.law.contextual,
            one_context=self.law.one_context,
            resized=self.law.resized,
            device=self.settings.device,
        )

    def _subject(self, condition: Condition, example: Example) -> Subject | None:
        """The target in a condition; None, and counted, if it cannot be built in this one."""
        try:
            return self.layout.without_skipped_calls(
                loading.load(self.target, condition, self.like)
            )
        except Unsupported:
            if not example.trained:
                raise
            return None
        except FlowrefError:
            raise
        except Exception as error:
            if not example.scale and not example.build:
                raise
            how = "after moving the parameters" if example.scale else "in another random state"
            reason = f"{how} it cannot be built: {one_line(error)}"
            self.tally.undecided(reason, example.batch)
            return None

    def _measured(self, subject: Subject, batch: Batch, condition: Condition) -> Measurement | None:
        """The measurement of the rows that do not raise; None, and counted, if there are none."""
        try:
            return self._measurement(subject, batch, condition)
        except Unsupported as reason:
            self.tally.refused(reason)
            return None
        except Undecidable as reason:
            self.tally.undecided(str(reason), len(batch.x))
            return None
        except MemoryError:
            raise
        except Exception as error:
            split = bisect(self.law, subject, batch, error)
        self._raised(subject, batch, split, condition)
        if not len(split.measurable):
            return None
        try:
            return self._measurement(subject, batch.rows(split.measurable), condition)
        except Unsupported as reason:
            self.tally.refused(reason)
            return None
        except Exception as error:
            some = f"it raises {one_line(error)} on some batches"
            self.tally.undecided(some, len(split.measurable))
            return None

    def _measurement(self, subject: Subject, batch: Batch, condition: Condition) -> Measurement:
        residual = measure(self.law, subject, batch)
        return Measurement(
            self.law, subject, batch, residual, precision_of(subject), self.settings.seed, condition
        )

    def _raised(self, subject: Subject, batch: Batch, split: Split, condition: Condition) -> None:
        """Count rows that raise. At unperturbed weights it is an error, unless the domain is
        undeclared and other rows can be measured or the rows are far out, perhaps outside it.
        """
        text = f"it raises {one_line(split.error)}"
        if condition.scale:
            self.tally.undecided(f"after moving the parameters {text}", len(split.raising))
        elif _domain_is_certain(subject) or not (
            len(split.measurable) or _all_far_out(batch.rows(split.raising))
        ):
            case = counterexample(batch.rows(split.raising[:1]), condition)
            self.tally.error = self.tally.error or (text, case)
        else:
            self.tally.dropped(len(split.raising))
