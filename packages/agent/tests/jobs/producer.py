"""A producer of jobs that does what a test tells it."""

from __future__ import annotations

import asyncio

from dsh_agent import JobOutcome


class Producer:
    """A job that ends when it is told to; ``obeys`` says whether cancelling is enough."""

    def __init__(self, output: str = "", *, final: str | None = None, obeys: bool = True) -> None:
        self.output, self.final, self.obeys = output, final, obeys
        self.remark = ""
        self.reasons: list[str] = []
        self.cancel_fails = False
        self.ended: asyncio.Future[JobOutcome] = asyncio.get_running_loop().create_future()

    def finish(self, detail: str = "exit code: 0") -> None:
        self.ended.set_result(JobOutcome(status="completed", detail=detail))

    def read_output(self) -> str:
        if self.final is not None:
            return self.final if self.ended.done() else ""
        output, self.output = self.output, ""
        return output

    def cancel(self, reason: str) -> None:
        if self.cancel_fails:
            raise OSError("no signal")
        self.reasons.append(reason)
        if self.obeys and not self.ended.done():
            self.ended.set_result(JobOutcome(status="killed", detail="signal: SIGTERM"))

    async def wait(self) -> JobOutcome:
        return await asyncio.shield(self.ended)


async def settle() -> None:
    """Let everything that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)
