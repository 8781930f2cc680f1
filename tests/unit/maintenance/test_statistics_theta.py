"""Theta sketches, against the library that others' are made with."""

import datasketches
import numpy as np
import pytest

from maintenance.statistics.theta import NOMINAL, Sketch, hashes
from table_format.errors import Invalid


def longs(first, end):
    values = np.arange(first, end, dtype=np.int64)
    count = len(values)
    return values.view(np.uint8), np.arange(count) * 8, np.full(count, 8)


def sketch(first, end, batch=5000):
    made = Sketch()
    for start in range(first, end, batch):
        made.add(hashes(longs(start, min(end, start + batch))))
    return made


def library(first, end):
    made = datasketches.update_theta_sketch(12)
    for value in range(first, end):
        made.update(value)
    return made.compact()


def read(made):
    return datasketches.compact_theta_sketch.deserialize(made.to_bytes())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000, NOMINAL])
def test_while_all_hashes_are_kept_the_bytes_are_the_librarys(count):
    made = sketch(0, count)
    assert made.to_bytes() == library(0, count).serialize()
    assert made.estimate == count


@pytest.mark.parametrize("count", [NOMINAL + 1, 10_000, 300_000])
def test_beyond_that_it_keeps_the_smallest_and_the_library_reads_it(count):
    made = sketch(0, count)
    theirs = read(made)
    assert theirs.num_retained == NOMINAL
    assert theirs.is_estimation_mode()
    assert theirs.get_estimate() == made.estimate
    assert abs(made.estimate - count) < 0.05 * count
    assert theirs.get_lower_bound(3) <= count <= theirs.get_upper_bound(3)


@pytest.mark.parametrize(
    ("first", "second"), [((0, 100), (50, 200)), ((0, 9000), (5000, 30_000)), ((0, 0), (0, 9))]
)
def test_two_merge_into_the_sketch_of_both_whoever_made_the_other(first, second):
    both = sketch(*first)
    both.merge(sketch(*second))
    whole = Sketch()
    whole.merge(sketch(*second))
    whole.merge(sketch(*first))
    assert both.to_bytes() == whole.to_bytes()
    union = datasketches.theta_union(12)
    union.update(read(sketch(*first)))
    union.update(library(*second))
    distinct = len({*range(*first), *range(*second)})
    assert union.get_result().get_estimate() == pytest.approx(both.estimate, rel=0.05)
    assert both.estimate == pytest.approx(distinct, rel=0.05)


def test_values_come_in_any_order_and_as_often_as_they_like():
    once, often = sketch(0, 20_000), Sketch()
    for start in (15_000, 0, 5000, 10_000, 0):
        often.add(hashes(longs(start, start + 5000)))
    assert often.to_bytes() == once.to_bytes()


def test_values_without_a_byte_are_no_values():
    nothing = np.empty(0, np.uint8), np.zeros(3, np.int64), np.zeros(3, np.int64)
    made = Sketch()
    made.add(hashes(nothing))
    assert made.to_bytes() == library(0, 0).serialize()


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_bytes_become_the_sketch_again(count):
    made = sketch(0, count)
    assert Sketch.from_bytes(made.to_bytes()).to_bytes() == made.to_bytes()


def test_a_damaged_one_is_refused():
    good = sketch(0, 5000).to_bytes()
    shorter, of_other_seed = good[:-8], bytearray(good)
    of_other_seed[6] ^= 1
    swapped = good[:24] + good[32:40] + good[24:32] + good[40:]
    for damaged in (b"", good[:5], good[:13], shorter, good + b"x", bytes(of_other_seed), swapped):
        with pytest.raises(Invalid, match="Theta sketch"):
            Sketch.from_bytes(damaged)
    other = datasketches.update_theta_sketch(12, 1.0, 1)
    other.update(1)
    with pytest.raises(Invalid, match="seed hash"):
        Sketch.from_bytes(other.compact().serialize())
