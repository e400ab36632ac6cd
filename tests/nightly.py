"""What `pytest --nightly` leaves behind: reports/properties.md, a line for every property test."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

REPORT = Path(__file__).parent.parent / "reports" / "properties.md"


class Nightly:
    """Collects outcome and time of the property tests; writes the table at the end."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.nodeid.startswith("tests/properties/"):
            self.rows[report.nodeid] = (report.outcome, report.duration)

    def pytest_sessionfinish(self) -> None:
        if self.rows:
            REPORT.write_text(self.table(), encoding="utf-8")

    def table(self) -> str:
        from tests.properties.profile import PROPERTY

        failed = sum(outcome != "passed" for outcome, _ in self.rows.values())
        lines = [
            "# Property tests",
            "",
            f"`pytest --nightly tests/properties`: up to {PROPERTY.max_examples} random calls a test, each against a slow"
            " reference written from the specification, or refused with the right error and nothing moved."
            f" Python {platform.python_version()}.",
            "",
            f"{len(self.rows)} tests, {failed} failed.",
            "",
            "| test | outcome | seconds |",
            "|---|---|---|",
        ]
        for nodeid, (outcome, seconds) in sorted(self.rows.items()):
            lines.append(f"| {nodeid.removeprefix('tests/properties/')} | {outcome} | {seconds:.0f} |")
        return "\n".join(lines) + "\n"
