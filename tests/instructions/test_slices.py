"""Sliced copies: the worked example of the text, other readings, cost (spec api_semantics.md 9.6, 14.6)."""

from __future__ import annotations

import numpy as np
import pytest

import aicore_sim as asc
from aicore_sim.errors import AlignmentError, ParameterError, UnsupportedError
from aicore_sim.instructions.base import GmTraffic, Pipe
from tests.stage import Place, Stage, noise

SRC = [asc.SliceInfo(16, 70, 7, 3, 87), asc.SliceInfo(0, 2, 1, 1, 3)]
DST = [asc.SliceInfo(0, 47, 0, 3, 48), asc.SliceInfo(0, 1, 0, 1, 2)]


@pytest.mark.parametrize("card", ["atlas_a2", "atlas_a3", "atlas_350"])
def test_worked_example(card: str) -> None:
    data = np.arange(3 * 87, dtype=np.float32)
    stage = Stage(card, {"src": Place("GM", "float", data), "dst": Place("VECIN", "float", 2 * 48 * 4)})
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], DST, SRC, 2))
    out, rows = stage.bytes("dst").view(np.float32).reshape(2, 48), data.reshape(3, 87)
    for row, of in ((0, 0), (1, 2)):
        assert np.array_equal(out[row], np.concatenate([rows[of, 16:40], rows[of, 47:71]]))
    op = stage.ops[0]
    assert op.pipe is Pipe.MTE2
    assert op.cost == GmTraffic("GM-UB", 384, 4, is_read=True)
    assert sorted(int(r[0]) + i * int(r[3]) + j * int(r[5]) for r in op.gm_runs for i in range(r[2]) for j in range(r[4])) == [
        64, 188, 64 + 2 * 348, 188 + 2 * 348]  # fmt: skip


def test_the_way_back_and_every_spelling() -> None:
    data = np.arange(96, dtype=np.float32)
    images = []
    for call in (
        lambda dst, src: asc.data_copy(dst, src, SRC, DST, 2),
        lambda dst, src: asc.data_copy(dst, src, SRC, DST, dim_value=2),
        lambda dst, src: asc.data_copy(dst, src, slice_list1=tuple(SRC), slice_list2=DST, dim_value=2),
    ):
        stage = Stage("atlas_a2", {"src": Place("VECOUT", "float", data), "dst": Place("GM", "float", 3 * 87 * 4)})
        stage.call(lambda call=call, stage=stage: call(stage["dst"], stage["src"]))
        images.append(stage.bytes("dst").view(np.float32).reshape(3, 87))
    out = images[0]
    assert np.array_equal(out[0, 16:40], data[:24])
    assert np.array_equal(out[2, 47:71], data[72:])
    assert np.array_equal(images[0].view(np.uint32), images[1].view(np.uint32))
    assert np.array_equal(images[0].view(np.uint32), images[2].view(np.uint32))
    untouched = out.view(np.uint32)[1]
    assert (untouched == 0xA5A5A5A5).all()


def test_one_dimension_is_the_default() -> None:
    stage = Stage("atlas_a2", {"src": Place("GM", "half", noise(256)), "dst": Place("VECIN", "half", 64)})
    one = [asc.SliceInfo(0, 15, 0, 1, 16)]
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], slice_list1=one, slice_list2=one))
    assert np.array_equal(stage.bytes("dst")[:32], stage.bytes("src")[:32])


@pytest.mark.parametrize(("blocks", "moved"), [(2047, 2047 * 32), (2048, 0), (2050, 64)])
def test_the_burst_in_sixteen_bits(blocks: int, moved: int) -> None:
    one = [asc.SliceInfo(0, blocks * 32 - 1, 0, blocks, blocks * 32)]
    places = {"src": Place("GM", "int8", noise(blocks * 32)), "dst": Place("VECIN", "int8", blocks * 32)}
    for quirks, length in (("documented", blocks * 32), ("slice-burst-16-bit", moved)):
        stage = Stage("atlas_350", places, quirks=quirks)
        stage.call(lambda stage=stage: asc.data_copy(stage["dst"], stage["src"], one, one, 1))
        assert [op.nbytes for op in stage.ops] == ([length] if length else [])
        assert np.array_equal(stage.bytes("dst")[:length], stage.bytes("src")[:length])
        assert (stage.bytes("dst")[length:] == 0xA5).all()


def test_limits_of_rows_and_bursts() -> None:
    places = {"src": Place("GM", "half", noise(4096)), "dst": Place("VECIN", "half", 4096)}
    for card in ("atlas_a2", "atlas_350"):
        stage = Stage(card, places)
        rows = [asc.SliceInfo(0, 15, 0, 1, 16), asc.SliceInfo(0, 1536, 0, 1, 1537)]
        stage.refuses(lambda stage=stage, rows=rows: asc.data_copy(stage["dst"], stage["src"], rows, rows, 2), ParameterError,
                      "end_index")  # fmt: skip
        bursts = [asc.SliceInfo(0, 4096 * 16 - 1, 0, 1, 4096 * 16)]
        stage.refuses(lambda stage=stage, bursts=bursts: asc.data_copy(stage["dst"], stage["src"], bursts, bursts, 1),
                      ParameterError, "end_index")  # fmt: skip


def test_addresses_and_cards() -> None:
    stage = Stage("atlas_a2", {"src": Place("GM", "float", noise(2048)), "dst": Place("VECIN", "float", 512)})
    stage.refuses(lambda: asc.data_copy(stage["dst"][1], stage["src"], DST, SRC, 2), AlignmentError, "address")
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"][1], DST, SRC, 2))
    stage = Stage("atlas_200i", {"src": Place("GM", "float", noise(2048)), "dst": Place("VECIN", "float", 512)})
    stage.refuses(lambda: asc.data_copy(stage["dst"], stage["src"], DST, SRC, 2), UnsupportedError, "api")
    stage = Stage("atlas_a2", {"src": Place("GM", "int64", noise(4096)), "dst": Place("VECIN", "int64", 1024)})
    stage.refuses(lambda: asc.data_copy(stage["dst"], stage["src"], DST, SRC, 2), UnsupportedError, "dtype")
    stage = Stage("atlas_350", {"src": Place("VECIN", "float", noise(2048)), "dst": Place("VECOUT", "float", 512)})
    stage.refuses(lambda: asc.data_copy(stage["dst"], stage["src"], DST, SRC, 2), ParameterError, "path")


def test_a_last_stride_past_the_end_is_noted() -> None:
    src = [SRC[0], asc.SliceInfo(0, 1, 1, 1, 3)]
    dst = [DST[0], asc.SliceInfo(0, 0, 0, 1, 1)]
    stage = Stage("atlas_a2", {"src": Place("GM", "float", noise(2048)), "dst": Place("VECIN", "float", 512)})
    stage.call(lambda: asc.data_copy(stage["dst"], stage["src"], dst, src, 2))
    assert any("no selected index" in text for text in stage.warnings)
