"""Every check of the workspace, defined once: `nox` runs all of them, `nox -l` lists them.

Arguments after `--` go to the tool that a session runs. A whole run shares the machine between two sessions at a time;
chosen sessions print as they go, and `-j 2` shares the machine there too. `-P 3.13` runs them on another Python.
"""

import atexit
import os
import sys
import time
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the `nox` program does not search its noxfile's folder
from tools import products, timetable, workspace
from tools.workspace import GROUPS, PACKAGES, ROOT

nox.needs_version = ">=2026.10"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True
nox.options.report = str(products.BUILD / "nox.json")
if len(sys.argv) == 1:
    nox.options.parallel = 2

os.environ.setdefault("UV_PYTHON_DOWNLOADS", "never")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # tests start Python thousands of times, and each would compile it all
products.REPORTS.mkdir(parents=True, exist_ok=True)
if "--parallel-worker" not in sys.argv:
    atexit.register(timetable.show, products.BUILD / "nox.json", products.REPORTS, time.time())

POISON = {
    "DSH_SESSION_ID": "outer",
    "DSH_SESSION_JSONL": "/nowhere",
    "DSH_STALE_SENTINEL": "stale",
    "DEEPSEEK_API_KEY": "fake",
}
"""What a harness finds when it is started by another one; none of it may reach a child."""
ALL = [package.distribution for package in PACKAGES.values()]
POSTGRES = "dsh-persistence-sqlite[postgres]"
"""The driver is an extra: who types the sources or runs whole loops needs it."""
SOURCES = [str(package.path / "src") for package in PACKAGES.values()]
each_package = nox.parametrize("package", list(PACKAGES), ids=list(PACKAGES))


@nox.session(allow_parallel=True)
def lint(session: nox.Session) -> None:
    """Style, formatting, the direction of imports, and that every import is declared."""
    products.install(session, GROUPS["lint"])
    if session.posargs:
        session.run("ruff", *session.posargs)
        return
    session.run("ruff", "check", "-q")
    session.run("ruff", "format", "-q", "--check")
    if unlisted := workspace.without_direction():
        session.error(f"no import contract in pyproject.toml names {', '.join(unlisted)}")
    session.run("lint-imports", env={"PYTHONPATH": os.pathsep.join(SOURCES)}, silent=True)
    for package in PACKAGES.values():
        with session.chdir(package.path):
            names = ["--known-first-party", package.module, "--package-module-name-map", "pyyaml=yaml"]
            session.run("deptry", "src", *names, silent=True)


@nox.session(allow_parallel=True)
def types(session: nox.Session) -> None:
    """Strict types, by mypy and by pyright, over the packages and over what builds and proves them."""
    products.install(session, [*ALL, POSTGRES, *(need for group in GROUPS.values() for need in group)])
    search = os.pathsep.join(SOURCES)
    session.run("mypy", *(session.posargs or SOURCES), env={"MYPYPATH": search})
    if not session.posargs:
        session.run("mypy", "noxfile.py", "tools")
        beside = [f"integration/{name}" for name in ("bench", "oracle", "interop", "crash", "services")]
        session.run("mypy", *beside, env={"MYPYPATH": os.pathsep.join([search, "integration", "docker"])})
        with session.chdir("docker"):
            session.run("mypy", "--config-file=../pyproject.toml", *(path.name for path in Path().glob("*.py")))
        session.run("basedpyright")


@nox.session(allow_parallel=True)
def requirements(session: nox.Session) -> None:
    """requirements.txt is what the pyproject files ask for; `-- --update` mends it, `-- --upgrade` renews it."""
    wanted = products.BUILD / "requirements.in"
    fresh = products.BUILD / "requirements.txt"
    committed = workspace.PINS.read_text() if workspace.PINS.exists() else ""
    wanted.write_text("\n".join(workspace.everything()) + "\n")
    fresh.write_text(committed)  # the pins that are there are kept where they still fit
    upgrade = ["--upgrade"] if "--upgrade" in session.posargs else []
    form = ["--universal", "--python-version=3.11", "--generate-hashes", "--no-header", "--no-annotate", "--no-sources"]
    session.run("uv", "pip", "compile", "-q", *form, *upgrade, str(wanted), "-o", str(fresh), silent=True)
    if session.posargs:
        workspace.PINS.write_text(fresh.read_text())
    elif fresh.read_text() != committed:
        session.error("requirements.txt is not what the pyproject files ask for: nox -s requirements -- --update")


@nox.session(allow_parallel=True)
@each_package
def contract(session: nox.Session, package: str) -> None:
    """A package's whole tests on this machine, in an environment of only what the package declares."""
    member = PACKAGES[package]
    products.install(session, [member.distribution, *workspace.test_group(member)])
    workers = "0" if session.parallel else "2"  # two sessions at a time use both cores already
    report = products.REPORTS / timetable.report_name(f"contract({package})")
    tests = targets(session, f"packages/{package}/tests")
    session.run("python", "tools/strays.py", "pytest", "-q", "-n", workers, f"--junitxml={report}", *tests)


@nox.session(default=False)
def minimums(session: nox.Session) -> None:
    """Every package's tests on the oldest dependencies that the pyproject files allow, which proves these floors."""
    products.install_oldest(session)
    report = products.REPORTS / timetable.report_name("minimums")
    tests = targets(session, "packages")
    session.run("python", "tools/strays.py", "pytest", "-q", "-n", "2", f"--junitxml={report}", *tests)


