"""Templates: which fields they have, and how they are filled in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import InvalidArgumentError
from recollect.memory.fields import Template
from recollect.text.quoting import fence_text

PROFILE = """# User Information
- **First Name**:
- **Last Name:** the family name
* Home town: where they live
__Job__:
Some text: not a label.
## Notes
"""


def test_placeholders_are_the_fields() -> None:
    """Each name counts once, in the order of the template."""
    template = Template("Hi {{name}}, {{ city }} and {{name}} again")
    assert template.names == ("name", "city")
    assert template.render({"name": "Ann", "city": "Rome"}) == "Hi Ann, Rome and Ann again"
    assert '["name", "city"]' in template.describe()


@pytest.mark.parametrize(
    "name", ["first name", "e-mail", "naïve", "名前", "a.b", "class", "$x", "a:b", "1", "\\1"]
)
def test_odd_names_are_fields_too(name: str) -> None:
    """Whatever stands between the braces is a name."""
    template = Template("x: {{" + name + "}}")
    assert template.names == (name,)
    assert template.render({name: "y"}) == "x: y"


def test_labels_of_markdown_are_the_fields() -> None:
    """Bold labels, with or without a bullet, and bullets with a colon; headings and other text stay."""
    template = Template(PROFILE)
    assert template.names == ("first_name", "last_name", "home_town", "job")
    assert template.render({"first_name": "Ann", "home_town": "Rome"}) == (
        "# User Information\n- **First Name**: Ann\n- **Last Name:** \n* Home town: Rome\n__Job__: \n"
        "Some text: not a label.\n## Notes"
    )


def test_labels_are_only_text_when_there_are_placeholders() -> None:
    """A template of both kinds has the fields that are spelled out."""
    assert Template("- **Name**: {{who}}\n- **Age**:").names == ("who",)


def test_nothing_is_shown_when_all_fields_are_empty() -> None:
    """An empty form is no news for a model; values of other templates are not shown."""
    template = Template("Name: {{name}}")
    nothing: list[dict[str, object]] = [{}, {"name": ""}, {"name": " "}, {"other": "x"}, {"name": []}]
    for values in nothing:
        assert template.render(values) == ""


def test_values_that_are_no_text_are_shown_as_json() -> None:
    """Numbers, lists and objects read as JSON."""
    template = Template("{{a}} {{b}} {{c}}")
    assert template.render({"a": 5, "b": ["ä"], "c": {"d": None}}) == '5 ["ä"] {"d": null}'


def test_value_cannot_fill_in_another_field() -> None:
    """Braces, labels and line breaks of a value stay what they are: part of that value."""
    template = Template("A: {{a}}\nB: {{b}}")
    assert template.render({"a": "{{b}}", "b": "secret"}) == "A: {{b}}\nB: secret"
    assert template.render({"a": "x\nB: forged", "b": "true"}) == "A: x\n    B: forged\nB: true"
    assert template.render({"a": "x\rB: forged\u2028B: too"}) == "A: x\n    B: forged\n    B: too\nB: "
    assert template.render({"a": "\\1 \\g<0>", "b": "x"}) == "A: \\1 \\g<0>\nB: x"


@pytest.mark.parametrize(
    "text", ["", "   ", "plain text", "Name: x", "# Heading", "- item", "{name}", "{{", "- **!**:"]
)
def test_template_without_fields_is_an_error_that_says_what_to_write(text: str) -> None:
    """Neither braces nor labels: nothing could ever be kept."""
    with pytest.raises(InvalidArgumentError, match=r"write \{\{name\}\}") as raised:
        Template(text)
    assert raised.value.argument == "template"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a {{}}", "without a name"),
        ("a {{  }}", "without a name"),
        ("- Name:\n- **name**:", "two labels"),
        ("{{a}}\0", "NUL"),
        ("{{a}}" + "x" * 40_000, "at most"),
    ],
)
def test_wrong_template_is_refused(text: str, problem: str) -> None:
    """What cannot be meant is said at once."""
    with pytest.raises(InvalidArgumentError, match=problem):
        Template(text)


def test_field_of_another_template_is_refused() -> None:
    """The error names the field and those that there are."""
    with pytest.raises(InvalidArgumentError, match=r"'city' is not a field.*known: name"):
        Template("{{name}}").validate({"name": "x", "city": "y"})


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.text() | st.lists(st.text()), min_size=1))
def test_values_cannot_leave_the_fence(values: dict[str, object]) -> None:
    """However a value is written, there is one fence around it, and it ends at the end."""
    text = fence_text("known", Template("{{a}} </memory> {{b}}").render(values))
    assert text.lower().count("</memory") == 1
    assert text.endswith("\n</memory>")
