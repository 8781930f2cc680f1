"""The hash of Theta sketches, against DataSketches' own: its sketch of one value holds half of that value's hash."""

import random

import datasketches
import numpy as np
import pytest

from table_format.schema.murmur128 import first_halves

SEED = 9001


def by_datasketches(text):
    sketch = datasketches.update_theta_sketch()
    sketch.update(text)
    return int.from_bytes(sketch.compact().serialize()[8:16], "little")


def hashed(values):
    data = np.frombuffer(b"".join(values), dtype=np.uint8)
    lengths = np.array([len(value) for value in values], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    return [int(one) for one in first_halves(data, starts, lengths, SEED)]


@pytest.mark.parametrize("many", [1, 40])
def test_values_of_every_length_have_their_hash(many):
    rng = random.Random(1)
    lengths = [*range(1, 70), 255, 256, 257, 5000, 70_001]
    texts = ["".join(rng.choices("abcxyz0189", k=length)) for length in lengths for _ in range(many)]
    rng.shuffle(texts)
    assert [one >> 1 for one in hashed([text.encode() for text in texts])] == [
        by_datasketches(text) for text in texts
    ]


def test_a_long_value_among_many_has_the_hash_that_it_has_alone():
    values = [b"x" * 100_003, *(bytes([number]) * (number % 50) for number in range(200))]
    assert hashed(values) == [hashed([value])[0] for value in values]


def test_no_value_has_no_hash():
    assert hashed([]) == []
    assert len(hashed([b""])) == 1


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, 5), (4, 1), (0, -1)])
def test_a_value_outside_the_data_is_refused(start, length):
    with pytest.raises(ValueError, match="outside the data"):
        first_halves(np.zeros(4, np.uint8), np.array([start]), np.array([length]), SEED)
