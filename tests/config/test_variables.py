"""`${NAME}` and the file of variables: what is filled, what is secret, and that no error repeats a value."""

import json
from pathlib import Path
from typing import Any

import pytest

from longwatch.config.variables import UnsetError, Variables

HARNESS = '[harness.a]\ncommand = ["sh", "${ARG}"]\nenv_file = "vars"\nenv = { KEY = "x-${KEY}", PLACE = "${HOME}/y" }\n'


def write(folder: Path, text: str, mode: int = 0o600) -> None:
    """Write the file of variables."""
    (folder / "vars").write_text(text)
    (folder / "vars").chmod(mode)


def test_the_file_comes_first(read: Any, tmp_path: Path) -> None:
    """A value comes from env_file, else from the environment; the harness gets all of env_file and its own env."""
    write(
        tmp_path,
        '# keys\nexport KEY = abc123 # mine\n\nQUOTED="a \\"b\\"\\n#c" # no\nRAW=\'$x #y\'\nEMPTY=\nARG=--flag=1\n',
    )
    loaded = read(HARNESS, {"KEY": "of the environment", "HOME": "/h", "PATH": "/bin", "OTHER": "zz"})
    assert [str(error) for error in (*loaded.errors, *loaded.warnings)] == []
    (harness,) = loaded.harnesses
    assert harness.command == ("sh", "--flag=1")
    assert harness.env == {
        "KEY": "x-abc123", "PLACE": "/h/y", "QUOTED": 'a "b"\n#c', "RAW": "$x #y", "EMPTY": "", "ARG": "--flag=1",
    }  # fmt: skip
    assert loaded.files == ["longwatch.toml", str(tmp_path / "vars")]


@pytest.mark.capability("CAP-132")
def test_what_is_secret(read: Any, tmp_path: Path) -> None:
    """All that env_file says and what `${NAME}` brings, but not HOME and not what is too short to hide."""
    write(tmp_path, "KEY=abc123\nARG=ab\n")
    loaded = read(
        HARNESS.replace("KEY = ", 'B = "${TOKEN}", KEY = '),
        {"HOME": "/home/me", "TOKEN": "tok-1", "PATH": "/bin"},
    )
    assert loaded.harnesses[0].secrets == ("abc123", "tok-1")
    assert loaded.as_dict()["secrets"] == ["abc123", "tok-1"]


@pytest.mark.capability("CAP-132")
def test_errors_repeat_no_value(read: Any, tmp_path: Path) -> None:
    """A line of the file of variables, a filled command, an address: what is wrong is told by its name."""
    secret = "hunter22hunter22"
    write(tmp_path, f"KEY={secret}\n{secret}\nARG='{secret}\n")
    text = (
        f'{HARNESS}idle = "${{KEY}}"\n[notify]\ndead_man = "${{KEY}}"\nhook = "${{KEY}}"\n[defaults]\nenv_file = "vars"\n'
        f'[web]\nlisten = "127.0.0.1:1"\ntoken = "{secret}"\n'
    )
    loaded = read(text, {"HOME": "/h", "PATH": "/bin"})
    told = [str(error) for error in (*loaded.errors, *loaded.warnings)]
    assert secret not in json.dumps(loaded.as_dict()) + "".join(told)
    assert f"{tmp_path}/vars:2:1: no variable; write NAME=VALUE, one a line" in told
    assert f"{tmp_path}/vars:3:1: no variable; write NAME=VALUE, one a line" in told
    assert (
        'longwatch.toml:7:1: [notify] dead_man = ${KEY}: no address of the web; write "https://..."' in told
    )
    assert (
        "longwatch.toml:8:1: [notify] hook = ${KEY}: not the whole path of a program; begin it with /" in told
    )


def test_an_unset_variable_is_an_error(read: Any, tmp_path: Path) -> None:
    """Nothing is ever filled with nothing; the nearest name is offered, and the place is the key's."""
    write(tmp_path, "KEY=abc123\n")
    loaded = read(HARNESS.replace("${KEY}", "${KYE}"), {"HOME": "/h", "PATH": "/bin"})
    assert [str(error) for error in loaded.errors] == [
        "longwatch.toml:2:1: [harness.a] command = ${ARG}: this variable is not set; set it, or write it into env_file",
        "longwatch.toml:4:9: [harness.a] env.KEY = ${KYE}: this variable is not set; did you mean ${KEY}?",
    ]


def test_a_file_that_is_not_there(read: Any) -> None:
    """It is an error at its key; one that others can read is a warning."""
    loaded = read('[defaults]\nenv_file = ["vars"]\n[harness.a]\ncommand = "sh"\n')
    (error,) = loaded.errors
    assert str(error).startswith("longwatch.toml:2:1: [defaults] env_file = /")
    assert str(error).endswith("/vars: No such file or directory")
    write(Path.cwd(), "A=bcde\n", 0o640)
    loaded = read('[defaults]\nenv_file = "vars"\n[harness.a]\ncommand = "sh"\n[harness.b]\ncommand = "sh"\n')
    path = Path.cwd() / "vars"
    assert [str(warning) for warning in loaded.warnings] == [
        f"{path}: others can read it (mode 0640), and it holds secrets; chmod 600 {path}"
    ]
    assert [harness.env for harness in loaded.harnesses] == [{"A": "bcde"}, {"A": "bcde"}]


@pytest.mark.parametrize(
    ("text", "filled"),
    [("a$b", "a$b"), ("${A}${A}", "11"), ("$${A}", "${A}"), ("$$${A}", "$${A}"), ("x", "x"), ("$A", "$A")],
)
def test_filling(text: str, filled: str) -> None:
    """Only `${NAME}` is filled; a doubled dollar before a brace stands for the brace."""
    assert Variables({"A": "1"}, {}).fill(text) == filled


@pytest.mark.parametrize("text", ["${", "${}", "${A-b}", "${A:-x}", "${1}", "${A"])
def test_what_is_no_reference(text: str) -> None:
    """A broken reference is refused, never taken as it stands."""
    with pytest.raises(UnsetError, match="no variable"):
        Variables({"A": "1"}, {}).fill(text)


def test_shell_commands_are_left_to_the_shell(read: Any) -> None:
    """`before_stop`, `stop_command` and `check` keep their dollars."""
    loaded = read('[harness.a]\ncommand = "sh"\nbefore_stop = "echo ${X}"\nstop_command = "kill $PID"\n')
    assert loaded.errors == ()
    assert loaded.harnesses[0].before_stop == "echo ${X}"
