"""The commands of proofs: `flowref certify`, `flowref same` and `flowref certificate`."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowref.cli.completion import Specs
from flowref.cli.help import Command, Group
from flowref.cli.interruption import INTERRUPTED, terminable
from flowref.cli.parameters import Duration
from flowref.cli.screen import BAR, COUNT, ELAPSED, Bar

if TYPE_CHECKING:
    from flowref.model import Law, Target
    from flowref.proving import Certificate

# The reason of an end by Ctrl-C.
STOPPED = "interrupted"


@click.command(
    cls=Command,
    examples=(
        ("flowref certify nflows:LULinear", "is its log-det proved, for all weights?"),
        (
            "flowref certify flow.py --output proofs",
            "what a file defines, with the proofs as files",
        ),
        (
            "flowref certify nflows:LULinear --box '[-3, 3]'",
            "and how far is float64 from exact arithmetic there?",
        ),
    ),
)
@click.argument("specs", metavar="TARGET...", nargs=-1, required=True, type=Specs())
@click.option(
    "--laws",
    metavar="GLOB",
    default="",
    help="Provable laws to prove; by default all, without their cases.",
)
@click.option(
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write each proof to a file.",
)
@click.option(
    "--box",
    metavar="INTERVAL",
    default="",
    help="Bound rounding on this box: '[-3, 3]', or an interval for each entry; by default the domain, if it is bounded.",
)
@click.option(
    "--budget",
    type=Duration(),
    default=math.inf,
    metavar="TIME",
    help="Start no proof after this long (60s, 5m).",
)
@click.option("-v", "--verbose", is_flag=True, help="Print each proof with its conditions.")
def certify(
    specs: tuple[str, ...], laws: str, folder: Path | None, box: str, budget: float, verbose: bool
) -> None:
    """Prove statements about flows and batch norm for all inputs and all weights, as identities of
    what their code computes: log-dets equal those of the Jacobian, the inverse undoes forward,
    gradients are derivatives. On a box, rounding is bounded too, and a log-det that is wrong there
    by more is refuted. A statement that is not proved need not be wrong: `flowref audit` measures
    it.

    Exit codes: 0 nothing is refuted, also if nothing is proved, 1 a statement is refuted, 2 a
    target that cannot be read, 130 interrupted.
    """
    from fnmatch import fnmatch

    from flowref import registry
    from flowref.auditing.selection import select
    from flowref.model import SpecError, TargetError, nearest
    from flowref.proving import STATEMENTS, certified, provable

    known = {law.id: law for law in registry.laws() if provable(law)}
    chosen = [
        law
        for name, law in known.items()
        if name == laws or (fnmatch(name, laws.replace("[", "[[]")) if laws else name in STATEMENTS)
    ]
    chosen.sort(key=lambda law: (list(STATEMENTS).index(law.base), law.id))
    if not chosen:
        raise SpecError(
            f"--laws was given as {laws!r}, which is no law that can be proved{nearest(laws, known)}; expected one of "
            f"{', '.join(STATEMENTS)}, or a case of it"
        )
    selection = select(specs)
    problems = [one.message for one in selection.problems]
    alone = len(selection.targets) == 1
    with terminable(), Proofs(folder, brief=len(chosen) > 1 and not verbose) as proofs:
        agenda = Agenda(selection.targets, chosen, budget, proofs.bar)
        for target in selection.targets:
            aside: list[Certificate] = []
            try:
                for claim in certified(target, agenda.laws_of(target), box=box):
                    if claim.applies:
                        proofs.add(claim)
                    else:
                        aside.append(claim)
            except TargetError as error:
                if target not in selection.optional:
                    problems.append(str(error))
                continue  # objects of a file that are no flows are skipped
            except KeyboardInterrupt:
                agenda.stopped = STOPPED
            for claim in aside if alone and not proofs.total else ():
                proofs.add(claim)
            if agenda.stopped:
                break
    for sentence in (*problems, *agenda.left()):
        click.echo(f"flowref: {sentence}", err=True)
    if not (proofs.total or agenda.stopped):
        sys.exit(2)
    for line in proofs.summary():
        click.echo(line)
    code = 2 if problems else int(proofs.refuted > 0)
    sys.exit(INTERRUPTED if agenda.stopped == STOPPED else code)


class Proofs:
    """Claims, printed, counted and written to a ``folder`` as they are found; ``brief``: in a line
    or two. A context manager, which shows a bar in a terminal.
    """

    def __init__(self, folder: Path | None, *, brief: bool) -> None:
        self.folder, self.brief = folder, brief
        self.total = self.proved = self.whole = self.refuted = 0
        self.bar = Bar("{task.description}", BAR, COUNT, ELAPSED)

    def __enter__(self) -> Proofs:
        self.bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.__exit__(*error)

    def add(self, claim: Certificate) -> None:
        """Print, count and save a claim."""
        with self.bar.paused():
            click.echo(claim.text(brief=self.brief))
        self.total += 1
        self.proved += claim.proof.proved
        self.whole += claim.proof.whole
        self.refuted += claim.refutation is not None
        if self.folder is not None and claim.has_content:
            self.folder.mkdir(parents=True, exist_ok=True)
            words = f"{claim.target} {claim.statement}"
            name = "".join(one if one.isalnum() else "-" for one in words)
            claim.save(self.folder / f"{name.strip('-')}.json")

    def summary(self) -> Iterator[str]:
        """The counts, in sentences."""
        if self.total:
            yield (
                f"{self.proved} of {self.total} statements are proved, {self.whole} of them for all inputs and all weights"
            )
        if self.refuted:
            yield f"{self.refuted} refuted"
        if self.proved + self.refuted < self.total:
            yield "A statement that is not proved need not be wrong: flowref audit measures it."


class Agenda:
    """The laws to prove for each target, one after another until ``budget`` seconds are spent; the
    ``bar`` shows the current one. ``stopped``: why it ended early.
    """

    def __init__(
        self, targets: Sequence[Target], laws: Sequence[Law], budget: float, bar: Bar
    ) -> None:
        self.targets, self.laws, self.budget, self.bar = targets, laws, budget, bar
        self.began, self.done, self.stopped = time.monotonic(), 0, ""

    def laws_of(self, target: Target) -> Iterator[Law]:
        """Yield the laws of a target, each when the previous one is finished."""
        from flowref.reporting.text import clean

        self.done = self.targets.index(target) * len(self.laws)
        for law in self.laws:
            if time.monotonic() - self.began > self.budget:
                self.stopped = f"the budget of {self.budget:g} s was spent"
                return
            total = len(self.targets) * len(self.laws)
            self.bar.begin(clean(f"{law.id} of {target}"), total, completed=self.done)
            yield law
            self.done += 1

    def left(self) -> Iterator[str]:
        """A sentence about the proofs that were not reached."""
        count = len(self.targets) * len(self.laws) - self.done
        if self.stopped and count:
            target, law = divmod(self.done, len(self.laws))
            longer = "" if self.stopped == STOPPED else "give a longer --budget, or "
            yield (
                f"{self.stopped} before {count} statement{'' if count == 1 else 's'}, from {self.laws[law].id} of "
                f"{self.targets[target]} on; {longer}name some of them with --laws"
            )


@click.command(
    cls=Command,
    examples=(
        (
            "flowref same old.py:Flow new.py:Flow",
            "does a refactoring compute what the old code did?",
        ),
        ("flowref same mine.py:Coupling nflows:AffineCouplingTransform", "a port?"),
    ),
)
@click.argument("one", metavar="TARGET", type=Specs())
@click.argument("other", metavar="OTHER", type=Specs())
def same(one: str, other: str) -> None:
    """Prove that two objects compute the same for all inputs and all weights. OTHER gets the
    weights of TARGET, by name or in order.

    Exit codes: 0 no result differs, 1 one does, 2 a target that cannot be read.
    """
    from flowref import registry
    from flowref.proving.sameness import compare_targets as compared

    pair, differs = compared(registry.parse_target(one), registry.parse_target(other)), False
    if pair.renamed:
        names = ", ".join(f"{ours} as {theirs}" for theirs, ours in pair.renamed.items())
        click.echo(f"Weights matched in order: {names}")
    for found in pair.comparisons():
        differs = differs or found.difference is not None
        if found.difference is not None:
            click.echo(f"DIFFERENT   {found.result}: {found.difference}")
        elif found.claim.proof.proved:
            click.echo(found.claim.text())
        else:
            reason = found.claim.proof.reason
            click.echo(f"not proved  {found.result}, which do not differ at drawn points: {reason}")
    sys.exit(int(differs))


@click.group(
    cls=Group,
    titles={"Commands": {"check": "Check proofs in files at other random points."}},
    examples=(("flowref certificate check proofs/*.json", "needs neither torch nor JAX"),),
)
def certificate() -> None:
    """Proofs written by `flowref certify --output`."""


@certificate.command(
    cls=Command, examples=(("flowref certificate check proofs/*.json", "without torch or JAX"),)
)
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(dir_okay=False)
)
@click.option(
    "--seed", type=int, help="Seed of the random points; by default not that of the proof."
)
def check(files: tuple[str, ...], seed: int | None) -> None:
    """Check proofs: the graph in a file is evaluated at other random points, without torch, JAX or
    a search.

    Exit codes: 0 all hold, 1 one does not, 2 a file that is no proof.
    """
    from flowref.proving.certificates import Certificate

    failed = False
    for file in files:
        claim = Certificate.load(file)
        holds = claim.check(seed)
        failed = failed or not holds
        click.echo(f"{'holds' if holds else 'DOES NOT HOLD'}  {claim.statement}  {claim.target}")
    sys.exit(int(failed))
