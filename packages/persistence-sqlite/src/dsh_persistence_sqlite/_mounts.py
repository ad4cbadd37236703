"""Which file systems cannot carry a write-ahead log: its index is memory that all its processes have to share."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    "9p afs beegfs ceph cifs coda davfs fuse.ceph fuse.glusterfs fuse.rclone fuse.s3fs fuse.sshfs fuse.vmhgfs-fuse gfs2"
    " glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs prl_fs smb3 smbfs vboxsf virtiofs vmhgfs".split()
)


def network_file_system(folder: Path) -> str | None:
    """Return the type of the network file system that holds a folder; None for a local one, or an unknown machine."""
    place = os.path.realpath(folder)
    found, longest = "", 0
    try:
        mounts = _MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return None
    for line in mounts.splitlines():
        # 36 35 98:0 /root /mnt/point rw,noatime master:1 - ext4 /dev/root rw
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split(" ")[4])
        below = place == point or place.startswith(f"{point.rstrip('/')}/")
        if below and len(point) >= longest:  # of two mounts on one point the later one is seen
            found, longest = after.split(" ")[0], len(point)
    return found if found in _NETWORK else None
