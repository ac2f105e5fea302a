"""Settings that a deployment file passes to a server in variables, checked as the server reads them."""

import json

from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.settings_file import properties_text


def check_settings(server, values, folder):
    """Return the settings of *server*, ``broker`` or ``nameserver``, with *values*, all of which must be known."""
    file = folder / f"{server}.conf"
    file.write_text(properties_text(values))
    found = CliRunner().invoke(main, ["config", "-c", str(file), "--server", server, "--output", "json"])
    assert found.exit_code == 0, found.output
    assert "no setting" not in found.stderr, found.stderr
    assert "unknown" not in found.stderr, found.stderr
    settings = {key: each["value"] for key, each in json.loads(found.stdout).items()}
    assert values.keys() <= settings.keys()
    return settings


def check_command(words):
    """Fail unless *words* are a command of gantrymq with options that it has."""
    command = main.get_command(main.make_context("gantrymq", ["--help"], resilient_parsing=True), words[0])
    assert command is not None, words
    known = {option for each in command.params for option in each.opts}
    assert {word.partition("=")[0] for word in words[1:] if word.startswith("--")} <= known, words
