"""Programs with an instruction changed."""

from __future__ import annotations

from dataclasses import replace


def with_instruction(program, code, index, changed):
    """The Program with one instruction changed."""
    instructions = list(program.codes[code].instructions)
    instructions[index] = changed
    return with_code(program, code, replace(program.codes[code], instructions=tuple(instructions)))


def with_code(program, code, changed):
    codes = list(program.codes)
    codes[code] = changed
    return replace(program, codes=tuple(codes))
