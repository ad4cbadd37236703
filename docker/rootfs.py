"""A root file system out of the Debian packages installed on this machine: no network, no bootstrap, a few seconds.

The same packages give the same bytes, so an image imported from them keeps its layers cached.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOTS = (
    *("base-files", "base-passwd", "bash", "dash", "coreutils", "libc-bin", "grep", "sed", "gawk", "mawk", "findutils"),
    *("tar", "gzip", "procps", "util-linux", "login", "python3-minimal", "python3", "ca-certificates", "tzdata"),
    *("media-types", "netbase", "strace"),
)
"""What an image of the tests needs; a package that is not installed here is left out."""
SKIPPED = frozenset(
    (
        *("debconf", "openssl", "perl", "perl-base", "init-system-helpers", "sysvinit-utils", "lsb-base"),
        *("libpam-modules", "libpam-modules-bin", "libpam-runtime"),
    )
)
"""Dependencies that only maintainer scripts and logins use."""
_LEFT_OUT = re.compile(
    r"^/(usr/share/(man|doc|info|locale|lintian|bug|doc-base|i18n)|usr/lib/python3/dist-packages"
    r"|etc/(pam\.d|apt|cron|kernel|init\.d|systemd)|boot|media|mnt|srv|opt)(/|$)"
    r"|/__pycache__|^/(bin|sbin|lib|lib64|\.)$"
)
_FOLDERS = "etc/ssl/certs tmp proc sys dev run var/tmp root home usr/bin usr/sbin usr/lib usr/lib64".split()
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_PYTHON_TEST = "import ssl, sqlite3, ctypes, lzma, bz2, zlib, uuid, multiprocessing, readline, venv"


def installed() -> dict[str, str]:
    """Return the version of every package that goes into the file system; it is what the result depends on."""
    query = "${Package}\t${Version}\t${db:Status-Status}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
    lines = subprocess.run(["dpkg-query", "-W", "-f", query], check=True, capture_output=True, text=True).stdout
    versions: dict[str, str] = {}
    needs: dict[str, list[list[str]]] = {}
    provider: dict[str, str] = {}
    for line in lines.splitlines():
        name, version, status, provides, depends = line.split("\t")
        if status == "installed":
            versions[name] = version
            needs[name] = [[_name(one) for one in group.split("|")] for group in depends.split(",") if group.strip()]
            provider.update({_name(one): name for one in provides.split(",") if one.strip()})
    chosen: set[str] = set()
    todo = list(ROOTS)
    while todo:
        name = todo.pop()
        name = name if name in needs else provider.get(name, name)
        if name in needs and name not in chosen and name not in SKIPPED:
            chosen.add(name)
            todo += [next((one for one in group if one in needs or one in provider), "") for group in needs[name]]
    return {name: versions[name] for name in sorted(chosen)}


def _name(dependency: str) -> str:
    return re.split(r"[ :(]", dependency.strip())[0]


def _files(packages: list[str]) -> Iterator[str]:
    """Name the packages' files, relative to `/`, with /bin, /sbin and /lib* seen as the links into /usr they are."""
    listing = subprocess.run(["dpkg", "-L", *packages], check=True, capture_output=True, text=True).stdout
    wanted = (line for line in listing.splitlines() if line.startswith("/") and not _LEFT_OUT.search(line))
    for name in sorted({re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", line) for line in wanted}):
        path = Path(name)
        if path.is_symlink() or path.is_file():
            yield f".{name}"


def _populate(root: Path, packages: list[str]) -> None:
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    names = "\n".join(_files(packages))
    pack = ["tar", "-C", "/", "--no-recursion", "-cf", "-", "-T", "-"]
    packed = subprocess.run(pack, input=names.encode(), check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-C", root, "-xf", "-"], input=packed, check=True)
    for name, text in _FILES.items():
        (root / name).write_text(text)
    # Only the stock certificates: one that this machine adds does not belong in an image.
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    (root / "etc/ssl/certs/ca-certificates.crt").write_bytes(b"".join(one.read_bytes() for one in certificates))
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    for link, target in (("python", "python3"), ("sh", "dash"), ("awk", "gawk" if "gawk" in packages else "mawk")):
        (root / "usr/bin" / link).unlink(missing_ok=True)
        (root / "usr/bin" / link).symlink_to(target)
    subprocess.run(["ldconfig", "-r", root], check=True)


def _compile(root: Path) -> None:
    """Ship the library's .pyc files: below a read-only root, every process would compile it again."""
    subprocess.run(["chroot", root, "python3", "-I", "-B", "-c", _PYTHON_TEST], check=True)
    library = next((root / "usr/lib").glob("python3.*"))
    skipped = "/(test|tests|idlelib|turtledemo)/"
    # Run from outside, as a bare root has no /dev/shm for -j; and by the same Python, as .pyc files are its own.
    command = ["/usr/bin/python3", "-I", "-m", "compileall", "-q", "-j", "2", "-s", str(root), "-p", "/", "-x", skipped]
    subprocess.run([*command, "--invalidation-mode", "unchecked-hash", str(library)], check=True)


def write(target: Path) -> None:
    """Write the file system to `target`, a tar file."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        root = Path(folder) / "root"
        root.mkdir()
        _populate(root, list(installed()))
        _compile(root)
        fixed = ["--sort=name", "--mtime=@1700000000", "--numeric-owner"]
        subprocess.run(["tar", "-C", root, *fixed, "-cf", target, "."], check=True)


def can_build() -> bool:
    """Tell whether this machine is one whose packages can be used: Debian or Ubuntu, with its own Python, as root."""
    return os.geteuid() == 0 and shutil.which("dpkg-query") is not None and Path("/usr/bin/python3").exists()
