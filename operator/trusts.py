"""Keys, certificates and caBundles in the cluster: the leader keeps them, every replica follows.

The leader looks every minute whether something is due and writes what differs, each Secret by its
resourceVersion. Followers watch single objects by name (their rights are limited to those names)
and hand what they hold to whoever serves; nothing is mounted, no listener is closed.
"""

import asyncio
import base64
import types
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping

import structlog

from tiphys.models.domain import errors
from tiphys.models.wire import keys, paths
from tiphys.operator import apis, certificates, clocks, elections, exposures, metrics, settings
from tiphys.operator import keys as rotations

WEBHOOK_RING = "tiphys-webhook-keys"
RINGS = {"tiphys-keys": keys.OPERATOR_FIELD, WEBHOOK_RING: keys.WEBHOOK_FIELD}
"""Secrets with private rings, and where their public halves stand."""
PUBLIC = "tiphys-public-keys"
AUTHORITY = "tiphys-ca"
OPERATOR_LEAF = "tiphys-operator-tls"
LEAVES = {OPERATOR_LEAF: "tiphys-operator", "tiphys-webhook-tls": "tiphys-webhook"}
"""Secrets with leaves, and the Services that they are for."""
CONFIGURATIONS = {
    "mutatingwebhookconfigurations": paths.MUTATE,
    "validatingwebhookconfigurations": paths.VALIDATE,
}
"""Kinds of webhook configurations, and the paths of the webhook that they name."""
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
        reached: Callable[[str, int], Awaitable[bool]] = exposures.reached,
        remembered: Mapping[str, certificates.Files] = types.MappingProxyType({}),
    ) -> None:
        """`reached` says whether a host and port can be connected to from here.

        `remembered` holds the data of Secrets as this replica knew them before it led; what cannot
        be used is not remembered.
        """
        self._api = api
        self._reached = reached
        self._election = election
        self._chosen = chosen
        self._clock = clock
        self._measured = measured
        self._remembered = dict(remembered)

    async def run(self) -> None:
        """Keep them until cancelled."""
        try:
            await self._keep()
        finally:
            # Whoever leads next measures it; an alert on what this replica saw would never end.
            for kind in CONFIGURATIONS:
                self._measured.webhook_exposed.labels(kind).set(0)

    async def _keep(self) -> None:
        while True:
            pause_s = LOOK_S
            try:
                if not await self.once():
                    pause_s = RETRY_S  # an installation makes the configurations last
            except errors.StaleError:
                pause_s = RETRY_S  # somebody else wrote, or we lead no more: look again
                self._election.fence()
            except errors.TiphysError as error:
                log.warning("cannot keep keys and certificates", error=str(error))
                pause_s = RETRY_S
            await self._clock.sleep(pause_s)

    async def once(self) -> bool:
        """Bring all of it to what it shall be now; say whether both configurations are there."""
        rings = await self._rings()
        root = await self._certificates()
        segment = paths.current(rings[WEBHOOK_RING], self._clock.now())
        return all(
            [await self._configure(kind, root[certificates.CA], segment) for kind in CONFIGURATIONS]
        )

    async def _rings(self) -> dict[str, keys.Ring]:
        """Bring the rings up to date and return them."""
        public: dict[str, str] = {}
        rings: dict[str, keys.Ring] = {}
        for name, field in RINGS.items():
            held, files = await self._secret(name)
            ring = keys.read(files.get(keys.RING_FIELD, b'{"keys":[]}'), where=f"Secret {name}")
            wanted = rotations.renewed(ring, self._clock.now(), self._chosen.keys)
            self._remembered[name] = {keys.RING_FIELD: keys.write(wanted).encode()}
            if wanted != ring or _new(held):
                await self._write(name, held, self._remembered[name])
                log.info("renewed a key ring", ring=name, keys=len(wanted.keys))
            rings[name] = wanted
            public[field] = keys.write(wanted.public())
            self._measured.key_expiry_seconds.labels(name).set(wanted.keys[-1].not_after)
        path = f"/api/v1/namespaces/{self._chosen.namespace}/configmaps"
        try:
            known = await self._api.get(f"{path}/{PUBLIC}")
        except apis.NotFoundError:
            known = {"metadata": {"name": PUBLIC, "labels": LABELS}}
        if known.get("data") != public:
            await self._put(path, {**known, "data": public})
        return rings

    async def _certificates(self) -> certificates.Files:
        now, chosen = self._clock.now(), self._chosen.certificates
        held, files = await self._secret(AUTHORITY)
        root = certificates.authority(files, now, chosen)
        self._remembered[AUTHORITY] = root
        if root != files or _new(held):
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
            self._remembered[name] = leaf
            if leaf != files or _new(held):
                await self._write(name, held, leaf, kind="kubernetes.io/tls")
                log.info("renewed a certificate", secret=name)
            self._expiry(name, leaf)
        return root

    async def _configure(self, kind: str, bundle: bytes, segment: str) -> bool:
        """Set caBundle on each webhook of a configuration; say whether it is there.

        Where the chart says that the API server shows no certificate, also the path with the
        secret `segment`.
        """
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}/{CONFIGURATION}"
        try:
            known = await self._api.get(path)
        except apis.NotFoundError:
            return False
        uncertified = _uncertified(known)
        secret = f"{CONFIGURATIONS[kind]}/{segment}" if uncertified else ""
        changes: list[dict[str, object]] = []
        exposed = False
        for place, webhook in enumerate(known.get("webhooks") or ()):
            client = webhook["clientConfig"]
            given = {
                "caBundle": base64.b64encode(bundle).decode(),
                **_addressed(client, CONFIGURATIONS[kind], secret),
            }
            exposed |= uncertified and await self._reached(*exposures.address(client))
            differing = {key: value for key, value in given.items() if client.get(key) != value}
            if differing:
                at = f"/webhooks/{place}"
                changes.append({"op": "test", "path": f"{at}/name", "value": webhook["name"]})
                changes += [
                    {"op": "add", "path": f"{at}/clientConfig/{key}", "value": value}
                    for key, value in differing.items()
                ]
        # Also where certificates are shown again: what was measured before holds no more.
        self._measured.webhook_exposed.labels(kind).set(exposed)
        if uncertified:
            changes += self._exposure(known, kind, exposed=exposed)
        if changes:
            self._election.fence()
            await self._api.patch(path, changes, content_type=apis.JSON_PATCH)
            log.info("wrote to a webhook configuration", configuration=kind, changes=len(changes))
        return True

    def _exposure(self, known: apis.Object, kind: str, *, exposed: bool) -> list[dict[str, object]]:
        """Tell who reaches a webhook without client certificates; return what is to be noted."""
        if exposed:
            log.warning("any pod reaches the webhook: no network policy holds", configuration=kind)
        noted = str(exposed).lower()
        if known["metadata"]["annotations"].get(paths.EXPOSED) == noted:
            return []
        at = f"/metadata/annotations/{paths.EXPOSED.replace('/', '~1')}"
        return [{"op": "add", "path": at, "value": noted}]

    def _expiry(self, name: str, files: certificates.Files) -> None:
        ends_at = certificates.ends_at(files[certificates.CERTIFICATE])
        self._measured.certificate_expiry_seconds.labels(name).set(ends_at)

    async def _secret(self, name: str) -> tuple[apis.Object, certificates.Files]:
        """Return a Secret as it is (or a new one) and its decoded data.

        One that is gone comes back with what is remembered of it, so that what its keys signed
        stays honoured. Whoever wants to be rid of keys writes an empty ring in their place.
        """
        path = f"/api/v1/namespaces/{self._chosen.namespace}/secrets/{name}"
        try:
            held = await self._api.get(path)
        except apis.NotFoundError:
            files = self._remembered.get(name, {})
            if files:
                log.warning("a Secret is gone, writing it back", secret=name)
            return {"metadata": {"name": name, "labels": LABELS}}, files
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
        if _new(body):
            await self._api.create(collection, body)
        else:
            await self._api.replace(f"{collection}/{body['metadata']['name']}", body)


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
    def secrets(self) -> dict[str, certificates.Files]:
        """The data of the Secrets that this replica holds, by name."""
        ring = {keys.RING_FIELD: keys.write(self.ring).encode()} if self.ring.keys else {}
        found = {"tiphys-keys": ring, OPERATOR_LEAF: self.leaf}
        return {name: files for name, files in found.items() if files}

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


def _uncertified(configuration: apis.Object) -> bool:
    """Say whether the chart was told that the API server shows no client certificate."""
    annotations = configuration["metadata"].get("annotations") or {}
    return annotations.get(paths.CLIENTS) == paths.NONE


def _addressed(client: apis.Object, call: str, secret: str) -> apis.Object:
    """Return what of a clientConfig names the path `secret` (empty: as the chart has it).

    In a URL everything from `call`, which is `/mutate` or `/validate`, is replaced.
    """
    if not secret:
        return {}
    if "url" in client:
        parts = urllib.parse.urlsplit(client["url"])
        return {"url": parts._replace(path=parts.path.rpartition(call)[0] + secret).geturl()}
    return {"service": {**client["service"], "path": secret}}


def _new(body: apis.Object) -> bool:
    """Say whether an object is not in the cluster yet."""
    return "resourceVersion" not in body["metadata"]


def decoded(secret: apis.Object) -> dict[str, bytes]:
    """Return the data of a Secret."""
    return {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}
