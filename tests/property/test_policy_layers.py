"""What is in force, over any documents: settled when set again, and changed by an override in that setting alone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from maintenance.policies import PolicyType, effective, explain, validate
from maintenance.setting_rules import SETTINGS, TWINS
from maintenance.table_properties import PROPERTIES
from table_format.errors import Invalid
from tests.unit.maintenance.test_setting_table import CASES, PROPERTY_CASES

LEVELS = ("bucket", "namespace a", "namespace a.b", "table")
KINDS = st.sampled_from(list(PolicyType))


def documents(kind):
    """Documents of a kind that pass validation, or none at that level."""
    chosen = {name: st.sampled_from(CASES[kind, name][:2]) for name in SETTINGS[kind]}
    given_settings = st.fixed_dictionaries({}, optional=chosen).map(_without_twins)
    status = {"status": st.sampled_from(["enabled", "disabled"])}
    document = st.fixed_dictionaries({"settings": given_settings}, optional=status)
    return st.one_of(st.just({}), document)


def _without_twins(chosen):
    return {
        name: value for name, value in chosen.items() if TWINS.get(name) not in chosen or name < TWINS[name]
    }


def properties(kind):
    texts = {
        name: st.sampled_from([PROPERTY_CASES[name][0], "nonsense"]) for name in PROPERTIES.get(kind, {})
    }
    return st.fixed_dictionaries({}, optional=texts)


def stacks():
    return KINDS.flatmap(
        lambda kind: st.tuples(st.just(kind), st.tuples(*[documents(kind)] * 4), properties(kind))
    )


def named(stack):
    return list(zip(LEVELS, stack, strict=True))


def values(explained):
    return {name: sourced.value for name, sourced in explained.settings.items()}


@settings(max_examples=80, deadline=None)
@given(stacks())
def test_what_is_in_force_set_as_the_tables_own_policy_changes_nothing(drawn):
    kind, stack, table_properties = drawn
    found = values(explain(kind, named(stack), table_properties))
    own = {"status": found.pop("status"), "settings": found}
    again = (*stack[:-1], own)
    assert values(explain(kind, named(again), table_properties)) == {"status": own["status"], **found}
    before, after = (effective(kind, layers, table_properties) for layers in (stack, again))
    # A policy that only the default switches off is off by name once it is written down.
    assert {
        name: getattr(before, name) for name in before.__dataclass_fields__ if name != "disabled_reason"
    } == {name: getattr(after, name) for name in after.__dataclass_fields__ if name != "disabled_reason"}
    assert before.enabled == after.enabled


@settings(max_examples=80, deadline=None)
@given(stacks(), st.integers(0, 3), st.data())
def test_an_override_changes_its_own_setting_and_only_where_nothing_nearer_says_it(drawn, level, data):
    kind, stack, table_properties = drawn
    setting = data.draw(st.sampled_from(sorted(SETTINGS[kind])))
    value = data.draw(st.sampled_from(CASES[kind, setting][:2]))
    document = stack[level] or {}
    kept = {name: v for name, v in document.get("settings", {}).items() if name != TWINS.get(setting)}
    changed = {**document, "settings": {**kept, setting: value}}
    before = explain(kind, named(stack), table_properties).settings
    after = explain(kind, named([*stack[:level], changed, *stack[level + 1 :]]), table_properties).settings
    # Of a level: the twin, which it replaces; and tiers, which were cut for another target.
    own = {setting, TWINS.get(setting)} | ({"tiers"} if setting == "targetFileSizeMB" else set())
    if setting == "days" and all("status" not in document for document in stack):
        own.add("status")  # rows expire where somebody says after how long, and nobody says whether
    assert {k: v for k, v in before.items() if k not in own} == {
        k: v for k, v in after.items() if k not in own
    }
    spoken = [name for name in (setting, TWINS.get(setting)) if name in before]
    source = before[spoken[0]].source if spoken else "default"
    nearer = source in LEVELS[level + 1 :] or (source.startswith("property") and level < 3)
    if nearer:
        assert [after.get(name) for name in (setting, TWINS.get(setting))] == [
            before.get(name) for name in (setting, TWINS.get(setting))
        ]
    elif setting != "tiers":
        assert (after[setting].value, after[setting].source) == (value, LEVELS[level])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def odd_documents(draw):
    """Documents that are nearly right: known names with odd values, and values that are right elsewhere."""
    kind = draw(KINDS)
    every = sorted({name for rules in SETTINGS.values() for name in rules})
    value = st.one_of(JSON, st.sampled_from([case[0] for case in CASES.values()]))
    chosen = draw(st.dictionaries(st.sampled_from(every) | st.text(max_size=8), value, max_size=3))
    status = draw(st.sampled_from(["enabled", "disabled"]) | JSON)
    return kind, draw(st.one_of(st.just({"status": status, "settings": chosen}), JSON))


def refusal(kind, document, allow_unsafe):
    try:
        return "", validate(kind, document, allow_unsafe=allow_unsafe)
    except Invalid as error:
        return error.message, None


@settings(max_examples=300, deadline=None)
@given(odd_documents(), st.booleans())
def test_any_document_is_refused_in_words_or_means_something(drawn, allow_unsafe):
    kind, document = drawn
    message, checked = refusal(kind, document, allow_unsafe)
    if checked is None:
        assert 0 < len(message) < 600
        return
    assert validate(kind, checked, allow_unsafe=allow_unsafe) == checked
    policy = effective(kind, [checked], {})
    if policy.quiet_hours is not None:
        assert policy.quiet_hours.until_ms(0) is None or policy.quiet_hours.until_ms(0) > 0
    if not allow_unsafe and kind is PolicyType.SNAPSHOTS:
        assert (policy.min_snapshots_to_keep > 0, policy.max_snapshot_age_ms >= 3_600_000) == (True, True)
