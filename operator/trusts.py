"""Keys, certificates and caBundles in the cluster: the leader keeps them, every replica follows.

The leader looks every minute whether something is due and writes what differs, each Secret by its
resourceVersion. Followers watch single objects by name (their rights are limited to those names)
and hand what they hold to whoever serves; nothing is mounted, no listener is closed.
"""

import asyncio
import base64
from collections.abc import Callable

import structlog

from tiphys.models.domain import errors
from tiphys.models.wire import keys
from tiphys.operator import apis, certificates, clocks, elections, metrics, settings
from tiphys.operator import keys as rotations

RINGS = {"tiphys-keys": keys.OPERATOR_FIELD, "tiphys-webhook-keys": keys.WEBHOOK_FIELD}
"""Secrets with private rings, and where their public halves stand."""
PUBLIC = "tiphys-public-keys"
AUTHORITY = "tiphys-ca"
OPERATOR_LEAF = "tiphys-operator-tls"
LEAVES = {OPERATOR_LEAF: "tiphys-operator", "tiphys-webhook-tls": "tiphys-webhook"}
"""Secrets with leaves, and the Services that they are for."""
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
CONFIGURATION = "tiphys"
LABELS = {"app.kubernetes.io/name": "tiphys"}
LOOK_S = 60.0
RETRY_S = 2.0

log = structlog.get_logger()


class Keeper:
    """Makes and renews everything; runs on the leader."""

    def __init__(
        self,
        api: apis.Api,
        election: elections.Election,
        *,
        chosen: settings.OperatorSettings,
        clock: clocks.Clock,
        measured: metrics.Metrics,
    ) -> None:
        self._api = api
        self._election = election
        self._chosen = chosen
        self._clock = clock
        self._measured = measured

    async def run(self) -> None:
        """Keep them until cancelled."""
        while True:
            pause_s = LOOK_S
            try:
                await self.once()
            except errors.StaleError:
                pause_s = RETRY_S  # somebody else wrote, or we lead no more: look again
                self._election.fence()
            except errors.TiphysError as error:
                log.warning("cannot keep keys and certificates", error=str(error))
                pause_s = RETRY_S
            await self._clock.sleep(pause_s)

    async def once(self) -> None:
        """Bring all of it to what it shall be now."""
        await self._rings()
        root = await self._certificates()
        for kind in CONFIGURATIONS:
            await self._bundle(kind, root[certificates.CA])

    async def _rings(self) -> None:
        public: dict[str, str] = {}
        for name, field in RINGS.items():
            held, files = await self._secret(name)
            ring = keys.read(files.get(keys.RING_FIELD, b'{"keys":[]}'), where=f"Secret {name}")
            wanted = rotations.renewed(ring, self._clock.now(), self._chosen.keys)
            if wanted != ring:
                await self._write(name, held, {keys.RING_FIELD: keys.write(wanted).encode()})
                log.info("renewed a key ring", ring=name, keys=len(wanted.keys))
            public[field] = keys.write(wanted.public())
            self._measured.key_expiry_seconds.labels(name).set(wanted.keys[-1].not_after)
        path = f"/api/v1/namespaces/{self._chosen.namespace}/configmaps"
        try:
            known = await self._api.get(f"{path}/{PUBLIC}")
        except apis.NotFoundError:
            known = {"metadata": {"name": PUBLIC, "labels": LABELS}}
        if known.get("data") != public:
            await self._put(path, {**known, "data": public})

    async def _certificates(self) -> certificates.Files:
        now, chosen = self._clock.now(), self._chosen.certificates
        held, files = await self._secret(AUTHORITY)
        root = certificates.authority(files, now, chosen)
        if root != files:
            await self._write(AUTHORITY, held, root)
            log.info("renewed the authority", roots=root[certificates.CA].count(b"BEGIN"))
        self._expiry(AUTHORITY, root)
        for name, service in LEAVES.items():
            held, files = await self._secret(name)
            leaf = certificates.leaf(
                files,
                root,
                now,
                chosen,
                name=service,
                hosts=certificates.hosts(service, self._chosen.namespace),
            )
            if leaf != files:
                await self._write(name, held, leaf, kind="kubernetes.io/tls")
                log.info("renewed a certificate", secret=name)
            self._expiry(name, leaf)
        return root

    async def _bundle(self, kind: str, bundle: bytes) -> None:
        """Set caBundle on each webhook of a configuration; one that is not there is no error."""
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}/{CONFIGURATION}"
        try:
            known = await self._api.get(path)
        except apis.NotFoundError:
            return
        text = base64.b64encode(bundle).decode()
        changes: list[dict[str, object]] = []
        for place, webhook in enumerate(known.get("webhooks") or ()):
            if webhook["clientConfig"].get("caBundle") != text:
                at = f"/webhooks/{place}"
                changes.append({"op": "test", "path": f"{at}/name", "value": webhook["name"]})
                changes.append({"op": "add", "path": f"{at}/clientConfig/caBundle", "value": text})
        if changes:
            self._election.fence()
            await self._api.patch(path, changes, content_type=apis.JSON_PATCH)
            log.info("set caBundle", configuration=kind)

    def _expiry(self, name: str, files: certificates.Files) -> None:
        ends_at = certificates.ends_at(files[certificates.CERTIFICATE])
        self._measured.certificate_expiry_seconds.labels(name).set(ends_at)

    async def _secret(self, name: str) -> tuple[apis.Object, dict[str, bytes]]:
        """Return a Secret as it is (or a new one) and its decoded data."""
        path = f"/api/v1/namespaces/{self._chosen.namespace}/secrets/{name}"
        try:
            held = await self._api.get(path)
        except apis.NotFoundError:
            return {"metadata": {"name": name, "labels": LABELS}}, {}
        return held, decoded(held)

    async def _write(
        self, name: str, held: apis.Object, files: certificates.Files, *, kind: str = "Opaque"
    ) -> None:
        data = {field: base64.b64encode(value).decode() for field, value in files.items()}
        path = f"/api/v1/namespaces/{self._chosen.namespace}/secrets"
        await self._put(path, {"type": kind, **held, "data": data})

    async def _put(self, collection: str, body: apis.Object) -> None:
        """Create or replace; the resourceVersion that was read decides a race."""
        self._election.fence()
        if "resourceVersion" in body["metadata"]:
            await self._api.replace(f"{collection}/{body['metadata']['name']}", body)
        else:
            await self._api.create(collection, body)


