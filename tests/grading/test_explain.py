from grading.explain import explain


def results(answer, gold):
    steps, verdict = explain(answer, gold)
    return {step.name: step.result for step in steps}, verdict


def test_each_step_is_shown_up_to_the_verdict():
    shown, verdict = results(r"so \boxed{\dfrac{2}{4}}.", "0.5")
    assert verdict.correct
    assert shown["answer, extracted"] == r"\dfrac{2}{4}  (boxed)"
    assert shown["answer, cleaned"] == r"\frac{2}{4}"
    assert shown["gold, read"].startswith("Quantity(value=1/2")
    assert shown["verdict"] == "correct: equal numbers"


def test_an_unreadable_answer_is_named():
    shown, verdict = results(r"\frac{", "2")
    assert not verdict.correct
    assert shown["answer, read"] == "not readable: missing operand"


def test_a_number_that_python_will_not_print_is_not_printed():
    shown, _ = results("2^{9000}", "3")
    assert "too long to show" in shown["answer, read"]
