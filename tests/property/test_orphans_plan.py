"""Any listing, references and memory: what is deleted is unreferenced, was marked for long enough, and is old."""

from hypothesis import given
from hypothesis import strategies as st

from maintenance.orphans.plan import Ages, Evidence, OrphanPlan, plan
from maintenance.places import References
from maintenance.ports import JobSettings
from table_format.io.store import ObjectInfo

NOW = 1_000_000
AGES = Ages(unreferenced_ms=1000, noncurrent_ms=5000)
LOCATION = "s3://b/t"

names = st.text(alphabet="ab/#?%é", min_size=1, max_size=6).filter(lambda text: not set(text) <= {"/"})
times = st.one_of(st.none(), st.just(0), st.integers(NOW - 3000, NOW + 10))


@st.composite
def evidences(draw):
    paths = draw(st.lists(names.map(lambda name: f"{LOCATION}/{name}"), unique=True, max_size=12))
    listing = [ObjectInfo(path, 1, draw(times)) for path in paths]
    referenced = draw(st.lists(st.sampled_from(paths), unique=True)) if paths else []
    spelled = [draw(st.sampled_from(["s3", "s3a", "s3n"])) + path[2:] for path in referenced]
    known = {path: NOW - draw(st.integers(0, 9000)) for path in paths if draw(st.booleans())}
    known |= {f"{LOCATION}/gone": 1} if draw(st.booleans()) else {}
    return spelled, Evidence(
        location=LOCATION,
        listing=listing,
        references=References(spelled),
        must_be_listed=spelled,
        known=known,
    )


@given(evidences())
def test_only_what_is_unreferenced_old_and_marked_for_long_enough_is_deleted(made):
    spelled, evidence = made
    result = plan(evidence, AGES, JobSettings(max_unreferenced_share=1.0), NOW)
    assert isinstance(result, OrphanPlan)
    referenced = {"s3" + path.removeprefix("s3a").removeprefix("s3n").removeprefix("s3") for path in spelled}
    old = {info.path for info in evidence.listing if info.modified_ms and info.modified_ms < NOW - 1000}
    due = {path for path, seen in evidence.known.items() if seen <= NOW - 5000}
    assert {info.path for info in result.delete} == (old & due) - referenced
    assert {file.path for file in result.mark} == old - referenced - set(evidence.known)
    assert set(result.forget) == set(evidence.known) - (old - referenced)
    assert result.waiting == len((old & set(evidence.known)) - referenced - due)


@given(evidences(), st.sampled_from(["s3://b/t/missing", "s3a://b/t/x/missing"]))
def test_one_referenced_file_missing_from_the_listing_stops_everything(made, missing):
    _, evidence = made
    broken = Evidence(
        location=evidence.location,
        listing=evidence.listing,
        references=evidence.references,
        must_be_listed=[missing],
        known=evidence.known,
    )
    assert not isinstance(plan(broken, AGES, JobSettings(max_unreferenced_share=1.0), NOW), OrphanPlan)
