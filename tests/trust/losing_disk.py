"""Disks that lose what was not synced."""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

MIB = 1 << 20
PIECE = 1 << 16  # that a cache writes back at once
LIBC = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    pass


def command(*words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"})
    if done.returncode != 0:
        raise Refused(f"{words[0]}: {done.stdout.strip()}")
    return done.stdout.strip()


def begin_with_own_mounts():
    """Begins the program again where its mounts are its own, so that they end with it; where that can be."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if os.geteuid() == 0 and shutil.which("unshare") and "VORTEX_OWN_MOUNTS" not in os.environ:
        os.environ["VORTEX_OWN_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])


class LosingDisk:
    """A file system over an image in memory, whose copy is what a crash leaves.

    What the page cache of the file system holds is not in the image. Nothing writes it back for long, and ext4 does
    not help those who rename before they sync. Direct writes are in the image.

    Over a disk `beneath` they are not: the image lies on that one, whose page cache is what the cache of a disk is.
    A flush syncs the image, and without one all that was written is lost, or a part of it.
    """

    KINDS = {
        "ext4": (128, ["-q", "-F", "-m", "0", "-E", "nodiscard"], "commit=300,data=writeback,noauto_da_alloc", ""),
        "xfs": (320, ["-q", "-f", "-K"], "", "nouuid"),
    }
    MIB_BEHIND_A_CACHE = 96

    def __init__(self, kind, beneath=None):
        mib, made, options, self._options_after = self.KINDS[kind]
        if os.geteuid() != 0:
            raise Refused("only root mounts file systems")
        self.kind = f"{kind} behind a cache" if beneath else kind
        self.beneath = beneath
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="vortex-soak-disk-", dir="/dev/shm"))
        self.folder, self.after = (self.place / name for name in ("now", "after"))
        self.image = (beneath.folder if beneath else self.place) / "image"
        self._mounted = []
        self._copies = 0
        try:
            for folder in (self.folder, self.after):
                folder.mkdir()
            with open(self.image, "wb", buffering=0) as file:
                if beneath:
                    # What comes later changes no more than blocks that are there. The page cache writes back at once
                    # what one write has put into it.
                    for _ in range(self.MIB_BEHIND_A_CACHE * MIB // PIECE):
                        file.write(bytes(PIECE))
                else:
                    file.truncate(mib * MIB)
            command(f"mkfs.{kind}", *made, self.image)
            self._mount(self.image, self.folder, options)
            self.sync()  # which fails where memory has no room for it
        except (Refused, OSError) as refusal:
            self.close()
            raise Refused(f"no {self.kind} by a loop device: {refusal}") from refusal

    def _mount(self, image, folder, options):
        command("mount", "-o", f"loop,{options}".rstrip(","), image, folder)
        self._mounted.append(folder)

    def sync(self):
        """Everything so far is on the disk."""
        command("sync", "-f", self.folder)
        if self.beneath:
            self.beneath.sync()

    def _write_some_back(self, random):
        """A disk writes what its cache holds when it likes, and in any order."""
        share = random.choice([0, 0.1, 0.5, 0.9])
        with open(self.image, "r+b") as file:
            for at in range(0, self.MIB_BEHIND_A_CACHE * MIB, PIECE):
                if random.random() < share:
                    # The writing that is under way, this one, and until it is over.
                    if LIBC.sync_file_range(file.fileno(), ctypes.c_int64(at), ctypes.c_int64(PIECE), 1 | 2 | 4):
                        raise OSError(ctypes.get_errno(), "sync_file_range")

    def _copy_to(self, copy):
        if self.beneath:
            command("cp", "--sparse=always", self.beneath.crash() / self.image.name, copy)
            self.beneath.end_of_crash()
            return
        for _ in range(100):
            command("cp", "--sparse=always", self.image, copy)
            # A copy during which something was written is no moment of the disk's.
            if subprocess.run(["cmp", "-s", self.image, copy], check=False).returncode == 0:
                return
        raise OSError(f"the {self.kind} in {self.image} is written to for ever")

    def crash(self, random=None):
        """What a disk that loses its power now holds, mounted; until end_of_crash(). Who writes to it is stopped."""
        # A new file each time: the device of the last one may live a moment longer, with what it has cached.
        copy = self.place / f"copy{self._copies}"
        self._copies += 1
        if self.beneath and random:
            self._write_some_back(random)
        self._copy_to(copy)
        self._mount(copy, self.after, self._options_after)
        copy.unlink()
        return self.after

    def end_of_crash(self):
        command("umount", self.after)
        self._mounted.remove(self.after)

    def close(self):
        for folder in reversed(self._mounted):
            subprocess.run(["umount", "-l", folder], check=False)
        shutil.rmtree(self.place, ignore_errors=True)
        if self.beneath:
            self.beneath.close()


def losing_disks():
    """Those that can be had here."""
    disks = []
    for kind, beneath in [("ext4", None), ("xfs", None), ("ext4", "ext4")]:
        try:
            disks.append(LosingDisk(kind, LosingDisk(beneath) if beneath else None))
        except Refused as refusal:
            print(f"no disk that loses what was not synced: {refusal}", flush=True)
    # As of tests/support/environment.h: CI has loop devices, and nobody reads there what was left out.
    if not disks and os.environ.get("CI", "false") not in ("", "false"):
        raise Refused("CI has no disk that loses what was not synced, and its tests must not be left out there")
    return disks
