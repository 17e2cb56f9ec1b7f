"""Write `reports/proofs.json` and `reports/proofs.md`: which statements of the libraries' maps are proved.

Usage: `python reports/tools/proofs.py [--fresh] [--page]`. With `--page` nothing is proved anew, and the page is
written of the file.
It takes half an hour; what was found is written to the file as it goes, and is not asked again but with `--fresh`.
"""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from flowref import registry
from flowref.model import FlowrefError
from flowref.proving import STATEMENTS, certified
from flowref.reporting.markup import code, escaped

LAWS = [registry.find_law(name) for name in STATEMENTS]
REPORTS = Path(__file__).parents[1]
FOUND = REPORTS / "proofs.json"
LIBRARIES = (
    "torch",
    "nflows",
    "normflows",
    "zuko",
    "FrEIA",
    "pyro",
    "glasflow",
    "torchflows",
    "reference",
)
# How many words of a reason tell it from others.
WORDS = 8
PAGE = """# Proofs

flowref proves that the log-det of a map is that of its Jacobian, that its inverse goes back and its gradients are
derivatives, for all inputs and all weights, as identities of what its code computes ([how](../docs/guides/proofs.md)). This
is what it proves of every construction of a library here in the time that an audit has; `flowref certify` takes longer, and
proves more. *Whole* is a proof for all weights, buffers and outcomes of comparisons; the others are on the paths that drawn
points take, or for the weights as built. What is not proved is not wrong: [an audit](audit.md) measures it. The median
proof takes {median:.2f} s of one core, tracing included.

`python reports/tools/proofs.py` writes this page.

## By library and statement

| library | statement | maps | proved | whole |
|---|---|---:|---:|---:|
{libraries}

## Why not

Reasons, by how many maps have their log-det unproved for them.

| reason | maps | for example |
|---|---:|---|
{reasons}

## With another line

Log-dets that are not proved, and are proved after an edit of one line, for all weights. Whether the log-det is wrong
without it, [the audit](audit.md) says.

| map | statement | edit |
|---|---|---|
{repairs}
"""


def found_of(spec: str) -> list[dict[str, Any]]:
    """What is found of a construction."""
    warnings.simplefilter("ignore")
    start, claims = time.process_time(), []
    try:
        for claim in certified(registry.parse_target(spec), LAWS, quick=True):
            proof = claim.proof
            if not claim.applies:
                continue
            claims.append(
                {
                    "target": spec,
                    "statement": claim.statement,
                    "proved": proof.proved,
                    "whole": proof.whole,
                    "paths": proof.paths,
                    "weights": proof.weights,
                    "conditions": list(proof.conditions),
                    "reason": proof.reason,
                    "repairs": list(claim.repairs),
                }
            )
    except FlowrefError as error:
        claims = [{"target": spec, "statement": "", "proved": False, "reason": str(error)}]
    claims = claims or [{"target": spec, "statement": "", "proved": False, "reason": "no map"}]
    return [
        one | {"seconds": round((time.process_time() - start) / len(claims), 2)} for one in claims
    ]


def lines_of(claims: list[dict[str, Any]]) -> str:
    """JSON, a line for each."""
    return "[\n" + ",\n".join(map(json.dumps, claims)) + "\n]\n"


def constructions() -> Iterator[str]:
    """Those of the libraries in torch."""
    for name, adapter in registry.adapters().items():
        if name in LIBRARIES:
            yield from (f"{name}:{component}" for component in adapter.components())


def page(claims: list[dict[str, Any]]) -> str:
    """The page of what was found."""
    maps = [one for one in claims if one["statement"]]
    seconds = sorted(one["seconds"] for one in maps)
    unproved = [one for one in maps if one["statement"] == "map/log-det" and not one["proved"]]
    reasons = Counter(_reason(one) for one in unproved)
    example = {_reason(one): one["target"] for one in reversed(unproved)}
    return PAGE.format(
        median=seconds[len(seconds) // 2],
        libraries="\n".join(_rows(maps)),
        repairs="\n".join(
            f"| {code(one['target'])} | {code(one['statement'])} | {escaped(one['repairs'][0])} |"
            for one in maps
            if one["repairs"]
        ),
        reasons="\n".join(
            f"| {escaped(reason)} | {count} | {code(example[reason])} |"
            for reason, count in reasons.most_common()
        ),
    )


def _reason(one: Mapping[str, Any]) -> str:
    """A reason without what is of one target alone."""
    text = re.sub(r"[\d,]{4,} ", "many ", str(one["reason"]).partition(" (")[0])
    words = text.split()
    return text if len(words) <= WORDS else " ".join(words[:WORDS]) + " ..."


def _rows(maps: list[dict[str, Any]]) -> Iterator[str]:
    for library in (*LIBRARIES, "all"):
        for statement in STATEMENTS:
            own = [
                one
                for one in maps
                if one["statement"] == statement
                and library in (one["target"].partition(":")[0], "all")
            ]
            if own:
                proved, whole = (
                    sum(one.get(name, False) for one in own) for name in ("proved", "whole")
                )
                yield f"| {library} | {code(statement)} | {len(own)} | {proved} | {whole} |"


def main() -> int:
    """See the docstring of the module."""
    if "--page" not in sys.argv:
        claims: list[dict[str, Any]] = []
        if FOUND.is_file() and "--fresh" not in sys.argv:
            claims = json.loads(FOUND.read_text(encoding="utf-8"))
        done = {one["target"] for one in claims}
        left = [one for one in constructions() if one not in done]
        with ProcessPoolExecutor() as pool:
            for number, some in enumerate(pool.map(found_of, left), 1):
                claims += some
                print(f"\r{number} of {len(left)} constructions", end="", file=sys.stderr)
                FOUND.write_text(lines_of(claims), encoding="utf-8")
    (REPORTS / "proofs.md").write_text(
        page(json.loads(FOUND.read_text(encoding="utf-8"))), encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
