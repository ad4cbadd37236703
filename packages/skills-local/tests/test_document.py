"""SKILL.md: what is read, what is refused, and that nothing else happens."""

from __future__ import annotations

import contextlib
import string

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dsh_skills_local import SkillInvalid
from dsh_skills_local._document import MAX_DESCRIPTION, Document, is_skill_name, parse_document


def document(*fields: str, text: str = "Do it.", end: str = "\n") -> bytes:
    return end.join(["---", *fields, "---", text, ""]).encode()


def reason(data: bytes) -> str:
    with pytest.raises(SkillInvalid) as refused:
        parse_document(data, "/s/SKILL.md")
    assert ("/s/SKILL.md", f"/s/SKILL.md {refused.value.reason}") == (refused.value.path, str(refused.value))
    return refused.value.reason


NAME, DESCRIPTION = "name: pdf", "description: Reads PDFs."
READ = Document(name="pdf", description="Reads PDFs.", for_model=True, content="Do it.")


@pytest.mark.parametrize(
    "data",
    [
        document(NAME, DESCRIPTION),
        document(NAME, DESCRIPTION, end="\r\n"),
        b"\xef\xbb\xbf" + document(NAME, DESCRIPTION),
        document(NAME, DESCRIPTION, "license: MIT", "allowed-tools: Bash(x:*) Read", "metadata:", "  v: 2026-99-99"),
        document("name: 'pdf'", "description: >", "  Reads", "  PDFs."),
        document(NAME, DESCRIPTION, "user-invocable: false", "disable-model-invocation: No"),
        document(NAME, DESCRIPTION, text="\n\nDo it.\n\n"),
    ],
)
def test_a_skill_is_read(data):
    """Quotes, folded text, line ends, a byte order mark and fields of others change nothing."""
    assert parse_document(data, "/s/SKILL.md") == READ


def test_the_text_is_everything_below():
    """Lines of dashes in it belong to it."""
    assert "a\n---\nb" == parse_document(document(NAME, DESCRIPTION, text="a\n---\nb"), "p").content
    assert "" == parse_document(document(NAME, DESCRIPTION, text=""), "p").content


@pytest.mark.parametrize("value", ["true", "True", "yes", "on", "1", "'true'"])
def test_a_skill_may_be_kept_from_models(value):
    """In every spelling that ``dsh`` takes."""
    assert not parse_document(document(NAME, DESCRIPTION, f"disable-model-invocation: {value}"), "p").for_model


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "does not begin with frontmatter"),
        (b"# Title\n", "does not begin with frontmatter"),
        (b"---\nname: x\n", "frontmatter that does not end"),
        (b"---\n" + b"#" * 20_000 + b"\n---\n", "more than 16384 characters"),
        (b"---\nname: \xff\n---\n", "no UTF-8 text at byte 10"),
        (document("- name"), "no list of fields"),
        (document(), "no list of fields"),
        (document(NAME), "has no description"),
        (document(NAME, "description: ' '"), "has no description"),
        (document(NAME, "description: [a]"), "has no description"),
        (document(DESCRIPTION), "has no name"),
        (document("name: My Skill", DESCRIPTION), "the name 'My Skill'"),
        (document("name: -pdf", DESCRIPTION), "the name '-pdf'"),
        (document("name: a--b", DESCRIPTION), "the name 'a--b'"),
        (document("name: ../x", DESCRIPTION), "the name '../x'"),
        (document(f"name: {'a' * 65}", DESCRIPTION), "at most 64 characters"),
        (document(NAME, f"description: {'a' * 1025}"), "a description of 1025 characters"),
        (document(NAME, "description: Use it: always"), r"no YAML: mapping values are not allowed here (line 3); put"),
        (document(NAME, "description: 'open"), "no YAML"),
        (document(NAME, "description: a\x00b"), "characters that YAML forbids"),
        (document(NAME, DESCRIPTION, "x: *nowhere"), "no YAML"),
        (document(NAME, DESCRIPTION, "x: " + "[" * 5000), "nested too deeply"),
        (document(NAME, DESCRIPTION, "...", "a: b"), "no YAML"),
        (document(NAME, DESCRIPTION, "disable-model-invocation: maybe"), "neither true nor false"),
        (document(NAME, DESCRIPTION, "disable-model-invocation: [true]"), "neither true nor false"),
        (document(NAME, DESCRIPTION, "disableModelInvocation: true"), "spell it 'disable-model-invocation'"),
    ],
)
def test_what_cannot_be_used_is_told(data, expected):
    """With what is wrong; what might keep a skill from models is never guessed."""
    assert expected in reason(data)


def test_frontmatter_makes_nothing_but_text():
    """No object of Python comes of a tag, and merge keys, a billion pairs here, mean nothing."""
    growing = [f"k{n}: &k{n} {{<<: [{', '.join([f'*k{n - 1}'] * 10)}]}}" for n in range(1, 10)]
    tagged = "x: !!python/object/apply:os.abort []"

    assert READ == parse_document(document(NAME, DESCRIPTION, tagged, "k0: &k0 {a: b}", *growing), "p")


NAMES = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True)


@given(name=NAMES, description=st.text(string.printable + "äß漢🙂", max_size=MAX_DESCRIPTION), text=st.text())
def test_what_a_yaml_writer_writes_is_read(name, description, text):
    """Any description survives its way through YAML, whatever follows below."""
    description = " ".join(description.split()) or "."
    header = yaml.safe_dump({"description": description, "name": name}, allow_unicode=True)
    read = parse_document(f"---\n{header}---\n{text}".encode(errors="replace"), "p")

    assert (name, description, True) == (read.name, read.description, read.for_model)


@given(st.one_of(st.binary(), st.text().map(lambda text: f"---\n{text}\n---\n".encode(errors="replace"))))
def test_any_bytes_are_a_skill_or_a_reason(data):
    """Nothing else is raised."""
    with contextlib.suppress(SkillInvalid):
        assert is_skill_name(parse_document(data, "p").name)
