from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from waiting import is_alive, until

from dsh_agent import Agent, Job, JobError, Jobs, Tool, ToolError, ToolExecution
from dsh_bash import DSH_ENV_PREFIX, Bash, WorkdirMissing
from dsh_bash_local import LocalBash
from dsh_tool_bash import BashEnvContributor, BashEnvRegistry, BashTool

if TYPE_CHECKING:
    from conftest import RecordingBash

Call = Callable[..., ToolExecution]
MakeAgent = Callable[..., Agent]


def tool(bash: Bash, *, jobs: Jobs | None = None, registry: BashEnvRegistry | None = None, **options: Any) -> BashTool:
    return BashTool(bash, registry or BashEnvRegistry("/h"), jobs=lambda: jobs, **options)


async def failure(bash: BashTool, execution: ToolExecution) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await bash.execute(execution)
    return caught.value


class TestDeclaration:
    def test_schema(self, recording: RecordingBash) -> None:
        """§5.1: the properties, their types, and what is required."""
        parameters = tool(recording).parameters
        types = {name: schema["type"] for name, schema in parameters["properties"].items()}
        assert types == {
            "command": "string",
            "description": "string",
            "timeoutMs": "number",
            "workdir": "string",
            "run_in_background": "boolean",
        }
        assert (parameters["type"], parameters["required"]) == ("object", ["command", "description"])
        json.dumps(parameters)

    def test_schema_without_background(self, recording: RecordingBash) -> None:
        """§5.1: run_in_background is offered only where it is enabled, and the description follows."""
        bash = tool(recording, enable_run_in_background=False)
        assert "run_in_background" not in bash.parameters["properties"]
        assert "run_in_background" not in bash.description
        assert "run_in_background" in tool(recording).description

    def test_description(self, recording: RecordingBash) -> None:
        """§5.1: the description teaches the convention and names no key; it says what a model must know."""
        text = tool(recording).description
        assert f"${DSH_ENV_PREFIX}*" in text
        assert text.count(DSH_ENV_PREFIX) == 1
        for words in ("fresh shell", "workdir", "[exit code: N]", "the end is kept", "job id"):
            assert words in text

    def test_is_a_tool(self, recording: RecordingBash) -> None:
        """§5.1: it is named bash and overlaps with no other call."""
        bash: Tool = tool(recording)
        assert bash.name == "bash"
        assert bash.is_concurrency_safe({}) is False


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"command": ""}, "invalid command: expected a non-empty string"),
            ({"command": " \n"}, "invalid command: expected a non-empty string"),
            ({"command": "", "description": ""}, "invalid command: expected a non-empty string"),
            ({"description": "\t"}, "invalid description: expected a non-empty string"),
            ({"description": "", "timeoutMs": 0}, "invalid description: expected a non-empty string"),
            ({"timeoutMs": 0}, "invalid timeoutMs: expected a positive number, got 0"),
            ({"timeoutMs": -1.5}, "invalid timeoutMs: expected a positive number, got -1.5"),
            ({"timeoutMs": float("inf")}, "invalid timeoutMs: expected a positive number, got null"),
        ],
    )
    async def test_refused(self, recording: RecordingBash, call: Call, arguments: dict[str, Any], message: str) -> None:
        """5.2 to 5.4: the texts, in this order, and nothing runs."""
        execution = call(**{"command": "true", **arguments})
        assert str(await failure(tool(recording), execution)) == message
        assert recording.requests == []

    async def test_only_named_arguments_count(self, recording: RecordingBash, call: Call) -> None:
        """§5.1: env, stdin and whatever else a model sends are ignored."""
        extra = {"env": {"A": "b"}, "stdin": "x", "stdoutMaxBytes": 1, "dsh_env": {"DSH_HOME": "/spoof"}, "cancel": 1}
        await tool(recording).execute(call("c", timeoutMs=5, workdir="/w", **extra))
        (request,) = recording.requests
        assert (request.command, request.timeout_ms, request.workdir) == ("c", 5, "/w")
        assert (request.env, request.stdin, request.stdout_max_bytes, request.cancel) == (None, None, None, None)
        assert request.dsh_env == {"DSH_HOME": "/h", "DSH_SHELL": "1"}

    async def test_order(self, recording: RecordingBash, call: Call, tmp_path: Path) -> None:
        """§5.1: arguments are checked first, then variables are collected, then the command runs."""

        def fail(_: ToolExecution) -> Mapping[str, str]:
            raise LookupError("gone")

        registry = BashEnvRegistry("/h")
        registry.register(BashEnvContributor(name="c", variables={"DSH_C": "c"}, resolve=fail))
        bash = tool(recording, registry=registry, enable_run_in_background=False)
        assert "invalid command" in str(await failure(bash, call("")))
        for background in (False, True):
            with pytest.raises(LookupError):
                await bash.execute(call(run_in_background=background))
        assert (recording.ran, recording.started) == ([], [])


