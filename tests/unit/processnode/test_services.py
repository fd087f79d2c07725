"""Where Services lead, what names mean, and that bytes get there."""

import asyncio
import contextlib
import os
import socket

import pytest

from lab import errors
from lab.processnode import addresses, admissions, proxies, services, settings
from tests.unit.processnode import builders as a


def a_service(name="web", *, ip="127.20.0.9", ports=None, **spec):
    """Return a Service in front of `app: web`."""
    return {
        "metadata": {"name": name, "namespace": "demo"},
        "spec": {
            "clusterIP": ip,
            "selector": {"app": "web"},
            "ports": ports or [{"port": 80, "targetPort": "http"}],
            **spec,
        },
    }


def an_endpoint(address, *, ready=True, leaving=False, **spec):
    """Return a pod that listens on port `http`, 8080."""
    container = a.a_container(ports=[{"name": "http", "containerPort": 8080}])
    pod = a.a_pod(container, **spec)
    if leaving:
        pod["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    return services.Endpoint(pod=pod, address=address, ready=ready)


def test_a_service_leads_to_ready_pods_in_its_namespace():
    """By the number behind the port's name; with none behind it nothing listens."""
    found = services.listeners([a_service()], [an_endpoint("127.20.128.1"), an_endpoint("b")])
    assert {("127.20.0.9", 80): (("127.20.128.1", 8080), ("b", 8080))} == found
    assert {} == services.listeners([a_service()], [an_endpoint("b", ready=False)])
    other = a_service()
    other["metadata"]["namespace"] = "other"
    assert {} == services.listeners([other], [an_endpoint("b")])
    udp = a_service(ports=[{"port": 53, "protocol": "UDP"}])
    assert {} == services.listeners([udp], [an_endpoint("b")])
    assert {} == services.listeners([a_service(ip="10.0.0.9")], [an_endpoint("b")])


def test_pods_on_their_way_out_serve_only_where_nobody_else_does():
    """As kube-proxy has it."""
    leaving, staying = an_endpoint("old", leaving=True), an_endpoint("new")
    key = ("127.20.0.9", 80)
    assert (("new", 8080),) == services.listeners([a_service()], [leaving, staying])[key]
    assert (("old", 8080),) == services.listeners([a_service()], [leaving])[key]


def test_names_are_known_as_in_a_cluster():
    """Short ones in the own namespace only; headless Services name their pods."""
    headless = a_service("db", ip="None")
    pod = an_endpoint("127.20.128.1", hostname="db-0", subdomain="db")
    near = services.hosts([a_service(), headless], [pod], namespace="demo")
    far = services.hosts([a_service()], [pod], namespace="other")
    assert "127.20.0.9 web.demo.svc.cluster.local web.demo.svc web.demo web" in near
    assert ["127.20.0.9 web.demo.svc.cluster.local web.demo.svc web.demo"] == far
    line = next(line for line in near if line.startswith("127.20.128.1"))
    assert {"db", "db.demo.svc", "db-0.db", "db-0.db.demo.svc.cluster.local"} <= set(line.split())


def test_the_hosts_file_knows_the_pod_itself_and_its_aliases():
    """What a program asks for first is its own name."""
    pod = a.a_pod(hostAliases=[{"ip": "127.0.0.9", "hostnames": ["x", "y"]}])
    text = services.hosts_file(pod, "127.20.128.1", lines=["127.20.0.9 web"]).decode()
    assert ["127.20.128.1 web", "127.0.0.9 x y", "127.20.0.9 web"] == text.splitlines()[2:]


def test_every_lab_has_a_block_and_every_pod_an_address_in_it():
    """Distinct, on loopback, outside the range of Services, used again as late as possible."""
    block = addresses.first_choice("default")
    slots = addresses.Slots(block)
    taken = [slots.take() for _ in range(addresses.PODS)]
    assert addresses.PODS == len({*taken, block.node, block.server} - {block.node, block.server})
    assert all(addresses.is_loopback(item) for item in (*taken, block.node, block.server))
    with pytest.raises(LookupError):
        slots.take()
    slots.give(taken[3])
    assert taken[3] == slots.take()
    slots.give(taken[5])
    assert taken[5] == slots.take(wanted=taken[5])


def test_a_block_that_is_held_is_passed_over_and_free_again_when_its_holder_ends():
    """Two labs of one name, in homes of their own, get addresses of their own."""
    name = f"claims-{os.getpid()}"
    one, two = addresses.claim(name), addresses.claim(name)
    with one.socket, two.socket:
        assert one.block != two.block
    with addresses.claim(name).socket:
        pass
    again = addresses.claim(name)
    with again.socket:
        assert one.block == again.block


def test_without_a_free_block_it_says_what_to_do(monkeypatch):
    """More labs than blocks."""
    monkeypatch.setattr(addresses, "BLOCKS", 1)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(errors.SetupError):  # a lab on this machine may hold it already
            stack.enter_context(addresses.claim("any").socket)
        with pytest.raises(errors.SetupError, match=r"all 1 blocks .* end one"):
            addresses.claim("other")


def test_a_home_tells_its_block(tmp_path):
    """What was claimed at the start holds until the end; elsewhere it is the first choice."""
    assert addresses.first_choice("x") == addresses.recorded(tmp_path, lab="x")
    addresses.record(tmp_path, addresses.Block(number=77))
    assert addresses.Block(number=77) == addresses.recorded(tmp_path, lab="x")


def test_a_marked_pod_is_sent_to_the_node_and_asked_again_stays_as_it_is():
    """Selector and toleration are added to what it has; a second call has nothing to add."""
    pod = a.a_pod(nodeSelector={"disk": "ssd"}, tolerations=[{"key": "x", "operator": "Exists"}])
    for operation in admissions.patch(pod):
        pod["spec"][operation["path"].rpartition("/")[2]] = operation["value"]
    assert {"disk": "ssd", settings.NODE_LABEL: "true"} == pod["spec"]["nodeSelector"]
    assert ["x", settings.NODE_LABEL] == [item["key"] for item in pod["spec"]["tolerations"]]
    assert [] == admissions.patch(pod)


def test_pods_of_daemon_sets_are_left_where_they_are():
    """Their controller chose the node."""
    pod = a.a_pod()
    pod["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "controller": True}]
    assert [] == admissions.patch(pod)


class Backend:
    """A server on loopback that answers with its name and what it was sent, then closes."""

    def __init__(self, name):
        self.name = name

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        self.address = self.server.sockets[0].getsockname()
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()

    async def answer(self, reader, writer):
        writer.write(self.name + b":" + await reader.read())
        await writer.drain()
        writer.close()


async def ask(address, text=b""):
    """Send a text, say that it is over, and return the answer."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(text)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def a_free_address():
    """Return a loopback address and port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()


async def test_connections_are_carried_whole_and_in_turn():
    """A megabyte both ways, half-closed first, over two backends one after the other."""
    front = a_free_address()
    carried = proxies.Proxies(on_refused=lambda *_: pytest.fail("it may listen there"))
    async with Backend(b"one") as one, Backend(b"two") as two:
        await carried.apply({front: (one.address, two.address)})
        text = b"x" * 2**20
        answers = [await ask(front, text) for _ in range(4)]
        assert {b"one:" + text, b"two:" + text} == set(answers)
        await asyncio.sleep(0.05)
        carried.close()


async def test_a_backend_that_is_gone_is_passed_over_and_none_refuses():
    """With nobody left to ask the client sees a fault; with no backends nobody listens."""
    front, dead = a_free_address(), a_free_address()
    carried = proxies.Proxies(on_refused=lambda *_: pytest.fail("it may listen there"))
    async with Backend(b"one") as one:
        await carried.apply({front: (dead, one.address)})
        assert {b"one:"} == {await ask(front) for _ in range(3)}
        await carried.apply({front: (dead,)})
        with pytest.raises(ConnectionError):
            await ask(front)
        await carried.apply({})
        with pytest.raises(ConnectionRefusedError):
            await ask(front)
    await asyncio.sleep(0.05)


async def test_an_address_that_cannot_be_bound_is_told():
    """And the others are served."""
    refused = []
    carried = proxies.Proxies(on_refused=lambda address, why: refused.append(address))
    wrong, front = ("192.0.2.1", 80), a_free_address()
    async with Backend(b"one") as one:
        await carried.apply({wrong: (one.address,), front: (one.address,)})
        assert [wrong] == refused
        assert b"one:" == await ask(front)
        carried.close()
    await asyncio.sleep(0.05)
