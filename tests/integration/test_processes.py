"""Each process by itself: help, flags from three places, health and reflection, its own metrics."""

import socket
import subprocess

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from harness import BIN, environment, model_path, wait_until

PROGRAMS = ["tercet-gateway", "tercet-tokenizer", "tercet-scheduler", "tercet-executor"]


@pytest.mark.no_model
@pytest.mark.parametrize("program", PROGRAMS)
def test_help_names_flags_and_their_environment(program):
    text = subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=True, env=environment()).stdout
    for flag in ("--listen", "--metrics-listen", "--log-level", "--log-format", "--drain-ms", "--config", "--ready-file", "--version"):
        assert flag in text
    assert "TERCET_LISTEN" in text


@pytest.mark.no_model
@pytest.mark.parametrize("program", PROGRAMS)
def test_unknown_flags_and_keys_are_refused(program, tmp_path):
    wrong = subprocess.run([BIN / program, "--frobnicate"], capture_output=True, text=True, timeout=20, env=environment(), check=False)
    assert wrong.returncode == 2 and "frobnicate" in wrong.stderr
    config = tmp_path / "tercet.ini"
    config.write_text("frobnicate = 1\n")
    wrong = subprocess.run([BIN / program, "--config", config], capture_output=True, text=True, timeout=20, env=environment(), check=False)
    assert wrong.returncode == 2 and "frobnicate" in wrong.stderr


@pytest.mark.parametrize("way", ["flag", "environment", "file"])
def test_a_flag_an_environment_variable_and_a_key_are_the_same(tmp_path, way):
    ready = tmp_path / "ready"
    values = {"listen": f"unix:{tmp_path}/t.sock", "metrics-listen": "127.0.0.1:0", "model": str(model_path("smollm2")),
              "ready-file": str(ready)}
    arguments, env = [], {}
    if way == "flag":
        arguments = [f"--{key}={value}" for key, value in values.items()]
    elif way == "environment":
        env = {"TERCET_" + key.upper().replace("-", "_"): value for key, value in values.items()}
    else:
        (tmp_path / "tercet.ini").write_text("".join(f'{key} = "{value}"\n' for key, value in values.items()))
        arguments = ["--config", tmp_path / "tercet.ini"]
    process = subprocess.Popen([BIN / "tercet-tokenizer", *arguments], env=environment(env), stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, 30, "the tokenizer")
        assert process.poll() is None, process.stderr.read()
        with grpc.insecure_channel(f"unix:{tmp_path}/t.sock") as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for service in ("", "tercet.v1.Tokenizer"):
                reply = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
                assert reply.status == health_pb2.HealthCheckResponse.SERVING
    finally:
        process.terminate()
        assert process.wait(20) == 0


@pytest.mark.parametrize("name, service", [("tokenizer", "tercet.v1.Tokenizer"), ("scheduler", "tercet.v1.Scheduler"),
                                           ("executor", "tercet.v1.Executor")])
def test_health_reflection_and_metrics(server, name, service):
    process = server.processes()[name]
    with grpc.insecure_channel(process["listen"]) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for checked in ("", service):
            reply = health.Check(health_pb2.HealthCheckRequest(service=checked), timeout=10)
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        watched = next(iter(health.Watch(health_pb2.HealthCheckRequest(service=service), timeout=10)))
        assert watched.status == health_pb2.HealthCheckResponse.SERVING
        assert service in ProtoReflectionDescriptorDatabase(channel).get_services()
    assert any(key.startswith("tercet_") for key in server.metrics(name))


def test_metrics_names_are_clean(server):
    for name in server.processes():
        for key in server.metrics(name):
            assert ":" not in key.split("{")[0]


def test_nothing_listens_beyond_this_machine(server):
    """Every TCP socket of the five processes is bound to loopback."""
    import os
    inodes = set()
    for pid in [server.process.pid, *(process["pid"] for process in server.processes().values())]:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
            except FileNotFoundError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    listening = 0
    for table, loopback in (("/proc/net/tcp", "0100007F"), ("/proc/net/tcp6", "00000000000000000000000001000000")):
        with open(table, encoding="utf-8") as lines:
            for line in list(lines)[1:]:
                fields = line.split()
                if fields[9] in inodes and fields[3] == "0A":
                    listening += 1
                    assert fields[1].split(":")[0] == loopback, line
    assert listening >= 1
    assert socket.gethostname()


def test_the_sockets_are_for_this_user_only(server):
    import os
    import stat
    directory = os.path.dirname(server.processes()["executor"]["listen"].removeprefix("unix:"))
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
