"""`mathlete submit`: run a command of this project as a job of a Ray cluster, and end as the job ends."""

import argparse
import contextlib
import io
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pipelines.config import ConfigError
from pipelines.exit_codes import ExitCode
from pipelines.terminal.console import Console

if TYPE_CHECKING:
    from pipelines.dispatch.package import Package

DETACHED = 130
"""What a shell reports after Ctrl-C: this command stopped following, the job goes on."""

ENVIRONMENT_FILE = Path("configs") / "cluster" / "runtime_env.yaml"

_DEFAULT_ENVIRONMENT = {"RAY_JOB_STOP_WAIT_TIME_S": "30", "TOKENIZERS_PARALLELISM": "false"}

_FORWARDED = (
    "HF_ENDPOINT",
    "WANDB_BASE_URL",
    "WANDB_ENTITY",
    "WANDB_GROUP",
    "WANDB_MODE",
    "WANDB_PROJECT",
    "WANDB_TAGS",
)
"""Settings of the submitting shell that a job should see; no secrets, and nothing that is a path of this machine."""

_SECRET = re.compile(r"TOKEN$|API_KEY$|SECRET|PASSWORD|CREDENTIAL|ACCESS_KEY", re.IGNORECASE)

_MIB = 1 << 20


def add_parser(commands: Any) -> None:
    """Add `submit` to the `mathlete` command's subparsers."""
    text = "run a command as a job of a Ray cluster, follow its log, and exit as it does"
    parser = commands.add_parser(
        "submit",
        help=text,
        description=text,
        usage="mathlete submit [--address URL] [options] -- eval --config FILE [SECTION.KEY=VALUE ...]",
        epilog="Ctrl-C stops following, with exit code 130; the job goes on. Exit codes are otherwise those of the job's "
        "command; 143 for a job that was stopped. HF_TOKEN, WANDB_API_KEY and the like are never sent, for Ray shows a "
        "job's environment to whoever can see the job: docs/cluster.md tells where they belong.",
    )
    parser.set_defaults(tool=run)
    parser.add_argument(
        "job", nargs="+", metavar="COMMAND", help="eval, grpo or distill, with its options and settings"
    )
    parser.add_argument(
        "--address",
        metavar="URL",
        help="job server of the cluster, http://HEAD:8265; RAY_API_SERVER_ADDRESS or RAY_ADDRESS when unset, else this machine",
    )
    parser.add_argument(
        "--working-dir",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="folder that is uploaded and in which the command runs (default: the current one)",
    )
    parser.add_argument(
        "--runtime-env",
        type=Path,
        metavar="FILE",
        help=f"YAML file with Ray's runtime environment (default: {ENVIRONMENT_FILE} of the working directory)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="environment variable of the job; without a value, that of this shell; may be repeated",
    )
    parser.add_argument("--submission-id", metavar="ID", help="name of the job; Ray makes one up when unset")
    parser.add_argument("--no-wait", action="store_true", help="return as soon as the job is submitted")
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything, show what would be sent, send nothing"
    )
    parser.add_argument(
        "--quiet", action="store_true", help="no notices, only warnings, errors and the job's own output"
    )


def run(options: argparse.Namespace, console: Console, command: str) -> int:
    """Check, send and follow; returns the exit code."""
    from pipelines.dispatch.jobs import JobServer, server_address
    from pipelines.dispatch.package import read_package
    from pipelines.dispatch.signals import Preempted, StopFlag
    from pipelines.dispatch.work import FatalError

    StopFlag().install(immediate=True)
    job = None
    try:
        folder = _working_dir(options.working_dir)
        environment = job_environment(folder, options.runtime_env, options.env, os.environ)
        settings = _resolved(folder, options.job)
        package = read_package(folder, environment.get("excludes") or ())
        check_package(package)
        check_paths(package, options.job, settings)
        entrypoint = shlex.join(["python", "-m", "pipelines", *options.job])
        console.say(_plan(package, entrypoint, environment))
        if options.dry_run:
            return ExitCode.COMPLETE
        server = JobServer(server_address(options.address))
        if server.version_note:
            console.warn(server.version_note)
        job = server.submit(entrypoint, {**environment, "working_dir": str(folder)}, options.submission_id)
        console.say(f"submitted as {job}\n{_handles(server.address, job)}")
        if options.no_wait:
            return ExitCode.COMPLETE
        server.follow(job, lambda text: print(text, end="", flush=True))
        words, code = server.outcome(job)
        console.say(f"{job} {words}")
        if code == ExitCode.PREEMPTED:
            console.say(f"what is recorded stays; to resume: {command}")
        return code
    except ConfigError as error:
        for message in error.messages:
            console.fail(message)
        return ExitCode.BAD_CONFIGURATION
    except FatalError as error:
        console.fail(str(error))
        return ExitCode.ERROR
    except Preempted:
        if job is None:
            console.fail("stopped; nothing was submitted")
            return ExitCode.PREEMPTED
        console.say(f"no longer following {job}, which goes on\n{_handles(server.address, job)}")
        return DETACHED


