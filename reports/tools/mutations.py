"""Plant drawn mutations in flowref's own code, and write `reports/mutations.json`: how many tests reach
each, which of them fail, and where one is alone in failing.

Usage: `python reports/tools/mutations.py [--count 200] [--seed 0] [--budget MINUTES] [--fresh] [TESTS]`,
in the environment of `tox -e shared` (`tox -e mutations`). All tests, or those in the named files and
folders, run once on a copy that records what they reach; then each mutation is in force in a copy of a
process, and the tests that reach it run, the cheapest first, until three have failed. A run that ends
early is continued by the next; ``--fresh`` begins again. Exit code: 0, or 3 where time was up.

Known limits: what a test finds kept in memory by an earlier one it does not reach; what only processes
of other frameworks run is not reached; and of tests beyond two minutes none are run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from planted import killing, recorder
from planted.killing import Job, Outcome
from planted.sites import ASKED, RECORDED, Mutation, draw, noted, planted, texts_of

TOOLS = Path(__file__).parent
# Processor seconds of tests that are run for one mutation; what they may take on a busy machine is so
# many times that, and a minute.
MOST, SLACK = 120.0, 8.0
# A test of unknown cost.
UNKNOWN = 60.0
# Mutations for one process.
TOGETHER = 10
# What reads flowref's own code is no test of what it does.
LEFT_OUT = ("properties/test_floors.py",)


@dataclass(frozen=True)
class Place:
    """A repository, and what is written for it."""

    root: Path
    package: str = "flowref"

    @property
    def work(self) -> Path:
        """Where copies and notes are kept."""
        return self.root / "build" / "mutations"

    @property
    def notes(self) -> Path:
        """What the recording tree notes."""
        return self.work / "notes"

    def outcomes(self, jobs: str) -> Path:
        """What came of each mutation of some jobs, a line each."""
        return self.work / f"outcomes-{jobs}.jsonl"

    @property
    def result(self) -> Path:
        """The list."""
        return self.root / "reports" / "mutations.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Continue where the last run ended."""
    parser = argparse.ArgumentParser(description="Plant mutations in flowref's own code.")
    parser.add_argument("tests", nargs="*", help="files and folders of tests; by default all")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=240.0, help="minutes")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--root", type=Path, default=TOOLS.parents[1])
    parser.add_argument("--package", default="flowref")
    options = parser.parse_args(arguments)
    end = time.monotonic() + 60 * options.budget
    place = Place(options.root, options.package)
    if options.fresh:
        shutil.rmtree(place.work, ignore_errors=True)
    mutations = trees(place, options.count, options.seed)
    if not (place.work / "recorded").exists():
        record(place, options.tests)
        (place.work / "recorded").touch()
    reached, seconds = recorder.reached(place.notes), recorder.seconds(place.notes)

    def in_time(jobs: Sequence[Job]) -> None:
        if time.monotonic() < end:
            kill(place, jobs)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(in_time, batches(mutations, reached, seconds, done(place))):
            write(place, mutations, reached, options.seed)
    confirm(place)
    counts = write(place, mutations, reached, options.seed)
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    return 3 if counts["not measured"] else 0


def trees(place: Place, count: int, seed: int) -> list[Mutation]:
    """The drawn mutations. Two copies of the repository have them in it, one that records what is
    reached and one in which one is in force.
    """
    if not (place.work / "copied").exists():
        for name in ("source", "recording", "planted"):
            shutil.rmtree(place.work / name, ignore_errors=True)
            copy(place.root, place.work / name)
        (place.work / "copied").touch()
    texts = texts_of(place.work / "source", place.package)
    mutations = draw(texts, count, seed)
    for name, module, asked in (
        ("recording", recorder.MODULE, RECORDED),
        ("planted", killing.MODULE, ASKED),
    ):
        (place.work / name / "flowref_planted.py").write_text(module, encoding="utf-8")
        for file in sorted({mutation.file for mutation in mutations}):
            here = [mutation for mutation in mutations if mutation.file == file]
            early = [mutation.number for mutation in here if not mutation.site.late]
            text = planted(texts[file], here, asked)
            text = noted(text, early) if early and asked == RECORDED else text
            (place.work / name / file).write_text(text, encoding="utf-8")
    return mutations


