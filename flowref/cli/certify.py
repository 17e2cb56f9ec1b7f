"""Commands of proofs: `flowref certify` and `flowref certificate`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from flowref.cli.completion import Specs
from flowref.cli.help import Command, Group


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
    help="Of the laws that can be proved; by default those, without their cases.",
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
    help="Where rounding is bounded, '[-3, 3]', or an interval for each entry; by default the domain, if it is bounded.",
)
@click.option("-v", "--verbose", is_flag=True, help="What each proof says, and what it does not.")
def certify(
    specs: tuple[str, ...], laws: str, folder: Path | None, box: str, verbose: bool
) -> None:
    """Prove statements of flows and of batch norm for all inputs and all weights, as identities of what their code computes:
    that log-dets are those of the Jacobian, that the inverse goes back, that gradients are derivatives. On a box rounding is
    bounded, too, and a log-det that is wrong there by more than that is refuted. What is not proved is not wrong: `flowref
    audit` measures it.

    Exit codes: 0 also where nothing is proved, 1 a statement that is refuted, 2 a target that cannot be read.
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
    proved = total = whole = refuted = 0
    problems = [one.message for one in selection.problems]
    for target in selection.targets:
        try:
            claims = list(certified(target, chosen, box=box))
        except TargetError as error:
            if target not in selection.optional:
                problems.append(str(error))
            continue  # what a file defines besides flows is no problem
        about = [one for one in claims if one.applies]
        for claim in about or (claims if len(selection.targets) == 1 else ()):
            click.echo(claim.text(brief=len(chosen) > 1 and not verbose))
            total, proved, whole = total + 1, proved + claim.proof.proved, whole + claim.proof.whole
            refuted += claim.refutation is not None
            if folder is not None and claim.tells:
                folder.mkdir(parents=True, exist_ok=True)
                name = "".join(
                    one if one.isalnum() else "-" for one in f"{claim.target} {claim.statement}"
                )
                claim.save(folder / f"{name.strip('-')}.json")
    for sentence in problems:
        click.echo(f"flowref: {sentence}", err=True)
    if not total:
        sys.exit(2)
    click.echo(
        f"{proved} of {total} statements are proved, {whole} of them for all inputs and all weights"
    )
    if refuted:
        click.echo(f"{refuted} refuted")
    if proved + refuted < total:
        click.echo("What is not proved is not wrong: flowref audit measures it.")
    sys.exit(2 if problems else int(refuted > 0))


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
    """Prove that two objects compute the same for all inputs and all weights. OTHER is given the weights of TARGET, under the
    same names or in the same order.

    Exit codes: 0 where no result differs, 1 where one does, 2 a target that cannot be read.
    """
    from flowref import registry
    from flowref.proving.sameness import same as compared

    pair, differs = compared(registry.parse_target(one), registry.parse_target(other)), False
    if pair.renamed:
        names = ", ".join(f"{ours} as {theirs}" for theirs, ours in pair.renamed.items())
        click.echo(f"Weights in their order: {names}")
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
    titles={"Commands": {"check": "Run the graphs in files again, at other random points."}},
    examples=(("flowref certificate check proofs/*.json", "needs neither torch nor JAX"),),
)
def certificate() -> None:
    """Proofs that `flowref certify --output` wrote."""


@certificate.command(
    cls=Command, examples=(("flowref certificate check proofs/*.json", "without torch or JAX"),)
)
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(dir_okay=False)
)
@click.option(
    "--seed", type=int, help="Of the random points; by default others than those of the proof."
)
def check(files: tuple[str, ...], seed: int | None) -> None:
    """Check proofs: the graph in a file is run at other random points. It takes neither torch nor JAX, and no search.

    Exit codes: 0 all hold, 1 one does not, 2 a file that is none.
    """
    from flowref.proving.certificates import Certificate

    failed = False
    for file in files:
        claim = Certificate.load(file)
        holds = claim.check(seed)
        failed = failed or not holds
        click.echo(f"{'holds' if holds else 'DOES NOT HOLD'}  {claim.statement}  {claim.target}")
    sys.exit(int(failed))
