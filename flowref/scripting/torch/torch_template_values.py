"""The values of a template's placeholders in one case."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch

from flowref.backends.torch.scenario_state import FOLDING
from flowref.loading.written_processes import process_code
from flowref.model import OPPOSITE, REAL, USER, Support
from flowref.scripting.case import ReproductionCase
from flowref.scripting.names import Unwritable
from flowref.scripting.numbers import number_literal
from flowref.scripting.torch.torch_call_lines import example
from flowref.scripting.torch.torch_object_lines import paths, random_points

# Half-width of the integration range on an unbounded axis.
REACH = 40.0
SAMPLES = 8
# Rows of an ordinary batch.
ORDINARY = 16
COPYING = {
    "deepcopy": "copy.deepcopy(flow)",
    "pickle": "pickle.dumps(flow)",
    "torch_save": "torch.save(flow, io.BytesIO())",
}
STEPS = """optimizer = torch.optim.SGD(flow.parameters(), lr=1e-2)
for _ in range(2):
    optimizer.zero_grad()
    nll($batch).backward()
    optimizer.step()"""


def filling(case: ReproductionCase, which: str, rows: int) -> dict[str, str]:
    """Return placeholder -> text. ``which``: the call that the template is about, empty for none; ``rows``: number
    of points.
    """
    facts, dialect, shape = case.facts, case.dialect, case.facts.event_shape
    size, latent = math.prod(shape), facts.latent_shape or shape
    plain = len(shape) == len(latent) == 1
    latents = "x" if facts.codomain is not None else "forward(x)[0].detach().clone()"
    data = _data(case)
    at = {"forward": "x", "inverse": "z"}.get(which, "x" if data == "x" else "data")
    setup = {"z": f"z = {_images(case)}", "data": f"data = {data}"}.get(at, "")
    start, end = _results(case, which) if which else ("", "")
    batch = "x" if data == "x" else "data"
    names = {
        "square": "" if plain else f".reshape({size}, {size})",
        "size": str(size),
        "sizes": ", ".join(map(str, shape)),  # empty for scalars: (1, ) is a shape too
        "rows": str(rows),
        "seed": str(case.recorded.seed),
        "nan_row": str(case.recorded.seed % rows),
        "latents": latents,
        "data": data,
        "batch": batch,
        "which": which,
        "at": at,
        "setup": setup,
        "over": start,
        "end": end,
        "results": f"{start}({at}{end}",
        "ith": ", context[i : i + 1]" if case.context is not None else "",
        "scalar": "log_prob"
        if case.law.base == "gradient/input[log-prob]"
        else case.condition.direction,
        "entry": "" if case.law.base == "gradient/input[log-prob]" else "[1]",
        "part": "0" if which == "inverse" else "1",
        "generating": OPPOSITE[dialect.normalizing],
        "normalizing": dialect.normalizing if getattr(dialect, dialect.normalizing) else "forward",
        "ladj": _scalar_suffix(case),
        "ladj_shape": str((rows, *facts.ladj_event)),
        "beyond": _skip_outside_lines(facts.domain),
        "from": number_literal(_end(facts.domain.low, -REACH)),
        "to": number_literal(_end(facts.domain.high, REACH)),
        "loss": _loss(case, data),
        "steps": STEPS.replace("$batch", batch),
        "train": _each_module_lines(case, "train()"),
        "eval": _each_module_lines(case, "eval()"),
        "wide_copies": ", ".join(["300", *["1"] * len(shape)]),
        "moved": _each_module_lines(case, "to(device)"),
        "there": f"{start}({at}.to(device){end}",
        "float": _each_module_lines(case, "float()"),
        "fold": next((name for name in FOLDING if hasattr(case.obj, name)), ""),
        "copying": COPYING.get(case.verdict.reason.partition(":")[0], COPYING["deepcopy"]),
    }
    with contextlib.suppress(Unwritable):
        names["ordinary"] = random_points(facts.domain, (ORDINARY, *shape))
    if (
        facts.domain.kind == "real"
        and (orders := _base_log_factor(facts.codomain or REAL)) is not None
    ):
        names["orders"] = orders.replace("$latent", str(math.prod(latent)))
    if (other := case.recorded.observed.get("x'")) is not None:
        names["other"] = f"torch.tensor([{other!r}])"
    if facts.coupling is not None:
        mask = facts.coupling.kept
        names["kept"] = str([place for place, kept in enumerate(mask) if kept])
        names["moved"] = str([place for place, kept in enumerate(mask) if not kept])
    names |= process_code(case.obj, dialect, case.verdict.reason)
    return names | _normalizer_attributes(case)


def _base_log_factor(support: Support) -> str | None:
    """The term added to the normal log-density for latents in one of several equal parts of the
    space; None for other sets.
    """
    if support.kind == "real":
        return ""
    if support.kind == "positive":
        return " + $latent * math.log(2)"
    return " + math.lgamma($latent + 1)" if support.kind == "ordered" else None


def _images(case: ReproductionCase) -> str:
    """Points for the inverse: the images of the recorded ones."""
    return "forward(x)[0].detach().clone()" if case.dialect.forward is not None else "x"


def _data(case: ReproductionCase) -> str:
    dialect = case.dialect
    there = case.law.points == "data" or dialect.normalizing == "forward"
    return "x" if there or None in (dialect.forward, dialect.inverse) else "forward(x)[0].detach()"


def _results(case: ReproductionCase, which: str) -> tuple[str, str]:
    """The text before and after the argument of a call that makes a sequence of tensors."""
    if which == "log_prob":
        return "[log_prob", ")]"
    returned = example(case, which)
    pair = isinstance(returned, (tuple, list)) and len(returned) == 2
    both = not pair or isinstance(returned[1], torch.Tensor)
    return which, ")" if both else ")[:1]"


def _scalar_suffix(case: ReproductionCase) -> str:
    """The text that makes a number of the log-det of a single point."""
    returned = example(case, "forward") if case.dialect.forward is not None else None
    ladj = returned[1] if isinstance(returned, (tuple, list)) and len(returned) == 2 else None
    if not isinstance(ladj, torch.Tensor):
        return ".sum().item()" if ladj is None else ""
    return ".item()" if ladj.numel() == 1 else ".sum().item()"


def _loss(case: ReproductionCase, data: str) -> str:
    given = [] if data == "x" else [f"data = {data}"]
    if case.dialect.log_prob is not None:
        body = ["    return -log_prob(points).mean()"]
    else:
        call = case.dialect.normalizing
        call = call if getattr(case.dialect, call) is not None else "forward"
        returned = example(case, call)
        ladj = returned[1] if isinstance(returned, (tuple, list)) else None
        half = "0.5 * z.square().sum()"
        total = f"({half} - log_det.sum())" if isinstance(ladj, torch.Tensor) else half
        body = [
            f"    z, log_det = {call}(points)",
            f"    return {total} / len(z)",
        ]
    return "\n".join(["", "def nll(points):", *body, "", *given, ""])


def _each_module_lines(case: ReproductionCase, call: str) -> str:
    return "\n".join(f"{path}.{call}" for path, _ in paths(case.as_built))


def _skip_outside_lines(domain: Support) -> str:
    """The lines of a loop over numbers that skip those outside a set."""
    inside = f"{number_literal(domain.low)} < number < {number_literal(domain.high)}"
    return f"    if not {inside}:\n        continue" if domain.has_end else ""


def _end(value: float, otherwise: float) -> float:
    return value if math.isfinite(value) else otherwise


def _normalizer_attributes(case: ReproductionCase) -> dict[str, str]:
    """The attributes of a batch normalizer, in the shape of a batch."""
    found = case.facts.normalizer
    if found is None:
        return {}
    shape = case.facts.event_shape
    wide = ", ".join(["1", "-1", *["1"] * (len(shape) - 1)])

    def role(name: str, otherwise: str) -> str:
        attribute = found.roles.get(name)
        return f"flow.{attribute}.reshape({wide})" if attribute else otherwise

    def constant(name: str, otherwise: str) -> str:
        attribute = found.roles.get(name)
        return f"float(flow.{attribute})" if attribute else otherwise

    momentum = constant("momentum", "1.0")
    values: dict[str, Any] = {
        "channels": shape[0] if shape else 1,
        "wide": wide,
        "positions_after": "".join(f", {size}" for size in shape[1:]),
        "samples": SAMPLES,
        "few": max(2, 64 // math.prod(shape)) if math.prod(shape) <= 24 else 3,
        "single": ", ".join(["1", str(shape[0]), *["1"] * (len(shape) - 1)]) if shape else "1",
        "positions": math.prod(shape[1:]),
        "call": found.call,
        "undo": OPPOSITE[found.call],
        "weight": role("weight", "1.0"),
        "bias": role("bias", "0.0"),
        "running_mean": role("running_mean", "0.0"),
        "running_var": role("running_var", "1.0"),
        "eps": constant("eps", "1e-5"),
        "momentum": momentum,
        "fractions": f"{momentum}, 1 - {momentum}" if found.roles.get("momentum") else "1.0,",
        "counter": f"flow.{found.roles.get('num_batches', '')}",
    }
    return {name: str(value) for name, value in values.items()}


def again(case: ReproductionCase) -> bool:
    """Whether a rebuilt object has the same random state, so that its draws belong to the
    construction; a user's object may draw something else.
    """
    return case.target.adapter != USER
