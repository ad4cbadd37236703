"""``dshpy cat``: its views, what it refuses, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner

from dsh_cli import main
from dsh_persistence_jsonl import JsonlLogStore

ENCODINGS = ("raw", "zstd")


def cat(*arguments: object):
    return CliRunner().invoke(main, ["cat", *map(str, arguments)], catch_exceptions=False)


def text_of(log: Path) -> bytes:
    """The decoded text of a log, by other means than the command's."""
    if log.suffix != ".zstd":
        return log.read_bytes()
    with log.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_events_are_lines_of_json_with_the_stored_data(store_session, root, encoding):
    """One event a line, in the log's own key order, with data bytes as they are stored; nothing on stderr."""
    log = store_session("s1", encoding=encoding)

    done = cat("s1", "--root", root)

    assert (0, "") == (done.exit_code, done.stderr)
    # Our own writer orders keys as the native view does, and this log has no ranges.
    assert text_of(log).split(b"\n", 1)[1] == done.stdout_bytes
    note = next(line for line in done.stdout_bytes.splitlines() if b"plugin:" in line)
    assert b',"data":{"kept":[1.0,{"x":"\\ud800"}]},"ignorable":true}' in note


def test_data_is_never_encoded_again(store_session, root):
    """Spaces, number forms and escapes of a foreign writer come out as they went in; the envelope is made anew."""
    log = store_session("s1")
    odd = b'{ "n":1.50e+3, "big":123456789012345678901, "z":-0, "s":"\\u0041\\/\\ud800 \xe2\x80\xa8" }'
    size = log.read_bytes().count(b"\n") - 1
    with log.open("ab") as file:
        file.write(b'{"data":%b , "ignorable":true, "time":5,"seq":%d,"type":"acme/odd"}\n' % (odd, size))

    done = cat(log)

    assert 0 == done.exit_code
    expected = b'{"type":"acme/odd","seq":%d,"time":5,"data":%b,"ignorable":true}\n' % (size, odd)
    assert expected == done.stdout_bytes.splitlines(keepends=True)[-1]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_stored_is_the_logs_own_lines(store_session, root, encoding):
    """``--stored`` equals the file's event lines, ranges, spacing and line ends included; the torn line is left out."""
    log = store_session("s1", encoding=encoding)
    lines = text_of(log).splitlines(keepends=True)[1:]
    if encoding == "raw":
        at = len(lines)
        replace = b'{"op":"replace","startSeq":3,"endSeq":7}'
        user = b'{"role":"user","content":[],"source":{"kind":"user"},"id":"m9"}'
        lines += [
            b'{"type":"user/message", "seq":%d,"time":1,"data":%b,"sourceEventSeqs":[[3,7]],"surfaceOp":%b}\r\n'
            % (at, user, replace)
        ]
        log.write_bytes(text_of(log).split(b"\n", 1)[0] + b"\n" + b"".join(lines) + b'{"type":"torn')

    done = cat("s1", "--stored", "--root", root)
    suffix = cat("s1", "--stored", "--from-seq", 3, "--root", root)

    assert (0, 0) == (done.exit_code, suffix.exit_code)
    assert b"".join(lines) == done.stdout_bytes
    assert b"".join(lines[3:]) == suffix.stdout_bytes
    if encoding == "raw":
        native = json.loads(cat("s1", "--root", root).stdout_bytes.splitlines()[-1])
        assert [3, 4, 5, 6, 7] == native["sourceEventSeqs"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("flags", [(), ("--stored",)])
def test_a_torn_tail_is_left_out_and_reported(store_session, root, encoding, flags):
    """A02: the whole events come back with exit code 0, and stderr says what was torn and where."""
    log = store_session("s1", encoding=encoding)
    before = cat("s1", *flags, "--root", root).stdout_bytes.splitlines()
    log.write_bytes(log.read_bytes()[:-20])

    done = cat("s1", *flags, "--root", root)

    assert 0 == done.exit_code
    after = done.stdout_bytes.splitlines()
    assert before[: len(after)] == after
    assert len(after) >= 8
    assert str(log) in done.stderr
    assert "torn and were never acknowledged" in done.stderr
    assert 1 == done.stderr.count("\n")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_raw_is_the_decoded_text(store_session, root, encoding):
    """Header included, byte for byte."""
    log = store_session("s1", encoding=encoding, text="\u2028 \x0b 新聞 \ud800")

    done = cat("s1", "--raw", "--root", root)

    assert (0, "") == (done.exit_code, done.stderr)
    assert text_of(log) == done.stdout_bytes


def test_raw_prints_what_is_not_valid(store_session, root):
    """The way out that the refusal names: the text is shown unchecked."""
    log = store_session("s1")
    log.write_bytes(log.read_bytes().replace(b'"turn":1,"step":1,"callId"', b'"turn":2,"step":1,"callId"'))

    assert 1 == cat("s1", "--root", root).exit_code
    assert log.read_bytes() == cat("s1", "--raw", "--root", root).stdout_bytes


def test_balanced_closes_an_interrupted_turn(store_session, root):
    """A17: the view a resume would have, without a byte written; a balanced log gains nothing."""
    log = store_session("s1", interrupted=True)
    store_session("s2")
    before = log.read_bytes()

    plain = cat("s1", "--root", root).stdout_bytes
    balanced = cat("s1", "--balanced", "--root", root).stdout_bytes
    suffix = cat("s1", "--balanced", "--from-seq", 8, "--root", root).stdout_bytes

    assert balanced.startswith(plain)
    closers = [json.loads(line) for line in balanced[len(plain) :].splitlines()]
    assert [(7, "tool/result"), (8, "step/end"), (9, "turn/end")] == [(c["seq"], c["type"]) for c in closers]
    assert balanced.splitlines()[-2:] == suffix.splitlines()
    assert before == log.read_bytes()
    assert cat("s2", "--root", root).stdout_bytes == cat("s2", "--balanced", "--root", root).stdout_bytes


def test_messages_are_the_conversation(store_session, root):
    """One message a line, as a model may receive it; with ``--balanced`` an unsettled call has its result too."""
    store_session("s1", text="\ud800 \u2028", interrupted=True)

    done = cat("s1", "--messages", "--root", root)
    balanced = cat("s1", "--messages", "--balanced", "--root", root)

    assert 0 == done.exit_code
    assert b'"text":"\\ud800 \xe2\x80\xa8"' in done.stdout_bytes
    assert ["user", "assistant"] == [json.loads(line)["role"] for line in done.stdout_bytes.splitlines()]
    assert "c1" == json.loads(balanced.stdout_bytes.splitlines()[-1])["toolCallId"]
    assert 3 == len(balanced.stdout_bytes.splitlines())


def test_from_seq_is_a_suffix(store_session, root):
    """Beyond the end there is nothing, and that is no error."""
    store_session("s1")
    whole = cat("s1", "--root", root).stdout_bytes.splitlines()

    assert whole[4:] == cat("s1", "--from-seq", 4, "--root", root).stdout_bytes.splitlines()
    beyond = cat("s1", "--from-seq", 99, "--root", root)
    assert (0, b"") == (beyond.exit_code, beyond.stdout_bytes)


@pytest.mark.parametrize(
    "flags",
    [
        ["--stored", "--raw"],
        ["--stored", "--messages"],
        ["--messages", "--raw"],
        ["--stored", "--balanced"],
        ["--raw", "--balanced"],
        ["--raw", "--from-seq", "0"],
        ["--messages", "--from-seq", "2"],
        ["--from-seq", "-1"],
    ],
)
def test_contradicting_flags_are_a_usage_error(store_session, root, flags):
    """Two flags that cannot both be meant are refused by name, and nothing is printed."""
    store_session("s1")

    done = cat("s1", *flags, "--root", root)

    assert (2, b"") == (done.exit_code, done.stdout_bytes)
    assert all(flag in done.stderr for flag in flags if flag.startswith("--"))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_damage_is_refused_with_its_place(store_session, root, encoding):
    """Exit code 1 and one line with path and byte offset, before any event is printed."""
    log = store_session("s1", encoding=encoding)
    content = bytearray(log.read_bytes())
    if encoding == "raw":
        offset = content.index(b'{"type":"step/start"')
        content[offset] = ord("x")
    else:
        offset = content.index(b"\x28\xb5\x2f\xfd", 4)  # the second frame
        content[offset + 12] ^= 0xFF
    log.write_bytes(content)

    done = cat("s1", "--root", root)

    assert (1, b"") == (done.exit_code, done.stdout_bytes)
    assert f"dshpy: {log} at byte {offset}" in done.stderr
    assert 1 == done.stderr.count("\n")
    if encoding == "raw":
        assert "line 3" in done.stderr


def test_a_broken_rule_is_refused_with_seq_line_and_offset(store_session, root):
    """What only reading every event shows is damage too; the message says where, and what still works."""
    log = store_session("s1")
    content = log.read_bytes().replace(b'"type":"step/start","seq":1,', b'"type":"step/end","seq":1,')
    log.write_bytes(content)
    offset = content.index(b'{"type":"step/end","seq":1,')

    done = cat("s1", "--root", root)

    assert (1, b"") == (done.exit_code, done.stdout_bytes)
    assert f"{log} at byte {offset}, line 3: seq 1, step/end: no step is open" in done.stderr
    assert "--raw prints the text unchecked" in done.stderr


def test_a_newer_generation_and_an_unknown_event_are_unreadable(store_session, root):
    """D03, exit code 4: it is no damage, the artefact and the way out are named."""
    log = store_session("s1")
    store_session("s2")
    with log.open("ab") as file:
        file.write(b'{"type":"acme/required","seq":10,"time":1,"data":{}}\n')
    unknown = cat("s1", "--root", root)
    log.rename(log.with_name("session.v9.jsonl"))
    newer = cat("s1", "--root", root)

    assert (4, 4) == (unknown.exit_code, newer.exit_code)
    assert f"{log}: event 'acme/required' at seq 10 is unknown" in unknown.stderr
    assert "upgrade dsh-py" in unknown.stderr
    assert "session.v9.jsonl: generation v9" in newer.stderr
    assert b"" == unknown.stdout_bytes + newer.stdout_bytes


def run(arguments: list[str], **options) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "dsh_cli", *arguments]
    return subprocess.run(command, check=False, capture_output=True, timeout=60, **options)


