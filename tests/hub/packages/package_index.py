"""An index of tiny Python packages on loopback, which may lie; and skills that declare packages."""

from __future__ import annotations

import base64
import contextlib
import functools
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from metier.skill.package import Files

SKILL = b"---\nname: peek\ndescription: Looks at it.\n---\nRun scripts/peek.py.\n"


def skill_files(script: str = "import tiny\nprint(tiny.WORD)\n", **files: str) -> Files:
    """A skill; a name such as `requirements_txt` is that of a file."""
    more = {name.replace("_", ".", 1): text for name, text in files.items()}
    texts = {"SKILL.md": SKILL.decode(), "scripts/peek.py": script, **more}
    return {path: ("file", text.encode()) for path, text in texts.items()}


def write_files(folder: Path, files: Files) -> Path:
    for path, (_, data) in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def wheel(name: str, version: str, files: dict[str, str], requires: str = "") -> bytes:
    """A wheel, the same bytes each time."""
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [
        f"{path},sha256={base64.urlsafe_b64encode(sha256(text.encode()).digest()).decode().rstrip('=')},{len(text)}\n"
        for path, text in contents.items()
    ]
    contents[f"{info}/RECORD"] = f"{''.join(rows)}{info}/RECORD,,\n"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in contents.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return file.getvalue()


def source_distribution(name: str, version: str, setup: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        for path, text in (("setup.py", setup), ("PKG-INFO", metadata)):
            info = tarfile.TarInfo(f"{name}-{version}/{path}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return file.getvalue()


class PackageIndex:
    """The pages and files of an index, which may be changed at any time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = ""
        self.requests: list[str] = []

    def add(self, name: str, file: str, data: bytes, *, claims: bytes | None = None) -> None:
        """Publish a file; its page `claims` the hash of other bytes, where the index lies."""
        folder = self.root / "simple" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(data)
        digest = sha256(claims or data).hexdigest()
        with (folder / "index.html").open("a") as page:
            page.write(f'<a href="{file}#sha256={digest}">{file}</a><br>\n')

    def add_wheel(
        self,
        name: str,
        version: str = "1.0",
        *,
        requires: str = "",
        claims: bytes | None = None,
        files: Mapping[str, str] | None = None,
    ) -> bytes:
        """Publish a wheel of a module that says a word; `files` are others in it."""
        contents = {f"{name}.py": f"WORD = '{name} {version}'\n", **(files or {})}
        data = wheel(name, version, contents, requires)
        self.add(name, f"{name}-{version}-py3-none-any.whl", data, claims=claims)
        return data

    def swap(self, name: str, version: str, data: bytes) -> None:
        """Put other bytes in place of a wheel, with a page that says so truthfully."""
        (self.root / "simple" / name / "index.html").unlink()
        self.add(name, f"{name}-{version}-py3-none-any.whl", data)


@contextlib.contextmanager
def served(index: PackageIndex) -> Iterator[PackageIndex]:
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            index.requests.append(self.path)

    (index.root / "simple").mkdir(parents=True, exist_ok=True)
    make = functools.partial(Handler, directory=str(index.root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), make) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        index.url = f"http://127.0.0.1:{server.server_port}/simple"
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()
