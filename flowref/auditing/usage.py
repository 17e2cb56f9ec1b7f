"""What a process has taken so far, read from the system: processor time, memory, and whether it
sleeps.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from dataclasses import dataclass

# Where the limits of a container are told.
GROUP = "/sys/fs/cgroup"
# What a process is called that does nothing until it is woken.
SLEEPING = "S"
# Parameters of mallopt by their numbers; bytes from which on a block is large, and free ones at the end of
# the memory that are kept: where every freed block goes back to the system, large calls spend half of their
# time on pages that are given anew, and cleared.
MMAP_THRESHOLD, TRIM_THRESHOLD, BLOCK, KEPT = -3, -1, 2**25, 2**26
# Bytes that have to come before what stayed is looked through again.
AGAIN = 2**26


@dataclass(frozen=True)
class Usage:
    """Seconds of processor time, of all threads and of the processes that it waited for; and whether
    it waits to be woken, rather than for a processor.
    """

    seconds: float
    sleeping: bool


def usage(pid: int) -> Usage | None:
    """What a process has used, or None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            # The name of the program comes second, in brackets, and may hold anything.
            state, *fields = file.read().rpartition(")")[2].split()
        ticks = sum(int(value) for value in fields[10:14])
        return Usage(ticks / os.sysconf("SC_CLK_TCK"), state == SLEEPING)
    except (OSError, ValueError, AttributeError):
        return None


def resident(pid: int) -> int:
    """Resident bytes of a process, 0 where that cannot be read."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def peak(pid: int) -> int:
    """Resident bytes of a process at their highest since `forget_peak`, 0 where that cannot be
    read.
    """
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            line = next(line for line in file if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError, StopIteration):
        return 0


def forget_peak() -> None:
    """From here on `peak` of this process counts anew, where the system can do that."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def total_memory() -> int:
    """Bytes of memory of this machine, or of what this process may take of it; 0 where the system does
    not tell.
    """
    whole = _meminfo_bytes("MemTotal:")
    return min(whole, _confined()[0] or whole)


def free() -> int:
    """Bytes of memory that nobody takes now, counting what the system would give up; 0 as in `total_memory`."""
    available, (limit, taken) = _meminfo_bytes("MemAvailable:"), _confined()
    return min(available, max(0, limit - taken)) if limit else available


def _meminfo_bytes(name: str) -> int:
    with (
        contextlib.suppress(OSError, ValueError, StopIteration),
        open("/proc/meminfo", encoding="ascii") as file,
    ):
        return int(next(line for line in file if line.startswith(name)).split()[1]) * 1024
    return 0


def _confined() -> tuple[int, int]:
    """The bytes that the control group of this process may hold, 0 for any number, and what it holds
    less the files that are kept to be read again.
    """
    with contextlib.suppress(OSError, ValueError, StopIteration):
        with open(f"{GROUP}/memory.max", encoding="ascii") as file:
            limit = int(file.read())
        with open(f"{GROUP}/memory.current", encoding="ascii") as file:
            taken = int(file.read())
        with open(f"{GROUP}/memory.stat", encoding="ascii") as file:
            files = next(line for line in file if line.startswith("inactive_file "))
        return limit, taken - int(files.split()[1])
    return 0, 0


def give_back() -> None:
    """Give large blocks back to the system when they are freed, and what is free now."""
    with contextlib.suppress(Exception):  # it is another library, or none that is known
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, BLOCK)
        library.mallopt(TRIM_THRESHOLD, KEPT)
        library.malloc_trim(0)


def shed(allowed: int, kept: int = 0) -> int:
    """Let go of what nobody holds, where more than ``allowed`` bytes are resident: cycles that wait to
    be collected, and blocks that the C library keeps. A model of a few dozen megabytes leaves a
    gigabyte of such blocks when it is loaded. Returns the bytes that stay. ``kept``: those that stayed
    before, which are looked through again when `AGAIN` more have come: among what a compiler keeps that takes
    longer than most pairs do.
    """
    now = resident(os.getpid())
    if now <= max(allowed, kept + AGAIN):
        return min(kept, now)
    gc.collect()
    with contextlib.suppress(Exception):  # as in `give_back`
        ctypes.CDLL(None).malloc_trim(0)
    return resident(os.getpid())
