"""Reads the result folder of a real `msprof op` run (spec reports.md 1): files, tables, what they say of the run.

The files are CSV without quoting: every line ends in a comma, what is not there is NA, there is a row for each core.
Comparing them with a simulated run is `report/against.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from aicore_sim.errors import ConfigError
from aicore_sim.report.tables import NOT_AVAILABLE, PIPE_UTILIZATION

MAIN = "PipeUtilization"
OTHERS = ("OpBasicInfo", "Memory", "L2Cache")
OPTION = "against-msprof"
"""Field of the errors: the option of the command line that names the folder."""
_NAME = re.compile(rf"{MAIN}(?:_(\d+))?\.csv")


@dataclass(frozen=True)
class Profile:
    """One profiled launch. `tables` by metric ("PipeUtilization", ...) with nan for NA; those without a file are left out.

    `family` is the product family whose columns the files have, "910B" or "A5"; `timestamp` that of the file names.
    """

    folder: Path
    timestamp: str
    family: str
    tables: Mapping[str, pd.DataFrame]

    def info(self, column: str) -> float | str | None:
        """A field of OpBasicInfo; None where it is missing or NA."""
        table = self.tables.get("OpBasicInfo")
        if table is None or column not in table or table.empty or pd.isna(table[column].iloc[0]):
            return None
        value = table[column].iloc[0]
        return value if isinstance(value, str) else float(value)

    def number(self, column: str) -> float | None:
        """As `info`, numbers only."""
        value = self.info(column)
        return None if isinstance(value, str) else value


def read_profile(folder: str | Path) -> Profile:
    """The newest run in `folder` or anywhere below it.

    Raises ConfigError (field "against-msprof") if there is none or a file cannot be read as msprof writes it.
    """
    main = newest(Path(folder))
    tables = {MAIN: read_table(main)}
    for metric in OTHERS:
        path = sibling(main, metric)
        if path is not None:
            tables[metric] = read_table(path)
    names = set(tables[MAIN].columns)
    # The columns of "A5" are nearly all in "910B" too: the set that covers more of what is there is the file's own.
    family = max(PIPE_UTILIZATION, key=lambda known: len(names & set(PIPE_UTILIZATION[known])) - _missing(names, known))
    if not names & set(PIPE_UTILIZATION[family]) - {"block_id", "sub_block_id"}:
        raise ConfigError("the file has no column of msprof's PipeUtilization.csv", field=OPTION, file=str(main),
                          allowed="columns of the 910B or A5 family, such as aiv_time(us)")  # fmt: skip
    return Profile(main.parent, _stamp(main), family, tables)


def _missing(names: set[str], family: str) -> int:
    return len(set(PIPE_UTILIZATION[family]) - names)


def newest(folder: Path) -> Path:
    """The PipeUtilization file below `folder` with the latest timestamp in its name (of equals the last in path order)."""
    looked_for = f"{MAIN}_<timestamp>.csv in the folder or below it, as `msprof op` leaves it in OPPROF_<timestamp>_..."
    if not folder.is_dir():
        raise ConfigError("no such folder", field=OPTION, value=str(folder), allowed=looked_for)
    found = sorted(path for path in folder.rglob(f"{MAIN}*.csv") if _NAME.fullmatch(path.name))
    if not found:
        raise ConfigError("no results of msprof op there", field=OPTION, value=str(folder), allowed=looked_for)
    return max(found, key=lambda path: (_stamp(path), path))


def _stamp(path: Path) -> str:
    match = _NAME.fullmatch(path.name)
    return match[1] or "" if match else ""


def sibling(main: Path, metric: str) -> Path | None:
    """The file of another metric of the same run: all files of a run have one timestamp."""
    path = main.with_name(main.name.replace(MAIN, metric, 1))
    return path if path.is_file() else None


def read_table(path: Path) -> pd.DataFrame:
    """One CSV file of msprof: numbers where all of a column are numbers or NA (nan), else text.

    Nothing is quoted, so an operator whose name has commas shifts its row; they are put back into the first column.
    Raises ConfigError naming file and line if a row does not fit the header.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the file cannot be read: {error}", field=OPTION, file=str(path)) from error
    if not lines or not lines[0].strip():
        raise ConfigError("the file is empty", field=OPTION, file=str(path), allowed="a header and a row for each core")
    header = [name.strip() for name in _fields(lines[0])]
    rows = []
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        row = _fields(line)
        surplus = len(row) - len(header)
        if surplus > 0 and header[0] == "Op Name":
            row = [",".join(row[: surplus + 1]), *row[surplus + 1 :]]
        if len(row) != len(header):
            raise ConfigError(f"a row of {len(row)} values under {len(header)} columns", field=OPTION, file=str(path),
                              line=number)  # fmt: skip
        rows.append([value.strip() for value in row])
    table = pd.DataFrame(rows, columns=header, dtype=object).replace(NOT_AVAILABLE, np.nan)
    return pd.DataFrame({name: _numbers(table[name]) for name in dict.fromkeys(header)})


def _fields(line: str) -> list[str]:
    """The values of a line; the comma behind the last one makes no further value."""
    return line.removesuffix(",").split(",")


def _numbers(column: pd.Series) -> pd.Series:
    numbers = pd.to_numeric(column, errors="coerce")
    return column if (numbers.isna() & column.notna()).any() else numbers.replace([np.inf, -np.inf], np.nan)
