"""Loading problems: what is accepted, and what every mistake in the data says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.problems import DataSource, Problem, ProblemError, dataset_fingerprint, describe_source, load_problems

ROW = {"problem": "What is $1+1$?", "answer": "2", "unique_id": "a", "subject": "Algebra", "level": 3, "solution": "s"}


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MATHLETE_DATA", raising=False)


def row(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**ROW, **changes}.items() if value != "absent"}


def write(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in rows), encoding="utf-8")
    return path


def load(path: Path | str, **settings: Any) -> list[Problem]:
    return load_problems(DataSource(str(path), **settings))


def complaint(path: Path | str, **settings: Any) -> str:
    with pytest.raises(ProblemError) as caught:
        load(path, **settings)
    return str(caught.value)


# What is accepted


def test_a_row_becomes_a_problem(tmp_path: Path) -> None:
    assert load(write(tmp_path / "p.jsonl", ROW)) == [Problem("a", "What is $1+1$?", "2", "Algebra", 3, "s")]


@pytest.mark.parametrize(
    ("level", "read"),
    [
        (3, 3),
        ("3", 3),
        ("Level 3", 3),
        ("level 5", 5),
        (None, None),
        ("", None),
        ("Level ?", None),
        ("?", None),
        (3.0, 3),
    ],
)
def test_levels_are_read_in_every_usual_spelling(tmp_path: Path, level: Any, read: int | None) -> None:
    assert load(write(tmp_path / "p.jsonl", row(level=level)))[0].level == read


def test_numbers_are_accepted_as_answers_and_keep_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(
        '{"problem": "p", "answer": 0.10, "unique_id": 1}\n{"problem": "q", "answer": 12, "unique_id": 2}\n'
    )
    assert [(problem.id, problem.answer) for problem in load(path)] == [("1", "0.10"), ("2", "12")]


def test_columns_are_renamed(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", {"question": "q", "gold": "4", "key": "k", "answer": "not this"})
    columns = {"problem": "question", "answer": "gold", "id": "key"}
    assert load(path, columns=columns) == [Problem("k", "q", "4")]


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_column_without_a_name_is_left_out(tmp_path: Path, nothing: str | None) -> None:
    assert load(write(tmp_path / "p.jsonl", row(level="hard")), columns={"level": nothing})[0].level is None


def test_without_an_answer_column_answers_are_what_solutions_box(tmp_path: Path) -> None:
    rows = [row(answer="9", solution=r"So $\boxed{\frac{1}{2}}.$"), row(unique_id="b", solution="So it is 3.")]
    left_out: list[str] = []
    path = write(tmp_path / "p.jsonl", *rows)
    (problem,) = load_problems(DataSource(str(path), columns={"answer": ""}), left_out)
    assert problem.answer == r"\frac{1}{2}"
    assert left_out == ["line 2: answer is missing: the table has no column for it, and the solution boxes none"]
    assert left_out[0] in complaint(path, columns={"answer": ""})


def test_faulty_rows_may_be_left_out_with_their_reasons(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    rows = [row(), row(unique_id="b", answer=None), row(problem="other"), row(unique_id="d")]
    path.write_text("\n".join([json.dumps(rows[0]), '{"problem": ', *map(json.dumps, rows[1:])]))
    left_out: list[str] = []
    assert [problem.id for problem in load_problems(DataSource(str(path)), left_out)] == ["a", "d"]
    broken, no_answer, twice = left_out
    assert "p.jsonl:2: not valid JSON" in broken and "line 3: answer" in no_answer
    assert "the id 'a' stands on line 1, line 4" in twice


def test_a_table_of_nothing_but_faulty_rows_is_an_error_all_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", row(answer=""))
    with pytest.raises(ProblemError, match="line 1: answer"):
        load_problems(DataSource(str(path)), [])


def test_blank_lines_and_a_byte_order_mark_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\n\n  \n" + json.dumps(row(unique_id="b")).encode())
    assert [problem.id for problem in load(path)] == ["a", "b"]


def test_a_json_file_holds_one_list(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps([ROW, row(unique_id="b")], indent=1))
    assert [problem.id for problem in load(path)] == ["a", "b"]


def test_a_parquet_file_equals_the_jsonl_file(tmp_path: Path) -> None:
    from datasets import Dataset

    rows = [ROW, row(unique_id="b", level=None, subject=None)]
    Dataset.from_list(rows).to_parquet(tmp_path / "p.parquet")
    assert load(tmp_path / "p.parquet") == load(write(tmp_path / "p.jsonl", *rows))


def test_a_folder_laid_out_as_a_hub_dataset_has_splits(tmp_path: Path) -> None:
    write(tmp_path / "set" / "data" / "test.jsonl", ROW)
    write(tmp_path / "set" / "data" / "train.jsonl", row(unique_id="t"))
    assert [problem.id for problem in load(tmp_path / "set")] == ["a"]
    assert [problem.id for problem in load(tmp_path / "set", split="train")] == ["t"]
    assert "validation" in complaint(tmp_path / "set", split="validation")


# Ids


def test_a_table_without_ids_gets_them_from_the_texts(tmp_path: Path) -> None:
    rows = [row(unique_id="absent"), row(unique_id="absent", problem="another"), row(unique_id="absent")]
    ids = [problem.id for problem in load(write(tmp_path / "p.jsonl", *rows))]
    assert ids[2] == f"{ids[0]}-2" and len(set(ids)) == 3
    # The id of a text does not depend on its neighbours.
    assert [problem.id for problem in load(write(tmp_path / "q.jsonl", rows[1]))] == [ids[1]]


def test_identical_texts_with_ids_of_their_own_stay_apart(tmp_path: Path) -> None:
    assert len(load(write(tmp_path / "p.jsonl", ROW, row(unique_id="b")))) == 2


def test_duplicate_ids_are_an_error_that_names_both_lines(tmp_path: Path) -> None:
    text = complaint(write(tmp_path / "p.jsonl", ROW, row(unique_id="b"), row(problem="other")))
    assert "the id 'a' stands on line 1, line 3; ids must be unique" in text


def test_ids_missing_in_some_rows_are_an_error_that_names_them(tmp_path: Path) -> None:
    text = complaint(write(tmp_path / "p.jsonl", ROW, row(unique_id=None), row(unique_id="absent")))
    assert "line 2: id (column 'unique_id') is missing; give every row an id" in text
    assert "line 3: id" in text and 'data.columns.id=""' in text


# Mistakes in the data


def test_empty_problems_and_answers_are_named_together(tmp_path: Path) -> None:
    text = complaint(write(tmp_path / "p.jsonl", row(problem=" "), row(unique_id="b", answer=""), row(answer=None)))
    assert "line 1: problem (column 'problem') is empty; fill it in or remove the row" in text
    assert "line 2: answer (column 'answer') is empty" in text
    assert "line 3: answer (column 'answer') is missing" in text


def test_a_missing_column_is_named_once_with_a_suggestion_and_the_columns_found(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", {"problems": "q", "answer": "1"}, {"problems": "r", "answer": "1"})
    with pytest.raises(ProblemError) as caught:
        load(path)
    assert len(caught.value.messages) == 1
    assert "no column 'problem' for the field 'problem'; did you mean 'problems'?" in str(caught.value)
    assert "The columns found are: problems, answer." in str(caught.value)
    assert "columns.problem=<name>" in str(caught.value)


def test_an_optional_column_that_was_asked_for_must_exist(tmp_path: Path) -> None:
    text = complaint(write(tmp_path / "p.jsonl", ROW), columns={"subject": "subjct"})
    assert "no column 'subjct' for the field 'subject'; did you mean 'subject'?" in text


def test_a_field_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    text = complaint(write(tmp_path / "p.jsonl", ROW), columns={"anser": "x"})
    assert "columns.anser: a problem has no field 'anser'; did you mean 'answer'?" in text


def test_a_required_column_cannot_be_left_out(tmp_path: Path) -> None:
    assert "columns.problem: every table needs this column" in complaint(
        write(tmp_path / "p.jsonl", ROW), columns={"problem": None}
    )


def test_broken_json_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + '{"problem": "p", \n' + json.dumps(row(unique_id="b")) + "\n")
    assert "p.jsonl:2: not valid JSON:" in complaint(path)


def test_a_row_that_is_not_an_object_is_an_error(tmp_path: Path) -> None:
    text = complaint(write(tmp_path / "p.jsonl", ROW, ["a"], 3, None))
    assert 'p.jsonl:2: a row must be an object {"problem": …}, not a list' in text
    assert "p.jsonl:3" in text and "not a number" in text and "not null" in text


def test_bytes_that_are_not_utf8_name_line_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(json.dumps(ROW).encode() + b"\n" + '{"problem": "é"}'.encode("latin1") + b"\n")
    text = complaint(path)
    assert "p.jsonl:2: not UTF-8: byte 0xe9 at offset 13" in text and "iconv" in text


def test_half_a_surrogate_pair_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"problem": "\\ud83d", "answer": "1"}\n')
    assert "line 1: problem (column 'problem') holds half of a surrogate pair" in complaint(path)


@pytest.mark.parametrize("level", ["hard", 0, 6, 2.5, True])
def test_a_level_that_is_none_is_an_error_with_the_way_out(tmp_path: Path, level: Any) -> None:
    text = complaint(write(tmp_path / "p.jsonl", row(level=level)))
    assert "line 1: level (column 'level')" in text and 'data.columns.level=""' in text


@pytest.mark.parametrize("answer", [["2"], {"value": 2}, True])
def test_an_answer_that_is_no_text_is_an_error(tmp_path: Path, answer: Any) -> None:
    assert "line 1: answer (column 'answer') is a" in complaint(write(tmp_path / "p.jsonl", row(answer=answer)))


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    assert "it holds no rows" in complaint(write(tmp_path / "p.jsonl"))


def test_many_faults_show_ten_and_a_count(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", ROW, *(row(unique_id=str(n), answer="") for n in range(30)))
    with pytest.raises(ProblemError) as caught:
        load(path)
    assert len(caught.value.messages) == 30
    assert str(caught.value).count("is empty") == 10
    assert "… and 20 more (30 in all)" in str(caught.value)


def test_faults_of_reading_and_of_content_come_together(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("{\n" + json.dumps(ROW) + "\n" + json.dumps(ROW) + "\n" + json.dumps(row(answer="")) + "\n")
    text = complaint(path)
    assert "p.jsonl:1" in text and "line 2, line 3" in text and "line 4" in text


def test_a_missing_file_names_the_absolute_path_and_similar_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "math500.jsonl", ROW)
    monkeypatch.chdir(tmp_path)
    text = complaint("math50.jsonl")
    assert str(tmp_path / "math50.jsonl") in text
    assert "similar names there: math500.jsonl" in text and "MATHLETE_DATA" in text


def test_a_missing_folder_is_said_to_be_missing(tmp_path: Path) -> None:
    assert f"no folder {tmp_path / 'nowhere'} either" in complaint(tmp_path / "nowhere" / "p.jsonl")


def test_an_unknown_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("problem,answer\n")
    assert "files end in .jsonl, .json, .parquet, this one ends in '.csv'" in complaint(tmp_path / "p.csv")


def test_json_lines_in_a_json_file_are_pointed_out(tmp_path: Path) -> None:
    assert "must end in .jsonl" in complaint(write(tmp_path / "p.json", ROW, ROW))
    assert "must end in .jsonl" in complaint(write(tmp_path / "q.json", ROW))


def test_a_broken_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.parquet").write_bytes(b"PAR0 nothing")
    text = complaint(tmp_path / "p.parquet")
    assert str(tmp_path / "p.parquet") in text and "not a valid Parquet file" in text


def test_a_revision_of_a_local_file_is_refused(tmp_path: Path) -> None:
    text = complaint(write(tmp_path / "p.jsonl", ROW), revision="main")
    assert "revision and subset belong to datasets on the hub" in text


# Names of sources


def test_a_relative_name_is_looked_up_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "data" / "p.jsonl", ROW)
    monkeypatch.setenv("MATHLETE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    assert [problem.id for problem in load("p.jsonl")] == ["a"]
    assert describe_source(DataSource("p.jsonl")) == str(tmp_path / "data" / "p.jsonl")
    write(tmp_path / "p.jsonl", row(unique_id="nearer"))
    assert [problem.id for problem in load("p.jsonl")] == ["nearer"]


def test_math500_uses_the_local_copy_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "math500.jsonl", ROW)
    monkeypatch.setenv("MATHLETE_DATA", str(tmp_path))
    source = DataSource("HuggingFaceH4/MATH-500")
    assert [problem.id for problem in load_problems(source)] == ["a"]
    assert describe_source(source) == (
        f"HuggingFaceH4/MATH-500 (local copy {tmp_path / 'math500.jsonl'}, from MATHLETE_DATA)"
    )


def test_a_revision_that_was_asked_for_goes_to_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "math500.jsonl", ROW)
    monkeypatch.setenv("MATHLETE_DATA", str(tmp_path))
    source = DataSource("HuggingFaceH4/MATH-500", revision="abc")
    assert describe_source(source) == "HuggingFaceH4/MATH-500 (hub at revision abc, split test)"


def test_descriptions_of_the_other_sources() -> None:
    assert describe_source(DataSource("builtin:mini")) == "builtin:mini"
    assert describe_source(DataSource("owner/name", subset="main")) == "owner/name (hub, subset main, split test)"
    assert describe_source(DataSource("builtin:arithmetic", split="train", seed=3, count=10)) == (
        "builtin:arithmetic (train, seed 3, 10 problems, levels 1,2,3,4,5)"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("builtin:mimi", "the built-in sets are builtin:mini and builtin:arithmetic"),
        ("math500", "did you mean 'math500.jsonl'"),
        ("MATH-500 test", "no hub id (owner/name)"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(
    name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "math500.jsonl", ROW)
    monkeypatch.setenv("MATHLETE_DATA", str(tmp_path))
    assert hint in complaint(name)


def test_without_the_hub_the_error_names_the_id_and_two_ways_out() -> None:
    code = (
        "from pipelines.problems import DataSource, ProblemError, load_problems\n"
        "try: load_problems(DataSource('HuggingFaceH4/MATH-500'))\n"
        "except ProblemError as error: print(error)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code],
        env={"HF_HUB_OFFLINE": "1", "PYTHONPATH": ":".join(path for path in sys.path if path), "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "'HuggingFaceH4/MATH-500' cannot be loaded" in printed
    assert "the hub cannot be reached" in printed
    assert ".jsonl or .parquet file" in printed and "builtin:mini" in printed


# The package


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = (
        "import sys, pipelines.problems\n"
        "heavy = {'torch', 'transformers', 'datasets', 'ray', 'sympy', 'numpy', 'pyarrow', 'jinja2'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    env = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    printed = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_fingerprint_changes_with_order_and_with_every_field_that_is_graded() -> None:
    one, two = Problem("a", "p", "1"), Problem("b", "p", "1")
    known = dataset_fingerprint([one, two])
    assert known == dataset_fingerprint([Problem("a", "p", "1", subject="x", level=1, solution="s"), two])
    others = [
        [two, one],
        [one],
        [Problem("a", "p", "2"), two],
        [Problem("a", "q", "1"), two],
        [Problem("ap", "", "1"), two],
    ]
    assert len({known, *map(dataset_fingerprint, others)}) == 6
