"""A hub model that lies in the cache in part is completed, or `hf download` is named; a whole one asks nothing."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote

import huggingface_hub
import pytest

from zoo.engine.backbone import find_backbone
from zoo.engine.hub_models import from_hub
from zoo.errors import MissingError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """One repository: what the hub says about it, its tree and its files."""

    folder: Path
    asked: list[str]

    def do_GET(self) -> None:
        path = unquote(self.path.split("?")[0])
        type(self).asked.append(path)
        files = sorted(one for one in self.folder.rglob("*") if one.is_file())
        names = [one.relative_to(self.folder).as_posix() for one in files]
        headers = {"X-Repo-Commit": COMMIT}
        if "/tree/" in path:
            sizes = zip(names, files, strict=True)
            answer = [{"type": "file", "path": n, "size": f.stat().st_size, "oid": f"{n:0<40.40}"} for n, f in sizes]
            content = json.dumps(answer).encode()
        elif path.startswith("/api/"):
            listing = {"id": "acme/tiny", "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            content = json.dumps(listing).encode()
        else:
            name = path.partition(f"/resolve/{COMMIT}/")[2]
            content = (self.folder / name).read_bytes()
            headers["ETag"] = f'"{name:0<40.40}"'.replace("/", "-")
        self.send_response(200)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    """A hub of this machine, which has a model, and a cache with the model's configuration and tokenizer alone."""
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "whole"))
    (folder / "modules.json").write_text("[]", encoding="utf-8")
    cached = tmp_path / "cache" / "models--acme--tiny"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    shutil.copytree(tiny_bert, cached / "snapshots" / COMMIT, ignore=shutil.ignore_patterns("*.safetensors"))
    handler = type("Handler", (Hub,), {"folder": folder, "asked": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    from_hub.cache_clear()
    yield handler
    from_hub.cache_clear()
    server.shutdown()
    server.server_close()


def test_the_rest_of_a_model_is_fetched_once(hub: type[Hub], tiny_bert: Path) -> None:
    folder = from_hub("acme/tiny", None)
    assert (folder / "modules.json").is_file()
    assert (folder / "model.safetensors").read_bytes() == (tiny_bert / "model.safetensors").read_bytes()
    hub.asked.clear()
    from_hub.cache_clear()
    assert from_hub("acme/tiny", None) == folder and hub.asked == []


def test_without_the_hub_the_command_is_named(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(MissingError, match=r"only a part of it.*`hf download acme/tiny`"):
        find_backbone("acme/tiny")
    assert hub.asked == []


def test_what_seems_whole_is_used_where_the_hub_is_out_of_reach(
    hub: type[Hub], tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = Path(huggingface_hub.constants.HF_HUB_CACHE) / "models--acme--tiny" / "snapshots" / COMMIT
    shutil.copy(tiny_bert / "model.safetensors", folder)
    assert find_backbone("acme/tiny").folder == folder


@pytest.mark.parametrize(
    ("there", "onnx", "fetched"),
    [
        ("model.onnx model.onnx_data model_qint8.onnx", None, ""),
        ("model.onnx model.onnx_data model_qint8.onnx", "", "model.onnx model.onnx_data"),
        ("model.onnx model.onnx_data model_qint8.onnx", "model_qint8.onnx", "model_qint8.onnx"),
        ("model.onnx model.onnx_data model_qint8.onnx", "onnx/model_qint8.onnx", "model_qint8.onnx"),
        ("model_O1.onnx model_O2.onnx", "", "model_O1.onnx model_O2.onnx"),
    ],
)
def test_of_the_onnx_files_the_one_that_is_run_is_fetched(
    there: str, onnx: str | None, fetched: str, hub: type[Hub]
) -> None:
    """Once: a second call asks nothing."""
    (hub.folder / "onnx").mkdir()
    for name in there.split():
        (hub.folder / "onnx" / name).write_text(name, encoding="utf-8")
    folder = from_hub("acme/tiny", None, onnx)
    assert sorted(path.name for path in folder.glob("onnx/*")) == fetched.split()
    hub.asked.clear()
    from_hub.cache_clear()
    assert from_hub("acme/tiny", None, onnx) == folder and hub.asked == []
