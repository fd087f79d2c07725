"""Events that the process node tells, about objects as the API server gave them."""

from lab import apis, events

COMPONENT = "tiphys-lab-processnode"


class Events(events.Events):
    """Writes what one node tells; an object without a kind is a pod, as in lists of pods."""

    def __init__(self, api: apis.Api, *, node: str) -> None:
        super().__init__(api, component=COMPONENT)
        self._node = node

    def normal(self, about: apis.Object, reason: str, message: str) -> None:
        """Note something that happened as it should."""
        self._note(about, reason, message, warning=False)

    def warning(self, about: apis.Object, reason: str, message: str) -> None:
        """Note something that a person may have to look at."""
        self._note(about, reason, message, warning=True)

    def _note(self, about: apis.Object, reason: str, message: str, *, warning: bool) -> None:
        metadata = about["metadata"]
        self.tell(
            events.Event(
                kind=about.get("kind", "Pod"),
                namespace=metadata["namespace"],
                name=metadata["name"],
                uid=metadata["uid"],
                node=self._node,
                reason=reason,
                message=message,
                warning=warning,
            )
        )
