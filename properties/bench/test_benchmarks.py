"""The suite of benchmarks: what is timed agrees, what it says is judged as documented, and its
pages open by themselves.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "asv_bench"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)


@pytest.fixture(scope="module", autouse=True)
def _importable() -> Iterator[None]:
    """The suite and its tools are no packages of the distribution."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what libraries say when they are imported
        patch.syspath_prepend(str(BENCH / "tools"))
        patch.syspath_prepend(str(BENCH))
        patch.setenv("FLOWREF_BENCH_BUDGET", "0.01")
        yield


def cases() -> Any:
    """The module of the cases."""
    return importlib.import_module("benchmarks._cases")


@pytest.mark.parametrize("op", ["log_prob", "sample", "training_step"])
@pytest.mark.parametrize(
    "impl", ["flowref", "nflows", "normflows", "zuko", "FrEIA", "glasflow", "torchflows"]
)
@pytest.mark.filterwarnings("ignore")
def test_peers_agree(impl: str, op: str) -> None:
    """Every library gives the reference's log-density, gradient and sample at the same weights."""
    if not importlib.import_module("benchmarks._grid").available(impl):
        pytest.skip(f"{impl} is not installed")
    assert cases().vector_flow(impl, op, "small", "cpu").call() is not None


FAMILY_PEERS = {
    "spline": ("nflows", "normflows", "zuko"),
    "maf": ("nflows", "normflows", "zuko"),
    "residual": ("normflows",),
}


@pytest.mark.parametrize(
    ("family", "impl"),
    [(family, impl) for family, impls in FAMILY_PEERS.items() for impl in ("flowref", *impls)],
)
@pytest.mark.filterwarnings("ignore")
def test_families_agree(family: str, impl: str) -> None:
    """Every library gives the log-density and, where it is exact, the sample of the reference around the
    same networks.
    """
    if not importlib.import_module("benchmarks._grid").available(impl):
        pytest.skip(f"{impl} is not installed")
    suite = cases()
    assert set(suite.FAMILIES[family][1]) == set(FAMILY_PEERS[family])
    for op in ("log_prob", "sample"):
        assert suite.COMPONENTS[family](impl, op, "small", "cpu").call() is not None


@pytest.mark.parametrize("impl", ["flowref", "zuko", "torchflows"])
@pytest.mark.filterwarnings("ignore")
def test_continuous_flows_agree(impl: str) -> None:
    """Each library gives the reference's log-density along the same field, and its evaluations are
    counted: more of them where it has to be more exact.
    """
    if not importlib.import_module("benchmarks._grid").available(impl):
        pytest.skip(f"{impl} is not installed")
    suite = importlib.import_module("benchmarks._continuous")
    assert cases().continuous(impl, "log_prob", "small", "cpu").call() is not None
    coarse, fine = (suite.knob(impl, "small", accuracy)[1] for accuracy in (1e-3, 1e-7))
    assert 0 < coarse < fine < 1000


@pytest.mark.parametrize("op", ["log_prob", "sample"])
@pytest.mark.parametrize("kind", ["continuous", "matching", "diffusion"])
def test_matched_flows_are_measured(kind: str, op: str) -> None:
    """Along one network, with finite results."""
    suite = importlib.import_module("benchmarks._matched")
    assert torch.isfinite(suite.matched(kind, op, "small").call()).all()


@pytest.mark.filterwarnings("ignore")
def test_a_family_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here splines of which the slopes are not those of the library."""
    suite, families = cases(), importlib.import_module("benchmarks._families")
    monkeypatch.setattr(families, "AT_ZERO", 0.1 + families.AT_ZERO)
    with pytest.raises(AssertionError, match="log_prob of spline of nflows"):
        suite.spline.__wrapped__("nflows", "log_prob", "small", "cpu")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("off", [0.0, 0.01])
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_peer_is_compared(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a library gives compiled is timed where it is what the reference gives, and only there."""

    def compiled(function: Any) -> Any:
        return lambda x: function(x) + off

    monkeypatch.setattr(torch, "compile", compiled)
    build = cases().spline.__wrapped__
    refused = pytest.raises(AssertionError) if off else contextlib.nullcontext()
    with refused:
        assert build("nflows-compiled", "log_prob", "small", "cpu").call() is not None