def job_environment(folder: Path, file: Path | None, words: Sequence[str], shell: Mapping[str, str]) -> dict[str, Any]:
    """Ray's runtime environment of the job: `file` or the folder's own, settings of the `shell` that a job should see, and
    `words` (`NAME` or `NAME=VALUE`), the last of which wins.

    Raises ConfigError, also for a variable that looks like a secret.
    """
    path = file or folder / ENVIRONMENT_FILE
    given: dict[str, Any] = {}
    if file is not None or path.is_file():
        given = _read_environment(path)
    known = {str(name): str(value) for name, value in (given.get("env_vars") or {}).items()}
    forwarded = {name: shell[name] for name in _FORWARDED if shell.get(name)}
    asked: dict[str, str] = {}
    errors = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and name not in shell and not _SECRET.search(name):
            errors.append(f"--env {name}: is not set in this shell; write {name}=VALUE")
        asked[name] = value if equals else shell.get(name, "")
    variables = {**_DEFAULT_ENVIRONMENT, **forwarded, **known, **asked}
    errors += [_refuse_secret(name) for name in variables if _SECRET.search(name)]
    if errors:
        raise ConfigError(errors)
    return {**given, "env_vars": variables}


def check_package(package: "Package") -> None:
    """Raises ConfigError, naming the largest files, for a package that the job server would refuse or that has no program."""
    from pipelines.dispatch.package import LIMIT_BYTES

    if not package.holds("pipelines/__main__.py"):
        raise ConfigError(
            [
                f"{package.folder}: holds no pipelines/__main__.py, so the job would have no program: submit from a checkout "
                "of this project, or name one with --working-dir"
            ]
        )
    if package.size > LIMIT_BYTES:
        files = "\n".join(f"  {size / _MIB:8.1f} MiB  {name}" for name, size in package.largest(8))
        raise ConfigError(
            [
                f"{package.folder}: {package.size / _MIB:.0f} MiB in {len(package.files)} files would be uploaded, and a job "
                f"server takes {LIMIT_BYTES // _MIB} MiB; the largest:\n{files}\n"
                "Leave out what the job does not need with a line in .rayignore; put models and data on storage that the "
                "nodes share, and give their absolute path."
            ]
        )


def check_paths(package: "Package", job: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Raises ConfigError for a run folder that would go with the job, and for files that are here and would not be there."""
    errors = []
    if not Path(settings["run"]["dir"] or "").is_absolute():
        errors.append(
            "run.dir: must be an absolute path on storage that outlives the job and that its nodes share, such as "
            "run.dir=/shared/runs/NAME: the job's own folder is deleted when it is over"
        )
    named = {"--config": _option(job, "--config"), "data.source": settings["data"]["source"]}
    named["model.name"] = settings["model"]["name"]
    for what, path in named.items():
        if not path or Path(path).is_absolute() or not (package.folder / path).exists():
            continue
        if not package.holds(path):
            errors.append(
                f"{what}: {path} is here, but not in the package: it lies outside of {package.folder}, or .gitignore or "
                ".rayignore leaves it out. Give an absolute path that the nodes have, or add a line to .rayignore that "
                "starts with `!`"
            )
    if errors:
        raise ConfigError(errors)


def _working_dir(given: Path) -> Path:
    folder = given.expanduser().resolve()
    if not folder.is_dir():
        raise ConfigError([f"--working-dir {given}: no such folder"])
    return folder


def _read_environment(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"--runtime-env {path}: {error.strerror}"]) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: is not valid YAML: {' '.join(str(error).split())}"]) from error
    if not isinstance(found, dict) or not isinstance(found.get("env_vars") or {}, dict):
        raise ConfigError([f"{path}: must hold Ray's runtime environment: env_vars, excludes, pip and so on"])
    if "working_dir" in found:
        raise ConfigError([f"{path}: leave working_dir out; --working-dir says which folder is sent"])
    return found


def _refuse_secret(name: str) -> str:
    return (
        f"{name}: looks like a secret, and Ray shows a job's environment to whoever can see the job. Set it where the "
        "cluster's nodes are started (a Kubernetes secret, the shell of `ray start`), or in a file that only you can read: "
        "--env HF_TOKEN_PATH=FILE for the hub, --env NETRC=FILE for W&B"
    )


def _resolved(folder: Path, job: Sequence[str]) -> Any:
    """The settings of the job as it will see them. Raises ConfigError, and SystemExit for options that it does not know."""
    from pipelines import cli

    if job[0] not in cli.JOBS:
        known = ", ".join(cli.JOBS)
        raise ConfigError([f"{job[0]}: cannot be submitted; behind `--` comes one of {known}, with its options"])
    printed, complaints = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaints):
        try:
            code = cli.main([*job, "--print-config"])
        except SystemExit:
            code = ExitCode.BAD_CONFIGURATION
    if code != ExitCode.COMPLETE:
        lines = [line for line in complaints.getvalue().splitlines() if "error: " in line]
        raise ConfigError([line.partition("error: ")[2] for line in lines])
    return yaml.safe_load(printed.getvalue())


def _option(words: Sequence[str], name: str) -> str | None:
    """The value of the option `name` among `words`."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def _plan(package: "Package", entrypoint: str, environment: Mapping[str, Any]) -> str:
    variables = ", ".join(f"{name}={value}" for name, value in sorted(environment["env_vars"].items()))
    return (
        f"package      {package.size / _MIB:.1f} MiB, {len(package.files)} files of {package.folder}\n"
        f"environment  {variables}\n"
        f"entrypoint   {entrypoint}"
    )


def _handles(address: str, job: str) -> str:
    return (
        f"  follow  ray job logs --address {address} --follow {job}\n  stop    ray job stop --address {address} {job}"
    )
