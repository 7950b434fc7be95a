"""The files under docs/deploy: their syntax, what they name, and that their commands are ones that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from inorder_cli.app import run

PROJECT = Path(__file__).parent.parent
DEPLOY = PROJECT / "docs" / "deploy"
INSTRUCTIONS = frozenset(
    "ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN USER VOLUME WORKDIR".split()  # noqa: SIM905
)


def assert_command(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """Check that a command line's options are known, without doing what it says."""
    code = run([*arguments, "--help"])
    assert code == 0, capfd.readouterr().err


# -- systemd -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["inorder-worker.service", "inorder-controlplane.service"])
def test_units(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = (DEPLOY / name).read_text()
    started = re.findall(r"^ExecStart=(/\S+/inorder) (.*)$", text, re.MULTILINE)
    assert len(started) == 1
    assert_command(started[0][1].split(), capfd)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / name
    unit.write_text(text.replace(started[0][0], "/bin/true"))
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    about_ours = [line for line in checked.stderr.splitlines() if name in line]
    assert (checked.returncode, about_ours) == (0, [])


# -- the container -----------------------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    lines = re.sub(r"\\\n\s*", " ", (DEPLOY / "Containerfile").read_text()).splitlines()
    parts = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, rest in parts]


def test_the_containerfile(capfd: pytest.CaptureFixture[str]) -> None:
    found = instructions()
    assert found[0][0] == "FROM"
    assert {word for word, _ in found} <= INSTRUCTIONS
    stages = [rest.split()[-1] for word, rest in found if word == "FROM" and " AS " in rest]
    for rest in (rest for word, rest in found if word == "FROM"):
        assert re.match(r"docker\.io/\S+:\d[\w.-]*( AS \w+)?$", rest), "a base has a registry and a version"
    for rest in (rest for word, rest in found if word == "COPY"):
        *sources, _ = rest.split()
        if sources[0].startswith("--from="):
            assert sources[0].removeprefix("--from=") in stages
        else:
            assert all((PROJECT / source).exists() for source in sources), rest
    users = [rest for word, rest in found if word == "USER"]
    assert users
    assert users[-1] not in ("0", "root")
    commands = dict(found)
    assert json.loads(commands["ENTRYPOINT"]) == ["inorder"]
    assert_command(json.loads(commands["CMD"]), capfd)


# -- compose -----------------------------------------------------------------------------------------------------------


def test_the_compose_file(capfd: pytest.CaptureFixture[str]) -> None:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services, volumes = document["services"], document["volumes"]
    assert set(services) == {"database", "worker", "standby", "controlplane"}
    for name, service in services.items():
        assert "image" in service, name
        assert set(service.get("depends_on", {})) <= set(services)
        for wanted, condition in service.get("depends_on", {}).items():
            assert condition == {"condition": "service_healthy"}
            assert "healthcheck" in services[wanted]
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in volumes
        if "build" in service:
            context = DEPLOY / service["build"]["context"]
            assert (context / service["build"]["dockerfile"]).is_file()
        if "command" in service:
            assert_command(service["command"], capfd)
    for variable in services["controlplane"]["environment"]:
        assert re.fullmatch(r"INORDER_[A-Z]+__[A-Z_]+", variable)


def test_settings_in_variables_are_ones_that_there_are() -> None:
    """Also in comments and documents."""
    from inorder.settings.reading import settings

    known = {f"INORDER_{section}__{key}".upper() for section, key, _ in settings()}
    for path in [*DEPLOY.iterdir(), PROJECT / "docs" / "CONTROLPLANE.md"]:
        assert set(re.findall(r"INORDER_[A-Z]+__[A-Z_]+", path.read_text())) <= known, path
