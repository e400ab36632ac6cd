"""Every case file on every card it names; AICORE_SIM_CASES=DIR runs the files of another folder."""

from __future__ import annotations

import pytest

from tests.cases.runner import case_runs, check_case, load_case


@pytest.mark.parametrize(("name", "card"), case_runs())
def test_case(name: str, card: str) -> None:
    check_case(load_case(name), card)


def test_there_are_cases() -> None:
    assert case_runs(), "no case files in the folder"
