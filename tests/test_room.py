"""A recursion below a roomy frame gets no memory from the system and gives none back, however deep it is."""

from __future__ import annotations

import sys

import pytest

from gradline.room import roomy

resource = pytest.importorskip("resource")


def dip(depth: int) -> int:
    """Down, and at the bottom up and down by a few frames, many times: somewhere a chunk of frames ends there."""
    if depth:
        return dip(depth - 1)
    return sum(step(3) for _ in range(50))


def step(depth: int) -> int:
    return step(depth - 1) if depth else 1


def faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for depth in range(300):
        assert dip(depth) == 50
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(
    sys.platform != "linux" or not (3, 11) <= sys.version_info < (3, 14), reason="chunks are kept otherwise"
)
def test_frames_stay_in_one_chunk() -> None:
    faults()
    assert faults() > 5 * roomy(faults)()


def test_a_roomy_function_is_the_function() -> None:
    @roomy
    def divided(a: float, b: float = 2.0) -> float:
        """One by the other."""
        return a / b

    assert (divided(3.0), divided(3.0, b=4.0), divided.__name__, divided.__doc__) == (
        1.5,
        0.75,
        "divided",
        "One by the other.",
    )
    with pytest.raises(ZeroDivisionError):
        divided(1.0, 0.0)
