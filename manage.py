#!/usr/bin/env python3
"""The command `penstock` of a checkout: `python3 manage.py serve` starts everything, `help` lists the rest.

Run by a Python that has no Penstock, `serve` and `test` first make the environment `.venv` beside this file, and every
command goes on inside it. An environment that somebody else made stays as it is. Only the standard library is here
before that, and the syntax is old enough for a Python that is refused.
"""

import os
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.realpath(__file__))
ENVIRONMENT = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(ENVIRONMENT, "bin", "python")
MINOR_MIN = 11  # requires-python of pyproject.toml; tests/test_manage.py compares them
MISTAKE = 2

# What pip installs, each with all before it: the requirement, in words, and the room on disk in GB.
INSTALLATIONS = {
    "core": (".", "Penstock without its data pipeline", 0.4),
    "run": (".[pipeline]", "Penstock and its data pipeline", 1.4),
    "test": (".[test]", "Penstock and what its tests need", 2.0),
}
# The programs that the tests run, each with Debian's package and whether what Debian recommends beside it is needed.
PROGRAMS = {
    "chromium": ("chromium", True),
    "redis-server": ("redis-server", True),
    "nginx": ("nginx", False),
    "caddy": ("caddy", False),
    "promtool": ("prometheus", False),
}
FLAGS = """The first run installs what is missing into .venv; `--yes` does not ask before sudo. `serve --core` installs
no data pipeline (Spark)."""
USAGE = f"""Usage: python3 manage.py serve [OPTION …]    start the server and its console
       python3 manage.py test [OPTION …]     run the tests: lint, types, and every test

{FLAGS} `python3 manage.py help` then lists the other commands."""


def main():
    arguments = sys.argv[1:]
    command = arguments[0] if arguments else "help"
    if sys.version_info < (3, MINOR_MIN):
        refuse(f"Penstock needs Python 3.{MINOR_MIN} or newer, this is {sys.version.split()[0]}.")
    own = [flag for flag in ("--core", "--yes") if flag in arguments and command in ("serve", "test")]
    arguments = [argument for argument in arguments if argument not in own]
    if not runs_penstock(command):
        enter_environment(command, arguments, own)
    elif is_inside() and command in ("serve", "test") and {"-h", "--help"}.intersection(arguments):
        print(FLAGS + "\n", flush=True)
    if command == "test":
        install_programs("--yes" in own)
        os.environ["PATH"] = search_path()
        os.execv(sys.executable, [sys.executable, "-m", "tests.suite", *arguments[1:]])
    sys.argv[1:] = arguments
    from admin_console.management.entry import main as penstock

    penstock()


def runs_penstock(command):
    """Whether this Python, of an environment or beside none, has what the command needs."""
    if sys.prefix == sys.base_prefix:
        from importlib import metadata

        return any(metadata.distributions(name="penstock"))
    from importlib.util import find_spec

    # A start is short: one package stands for all.
    is_installed_here = find_spec("pytest" if command == "test" else "daphne") is not None
    if not is_installed_here and not is_inside():
        refuse(
            f"The environment {sys.prefix} is active and has no Penstock. Run `deactivate` first, or install Penstock"
            f" there: `pip install -e '{INSTALLATIONS['test' if command == 'test' else 'run'][0]}'`."
        )
    return is_installed_here


def is_inside():
    """Whether this Python is that of `.venv`."""
    return os.path.realpath(sys.prefix) == os.path.realpath(ENVIRONMENT)


def enter_environment(command, arguments, own):
    """Go on in `.venv` with the same process id; first `serve` and `test` install there what is missing."""
    is_there = os.access(PYTHON, os.X_OK)
    if command in ("serve", "test") and not {"-h", "--help"}.intersection(arguments):
        if not install(command, own) and is_inside():
            return
    elif not is_there and {command, *arguments}.intersection(("-h", "--help", "help")):
        print(USAGE)
        sys.exit(0)
    elif not is_there or is_inside():
        refuse(f"`{command}` needs Penstock's environment, which `python3 manage.py serve` makes in .venv.")
    os.execv(PYTHON, [PYTHON, os.path.join(ROOT, "manage.py"), *arguments, *own])


def install(command, own):
    """Make `.venv` and install into it what the command needs, where no earlier run did for this pyproject.toml.

    Returns whether anything was installed."""
    import fcntl

    kind = "test" if command == "test" else "core" if "--core" in own else "run"
    wanted = read(os.path.join(ROOT, "pyproject.toml")) or b""
    if is_installed(kind, wanted) or is_made_by_hand(command):
        return False
    os.makedirs(ENVIRONMENT, exist_ok=True)
    with open(os.path.join(ENVIRONMENT, "installing"), "wb") as lock:
        requirement, words, gigabytes = INSTALLATIONS[kind]
        say(f"Installing {words} into {ENVIRONMENT}:")
        say(f"{gigabytes} GB in all, some minutes. It is done again when the requirements in pyproject.toml change.")
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may install as well: then there is nothing left to do
        if is_installed(kind, wanted):
            return False
        if not has_pip():
            if not succeeds(sys.executable, "import ensurepip"):
                install_packages([(f"python3.{sys.version_info[1]}-venv", False)], "--yes" in own)
            make_environment()
        run([PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "-e", requirement])
        for other in INSTALLATIONS:
            if not is_same_project(read(stamp(other)), wanted):
                remove(stamp(other))  # its packages are those of now no more
        with open(stamp(kind), "wb") as file:  # the last step: a run that was stopped before it begins again
            file.write(wanted)
    say("Installed.")
    return True


