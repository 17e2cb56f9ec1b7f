"""Resources of a process, read from the system: CPU time, memory, and whether it sleeps."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from dataclasses import dataclass

# Control group of a container.
GROUP = "/sys/fs/cgroup"
# State of a sleeping process.
SLEEPING = "S"
# Parameters of mallopt; bytes of a large block, and free bytes kept at the top of the heap: returning every
# freed block costs large calls half of their time in fresh, cleared pages.
MMAP_THRESHOLD, TRIM_THRESHOLD, BLOCK, KEPT = -3, -1, 2**25, 2**26
# Bytes of growth before memory is collected again.
AGAIN = 2**26


@dataclass(frozen=True)
class Usage:
    """CPU seconds, of all threads and finished child processes; and whether it sleeps rather than
    waits for a CPU.
    """

    seconds: float
    sleeping: bool


def usage(pid: int) -> Usage | None:
    """Return the usage of a process; None if the system does not report it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            # The second field, the program's name in brackets, may contain anything.
            state, *fields = file.read().rpartition(")")[2].split()
        ticks = sum(int(value) for value in fields[10:14])
        return Usage(ticks / os.sysconf("SC_CLK_TCK"), state == SLEEPING)
    except (OSError, ValueError, AttributeError):
        return None


def resident(pid: int) -> int:
    """Resident bytes of a process; 0 if unknown."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def peak(pid: int) -> int:
    """Peak resident bytes of a process since `forget_peak`; 0 if unknown."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            line = next(line for line in file if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError, StopIteration):
        return 0


def forget_peak() -> None:
    """Reset the peak of this process, if the system supports it."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def total_memory() -> int:
    """Bytes of memory of this machine or its container; 0 if unknown."""
    whole = _meminfo_bytes("MemTotal:")
    return min(whole, _confined()[0] or whole)


def free() -> int:
    """Bytes of free or reclaimable memory; 0 if unknown."""
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
    """Limit of this process's control group in bytes, 0 for none, and its use without cached files."""
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
    """Return large blocks to the system when they are freed, and all free memory now."""
    with contextlib.suppress(Exception):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, BLOCK)
        library.mallopt(TRIM_THRESHOLD, KEPT)
        library.malloc_trim(0)


def shed(allowed: int, kept: int = 0) -> int:
    """Collect garbage and trim the C heap if more than ``allowed`` bytes are resident, and return
    the bytes that stay. A model of a few dozen megabytes leaves a gigabyte of free blocks after
    loading. ``kept``: the bytes that stayed before; collection is repeated only after `AGAIN` more,
    since it takes long with a compiler's caches.
    """
    now = resident(os.getpid())
    if now <= max(allowed, kept + AGAIN):
        return min(kept, now)
    gc.collect()
    with contextlib.suppress(Exception):  # as in `give_back`
        ctypes.CDLL(None).malloc_trim(0)
    return resident(os.getpid())
