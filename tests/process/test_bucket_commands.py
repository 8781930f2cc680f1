"""`frazil bucket` and `frazil namespace` against a real server: what they print, and how they fail."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from catalog_server.cli import main
from tests.process.servers import Server, serving

pytestmark = pytest.mark.process

Run = Callable[..., str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("buckets")) as started:
        yield started


@pytest.fixture
def frazil(server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process; its output, or with `fails` its error."""
    monkeypatch.setenv("FRAZIL_URL", server.url)

    def run(*arguments: str, fails: int = 0) -> str:
        monkeypatch.setattr("sys.argv", ["frazil", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code == fails, said
        if fails:
            assert said.out == ""
            assert said.err.startswith("frazil: ")
            assert said.err.count("\n") == 1
            return said.err
        return said.out

    return run


def test_a_bucket_from_making_to_deleting(frazil: Run, tmp_path: Path) -> None:
    at = f"file://{tmp_path}/place"
    made = frazil(
        "bucket", "register", "sales", at, "--tag", "team=web", "--property", "a=b=c", "--protected"
    )
    assert made == f"bucket sales is at {at}\n"
    shown = frazil("bucket", "show", "sales")
    for text in (
        at,
        "arn:aws:s3tables:us-east-1:000000000000:bucket/sales",
        "team=web",
        "a=b=c",
        "yes",
        "current",
    ):
        assert text in shown
    document = json.loads(frazil("bucket", "show", "sales", "--json"))
    assert (document["tags"], document["protected"], document["version"]) == ({"team": "web"}, True, 1)
    assert at in frazil("bucket", "list")
    assert [one["name"] for one in json.loads(frazil("bucket", "list", "--prefix", "sal", "--json"))] == [
        "sales"
    ]

    assert "version 2" in frazil("bucket", "update", "sales", "--property", "x=y", "--remove-property", "a")
    assert json.loads(frazil("bucket", "show", "sales", "--json"))["properties"] == {"x": "y"}
    assert frazil("bucket", "tag", "sales", "k=", "team=b") == "tags of bucket sales: k=, team=b\n"
    assert frazil("bucket", "untag", "sales", "k", "team") == "tags of bucket sales: none\n"

    assert "protected" in frazil("bucket", "delete", "sales", "--yes", fails=1)
    assert frazil("bucket", "unprotect", "sales") == "bucket sales can be deleted\n"
    assert "say --yes" in frazil("bucket", "delete", "sales", fails=1)
    assert "is deleted" in frazil("bucket", "delete", "sales", "--yes")
    assert "does not exist: sales" in frazil("bucket", "show", "sales", fails=1)


def test_a_namespace_from_making_to_deleting(frazil: Run) -> None:
    frazil("bucket", "create", "shop")
    assert "namespace web is there" in frazil(
        "namespace", "create", "web", "--bucket", "shop", "--property", "a=b"
    )
    frazil("namespace", "create", 'web."odd.name"', "--bucket", "shop")
    assert 'web."odd.name"' in frazil("namespace", "list", "web", "--bucket", "shop")
    assert frazil("namespace", "set", "web", "c=d", "--remove", "a", "--bucket", "shop") == (
        "properties of namespace web: c=d\n"
    )
    shown = json.loads(frazil("namespace", "show", "web", "--bucket", "shop", "--json"))
    assert (shown["properties"], shown["figures"]["namespaces"]) == ({"c": "d"}, 1)
    assert "c=d" in frazil("namespace", "show", "web", "--bucket", "shop")
    assert "odd.name" in frazil("namespace", "delete", "web", "--bucket", "shop", "--yes", fails=1)
    assert "contains namespace web" in frazil("bucket", "delete", "shop", "--yes", fails=1)
    frazil("namespace", "delete", 'web."odd.name"', "--bucket", "shop", "--yes")
    frazil("namespace", "delete", "web", "--bucket", "shop", "--yes")
    assert "is deleted" in frazil("bucket", "delete", "shop", "--yes")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["bucket", "create", "NO"], 1, "3 to 63"),
        (["bucket", "create", "fine", "--tag", "novalue"], 2, "'novalue' is not KEY=VALUE"),
        (["bucket", "register", "fine", "nowhere"], 1, "absolute URI"),
        (["bucket", "register", "fine", "s3://x/y", "--credentials", "nope"], 1, "storage.credentials.nope"),
        (["bucket", "untag", "default", "nope"], 2, "there is no 'nope' to remove"),
        (["bucket", "update", "default", "--credentials", "a", "--no-credentials"], 2, "not both"),
        (["bucket", "delete", "default", "--yes"], 1, "storage.default_bucket"),
        (["namespace", "create", "a.b"], 1, "does not exist: a"),
        (["namespace", "set", "nowhere", "a=b"], 1, "does not exist: nowhere"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_what_can_not_be_done_is_told_in_one_line(
    frazil: Run, arguments: list[str], code: int, told: str
) -> None:
    assert told in frazil(*arguments, fails=code)


KEY = "arn:aws:kms:us-east-1:000000000000:key/one"


def test_what_is_kept_for_a_bucket_is_shown_set_and_taken_away(frazil: Run, tmp_path: Path) -> None:
    frazil("bucket", "create", "kept")
    assert "no resource policy" in frazil("bucket", "resource-policy", "kept", fails=1)
    policy = tmp_path / "policy.json"
    policy.write_text('{"Statement": [{"Effect": "Deny"}]}')
    assert "kept, not enforced" in frazil("bucket", "resource-policy", "kept", "--set", str(policy))
    assert frazil("bucket", "resource-policy", "kept") == policy.read_text() + "\n"
    assert "can not be read" in frazil("bucket", "resource-policy", "kept", "--set", "/no/such", fails=1)
    told = frazil("bucket", "encryption", "kept", "--set", "aws:kms", "--key", KEY)
    assert told.startswith(f"encryption of bucket kept: aws:kms by {KEY} (asked for at the bucket)")
    assert "needs a kmsKeyArn" in frazil("bucket", "encryption", "kept", "--set", "aws:kms", fails=1)
    assert "--key goes with" in frazil("bucket", "encryption", "kept", "--key", KEY, fails=2)
    assert (
        frazil("bucket", "storage-class", "kept") == "storage class of bucket kept: STANDARD (by default)\n"
    )
    assert "INTELLIGENT_TIERING" in frazil("bucket", "storage-class", "kept", "--set", "INTELLIGENT_TIERING")
    assert "not both" in frazil("bucket", "storage-class", "kept", "--set", "STANDARD", "--remove", fails=2)
    assert "not asked for" in frazil("bucket", "metrics", "kept")
    assert "metrics of bucket kept: asked for" in frazil("bucket", "metrics", "kept", "--on")
    shown = frazil("bucket", "show", "kept")
    for text in (KEY, "INTELLIGENT_TIERING", f"{policy.stat().st_size} bytes"):
        assert text in shown
    document = json.loads(frazil("bucket", "show", "kept", "--json"))
    assert document["resourcePolicy"] == policy.read_text()
    assert document["encryption"]["kmsKeyArn"] == KEY
    assert document["storageClass"] == {"storageClass": "INTELLIGENT_TIERING", "source": "bucket"}
    for name in ("resource-policy", "encryption", "storage-class"):
        assert "any more" in frazil("bucket", name, "kept", "--remove")
        assert frazil("bucket", name, "kept", "--remove", fails=1)
    assert "not asked for" in frazil("bucket", "metrics", "kept", "--off")
    document = json.loads(frazil("bucket", "show", "kept", "--json"))
    assert (document["resourcePolicy"], document["encryption"]) == (None, None)
    assert "does not exist" in frazil("bucket", "encryption", "nowhere", "--set", "AES256", fails=1)
