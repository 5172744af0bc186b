"""CUDA versions of drivers, and wheels for them."""

from __future__ import annotations

import pytest

from ddpkit.diagnosis.readers import cuda_of_driver


@pytest.mark.parametrize(
    ("version", "values"),
    [
        ("12040", {"cuda": "12.4", "wheel": "cu126"}),
        ("11040", {"cuda": "11.4", "wheel": "cu118"}),
        ("13000", {"cuda": "13.0", "wheel": "cu130"}),
        ("10010", {"cuda": "10.1"}),
        ("", {}),
        ("0", {}),
    ],
)
def test_a_driver_leads_to_its_cuda(version: str, values: dict[str, str]) -> None:
    assert cuda_of_driver(version) == values