@pytest.mark.parametrize("command", ["cat", "show"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_reader_that_has_enough_ends_it_quietly(store_session, root, command, encoding):
    """``dshpy cat … | head -n 1``: exit code 0, since no damage was found, and not a word."""
    store_session("s1", encoding=encoding, text="long " * 100_000 + "\n" * 5_000)
    python = f"'{sys.executable}' -m dsh_cli {command} s1 --root '{root}'"

    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{python} | head -n 1"], check=False, capture_output=True, timeout=60
    )

    assert (0, b"", 1) == (done.returncode, done.stderr, done.stdout.count(b"\n"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_one_plain_message(store_session, root):
    """A full disk is no traceback and no success."""
    store_session("s1")

    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dsh_cli", "cat", "s1", "--root", root],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )

    assert 4 == done.returncode
    assert b"No space left on device" in done.stderr
    assert 1 == done.stderr.count(b"\n")


def test_help_and_cat_load_no_more_than_they_need(store_session, root):
    """Help loads none of our packages; ``cat`` neither the agent nor rich."""
    store_session("s1")
    code = "import sys\nfrom dsh_cli import main\ntry: main()\nfinally: print(*sorted(sys.modules), file=sys.stderr)"

    def loaded(*arguments: str) -> set[str]:
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        return set(done.stderr.split())

    for_help = loaded("cat", "--help")
    ours = {"dsh_session", "dsh_persistence", "dsh_agent", "dsh_hook_bridges"}
    assert not ours & loaded("hooks", "check", "--help")
    assert not (ours | {"asyncio", "rich", "zstandard", "msgspec"}) & for_help
    assert not {"dsh_agent", "dsh_hook_bridges", "rich"} & loaded("cat", "s1", "--root", str(root))


@pytest.fixture
def long_log(store_session) -> Path:
    """A log of 60 MB of text that takes a few hundred KB on disk."""
    log = store_session("s1", encoding="zstd")
    size = text_of(log).count(b"\n") - 1
    row = b'{"type":"plugin:a/b","seq":%d,"time":1,"data":"' + b"x" * 2_000 + b'","ignorable":true}\n'
    with log.open("ab") as file:
        for start in range(size, size + 30_000, 20):
            frame = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compressobj()
            file.write(frame.compress(b"".join(row % seq for seq in range(start, start + 20))) + frame.flush())
    return log


@pytest.mark.parametrize("flags", [(), ("--stored",), ("--raw",)])
def test_memory_does_not_follow_the_output(long_log, flags):
    """E01: what is printed is not kept; printing all of it takes about the memory of printing none."""
    code = (
        "import resource, sys\nfrom dsh_cli import main\n"
        "try: main()\nfinally: sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))"
    )

    def peak_kib(*flags: str) -> tuple[int, int]:
        done = subprocess.run(
            [
                "bash",
                "-o",
                "pipefail",
                "-c",
                '"$@" | wc -c',
                "bash",
                sys.executable,
                "-c",
                code,
                "cat",
                long_log,
                *flags,
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
        return int(done.stderr), int(done.stdout)

    nothing, none = peak_kib("--from-seq", "99999999")
    everything, size = peak_kib(*flags)

    assert 0 == none
    assert size > 60_000_000
    assert everything - nothing < 16 << 10


def test_reading_changes_nothing(store_session, root):
    """No view writes a byte, makes a file or takes the lock."""
    store_session("s1", interrupted=True)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}

    for flags in ([], ["--stored"], ["--balanced"], ["--messages"], ["--raw"]):
        assert 0 == cat("s1", *flags, "--root", root).exit_code

    assert before == {path: path.stat().st_mtime_ns for path in root.rglob("*")}


def test_the_store_reads_what_cat_prints(store_session, root):
    """The lines are events: decoded, they equal what the store returns."""
    store_session("s1", encoding="zstd")

    printed = [json.loads(line) for line in cat("s1", "--root", root).stdout_bytes.splitlines()]

    stored = JsonlLogStore(root).read("s1").events
    assert [(e.type, e.seq, e.time, e.data) for e in stored] == [
        (p["type"], p["seq"], p["time"], p["data"]) for p in printed
    ]
