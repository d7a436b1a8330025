"""Bytes that are no proper HTTP: refused, the connection closed, nothing of it taken for a second request."""

import socket
import time
import urllib.parse

import pytest

BODY = b'{"prompt":"Hi","max_tokens":1}'


def send(server, data, timeout=20):
    """All that the server answers until it closes, or falls silent for a second."""
    address = urllib.parse.urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=timeout) as connection:
        connection.sendall(data)
        connection.settimeout(3)
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except (TimeoutError, ConnectionResetError):
            pass
        return answer


def post(headers, body=BODY, path=b"/v1/completions"):
    return b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + headers + b"\r\n" + body


LENGTH = b"Content-Length: %d\r\n" % len(BODY)

MALFORMED = {
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no version": b"GET /health\r\n\r\n",
    "two lengths": post(LENGTH + b"Content-Length: 3\r\n"),
    "length and chunks": post(LENGTH + b"Transfer-Encoding: chunked\r\n"),
    "unknown coding": post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    "negative length": post(b"Content-Length: -5\r\n"),
    "length of 20 digits": post(b"Content-Length: 99999999999999999999\r\n"),
    "space before colon": post(LENGTH + b"X-A : b\r\n"),
    "folded header": post(LENGTH + b"X-A: b\r\n c\r\n"),
    "bare line feeds": post(LENGTH).replace(b"\r\n", b"\n"),
    "zero byte": post(LENGTH + b"X-A: a\0b\r\n"),
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "chunk size overflow": post(b"Transfer-Encoding: chunked\r\n", b"fffffffffffffffff\r\nx\r\n0\r\n\r\n"),
    "chunk without size": post(b"Transfer-Encoding: chunked\r\n", b"xyz\r\n"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_refused_once_and_closed(server, name):
    # What follows the bad request must never be read as one.
    answer = send(server, MALFORMED[name] + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 ", b"HTTP/1.1 501 ", b"HTTP/1.1 505 ")), answer
    assert answer.count(b"HTTP/1.") <= 1 and b"200 OK" not in answer
    server.alive()


def test_limits_of_the_head(server):
    assert send(server, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 414 ")
    assert send(server, b"GET /health HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 20000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431 ")
    many = b"".join(b"X-%d: a\r\n" % i for i in range(200))
    assert send(server, b"GET /health HTTP/1.1\r\nHost: x\r\n" + many + b"\r\n").startswith(b"HTTP/1.1 431 ")


def test_good_requests_in_many_pieces(server):
    address = urllib.parse.urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        for byte in post(LENGTH + b"Connection: close\r\n"):
            connection.sendall(bytes([byte]))
        answer = b""
        while part := connection.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_a_chunked_body(server):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (BODY[:5], BODY[5:])) + b"0\r\n\r\n"
    answer = send(server, post(b"Transfer-Encoding: chunked\r\nConnection: close\r\n", chunks))
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_requests_one_behind_the_other(server):
    answer = send(server, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 2 + b"GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 ") == 3


def test_idle_connections_do_not_keep_others_out(server):
    address = urllib.parse.urlsplit(server.url)
    idle = [socket.create_connection((address.hostname, address.port), timeout=10) for _ in range(200)]
    for connection in idle[::2]:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\n")
    begin = time.monotonic()
    server.alive()
    assert time.monotonic() - begin < 5
    for connection in idle:
        connection.close()
