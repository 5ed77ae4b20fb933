"""The map of the house, rooms.toml, for the tests that read it."""

import pathlib
import tomllib

SOURCES = (".h", ".cc", ".c")


def say(complaints, what):
    """Prints the complaints of a test and what it looked at; the test's exit status."""
    for complaint in complaints:
        print(complaint)
    print(f"{what}, {len(complaints)} complaints")
    return 1 if complaints else 0


class House:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        plan = tomllib.loads((self.root / "rooms.toml").read_text(encoding="utf-8"))
        self.rooms = {room["folder"]: room for room in plan["room"]}
        self.order = list(self.rooms)
        self.users = plan["users"]
        self.packages = plan["packages"]
        self.functions_of = plan["functions_of"]
        self.strangers = [self.root / folder for folder in plan["strangers"]]
        self.limits = plan["limits"]
        self.exceptions = plan.get("exceptions", {})

    def kind(self, room):
        """Where a folder belongs: public, library, program or study; None where it is no room."""
        return self.rooms[room]["in"] if room in self.rooms else None

    def tops(self, *kinds):
        """The folders of the root that hold the rooms, or those of some kinds."""
        found = [room.split("/")[0] for room in self.order if not kinds or self.kind(room) in kinds]
        return list(dict.fromkeys(found))

    def owners(self):
        """Headers of other projects, or their folders, each with the rooms that include them."""
        owners = {}
        for room in self.order:
            for header in self.rooms[room].get("owns", []):
                owners.setdefault(header, []).append(room)
        return owners

    def may_include(self, room, other):
        if room == other:
            return True
        # The program stands where a stranger's would: on what users include, without the templates.
        if self.kind(room) == "program" and self.kind(other) != "program":
            return other == "include/vortex"
        if self.kind(other) == "public":
            return True
        # `not` names rooms, or the folder of several.
        if self.kind(room) == "public" or {other, other.split("/")[0]} & set(self.rooms[room].get("not", [])):
            return False
        return self.order.index(other) < self.order.index(room)

    def files(self, folder):
        """The files in a folder of the root, and in those that lie in it, without what is not ours to judge."""
        for path in sorted((self.root / folder).rglob("*")):
            if path.is_file() and not set(self.strangers) & set(path.parents) and "__pycache__" not in path.parts:
                yield path

    def sources(self, folder, *others):
        """Those of C and C++, and with other endings."""
        return (path for path in self.files(folder) if path.suffix in (*SOURCES, *others))
