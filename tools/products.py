"""What the sessions make once and share, under build/: environments from the pins, wheels, a container's context.

Each product is named by the content it comes from, and a lock guards it, as sessions run two at a time.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nox
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import workspace
from tools.workspace import ROOT, Package

BUILD = ROOT / "build"
REPORTS = BUILD / "reports"
WHEELS = BUILD / "wheels"
CONTAINERS = BUILD / "docker"


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Hold a lock between processes; where there is none to be had, sessions do not run in parallel by default."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / f"{name}.lock").open("w") as lock:
        if os.name == "posix":
            import fcntl  # noqa: PLC0415 - absent on Windows

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(session: nox.Session, requirements: Iterable[str], *, from_wheels: bool = False) -> None:
    """Make the session's environment hold these requirements and what they need, and nothing else.

    Third-party distributions are those of requirements.txt, hashes verified; ours come from the workspace, editable
    or as wheels. An environment that is right already costs nothing.
    """
    ours, third_party = workspace.resolve(requirements)
    manifests = [package.path / "pyproject.toml" for package in ours]
    sources: list[str] = []
    if from_wheels:
        sources = [str(wheel) for wheel in wheels(session, ours)]
        manifests += [Path(wheel) for wheel in sources]
        sources += [f"--reinstall-package={package.distribution}" for package in ours]
    else:
        sources = [part for package in ours for part in ("-e", str(package.path))]
    stamp = Path(session.virtualenv.location) / "holds"
    holds = workspace.digest(workspace.PINS, *manifests, also=[*third_party, *sources])
    if not stamp.exists() or stamp.read_text() != holds:
        stamp.unlink(missing_ok=True)
        pinned = ["-c", str(workspace.PINS), "--exact", "--no-sources"]
        session.log(f"installing {', '.join(package.name for package in ours) or 'tools'} by the pins")
        session.run_install("uv", "pip", "install", "-q", *pinned, *third_party, *sources, silent=True, log=False)
        stamp.write_text(holds)


def install_oldest(session: nox.Session) -> None:
    """Make the session's environment hold all packages, editable, on the oldest dependencies that they declare."""
    packages = workspace.PACKAGES.values()
    ours = {package.distribution for package in packages}
    needs = {need for package in packages for need in workspace.test_group(package)}
    tests = sorted(need for need in needs if canonicalize_name(Requirement(need).name) not in ours)
    sources = [part for package in packages for part in ("-e", str(package.path))]
    session.log("installing the tests' tools by the pins, and the packages on their oldest dependencies")
    command = ["uv", "pip", "install", "-q"]
    session.run_install(*command, "--exact", "-c", str(workspace.PINS), *tests, silent=True, log=False)
    session.run_install(*command, "--resolution=lowest-direct", *sources, silent=True, log=False)


def wheels(session: nox.Session, packages: Iterable[Package]) -> list[Path]:
    """Build the packages' wheels, those whose sources changed, and return their paths."""
    built: list[Path] = []
    with _alone("wheels"):
        for package in packages:
            readme = package.path / "README.md"
            sources = [package.path / "src", package.path / "pyproject.toml", *([readme] if readme.exists() else [])]
            folder = WHEELS / package.name / workspace.digest(*sources)
            if not list(folder.glob("*.whl")):
                shutil.rmtree(folder.parent, ignore_errors=True)
                command = ["uv", "build", "-q", "--wheel", "--no-sources", "--out-dir", str(folder), str(package.path)]
                session.log(f"building the wheel of {package.name}")
                session.run(*command, external=True, silent=True, log=False)
            built += folder.glob("*.whl")
    return built


def wheelhouse(session: nox.Session, base: dict[str, str]) -> Path:
    """Download the third-party wheels that an image of this base can need, each checked against its pinned hashes."""
    tests = [need for package in workspace.PACKAGES.values() for need in workspace.test_group(package)]
    ours = [package.distribution for package in workspace.PACKAGES.values()]
    wanted = workspace.resolve([*ours, *tests, *workspace.GROUPS["test"], "pip"])[1]
    facts = [base["python"], base["machine"], base["glibc"]]
    folder = CONTAINERS / "wheels" / workspace.digest(workspace.PINS, also=[*wanted, *facts])
    with _alone("wheelhouse"):
        if folder.exists():
            return folder
        shutil.rmtree(folder.parent, ignore_errors=True)
        work = folder.with_suffix(".part")
        work.mkdir(parents=True)
        session.log("downloading the wheels that the containers need")
        (work / "wanted.in").write_text("\n".join(wanted))
        target = ["--python-version", base["python"], "--python-platform", f"{base['machine']}-unknown-linux-gnu"]
        chosen = session.run(
            *("uv", "pip", "compile", "-q", "--no-header", "--no-annotate", "-c", str(workspace.PINS), *target),
            *("--no-sources", str(work / "wanted.in")),
            external=True,
            silent=True,
            log=False,
        )
        names = {canonicalize_name(Requirement(line).name) for line in str(chosen).splitlines() if line.strip()}
        (work / "pins.txt").write_text("\n".join(block for name, block in workspace.pins() if name in names))
        minor = int(base["glibc"].split(".")[1])
        platforms = [f"--platform=manylinux_2_{n}_{base['machine']}" for n in range(minor, 16, -1)]
        session.run(
            *("python", "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "--only-binary=:all:"),
            *("--disable-pip-version-check", f"--python-version={base['python']}", "--implementation=cp", *platforms),
            *(f"--platform=manylinux2014_{base['machine']}", "-d", str(work), "-r", str(work / "pins.txt")),
            silent=True,
            log=False,
        )
        (work / "test-tools.txt").write_text("\n".join(workspace.GROUPS["test"]))
        work.rename(folder)
    return folder


def context(session: nox.Session, package: Package, *, beside: Iterable[Path] = ()) -> Path:
    """Lay out what docker/Dockerfile copies for one package, and return the folder.

    `beside` are folders of the repository that the image has as well.
    """
    base = json.loads(str(session.run("python", "docker/base.py", silent=True, stderr=None)))
    third_party = wheelhouse(session, base)
    ours = workspace.resolve([package.distribution, *workspace.test_group(package)])[0]
    closure = wheels(session, ours)
    folder = CONTAINERS / "contexts" / package.name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "package").mkdir(parents=True)
    (folder / "wheels").symlink_to(third_party)
    for wheel in closure:
        shutil.copy2(wheel, folder / "package")
    needs = [package.distribution, *workspace.test_group(package)]
    (folder / "package" / "requirements.txt").write_text("\n".join(needs) + "\n")
    app = folder / "app"
    shutil.copytree(package.path / "tests", app / "packages" / package.name / "tests")
    for name in ("README.md", "pyproject.toml"):
        if (package.path / name).exists():
            shutil.copy2(package.path / name, app / "packages" / package.name)
    shutil.copy2(ROOT / "pyproject.toml", app)
    for source in beside:
        shutil.copytree(source, app / source.relative_to(ROOT))
    return folder
