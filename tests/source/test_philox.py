"""The generator against the published known answers of Random123, and against plain Python integers."""

import numpy as np
import pytest
from source_reference import philox

from strongticket.source.philox import BATCH, draw_blocks

KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
START = 5
WORDS = np.empty(START + 4 * BATCH, np.uint32)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in text.split())


def kernel(counter: tuple[int, ...], key: tuple[int, ...], pairs: int) -> np.ndarray:
    def joined(low: int, high: int) -> np.uint64:
        return np.uint64(low | high << 32)

    first, stream = joined(*counter[:2]), joined(*counter[2:])
    draw_blocks(WORDS, np.uint64(START), first, np.uint64(pairs), joined(*key), stream)
    return WORDS[START : START + 8 * pairs].reshape(-1, 4)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
@pytest.mark.parametrize("pairs", [1, 4, BATCH // 2])
def test_known_answers(counter: str, key: str, answer: str, pairs: int) -> None:
    assert tuple(kernel(numbers(counter), numbers(key), pairs)[0]) == numbers(answer)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_reference_has_the_known_answers(counter: str, key: str, answer: str) -> None:
    assert philox(numbers(counter), numbers(key)) == numbers(answer)


@pytest.mark.parametrize("pairs", [1, 3, 4, 7, 64, BATCH // 2])
def test_consecutive_blocks(pairs: int) -> None:
    counter, key = (2**32 - 2 * pairs, 5, 0x89ABCDEF, 0x01234567), (0xDEADBEEF, 0x12345678)
    for i, words in enumerate(kernel(counter, key, pairs)):
        assert tuple(words) == philox((counter[0] + i, *counter[1:]), key)