class Follower:
    """What this replica trusts and signs with, kept current by watching single objects."""

    def __init__(
        self,
        api: apis.Api,
        *,
        namespace: str,
        clock: clocks.Clock,
        served: Callable[[certificates.Files], None],
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._clock = clock
        self._served = served
        self.ring = keys.Ring()
        """Ours, with private halves."""
        self.callers = keys.Ring()
        """Public halves of the webhook's ring."""
        self.leaf: certificates.Files = {}

    @property
    def ready(self) -> bool:
        """Whether this replica can sign, judge signatures and serve."""
        now = self._clock.now()
        return bool(self.leaf) and self.ring.honours(now) and self.callers.honours(now)

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow("secrets", "tiphys-keys", self._take_ring))
            group.create_task(self._follow("secrets", OPERATOR_LEAF, self._take_leaf))
            group.create_task(self._follow("configmaps", PUBLIC, self._take_public))

    async def _follow(self, resource: str, name: str, take: Callable[[apis.Object], None]) -> None:
        """Hand one object to `take` whenever it changes; what cannot be read is kept out."""
        path = f"/api/v1/namespaces/{self._namespace}/{resource}"
        params = {"fieldSelector": f"metadata.name={name}"}
        while True:
            try:
                version = ""
                async for page in self._api.pages(path, params=params):
                    version = page["metadata"]["resourceVersion"]
                    for item in page.get("items") or ():
                        self._taken(take, item, name)
                stream = self._api.stream(
                    path, params={**params, "resourceVersion": version}, silence_s=75.0
                )
                async for kind, item in stream:
                    if kind in ("ADDED", "MODIFIED"):
                        self._taken(take, item, name)
            except errors.TiphysError as error:
                log.debug("watch of one object was cut", name=name, error=str(error))
            await self._clock.sleep(1.0)

    def _taken(self, take: Callable[[apis.Object], None], item: apis.Object, name: str) -> None:
        try:
            take(item)
        except (errors.TiphysError, ValueError, KeyError, OSError) as error:
            # The last good one stays in use; its expiry is a metric.
            log.error("object cannot be used", name=name, error=str(error))

    def _take_ring(self, secret: apis.Object) -> None:
        self.ring = keys.read(decoded(secret)[keys.RING_FIELD], where="Secret tiphys-keys")

    def _take_public(self, config: apis.Object) -> None:
        self.callers = keys.read(config["data"][keys.WEBHOOK_FIELD], where=f"ConfigMap {PUBLIC}")

    def _take_leaf(self, secret: apis.Object) -> None:
        files = decoded(secret)
        self._served(files)
        self.leaf = files


def decoded(secret: apis.Object) -> dict[str, bytes]:
    """Return the data of a Secret."""
    return {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}
