"""The command that audits: `flowref audit`."""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from flowref.cli.completion import Laws, Specs
from flowref.cli.exit_code import exit_code, exit_options
from flowref.cli.formats import CONCISE, format_options, printing, write_formats
from flowref.cli.help import Command
from flowref.cli.interruption import terminable
from flowref.cli.parameters import (
    Duration,
    Stream,
    device_option,
    jobs_option,
    profile_option,
    quiet_option,
    verbose_option,
    verbosity,
)


@click.command(
    cls=Command,
    examples=(
        ("flowref audit flow.py:make", "what a function or class makes"),
        ("flowref audit 'flow.py:Flow?event=3&hidden=8'", "with a shape and an argument"),
        ("flowref audit zuko --laws 'density/*' -x", "stop at the first failure"),
        ("flowref audit --ignore 'effects/*'", "what pyproject.toml declares"),
        ("flowref audit flow.py:make --output-format sarif", "for code scanning"),
    ),
)
@click.argument("specs", nargs=-1, type=Specs())
@click.option(
    "--laws",
    type=Laws(),
    multiple=True,
    metavar="GLOB",
    help="Laws to check, such as 'map/*'; repeat or separate by commas.",
)
@click.option(
    "--ignore",
    type=Laws(),
    multiple=True,
    metavar="GLOB",
    help="Laws to leave out, such as 'effects/*'; repeat or separate by commas.",
)
@profile_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of everything drawn.")
@jobs_option
@click.option(
    "--in-process",
    is_flag=True,
    help="No workers: no memory limit, no protection from crashes.",
)
@click.option("-x", "--exitfirst", is_flag=True, help="Stop after the first new failure.")
@click.option(
    "--max-failures", type=click.IntRange(1), metavar="N", help="Stop after N new failures."
)
@click.option(
    "--budget", type=Duration(), metavar="TIME", help="Start no pair after this long (60s, 5m)."
)
@click.option(
    "--timeout",
    type=Duration(),
    default=60.0,
    show_default="60s",
    metavar="TIME",
    help="CPU time of one pair.",
)
@click.option(
    "--memory",
    type=click.IntRange(64),
    default=2048,
    show_default=True,
    metavar="MIB",
    help="Memory of one pair; if not given, pairs that need more run last, with the memory that is free.",
)
@click.option(
    "--event", metavar="SHAPE", help="Event shape of targets that declare none: 3 or 2,4,4."
)
@click.option(
    "--data",
    metavar="PATH",
    help="Also measure laws at rows of your data: an npy, npz (FILE.npz:NAME), parquet or csv file, "
    "or a data set in Python as module:name or file.py:name.",
)
@device_option
@click.option("--dtype", type=click.Choice(["float32", "float64"]), help="Precision to judge in.")
@click.option(
    "--domain",
    metavar="SET",
    help="real, unit, positive, ordered, simplex, sphere, axes, so3, torus, circle, centred, subspace or (low,high).",
)
@format_options
@click.option(
    "--events",
    type=Stream(),
    metavar="PATH|-|N",
    help="Write events as they happen, one JSON object per line: to a file or pipe, standard "
    "output, or the open descriptor N.",
)
@click.option(
    "--resume/--fresh",
    default=True,
    help="Resume an interrupted audit (default), or start from the beginning.",
)
@click.option(
    "--baseline",
    "baseline_path",
    metavar="FILE",
    help="Known failures; by default flowref-baseline.toml and pyproject.toml of this folder.",
)
@click.option(
    "--shard",
    metavar="I/N",
    help="Run one of N parts, for N machines; flowref merge combines their reports.",
)
@click.option(
    "--costs",
    "costs_path",
    metavar="REPORT.json",
    help="Balance the parts by the CPU time of targets in this report.",
)
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Run pairs on a dask.distributed cluster, by the address of its scheduler (tcp://host:8786).",
)
@click.option("--no-baseline", is_flag=True, help="Ignore known failures: all count as new.")
@exit_options
@verbose_option
@quiet_option
def audit(
    specs: tuple[str, ...], laws: tuple[str, ...], ignore: tuple[str, ...], **choices: Any
) -> None:
    """Check every law on every target; without SPECS, on the targets that pyproject.toml of this
    folder declares ([[tool.flowref.target]]), or else on every supported library that is installed.

    A target is a library (zuko), a construction (nflows:AffineCouplingTransform, 'zuko:N*'), or
    your code (package.module:factory?event=4, path/to/file.py:make_flow). Quote specs that contain
    ? or &.

    Exit codes: 0 nothing new, 1 a new violation, 2 usage or a target that cannot be loaded, 3 a
    crash or time-out, 4 a stale known failure under --strict, 5 nothing meaningful was checked.
    """
    from flowref import registry
    from flowref.auditing.audit_run import conduct
    from flowref.auditing.journal import FOLDER
    from flowref.auditing.options import Options
    from flowref.auditing.pool import Limits
    from flowref.auditing.project_targets import common, declared_audit
    from flowref.auditing.shards import costs_of
    from flowref.auditing.usage import total_memory
    from flowref.baseline.baseline_parser import PROJECT, load_baseline
    from flowref.baseline.entry import Baseline
    from flowref.cli.audit_progress import AuditProgress
    from flowref.cli.events import following
    from flowref.model.budget import MEBIBYTE
    from flowref.reporting.audit_summary import summary_lines
    from flowref.reporting.report import Report

    there = total_memory() // MEBIBYTE  # 0 if unknown
    if _command_line_value("memory") and not choices["dask"] and 0 < there < choices["memory"]:
        raise click.UsageError(
            f"--memory {choices['memory']} is more than the {there} MiB that this machine has; a pair that "
            f"used them would crash others: give {there} at most"
        )
    path, without = choices["baseline_path"], choices["no_baseline"]
    if path and without:
        raise click.UsageError("--baseline and --no-baseline exclude each other; give one")
    if choices["dask"] and choices["in_process"]:
        raise click.UsageError("--dask and --in-process exclude each other; give one")
    if choices["exitfirst"] and choices["max_failures"]:
        raise click.UsageError("-x is --max-failures 1; give one of them")
    if choices["costs_path"] and not choices["shard"]:
        raise click.UsageError("--costs balances the parts of --shard, which is not given")
    baseline = Baseline() if without else load_baseline(Path(path) if path else None)
    costs = costs_of(Report.load(Path(choices["costs_path"]))) if choices["costs_path"] else {}
    defaults = {key: choices[key] for key in ("event", "dtype", "domain") if choices[key]}
    project = common(Path())
    own = None if specs else declared_audit(Path(), laws, _command_line_value("profile"), defaults)
    laws, ignore = laws or project.laws, ignore or project.ignore
    options = Options(
        profile=own.profile
        if own
        else _command_line_value("profile") or project.profile or choices["profile"],
        seed=choices["seed"],
        jobs=0 if choices["in_process"] else choices["jobs"],
        limits=Limits(
            (_default("timeout") and project.timeout) or choices["timeout"],
            choices["memory"],
            stretched=_default("memory"),
        ),
        budget=choices["budget"] or math.inf,
        data=choices["data"] or "",
        folder=Path(FOLDER),
        fresh=not choices["resume"],
        defaults=defaults,
        command=shlex.join(["flowref", *sys.argv[1:]]),
        baseline=baseline,
        shard=choices["shard"] or "",
        costs=costs,
        wanted=own.wanted if own else {},
        dask=choices["dask"] or "",
        device=choices["device"],
        ignore=ignore,
        strict=choices["strict"],
        failures=1 if choices["exitfirst"] else choices["max_failures"] or 0,
    )
    for hint in registry.renamings(
        glob for text in (*laws, *ignore) for glob in registry.globs_of(text)
    ):
        click.echo(f"flowref: {hint}", err=True)
    if own and not choices["quiet"]:
        count = f"{len(own.targets)} target{'' if len(own.targets) == 1 else 's'}"
        click.echo(f"flowref: {count} declared in {PROJECT}; name SPECS to audit others", err=True)
    if ignore and ignore == project.ignore and not choices["quiet"]:
        click.echo(f"flowref: {PROJECT} leaves out {', '.join(ignore)}", err=True)
    taken = printing(choices)
    progress = AuditProgress(
        verbosity=verbosity(choices),
        lines=not taken,
        silent=choices["output_format"] == CONCISE,
    )
    with terminable(), progress, following(progress, choices["events"]) as listener:
        report = conduct(
            own.targets if own else specs or None, own.laws if own else laws, options, listener
        )
        code = exit_code(report, strict=choices["strict"], exit_zero=choices["exit_zero"])
        progress.say(summary_lines(report, verbosity=progress.verbosity, code=code))
        listener.finished(report)
    write_formats(report, choices)
    if not report.complete:
        resuming = shlex.join(["flowref", *(word for word in sys.argv[1:] if word != "--fresh")])
        click.echo("flowref: interrupted; the same command resumes it:", err=True)
        click.echo(f"    {resuming}", err=True)
    sys.exit(code)


def _default(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.DEFAULT


def _command_line_value(name: str) -> str:
    """The value of an option given on the command line; else empty."""
    context = click.get_current_context()
    given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    return str(context.params[name]) if given else ""
