from grading import equivalence_classes, majority_vote


def test_equivalent_answers_count_together():
    assert majority_vote(["3", r"\frac12", "0.5", "3", "1/2"]) == (r"\frac12", 0.6)


def test_missing_answers_do_not_vote_and_count_in_the_share():
    assert majority_vote(["3", None, None, None]) == ("3", 0.25)
    assert majority_vote([None, None]) == (None, 0.0)
    assert majority_vote([]) == (None, 0.0)


def test_the_first_seen_class_wins_a_tie():
    assert majority_vote(["2", "1", "1.0", "4/2"]) == ("2", 0.5)
    assert majority_vote(["1", "2", "4/2", "1.0"]) == ("1", 0.5)


def test_an_unreadable_answer_votes_for_its_own_spelling():
    assert majority_vote([r"\foo{1}", r"\foo{1}", "3"]) == (r"\foo{1}", 2 / 3)


def test_one_sided_leniency_does_not_join_classes():
    assert majority_vote(["28", r"28\%", "28"]) == ("28", 2 / 3)


def test_classes_are_a_partition_even_under_a_rule_that_is_not_transitive():
    def near(first, second):
        return abs(int(first) - int(second)) <= 1

    answers = ["1", "2", None, "3", "2", "4"]
    assert equivalence_classes(answers, near) == [(0, 1, 4), (3, 5)]


def test_a_tie_shows_in_the_classes():
    answers = ["2", "1", "1.0", "4/2", None]
    assert [len(members) for members in equivalence_classes(answers)] == [2, 2]
    assert majority_vote(answers) == ("2", 0.4)
