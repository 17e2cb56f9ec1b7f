"""The batch and the model of a finding, in a folder that `flowref replay` reads."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

from flowref import __version__, diagnosing, loading, registry
from flowref.checking import Settings
from flowref.loading.notebooks import import_definitions
from flowref.model import FlowrefError, ReportError, Status, Target, Verdict, one_line
from flowref.reporting.contents import Environment, LawNote
from flowref.reporting.report import Report
from flowref.watching.calls import Call
from flowref.watching.operators import first_not_finite

MODEL, BATCH, ABOUT, POINTS, REPORT, PROGRAM = (
    "model.pt", "batch.pt", "case.json", "points.npz", "report.json", "case.py",
)  # fmt: skip
TEXT = '''"""A model that flowref.watch saved while it was trained. Loading it runs code of its classes."""

from pathlib import Path

from flowref.watching.cases import model_of


def model():
    """The model, with its weights."""
    return model_of(Path(__file__).parent)
'''


@dataclass(frozen=True)
class SavedCase:
    """A folder with a model and the arguments of a call. ``refused``: why no other process can
    read it.
    """

    folder: Path
    refused: str = ""

    def target(self, **options: str) -> Target:
        """Returns the saved model as a target."""
        return registry.parse_target(f"{self.folder / PROGRAM}:model").with_options(**options)

    @property
    def command(self) -> str:
        """The command that replays the case, or why there is none."""
        if self.refused:
            return (
                f"weights and batch are in {self.folder}, and cannot be replayed ({self.refused})"
            )
        return f"flowref replay {self.folder}"

    def drop(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def save(folder: Path, step: int, model: Any, call: Call | None) -> SavedCase:
    """Save a copy of a model and one call of it, in a folder named after its step."""
    place, number = folder / f"step-{step}", 1
    while place.exists():
        number += 1
        place = folder / f"step-{step}-{number}"
    place.mkdir(parents=True)
    refused = ""
    try:
        torch.save(model, place / MODEL)
    except Exception as error:  # of a user's class
        refused = f"the model cannot be pickled: {one_line(error, 120)}"
        torch.save(model.state_dict(), place / MODEL)
    if call is not None:
        parts = {"method": call.method, "args": call.args, "kwargs": call.kwargs, "then": call.then}
        try:
            torch.save({**parts, "gradients": call.gradients}, place / BATCH)
        except Exception as error:
            refused = refused or f"the arguments cannot be pickled: {one_line(error, 120)}"
    script = getattr(sys.modules["__main__"], "__file__", None)
    own = (path for path in sys.path if not path.startswith((sys.prefix, sys.base_prefix)))
    paths = list(dict.fromkeys(str(Path(path).resolve()) for path in (*own, "")))
    if script is None and not refused and type(model).__module__ == "__main__":
        refused = f"{type(model).__name__} is defined in no file"
    about = {
        "flowref": __version__, "step": step, "script": str(Path(script).resolve()) if script else "", "paths": paths,
    }  # fmt: skip
    (place / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    (place / PROGRAM).write_text(TEXT, encoding="utf-8")
    return SavedCase(place, refused)


def judge(
    case: SavedCase,
    laws: tuple[str, ...],
    rows: tuple[torch.Tensor, torch.Tensor | None] | None,
    **options: str,
) -> Verdict | None:
    """Returns the first violation of the laws by a saved model, with a report, or None if all
    hold. ``rows``: points ``(n, *event)`` and contexts at which they are checked too.
    """
    data = ""
    if rows is not None:
        arrays = {"x": _double_array(rows[0])} | (
            {} if rows[1] is None else {"context": _double_array(rows[1])}
        )
        np.savez(case.folder / POINTS, **arrays)
        data = str(case.folder / POINTS)
    settings, target = Settings("quick", data=data), case.target(**options)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name in laws:
            law = registry.find_law(name)
            verdict = diagnosing.check(target, law, settings)
            if verdict.status is Status.VIOLATED:
                environment = Environment(
                    __version__,
                    sys.version.split()[0],
                    sys.platform,
                    profile="quick",
                    command="flowref.watch",
                )
                note = LawNote(law.id, law.version, law.statement, law.force, law.tolerance)
                Report(environment, (note,), (str(target),), (verdict,)).save(case.folder / REPORT)
                return verdict
    return None


def _double_array(tensor: torch.Tensor) -> Any:
    return tensor.detach().double().cpu().numpy()


def model_of(folder: Path) -> Any:
    """Returns the model of a case; raises `ReportError` if it cannot be loaded."""
    about = _about(folder)
    sys.path += [path for path in about["paths"] if path not in sys.path]
    own = SimpleNamespace(
        __name__="pickle",
        Unpickler=_unpickler(about["script"]),
        load=pickle.load,
        loads=pickle.loads,
    )
    try:
        return torch.load(folder / MODEL, map_location="cpu", weights_only=False, pickle_module=own)
    except FlowrefError:
        raise
    except Exception as error:
        raise ReportError(
            f"the model of {folder} cannot be loaded: {one_line(error, 200)}"
        ) from error


def _about(folder: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        return {**about, "paths": list(about["paths"]), "script": str(about["script"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(
            f"{folder} holds no case of flowref.watch ({one_line(error, 120)})"
        ) from error


def _unpickler(script: str) -> type[pickle.Unpickler]:
    """An unpickler that finds the definitions of a main script without running its other
    statements.
    """
    known: list[ModuleType] = []

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            main = getattr(sys.modules["__main__"], "__file__", None) or ""
            if module != "__main__" or str(Path(main).resolve()) == script or not script:
                return super().find_class(module, name)
            if not known:
                known.append(import_definitions(Path(script), "flowref_watched_script"))
            value: Any = known[0]
            for part in name.split("."):
                value = getattr(value, part)
            return value

    return Unpickler


def load_case_call(folder: Path) -> Call:
    """Returns the call of a case; raises `ReportError` if it cannot be loaded."""
    try:
        parts = torch.load(folder / BATCH, map_location="cpu", weights_only=False)
        return Call(
            parts["method"],
            parts["args"],
            parts["kwargs"],
            parts["then"],
            gradients=parts["gradients"],
        )
    except Exception as error:
        raise ReportError(
            f"the batch of {folder} cannot be loaded: {one_line(error, 200)}"
        ) from error


def replay_case(folder: Path) -> str:
    """Repeats the call of a case and returns what is still not finite, as a clause, or "".

    Raises `ReportError` if the case cannot be loaded.
    """
    model, call = model_of(folder), load_case_call(folder)
    with loading.single_threaded():
        return first_not_finite(model, call)
