"""What artifacts and results become on their way."""

from lab.kubelet.behaviours import artifacts


def test_a_result_keeps_its_last_256_kilobytes() -> None:
    """As Argo does with long output."""
    text = artifacts.result(b"x" * 300_000 + b"end\n")
    assert len(text) == 256 * 1024
    assert text.endswith("end")
