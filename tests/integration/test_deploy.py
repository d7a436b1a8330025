"""What deploy/ ships fits the programs: every program, flag and key in it exists."""

import configparser
import re
import shlex
import subprocess

import pytest

from harness import BIN, SOURCE, environment

pytestmark = pytest.mark.no_model
UNITS = sorted((SOURCE / "deploy/systemd").glob("*.service"))
CONFIGS = sorted((SOURCE / "deploy/config").glob("*.ini"))


def help_of(*command):
    return subprocess.run([BIN / command[0], *command[1:], "--help"], capture_output=True, text=True, check=True, env=environment()).stdout


@pytest.mark.parametrize("unit", UNITS, ids=lambda p: p.name)
def test_units_start_programs_with_flags_that_exist(unit):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(unit)
    command = shlex.split(parser["Service"]["ExecStart"])
    assert command[0].startswith("/usr/local/bin/") and (BIN / command[0].rsplit("/", 1)[1]).exists()
    if command[0].endswith("/tercet"):
        text = help_of("tercet", "serve")
        flags = shlex.split((SOURCE / "deploy/config/serve.env").read_text().split("TERCET_SERVE_FLAGS=")[1])
    else:
        text = help_of(command[0].rsplit("/", 1)[1])
        flags = command[1:]
        assert (SOURCE / "deploy/config" / command[-1].rsplit("/", 1)[1]).exists()
    for flag in flags:
        if flag.startswith("--"):
            assert re.search(rf"{flag}\b", text), flag


@pytest.mark.parametrize("config", CONFIGS, ids=lambda p: p.name)
def test_configuration_files_are_accepted(config, tmp_path):
    # An address that cannot be listened on ends the program right after it has understood its flags.
    copy = tmp_path / config.name
    copy.write_text(config.read_text().replace("/var/lib/tercet/smollm2.gguf", "/nonexistent.gguf"))
    ended = subprocess.run([BIN / f"tercet-{config.stem}", "--config", copy, "--listen", "256.256.256.256:1", "--metrics-listen", ""],
                           capture_output=True, text=True, timeout=30, env=environment(), check=False)
    assert ended.returncode == 1, ended.stderr
