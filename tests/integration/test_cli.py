"""The command line: exit codes, sentences, bytes on stdout."""

import json
import os
import signal
import subprocess
import time

import pytest

from harness import BIN, environment, model_path

QUESTION = "What is the capital of France, and what is it known for? Answer in two sentences."
GREEDY = ["--temperature", "0", "--max-tokens", "16"]


def tercet(*arguments, stdin=None, timeout=120, env=None):
    return subprocess.run([BIN / "tercet", *map(str, arguments)], input=stdin, capture_output=True, timeout=timeout,
                          env=environment(env), check=False)


def test_run_prints_exactly_the_answer(server):
    model = model_path("smollm2")
    first = tercet("run", model, QUESTION, *GREEDY)
    assert first.returncode == 0, first.stderr
    assert b"Paris" in first.stdout and first.stderr == b""
    # The same through a pipe, and from a running server.
    assert tercet("run", model, "-", *GREEDY, stdin=QUESTION.encode()).stdout == first.stdout
    assert tercet("run", "--url", server.url, QUESTION, *GREEDY).stdout == first.stdout


def test_run_raw_continues_the_text(server):
    answer = tercet("run", "--url", server.url, "1, 2, 3, 4,", "--raw", "--stats", *GREEDY)
    assert answer.stdout.startswith(b" 5") and b"tokens/s" in answer.stderr


def test_run_reports_what_the_server_says(server):
    answer = tercet("run", "--url", server.url, "Hi", "--temperature", "-3")
    assert answer.returncode == 1 and b"temperature" in answer.stderr and answer.stdout == b""
    nobody = tercet("run", "--url", "http://127.0.0.1:9", "Hi")
    assert nobody.returncode == 1 and b"127.0.0.1:9" in nobody.stderr


def test_run_stops_at_ctrl_c():
    running = subprocess.Popen([BIN / "tercet", "run", model_path("smollm2"), "Tell a very long story.", "--max-tokens", "4000"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment())
    assert running.stdout.read(10)
    begin = time.monotonic()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=10)
    assert running.returncode == 130 and time.monotonic() - begin < 5


def test_run_survives_a_reader_that_leaves():
    command = f"'{BIN}/tercet' run '{model_path('smollm2')}' 'Count to one hundred.' --max-tokens 30 | head -c 5"
    assert subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, env=environment(), check=False).returncode == 0


def test_chat_reads_lines_from_a_pipe(server):
    answer = tercet("chat", "--url", server.url, *GREEDY, stdin=f"{QUESTION}\n/stats\n/clear\n/nope\n/exit\n".encode())
    assert answer.returncode == 0
    assert b"Paris" in answer.stdout and b"tokens/s" in answer.stderr and b"/nope is no command" in answer.stderr


def test_inspect_tells_what_is_in_a_file():
    text = tercet("inspect", model_path("smollm2"))
    assert text.returncode == 0 and b"llama.block_count" in text.stdout and b"a token" in text.stdout
    told = json.loads(tercet("inspect", model_path("smollm2"), "--json").stdout)
    assert told["memory"]["context_length"] == 8192 and told["memory"]["kv_bytes_per_token"] == 2 * 30 * 3 * 64 * 2
    assert told["formats"]["Q4_1"]["tensors"] == 210 and len(told["tensors"]) == 272


@pytest.fixture
def bad_models(tmp_path):
    good = model_path("smollm2").read_bytes()
    cases = {"empty": b"", "text": b"hello\n", "header": good[:20], "cut in the vocabulary": good[:300000],
             "cut in the weights": good[:50_000_000], "one byte short": good[:-1]}
    # Another architecture, of the same length.
    cases["wrong architecture"] = good.replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0mamba", 1)
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    return [tmp_path / name for name in [*cases, "directory", "fifo", "missing"]]


@pytest.mark.parametrize("command", ["serve", "run", "bench"])
def test_bad_model_files_are_a_sentence_and_exit_code_1(bad_models, command):
    for path in bad_models:
        more = ["--listen", "127.0.0.1:0"] if command == "serve" else ["Hi"] if command == "run" else ["--gen", "2", "--prompt", "2"]
        answer = tercet(command, path, *more, timeout=30)
        assert answer.returncode == 1, (path.name, answer)
        lines = answer.stderr.decode().strip().splitlines()
        assert path.name in lines[-1] or "mamba" in lines[-1], (path.name, lines)
        assert answer.stdout == b""


def test_an_address_in_use_is_a_sentence(server):
    answer = tercet("serve", model_path("smollm2"), "--listen", server.url.removeprefix("http://"), timeout=30)
    assert answer.returncode == 1 and b"--listen" in answer.stderr.splitlines()[-1]


@pytest.mark.no_model
def test_wrong_usage_is_exit_code_2():
    for arguments in ([], ["frobnicate"], ["serve"], ["inspect", "x", "--frob"], ["serve", "x", "--threads", "-1"]):
        answer = tercet(*arguments)
        assert answer.returncode == 2 and b"--help" in answer.stderr
    assert tercet("--version").returncode == 0
    for command in ("run", "chat", "serve", "pull", "inspect", "bench"):
        assert tercet(command, "--help").returncode == 0
