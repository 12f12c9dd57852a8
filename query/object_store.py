"""A knowledge base on an object store (`s3://`, `gs://`, `az://`), through `obstore`.

A put is atomic there, and may be conditional: on absence, or on the version that was read. That
takes the place of renames. There are no locks: of two builds at once the later swap of `CURRENT`
fails, and gc keeps what is younger than a minimum age instead of what readers hold.

Credentials and endpoints come from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT,
GOOGLE_APPLICATION_CREDENTIALS, ...), for Lance tables and for these files alike; they are never in a
recipe or a manifest.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from stillroom.errors import BadInput, Damaged, Unreachable
from stillroom.folders import FileState, cache_folder, file_checksum, replacing
from stillroom.schemas.ids import DIGEST_BYTES

CACHE_DAYS = 30  # a cached file that was not opened for so long goes when another comes
PATIENCE = timedelta(seconds=60)  # how long a request is tried again


class ObjectFolder:
    """A prefix of an object store."""

    local = False

    def __init__(self, uri: str) -> None:
        self.uri = uri
        try:
            self._store = from_url(
                uri,
                retry_config={"retry_timeout": PATIENCE},
                client_options={"allow_http": True},  # a store on a private network may have no TLS
            )
        except (BaseError, ValueError) as error:
            raise BadInput(
                f"{uri} is not the address of an object store: {_first(error)}"
            ) from error

    def read(self, name: str) -> bytes:
        with self._asking(name):
            return bytes(obstore.get(self._store, name).bytes())

    def exists(self, name: str) -> bool:
        with self._asking(name), suppress(FileNotFoundError):
            obstore.head(self._store, name)
            return True
        return False

    def checksum(self, name: str) -> str:
        state = blake2b(digest_size=DIGEST_BYTES)
        with self._asking(name):
            for block in obstore.get(self._store, name):
                state.update(block)
        return state.hexdigest()

    def write(self, name: str, data: bytes) -> None:
        with self._asking(name):
            obstore.put(self._store, name, data)

    def create(self, name: str, data: bytes) -> bool:
        with self._asking(name):
            try:
                obstore.put(self._store, name, data, mode="create")
            except AlreadyExistsError:
                return False
        return True

    def swap(self, name: str, expected: bytes | None, data: bytes) -> bool:
        if expected is None:
            made = self.create(name, data)
        else:
            made = self._replace(name, expected, data)
        # Where an answer was lost, the second try finds what the first one wrote.
        return made or self.read(name) == data

    def _replace(self, name: str, expected: bytes, data: bytes) -> bool:
        with self._asking(name):
            found = obstore.get(self._store, name)
            if bytes(found.bytes()) != expected:
                return False
            seen = (("e_tag", found.meta["e_tag"]), ("version", found.meta["version"]))
            version = {kind: value for kind, value in seen if value is not None}
            with suppress(PreconditionError):
                obstore.put(self._store, name, data, mode=cast(Any, version))
                return True
        return False

    def files(self, prefix: str = "") -> list[FileState]:
        now = datetime.now(UTC)
        with self._asking(prefix):
            return sorted(
                FileState(one["path"], one["size"], (now - one["last_modified"]).total_seconds())
                for batch in obstore.list(self._store, prefix=prefix or None)
                for one in batch
            )

    def folders(self, prefix: str) -> list[str]:
        with self._asking(prefix):
            listed = obstore.list_with_delimiter(self._store, prefix=prefix or None)
        return sorted(path.rstrip("/").rpartition("/")[2] for path in listed["common_prefixes"])

    def remove(self, name: str) -> None:
        inside = [file.name for file in self.files(name)]
        with self._asking(name), suppress(FileNotFoundError):
            obstore.delete(self._store, inside or name)

    def path(self, name: str, size: int, checksum: str) -> Path:
        """From the cache, by its checksum; fetched first where it is not there."""
        cached = cache_folder() / checksum
        try:
            if cached.stat().st_size == size:
                os.utime(cached)
                return cached
        except OSError:
            pass  # not there, or just swept
        return self._fetch(name, size, checksum, cached)

    def place(self, made: Path, name: str) -> None:
        """Upload, and keep what was made in the cache: whoever built it reads it next."""
        cache = cache_folder()
        for path in sorted(made.iterdir()):
            with self._asking(name):
                obstore.put(self._store, f"{name}/{path.name}", path)
            shutil.move(path, cache / file_checksum(path))

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="stillroom-", dir=cache_folder()) as made:
            yield Path(made)

    def lock(self) -> Any:
        return nullcontext()

    def hold(self, name: str) -> None:
        return None

    def is_held(self, name: str) -> bool:
        return False

    def _fetch(self, name: str, size: int, checksum: str, cached: Path) -> Path:
        _sweep(cached.parent)
        state, found = blake2b(digest_size=DIGEST_BYTES), 0
        with replacing(cached) as aside:
            try:
                with self._asking(name), aside.open("wb") as sink:
                    for block in obstore.get(self._store, name):
                        sink.write(block)
                        state.update(block)
                        found += len(block)
            except FileNotFoundError as error:
                raise Damaged(f"{self.uri}/{name} is missing") from error
            if (found, state.hexdigest()) != (size, checksum):
                raise Damaged(f"{self.uri}/{name} is not what its manifest says")
        return cached

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except (BaseError, OSError, ValueError) as error:
            raise Unreachable(f"{self.uri}/{name}: {_first(error)}") from error


def _sweep(cache: Path) -> None:
    """Remove what nobody opened lately. What a reader has mapped stays readable for it."""
    oldest = time.time() - CACHE_DAYS * 86_400
    for path in cache.iterdir():
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _first(error: BaseException) -> str:
    """The first line: the rest of what obstore says is its own structure."""
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__
