"""Putting statements into the source of a kernel."""

from __future__ import annotations

import ast

import pytest

from aicore_sim.hazards.model import Insertion
from aicore_sim.hazards.patch import apply

DCI = "asc.nd_dma_dci()"
SET, WAIT = "asc.set_flag(asc.HardEvent.MTE2_V, 0)", "asc.wait_flag(asc.HardEvent.MTE2_V, 0)"
HEAD = "import aicore_sim as asc\ndef kernel(x, n):\n"


def patched(body: str, *places: tuple[int, str] | tuple[int, str, bool], head: str = HEAD) -> str:
    """The body (lines from 3 on with the usual head) after insertions of (line, code, after)."""
    done = apply(head + body, [Insertion("k.py", *place) for place in places])
    assert not done.skipped
    ast.parse(done.text)
    return done.text.removeprefix(head)


def test_before_a_line_with_its_indentation() -> None:
    body = "    a = 1\n    for i in range(n):\n        copy(x)  # é\n"
    want = "    a = 1\n    for i in range(n):\n        asc.nd_dma_dci()\n        copy(x)  # é\n"
    assert patched(body, (5, DCI)) == want


def test_a_pair_keeps_its_order_and_equal_ones_count_once() -> None:
    assert patched("    add(x)\n", (3, SET), (3, WAIT), (3, SET), (3, WAIT)) == f"    {SET}\n    {WAIT}\n    add(x)\n"


def test_behind_a_statement_comes_before_what_belongs_to_the_next() -> None:
    assert patched("    a()\n    b()\n", (4, "q()"), (3, "p()", True)) == "    a()\n    p()\n    q()\n    b()\n"


@pytest.mark.parametrize("line", [3, 4, 5])
def test_a_statement_over_several_lines_stays_whole(line: int) -> None:
    body = "    copy(x,\n         f(n),\n    )\n    b()\n"
    assert patched(body, (line, DCI)) == f"    {DCI}\n{body}"
    assert patched(body, (line, DCI, True)) == body.replace("    b()", f"    {DCI}\n    b()")


def test_statements_on_one_line_get_theirs_in_between() -> None:
    assert patched("    é = 'é'; add(x)\n", (3, SET), (3, WAIT)) == f"    é = 'é'; {SET}; {WAIT}; add(x)\n"
    assert patched("    if n: add(x)\n", (3, DCI)) == f"    if n: {DCI}; add(x)\n"
    assert patched("    if n: add(x)\n", (3, DCI, True)) == f"    if n: add(x); {DCI}\n"


def test_a_condition_gets_it_before_the_whole_if() -> None:
    body = "    if n:\n        a()\n    elif f(x):\n        b()\n    else:\n        c()\n"
    assert patched(body, (5, DCI)) == f"    {DCI}\n{body}"
    assert patched(body, (8, DCI)) == body.replace("        c()", f"        {DCI}\n        c()")


def test_blocks_of_all_kinds_are_entered() -> None:
    body = "    try:\n        a()\n    except E:\n        b()\n    finally:\n        c()\n    with m:\n        d()\n"
    for line, call in ((4, "a"), (6, "b"), (8, "c"), (10, "d")):
        assert patched(body, (line, DCI)) == body.replace(f"        {call}()", f"        {DCI}\n        {call}()")


def test_line_ends_stay_and_a_last_line_without_one_gets_it() -> None:
    assert patched("    a()", (3, DCI, True)) == f"    a()\n    {DCI}\n"
    assert patched("    a()\r\n", (3, DCI)) == f"    {DCI}\r\n    a()\r\n"


@pytest.mark.parametrize(
    ("head", "want"),
    [
        ("import asc\n", SET),
        ("import aicore_sim\n", SET.replace("asc.", "aicore_sim.")),
        ("import aicore_sim as sim\n", SET.replace("asc.", "sim.")),
        ("from aicore_sim import HardEvent as E, set_flag\n", "set_flag(E.MTE2_V, 0)"),
        ("from asc import *\n", SET.replace("asc.", "")),
    ],
)
def test_the_package_is_called_as_in_the_file(head: str, want: str) -> None:
    head += "def kernel(x):\n"
    assert patched("    a()\n", (3, SET), head=head) == f"    {want}\n    a()\n"


def test_a_missing_name_is_imported() -> None:
    source = "from aicore_sim import set_flag\n\ndef kernel(x):\n    a()\n"
    assert apply(source, [Insertion("k.py", 4, SET)]).text == (
        "from aicore_sim import set_flag\nimport aicore_sim as asc\n\ndef kernel(x):\n"
        "    set_flag(asc.HardEvent.MTE2_V, 0)\n    a()\n"
    )


def test_what_is_outside_a_function_is_left_alone() -> None:
    source = "import aicore_sim as asc\nx = 1\n\n@asc.jit\ndef kernel(x):\n    a()\n"
    places = [Insertion("k.py", line, DCI) for line in (2, 3, 4, 5, 99)]
    done = apply(source, places)
    assert (done.text, done.applied, done.skipped) == (source, (), tuple(places))
    assert done.diff(source, "k.py") == ""


def test_inner_functions_are_patched_where_the_line_is() -> None:
    source = "import asc\ndef outer():\n    if 1:\n        def inner():\n            a()\n        inner()\n"
    want = source.replace("            a()", f"            {DCI}\n            a()")
    assert apply(source, [Insertion("k.py", 5, DCI)]).text == want


def test_diff_is_unified() -> None:
    before = "import asc\ndef kernel(x):\n    a()"
    done = apply(before, [Insertion("/d/k.py", 3, DCI)])
    assert done.diff(before, "/d/k.py") == (
        "--- a/d/k.py\n+++ b/d/k.py\n@@ -1,3 +1,4 @@\n import asc\n def kernel(x):\n+    asc.nd_dma_dci()\n     a()\n"
        "\\ No newline at end of file\n"
    )


def test_new_lines_know_which_old_ones_they_were() -> None:
    source = "import asc\ndef kernel(x):\n    a()\n    b(\n    )\n    c(); d()"
    places = [(5, SET), (5, WAIT), (6, DCI), (3, DCI, True)]
    done = apply(source, [Insertion("k.py", *place) for place in places])
    assert done.origin == (1, 2, 3, 0, 0, 0, 4, 5, 6)
    assert done.text.splitlines()[8] == f"    c(); {DCI}; d()"


def test_form_feeds_are_no_line_ends() -> None:
    source = "import asc\n\f\ndef kernel(x):\n    a('\x0b')\n    b()\n"
    assert apply(source, [Insertion("k.py", 5, DCI)]).text == source.replace("    b()", f"    {DCI}\n    b()")
