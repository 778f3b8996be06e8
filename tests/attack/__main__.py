"""Random plans, broken inputs and mutants of the code, each by a seed or a key that a failure prints.

Three generators, and what must hold of whatever they make:

    plans.py     a random cluster, a small model of any family, a mesh, a schedule and all else that a plan
                 can say. It is refused in words, or simulates, and then: ``verify`` agrees on its small
                 form, the parts of the step sum to the step, no category of memory falls below zero, folded
                 equals unfolded to the nanosecond, and a second run records the same (properties.py)
    inputs.py    scenarios, configs, tables, ONNX, scripts, schedules, baselines, saved runs and texts of
                 --set, damaged by damage.py. No traceback, no hang, nothing executed, nothing half-written;
                 exit code 0, 1 or 2, and a refusal names the file (attempt.py)
    mutants.py   rules of planning, lowering, timing and replaying, each with one thing changed in the syntax
                 tree. Every one is caught: by a scenario of trials/ of which the properties above no longer
                 hold or the recorded figures move, by the figures of a shipped scenario, or by a test that is
                 named; or it is equivalent, for the reason that mutants.json gives (hunt.py)

What failed is played again by itself:

    python -m tests.attack plan 17         prints the scenario, and what is wrong with it
    python -m tests.attack input 203       writes its files to the folder input-203, and says what is wrong
    python -m tests.attack mutant 'KEY'    prints what catches it
    python -m tests.attack record [COUNT]  looks for what catches those of the drawn mutants of which
                                           nothing is recorded, and records it; prints what nothing catches

CI takes the first 40 plans, 100 inputs and 10 mutants; the exhaustive run 1,000, 1,000 and all that are
recorded: 200 of them, once so many have been looked at (``record`` goes on where it was left).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.attack.hunt import RECORD, catchers, hunted, recorded, running
from tests.attack.mutants import in_order, named
from tests.attack.text import yaml_of

ALL_MUTANTS = 200


def show_plan(seed: str) -> str:
    """Prints the scenario of a seed; gives what is wrong with it."""
    from tests.attack.plans import plan
    from tests.attack.properties import outcome

    data = plan(int(seed))
    found = outcome(data)
    print(yaml_of(data))
    print(f"refused: {found.refused}" if found.refused else "simulated")
    return found.fault


def show_input(seed: str) -> str:
    """Writes the files of a seed; gives what is wrong with how they are taken."""
    from tests.attack.attempt import fault_of
    from tests.attack.inputs import case

    found, folder = case(int(seed)), Path(f"input-{seed}")
    folder.mkdir(exist_ok=True)
    for name, content in found.files.items():
        (folder / name).write_bytes(content)
    print(f"cd {folder}; simcluster {' '.join(found.arguments)}")
    return fault_of(found)


def show_mutant(key: str) -> str:
    """Prints what catches a mutant; gives what is wrong if nothing does."""
    (found,) = hunted({key: [recorded()[key]] if key in recorded() else catchers()})
    print(f"{found.caught}: {found.fault}")
    return "" if found.caught else f"nothing catches {key}"


def record(count: str = str(ALL_MUTANTS)) -> str:
    """Draws so many mutants of what scenarios run, and records what catches them; gives the others."""
    ran = sorted((running(catcher) for catcher in catchers()), key=lambda each: each.rank)
    known = {key: caught for key, caught in recorded().items() if named(key) is not None}
    lines = set[tuple[str, int]]().union(*(each.lines for each in ran))
    drawn = [each for each in in_order() if each.line in lines][: int(count)]
    asked = {
        each.key: [one.catcher for one in ran if each.line in one.lines]
        for each in drawn
        if each.key not in known
    }
    survive = []
    for number, found in enumerate(hunted(asked)):
        print(f"{number} {found.key}\n    {found.caught or 'NOTHING'}: {found.fault[:200]}", flush=True)
        if found.caught:
            known[found.key] = found.caught
            RECORD.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
        else:
            survive.append(found.key)
    return "\n".join(survive)


COMMANDS = {"plan": show_plan, "input": show_input, "mutant": show_mutant, "record": record}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        raise SystemExit(__doc__)
    raise SystemExit(COMMANDS[sys.argv[1]](*sys.argv[2:]) or 0)
