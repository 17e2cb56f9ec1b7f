"""The life of one object, as typed steps with typed outcomes: the ability behind the laws of mode
and state.

A life is a list of steps, played in order on one private copy; `Life` holds their outcomes. Each
step stands beside its outcome.
"""

from flowref.model.steps.calls import (
    Eval,
    Fit,
    Fitted,
    Learn,
    ModeChange,
    Modes,
    Nudge,
    Overwrite,
    Run,
    Train,
    Trained,
)
from flowref.model.steps.inside import Bend, Cut, Layers, Parameters, Passed, Trace
from flowref.model.steps.life import Life, Step
from flowref.model.steps.normalizing import Assign, Normalize, Pullback, Pulled, Roles
from flowref.model.steps.samples import Draw, Drawn, Pathwise
from flowref.model.steps.state import (
    Cast,
    Construct,
    Construction,
    CountTensors,
    Deepcopy,
    Dtypes,
    Graphs,
    Meta,
    Pickle,
    Reload,
    Restore,
    Rounded,
    Save,
    State,
    Sway,
    TorchSave,
    Unregistered,
    Weights,
)

__all__ = [
    "Assign",
    "Bend",
    "Cast",
    "Construct",
    "Construction",
    "CountTensors",
    "Cut",
    "Deepcopy",
    "Draw",
    "Drawn",
    "Dtypes",
    "Eval",
    "Fit",
    "Fitted",
    "Graphs",
    "Layers",
    "Learn",
    "Life",
    "Meta",
    "ModeChange",
    "Modes",
    "Normalize",
    "Nudge",
    "Overwrite",
    "Parameters",
    "Passed",
    "Pathwise",
    "Pickle",
    "Pullback",
    "Pulled",
    "Reload",
    "Restore",
    "Roles",
    "Rounded",
    "Run",
    "Save",
    "State",
    "Step",
    "Sway",
    "TorchSave",
    "Trace",
    "Train",
    "Trained",
    "Unregistered",
    "Weights",
]
