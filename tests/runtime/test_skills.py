"""Skills are read by name from their folder, and nothing else is."""

import os
from pathlib import Path

import pytest

from recollect import InvalidArgumentError
from recollect.runtime.skills import Skill, SkillFolder


@pytest.fixture
def folder(tmp_path: Path) -> SkillFolder:
    """A folder with two skills, and things that are none."""
    for name, text in {"sailing": "\ufeffReef early.\n", "cooking": "Salt late."}.items():
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(text, "utf-8")
    (tmp_path / "skills" / "empty").mkdir()
    (tmp_path / "SKILL.md").write_text("outside", "utf-8")
    return SkillFolder(tmp_path / "skills")


def test_skills_are_listed_and_read_once_each(folder: SkillFolder) -> None:
    """In the order in which they are asked for."""
    assert folder.names() == ["cooking", "sailing"]
    assert folder.read(["sailing", "cooking", "sailing"]) == [
        Skill("sailing", "\ufeffReef early.".lstrip("\ufeff")),
        Skill("cooking", "Salt late."),
    ]


@pytest.mark.parametrize(
    "name", ["flying", "..", ".", "../skills/sailing", "empty", "", 5, "sailing/../cooking"]
)
def test_an_unknown_skill_is_refused_with_those_that_there_are(folder: SkillFolder, name: object) -> None:
    """Nothing outside of the folder can be named."""
    with pytest.raises(InvalidArgumentError, match="is not a skill here; known: cooking, sailing"):
        folder.read([name])  # pyright: ignore[reportArgumentType] - what callers get wrong


def test_one_name_in_place_of_a_list_is_refused(folder: SkillFolder) -> None:
    """A text would be read letter by letter."""
    with pytest.raises(InvalidArgumentError, match=r"write \['sailing'\] for one"):
        folder.read("sailing")


def test_a_missing_folder_has_no_skills(tmp_path: Path) -> None:
    """It need not be there."""
    missing = SkillFolder(tmp_path / "nowhere")
    assert missing.names() == []
    with pytest.raises(InvalidArgumentError, match=r"known: none: there is no \*/SKILL.md in 'nowhere'"):
        missing.read(["sailing"])


@pytest.mark.parametrize(
    ("raw", "problem"),
    [(b"\xff", "cannot be read"), (b" \n", "is empty"), (b"x" * 300_000, "larger"), (b"a\0b", "NUL")],
)
def test_a_skill_that_is_no_text_is_refused(tmp_path: Path, raw: bytes, problem: str) -> None:
    """It is said before anything is asked."""
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "SKILL.md").write_bytes(raw)
    with pytest.raises(InvalidArgumentError, match=problem):
        SkillFolder(tmp_path).read(["odd"])


def test_a_skill_may_be_named_in_any_script(tmp_path: Path) -> None:
    """What cannot be named is not listed either."""
    for name in ("帆船", "my sailing", ".hidden", "a\nb", "x" * 101):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text("Reef early.", "utf-8")
    assert SkillFolder(tmp_path).names() == ["my sailing", "帆船"]
    assert SkillFolder(tmp_path).read(["帆船"]) == [Skill("帆船", "Reef early.")]


def test_links_and_what_is_no_file_do_no_harm(tmp_path: Path) -> None:
    """A link is followed, because the folder is its owner's; a loop, a pipe and a folder are no skills."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "SKILL.md").write_text("Salt late.", "utf-8")
    skills = tmp_path / "skills"
    for name in ("pipe", "loop", "folder"):
        (skills / name).mkdir(parents=True)
    (skills / "linked").symlink_to(tmp_path / "shared")
    (skills / "loop" / "SKILL.md").symlink_to(skills / "loop" / "SKILL.md")
    (skills / "folder" / "SKILL.md").mkdir()
    os.mkfifo(skills / "pipe" / "SKILL.md")
    assert SkillFolder(skills).names() == ["linked"]
    assert SkillFolder(skills).read(["linked"]) == [Skill("linked", "Salt late.")]
    assert SkillFolder(tmp_path / ("x" * 300)).names() == []
