"""How far a training run is."""

from pipelines.training.progress import TrainingProgress


def test_the_time_left_counts_the_steps_of_this_session_and_the_curve_those_of_all() -> None:
    now = [50.0]
    progress = TrainingProgress("a model", 10, lambda: now[0])
    progress.begin(4, [{"step": step, "reward/mean": step / 10, "time/step": 9.0} for step in (3, 4)], 0.25)
    assert progress.status("", [], {}).seconds_left is None
    for number in (5, 6):
        now[0] += 2.0
        progress.stepped(number, {"reward/mean": number / 10, "loss/policy": 0.01, "time/step": 1.5})
    status = progress.status("the learner is at work", [], {"correct": 3})
    assert status.seconds_left == 8.0
    assert status.curve == ("reward/mean", (0.3, 0.4, 0.5, 0.6))
    assert status.line() == (
        "6/10 steps, the learner is at work, reward 0.600, loss 0.0100, 1.5 s a step, last accuracy 25.0%, about 8 s left"
    )


def test_steps_that_are_taken_back_leave_the_curve() -> None:
    progress = TrainingProgress("a model", 10)
    progress.begin(0, [], None)
    for number in (1, 2, 3):
        progress.stepped(number, {"reward/mean": 1.0, "time/step": 1.0})
    progress.begin(1, [{"reward/mean": 1.0, "time/step": 1.0}, {"eval/accuracy": 0.5}], None)
    assert progress.done == 1
    assert progress.status("", [], {}).curve == ("reward/mean", (1.0,))
