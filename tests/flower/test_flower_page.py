"""The commands of docs/flower.md, run as they stand: TLS and node authentication are on."""

import pytest

from kit.pages import ROOT, blocks
from kit.ports import free_port
from kit.real_flower import (
    PATIENCE,
    Deployment,
    last_run,
    patients,
    result_of,
    write_certificates,
    write_key,
)

PAGE = ROOT / "docs" / "flower.md"
SITES = ("north", "south")


class Reader(Deployment):
    """Who follows the page, with everything on one machine."""

    def read(self):
        self.told = {}  # what each program said last
        for name in SITES:
            (self.folder / f"{name}.csv").write_text(patients(name, 300), "utf-8")
            write_key(self.folder, name)
        write_certificates(self.folder)
        (settings,) = blocks(PAGE, "toml")
        sooner = settings.text.replace("tol = 0.05", "tol = 0.2")  # a round takes seconds
        assert sooner != settings.text
        (self.folder / "sites.toml").write_text(sooner, "utf-8")
        self.connection(f'root-certificates = "{self.folder / "ca.crt"}"')
        for block in blocks(PAGE, "console"):
            for words, _ in block.commands:
                self.type(words)

    def type(self, words):
        """A command of the page; `&` at its end leaves it in the background."""
        words = [word.replace("coordinator.example.org:8000", self.address) for word in words]
        if words[-1] != "&":
            self.told[words[0]] = self.do(*words)
            return
        words, name = words[:-1], words[0]
        if name == "flower-superlink":
            words += ["--host", "127.0.0.1", "--port", str(self.port)]
        if name == "flower-supernode":
            # On machines of their own the default would do.
            words += ["--host", "127.0.0.1", "--port", str(free_port())]
        if name != "flower-superlink":
            name += next(f"-{site}" for site in SITES if site in " ".join(words))
        self.begin(name, *words)
        ready = {"flower-superlink": "Application startup complete", "drfl": "Ctrl-C ends it"}
        self.until(name, ready.get(words[0], "SuperNode ID"))


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    made = Reader(tmp_path_factory.mktemp("page"))
    try:
        made.read()
        yield made
    finally:
        made.close()


def test_the_run_folder_is_that_of_every_training(reader):
    assert "certified" in reader.told["flwr"]
    run = last_run(reader)
    (model,) = result_of(run)["models"]
    assert model["status"]["kind"] == "certified"
    assert 'sites = ["north", "south"]' in (run / "config.toml").read_text("utf-8")
    reader.do("drfl", "report", run)
    assert (run / "report.html").stat().st_size > 10_000


def test_the_guard_of_the_sites_holds(reader):
    """It is on by default, and the server is told so; no rows are in what Flower has kept."""
    assert "k = 5" in reader.said("drfl-north")
    rows = [line.encode() for line in patients("north", 300).splitlines()[1:]]
    for path in reader.folder.glob("link.db*"):
        kept = path.read_bytes()
        assert not any(row in kept for row in rows)


def test_a_site_knows_what_has_left_it(reader):
    assert "preflight/reply" in reader.told["drfl"]
    for name in SITES:
        (kinds,) = reader.answered(name).values()
        assert kinds[:3] == ["hello/reply", "preflight/reply", "bind/reply"]
        assert "failure" not in kinds


def test_a_stranger_is_refused_with_a_sentence(reader):
    """Another key: the SuperLink does not let it in."""
    write_key(reader.folder, "stranger")
    require_refused(reader, "--auth-supernode-private-key", "stranger.key")


@pytest.mark.slow
def test_who_has_no_key_is_refused_with_a_sentence(reader):
    require_refused(reader)


def require_refused(reader, *how):
    where = ["--superlink", reader.address, "--host", "127.0.0.1", "--port", free_port()]
    command = ["flower-supernode", "--root-certificates", "ca.crt", *where, *how]
    reader.begin("stranger", *command, "--max-retries", "0")
    assert reader.running["stranger"].wait(PATIENCE) != 0
    assert "Failed to initialize the connection" in reader.said("stranger")
    nodes = reader.do("flwr", "supernode", "list", "--format", "json")
    assert nodes.count('"online"') == len(SITES)


def test_without_the_authority_s_certificate_nobody_is_believed(reader):
    """A SuperNode that knows another authority does not speak to this SuperLink."""
    (reader.folder / "other").mkdir()
    write_certificates(reader.folder / "other")
    where = ["--superlink", reader.address, "--host", "127.0.0.1", "--port", free_port()]
    key = ["--root-certificates", "other/ca.crt", "--auth-supernode-private-key", "north.key"]
    reader.begin("deceived", "flower-supernode", *where, *key, "--max-retries", "0")
    assert reader.running["deceived"].wait(PATIENCE) != 0
    assert "CERTIFICATE_VERIFY_FAILED" in reader.said("deceived")
