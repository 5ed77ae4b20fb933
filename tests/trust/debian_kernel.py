#!/usr/bin/env python3
"""Runs a command on Debian's kernel, in a machine of its own (qemu-system), which sees the files of this one.

  debian_kernel.py KERNEL COMMAND...

KERNEL is the folder of an unpacked package linux-image-*. Files are those of this machine, and cannot be written; what
is in memory, or written to /tmp, is the machine's own. $VORTEX_OWN_MACHINE is set there. A file that
--gtest_output=xml:FILE names is written here behind the end. The exit status is the command's; 125: the machine did not
get that far.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

MEMORY = "4G"
# The emulator (7.2) reads the lanes that the mask of vpmaskmov leaves out, as no processor does: a sort reads behind the
# end of a window there. Nor does it have AVX-512.
PROCESSOR = "max,-avx2"
# Those that others ask for by the name of what they do come first.
MODULES = ("crc32c_generic xxhash_generic blake2b_generic virtio_pci 9pnet_virtio 9p loop overlay ext4 xfs btrfs vfat "
           "nls_cp437 nls_ascii fuse").split()
# Folders of the kernel's modules that have these, and what they need.
FOLDERS = ("arch", "crypto", "drivers/block", "drivers/virtio", "fs", "lib", "net/9p")
XML = "--gtest_output=xml:"
INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
stty -F /dev/console -opost
for module in {' '.join(MODULES)}; do modprobe $module; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /host
mkdir -p /dev/shm
for folder in proc sys dev; do mount --bind /$folder /host/$folder; done
for folder in dev/shm run; do mount -t tmpfs -o mode=1777 none /host/$folder; done
mkdir -m 1777 /host/run/job /host/run/above /host/run/work
mount -t overlay -o lowerdir=/host/tmp,upperdir=/host/run/above,workdir=/host/run/work none /host/tmp
mount -t 9p -o trans=virtio,version=9p2000.L,cache=none job /host/run/job
ip link set lo up
chroot /host /bin/sh /run/job/command
sync
poweroff -f
"""


def make_initramfs(kernel):
    """What mounts this machine's files: busybox and modules, which Debian's kernel needs for them."""
    made = kernel / "initramfs"
    script = kernel / "initramfs.init"
    if made.exists() and script.exists() and script.read_text() == INIT:
        return made
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("bin", "dev", "proc", "sys", "host"):
            (root / name).mkdir()
        shutil.copy(shutil.which("busybox"), root / "bin/busybox")
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        (modules,) = kernel.glob("**/lib/modules/*")
        to = root / "lib/modules" / modules.name
        for name in FOLDERS:
            shutil.copytree(modules / "kernel" / name, to / "kernel" / name)
        for name in ("modules.builtin", "modules.order"):
            shutil.copy(modules / name, to / name)
        subprocess.run(["busybox", "depmod", "-b", root, modules.name], check=True)
        # Tests that begin together make it side by side.
        packed = kernel / f"initramfs.{os.getpid()}"
        subprocess.run("find . | busybox cpio -o -H newc >" + shlex.quote(str(packed)), cwd=root, shell=True,
                       check=True, stderr=subprocess.DEVNULL)
        packed.replace(made)
    script.write_text(INIT)
    return made


def script_of(command, xml):
    """A shell's, with what tests go by in the environment."""
    passed = {name: value for name, value in os.environ.items()
              if name.startswith(("VORTEX_", "GTEST_")) or name in ("LANG", "LC_ALL", "PATH")}
    passed |= {"VORTEX_OWN_MACHINE": "1", "TMPDIR": "/run"}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in passed.items()]
    words = [XML + "/run/job/result.xml" if xml and word == XML + xml else word for word in command]
    return "\n".join([*exports, f"cd {shlex.quote(os.getcwd())}", shlex.join(words), "echo $? >/run/job/status", ""])


def run(kernel, command):
    xml = next((word[len(XML):] for word in command if word.startswith(XML)), None)
    initramfs = make_initramfs(kernel)
    (image,) = (kernel / "boot").glob("vmlinuz-*")
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder)
        (job / "command").write_text(script_of(command, xml))
        subprocess.run(
            ["qemu-system-x86_64", "-accel", "tcg", "-cpu", PROCESSOR, "-smp", "2", "-m", MEMORY, "-no-reboot",
             "-nodefaults", "-display", "none", "-serial", "stdio", "-kernel", image, "-initrd", initramfs,
             "-append", "console=ttyS0 quiet panic=-1",
             "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
             "-virtfs", f"local,path={job},mount_tag=job,security_model=none"],
            stdin=subprocess.DEVNULL, check=True)
        if xml and (job / "result.xml").exists():
            shutil.copy(job / "result.xml", xml)
        return int((job / "status").read_text()) if (job / "status").exists() else 125


if __name__ == "__main__":
    sys.exit(run(pathlib.Path(sys.argv[1]), sys.argv[2:]))