def test_disagreement_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast path that computes something else is not timed: here a library whose weights are in
    the wrong order.
    """
    suite = cases()
    monkeypatch.setattr(suite, "reordered", lambda net, order: net)
    with pytest.raises(AssertionError, match="log_prob of normflows"):
        suite.vector_flow.__wrapped__("normflows", "log_prob", "small", "cpu")


def test_missing_peer_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library or device that is not there is skipped, and its parameters stay."""
    suite: Any = importlib.import_module("benchmarks._grid")
    monkeypatch.setattr(suite, "available", lambda impl: impl != "zuko")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    skipped = suite.skipped(["flowref", "zuko"], ["small"])
    assert skipped == [
        ("flowref", "small", "cuda"),
        ("zuko", "small", "cpu"),
        ("zuko", "small", "cuda"),
    ]


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # what is not installed cannot be imported
sys.path[:0] = [r"{bench}", r"{bench}/tools"]
import collect
for one in collect.discovered(collect.WITHOUT_TORCH):
    print(one.name.removeprefix("benchmarks."))
"""


def test_what_is_measured_in_jax_needs_no_torch() -> None:
    """Where torch is not installed the benchmarks of JAX are found, and of each family what compiles is
    a figure beside what is compiled.
    """
    program = WITHOUT_TORCH.format(bench=BENCH)
    seen = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=BENCH
    )
    names = set(seen.stdout.split())
    for family in ("JaxCoupling", "JaxSpline", "JaxMaskedAutoregressive"):
        for call in ("log_prob", "training_step"):
            steady, first = (f"jax_flows.{family}.track_{one}{call}" for one in ("", "first_"))
            assert {steady, first} <= names
    assert {"audit.JaxTarget.track_seconds", "audit.JaxTarget.track_again_seconds"} <= names


def test_counts_repeat() -> None:
    """Two counts of one case are equal."""
    counts: Any = importlib.import_module("benchmarks.memory").CouplingCounts()
    first, second = (counts.track_bytes_allocated("flowref", "small", "cpu") for _ in range(2))
    assert first == second > 0


def test_grown_count_fails() -> None:
    """The gate names what has grown, is new or is gone; what fell is no failure."""
    gate: Any = importlib.import_module("gate")
    worse, better = gate.compared({"a": 2, "b": 1, "c": 1}, {"a": 1, "b": 2, "d": 1})
    assert [line[0] for line in worse] == ["a", "c", "d"]
    assert [line[0] for line in better] == ["b"]


@pytest.mark.parametrize(
    ("slower", "control", "expected"),
    [
        (1.3, 1.0, "slower"),
        (1.05, 1.0, "same"),
        (1 / 1.3, 1.0, "faster"),
        (1.3, 1.3, "noisy"),
        (1.0, 1.0, "same"),
    ],
)
def test_verdict(slower: float, control: float, expected: str) -> None:
    """A comparison flags what is slower by more than noise, and nothing where the control moves as
    much.
    """
    compare: Any = importlib.import_module("compare")
    spread = [1 + 0.004 * (index % 11 - 5) for index in range(31)]
    assert (
        compare.verdict([slower * x for x in spread], [control * x for x in spread[::-1]])
        == expected
    )


def test_joined_results_keep_what_was_not_measured() -> None:
    """A second run of one commit replaces what it measured and nothing else: one without torch leaves the
    build that is known.
    """
    results: Any = importlib.import_module("_results")
    columns = ["result", "params", "version"]
    grid = [["'a'", "'b'"]]

    def document(torch: str, **benchmarks: Any) -> dict[str, Any]:
        rows = {name: [values, grid, "1"] for name, values in benchmarks.items()}
        built = {"torch": torch}
        return {"result_columns": columns, "results": rows, "durations": {}, "requirements": built}

    first = document("2.11.0+cu130", x=[1.0, 2.0], y=[3.0, 4.0])
    both = results.joined(first, document("", x=[float("nan"), 5.0]))
    assert both["requirements"] == {"torch": "2.11.0+cu130"}
    assert both["results"]["x"][0] == [1.0, 5.0]
    assert both["results"]["y"][0] == [3.0, 4.0]


@pytest.mark.filterwarnings("ignore")
def test_collected_elsewhere(tmp_path: Path) -> None:
    """What a machine without asv and git measures arrives in a result file, with quartiles."""
    pytest.importorskip("asv_runner")
    raw = tmp_path / "raw.json"
    command = [
        sys.executable,
        str(BENCH / "tools" / "collect.py"),
        "--out",
        str(raw),
        "--machine",
        "elsewhere",
    ]
    bench = r"coupling.*track_forward\('(flowref|nflows)', 'small', '"
    env = {**os.environ, "FLOWREF_BENCH_BUDGET": "0.1", "PATH": ""}
    subprocess.run(
        [*command, "--bench", bench], check=True, env=env, cwd=tmp_path, capture_output=True
    )
    commit = head()
    pytest.importorskip("asv")
    ingest, results = importlib.import_module("ingest"), importlib.import_module("_results")
    ingest.ingest(json.loads(raw.read_text()), commit, tmp_path / "results")
    (found,) = results.recorded(tmp_path / "results")
    value = found.find("coupling.Coupling.track_forward", "flowref", "small", "cpu")
    assert (found.machine, found.commit, found.torch) == ("elsewhere", commit, torch.__version__)
    assert 0 < value.low <= value.value <= value.high


def test_what_only_others_measure_is_described(tmp_path: Path) -> None:
    """Pages show what asv knows of: a benchmark that only arrives from elsewhere is described, and those
    that asv has run keep their code.
    """
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps({"a.track": {"code": "kept", "version": "1"}, "version": 2}))
    row = {"params": [["'x'"]], "param_names": ["impl"], "unit": "s", "type": "track", "index": 0}
    rows = [{**row, "name": name, "version": "2"} for name in ("a.track", "b.track")]
    importlib.import_module("ingest").describe(rows, path)
    found = json.loads(path.read_text())
    assert found["a.track"]["code"] == "kept" and found["a.track"]["version"] == "2"
    assert found["b.track"]["unit"] == "s" and "index" not in found["b.track"]


@pytest.mark.parametrize(
    ("course", "expected"),
    [
        ([3.0, 3.1, 2.0, 2.1, 1.9], [2]),
        ([2.0, 2.1, 3.0, 3.2], [2]),
        ([3.0, 3.1, 2.0, 2.1, 1.0, 1.1], [2, 4]),
        ([3.0, 3.0, 2.8, 2.8], []),  # less than a tenth
        ([3.0, 3.1, 2.0], []),  # one measurement
        ([3.0, 2.0, 2.1, 2.0], []),
        ([3.0, 3.1, 2.0, 3.0, 2.1], []),  # not kept
        ([], []),
    ],
)
def test_step(course: list[float], expected: list[int]) -> None:
    """A course changed where all that follows lies apart from all that was before."""
    summary: Any = importlib.import_module("summary")
    assert summary.steps(course) == expected


def recorded_of(commit: str, torch: str, *rows: tuple[str, str, float], machine: str = "m") -> Any:
    """A record of a GPU: benchmarks of implementations at the medium size."""
    results: Any = importlib.import_module("_results")
    values = tuple(
        results.Value(name, (impl, "medium", "cuda"), time, time, time) for name, impl, time in rows
    )
    # Commits a day apart, in the order of their names.
    date = 86_400_000 * int(commit[0], 16)
    return results.Recorded(machine, "full", commit, date, torch, values)


def test_the_fastest_peer_is_the_one_beside() -> None:
    """A rate is the fastest peer's time over the reference's, eager and compiled; where neither or no peer
    was measured there is none.
    """
    summary: Any = importlib.import_module("summary")
    name = "flow.VectorFlow.track_log_prob"
    times = {"flowref": 2.0, "flowref-compiled": 0.5, "nflows": 4.0, "FrEIA": 1.0}
    result = recorded_of(
        "1" * 40,
        "",
        *((name, impl, time) for impl, time in times.items()),
        ("flow.VectorFlow.track_sample", "flowref", 1.0),
        ("flow.ImageFlow.track_sample", "FrEIA", 1.0),
    )
    assert summary.against_fastest(result, "medium", "cuda") == [
        ("Flow of vectors, log prob", "FrEIA", 0.5, 2.0)
    ]
    shown = summary.page([result])
    assert "at 0.50 times the rate of FrEIA, the fastest peer, and compiled at 2.00 times." in shown


def test_a_machine_with_two_commits_has_a_course() -> None:
    """Each part says at which commit and with which torch it was last measured, and each point of a course
    is one commit.
    """
    summary: Any = importlib.import_module("summary")
    norm, flow = "batch_norm.BatchNorm.track_eval", "flow.VectorFlow.track_sample"
    first = recorded_of("1" * 40, "2.11.0", (norm, "flowref", 3.0), (flow, "flowref", 1.0))
    second = recorded_of("2" * 40, "2.11.0+cu130", (norm, "flowref", 2.0))
    shown = summary.page([first, second])
    rows = [line.split("</td><td>") for line in shown.split("<tr>") if line.startswith("<td>")]
    assert [
        [cell.removeprefix("<td>").partition("<")[0] for cell in row]
        for row in rows
        if len(row) == 4
    ] == [
        ["2" * 8, "1970-01-03", "2.11.0+cu130", "batch_norm"],
        ["1" * 8, "1970-01-02", "2.11.0", "flow"],
    ]
    _, course = shown.split("the course over 2 commits")
    figures = course.split("<figure>")[1:]
    assert [figure.count("<circle") for figure in figures] == [2, 1]
    for benchmark, figure in zip((norm, flow), figures, strict=True):
        assert f"^{benchmark}\\(" in figure


def head() -> str:
    """The commit that is checked out."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("this is no git checkout, so that results have no commit")
    return done.stdout.strip()