def copy(root: Path, to: Path) -> None:
    """What git knows of a working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name)


def record(place: Place, tests: Sequence[str]) -> None:
    """Run tests, all where none is named, and note what each reaches."""
    shutil.rmtree(place.notes, ignore_errors=True)
    place.notes.mkdir(parents=True)
    words = ["-p", "planted.recorder", "-n", "logical", "--dist", "worksteal", "-q"]
    words += [*(f"--ignore={name}" for name in LEFT_OUT), *tests]
    pytest(place, "recording", words, {"PLANTED_NOTES": str(place.notes)})


def batches(
    mutations: Sequence[Mutation],
    reached: dict[int, set[str]],
    seconds: dict[str, float],
    known: dict[int, Outcome],
) -> Iterator[list[Job]]:
    """Jobs for one process each: several where a mutation can be put in force later, and one where
    that has to be before the package is imported.
    """
    several: list[Job] = []
    for mutation in mutations:
        tests = reached.get(mutation.number, set())
        if mutation.number in known or not tests:
            continue
        chosen: list[str] = []
        spent = 0.0
        for test in sorted(tests, key=lambda each: seconds.get(each, UNKNOWN)):
            if chosen and spent + seconds.get(test, UNKNOWN) > MOST:
                break
            chosen.append(test)
            spent += seconds.get(test, UNKNOWN)
        job = Job(mutation.number, chosen, 60 + SLACK * spent)
        if mutation.site.late:
            several.append(job)
        else:
            yield [job]
    for start in range(0, len(several), TOGETHER):
        yield several[start : start + TOGETHER]


def kill(place: Place, jobs: Sequence[Job]) -> None:
    """Do jobs in one process, and append what comes of them. A module that cannot be imported fails
    all tests.
    """
    name = str(jobs[0].number)
    file, outcomes = place.work / f"jobs-{name}.json", place.outcomes(name)
    file.write_text(json.dumps([asdict(job) for job in jobs]), encoding="utf-8")
    files = sorted({test.partition("::")[0] for job in jobs for test in job.tests})
    variables = {"PLANTED_JOBS": str(file), "PLANTED_OUTCOMES": str(outcomes)}
    if len(jobs) == 1:
        variables["FLOWREF_MUTATION"] = str(jobs[0].number)
    pytest(place, "planted", ["-p", "planted.killing", "-q", *files], variables)
    if len(jobs) == 1 and jobs[0].number not in done(place):
        ended = Outcome(jobs[0].number, ["(import)"], [])
        with outcomes.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(ended)) + "\n")


def confirm(place: Place) -> None:
    """Tests that fail without any mutation show nothing: those that failed run once more where none is
    in force.
    """
    known = done(place)
    before = set(known[0].ran_tests) if 0 in known else set()
    failed = {test for outcome in known.values() for test in outcome.killers if "::" in test}
    if failed - before:
        kill(place, [Job(0, sorted(failed), 60 + SLACK * MOST)])


def done(place: Place) -> dict[int, Outcome]:
    """What is known already, by number."""
    files = sorted(place.work.glob(place.outcomes("*").name))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [Outcome(**json.loads(line)) for line in lines if line.endswith("}")]
    return {row.number: row for row in rows}


def write(
    place: Place, mutations: Sequence[Mutation], reached: dict[int, set[str]], seed: int
) -> dict[str, int]:
    """The list of mutations with their killers, and how many came to what end."""
    known = done(place)
    broken = set(known[0].killers) if 0 in known else set()
    rows = [row(each, reached.get(each.number, set()), known, broken) for each in mutations]
    words = ("killed", "alone", "survived", "not reached", "not measured")
    counts = {word: sum(each["outcome"] == word for each in rows) for word in words}
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=place.root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    result = {"commit": commit, "seed": seed, "counts": counts, "mutations": rows}
    place.result.parent.mkdir(exist_ok=True)
    place.result.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return counts


def row(
    mutation: Mutation, reached: set[str], known: dict[int, Outcome], broken: set[str]
) -> dict[str, Any]:
    """What became of a mutation. ``alone``: one test failed, and all others that reach it were run."""
    outcome = known.get(mutation.number)
    said: dict[str, Any] = {**mutation.as_json(), "reached by": len(reached)}
    if outcome is None:
        return said | {"outcome": "not measured" if reached else "not reached"}
    killers = [test for test in outcome.killers if test not in broken]
    killers += [f"{outcome.hangs} {killing.HANGS}"] * bool(outcome.hangs)
    word = "killed" if killers else "survived"
    if len(killers) == 1 and "::" in killers[0] and len(outcome.ran_tests) == len(reached):
        word = "alone"
    return said | {"outcome": word, "run": len(outcome.ran_tests), "killers": killers}


def pytest(place: Place, tree: str, words: Sequence[str], variables: dict[str, str]) -> None:
    """Run pytest in a copy, whose package is imported."""
    folder = place.work / tree
    path = os.pathsep.join([str(folder), str(TOOLS)])
    environment = {name: text for name, text in os.environ.items() if name[:6] != "PYTEST"}
    environment |= {**variables, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    with (place.work / "pytest.log").open("a", encoding="utf-8") as log:
        subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            check=False,
        )


if __name__ == "__main__":
    sys.exit(main())
