"""How times are taken: the processor's time for one thread on the CPU, events on a GPU, and in
turns for ratios.

On a processor shared with others wall time spreads by half and more, and the thread's own time by a
few percent. Two things that are compared take turns, with the order swapped from pair to pair, so
that what else happens falls on both alike.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # flows in JAX are timed where torch is not installed
    import torch

Call = Callable[[], Any]
# Seconds of one measurement after the warm-up. Small for a trial run, whose figures nobody reads.
BUDGET = float(os.environ.get("FLOWREF_BENCH_BUDGET", "0.5"))
# A sample is at least this long, several thousand times the resolution of the clock.
SAMPLE_SECONDS = 2e-3
FEWEST, MOST = 5, 60
# Beyond the second-level caches of present GPUs, so that no input is found there.
ROTATED_BYTES = 256 * 2**20


def one_thread() -> None:
    """Compute on one thread, of which alone the clock tells."""
    import torch

    torch.set_num_threads(1)


def seconds(call: Call, number: int = 1) -> float:
    """The processor time of this thread for one call, as the mean of so many."""
    began = time.thread_time()
    for _ in range(number):
        call()
    return (time.thread_time() - began) / number


def wall_seconds(call: Call, number: int = 1) -> float:
    """The wall time of one call, as the mean of so many; what a GPU is given to do is not waited
    for.
    """
    began = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - began) / number


def repeats(call: Call, clock: Callable[[Call, int], float] = seconds) -> tuple[int, int]:
    """Warm up, and say how many calls make a sample and how many samples fill the budget."""
    call()
    once = min(clock(call, 1), clock(call, 1)) + 1e-9
    number = max(1, round(SAMPLE_SECONDS / once))
    return number, max(FEWEST if BUDGET >= 0.1 else 1, min(MOST, int(BUDGET / (number * once))))


def all_seconds(call: Call, number: int = 1) -> float:
    """The processor time of all threads of this process for one call, as the mean of so many: XLA
    computes on threads of its own.
    """
    began = time.process_time()
    for _ in range(number):
        call()
    return (time.process_time() - began) / number


def samples(call: Call, clock: Callable[[Call, int], float] = seconds) -> list[float]:
    """Seconds per call on the CPU, sample by sample."""
    number, count = repeats(call, clock)
    return [clock(call, number) for _ in range(count)]


def spent() -> float:
    """Processor seconds of this process and of the compilers that it ran."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def first_seconds(call: Call) -> float:
    """Processor seconds of a call that nothing was compiled for."""
    before = spent()
    call()
    return spent() - before


def ratio_samples(call: Call, base: Call, rounds: int | None = None) -> list[float]:
    """The time of one call over that of another, pair by pair, the order swapped each time."""
    number, count = repeats(call)
    base_number, base_count = repeats(base)
    ratios = []
    for index in range(rounds or min(count, base_count)):
        if index % 2:
            low = seconds(base, base_number)
            ratios.append(seconds(call, number) / low)
        else:
            high = seconds(call, number)
            ratios.append(high / seconds(base, base_number))
    return ratios


def in_turns(calls: dict[str, Call], rounds: int) -> dict[str, list[float]]:
    """Seconds of all calls, sample by sample: each round takes all of them, forwards and backwards
    in turn.
    """
    numbers = {name: repeats(call)[0] for name, call in calls.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for lap in range(rounds):
        for name in list(calls) if lap % 2 else list(calls)[::-1]:
            taken[name].append(seconds(calls[name], numbers[name]))
    return taken


def rotated(run: Callable[[Any], Any], inputs: Sequence[Any]) -> Call:
    """A call that takes the next input each time."""
    state = [0]

    def call() -> Any:
        state[0] = (state[0] + 1) % len(inputs)
        return run(inputs[state[0]])

    return call


def copies(x: torch.Tensor, device: str) -> list[torch.Tensor]:
    """The input itself on the CPU; on a GPU so many copies that a turn through them leaves nothing
    of the first in the cache.
    """
    if device == "cpu":
        return [x]
    count = max(2, min(64, ROTATED_BYTES // max(1, x.numel() * x.element_size())))
    return [x.detach().clone().requires_grad_(x.requires_grad) for _ in range(count)]


def launch_samples(call: Call) -> list[float]:
    """Seconds in which the host gives a GPU the work of one call, without waiting for it."""
    import torch

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    taken = []
    for _ in range(30):
        taken.append(wall_seconds(call))
        torch.cuda.synchronize()
    return taken


def cuda_samples(call: Call) -> list[float]:
    """Seconds of the device per call, between events.

    The queue is first blocked by a kernel that only waits, for longer than the host needs to fill
    it: the events then enclose the work of the device without the gaps in which it would wait for
    the host. So few calls are queued that the queue, which holds about a thousand kernels, cannot
    run full.
    """
    import torch

    launch = statistics.median(launch_samples(call))
    number = max(1, min(50, int(2.5e-3 / launch)))
    clock_hz = 2e9  # an upper bound, of which only the order matters
    wait = int(clock_hz * min(0.5, 3 * launch * number + 1e-3))
    taken = []
    for _ in range(20):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(wait)
        begin.record()
        for _ in range(number):
            call()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) * 1e-3 / number)
    return taken


def device_samples(call: Call, device: str) -> list[float]:
    """Seconds per call on this device."""
    return samples(call) if device == "cpu" else cuda_samples(call)


def device_ratios(call: Call, base: Call, device: str) -> list[float]:
    """The time of one call over that of another on this device; on a GPU the second is the median
    of its samples.
    """
    if device == "cpu":
        return ratio_samples(call, base)
    unit = statistics.median(cuda_samples(base))
    return [value / unit for value in cuda_samples(call)]