# So many times a page that was quiet is waited for until a button is there.
PATIENCE = 40


class Browser:
    """Chromium without a window, spoken to by its debugging pipe: messages in JSON, each ended by a
    zero byte.
    """

    def __init__(self, profile: Path) -> None:
        to_read, self.write_end = os.pipe()
        self.read_end, to_write = os.pipe()
        # The numbers of the browser's ends of the pipe are fixed: 3 and 4.
        flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe --no-first-run"
        size = "--window-size=1280,1400"
        offline = "--host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'"
        shell = f"exec {CHROMIUM} {flags} {size} {offline} --user-data-dir='{profile}' 3<&{to_read} 4>&{to_write}"
        with open(profile.with_suffix(".log"), "w") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", shell], pass_fds=(to_read, to_write), stderr=log, stdout=log
            )
        os.close(to_read)
        os.close(to_write)
        self.numbers = itertools.count(1)
        self.buffer = b""
        self.events: list[dict[str, Any]] = []

    def receive(self) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self.buffer:
            part = os.read(self.read_end, 2**20)
            if not part:
                raise RuntimeError("the browser ended")
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """The answer to a command; events that arrive before it are kept."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params} | (
            {"sessionId": session} if session else {}
        )
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def visit(
        self, url: str, view: str = "", patience: float = 0.7
    ) -> tuple[str, list[str], list[str], bytes]:
        """The text of a page, what its console reports as errors, the addresses that it asked for,
        and a picture.

        ``view``: the button to press once it is there, for which is waited.
        """
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable", session)
        self.events = []
        self.ask("Page.navigate", session, url=url)
        self.wait(session, patience)
        if view:
            button = f"[...document.querySelectorAll('button, a')].find(one => one.innerText.trim() === '{view}')"
            for _ in range(PATIENCE):  # a loaded machine takes its time to draw it
                there = self.ask("Runtime.evaluate", session, expression=f"Boolean({button})")
                if there["result"]["value"]:
                    break
                self.wait(session, patience)
            press = f"{button}.click()"
            assert "exceptionDetails" not in self.ask("Runtime.evaluate", session, expression=press)
            self.wait(session, patience)
        text = self.ask("Runtime.evaluate", session, expression="document.body.innerText")[
            "result"
        ]["value"]
        picture = self.ask("Page.captureScreenshot", session, captureBeyondViewport=not view)[
            "data"
        ]
        errors = [
            json.dumps(event["params"])
            for event in self.events
            if event.get("method") == "Runtime.exceptionThrown"
            or (
                event.get("method") == "Runtime.consoleAPICalled"
                and event["params"]["type"] == "error"
            )
            or (
                event.get("method") == "Log.entryAdded"
                and event["params"]["entry"]["level"] == "error"
            )
        ]
        asked = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return text, errors, asked, base64.b64decode(picture)

    def wait(self, session: str, patience: float) -> None:
        """Let a page work."""
        began = time.monotonic()
        while time.monotonic() - began < patience or not self.seen("Page.loadEventFired"):
            assert time.monotonic() - began < 60, "the page does not load"
            self.ask("Runtime.evaluate", session, expression="1")
            time.sleep(0.05)

    def seen(self, method: str) -> bool:
        """Whether an event has arrived."""
        return any(event.get("method") == method for event in self.events)

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(Exception):
            self.ask("Browser.close")
        os.close(self.write_end)
        os.close(self.read_end)
        self.process.wait(20)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Browser]]:
    """The address of the built pages, and a browser."""
    if CHROMIUM is None:
        pytest.skip("no chromium is installed")
    pytest.importorskip("asv")
    pytest.importorskip("asv_tachyon")
    head()
    dashboard: Any = importlib.import_module("dashboard")
    root = tmp_path_factory.mktemp("site")
    if not dashboard.published(root / "published"):
        pytest.skip("no results of a commit that is here")
    (root / "asv_bench").mkdir()
    shutil.copytree(
        ROOT / "reports", root / "reports", ignore=shutil.ignore_patterns("audit.json", "scripts")
    )
    assert dashboard.build(root / "asv_bench" / "html") == 0
    summary: Any = importlib.import_module("summary")
    (root / "asv_bench" / "summary.html").write_text(
        summary.page(importlib.import_module("_results").recorded())
    )
    browser = Browser(root / "profile")
    with dashboard.server(0, root) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}", browser
        browser.close()
        serving.shutdown()


DASHBOARD = "/asv_bench/html/index.html"
VIEWS = (
    "Overview",
    "Explore",
    "Heatmap",
    "Grid",
    "Multiples",
    "Compare",
    "Regressions",
    "Inventory",
)
PAGES = [
    ("/reports/index.html", "", "Benchmarks: the dashboard"),
    ("/asv_bench/summary.html", "", "the reference's time over that of each peer"),
    *((DASHBOARD, view, "flowref") for view in VIEWS),
]


@pytest.mark.parametrize(("page", "view", "text"), PAGES)
def test_page_opens_by_itself(
    page: str, view: str, text: str, site: tuple[str, Browser], tmp_path: Path
) -> None:
    """Every page opens without an error in the console and without a request to another host."""
    address, browser = site
    shown, errors, asked, picture = browser.visit(address + page, view)
    (tmp_path / "page.png").write_bytes(picture)
    if kept := os.environ.get("FLOWREF_SCREENSHOTS"):
        (Path(kept) / f"{Path(page).parent.name}-{view or Path(page).stem}.png").write_bytes(
            picture
        )
    assert text in shown
    assert errors == []
    assert {urlparse(url).hostname for url in asked if not url.startswith("data:")} == {"127.0.0.1"}


def test_broken_page_is_noticed(site: tuple[str, Browser], tmp_path: Path) -> None:
    """The browser reports an error in the console, a missing file and a request to another host."""
    page = tmp_path / "broken.html"
    page.write_text(
        "<body>broken<script>console.error('told')</script><script>undefined.name</script>"
        "<script src='https://example.invalid/x.js'></script></body>"
    )
    _, errors, asked, _ = site[1].visit(page.as_uri())
    assert len(errors) >= 3
    assert "https://example.invalid/x.js" in asked
