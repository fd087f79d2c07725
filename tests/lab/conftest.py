"""What tests against the real control plane share: the version flag, and labs that never outlive.

`pytest tests/lab --kubernetes v1.34.4` runs all of them on the other version. Every lab of a
session stands below one folder of its own, is bound to the test process, and must be gone when its
test is over.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from lab import apis, errors, homes
from lab.cli import displays
from lab.controlplane import binaries, builds, labs, manifests, processes, states, tools
from tests.lab import gates

HERE = Path(__file__).parent
LabMaker = Callable[..., homes.Home]
Command = Callable[..., str]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag that chooses the control plane's version."""
    parser.addoption(
        "--kubernetes",
        choices=tools.KUBERNETES_VERSIONS,
        default=os.environ.get("TIPHYS_KUBERNETES") or tools.KUBERNETES_VERSIONS[0],
        help="version of the control plane for tests in tests/lab",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything below this folder as a lab test."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.lab)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing before the first test, whose time limit must not pay for it."""
    wanted = any(HERE in item.path.parents for item in session.items)
    if wanted and not session.config.option.collectonly:
        version = session.config.getoption("--kubernetes")
        try:
            with displays.Builds() as shown:
                binaries.find(states.Asked(kubernetes=version), report=shown.report)
                _kubectl(version, report=shown.report)
        except errors.LabError as error:
            pytest.exit(f"the lab cannot be built: {error}", returncode=error.exit_code)


def _kubectl(version: str, *, report: builds.Report = lambda progress: None) -> str:
    """Return the machine's kubectl, or where it has none one of the lab's own."""
    found = shutil.which("kubectl")
    return found or str(binaries.command_line(tools.kubernetes(version), "kubectl", report=report))


@pytest.fixture(scope="session")
def kubectl(kubernetes: str) -> str:
    """Return the path of kubectl."""
    return _kubectl(kubernetes)


@pytest.fixture(scope="session")
def kubernetes(request: pytest.FixtureRequest) -> str:
    """Return the version of the control plane, such as `v1.36.3`."""
    version: str = request.config.getoption("--kubernetes")
    return version


@pytest.fixture(scope="session", autouse=True)
def labs_root(kubernetes: str) -> Iterator[Path]:
    """Give the session a folder for its labs; whatever still runs at the end is ended."""
    # Not below pytest's own folders: their paths are too long for a socket.
    root = Path(tempfile.mkdtemp(prefix="tiphys-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIPHYS_LAB_HOME", str(root))
        patch.setenv("TIPHYS_KUBERNETES", kubernetes)
        yield root
        for state in root.glob("*/state.json"):
            labs.down(homes.home(state.parent.name))
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def lab(labs_root: Path, kubernetes: str) -> Iterator[homes.Home]:
    """Return the home of a lab that all tests share: four nodes, 60 times wall time.

    A test leaves it as it found it; whoever breaks something makes a lab of its own.
    """
    home = homes.home("shared")
    labs.up(home, states.Asked(kubernetes=kubernetes, speed=60.0, owner=processes.current()))
    yield home
    labs.down(home)


@pytest.fixture(scope="session")
def tiny(labs_root: Path, kubernetes: str) -> Iterator[homes.Home]:
    """Return the home of a lab with 16 cores at wall time that tests of operators share.

    Each test starts operators of its own and ends them.
    """
    home = homes.home("tiny")
    cluster = gates.a_cluster(labs_root)
    asked = states.Asked(kubernetes=kubernetes, cluster=str(cluster), owner=processes.current())
    labs.up(home, asked)
    yield home
    labs.down(home)


@pytest.fixture
async def tiny_api(tiny: homes.Home) -> AsyncIterator[apis.Api]:
    """Return a client of the lab `tiny` with all rights; our kinds are there, pods are not."""
    await gates.prepare(tiny)
    async with apis.Api(tiny.kubeconfig) as client:
        yield client
        await gates.clear(client)


@pytest.fixture
def make_lab(labs_root: Path, kubernetes: str) -> Iterator[LabMaker]:
    """Return a function that starts a lab of this test alone: `make_lab("a", speed=60.0, …)`.

    Keyword arguments are those of `states.Asked`.
    """
    yield from _maker(kubernetes)


@pytest.fixture(scope="module")
def make_module_lab(labs_root: Path, kubernetes: str) -> Iterator[LabMaker]:
    """Return the same for a lab that the tests of one file share.

    A file that returns it from a fixture `lab` of its own has `api` and `tiphys` of that one.
    """
    yield from _maker(kubernetes)


def _maker(kubernetes: str) -> Iterator[LabMaker]:
    made: list[homes.Home] = []

    def make(name: str, **asked: object) -> homes.Home:
        home = homes.home(name)
        made.append(home)
        chosen = {"kubernetes": kubernetes, "owner": processes.current(), **asked}
        labs.up(home, states.Asked(**chosen))
        return home

    yield make
    for home in made:
        labs.down(home)
        assert [] == processes.of_lab(home.root)


@pytest.fixture
async def api(lab: homes.Home) -> AsyncIterator[apis.Api]:
    """Return a client of the shared lab with all rights."""
    async with apis.Api(lab.kubeconfig) as client:
        yield client


@pytest.fixture
def tiphys(lab: homes.Home) -> Command:
    """Return a function that runs the person's command line as the admin: `tiphys("status")`.

    It must succeed; what it said is returned.
    """

    def run(*arguments: str) -> str:
        ended = subprocess.run(
            [gates.TIPHYS, *arguments],
            env=gates.environment(KUBECONFIG=str(lab.kubeconfig)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert 0 == ended.returncode, ended.stdout
        return ended.stdout

    return run


@pytest.fixture
async def namespace(api: apis.Api) -> AsyncIterator[str]:
    """Return a fresh namespace of the shared lab, ready for pods; deleted after the test."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    await manifests.accounts_exist(api, [name])
    yield name
    await api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def lab_command() -> list[str]:
    """Return the words that start the lab's command line as a program of its own."""
    return [sys.executable, "-m", "lab"]
