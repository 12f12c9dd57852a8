"""The builds of a knowledge base: listed, pointed at, rolled back. Only files, no tables: a serving host
can roll back with nothing but the base install.
"""

from stillroom.errors import BadInput
from stillroom.folders import Locked, PathLike, open_folder
from stillroom.schemas.manifest import Manifest
from stillroom.store import CURRENT, Build, current_build, manifest_name, read_manifest


def swap_current(kb: PathLike, expected: str, build: str) -> bool:
    """Make `build` the live one where `expected` still is (or none, for ""); whether it is live now.
    In a local folder, the lock is held."""
    before = f"{expected}\n".encode() if expected else None
    return open_folder(kb).swap(CURRENT, before, f"{build}\n".encode())


def list_builds(kb: PathLike) -> list[Manifest]:
    """All builds that are kept, in the order in which they were made: each has committed a version of
    its own to the tables, and clocks of stores are too coarse to tell."""
    made = [read_manifest(kb, name) for name in _names(kb)]
    return sorted(made, key=lambda manifest: (manifest.tables["documents"].version, manifest.build))


def find_build(kb: PathLike, name: str) -> str:
    """The full id of a build by its beginning. Raises BadInput for none or several."""
    names = _names(kb)
    found = [one for one in names if one.startswith(name)]
    if len(found) != 1 or not name:
        kept = ", ".join(one[:12] for one in names) or "none"
        raise BadInput(f"{len(found)} builds of {kb} begin with {name!r}; there are {kept}")
    return found[0]


def rollback(kb: PathLike, name: str) -> str:
    """Point `CURRENT` at an earlier build (or a later one again), after a look at its files; the id
    that is live now. Raises BadInput, Damaged, VersionSkew, Locked."""
    with open_folder(kb).lock():
        build, live = find_build(kb, name), current_build(kb)
        Build(kb, read_manifest(kb, build))  # refuses what could not be served
        if live != build and not swap_current(kb, live, build):
            raise Locked(f"another build of {kb} went live meanwhile")
    return build


def _names(kb: PathLike) -> list[str]:
    """Ids of builds that are whole: what a crash left has no manifest."""
    files = open_folder(kb).files("builds")
    return [f.name.split("/")[1] for f in files if f.name == manifest_name(f.name.split("/")[1])]