class TestWorkdir:
    async def asked(self, recording: RecordingBash, execution: ToolExecution) -> str | None:
        recording.requests.clear()
        await tool(recording).execute(execution)
        return recording.requests[-1].workdir

    async def test_absolute(self, recording: RecordingBash, call: Call, agent: MakeAgent) -> None:
        """§5.1: an absolute directory is taken as it is."""
        execution = call(agent=agent(cwd="/w"), workdir="/a/../b/")
        assert await self.asked(recording, execution) == "/a/../b/"

    @pytest.mark.parametrize(("workdir", "expected"), [("sub", "/w/x/sub"), ("./a/../b", "/w/x/b"), ("../y", "/w/y")])
    async def test_relative(
        self, recording: RecordingBash, call: Call, agent: MakeAgent, workdir: str, expected: str
    ) -> None:
        """§5.1: a relative directory counts from the session's."""
        assert await self.asked(recording, call(agent=agent(cwd="/w/x"), workdir=workdir)) == expected

    async def test_omitted(self, recording: RecordingBash, call: Call, agent: MakeAgent, tmp_path: Path) -> None:
        """§5.1: without one the command runs in the session's directory under its real name."""
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        expected = os.path.realpath(tmp_path / "real")
        for arguments in ({}, {"workdir": ""}):
            execution = call(agent=agent(cwd=str(tmp_path / "link")), **arguments)
            assert await self.asked(recording, execution) == expected

    async def test_no_session_directory(self, recording: RecordingBash, call: Call, agent: MakeAgent) -> None:
        """§5.1: without a session directory the executor decides, and a relative one counts from there."""
        assert await self.asked(recording, call()) is None
        assert await self.asked(recording, call(agent=agent())) is None
        assert await self.asked(recording, call(workdir="sub")) == "/executor/sub"

    async def test_directory_of_another_platform(self, recording: RecordingBash, call: Call, agent: MakeAgent) -> None:
        """§5.1: a directory that is absolute elsewhere is not made into one below ours."""
        assert await self.asked(recording, call(agent=agent(cwd="C:\\w"))) == "C:\\w"


