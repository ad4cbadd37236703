"""The whole loop in hardened containers, judged from outside: what it printed, and the log it left in its volume.

The host decodes the log with zstandard and json alone, so that nothing of ours vouches for itself.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import base
import docker
import pytest
import zstandard
from container import LABEL, build, connect, copy_out, hardened, prune, wait
from docker.models.containers import Container
from loop import COMMAND, DSH_HOME, IMAGE

POISON = {
    "DSH_SESSION_ID": "outer",
    "DSH_SESSION_JSONL": "/nowhere",
    "DSH_STALE_SENTINEL": "stale",
    "DEEPSEEK_API_KEY": "fake",
}
SLEEP = {"command": "sleep 300", "description": "Outlast the container"}
HOLD = [{"text": "I hold.", "tools": [{"name": "bash", "arguments": SLEEP}]}]
GO_ON = [{"text": "The command was cut off; nothing is left to do."}]
HOLD_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def client() -> docker.DockerClient:
    return connect()


@pytest.fixture(scope="module")
def image(client: docker.DockerClient) -> str:
    """The image of the command line, built from wheels."""
    built = build(client, Path(os.environ["DSH_LOOP_CONTEXT"]), tag=IMAGE, BASE_IMAGE=base.find(client)["image"])
    prune(client)
    return built


@pytest.fixture
def volume(client: docker.DockerClient) -> Iterator[str]:
    """A named volume, so that a second container finds what the first one left."""
    made = client.volumes.create(labels={LABEL: "docker_loop"})
    yield made.name
    made.remove(force=True)


def scripted(script: list[dict[str, Any]], *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return a command that runs `dshpy loop` over a script of replies, and the environment that carries the script."""
    run = 'printf %s "$LOOP_SCRIPT" >/tmp/script.json && exec "$@" --script /tmp/script.json'
    return ["bash", "-c", run, "bash", *COMMAND, *arguments], {**POISON, "LOOP_SCRIPT": json.dumps(script)}


def read_log(data: bytes) -> list[dict[str, Any]]:
    """Decode the whole frames of a log: its header line, then its events."""
    text = b""
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        part = frame.decompress(data)
        if not frame.eof:
            break
        text, data = text + part, frame.unused_data
    return [json.loads(line) for line in text.splitlines()]


def copy_log(container: Container, folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """Copy the home's one log out; return its path inside the container, and its lines."""
    logs = [path for path in copy_out(container, DSH_HOME, folder) if path.name == "session.v4.jsonl.zstd"]
    if not logs:
        return "", []
    assert len(logs) == 1
    inside = Path(DSH_HOME).parent / logs[0].relative_to(folder)
    return str(inside), read_log(logs[0].read_bytes())


def of_type(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == name]


def test_a_poisoned_container_runs_the_loop(client: docker.DockerClient, image: str, tmp_path: Path) -> None:
    """The child saw this session and none of the poison, before its log existed; the log's header is the session's."""
    command = [*COMMAND, "--json"]
    with hardened(client, image, command, environment=POISON, volumes={DSH_HOME: None}) as container:
        code = wait(container, timeout_s=120)
        assert code == 0, container.logs().decode()
        facts = json.loads(container.logs(stderr=False))
        where, (header, *events) = copy_log(container, tmp_path)

    assert facts["where"] == "container"
    assert facts["home"] == DSH_HOME
    assert facts["shell"]
    assert facts["leaked"] == []
    assert facts["existed_before_flush"] is False
    assert facts["session_jsonl"] == where
    assert facts["session_id"] == facts["header_id"] == header["id"] != "outer"
    assert (header["type"], header["version"]) == ("session", 4)
    assert facts["events"] == events
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert of_type(events, "turn/end")[-1]["data"]["reason"] == {"kind": "completed"}
    assert not {"stale", "fake", "/nowhere"} & set(json.dumps(events).replace('"', " ").split())


def test_a_killed_turn_is_closed_once_by_the_resume(
    client: docker.DockerClient, image: str, volume: str, tmp_path: Path
) -> None:
    """SIGKILL inside a tool call, a second container on the same volume: the turn is closed once and work goes on."""
    command, environment = scripted(HOLD, "--window-ms", "0")
    with hardened(client, image, command, environment=environment, volumes={DSH_HOME: volume}) as container:
        lines = await_tool_call(container, tmp_path / "running")
        container.kill(signal="SIGKILL")
        container.wait(timeout=30)
        _, killed = copy_log(container, tmp_path / "killed")
    assert killed[: len(lines)] == lines, "what was seen while it ran is still there"
    assert not of_type(killed, "turn/end")
    session_id = killed[0]["id"]

    command, environment = scripted(GO_ON, "--window-ms", "0", "--resume", session_id)
    with hardened(client, image, command, environment=environment, volumes={DSH_HOME: volume}) as container:
        code = wait(container, timeout_s=120)
        assert code == 0, container.logs().decode()
        _, resumed = copy_log(container, tmp_path / "resumed")

    assert resumed[: len(killed)] == killed, "a resume adds, it changes nothing"
    assert [event["seq"] for event in resumed[1:]] == list(range(len(resumed) - 1))
    added = resumed[len(killed) :]
    ends = of_type(resumed, "turn/end")
    assert [end["data"]["reason"]["kind"] for end in ends] == ["interrupted", "completed"]
    assert ends[0]["data"]["turn"] == 1
    order = [event["type"] for event in added if event["type"] in {"turn/end", "session/end-seed", "turn/start"}]
    assert order == ["turn/end", "session/end-seed", "turn/start", "turn/end"]
    (result,) = of_type(added, "tool/result")
    assert result["data"]["error"]["code"] == "TOOL_OUTCOME_UNKNOWN"


def await_tool_call(container: Container, folder: Path) -> list[dict[str, Any]]:
    """Wait until the log on the volume shows the tool call; return its lines then."""
    deadline = time.monotonic() + HOLD_TIMEOUT_S
    while time.monotonic() < deadline:
        folder.mkdir(parents=True, exist_ok=True)
        _, lines = copy_log(container, folder)
        if of_type(lines, "tool/call"):
            return lines
        container.reload()
        assert container.status == "running", container.logs().decode()
        time.sleep(0.1)
    pytest.fail(f"no tool call within {HOLD_TIMEOUT_S} s; the container printed:\n{container.logs().decode()}")
