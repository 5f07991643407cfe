"""The target was failing before, or others move it: no task is blamed, nothing is lost, and all land in the end."""

from premises import Premises, await_file

TARGET = "forgepool/p"


def test_two_runs_on_one_target_land_all_and_each_reports_its_own(premises: Premises) -> None:
    names = ("alpha", "beta")
    said = {}
    plans = {
        name: premises.plan(
            {f"{name}-{number}": f"echo {number} > {name}-{number}.txt" for number in (1, 2, 3)},
            name=name,
            target="shared",
        ).rename(premises.folder / f"{name}.yaml")
        for name in names
    }
    first, second = (premises.going("run", plans[name], "--repo", premises.repo, "--json") for name in names)
    with first as one, second as two:
        said = dict(zip(names, (one.ended(), two.ended()), strict=True))
    landed = premises.landed("shared")
    assert sorted(landed) == [f"{name}-{number}" for name in names for number in (1, 2, 3)]
    assert premises.git("rev-list", "--first-parent", "--count", "main..shared") == "6"
    form = "--format=%H %(trailers:key=Forgepool-Run,valueonly,separator=)"
    history = dict(line.split() for line in premises.git("log", "--first-parent", form, "main..shared").splitlines())
    for name in names:
        assert said[name].status == 0, said[name]
        answer = said[name].answer
        assert {task["task"] for task in answer["tasks"]} == {f"{name}-{number}" for number in (1, 2, 3)}
        assert {history[task["commit"]] for task in answer["tasks"]} == {answer["run"]}
        assert {task["attempts"] for task in answer["tasks"]} == {1}


def test_a_foreign_push_is_composed_upon_and_kept(premises: Premises) -> None:
    """Another person's push during the run stays. A broken gate file in it pauses landing."""
    premises = premises.unconfined()
    go_on = premises.folder / "go-on"
    plan = premises.plan({"one": f"{await_file(go_on)}; echo 1 > one.txt"})
    with premises.going("run", plan, "--repo", premises.repo) as going:
        going.await_words("one: attempt 1 begins")
        foreign = premises.commit_on(TARGET, {"foreign.txt": "foreign\n", "forgepool.yaml": "version: one\n"})
        go_on.touch()
        said = going.ended()
    assert said.status == 1, said
    assert f"not landed yet, {TARGET} has moved to {foreign[:12]}" in said.out
    lines = [line for line in said.out.splitlines() if "forgepool.yaml:1:" in line]
    assert [f"landing is paused: {TARGET}:forgepool.yaml:1:" in line for line in lines] == [True, True], said.out
    assert lines[1].startswith("one "), "once as it happens, and once beside the task that waits"
    name = premises.run_name()
    mended = premises.commit_on(TARGET, {"forgepool.yaml": "version: 1\nchecks: {own: test -e foreign.txt}\n"})
    resumed = premises.forgepool("resume", name, "--json")
    assert resumed.status == 0, resumed
    (task,) = resumed.answer["tasks"]
    assert (task["phase"], task["attempts"]) == ("landed", 1)
    assert premises.landed() == ["one"]
    assert premises.git("rev-parse", f"{TARGET}^1") == mended
    assert {"foreign.txt", "one.txt"} <= set(premises.files())


def test_nobody_is_blamed_for_a_target_that_was_red(premises: Premises) -> None:
    premises.commit({"unsound": "red\n"})
    said = premises.run(premises.plan({"one": "echo 1 > one.txt", "two": "echo 2 > two.txt"}), "--json")
    assert said.status == 1, said
    assert said.answer["ending"] == "halted"
    assert set(said.outcomes().values()) == {"queued"}
    assert f"check 'sound' is red on {TARGET} itself" in said.err
    assert ": failed:" not in said.err and "returned" not in said.err
    name = premises.run_name()
    premises.git("clone", "-q", premises.repo, premises.folder / "mending", folder=premises.folder)
    mending = premises.folder / "mending"
    premises.git("checkout", "-q", "--detach", f"origin/{TARGET}", folder=mending)
    premises.git("rm", "-q", "unsound", folder=mending)
    premises.git("commit", "-q", "-m", "mended", folder=mending)
    premises.git("push", "-q", "origin", f"HEAD:refs/heads/{TARGET}", folder=mending)
    resumed = premises.forgepool("resume", name, "--json")
    assert resumed.status == 0, resumed
    assert {(task["phase"], task["attempts"]) for task in resumed.answer["tasks"]} == {("landed", 1)}
    assert sorted(premises.landed()) == ["one", "two"]