class TestForeground:
    @pytest.mark.parametrize(
        ("command", "timeout_ms", "text"),
        [
            ("echo hi", None, "hi\n"),
            ("true", None, "(no output)"),
            ("echo a; echo b >&2; exit 3", None, "a\n[stderr]\nb\n[exit code: 3]"),
            ("kill -9 $$", None, "(no output)\n[killed by signal: SIGKILL]"),
            ("sleep 5", 100, "(no output)\n[timed out after 100ms]\n[killed by signal: SIGTERM]"),
            ("trap 'exit 0' TERM; sleep 5 >/dev/null 2>&1 & wait", 1000, "(no output)\n[timed out after 1000ms]"),
        ],
    )
    async def test_vectors(self, local: LocalBash, call: Call, command: str, timeout_ms: int | None, text: str) -> None:
        """§5.2: real commands and what the model reads; none of these is an error."""
        arguments = {} if timeout_ms is None else {"timeoutMs": timeout_ms}
        result = await tool(local).execute(call(command, **arguments))
        assert (result.text, result.is_error) == (text, False)

    async def test_truncated(self, local: LocalBash, call: Call) -> None:
        """§5.2: of long output the end is kept, and the notice names a file that has all of it."""
        result = await tool(local).execute(call("seq 100000"))
        tail, notice = result.text.rsplit("\n\n", 1)
        assert tail.endswith("99999\n100000")
        assert len(tail) < 70_000
        spill = notice.removeprefix("[output truncated; full output: ").removesuffix("]")
        assert Path(spill).read_text().splitlines()[0] == "1"
        assert result.value["stdout"]["spillPath"] == spill

    async def test_value(self, local: LocalBash, call: Call) -> None:
        """§5.2: the canonical value comes with the text."""
        result = await tool(local).execute(call("echo a; exit 3", timeoutMs=5000))
        assert result.value == {
            "kind": "foreground",
            "exitCode": 3,
            "signal": None,
            "timedOut": False,
            "aborted": False,
            "timeoutMs": 5000,
            "stdout": {"text": "a\n", "truncated": False},
            "stderr": {"text": "", "truncated": False},
        }

    async def test_environment(self, local: LocalBash, call: Call, agent: MakeAgent, tmp_path: Path) -> None:
        """§4.5, §3.2: the command sees the facts of its own execution, and none of an outer harness."""
        execution = call(
            "env | grep ^DSH_ | sort; pwd", agent=agent(cwd=str(tmp_path)), env={"DSH_SESSION_ID": "spoof"}
        )
        result = await tool(local).execute(execution)
        cwd = os.path.realpath(tmp_path)
        assert result.text == f"DSH_HOME=/h\nDSH_SESSION_ID=s1\nDSH_SHELL=1\n{cwd}\n"

    async def test_stdin_of_the_model_is_ignored(self, local: LocalBash, call: Call) -> None:
        """§5.1: a command reads from the null device, whatever stdin a model sends."""
        assert (await tool(local).execute(call("cat; echo end", stdin="secret"))).text == "end\n"

    async def test_fresh_shell(self, local: LocalBash, call: Call) -> None:
        """§5.1: nothing carries over to the next call."""
        bash = tool(local)
        await bash.execute(call("cd /; export LEFT=behind"))
        result = await bash.execute(call("echo [$LEFT]; pwd"))
        assert result.text.startswith("[]\n")
        assert result.text != "[]\n/\n"

    async def test_overlapping_commands_of_two_agents(
        self, local: LocalBash, call: Call, agent: MakeAgent, tmp_path: Path
    ) -> None:
        """§4.5: commands of parent and child that run at the same time see each their own session."""
        bash = tool(local)
        os.mkfifo(tmp_path / "pipe")  # both have to be running for either to go on
        ends = {"parent": f"echo > {tmp_path}/pipe", "child": f"read < {tmp_path}/pipe"}
        results = await asyncio.gather(
            *(bash.execute(call(f"{end}; echo $DSH_SESSION_ID", agent=agent(who))) for who, end in ends.items())
        )
        assert [result.text for result in results] == ["parent\n", "child\n"]

    async def test_fifty_commands_of_two_agents(
        self, local: LocalBash, call: Call, agent: MakeAgent, tmp_path: Path
    ) -> None:
        """F02: each sees its own session throughout, a spoof changes nothing, and neither does our own environment."""
        bash, before = tool(local), dict(os.environ)
        names = ["parent", "child"] * 25
        command = "sleep 0.05; echo $DSH_SESSION_ID"
        spoof = {"env": {"DSH_SESSION_ID": "spoof"}}
        results = await asyncio.gather(
            *(bash.execute(call(command, agent=agent(who), **(spoof if n < 2 else {}))) for n, who in enumerate(names))
        )
        assert [result.text for result in results] == [f"{who}\n" for who in names]
        assert dict(os.environ) == before

    async def test_cannot_start(self, local: LocalBash, call: Call, tmp_path: Path) -> None:
        """5.9: a command that cannot start is a tool error that says why."""
        error = await failure(tool(local), call(workdir=str(tmp_path / "absent")))
        assert isinstance(error.__cause__, WorkdirMissing)
        assert str(error) == str(error.__cause__)

    async def test_request_that_can_never_run(self, local: LocalBash, call: Call) -> None:
        """5.9: so is a request the executor refuses."""
        assert "command" in str(await failure(tool(local), call("echo \0")))

    async def test_aborted(self, recording: RecordingBash, call: Call) -> None:
        """5.7: a command that somebody else aborted is an error, and its output is dropped."""
        recording.aborted = True
        error = await failure(tool(recording), call())
        assert (str(error), error.name, error.code) == ("tool call aborted", "AbortError", "ABORTED")

    async def test_cancelled(self, local: LocalBash, call: Call, tmp_path: Path) -> None:
        """5.7: cancelling the task ends the whole tree before the cancellation goes on."""
        pid = tmp_path / "pid"
        command = f"sleep 600 & echo $! > {pid}.new; mv {pid}.new {pid}; wait"
        running = asyncio.create_task(tool(local).execute(call(command)))
        await until(pid.exists)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_alive(int(pid.read_text()))


