"""The calls of functions of time, of evolving matrices, of a denoiser's scalings and of a prior in a program, as
text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flowref.adapters.user.conventions.signatures import required
from flowref.adapters.user.processes.denoiser_scalings import LARGEST, data_deviation
from flowref.adapters.user.processes.reading_code import matrix_text, reading_text
from flowref.adapters.user.processes.time_functions import (
    TRIED,
    TimeReading,
    is_time,
    last_time,
    tried_times,
)
from flowref.model import Dialect

# What a law says that is not equal -> one side, and the usages of the other, of which one is enough.
RATIOS = ("2 * r", "r", "-2 * sigma.log()", "-sigma.log()")
EQUAL = {
    "log snr of snr": ("snr.log()", RATIOS),
    "log snr beside snr": ("snr.log()", ("log_snr", "2 * log_snr")),
    "log snr": ("log_snr", RATIOS),
    "the share of data": ("data", ("alpha",)),
    "the share of noise": ("noise", ("sigma",)),
    "time of log snr": ("back", ("t",)),
    "time of sigma": ("back", ("t",)),
    "time of snr": ("back", ("t",)),
}


def functions_code(obj: Any, dialect: Dialect, reason: str) -> dict[str, str]:
    """Placeholders of programs on functions of time: a derivative and its function, or functions that are equal."""
    call: Any = dialect.time_functions
    if call is None:
        return {}
    readings: dict[str, TimeReading] = dict(call.keywords["readings"])
    mixtures = {name: (reading, points) for name, reading, points in call.keywords["mixtures"]}
    if "the velocity is" in reason and {"first", "first'"} <= {*mixtures}:
        texts = {}
        for name, (reading, points) in mixtures.items():
            given = dict(zip(points, ("first", "second"), strict=True))
            needed = [one for one in required(obj, reading.method) if not is_time(one)]
            between = {one: "function(t)" for one in needed if one not in given}
            texts[name] = reading_text(obj, reading, "t", 2, **given, **between)
        return {
            "function": texts["first"], "derivative": texts["first'"], "is": mixtures["first'"][0].method,
            "of": mixtures["first"][0].method,
        }  # fmt: skip
    if "a derivative is" in reason:
        name = max(
            (one for one in readings if one.endswith("'")), key=lambda one: _off(obj, readings, one)
        )
        of = "alpha" if name == "(log alpha)'" else name[:-1]
        function = reading_text(obj, readings[of], "t", 1)
        return {
            "function": f"{function}.log()" if name == "(log alpha)'" else function,
            "derivative": reading_text(obj, readings[name], "t", 1),
            "is": readings[name].method,
            "of": readings[of].method,
        }
    said = next((one for one in EQUAL if reason.startswith(f"{one} is")), "")
    return _equal_code(obj, said, readings, call.keywords["backs"], mixtures) if said else {}


def _off(obj: Any, readings: Mapping[str, TimeReading], name: str) -> float:
    """How far a derivative is from differences of its function."""
    times, step = tried_times(obj).double(), 1e-4 * last_time(obj)
    of = readings["alpha" if name == "(log alpha)'" else name[:-1]]

    def function(at: Any) -> Any:
        value = of.of(obj, at).flatten()
        return value.log() if name == "(log alpha)'" else value

    slope = (function(times + step) - function(times - step)) / (2 * step)
    return float(
        ((readings[name].of(obj, times).flatten() - slope) / (1 + slope.abs())).abs().max()
    )


def _equal_code(
    obj: Any,
    said: str,
    readings: Mapping[str, TimeReading],
    backs: Sequence[tuple[str, TimeReading, str]],
    mixtures: Mapping[str, tuple[TimeReading, tuple[str, str]]],
) -> dict[str, str]:
    found, expected = EQUAL[said]
    names = {"alpha": "alpha", "sigma": "sigma", "snr": "snr", "log snr": "log_snr"}
    lines = {
        name: reading_text(obj, readings[of], "t", 1)
        for of, name in names.items()
        if of in readings
    }
    if "back" in found:
        _, reading, quantity = next(one for one in backs if one[0] == said)
        if quantity not in readings:
            return {}
        raw = TimeReading(
            readings[quantity].method, readings[quantity].form, readings[quantity].entry
        )
        value = reading_text(obj, raw, "t", 1)
        lines["back"] = reading_text(
            obj, reading, "", 1, **{required(obj, reading.method)[0]: value}
        )
    if found in ("data", "noise"):
        reading, (first, second) = mixtures["first"]
        noise = next(one for one in (first, second) if one in ("noise", "eps", "epsilon", "z", "e"))
        data = second if noise == first else first
        ones = (data, noise) if found == "data" else (noise, data)
        given = {ones[0]: "torch.ones(len(t), 1)", ones[1]: "torch.zeros(len(t), 1)"}
        lines[found] = reading_text(obj, reading, "t", 2, **given) + ".flatten()"
    if {"alpha", "sigma"} <= {*lines}:
        lines["r"] = "alpha.log() - sigma.log()"
    else:
        expected = tuple(one for one in expected if "r" not in one.split())
    asked = " ".join((found, *expected))
    asked += lines["r"] if "r" in asked.split() else ""
    used = re.findall(r"\w+", asked)
    return {
        "lines": "\n".join(f"{name} = {text}" for name, text in lines.items() if name in used),
        "found": found,
        "expected": ", ".join(expected),
        "said": said,
    }


def evolution_code(obj: Any, dialect: Dialect, reason: str) -> dict[str, str]:
    """Placeholders of programs on transition matrices and those of steps, or their rates."""
    call: Any = dialect.evolution
    if call is None:
        return {}
    (every, _), (other, _) = asked = call.keywords["asked"]
    if not call.keywords["stored"]:
        first, second = (matrix_text(obj, *one) for one in asked)
        return {"evolving": first, "speed": second}
    counts = [len(getattr(obj, one)) for one in (every, other)]
    first = getattr(obj, every)[0]
    begins = bool(
        abs(first - first.new_tensor(range(len(first))).diag().ne(0).to(first)).max() < 1e-6
    )
    begins = begins and counts[0] == counts[1]
    return {
        "every": every,
        "single": other,
        "step": "one[:-1]" if begins or counts[0] > counts[1] else "one[1:]",
    }


def scalings_code(obj: Any, dialect: Dialect, reason: str) -> dict[str, str]:
    """Placeholders of programs on the scalings of a denoiser."""
    call: Any = dialect.scalings
    if call is None:
        return {}
    scales = [
        reading_text(obj, one, "", 1, **{required(obj, one.method)[0]: "sigma"})
        for one in call.keywords["scales"]
        if one is not None
    ]
    spread = data_deviation(obj)
    found = {
        "scales": ", ".join(scales[:3]),
        "spread": repr(spread),
        "most": repr(LARGEST * spread),
    }
    return found | ({"weight": scales[3]} if len(scales) > 3 else {})


def prior_code(obj: Any, dialect: Dialect, reason: str) -> dict[str, str]:
    """Placeholders of programs on a prior."""
    call: Any = dialect.prior
    if call is None:
        return {}
    (density, draws), event = call.keywords["names"], call.keywords["event"]
    shape = ", ".join(map(str, event))
    found = (
        {"density": f"flow.{density}", "draws": f"flow.{draws}((100000, {shape}))"} if draws else {}
    )
    if (deviation := call.keywords["deviation"]) is None:
        return found
    text = reading_text(obj, deviation, "t", len(event) + 1)
    return found | {
        "last": f"t, data = torch.full(({len(TRIED)},), {last_time(obj)!r}), torch.ones({len(TRIED)}, {shape})",
        "deviation": text,
    }