def make_environment():
    """Make `.venv`, or give it the pip or the Python that it lacks; its other files stay."""
    for kind in INSTALLATIONS:
        remove(stamp(kind))  # what is there was installed for another Python
    programs = os.path.join(ENVIRONMENT, "bin")
    for name in os.listdir(programs) if os.path.isdir(programs) else ():
        if not os.path.exists(os.path.join(programs, name)):
            remove(os.path.join(programs, name))  # a link to a Python that is gone, which venv would not replace
    run([sys.executable, "-m", "venv", ENVIRONMENT])


def remove(path):
    if os.path.lexists(path):
        os.remove(path)


def is_installed(kind, wanted):
    """Whether this, or what contains it, was installed for the requirements of a pyproject.toml of these bytes, and for
    the Python that the environment has now: an upgrade of the system gives it another one."""
    kinds = list(INSTALLATIONS)
    return has_packages() and any(is_same_project(read(stamp(each)), wanted) for each in kinds[kinds.index(kind) :])


def has_packages():
    """Whether the environment's Python is there, and has a folder of packages."""
    version = os.path.basename(os.path.realpath(PYTHON))
    is_named = version.startswith("python3.")
    return os.access(PYTHON, os.X_OK) and (not is_named or os.path.isdir(os.path.join(ENVIRONMENT, "lib", version)))


def is_made_by_hand(command):
    """Whether `.venv` has what the command needs though no run of this program installed it."""
    if not has_packages() or any(os.path.exists(stamp(kind)) for kind in INSTALLATIONS):
        return False
    return succeeds(PYTHON, "import daphne, pytest" if command == "test" else "import daphne, orjson")


def is_same_project(one, other):
    """Whether two pyproject.toml want the same installation. None, and what is no TOML, is like nothing else."""
    import tomllib

    try:
        tables = [tomllib.loads(text.decode()) for text in (one, other)]
    except (AttributeError, ValueError):
        return False
    return all(tables[0].get(name) == tables[1].get(name) for name in ("project", "build-system"))


def stamp(kind):
    return os.path.join(ENVIRONMENT, f"installed-{kind}.toml")


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def has_pip():
    return os.access(PYTHON, os.X_OK) and succeeds(PYTHON, "import pip")


def succeeds(python, code):
    return subprocess.run([python, "-c", code], stderr=subprocess.DEVNULL).returncode == 0


def search_path():
    """Where programs are looked for; some of Debian's are where only root looks."""
    return os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/sbin"


def install_programs(is_agreed):
    """Install Debian's packages for the programs that the tests run and that are missing."""
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program, path=search_path())]
    if missing:
        install_packages(missing, is_agreed)


def install_packages(packages, is_agreed):
    """Install them by apt-get, each given as in PROGRAMS. Ends the program where that can't be."""
    names = " ".join(name for name, _ in packages)
    is_root = os.geteuid() == 0
    if not shutil.which("apt-get") or not (is_root or shutil.which("sudo")):
        refuse(f"These packages are missing, by Debian's names: {names}. Install them, then run this again.")
    prefix = [] if is_root else ["sudo"]
    prefix += ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    commands = [[*prefix, "update"]]
    for option, is_recommended in (([], True), (["--no-install-recommends"], False)):
        group = [name for name, recommended in packages if recommended == is_recommended]
        if group:
            commands.append([*prefix, "install", "-y", *option, *group])
    say(f"These Debian packages are missing: {names}")
    if not is_root and not is_agreed and sys.stdin is not None and sys.stdin.isatty():
        for command in commands:
            say(f"  {shell_text(command)}")
        if answer_to("Run these commands? [Y/n] ") not in ("", "y", "yes"):
            refuse(f"Nothing was installed. Install {names}, then run this again.")
    for command in commands:
        run(command)


def answer_to(question):
    """What was typed, in lower case; "no" where the input ended."""
    try:
        return input(question).strip().lower()
    except EOFError:
        return "no"


def run(command):
    """Run it in the checkout. Ends the program where it fails; what it printed says why."""
    status = subprocess.run(command, cwd=ROOT).returncode
    if status:
        refuse(f"`{shell_text(command)}` failed with status {status}.")


def shell_text(command):
    return " ".join(map(shlex.quote, command))


def say(sentence):
    print(sentence, file=sys.stderr, flush=True)


def refuse(sentence):
    say("manage.py: " + sentence)
    sys.exit(MISTAKE)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
