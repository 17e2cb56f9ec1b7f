"""The audit as a Python function."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowref.auditing.audit_run import conduct
from flowref.auditing.options import Options
from flowref.auditing.pool import Limits
from flowref.auditing.progress import following
from flowref.auditing.selection import select
from flowref.baseline.baseline_parser import load_baseline
from flowref.baseline.entry import Baseline
from flowref.model import FlowrefError, Law, Target
from flowref.reporting.report import Report
from flowref.reporting.violation_errors import FlowrefViolation, FlowrefViolations


def audit(
    targets: Any = None,
    *,
    event_shape: int | Sequence[int] | None = None,
    laws: str | Law | Iterable[str | Law] = (),
    profile: str = "standard",
    seed: int = 0,
    jobs: int = 0,
    timeout: float = 60.0,
    memory: int | None = None,
    budget: float = math.inf,
    baseline: str | Path | None = None,
    data: str | Path = "",
    progress: bool | None = None,
    dask: str = "",
    device: str = "",
) -> Report:
    """Check every law on every target: specs such as "zuko:NSF?features=3", libraries, or live
    objects.

    Arguments: ``event_shape``: of one input without its batch axis, if user code does not declare it;
    ``laws``: ids or globs, all by default; ``profile``: quick, standard or thorough;
    ``jobs``: worker processes, 0 for this process; ``timeout``: CPU seconds and ``memory``: MiB of
    each pair, in workers only: by default 2048, and finally up to the machine's free memory for
    pairs that need more; ``budget``: seconds after which no pair starts; ``baseline``: a file of
    known failures, which then raise nothing; ``data``: a file of points, or a data set as
    "module:name", at which laws are measured too; ``progress``: whether to show the progress, by
    default in a terminal and a notebook; ``dask``: the address of a scheduler whose cluster replaces
    ``jobs``; ``device``: where device laws move objects, such as "cuda", by default a stand-in.
    Live objects are copied first and stay in this process.
    Raises: `SpecError` for unknown laws or options, `BaselineError` for an invalid baseline file.
    Targets that cannot be loaded are in ``report.problems``.
    """
    if targets is not None and (
        isinstance(targets, str | Target) or not isinstance(targets, list | tuple | set)
    ):
        targets = [targets]
    known = Baseline() if baseline is None else load_baseline(Path(baseline))
    limits = Limits(timeout, memory or Limits.memory, stretched=memory is None)
    options = Options(
        profile, seed, jobs, limits, budget, str(data), baseline=known, dask=dask, device=device
    )
    try:
        chosen = None if event_shape is None else select(targets, _event_option(event_shape))
        with following(progress) as listener:
            given = targets if chosen is None else list(chosen.targets)
            report = conduct(given, laws, options, listener)
        problems = () if chosen is None else chosen.problems
        return replace(report, problems=(*problems, *report.problems)) if problems else report
    except FlowrefError as error:  # a mistake of the caller, without flowref's frames
        raise error.with_traceback(None) from None


def _event_option(shape: int | Sequence[int]) -> dict[str, str]:
    """The option for an event shape; none if it is empty."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return {"event": ",".join(str(size) for size in sizes)} if sizes else {}


def check_flow(
    flow: Any, *, event_shape: int | Sequence[int] | None = None, laws: Any = (), **options: Any
) -> Report:
    """Audit one flow, bijection, density or batch normalizer, and raise an exception with every
    violation.

    Arguments: ``event_shape``: of one input without its batch axis, if the object does not declare
    it; the others as in `audit`.

    Raises: `FlowrefViolations`, an AssertionError and a group of one exception for each violation,
    if a law is violated; `FlowrefViolation` if nothing could be checked.
    """
    __tracebackhide__ = True
    report = audit([flow], event_shape=event_shape, laws=laws, **options)
    try:
        report.raise_for_violations()
    except FlowrefViolations as raised:  # at the caller's line, with few frames of flowref
        raise raised.with_traceback(None) from None
    if report.exit_code:
        reasons = (verdict.reason for verdict in report.verdicts if verdict.reason)
        reason = next(reasons, "no law applies")
        raise FlowrefViolation(f"nothing meaningful was checked: {reason}")
    return report
