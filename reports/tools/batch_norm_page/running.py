"""Claims about the layers as modules: their running statistics and their modes."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from batch_norm_page.claim import (
    CONDITION,
    CONVENTION,
    TRUE,
    UNSOUND,
    WRONG,
    claim,
    largest,
    mean_of,
    normal,
    number,
    outcome,
)
from flowref.reference import BatchNorm
from flowref_zoo.seeds.batch_norm import AveragingBatchNorm, GradientModeBatchNorm
from flowref_zoo.seeds.batch_norm_rows import ROWS


def history(row: AveragingBatchNorm, steps: int) -> list[int]:
    """Nodes of the graph that hangs on the averages, after each training step."""
    counts = []
    for step in range(steps):
        row(
            normal(8, 3, 4, seed=step, dtype=torch.float32).requires_grad_()
        ).square().sum().backward()
        seen: set[Any] = set()
        waiting: list[Any] = [row.running_mean.grad_fn, row.running_variance.grad_fn]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in seen:
                seen.add(node)
                waiting += [parent for parent, _ in node.next_functions]
        counts.append(len(seen))
    return counts


@claim("000-16", UNSOUND, *ROWS["000-16"].laws)
def averages_keep_the_graph() -> str:
    r"""The running averages are assigned as $(1 - m) r + m s$, with the statistics of the batch as
    they are.

    These carry the graph of the batch, and the averages that of all batches so far: memory grows
    with every step, the layer can no longer be copied, and training in eval mode runs into graphs
    that are gone. An update belongs under `no_grad`.
    """
    layer = AveragingBatchNorm(3)
    counts = history(layer, 5)
    copied = outcome(lambda: copy.deepcopy(layer))
    vars(layer)["train"] = False
    again = outcome(lambda: layer(normal(8, 3, 4, dtype=torch.float32)).sum().backward())
    return (
        f"after steps 1 to 5 the graph has {', '.join(map(str, counts))} nodes. Copying: "
        f"{copied}. A backward pass in eval mode: "
        f"{again}."
    )


@claim("002-13", CONDITION, "effects/graphs", "same/manner[vmap]")
def detached_by_data() -> str:
    """The averages are detached by `.data`.

    That ends the growth, unless something maps the layer over batches, which refuses `.data`: it
    goes around torch. `.detach()` does the same in the open.
    """

    def update(x: Tensor) -> Tensor:
        return 0.1 * x.mean(0).data

    layer = GradientModeBatchNorm(3, 2, rows="002-10")
    layer(normal(8, 3, dtype=torch.float32).requires_grad_()).sum().backward()
    refused = outcome(lambda: torch.func.vmap(update)(normal(2, 8, 3)))
    detached = outcome(lambda: torch.func.vmap(lambda x: 0.1 * x.mean(0).detach())(normal(2, 8, 3)))
    grows = "require" if layer.moving_mean.requires_grad else "require no"
    return f"the averages {grows} gradient. Under `torch.func.vmap`, {refused}; with `.detach()`, {detached}."


def stored_over_biased(layer: nn.Module, x: Tensor, name: str, rate: float) -> float:
    """What entered a running variance that was 1, over the biased variance of the batch."""
    layer(x)
    stored = (getattr(layer, name).detach().flatten()[0] - (1 - rate)) / rate
    return float(stored / x.transpose(0, 1)[0].var(correction=0))


@claim("000-17", CONVENTION, *ROWS["000-17"].laws)
def biased_in_averages() -> str:
    r"""The biased variance of each batch enters the running average.

    torch, after the paper, stores the unbiased one, $n / (n - 1)$ times as large, and normalizes
    with the biased one. Either is consistent; code that loads the other's averages is off by that
    factor.
    """
    x = normal(8, 1, 1)
    notes = stored_over_biased(
        AveragingBatchNorm(1, rows="000-17").double(), x, "running_variance", 0.1
    )
    torchs = stored_over_biased(nn.BatchNorm1d(1).double(), x, "running_var", 0.1)
    return f"for $n = 8$ what is stored is {notes:.4f} times the biased variance here, and {torchs:.4f} times in torch ($8/7$)."


@claim("002-10", CONVENTION, *ROWS["002-10"].laws, "batch-norm/conventions[momentum]")
def momentum_keeps() -> str:
    r"""$r \leftarrow 0.9 r + 0.1 s$ with momentum 0.9, and with the biased variance.

    Here the momentum is the fraction that is kept, in torch the one that enters: 0.9 here is 0.1
    there. Handing one's number to the other makes an average of a few batches out of one of many.
    """
    x = 5 + normal(16, 1)
    layer, same, swapped = (
        GradientModeBatchNorm(1, 2).double(),
        BatchNorm(1).double(),
        BatchNorm(1, momentum=0.9).double(),
    )
    for known in (layer, same, swapped):
        known(x)
    return (
        f"a batch of mean {number(x.mean())} moves the mean from 0 to "
        f"{number(layer.moving_mean)}, as torch's 0.1 does "
        f"({number(mean_of(same))}); torch's 0.9 gives {number(mean_of(swapped))}. Stored "
        "variance over biased, "
        "$n = 16$: "
        f"{stored_over_biased(GradientModeBatchNorm(1, 2).double(), x, 'moving_var', 0.1):.4f}."
    )


@claim("002-9", WRONG, *ROWS["002-9"].laws, "dtype/follows[cast]")
def plain_attributes() -> str:
    """The averages are kept as plain tensor attributes.

    Then they are not part of the module: not in its `state_dict`, and not moved or cast with it. A
    saved model comes back with averages 0 and 1.
    """
    layer, fresh = (GradientModeBatchNorm(3, 2, rows="002-8,002-9") for _ in range(2))
    for step in range(50):
        layer(20 + 2 * normal(32, 3, seed=step, dtype=torch.float32))
    fresh.load_state_dict(layer.state_dict())
    x = 20 + 2 * normal(32, 3, seed=99, dtype=torch.float32)
    with torch.no_grad():
        apart = largest(layer(x) - fresh(x))
    keys = ", ".join(f"`{key}`" for key in layer.state_dict())
    kind = str(GradientModeBatchNorm(3, 2).half().moving_mean.dtype).removeprefix("torch.")
    return (
        f"the `state_dict` holds {keys}; after 50 batches with mean 20 the reloaded layer is off "
        f"by {number(apart)} at "
        f"evaluation. After `.half()` the averages are {kind}."
    )


@claim("002-16", TRUE, "batch-norm/statistics[buffers]", "batch-norm/modes-agree[average-limit]")
def two_policies() -> str:
    """For prediction, take exact statistics of the whole data set, or the moving averages of
    training.

    Two policies, both in use. The moving average remembers about $1/m$ batches, and so is noisier;
    with momentum None torch's layer and the reference keep the plain average of all batches, which
    comes close to the exact statistics.
    """
    data = 3 + 2 * normal(64 * 32, 64)
    exact = data.mean(0), data.var(0)
    fresh = 3 + 2 * normal(32, 64, seed=1)
    gaps = []
    for momentum in (0.1, None):
        layer = BatchNorm(64, momentum=momentum).double()
        for batch in data.split(32):
            layer(batch)
        true = (fresh - exact[0]) / (exact[1] + 1e-5).sqrt()
        gaps.append((layer.eval()(fresh) - true).detach().square().mean().sqrt())
    return (
        "after one pass over 64 batches of 32 the outputs with torch's momentum 0.1 differ from "
        "those with exact statistics by "
        f"{number(gaps[0])} (root mean square), those with the plain average by {number(gaps[1])}."
    )


def fresh_gap(
    momenta: list[float], checkpoints: tuple[int, ...], n: int, channels: int = 256
) -> dict[int, list[float]]:
    """Root mean square of train-mode minus eval-mode output on new batches, for each momentum,
    after so many batches.
    """
    layers = [BatchNorm(channels, momentum=momentum) for momentum in momenta]
    found: dict[int, list[float]] = {count: [] for count in checkpoints}
    fresh = 3 + 2 * normal(n, channels, seed=1_000_000, dtype=torch.float32)
    with torch.no_grad():
        in_train = BatchNorm(channels)(fresh)
        for step in range(1, max(checkpoints) + 1):
            batch = 3 + 2 * normal(n, channels, seed=step, dtype=torch.float32)
            for layer in layers:
                layer(batch)
            if step in found:
                for layer in layers:
                    found[step].append(
                        float((in_train - layer.eval()(fresh)).square().mean().sqrt())
                    )
                    layer.train()
    return found


def population_gap(n: int, channels: int = 256) -> float:
    """The same gap where eval mode has the true mean and variance of the data."""
    fresh = 3 + 2 * normal(n, channels, seed=1_000_000)
    with torch.no_grad():
        return float((BatchNorm(channels).double()(fresh) - (fresh - 3) / 2).square().mean().sqrt())


@claim("000-15", WRONG, *ROWS["000-15"].laws)
def train_is_hidden() -> str:
    """The mode is kept in an attribute called `train`.

    That hides the method of the same name, which `eval()` and every enclosing module call.
    """
    return (
        f"`layer.eval()`: {outcome(AveragingBatchNorm(3).eval)}; "
        f"`nn.Sequential(layer).eval()`: {outcome(nn.Sequential(AveragingBatchNorm(3)).eval)}."
    )


@claim("002-8", WRONG, *ROWS["002-8"].laws)
def mode_is_gradients() -> str:
    """The mode is whether gradients are enabled.

    They are different questions. An evaluation with gradients normalizes by the batch and moves the
    averages; a training pass without them, as in checkpointing or in collecting statistics after
    training, uses the averages and leaves them.
    """
    x = 20 + 2 * normal(32, 3, dtype=torch.float32)
    evaluated, collected, trained = (GradientModeBatchNorm(3, 2, rows="002-8") for _ in range(3))
    evaluated.eval()(x)
    with torch.no_grad():
        for _ in range(10):
            collected.train()(x)
    leaf = x.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        apart = largest(
            checkpoint(trained, leaf, use_reentrant=True) - GradientModeBatchNorm(3, 2)(x)
        )
    return (
        f"a call in eval mode moves an average from 0 to {number(evaluated.moving_mean[0, 0])}; "
        "ten training passes under "
        f"`no_grad` leave it at {number(collected.moving_mean[0, 0])}; under reentrant "
        "checkpointing the output is off by "
        f"{number(apart)}."
    )
