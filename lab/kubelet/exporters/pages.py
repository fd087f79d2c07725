"""One page of metrics in Prometheus' text format, filled family by family."""

from collections.abc import Iterator

import prometheus_client
from prometheus_client import core

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST


class Page:
    """Families in the order in which they are first named; samples of one may come apart."""

    def __init__(self) -> None:
        self._families: dict[str, core.Metric] = {}

    def gauge(self, name: str, about: str, value: float, /, **labels: str) -> None:
        """Add a sample of a gauge."""
        self._family(name, about, "gauge").add_sample(name, labels, value)

    def counter(self, name: str, about: str, value: float, /, **labels: str) -> None:
        """Add a sample of a counter; its name ends in `_total`."""
        family = self._family(name.removesuffix("_total"), about, "counter")
        family.add_sample(name, labels, value)

    def collect(self) -> Iterator[core.Metric]:
        """Yield the families, as the library's writer wants them."""
        return iter(self._families.values())

    def text(self) -> bytes:
        """Return the page."""
        return prometheus_client.generate_latest(self)

    def _family(self, name: str, about: str, kind: str) -> core.Metric:
        family = self._families.get(name)
        if family is None:
            self._families[name] = family = core.Metric(name, about, kind)
        return family