@nox.session(allow_parallel=True)
@each_package
def docker_contract(session: nox.Session, package: str) -> None:
    """A package's whole tests from its wheel, in a hardened container."""
    need_engine(session)
    products.install(session, GROUPS["docker"])
    context = products.context(session, PACKAGES[package])
    tests = targets(session, f"packages/{package}/tests")
    session.run("python", "docker/contract.py", package, str(context), *tests)


@nox.session(allow_parallel=True)
def integration(session: nox.Session) -> None:
    """Whole loops over the built wheels, the quick set of the crash proofs, and every snippet of the documentation."""
    products.install(session, [*ALL, POSTGRES, *GROUPS["test"], *GROUPS["docs"]], from_wheels=True)
    report = products.REPORTS / timetable.report_name("integration")
    tests = targets(session, "integration", "--ignore=integration/docker", "--ignore=integration/interop")
    session.run("python", "tools/strays.py", "pytest", "-q", f"--junitxml={report}", *tests)


@nox.session(default=False)
def interop(session: nox.Session) -> None:
    """Sessions that the real dsh and ours continue in turn, over the built wheels, and its verdicts on the corpus."""
    products.install(session, [*ALL, *GROUPS["test"], *GROUPS["oracle"]], from_wheels=True)
    report = products.REPORTS / timetable.report_name("interop")
    workers = ["-n", "2", "--dist=loadfile"]  # the tests of a file share what was played for all of them
    tests = targets(session, "integration/interop")
    session.run("python", "tools/strays.py", "pytest", "-q", *workers, f"--junitxml={report}", *tests)


@nox.session(default=False)
def crash(session: nox.Session) -> None:
    """The full set of the crash proofs over the built wheels; `-- --write-figures` puts its figures into the docs."""
    products.install(session, [*ALL, *GROUPS["test"], *GROUPS["docker"]], from_wheels=True)
    env = {"DSH_CRASH": "full", "PYTHONPATH": str(ROOT / "docker")}
    if engine_version(session):
        beside = [ROOT / "integration" / name for name in ("crash", "interop")]
        context = products.context(session, PACKAGES["persistence-jsonl"], beside=beside)
        env["DSH_CRASH_CONTEXT"] = str(context)
    elif os.environ.get("DSH_REQUIRE_DOCKER") == "1":
        session.error("no Docker engine answers; where you may start one: python3 docker/engine.py up")
    report = products.REPORTS / timetable.report_name("crash")
    options = ["-n", "2", "-o", "faulthandler_timeout=1200"]  # one test tries thousands of states
    tests = targets(session, "integration/crash")
    session.run("python", "tools/strays.py", "pytest", "-q", *options, f"--junitxml={report}", *tests, env=env)


@nox.session
def loop(session: nox.Session) -> None:
    """One whole loop, in a container where an engine answers, else here; `-- --json` prints the facts as JSON."""
    if engine_version(session):
        products.install(session, GROUPS["docker"])
        context = products.context(session, PACKAGES["cli"])
        session.run("python", "docker/loop.py", str(context), *session.posargs, env=POISON, stderr=sys.stderr)
    else:
        products.install(session, [PACKAGES["cli"].distribution], from_wheels=True)
        where = ["--where", "machine", "--home", str(products.BUILD / "loop")]
        session.run("dshpy", "loop", *where, *session.posargs, env=POISON, stderr=sys.stderr)


@nox.session(allow_parallel=True)
def docker_loop(session: nox.Session) -> None:
    """The loop in hardened containers, seen from outside: its log decoded here, a kill inside a turn, the resume."""
    need_engine(session)
    products.install(session, [*GROUPS["docker"], *GROUPS["test"]])
    context = products.context(session, PACKAGES["cli"])
    report = products.REPORTS / timetable.report_name("docker_loop")
    env = {"PYTHONPATH": str(ROOT / "docker"), "DSH_LOOP_CONTEXT": str(context), **POISON}
    tests = ["--confcutdir=integration/docker", *targets(session, "integration/docker")]  # nothing of ours is here
    session.run("pytest", "-q", f"--junitxml={report}", *tests, env=env)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """What logs and commands cost, in ratios; `-- --quick` only shows that it runs, `-- --json` gives JSON."""
    measured = [PACKAGES[name].distribution for name in ("persistence-jsonl", "bash-local", "agent-core")]
    products.install(session, [*measured, POSTGRES, *GROUPS["bench"]], from_wheels=True)
    env = {"PYTHONPATH": str(ROOT / "integration")}
    session.run("python", "-m", "bench", *session.posargs, env=env, stderr=sys.stderr)


def targets(session: nox.Session, *default: str) -> list[str]:
    """Return pytest's arguments: the default targets, unless the caller names others, and the caller's own."""
    named = any(Path(argument.split("::")[0]).exists() for argument in session.posargs)
    return [*(() if named else default), *session.posargs]


def engine_version(session: nox.Session) -> str:
    """Return the version of the Docker engine that answers, or an empty string."""
    version = session.run(sys.executable, "docker/engine.py", "ping", external=True, silent=True, success_codes=[0, 1])
    return "" if "no engine" in str(version) else str(version).strip()


def need_engine(session: nox.Session) -> None:
    """Skip the session where no engine answers; fail it where one is required."""
    if not engine_version(session):
        message = "no Docker engine answers; where you may start one: python3 docker/engine.py up"
        if os.environ.get("DSH_REQUIRE_DOCKER") == "1":
            session.error(message)
        session.skip(message)
