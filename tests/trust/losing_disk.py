"""A disk that loses what was not synced."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

MIB = 1 << 20


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
    not help those who rename before they sync.
    """

    KINDS = {
        "ext4": (128, ["-q", "-F", "-m", "0"], "commit=300,data=writeback,noauto_da_alloc", ""),
        "xfs": (320, ["-q", "-f"], "", "nouuid"),
    }

    def __init__(self, kind):
        mib, made, options, self._options_after = self.KINDS[kind]
        if os.geteuid() != 0:
            raise Refused("only root mounts file systems")
        self.kind = kind
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="vortex-soak-disk-", dir="/dev/shm"))
        self.folder, self.after, self.image = (self.place / name for name in ("now", "after", "image"))
        self._mounted = []
        self._copies = 0
        try:
            for folder in (self.folder, self.after):
                folder.mkdir()
            with open(self.image, "wb") as file:
                file.truncate(mib * MIB)
            command(f"mkfs.{kind}", *made, self.image)
            self._mount(self.image, self.folder, options)
        except (Refused, OSError) as refusal:
            self.close()
            raise Refused(f"no {kind} by a loop device: {refusal}") from refusal

    def _mount(self, image, folder, options):
        command("mount", "-o", f"loop,{options}".rstrip(","), image, folder)
        self._mounted.append(folder)

    def sync(self):
        """Everything so far is on the disk."""
        command("sync", "-f", self.folder)

    def crash(self):
        """What a disk that loses its power now holds, mounted; until end_of_crash(). Who writes to it is stopped."""
        # A new file each time: the device of the last one may live a moment longer, with what it has cached.
        copy = self.place / f"copy{self._copies}"
        self._copies += 1
        for _ in range(100):
            command("cp", "--sparse=always", self.image, copy)
            # A copy during which something was written is no moment of the disk's.
            if subprocess.run(["cmp", "-s", self.image, copy], check=False).returncode == 0:
                break
        else:
            raise OSError(f"the {self.kind} in {self.image} is written to for ever")
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
