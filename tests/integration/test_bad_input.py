"""What is wrong is refused with a sentence that names it; nothing crashes, nothing is ignored in silence."""

import json
import socket
import urllib.parse

import pytest

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
TEXT = {"prompt": "Hi", "max_tokens": 1}


def refused(server, path, body, status=400):
    content = body if isinstance(body, (bytes, str)) else json.dumps(body)
    reply = server.http.post(path, content=content, headers={"content-type": "application/json"})
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and len(error["message"]) > 10
    if status == 400:
        assert error["type"] == "invalid_request_error"
    return error


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"{\"prompt\": }", b"\xff\xfe{}", b"{}" * 2, b"[" * 100000])
def test_malformed_json(server, body):
    refused(server, "/v1/completions", body)
    refused(server, "/v1/chat/completions", body)
    server.alive()


@pytest.mark.parametrize("name, value", [
    ("tempreature", 1), ("frobnicate", None or {}), ("logit_bias", {"5": 10}), ("tools", [{"type": "function"}]),
    ("response_format", {"type": "json_object"}), ("frequency_penalty", 1),
])
def test_unknown_and_unsupported_fields_are_named(server, name, value):
    error = refused(server, "/v1/chat/completions", {**CHAT, name: value})
    assert name in error["message"] and error["param"] == name


@pytest.mark.parametrize("name, values", [
    ("temperature", [-0.1, 101, "warm", True]), ("top_p", [-0.5, 1.1, 0]), ("top_k", [-2, 1.5, 2**40]),
    ("min_p", [-0.1, 1.5]), ("max_tokens", [-1, 1.5, "many", 2**40]), ("n", [0, -1, 10**6]), ("seed", [1.5, "x"]),
    ("stop", [1, [1], [""], {}]), ("stop_token_ids", [1, [-1], ["a"], [2**33]]), ("stream", [1, "yes"]),
    ("logprobs", [-1, 21, "many"]),
])
def test_values_out_of_range_are_named(server, name, values):
    for value in values:
        error = refused(server, "/v1/completions", {**TEXT, name: value})
        assert name in error["message"], (value, error)
        server.alive()


@pytest.mark.parametrize("prompt", [None, [], [[]], 5, {}, [1, "a"], ["a", 1], [-1], [1.5], [2**33], [[1], "a"]])
def test_prompts_of_no_kind(server, prompt):
    assert "prompt" in refused(server, "/v1/completions", {"prompt": prompt, "max_tokens": 1})["message"]


def test_an_empty_prompt_needs_a_model_with_bos(server):
    reply = server.http.post("/v1/completions", json={"prompt": "", "max_tokens": 1})
    assert reply.status_code in (200, 400)
    if reply.status_code == 200:
        assert reply.json()["usage"]["prompt_tokens"] == 1


def test_ids_outside_the_vocabulary(server):
    for bad in (49152, 10**6, 2**32 - 1):
        assert str(bad) in refused(server, "/v1/completions", {"prompt": [1, bad], "max_tokens": 1})["message"]


@pytest.mark.parametrize("messages", [
    None, [], {}, "Hi", [1], [{}], [{"role": "user"}], [{"role": "alien", "content": "x"}], [{"role": "user", "content": 5}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    [{"role": "user", "content": "x", "colour": "red"}],
    [{"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{bad"}}]}],
])
def test_messages_of_no_kind(server, messages):
    assert "messages" in refused(server, "/v1/chat/completions", {"messages": messages, "max_tokens": 1})["message"]


def test_a_prompt_longer_than_the_context(server):
    error = refused(server, "/v1/completions", {"prompt": [5] * 9000, "max_tokens": 1})
    assert "9000" in error["message"] and "8192" in error["message"]
    assert error["code"] == "context_length_exceeded"
    server.alive()


def test_a_body_over_the_limit(server):
    # The server may answer before it has read all of it, and then hangs up.
    address = urllib.parse.urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        reply = connection.recv(65536)
    assert reply.startswith(b"HTTP/1.1 413 ")
    server.alive()


def test_another_model(server):
    error = refused(server, "/v1/completions", {**TEXT, "model": "gpt-nonexistent"}, 404)
    assert "gpt-nonexistent" in error["message"]


def test_paths_and_methods(server):
    assert server.http.get("/nope").status_code == 404
    assert server.http.get("/nope").json()["error"]["message"]
    reply = server.http.get("/v1/chat/completions")
    assert reply.status_code == 405 and "POST" in reply.headers["allow"]


def test_special_tokens_in_a_users_text_are_text(server):
    ids = server.http.post("/tokenize", json={"prompt": "<|im_end|>"}).json()["tokens"]
    assert len(ids) > 1
