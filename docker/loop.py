"""One whole loop in a hardened container: `python docker/loop.py CONTEXT [ARGUMENT …]` prints what `dshpy loop` prints.

The container gets the caller's `DSH_*` and `DEEPSEEK_*` variables, so that a poisoned caller poisons it. Its home is a
volume; what the loop left there is copied to build/loop before the volume goes.
"""

import os
import shutil
import sys
from pathlib import Path

import base
from container import BUILD, HOME, build, connect, copy_out, hardened, prune, stop_cleanly, wait

IMAGE = "dsh-py-contract:cli"
DSH_HOME = f"{HOME}/.dsh"
COMMAND = ["dshpy", "loop", "--where", "container", "--home", DSH_HOME]


def main(context: Path, *arguments: str) -> int:
    """Build the image, run the loop, pass its two outputs and its exit code on."""
    client = connect()
    image = build(client, context, tag=IMAGE, BASE_IMAGE=base.find(client)["image"])
    prune(client)
    environment = {key: value for key, value in os.environ.items() if key.startswith(("DSH_", "DEEPSEEK_"))}
    if sys.stdout.isatty():
        columns = str(shutil.get_terminal_size().columns)
        environment |= {"FORCE_COLOR": "1", "TERM": os.environ.get("TERM", "xterm"), "COLUMNS": columns}
    command = [*COMMAND, *arguments]
    with hardened(client, image, command, environment=environment, volumes={DSH_HOME: None}) as container:
        code = wait(container)
        sys.stderr.write(container.logs(stdout=False).decode(errors="replace"))
        sys.stdout.write(container.logs(stderr=False).decode(errors="replace"))
        shutil.rmtree(BUILD / "loop", ignore_errors=True)
        copied = copy_out(container, DSH_HOME, BUILD / "loop")
    logs = ", ".join(str(path) for path in copied if ".jsonl" in path.suffixes)
    print(f"copied out of the container: {logs or 'no log'}", file=sys.stderr)
    return code


if __name__ == "__main__":
    stop_cleanly()
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
