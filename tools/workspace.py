"""What the workspace holds, read from its pyproject files: the packages, what each may import, what each needs.

Our own distributions are always named by their paths; only third-party requirements ever reach a package index.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "requirements.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A member of the workspace."""

    name: str
    """Its folder below packages/."""
    distribution: str
    module: str
    dependencies: tuple[Requirement, ...]
    extras: Mapping[str, tuple[Requirement, ...]]
    test_group: tuple[str, ...]
    """What its tests need beside the root's `test` group."""

    @property
    def path(self) -> Path:
        """Its folder."""
        return ROOT / "packages" / self.name


def _parse(text: Iterable[str]) -> tuple[Requirement, ...]:
    return tuple(Requirement(one) for one in text)


def _read(folder: Path) -> Package:
    pyproject = tomllib.loads((folder / "pyproject.toml").read_text())
    project = pyproject["project"]
    return Package(
        name=folder.name,
        distribution=canonicalize_name(project["name"]),
        module=pyproject["tool"]["uv"]["build-backend"]["module-name"],
        dependencies=_parse(project.get("dependencies", ())),
        extras={name: _parse(needs) for name, needs in project.get("optional-dependencies", {}).items()},
        test_group=tuple(pyproject.get("dependency-groups", {}).get("test", ())),
    )


PACKAGES: Mapping[str, Package] = {
    file.parent.name: _read(file.parent) for file in sorted(ROOT.glob("packages/*/pyproject.toml"))
}
_OURS = {package.distribution: package for package in PACKAGES.values()}
_ROOT_PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS: Mapping[str, list[str]] = _ROOT_PYPROJECT["dependency-groups"]


def test_group(package: Package) -> tuple[str, ...]:
    """Return what a package's tests need: the root's `test` group and its own."""
    return (*GROUPS["test"], *package.test_group)


def resolve(requirements: Iterable[str]) -> tuple[list[Package], list[str]]:
    """Follow requirements through the workspace: the packages of ours they reach, and the third-party rest."""
    ours: dict[str, Package] = {}
    third_party: dict[str, None] = {}
    seen: set[tuple[str, str]] = set()
    todo = [Requirement(one) for one in requirements]
    while todo:
        requirement = todo.pop()
        package = _OURS.get(canonicalize_name(requirement.name))
        if package is None:
            third_party[str(requirement)] = None
            continue
        ours[package.name] = package
        for extra in ("", *requirement.extras):
            if (package.name, extra) not in seen:
                seen.add((package.name, extra))
                todo += package.extras[extra] if extra else package.dependencies
    return [ours[name] for name in sorted(ours)], sorted(third_party)


def everything() -> list[str]:
    """Return every third-party requirement of the packages, their extras and tests, and of the root's groups."""
    wanted = [need for group in GROUPS.values() for need in group]
    for package in PACKAGES.values():
        wanted += [f"{package.distribution}[{','.join(package.extras)}]", *test_group(package)]
    return resolve(wanted)[1]


def without_direction() -> list[str]:
    """Return the modules that no import contract holds to a direction."""
    contracts = _ROOT_PYPROJECT["tool"]["importlinter"]["contracts"]
    keys = ("modules", "source_modules", "forbidden_modules")
    held = {module for contract in contracts for key in keys for module in contract.get(key, ())}
    return sorted({package.module for package in PACKAGES.values()} - held)


def pins() -> Iterator[tuple[str, str]]:
    """Yield each pinned distribution's name and its lines in requirements.txt, hashes included."""
    for block in re.split(r"\n(?=\S)", PINS.read_text()):
        name = re.match(r"[A-Za-z0-9._-]+", block)
        if name:
            yield canonicalize_name(name[0]), block.rstrip("\n")


def digest(*paths: Path, also: Iterable[str] = ()) -> str:
    """Name the content of files and folders, so that a product is made again only when it would differ."""
    state = hashlib.sha256(repr(sorted(also)).encode())
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                content = file.read_bytes()
                state.update(f"{file.relative_to(ROOT)}\0{len(content)}\0".encode() + content)
    return state.hexdigest()[:20]