class TestBackground:
    async def test_acknowledged(self, recording: RecordingBash, call: Call, agent: MakeAgent, jobs: Jobs) -> None:
        """§5.3: the answer is the id; the job is labelled by its command and owned by the session."""
        owner = agent()
        jobs.adopt(owner)
        bash = tool(recording, jobs=jobs)
        first = await bash.execute(call("sleep 9", agent=owner, run_in_background=True))
        second = await bash.execute(call("sleep 8", run_in_background=True))
        assert [first.text, second.text] == ["started background job bash-1", "started background job bash-2"]
        assert first.value == {"kind": "background", "jobId": "bash-1"}
        assert (first.is_error, recording.ran) == (False, [])
        job = jobs.get("bash-1", owner="s1")
        assert (job.kind, job.label, job.owner) == ("bash", "sleep 9", "s1")
        assert jobs.get("bash-2", owner=None).owner is None
        registered = owner.session.events[-1]
        assert registered.data["toolCall"] == {"callId": "c1", "rootCallId": "c1"}

    async def test_snapshot_is_taken_once_before_the_start(
        self, recording: RecordingBash, call: Call, agent: MakeAgent, jobs: Jobs
    ) -> None:
        """§5.1: the variables are collected once, before the job starts; later changes do not reach it."""
        asked: list[int] = []

        def resolve(_: ToolExecution) -> Mapping[str, str]:
            asked.append(len(recording.started))
            return {"DSH_C": str(len(asked))}

        registry, owner = BashEnvRegistry("/h"), agent()
        jobs.adopt(owner)
        dispose = registry.register(BashEnvContributor(name="c", variables={"DSH_C": "c"}, resolve=resolve))
        await tool(recording, jobs=jobs, registry=registry).execute(call(agent=owner, run_in_background=True))
        dispose()
        assert asked == [0]
        (spec,) = recording.started
        assert spec.dsh_env == {"DSH_C": "1", "DSH_HOME": "/h", "DSH_SESSION_ID": "s1", "DSH_SHELL": "1"}

    async def test_real_job(self, local: LocalBash, call: Call, agent: MakeAgent, jobs: Jobs) -> None:
        """§5.3: a job outlives its call, sees its snapshot, and tells its exit code, nonzero too."""
        owner = agent()
        jobs.adopt(owner)
        command = "echo $DSH_SESSION_ID; echo $DSH_STALE_SENTINEL; exit 3"
        await tool(local, jobs=jobs).execute(call(command, agent=owner, run_in_background=True, timeoutMs=1))
        job = await jobs.wait("bash-1", owner="s1", timeout_ms=60_000)
        assert (job.status, job.detail) == ("completed", "exit code: 3")
        assert jobs.read("bash-1", owner="s1") == "s1\n\n"

    async def test_killed_job(self, local: LocalBash, call: Call, jobs: Jobs) -> None:
        """§5.3: a killed job tells the signal."""
        await tool(local, jobs=jobs).execute(call("echo up; exec sleep 600", run_in_background=True))
        await until(lambda: jobs.read("bash-1", owner=None) == "up\n")
        assert jobs.kill("bash-1", owner=None)
        job = await jobs.wait("bash-1", owner=None, timeout_ms=60_000)
        assert (job.status, job.detail) == ("killed", "signal: SIGTERM")

    async def test_job_that_cannot_start(self, local: LocalBash, call: Call, tmp_path: Path, jobs: Jobs) -> None:
        """§5.3: a command the system refuses is a job that was killed before it could exit, and says why."""
        await tool(local, jobs=jobs).execute(call(workdir=str(tmp_path / "absent"), run_in_background=True))
        job = await jobs.wait("bash-1", owner=None, timeout_ms=60_000)
        assert (job.status, job.detail) == ("killed", "killed before exit")
        assert "spawn failed" in jobs.read("bash-1", owner=None)

    async def test_shell_that_leaves_work_behind(
        self, local: LocalBash, call: Call, tmp_path: Path, jobs: Jobs
    ) -> None:
        """G10: a command that backgrounds itself has not completed while its work goes on."""
        work = f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
        command = f"nohup bash -c '{work}' >/dev/null 2>&1 & echo started"
        ended: list[Job] = []
        jobs.on_completion(lambda job, _: ended.append(job))
        await tool(local, jobs=jobs).execute(call(command, run_in_background=True))
        remark = "its shell has ended with exit code 0; processes it started still run"
        await until(lambda: jobs.get("bash-1", owner=None).detail == remark)
        assert (jobs.get("bash-1", owner=None).status, ended) == ("running", [])
        assert jobs.read("bash-1", owner=None) == "started\n"
        (tmp_path / "go").touch()
        job = await jobs.wait("bash-1", owner=None, timeout_ms=60_000)
        assert (job.status, job.detail, ended) == ("completed", "exit code: 0", [job])

    async def test_disabled(self, recording: RecordingBash, call: Call, jobs: Jobs) -> None:
        """5.5: a deployment may have no background execution."""
        bash = tool(recording, jobs=jobs, enable_run_in_background=False)
        error = await failure(bash, call(run_in_background=True))
        expected = "run_in_background is disabled for this deployment (enableRunInBackground: false)"
        assert str(error) == expected
        assert recording.started == []

    async def test_no_job_service(self, recording: RecordingBash, call: Call) -> None:
        """5.6: without a job service a background call is a tool error; a foreground one runs."""
        error = await failure(tool(recording), call(run_in_background=True))
        assert str(error).startswith("background jobs unavailable: ")
        assert error.code == "JOBS_UNAVAILABLE"
        assert recording.started == []
        await tool(recording).execute(call(run_in_background=False))
        assert len(recording.ran) == 1

    async def test_order_of_refusals(self, recording: RecordingBash, call: Call) -> None:
        """5.5, 5.6: a deployment without background execution says so first."""
        bash = tool(recording, enable_run_in_background=False)
        assert "disabled" in str(await failure(bash, call(run_in_background=True)))

    async def test_cancelled_before_its_start(self, recording: RecordingBash, call: Call, jobs: Jobs) -> None:
        """5.8: a call that was cancelled before it came so far starts nothing and uses up no id."""
        bash = tool(recording, jobs=jobs)

        async def cancelled_call() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await bash.execute(call(run_in_background=True))

        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(cancelled_call())
        assert (recording.started, jobs.of(None)) == ([], [])
        assert (await bash.execute(call(run_in_background=True))).text == "started background job bash-1"

    async def test_too_many_jobs(self, recording: RecordingBash, call: Call, jobs: Jobs) -> None:
        """§5.4: a job that is refused is never started."""
        bash = tool(recording, jobs=jobs)
        for _ in range(10):
            await bash.execute(call(run_in_background=True))
        with pytest.raises(JobError, match="limit"):
            await bash.execute(call(run_in_background=True))
        assert len(recording.started) == 10

    async def test_refused_start(self, recording: RecordingBash, call: Call, jobs: Jobs) -> None:
        """5.20: a start the executor refuses uses up no id."""
        recording.error = WorkdirMissing("/x")
        await failure(tool(recording, jobs=jobs), call(run_in_background=True))
        recording.error = None
        result = await tool(recording, jobs=jobs).execute(call(run_in_background=True))
        assert result.text == "started background job bash-1"
