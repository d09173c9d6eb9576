"""A SuperLink, SuperNodes and doors as real processes on this machine, at ports that are free."""

import datetime
import ipaddress
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kit.ports import free_port

BIN = Path(sys.executable).parent
PATIENCE = 1200.0  # seconds: nobody waits so long but for what will never happen
QUIET = {
    # Nothing calls home, nothing is installed on the way.
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
    "OPENBLAS_NUM_THREADS": "1",
    # A SuperNode looks for a message every 3 seconds; here more often.
    "PYTHONPATH": str(Path(__file__).parents[1] / "flower" / "hurried"),
}


def patients(name, rows=60):
    """A CSV file; hospitals with other names have other patients."""
    rng = np.random.default_rng(sum(name.encode()))
    lines = ["age,bmi,disease"]
    for age, bmi, noise in rng.normal(size=(rows, 3)):
        sick = age - bmi + 0.7 * noise > 0.0
        lines.append(f"{50 + 10 * age:.1f},{25 + 4 * bmi:.1f},{'yes' if sick else 'no'}")
    return "\n".join(lines) + "\n"


class Deployment:
    """Processes in one folder; everything is ended and gone at the end.

    Parameters
    ----------
    folder : Path
        Where to work.
    address : str
        Of the SuperLink.
    """

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.address = f"localhost:{self.port}"
        self.environment = {
            **os.environ,
            **QUIET,
            "FLWR_HOME": str(folder / "flwr"),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }
        self.running = {}

    def connection(self, *lines):
        """Let `flwr` know the SuperLink."""
        (self.folder / "flwr").mkdir()
        text = [f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{self.address}"']
        (self.folder / "flwr" / "config.toml").write_text("\n".join([*text, *lines]) + "\n")

    def begin(self, name, *command, **environment):
        """A program in the background; what it says is in a file."""
        with self.log(name).open("wb") as out:
            self.running[name] = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**self.environment, **environment},
            )
        return self.running[name]

    def do(self, *command, code=0):
        """A program to its end; what it says."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            env=self.environment,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    # ------------------------------------------------------------------ the parts, without TLS
    def superlink(self):
        host = ["--host", "127.0.0.1", "--port", self.port]
        self.begin("superlink", "flower-superlink", "--insecure", "--database", "link.db", *host)
        self.until("superlink", "Application startup complete")

    def site(self, name, **environment):
        """The door of a site; its rows are there."""
        command = ["site", name, "--data", f"{name}.csv", "--without-guard"]
        self.begin(f"door-{name}", "drfl", "flower", *command, **environment)
        self.until(f"door-{name}", "Ctrl-C ends it")

    def supernode(self, name, *more):
        """Beside a door."""
        where = ["--superlink", self.address, "--host", "127.0.0.1", "--port", free_port()]
        door = f'drfl="{self.folder / name / "door.json"}"'
        more = more or ["--insecure"]
        self.begin(f"node-{name}", "flower-supernode", *where, "--node-config", door, *more)

    # ------------------------------------------------------------------ what they do
    def log(self, name):
        return self.folder / f"{name}.log"

    def said(self, name):
        return self.log(name).read_text("utf-8", "replace")

    def until(self, name, words, seconds=PATIENCE):
        """Wait until a program has said this."""
        self.wait(lambda: words in self.said(name), seconds, lambda: self.said(name), name)

    def wait(self, condition, seconds, tell, name=None):
        last = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < last, tell()
            assert name is None or self.running[name].poll() is None, tell()
            time.sleep(0.1)

    def answered(self, name):
        """The kinds of the messages that have left a site, by job."""
        path = self.folder / name / "state" / "messages.jsonl"
        jobs = {}
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
            entry = json.loads(line)
            jobs.setdefault(entry["job"], []).append(entry["kind"])
        return jobs

    def rounds(self, name):
        """How many rounds a site has answered."""
        return sum(kinds.count("bundle/reply") for kinds in self.answered(name).values())

    def family(self, name):
        """A program and everything that it has started."""
        process = psutil.Process(self.running[name].pid)
        return [process, *process.children(recursive=True)]

    def kill(self, name):
        """Without a word."""
        family = self.family(name)
        for process in family:
            if process.is_running():
                process.kill()
        self.running.pop(name).wait(PATIENCE)
        psutil.wait_procs(family, timeout=PATIENCE)

    def orphan(self, name):
        """Kill a program alone; what it has started has to end by itself."""
        family = self.family(name)
        self.running[name].kill()
        self.running.pop(name).wait(PATIENCE)
        _, left = psutil.wait_procs(family, timeout=PATIENCE)
        assert not left, [process.cmdline() for process in left]

    def close(self):
        """End all; nothing may be left."""
        everyone = [
            p for name, r in self.running.items() if r.poll() is None for p in self.family(name)
        ]
        for process in self.running.values():
            if process.poll() is None:
                process.terminate()
        _, alive = psutil.wait_procs(everyone, timeout=PATIENCE)
        for process in alive:
            process.kill()
        for process in self.running.values():
            process.wait(PATIENCE)
        assert not alive, [process.name() for process in alive]


PAIR = ("north", "west")
# A busy machine needs minutes for what Flower does in seconds.
LIMITS = {"sites": list(PAIR), "quorum": 1, "rejoin": 400, "silence": 400}
TRAINING = {"target": "disease", "radius": "0.05", "loss": "logistic", "tol": "1e-6"}
BRIEF = {"validation": False, "inference": False}  # a message takes seconds
SETTINGS = TRAINING | BRIEF
FAULTY = Path(__file__).parents[1] / "sites" / "faulty"


class Faulty(Deployment):
    """Two sites that can be told to misbehave; what they train, and limits where they differ."""

    def __init__(self, folder, training=TRAINING, **limits):
        super().__init__(folder)
        self.training = training
        lines = [f"{key} = {json.dumps(value)}" for key, value in {**LIMITS, **limits}.items()]
        lines += ["[training]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in {**training, **BRIEF}.items()]
        (folder / "sites.toml").write_text("\n".join(lines) + "\n", "utf-8")
        self.connection("insecure = true")
        for name in PAIR:
            (folder / f"{name}.csv").write_text(patients(name), "utf-8")
            (folder / name).mkdir()
            (folder / name / "site.toml").write_text("guard = 0\n", "utf-8")
        self.behave()

    def start(self):
        self.do("drfl", "flower", "init", "sites.toml")
        self.superlink()
        for name in PAIR:
            self.open(name)
            self.supernode(name)

    def open(self, name):
        self.site(name, PYTHONPATH=str(FAULTY), MISBEHAVE=str(self.command(name)))

    def command(self, name):
        return self.folder / f"misbehave-{name}.json"

    def behave(self, held=None, **faults):
        """Let the west misbehave in certain rounds, ``r3="nan"``, and the north hold a round."""
        told = {"faults": {key[1:]: fault for key, fault in faults.items()}}
        self.command("west").write_text(json.dumps(told), "utf-8")
        self.command("north").write_text(json.dumps({"held": held}), "utf-8")

    def in_the_middle(self):
        """Wait until the north is at the round that it holds."""
        here = self.command("north").with_suffix(".held")
        self.wait(here.exists, PATIENCE, lambda: self.said("run"), "run")

    def release(self):
        """Let the north compute it."""
        self.command("north").with_suffix(".released").touch()

    def run(self, *more):
        """A training, in the background."""
        self.begin("run", "flwr", "run", "sites-app", "--stream", *more)

    def end(self):
        """Wait for it."""
        assert self.running["run"].wait(PATIENCE) == 0, self.said("run")
        return result_of(last_run(self))

    def undisturbed(self):
        """The same training on the same files by the serial engine."""
        files = [f"--client={name}.csv" for name in PAIR]
        settings = [f"--{key.replace('_', '-')}={value}" for key, value in self.training.items()]
        self.do("drfl", "train", *files, *settings, "--no-validation", "--quiet", "--out=HERE")
        return result_of(self.folder / "HERE")


# ---------------------------------------------------------------------------- keys
def write_certificates(folder):
    """An authority, and a certificate of this machine."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _named("authority")
    now = datetime.datetime.now(datetime.UTC)

    def certificate(subject, public, *extensions):
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(name)
        made = made.public_key(public).serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - datetime.timedelta(days=1))
        made = made.not_valid_after(now + datetime.timedelta(days=2))
        for extension in extensions:
            made = made.add_extension(extension, critical=isinstance(extension, _CA))
        return made.sign(key, hashes.SHA256())

    authority = certificate(name, key.public_key(), x509.BasicConstraints(True, None))
    own = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = certificate(_named("localhost"), own.public_key(), x509.SubjectAlternativeName(names))
    pem = serialization.Encoding.PEM
    (folder / "ca.crt").write_bytes(authority.public_bytes(pem))
    (folder / "server.pem").write_bytes(server.public_bytes(pem))
    (folder / "server.key").write_bytes(_private(own, serialization.PrivateFormat.PKCS8))


_CA = x509.BasicConstraints


def _named(name):
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _private(key, form):
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def write_key(folder, name):
    """The key of a SuperNode, and its public half."""
    key = ec.generate_private_key(ec.SECP384R1())
    (folder / f"{name}.key").write_bytes(_private(key, serialization.PrivateFormat.OpenSSH))
    openssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    (folder / f"{name}.pub").write_bytes(key.public_key().public_bytes(*openssh))


# ---------------------------------------------------------------------------- results
def result_of(run):
    """What a run folder says of its end, with the failures of its rounds."""
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    result = next(record for record in records if record["kind"] == "result")
    rounds = [record for record in records if record["kind"] == "round"]
    return result | {"failures": {r["round"]: r["failures"] for r in rounds if r["failures"]}}


def last_run(deployment):
    """The folder that the last run of the app has written."""
    runs = (deployment.folder / "runs").glob("*/RUN/outcome.json")
    return max(runs, key=lambda path: path.stat().st_mtime).parent
